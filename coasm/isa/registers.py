"""The numbers of registers: one numbering of all files, and the names both ways.

Scalar registers are numbered as the source operands of GFX9 to GFX10 are: 0 to 127 (VCC 106, M0
124, EXEC 126), SCC 253. VGPRs follow from 256 on, 1,024 of them as GFX12.5 has, then the AGPRs.
Source: CDNA3 and CDNA4 ISA guides, "Scalar operands"; LLVM, Feature1024AddressableVGPRs.
"""

from __future__ import annotations

import re

__all__ = ["AGPR", "END", "EXEC", "M0", "SCC", "VCC", "VGPR", "register_name", "registers_named"]

VCC, TTMP, M0, EXEC, SCC, VGPR, AGPR = 106, 108, 124, 126, 253, 256, 1280
#: One more than the number of the last register.
END = AGPR + 256

#: Registers with a name of their own: number and how many dwords.
_NAMED = {
    "flat_scratch": (102, 2),
    "flat_scratch_lo": (102, 1),
    "flat_scratch_hi": (103, 1),
    "xnack_mask": (104, 2),
    "xnack_mask_lo": (104, 1),
    "xnack_mask_hi": (105, 1),
    "vcc": (VCC, 2),
    "vcc_lo": (VCC, 1),
    "vcc_hi": (VCC + 1, 1),
    "m0": (M0, 1),
    "exec": (EXEC, 2),
    "exec_lo": (EXEC, 1),
    "exec_hi": (EXEC + 1, 1),
    "src_vccz": (251, 1),
    "src_execz": (252, 1),
    "src_scc": (SCC, 1),
    "scc": (SCC, 1),
    "vccz": (251, 1),
    "execz": (252, 1),
    "src_shared_base": (235, 2),
    "src_shared_limit": (236, 2),
    "src_private_base": (237, 2),
    "src_private_limit": (238, 2),
}
#: File → its first number and how many registers it has.
_FILES = {
    "s": (0, VCC),
    "v": (VGPR, AGPR - VGPR),
    "a": (AGPR, END - AGPR),
    "ttmp": (TTMP, 16),
}
#: What a half of a register names (v3.l, v3.h) is that register.
_NAME = re.compile(r"(s|v|a|ttmp)(?:(\d+)(?:\.[lh])?|\[(\d+):(\d+)\])")
_BY_NUMBER = {first: name for name, (first, count) in reversed(_NAMED.items()) if count == 1}


def register_name(number: int) -> str:
    """``v3``, ``a0``, ``s12``, ``vcc_lo`` … of a register's number."""
    if number in _BY_NUMBER:
        return _BY_NUMBER[number]
    for name, (first, count) in _FILES.items():
        if first <= number < first + count:
            return f"{name}{number - first}"
    return f"s{number}"


def registers_named(name: str) -> tuple[int, int] | None:
    """The first number and the count of what a *name* such as ``v[4:7]`` or ``vcc`` stands for.

    The count is 0 where the file has no such register; None: it is no name of registers.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return _NAMED.get(name)
    low = int(match[2] or match[3])
    high = int(match[4] or low)
    first, size = _FILES[match[1]]
    return first + low, high - low + 1 if low <= high < size else 0
