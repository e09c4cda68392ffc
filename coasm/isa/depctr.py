"""What ``s_waitcnt_depctr`` and ``s_wait_alu`` wait for: counters of what is on its way in a wave.

Source: LLVM's AMDGPUBaseInfo.cpp (DepCtr): the fields of SIMM16 on GFX10 to GFX12.5.
"""

from __future__ import annotations

import re

from coasm.isa.text import Literal, Parsed, Word

__all__ = ["FIELDS", "depctr"]

#: Field → its first bit and width. A field with all bits set waits for nothing.
FIELDS = {
    "va_vdst": (12, 4),
    "va_sdst": (9, 3),
    "va_ssrc": (8, 1),
    "hold_cnt": (7, 1),
    "vm_vsrc": (2, 3),
    "va_vcc": (1, 1),
    "sa_sdst": (0, 1),
}
_NAMED = re.compile(r"depctr_(\w+)\((\d+)\)")


def depctr(parsed: Parsed) -> dict[str, int]:
    """Field → how much of it may still be on its way, for each field that is waited for."""
    (operand,) = parsed.operands or (Word(""),)
    if isinstance(operand, Word):
        return {name: int(value) for name, value in _NAMED.findall(operand.text)}
    counts = {}
    if isinstance(operand, Literal):
        for name, (first, width) in FIELDS.items():
            value = int(operand.value) >> first & (1 << width) - 1
            if value != (1 << width) - 1:
                counts[name] = value
    return counts
