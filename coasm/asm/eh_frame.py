"""The call frame table: which of its words are distances to code.

The linker takes ``.eh_frame`` apart and drops every entry that no relocation ties to code, so the
address of each entry is written as a distance to a label. Source: Linux Standard Base Core,
"Exception Frames" (DWARF CFI with pointer encodings).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

__all__ = ["CodePointer", "code_pointers"]

_PCREL_SDATA4 = 0x1B


class CodePointer(NamedTuple):
    """Four bytes at *offset* of the section hold the distance from there to *target*.

    The four bytes behind them hold how many bytes of code from there on the entry is for.
    """

    offset: int
    target: int
    size: int


def code_pointers(data: bytes, address: int) -> list[CodePointer] | None:
    """The code pointers of a frame table at *address*; None where it is in no known form."""
    found: list[CodePointer] = []
    encodings: dict[int, int] = {}  # offset of a CIE → its pointer encoding
    at = 0
    while at + 4 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        if length == 0:
            return found if not any(data[at:]) else None
        end = at + 4 + length
        if length == 0xFFFFFFFF or length < 4 or end > len(data):
            return None
        (pointer,) = struct.unpack_from("<I", data, at + 4)
        if pointer == 0:
            # Version 1, augmentation "zR", then one-byte LEB128s: code and data alignment, return
            # register, length of the augmentation data, and the pointer encoding in it.
            body = data[at + 8 : end]
            if body[:4] != b"\x01zR\0" or len(body) < 9 or max(body[4:8]) >= 0x80 or body[7] != 1:
                return None
            encodings[at] = body[8]
        else:
            if encodings.get(at + 4 - pointer) != _PCREL_SDATA4 or length < 12:
                return None
            distance, size = struct.unpack_from("<ii", data, at + 8)
            found.append(CodePointer(at + 8, address + at + 8 + distance, size))
        at = end
    return found if at == len(data) else None
