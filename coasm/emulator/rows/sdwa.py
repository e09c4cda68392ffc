"""Parts of 32-bit operands and results. Source: CDNA3 ISA guide, "SDWA"."""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np

from coasm.emulator.rows.values import Array, Getter, Setter, store
from coasm.emulator.state.waves import Group
from coasm.isa import Parsed

__all__ = ["sdwa_source", "sdwa_target"]


def sdwa_source(raw: Getter, select: str, sext: bool) -> Getter:
    """The part *select* of an operand; *sext*: with its sign in the bits above."""
    size = 8 if select.startswith("BYTE") else 16
    shift = size * int(select[-1])
    up, down = np.uint32(32 - size - shift), np.uint32(32 - size)

    def read(s: Group) -> Array:
        moved = raw(s) << up
        if sext:
            return (moved.view(np.int32) >> down.astype(np.int32)).view(np.uint32)
        return moved >> down

    return read


def sdwa_target(parsed: Parsed, row: int, enabled: Getter | None) -> Setter:
    """A function that puts a result into a part of *row*; the rest is as ``dst_unused`` says."""
    select = parsed.modifiers["dst_sel"]
    unused = parsed.modifiers.get("dst_unused", "UNUSED_PAD")
    size = 8 if select.startswith("BYTE") else 16
    shift = size * int(select[-1])
    field = ((1 << size) - 1) << shift

    def put(s: Group, value: Array) -> None:
        raw = value.view(np.uint16) if value.dtype.itemsize == 2 else value.view(np.uint32)
        bits = (raw.astype(np.uint32) << np.uint32(shift)) & np.uint32(field)
        if unused == "UNUSED_PRESERVE":
            bits = bits | (s.u[row] & np.uint32(~field & 0xFFFF_FFFF))
        elif unused == "UNUSED_SEXT":
            top = 32 - size - shift
            bits = ((bits << np.uint32(top)).view(np.int32) >> np.int32(top)).view(np.uint32)
        store(s, row, bits, enabled)

    return put
