"""``python -m benchmarks [NAME...]``: the commands against what they cannot be faster than.

Needs ``COASM_CORPUS``, the folder of real objects (see docs/how-it-is-built.md). Exit status 1
where a limit is exceeded.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

import coasm
from benchmarks.measure import cpu_of_children, interleaved, ratios, run
from coasm.llvm import Llvm, find_llvm
from coasm.trips import collect

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
    """``coasm disasm`` of f4gemm 256x256 over llvm-objdump and llvm-mc: at most 2.2."""
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
        middle <= 2.2,
        "2.2",
    )


def bench_roundtrip(corpus: Path, llvm: Llvm) -> bool:
    """``coasm roundtrip`` over one llvm-objdump and one clang per object: at most 1.5 (CPU)."""
    paths = collect([str(corpus)])[:: int(os.environ.get("COASM_BENCH_EVERY", "1"))]
    with tempfile.TemporaryDirectory() as folder:
        commands = []
        for number, path in enumerate(paths):
            co = coasm.load(path)
            listing = f"{folder}/{number}.s"
            Path(listing).write_text(coasm.disassemble(co).text)
            version = f"-mcode-object-version={co.code_object_version}"
            flags = ["-target", "amdgcn-amd-amdhsa", f"-mcpu={co.target}", version]
            commands.append([llvm.objdump, "-d", path])
            commands.append(
                [llvm.clang, "-x", "assembler", *flags, listing, "-o", f"{folder}/o.co"]
            )

        def floor() -> None:
            for command in commands:
                run(command)

        below = cpu_of_children(floor)
        ours = cpu_of_children(lambda: run([*COASM, "roundtrip", *paths, "--json"]))
    print(f"  {len(paths)} objects: {ours:.1f} s CPU, the LLVM tools alone {below:.1f} s")
    ratio = ours / below
    return report(
        "coasm roundtrip over objdump and clang (CPU)", f"{ratio:.2f}", ratio <= 1.5, "1.5"
    )


BENCHMARKS = {"help": bench_help, "disasm": bench_disasm, "roundtrip": bench_roundtrip}


def report(what: str, figure: str, good: bool, limit: str) -> bool:
    """Print one result line; returns *good*."""
    print(f"{what}: {figure}, limit {limit}: {'ok' if good else 'EXCEEDED'}", flush=True)
    return good


def main() -> int:
    folder = os.environ.get("COASM_CORPUS")
    if not folder:
        print("COASM_CORPUS is not set: nothing to measure on")
        return 0
    names = sys.argv[1:] or list(BENCHMARKS)
    llvm = find_llvm()
    print(f"LLVM {'.'.join(map(str, llvm.version))}, Python {sys.version.split()[0]}")
    return 0 if all([BENCHMARKS[name](Path(folder), llvm) for name in names]) else 1


if __name__ == "__main__":
    sys.exit(main())
