"""The call frame table, compared by what its entries say of which code."""

from __future__ import annotations

import struct
from typing import NamedTuple

from coasm.asm.eh_frame import code_pointers
from coasm.codeobject import Section

__all__ = ["Frame", "frames_of"]


class Frame(NamedTuple):
    """One entry: the code from *start* to *end*; *content* is what it says, its CIE's bytes too."""

    start: int
    end: int
    content: tuple[bytes, bytes]


def frames_of(section: Section) -> list[Frame] | None:
    """The entries of ``.eh_frame``, in order; None where it is in no known form.

    Source: Linux Standard Base Core, "Exception Frames".
    """
    data = section.data
    pointers = code_pointers(data, section.addr)
    if pointers is None:
        return None
    frames = []
    for at, target, reach in pointers:
        base = at - 8  # length, distance to the CIE, then the address
        length, distance = struct.unpack_from("<II", data, base)
        cie = base + 4 - distance
        (size,) = struct.unpack_from("<I", data, cie)
        # DW_CFA_nop, which is 0, fills an entry up.
        content = data[cie : cie + 4 + size], data[at + 8 : base + 4 + length].rstrip(b"\0")
        frames.append(Frame(target, target + reach, content))
    return frames
