"""What code uses against what its descriptor and its metadata declare: warnings after an edit."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from coasm.asm.decode import Instruction, branch_target, disassemble
from coasm.codeobject import CodeObject, Kernel
from coasm.codeobject.elf import STT_FUNC
from coasm.descriptor import resources
from coasm.llvm import Llvm

__all__ = ["Used", "usage_warnings", "used"]

# v7, v[4:7], a0, s[2:3] as operands; names such as v_add or s_nop have no digit there.
_REGISTER = re.compile(r"(?<![\w.])([vas])(?:(\d+)|\[(\d+)(?::(\d+))?\])(?![\w\]])")
_DS_OFFSET = re.compile(r"^ds_(?!gws)\w+ .*\boffset:(\d+)")


@dataclass(frozen=True)
class Used:
    """The registers that instructions name: one more than the highest, with its address.

    ``lds`` is one more than the highest immediate LDS offset.
    """

    vgprs: tuple[int, int] = (0, 0)
    agprs: tuple[int, int] = (0, 0)
    sgprs: tuple[int, int] = (0, 0)
    lds: tuple[int, int] = (0, 0)


def used(instructions: Iterable[Instruction]) -> Used:
    """The registers and immediate LDS offsets that *instructions* name."""
    highest = {"v": (0, 0), "a": (0, 0), "s": (0, 0)}
    lds = (0, 0)
    for instruction in instructions:
        if branch_target(instruction) is not None:
            continue
        operands = instruction.registers or instruction.text
        for kind, single, low, high in _REGISTER.findall(operands):
            count = int(single or high or low) + 1
            if count > highest[kind][0]:
                highest[kind] = (count, instruction.address)
        if instruction.text.startswith("ds_"):
            offset = _DS_OFFSET.match(instruction.text)
            if offset and int(offset[1]) >= lds[0]:
                lds = (int(offset[1]) + 1, instruction.address)
    return Used(highest["v"], highest["a"], highest["s"], lds)


def usage_warnings(co: CodeObject, llvm: Llvm) -> list[str]:
    """Where a kernel names more registers or LDS than it declares, or its declarations disagree.

    Code is taken for a kernel's from its entry to the next function or kernel; what it calls is
    not followed.
    """
    instructions = disassemble(co, llvm).instructions
    starts = {k.entry for k in co.kernels} | {
        s.value for s in co.symbols if s.type == STT_FUNC and co.section_of(s) is not None
    }
    addresses = [i.address for i in instructions]
    bounds = sorted(starts)
    found = []
    for kernel in co.kernels:
        following = bisect_right(bounds, kernel.entry)
        first = bisect_left(addresses, kernel.entry)
        last = bisect_left(addresses, bounds[following]) if following < len(bounds) else None
        own = instructions[first:last]
        found += [f"{kernel.name}: {text}" for text in _over(co, kernel, used(own))]
        found += [f"{kernel.name}: {text}" for text in _disagreements(co, kernel)]
    return found


def _over(co: CodeObject, kernel: Kernel, use: Used) -> Iterable[str]:
    declared = resources(kernel.descriptor, co.target)
    limits = [("VGPRs", "v", use.vgprs, declared.vgprs), ("AGPRs", "a", use.agprs, declared.vgprs)]
    if declared.accum_offset is not None:
        limits = [
            ("VGPRs below accum_offset", "v", use.vgprs, declared.accum_offset),
            ("AGPRs", "a", use.agprs, declared.vgprs - declared.accum_offset),
        ]
        if not use.agprs[0]:
            limits = [("VGPRs", "v", use.vgprs, declared.vgprs)]
    if declared.sgprs is not None:
        limits.append(("SGPRs", "s", use.sgprs, declared.sgprs))
    for what, letter, (count, address), limit in limits:
        if count > limit:
            yield (
                f"{letter}{count - 1} is used at {address:#x}, "
                f"but the descriptor declares {limit} {what}"
            )
    # Dynamic LDS is added at launch, so only a kernel that declares some can be judged.
    if declared.lds and use.lds[0] > declared.lds:
        yield (
            f"LDS offset {use.lds[0] - 1} is used at {use.lds[1]:#x}, but the descriptor declares "
            f"{declared.lds} bytes"
        )


def _disagreements(co: CodeObject, kernel: Kernel) -> Iterable[str]:
    declared = resources(kernel.descriptor, co.target)
    pairs = [
        (".group_segment_fixed_size", declared.lds, "LDS bytes"),
        (".private_segment_fixed_size", declared.scratch, "scratch bytes"),
        (".kernarg_segment_size", declared.kernarg_size, "kernarg bytes"),
        (".wavefront_size", declared.wave_size, "lanes"),
    ]
    for key, value, what in pairs:
        said = kernel.metadata.get(key)
        if key == ".kernarg_segment_size" and value == 0:
            continue  # not stated: what AMD's own assembler writes
        if isinstance(said, int) and said != value:
            yield f"the descriptor declares {value} {what}, the metadata's {key} is {said}"
    counts = ((".vgpr_count", declared.vgprs, "VGPRs"), (".sgpr_count", declared.sgprs, "SGPRs"))
    for key, count, what in counts:
        said = kernel.metadata.get(key)
        if isinstance(said, int) and count is not None and said > count:
            yield f"the descriptor declares {count} {what}, the metadata's {key} is {said}"
