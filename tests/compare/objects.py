"""Small code objects that are built here, and copies of them with a few bytes changed."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path

from coasm.codeobject import CodeObject, load
from coasm.compare import Report
from coasm.llvm.find import Llvm

KERNEL_METADATA = """\
  - .name: {name}
    .symbol: {name}.kd
    .kernarg_segment_size: 24
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: {wave}
    .sgpr_count: 24
    .vgpr_count: 16
    .max_flat_workgroup_size: 256
    .uses_dynamic_stack: false
    .args:
      - {{ .name: out, .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global }}
      - {{ .name: count, .size: 4, .offset: 8, .value_kind: by_value }}
"""


def source(
    bodies: dict[str, str], target: str = "gfx942", rodata: str = "", metadata: str | None = None
) -> str:
    """A listing with one kernel for each entry of *bodies*: name → instructions."""
    text = "\t.text\n"
    for name, body in bodies.items():
        text += f"\t.globl {name}\n\t.p2align 8\n\t.type {name},@function\n{name}:\n{body}\n"
    text += '\t.section .rodata,"a",@progbits\n'
    for name in bodies:
        accum = "" if target.startswith(("gfx1", "gfx8")) else ".amdhsa_accum_offset 16"
        text += f"""\
\t.p2align 6, 0
\t.amdhsa_kernel {name}
\t\t.amdhsa_next_free_vgpr 16
\t\t.amdhsa_next_free_sgpr 16
\t\t.amdhsa_kernarg_size 24
\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t\t{accum}
\t.end_amdhsa_kernel
"""
    text += rodata
    if metadata is None:
        wave = 32 if target.startswith("gfx1") else 64
        kernels = "".join(KERNEL_METADATA.format(name=name, wave=wave) for name in bodies)
        metadata = f"amdhsa.version: [ 1, 2 ]\namdhsa.kernels:\n{kernels}"
    if metadata:
        text += f"\t.amdgpu_metadata\n---\n{metadata}...\n\t.end_amdgpu_metadata\n"
    return text


@cache
def _build(clang: str, text: str, target: str, version: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.s")
        path.write_text(text)
        out = Path(folder, "a.co")
        subprocess.run(
            [
                *(clang, "-x", "assembler", "--target=amdgcn-amd-amdhsa", f"-mcpu={target}"),
                *(f"-mcode-object-version={version}", str(path), "-o", str(out)),
            ],
            check=True,
        )
        return out.read_bytes()


def build(llvm: Llvm, text: str, target: str = "gfx942", version: int = 5) -> CodeObject:
    """Assemble and link a listing as clang's driver does."""
    return load(_build(llvm.clang, text, target, version), name="built.co")


def patched(co: CodeObject, offset: int, new: bytes) -> CodeObject:
    """A copy with other bytes from file offset *offset* on."""
    return load(co.data[:offset] + new + co.data[offset + len(new) :], name="patched.co")


def offset_of(co: CodeObject, address: int) -> int:
    """The file offset of what is loaded at *address*."""
    section = co.section_at(address)
    assert section is not None
    return address - section.addr + section.offset


def flipped(co: CodeObject, offset: int, bit: int) -> CodeObject:
    """A copy with one bit of the byte at file offset *offset* flipped."""
    return patched(co, offset, bytes([co.data[offset] ^ 1 << bit]))


def different(report: Report) -> set[str]:
    """The checks that say different."""
    return {name for name, verdict in report.verdicts.items() if verdict == "different"}
