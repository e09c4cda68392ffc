"""Runs one kernel on the emulator: arguments from Python values, buffers from NumPy arrays."""

from __future__ import annotations

import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from coasm.codeobject import CodeObject, load
from coasm.emulator import Memory, Options, Outcome, launch
from coasm.llvm import Llvm

HERE = Path(__file__).parent

_METADATA = """
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_next_free_vgpr {vgprs}
  .amdhsa_next_free_sgpr 96
  .amdhsa_accum_offset {offset}
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_kernarg_size 64
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_system_vgpr_workitem_id 0
{directives}
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--{target}
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .args: []
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: 0
    .kernarg_segment_size: 64
    .kernarg_segment_align: 8
    .max_flat_workgroup_size: 1024
    .sgpr_count: 96
    .vgpr_count: {vgprs}
    .wavefront_size: 64
...
.end_amdgpu_metadata
"""


def compile_source(llvm: Llvm, source: str, target: str, *options: str) -> CodeObject:
    """A code object from OpenCL C, or from assembler text (``-x assembler``)."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.co")
        command = [
            llvm.clang,
            *options,
            "-target",
            "amdgcn-amd-amdhsa",
            f"-mcpu={target}",
            "-nogpulib",
            "-",
            "-o",
            str(out),
        ]
        done = subprocess.run(
            command, input=source, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return load(out.read_bytes(), name="test.co")


def assemble(
    llvm: Llvm,
    body: str,
    target: str = "gfx950",
    *,
    lds: int = 0,
    vgprs: int = 128,
    offset: int = 64,
    directives: str = "",
    flags: tuple[str, ...] = (),
) -> CodeObject:
    """A code object with one kernel ``k`` of these instructions; s[0:1] points to its arguments."""
    text = f".text\n.globl k\n.p2align 8\n.type k,@function\nk:\n{body}\n"
    text += _METADATA.format(
        vgprs=vgprs, offset=offset, lds=lds, directives=directives, target=target
    )
    return compile_source(llvm, text, target, "-x", "assembler", *flags)


@cache
def opencl(llvm: Llvm, target: str, level: str, *more: str) -> CodeObject:
    """The kernels of ``kernels.cl``."""
    source = (HERE / "kernels.cl").read_text(encoding="utf-8")
    options = ("-x", "cl", "-cl-std=CL2.0", f"-O{level}", "-Xclang", "-finclude-default-header")
    options += more
    return compile_source(llvm, source, target, *options)


def run(
    llvm: Llvm,
    co: CodeObject,
    name: str,
    arguments: list[Any],
    *,
    grid: tuple[int, int, int] = (1, 1, 1),
    workgroup: int = 64,
    options: Options | None = None,
) -> Outcome:
    """Launch a kernel. Arrays become buffers, and hold afterwards what the kernel left in them."""
    memory = Memory()
    block = b""
    buffers = []
    for at, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
            address = memory.allocate(argument.nbytes, f"argument {at}", argument)
            buffers.append((address, argument))
            block += bytes(-len(block) % 8) + struct.pack("<Q", address)
        else:
            block += struct.pack("<f" if isinstance(argument, float) else "<i", argument)
    kernel = next(k for k in co.kernels if k.name == name)
    outcome = launch(
        co,
        kernel,
        grid=grid,
        workgroup=(workgroup, 1, 1),
        kernarg=block,
        memory=memory,
        llvm=llvm,
        options=options or Options(),
    )
    for address, argument in buffers:
        argument.reshape(-1).view(np.uint8)[:] = memory.view(address)
    return outcome
