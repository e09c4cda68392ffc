"""Small kernels for the rules that look at descriptors: their text, and the program of it."""

from __future__ import annotations

from typing import Any

from coasm.asm.decode import decode
from coasm.codeobject import CodeObject, load
from coasm.linter.findings import Finding
from coasm.linter.program import Program, build_program
from coasm.llvm import Llvm
from coasm.llvm.run import TRUE16, assemble, has_true16, link
from coasm.target import PROCESSORS, TargetID, processor

__all__ = ["build", "ended", "listing", "program_of", "said"]


def listing(
    body: str, target: str = "gfx942", metadata: dict[str, Any] | None = None, **given: Any
) -> str:
    """A kernel ``k``: 32 VGPRs, the kernarg pointer, workgroup ID x; *given* are directives."""
    version = PROCESSORS[target].version
    amdhsa: dict[str, Any] = {
        "next_free_vgpr": 32,
        "next_free_sgpr": 32,
        "user_sgpr_kernarg_segment_ptr": 1,
        "kernarg_size": 16,
    }
    if PROCESSORS[target].family.accum_offset:
        amdhsa["accum_offset"] = 32
    amdhsa |= given
    said: dict[str, Any] = {
        ".kernarg_segment_size": amdhsa["kernarg_size"],
        ".kernarg_segment_align": 8,
        ".group_segment_fixed_size": amdhsa.get("group_segment_fixed_size", 0),
        ".private_segment_fixed_size": amdhsa.get("private_segment_fixed_size", 0),
        ".wavefront_size": 32 if version >= (10,) else 64,
        ".sgpr_count": 8,
        ".vgpr_count": 4,
        ".max_flat_workgroup_size": 64,
    }
    said |= metadata or {}
    lines = "\n".join(f"    {key}: {value}" for key, value in said.items())
    directives = "\n".join(f"\t.amdhsa_{name} {value}" for name, value in amdhsa.items())
    return f"""
	.amdgcn_target "amdgcn-amd-amdhsa--{target}"
	.text
	.globl k
	.p2align 8
	.type k,@function
k:
{body}
.Lend:
	.size k, .Lend-k
	.rodata
	.p2align 6
	.amdhsa_kernel k
{directives}
	.end_amdhsa_kernel
	.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
{lines}
...
	.end_amdgpu_metadata
"""


def program_of(llvm: Llvm, text: str, target: str) -> Program:
    """The program of a listing."""
    made = assemble(llvm, text.encode(), TargetID(processor(target)), 6)
    assert made.data is not None, made.messages
    return build(load(link(llvm, [made.data]), name="test.co"), llvm)


def build(co: CodeObject, llvm: Llvm) -> Program:
    """The program of an object."""
    return build_program(co, decode(co, llvm, extra=(TRUE16,) if has_true16(co.target) else ()))


def said(found: list[Finding]) -> list[tuple[str, str]]:
    """Rule and level of each."""
    return [(finding.rule, finding.level) for finding in found]


def ended(body: str) -> str:
    """*body* and the end of the program."""
    return f"{body}\n\ts_endpgm"
