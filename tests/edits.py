"""Compiled fixtures, and an edit that moves everything: an ``s_nop`` in every basic block."""

from __future__ import annotations

import subprocess
from pathlib import Path

from coasm.llvm import Llvm

__all__ = ["compile_fixture", "with_nops"]

_SOURCES = Path(__file__).parent / "fixtures"
_HIP = ("--offload-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc")


def compile_fixture(
    llvm: Llvm, folder: Path, source: str, target: str, flags: tuple[str, ...]
) -> Path:
    """The code object of ``compiled.cl`` or ``compiled.hip``, as a file in *folder*."""
    out = folder / "compiled.co"
    if source.endswith(".cl"):
        language = ["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa"]
        command = [*language, f"-mcpu={target}", "-nogpulib", "-w"]
    else:
        command = ["-x", "hip", f"--offload-arch={target}", *_HIP]
    subprocess.run(
        [llvm.clang, *command, *flags, str(_SOURCES / source), "-o", str(out)],
        check=True,
        capture_output=True,
    )
    return out


def with_nops(text: str) -> tuple[str, int]:
    """A listing with an ``s_nop`` at the start of every basic block, and how many there are."""
    result: list[str] = []
    count, code = 0, False
    for line in text.split("\n"):
        if line.startswith(("\t.text", "\t.section", "\t.amdgpu_metadata")):
            code = line == "\t.text"
        result.append(line)
        stripped = line.split("//")[0]
        block = stripped.rstrip().endswith(":") and not stripped.startswith(".Lend")
        branch = stripped.startswith(("\ts_branch", "\ts_cbranch"))
        if code and (block or branch):
            result.append("\ts_nop 0")
            count += 1
    return "\n".join(result), count
