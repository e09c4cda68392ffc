"""Mutants of compiled code on every generation: how many of them ``coasm lint`` catches.

What a compiler put between two instructions so that the hardware keeps them apart, an ``s_nop``, a
``v_nop`` or a wait on what is on its way in the wave, is left out, or another one is. Whether that
breaks a rule says LLVM's own ``post-RA-hazard-rec`` of the straight code around it, as machine
IR; nothing of it is lint's. As a script: ``python -m benchmarks.hazard_mutants FILE...``.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from coasm.isa import SCC, access, parse
from coasm.isa.flow import flow_of
from coasm.isa.kinds import is_a
from coasm.linter.program import Program, meant
from coasm.linter.rereads import rereads
from coasm.linter.sources import open_source
from coasm.linter.states import violations
from coasm.llvm import Llvm, find_llvm
from coasm.target import relative
from tests.linter.mir import Blocks, lintable, put_in, with_ir

__all__ = ["Tally", "hazard_mutants", "judged"]

#: Instructions before and behind the one that is left out; how many mutants of an object.
_BEFORE, _BEHIND, _OF_ONE = 40, 12, 120
#: One of so many leaves out what no compiler put there.
_OTHERS = 3
#: So many instructions ahead of one LLVM looks for what wrote its scalars.
_NEAR = 6
_PASSES = ("post-RA-hazard-rec", "amdgpu-wait-sgpr-hazards")
_KEEPS_APART = ("nop", "vector nop", "wait on a wave")


class Tally(NamedTuple):
    """By rule and target: how many mutants break it, and how many of them lint finds.

    ``missed`` are the programs that it does not.
    """

    broken: Counter[str]
    caught: Counter[str]
    missed: list[tuple[str, Sequence[str]]]


def hazard_mutants(program: Program, llvm: Llvm, seed: int = 1) -> list[list[str]]:
    """Straight code of *program* with one instruction left out, that LLVM has machine IR for."""
    rng = random.Random(f"{program.co.name} {seed}")
    blocks = list(program.blocks)
    rng.shuffle(blocks)
    blocks.sort(
        key=lambda block: (
            not any(
                _keeps_apart(program.instructions[at].text) for at in range(block.first, block.last)
            )
        )
    )
    windows: list[list[str]] = []
    for block in blocks:
        if len(windows) >= _OF_ONE:
            break
        texts = [meant(program.instructions[at]) for at in range(block.first, block.last)]
        apart = [at for at, text in enumerate(texts) if _keeps_apart(text)]
        others = rng.sample(range(len(texts)), min(len(apart) // _OTHERS + 1, len(texts)))
        for at in (*apart, *others):
            low, high = max(at - _BEFORE, 0), min(at + _BEHIND, len(texts))
            window = [*texts[low:at], *texts[at + 1 : high]]
            windows.append([text for text in window if " :: " not in text and _falls(text)])
    texts = sorted({text for window in windows for text in window})
    known = with_ir(texts, relative(program.co.target.name), llvm)
    return [left for window in windows if (left := [text for text in window if text in known])]


def _keeps_apart(text: str) -> bool:
    name = text.split(" ")[0]
    return any(is_a(name, kind) for kind in _KEEPS_APART)


def _falls(text: str) -> bool:
    """Whether what comes next in memory is executed next.

    Left out are transcendentals into SGPRs, too, which LLVM 22 looks for behind a scalar
    instruction that has written the same SGPR since.
    """
    return flow_of(text.split(" ")[0]) is None and not text.startswith("v_s_")


def _written_since(texts: Sequence[str], program: Program) -> bool:
    """Whether a scalar instruction ahead writes a scalar that the last of *texts* reads."""
    *ahead, last = (access(parse(text), program.family.instructions) for text in texts)
    scalar = [one for one, text in zip(ahead, texts, strict=False) if is_a(text, "scalar")]
    written = {number for one in scalar for number in one.writes if number < SCC}
    return not last.reads.isdisjoint(written)


def judged(windows: Sequence[list[str]], target: str, llvm: Llvm) -> Tally:
    """Both verdicts on straight code."""
    programs: list[Blocks] = [[window] for window in windows]
    program, places = lintable(programs, target, llvm)
    found = {places[one.consumer] for one in violations(program, repair=True)}
    found |= {places[one.consumer] for one in rereads(program)}
    tally = Tally(Counter(), Counter(), [])
    for what in _PASSES:
        for number, before in enumerate(put_in(programs, target, llvm, what)):
            for place, lines in before.items():
                at = place[2]
                if at and programs[number][0][at - 1].startswith("v_pk_"):
                    continue  # LLVM 22 takes their op_sel_hi for a write of a half
                near = programs[number][0][max(at - _NEAR, 0) : at + 1]
                if lines[0].startswith("S_NOP") and _written_since(near, program):
                    continue  # LLVM 22 looks for what a VALU wrote behind a scalar write, too
                key = f"{target} {lines[0].rpartition(' = ')[2].split()[0]}"
                tally.broken[key] += 1
                if place in found:
                    tally.caught[key] += 1
                else:
                    tally.missed.append((key, programs[number][0][: place[2] + 1]))
    return tally


def main(files: Sequence[str]) -> int:
    """Print by target and by what LLVM puts in; 1 where fewer than 99 of 100 are caught."""
    llvm = find_llvm()
    broken: Counter[str] = Counter()
    caught: Counter[str] = Counter()
    for file in files:
        source = open_source(file)
        windows = list(hazard_mutants(source.program, llvm))
        if not windows:
            continue
        tally = judged(windows, relative(source.program.co.target.name), llvm)
        broken += tally.broken
        caught += tally.caught
        for key, lines in tally.missed[:3]:
            print(f"missed: {key}: {'; '.join(lines[-8:])}")
    for key in sorted(broken):
        print(f"{key:32} {caught[key]:5} of {broken[key]:5}")
    total = broken.total()
    print(f"{caught.total()} of {total} found")
    return 0 if caught.total() >= 0.99 * total else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
