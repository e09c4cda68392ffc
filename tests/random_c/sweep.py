"""Many random programs, in batches: each for the host, and for a GPU at two optimization levels."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from coasm.llvm import Llvm
from tests.random_c.compare import (
    Build,
    CompileError,
    Refusal,
    compile_gpu,
    compile_host,
    differences,
    inputs,
    run_gpu,
    run_host,
)
from tests.random_c.generate import Program, generate
from tests.random_c.reduce import reduce

__all__ = ["BATCH", "Tally", "batch", "reduced"]

#: Programs of a translation unit.
BATCH = 6


@dataclass
class Tally:
    """What came of programs: counts, differences as lines, refusals by instruction.

    ``uncompiled``: translation units that clang itself does not compile, by what for. ``different``
    are the programs behind ``differences``, each with how it was compiled.
    """

    programs: int = 0
    runs: int = 0
    differences: list[str] = field(default_factory=list)
    different: list[tuple[Program, Build]] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    messages: list[str] = field(default_factory=list)
    uncompiled: Counter[str] = field(default_factory=Counter)


def batch(
    llvm: Llvm, seed: int, number: int, tally: Tally, write: Callable[[str], object] | None = None
) -> None:
    """Run batch *number* of *seed*, and add what came of it; *write* gets each finding's line."""
    rng = random.Random(f"{seed}/{number}")
    opencl, target = rng.random() < 0.5, rng.choice(("gfx942", "gfx950"))
    first = number * BATCH
    programs = [generate(seed, first + at, target, opencl) for at in range(BATCH)]
    more = ("-munsafe-fp-atomics",) if rng.random() < 0.3 else ()
    levels = "-O0", rng.choice(("-O1", "-O2", "-O3"))
    builds = [Build(target, level, opencl, more) for level in levels]
    if rng.random() < 0.15:
        builds.append(Build(target, "-O1", opencl, ("-mllvm", "-global-isel")))
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        try:
            library = compile_host(llvm, programs, opencl, Path(folder))
        except CompileError:
            tally.uncompiled["host"] += 1
            return
        cases = []
        for program in programs:
            data, slots = inputs(program, seed)
            cases.append((program, data, slots, run_host(library, program, data, slots)))
        tally.programs += len(programs)
        for build in builds:
            try:
                co = compile_gpu(llvm, programs, build)
            except CompileError:
                tally.uncompiled[str(build)] += 1
                continue
            for program, data, slots, wanted in cases:
                got = run_gpu(llvm, co, program, data, slots)
                tally.runs += 1
                _add(tally, seed, build, program, wanted, got, write)


def _add(
    tally: Tally,
    seed: int,
    build: Build,
    program: Program,
    wanted: np.ndarray,
    got: np.ndarray | Refusal,
    write: Callable[[str], object] | None,
) -> None:
    which = f"seed {seed}, program {program.number}, {build}"
    if isinstance(got, Refusal):
        tally.refusals[got.instruction] += 1
        line = f"refused: {which}: {got.message}"
        tally.messages.append(line)
    else:
        found = differences(program, wanted, got)
        if not found:
            return
        shown = "; ".join(
            f"{d.variable} in {d.count} work-items, first {d.item}: host {d.host}, GPU {d.gpu}"
            for d in found[:3]
        )
        line = f"different: {which}: {shown}"
        tally.differences.append(line)
        tally.different.append((program, build))
    if write is not None:
        write(line)


def reduced(llvm: Llvm, seed: int, program: Program, build: Build) -> str:
    """The text of *program*, which came out otherwise, without what does not matter."""
    data, slots = inputs(program, seed)

    def shows(candidate: Program) -> bool:
        with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
            try:
                library = compile_host(llvm, [candidate], build.opencl, Path(folder))
                co = compile_gpu(llvm, [candidate], build)
            except CompileError:
                return False
            got = run_gpu(llvm, co, candidate, data, slots)
            if isinstance(got, Refusal):
                return False
            return bool(differences(candidate, run_host(library, candidate, data, slots), got))

    return reduce(program, shows).text()
