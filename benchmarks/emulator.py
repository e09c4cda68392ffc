"""The emulator: wave-instructions per second on an ALU loop, seconds of one f4gemm check.

As a script: ``python -m benchmarks.emulator [valu.s] [f4gemm folder]``. Without arguments the
files are looked for beside ``COASM_CORPUS``; what is not there is left out, saying so.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from coasm.codeobject import CodeObject, load
from coasm.emulator import Memory, launch
from coasm.llvm import Llvm, find_llvm

#: Waves of the ALU loop and the wave-instructions per second that are wanted.
LOOPS = ((1, 0.15e6), (64, 5e6), (1024, 15e6))


def assemble(llvm: Llvm, source: Path, processor: str) -> CodeObject:
    """The code object of one assembler source."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.co")
        command = [llvm.clang, "-x", "assembler", "-target", "amdgcn-amd-amdhsa"]
        subprocess.run([*command, f"-mcpu={processor}", str(source), "-o", str(out)], check=True)
        return load(out.read_bytes(), name=source.name)


def alu_loop(llvm: Llvm, co: CodeObject, waves: int, repeats: int = 3) -> float:
    """Wave-instructions per second: the best of some runs."""
    best = 0.0
    for _ in range(repeats):
        memory = Memory()
        out = memory.allocate(waves * 256 + 4096, "out")
        size = min(waves, 4)
        start = time.perf_counter()
        outcome = launch(
            co,
            co.kernels[0],
            grid=(waves // size, 1, 1),
            workgroup=(64 * size, 1, 1),
            kernarg=struct.pack("<Q", out),
            memory=memory,
            llvm=llvm,
        )
        best = max(best, outcome.wave_instructions / (time.perf_counter() - start))
    return best


def f4gemm_check(llvm: Llvm, folder: Path) -> tuple[float, float]:
    """Seconds of one check of the 256x256 kernel at M=300 N=2048 K=1024, and its error."""
    from tests.emulator.f4gemm import multiply

    co = load(folder / "f4gemm_bf16_per1x32Fp4_BpreShuffle_256x256.co")
    start = time.perf_counter()
    result = multiply(llvm, co, (256, 256), 300, 2048, 1024)
    return time.perf_counter() - start, result.relative


def main(arguments: list[str]) -> int:
    root = os.environ.get("COASM_CORPUS")
    corpus = Path(root) if root else None
    loop = Path(arguments[0]) if arguments else corpus and corpus.parent / "bench" / "valu.s"
    folder = Path(arguments[1]) if len(arguments) > 1 else corpus and corpus / "gfx950" / "f4gemm"
    llvm = find_llvm(processor="gfx950")
    if loop and loop.is_file():
        co = assemble(llvm, loop, "gfx950")
        for waves, wanted in LOOPS:
            speed = alu_loop(llvm, co, waves)
            print(f"ALU loop, {waves:5} waves: {speed / 1e6:7.2f} M/s (wanted {wanted / 1e6:g})")
    else:
        print("no ALU loop: name the file, or set COASM_CORPUS")
    if folder and folder.is_dir():
        seconds, error = f4gemm_check(llvm, folder)
        print(f"f4gemm 256x256 M=300 N=2048 K=1024: {seconds:.2f} s (wanted 2), error {error:.6f}")
    else:
        print("no f4gemm kernels: name their folder, or set COASM_CORPUS")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
