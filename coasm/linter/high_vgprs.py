"""GFX12.5's high bits of VGPR numbers: an ``s_setreg`` of MODE that changes them by the way.

The bits are MODE's 12 to 19, and the immediate of ``s_setreg_imm32_b32`` is written there whatever
field it names. Source: LLVM pull requests 174681 and 193390 (FeatureSetregVGPRMSBFixup).
"""

from __future__ import annotations

from collections.abc import Iterator

from coasm.asm.vgpr_msb import has_states, states
from coasm.isa.kinds import is_a
from coasm.linter.findings import Finding
from coasm.linter.operation import VGPRS
from coasm.linter.program import Program
from coasm.linter.rules import RULES

__all__ = ["check_high_vgprs"]

_FIRST = 12


def check_high_vgprs(program: Program) -> Iterator[Finding]:
    """Where the VGPRs behind an ``s_setreg`` of MODE are others than those ahead of it."""
    if not program.family.vgpr_msb or not has_states(dict(program.code)):
        return
    known = states(program.co, program.code)
    for block in program.blocks:
        for index in range(block.first, block.last):
            item = program.instructions[index]
            state = known.get(item.address, -1)
            if state < 0 or not is_a(item.mnemonic, "setreg of a constant"):
                continue
            if "HW_REG_WAVE_MODE" not in item.text or _written(item.data) == state:
                continue
            user = _user(program, index + 1, block.last)
            if user is not None:
                yield RULES["vgpr-msb"].finding(
                    "changed",
                    program.name_at(index),
                    program.place(index),
                    was=f"{state:#x}",
                    now=f"{_written(item.data):#x}",
                    user=program.instructions[user].text,
                )


def _written(data: bytes) -> int:
    """The state as ``s_set_vgpr_msb`` has it: src0, src1, src2, dst; in MODE dst comes first."""
    bits = int.from_bytes(data[4:8], "little") >> _FIRST & 0xFF
    return bits >> 2 | (bits & 3) << 6


def _user(program: Program, first: int, last: int) -> int | None:
    """The first instruction that names a VGPR before the state is set anew."""
    for index in range(first, last):
        if is_a(program.instructions[index].mnemonic, "sets VGPR high bits"):
            return None
        operation = program.operations[index]
        if (operation.reads | operation.writes) & VGPRS:
            return index
    return None
