"""The emulator: wave-instructions per second on an ALU loop, seconds of an f4gemm check, and of
aiter's attention.

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
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from coasm.codeobject import CodeObject, load
from coasm.emulator import Memory, launch
from coasm.launch import run
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


def attention(folder: Path) -> tuple[float, float]:
    """Seconds of attention with a batch of 1, 4 heads, 512 tokens, heads of 128, and its error."""
    heads, tokens, size = 4, 512, 128
    draw = np.random.default_rng(1)
    q, k, v = (draw.standard_normal((tokens, heads, size)).astype(bfloat16) for _ in "qkv")
    out = np.zeros((tokens, heads, size), np.uint16)
    token, head, batch = heads * size * 2, size * 2, tokens * heads * size * 2
    numbers = [tokens, token, 256 * token, head, batch, 1, token, head, batch, 5, 0, tokens, size]
    numbers += [size, heads, *(token, head, batch) * 2]
    arguments = [out, *(x.view(np.uint16) for x in (q, k, v)), None, np.float32(size**-0.5)]
    arguments += [*map(np.int32, numbers), None, None, np.int32(tokens * 4), None, None]
    co = load((folder / "MI308" / "fwd_hd128_bf16_rtne.co").read_bytes(), name="attention")
    start = time.perf_counter()
    given: dict[str | int, Any] = {16 * at: value for at, value in enumerate(arguments)}
    result = run(co, given, grid=(2, heads, 1), workgroup=512, backend="emulator")
    seconds = time.perf_counter() - start
    queries, keys, values = (x.astype(np.float64).transpose(1, 0, 2) for x in (q, k, v))
    parts = np.exp(queries @ keys.transpose(0, 2, 1) * size**-0.5)
    want = (parts / parts.sum(-1, keepdims=True) @ values).transpose(1, 0, 2)
    got = result.arrays["@0x0"].view(bfloat16).astype(np.float64)
    return seconds, float(np.abs(got - want).max())


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
    if corpus:
        seconds, error = attention(corpus / "gfx942" / "fmha_v3_fwd")
        print(
            f"attention, 4 heads of 128, 512 tokens: {seconds:.2f} s (wanted 20), error {error:g}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
