"""What vector loads and stores move: registers on one side, bytes of memory on the other.

Source: CDNA3 and CDNA4 ISA guides, "Vector Memory".
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.values import Array
from coasm.emulator.rows.values import store as put_row
from coasm.emulator.state import spaces
from coasm.emulator.state.waves import Deferred, Group
from coasm.isa import M0, Operand

__all__ = [
    "ANY_BYTE",
    "CACHE",
    "DMA_SIZES",
    "LOADS",
    "MASK48",
    "SCOPE",
    "STORES",
    "Move",
    "active_lanes",
    "dma",
]

#: What only steers caches, which hold nothing back here. The SC0 of an atomic is none: it says that
#: the old value is returned. Source: CDNA3 and CDNA4 ISA guides, "Memory Scopes".
CACHE, SCOPE = "sc0 sc1 nt", "sc1 nt"

MASK48 = np.uint64((1 << 48) - 1)


# What a vector load or store moves: (bytes in memory, how they go into registers).


class Move:
    """A register operand and the memory bytes it stands for; sign, d16 halves."""

    def __init__(self, ctx: Context, operand: Operand, size: int, how: str) -> None:
        self.rows, self.size, self.how = ctx.rows(operand), size, how
        if len(self.rows) != max(1, size // 4):
            raise Fault("the operand does not have the size of what is moved")

    def fill(self, s: Group, values: Array) -> None:
        """Loaded values (uint32 [n, 64, dwords]) into the registers."""
        for at, index in enumerate(self.rows):
            value = values[..., at]
            if self.how.startswith("i"):
                kind = np.int8 if self.size == 1 else np.int16
                value = value.astype(kind).astype(np.int32).view(np.uint32)
            if "lo" in self.how:
                value = value & np.uint32(0xFFFF) | s.u[index] & np.uint32(0xFFFF_0000)
            elif "hi" in self.how:
                value = value << np.uint32(16) | s.u[index] & np.uint32(0xFFFF)
            put_row(s, index, value)

    def data(self, s: Group) -> Array:
        """The registers as uint32 [n, 64, dwords]."""
        out = np.empty((*s.shape, len(self.rows)), np.uint32)
        for at, index in enumerate(self.rows):
            out[..., at] = s.u[index]
        if "hi" in self.how:
            out >>= np.uint32(16)
        return out


def active_lanes(s: Group) -> Array | None:
    return None if s.full else s.mask


#: Loads and stores may lie at any byte; atomics, scalar loads and pairs in LDS may not.
ANY_BYTE = 1


LOADS = (
    ("ubyte", 1, "u"),
    ("sbyte", 1, "i"),
    ("ushort", 2, "u"),
    ("sshort", 2, "i"),
    ("dword", 4, "u"),
    ("dwordx2", 8, "u"),
    ("dwordx3", 12, "u"),
    ("dwordx4", 16, "u"),
    ("ubyte_d16", 1, "u lo"),
    ("ubyte_d16_hi", 1, "u hi"),
    ("sbyte_d16", 1, "i lo"),
    ("sbyte_d16_hi", 1, "i hi"),
    ("short_d16", 2, "u lo"),
    ("short_d16_hi", 2, "u hi"),
)
STORES = (
    ("byte", 1, "u"),
    ("short", 2, "u"),
    ("dword", 4, "u"),
    ("dwordx2", 8, "u"),
    ("dwordx3", 12, "u"),
    ("dwordx4", 16, "u"),
    ("byte_d16_hi", 1, "u hi"),
    ("short_d16_hi", 2, "u hi"),
)


# Direct-to-LDS loads.


DMA_SIZES = {
    "ubyte": 1,
    "sbyte": 1,
    "ushort": 2,
    "sshort": 2,
    "dword": 4,
    "dwordx3": 12,
    "dwordx4": 16,
}


def dma(ctx: Context, name: str, offset: int) -> Callable[[Group, Array], None]:
    """A function that queues loaded values (uint32 [n, 64, dwords]) on their way to LDS.

    Lane L's go to ``M0 + offset + L * stride``: stride 4, 16 for 12 and 16 bytes.
    """
    if name not in DMA_SIZES:
        raise Fault(f"a load of {name} has no way to LDS")
    ctx.writes_lds_late = True
    size = DMA_SIZES[name]
    stride = 16 if size > 4 else 4
    place = np.arange(ctx.layout.lanes, dtype=np.uint32) * np.uint32(stride)
    place += np.uint32(offset & 0xFFFF_FFFF)
    shared, address = ctx.shared, ctx.address
    signed = name.startswith("s")

    def send(s: Group, values: Array) -> None:
        if signed:
            values = (
                values.astype(np.int8 if size == 1 else np.int16).astype(np.int32).view(np.uint32)
            )
        where = s.su[M0][:, None] + place
        parts = spaces.lds(shared, s, where, max(size, 4), 4, active_lanes(s))
        if shared.race is not None:
            shared.race.write(s, parts, max(size, 4), flying=True)
        if parts:
            entry = Deferred(address, parts[0].offsets, values, parts[0].mask)
        else:
            entry = Deferred(address, np.zeros(s.shape, np.int64), values, np.zeros(s.shape, bool))
        s.vm_queue.append(entry)

    return send
