"""``python -m benchmarks [NAME...]``: the commands against what they cannot be faster than.

Needs ``COASM_CORPUS``, the folder of real objects, and for ``hip`` ``COASM_HIP_WHEELS``, the folder
of libraries with compiled ones (see docs/how-it-is-built.md); what is not there is left out. Of the
objects every ``COASM_BENCH_EVERY``-th is taken. Exit status 1 where a limit is exceeded.

``python -m benchmarks random-c --programs N --seed S`` is none of these: see ``random_c.py``. Nor
is ``python -m benchmarks compilers``: see ``compilers.py``.
"""

from __future__ import annotations

import os
import shlex
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import coasm
from benchmarks.compilers import compilers
from benchmarks.lint_mutants import bench_lint_mutants
from benchmarks.measure import cpu_of_children, interleaved, ratios, run
from benchmarks.port import bench_port
from benchmarks.random_c import random_c
from coasm.asm.build import feature_list
from coasm.asm.source import declared
from coasm.bundle import extract, find
from coasm.llvm import Llvm, find_llvm
from coasm.llvm.run import assembler_command, clang_command
from coasm.trips import collect

T = TypeVar("T")

#: "With the interpreter itself": no console script, no shim.
COASM = [sys.executable, "-m", "coasm"]
ROUNDS = int(os.environ.get("COASM_BENCH_ROUNDS", "15"))


def bench_help(corpus: Path, llvm: Llvm) -> bool:
    """``coasm --help`` over ``python -c pass``: at most 0.1 s."""
    times = interleaved(
        {
            "coasm --help": lambda: run([*COASM, "--help"]),
            "python -c pass": lambda: run([sys.executable, "-c", "pass"]),
        },
        ROUNDS,
    )
    over = statistics.median(
        a - b for a, b in zip(times["coasm --help"], times["python -c pass"], strict=True)
    )
    return report("coasm --help over python -c pass", f"{over:.3f} s", over <= 0.1, "0.1 s")


def bench_disasm(corpus: Path, llvm: Llvm) -> bool:
    """``coasm disasm`` of f4gemm 256x256 over llvm-objdump and llvm-mc: at most 2.6."""
    path = corpus / "gfx950/f4gemm/f4gemm_bf16_per1x32Fp4_BpreShuffle_256x256.co"
    assert llvm.mc is not None, "the benchmark needs llvm-mc"
    with tempfile.TemporaryDirectory() as folder:
        listing, result = f"{folder}/k.s", f"{folder}/k.o"
        Path(listing).write_text(coasm.disassemble(path).text)
        floor = [
            llvm.mc,
            *("-triple=amdgcn-amd-amdhsa", "-mcpu=gfx950", "--amdhsa-code-object-version=6"),
            *("-filetype=obj", listing, "-o", result),
        ]
        times = interleaved(
            {
                "coasm disasm": lambda: run(
                    [*COASM, "disasm", str(path), "-o", f"{folder}/o.s", "-f"]
                ),
                "llvm-objdump": lambda: run([llvm.objdump, "-d", str(path)]),
                "llvm-mc": lambda: run(floor),
            },
            ROUNDS,
        )
    for name, values in times.items():
        print(f"  {name}: {statistics.median(values):.3f} s")
    both = [a + b for a, b in zip(times["llvm-objdump"], times["llvm-mc"], strict=True)]
    low, middle, high = ratios(times["coasm disasm"], both)
    return report(
        "coasm disasm over llvm-objdump -d and llvm-mc",
        f"{middle:.2f} ({low:.2f} to {high:.2f})",
        middle <= 2.6,
        "2.6",
    )


def bench_asm(corpus: Path, llvm: Llvm) -> bool:
    """``coasm asm`` of f4gemm 256x256 over clang, which assembles and links: at most 1.5."""
    path = corpus / "gfx950/f4gemm/f4gemm_bf16_per1x32Fp4_BpreShuffle_256x256.co"
    with tempfile.TemporaryDirectory() as folder:
        listing = f"{folder}/k.s"
        Path(listing).write_text(coasm.disassemble(path).text)
        clang = [
            llvm.clang,
            *("-x", "assembler", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx950"),
            *("-mcode-object-version=6", listing, "-o", f"{folder}/c.co"),
        ]
        times = interleaved(
            {
                "coasm asm": lambda: run([*COASM, "asm", listing, "-o", f"{folder}/k.co", "-f"]),
                "clang": lambda: run(clang),
            },
            ROUNDS,
        )
    for name, values in times.items():
        print(f"  {name}: {statistics.median(values):.3f} s")
    low, middle, high = ratios(times["coasm asm"], times["clang"])
    figure = f"{middle:.2f} ({low:.2f} to {high:.2f})"
    return report("coasm asm over clang", figure, middle <= 1.5, "1.5")


def bench_roundtrip(corpus: Path, llvm: Llvm) -> bool:
    """``coasm roundtrip`` over one llvm-objdump and one clang per object: at most 1.5 (CPU)."""
    return trips_over_tools(sampled(collect([str(corpus)]), 1), llvm, "objects")


def bench_hip(wheels: Path, llvm: Llvm) -> bool:
    """The same of compiled objects, by default of a sample of them: at most 1.5 (CPU)."""
    entries = [entry for path in sorted(wheels.glob("*.so")) for entry in find(str(path))]
    entries = [entry for entry in entries if entry.target.startswith("gfx")]
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, entry in enumerate(sampled(entries, 12)):
            paths.append(f"{folder}/{number}.co")
            Path(paths[-1]).write_bytes(extract(entry))
        return trips_over_tools(paths, llvm, "compiled HIP objects")


def sampled(every: Sequence[T], step: int) -> Sequence[T]:
    """Every *step*-th, or as the environment says."""
    return every[:: int(os.environ.get("COASM_BENCH_EVERY", step))]


def trips_over_tools(paths: Sequence[str], llvm: Llvm, what: str) -> bool:
    """CPU of ``coasm roundtrip`` over that of the LLVM tools alone, which run before and after."""
    with tempfile.TemporaryDirectory() as folder:
        commands = []
        for number, path in enumerate(paths):
            commands.append([llvm.objdump, "-d", path])
            commands += assembling(llvm, coasm.disassemble(path).text, f"{folder}/{number}.s")

        def floor() -> None:
            for command in commands:
                run(command)

        before = cpu_of_children(floor)
        ours = cpu_of_children(lambda: run([*COASM, "roundtrip", *paths, "--json"]))
        below = (before + cpu_of_children(floor)) / 2
    print(f"  {len(paths)} {what}: {ours:.1f} s CPU, the LLVM tools alone {below:.1f} s")
    ratio = ours / below
    return report(
        f"coasm roundtrip of {what} over objdump and clang (CPU)",
        f"{ratio:.2f}",
        ratio <= 1.5,
        "1.5",
    )


def assembling(llvm: Llvm, text: str, path: str) -> list[list[str]]:
    """Write a listing to *path*; the fewest commands that assemble and link it."""
    Path(path).write_text(text, "utf-8", "surrogateescape")
    made, linked = f"{path}.o", f"{path}.co"
    said = declared(text)
    target, version = said.target, said.code_object_version
    plain = clang_command(path, linked, target, version, said.features)
    if plain is not None:
        return [[llvm.clang, *shlex.split(plain)[1:]]]
    assert llvm.mc is not None, "the benchmark needs llvm-mc"
    mattr = ",".join(feature_list(said))
    return [
        [*assembler_command(llvm, target, version, mattr), made, path],
        [llvm.lld, "--no-undefined", "-shared", made, "-o", linked],
    ]


#: What is measured, and the variable that names the folder which it needs.
BENCHMARKS = {
    "help": (bench_help, "COASM_CORPUS"),
    "disasm": (bench_disasm, "COASM_CORPUS"),
    "asm": (bench_asm, "COASM_CORPUS"),
    "roundtrip": (bench_roundtrip, "COASM_CORPUS"),
    "hip": (bench_hip, "COASM_HIP_WHEELS"),
    "lint-mutants": (bench_lint_mutants, "COASM_CORPUS"),
    "port": (bench_port, "COASM_CORPUS"),
}


def report(what: str, figure: str, good: bool, limit: str) -> bool:
    """Print one result line; returns *good*."""
    print(f"{what}: {figure}, limit {limit}: {'ok' if good else 'EXCEEDED'}", flush=True)
    return good


def main() -> int:
    llvm = find_llvm()
    print(f"LLVM {'.'.join(map(str, llvm.version))}, Python {sys.version.split()[0]}")
    if sys.argv[1:2] == ["random-c"]:
        return 0 if random_c(sys.argv[2:], llvm) else 1
    if sys.argv[1:2] == ["compilers"]:
        return 0 if compilers(sys.argv[2:], llvm) else 1
    good = True
    for name in sys.argv[1:] or BENCHMARKS:
        measure, variable = BENCHMARKS[name]
        folder = os.environ.get(variable)
        if folder:
            good &= measure(Path(folder), llvm)
        else:
            print(f"{variable} is not set: {name} is left out")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
