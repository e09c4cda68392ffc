"""Buffer instructions: addresses from a resource descriptor, and its range.

Where NUM_RECORDS counts bytes and where records: Mesa, ``ac_descriptors.c`` (GFX9).

Source: CDNA3 and CDNA4 ISA guides, "Vector Memory Buffer".
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.atomics import OPS, run_atomic, size_of
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.moves import (
    ANY_BYTE,
    CACHE,
    LOADS,
    MASK48,
    SCOPE,
    STORES,
    Move,
    active_lanes,
    dma,
)
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import Array, Step
from coasm.emulator.state import places, spaces
from coasm.emulator.state.shared import Shared
from coasm.emulator.state.waves import Group
from coasm.isa import Literal, Parsed, Register, Word

__all__: list[str] = []


_32 = np.uint64(32)


class Buffer:
    """The address part of a buffer instruction: vaddr, srsrc, soffset, then modifiers."""

    def __init__(self, ctx: Context, parsed: Parsed, at: int) -> None:
        vaddr, srsrc, soffset = parsed.operands[at : at + 3]
        self.idxen, self.offen = "idxen" in parsed.modifiers, "offen" in parsed.modifiers
        rows = [] if isinstance(vaddr, Word) else ctx.rows(vaddr)
        self.index_row = rows[0] if self.idxen else None
        self.offset_row = rows[-1] if self.offen else None
        assert isinstance(srsrc, Register)
        self.first = srsrc.first
        ctx.pair(srsrc._replace(size=2))
        ctx.scalar(srsrc.first + 3)
        self.soffset = ctx.scalar_source(soffset, "u32")
        self.inst = np.uint64(parsed.number("offset"))
        self.zero = isinstance(soffset, Literal) and soffset.value == 0

    def addresses(self, s: Group, size: int, whole: bool) -> tuple[Array, list[Array] | None]:
        """uint64 [n, 64] addresses, and for each dword (*whole*: for all) the lanes in range.

        None: all are. Range: NUM_RECORDS counts bytes, or records for ``idxen`` with a stride.
        """
        pair = self.first >> 1
        base = s.d[pair] & MASK48
        word1, word3 = s.su[self.first + 1], s.su[self.first + 3]
        records = s.su[self.first + 2].astype(np.uint64)
        stride = word1 >> np.uint32(16) & np.uint32(0x3FFF)
        swizzled = word1 >> np.uint32(31) != 0
        add_tid = word3 & np.uint32(1 << 23)
        soffset: Array = np.asarray(self.soffset(s)).astype(np.uint64)
        offset: Array
        if self.offset_row is None:
            offset = np.full(s.shape, self.inst)
        else:
            offset = s.u[self.offset_row].astype(np.uint64)
            if self.inst:
                offset += self.inst
        structured = bool(stride.any())
        if not structured or (self.index_row is None and not add_tid.any() and not swizzled.any()):
            start = base if self.zero else base + soffset
            address = start[:, None] + offset
            limit = (
                records
                if self.zero
                else np.where(records > soffset, records - soffset, np.uint64(0))
            )
            if int(offset.max()) + size <= int(limit.min()):
                return address, None
            _check_carry(s, offset, records)
            limit = limit[:, None]
            if whole:
                return address, [offset + np.uint64(size) <= limit] * max(1, size // 4)
            return address, [offset + np.uint64(4 * at) < limit for at in range(max(1, size // 4))]
        index = (
            np.zeros(s.shape, np.uint64)
            if self.index_row is None
            else s.u[self.index_row].astype(np.uint64)
        )
        if add_tid.any():
            index = index + np.where(
                add_tid[:, None] != 0, np.arange(s.layout.lanes, dtype=np.uint64), np.uint64(0)
            )
        _check_carry(s, offset, records)
        wide = stride.astype(np.uint64)[:, None]
        linear = offset + index * wide
        place = linear
        if swizzled.any():
            element = (np.uint64(2) << (word3 >> np.uint32(19) & np.uint32(3)).astype(np.uint64))[
                :, None
            ]
            group = (np.uint64(8) << (word3 >> np.uint32(21) & np.uint32(3)).astype(np.uint64))[
                :, None
            ]
            if size > int(element.min()):
                raise Fault("an access that is larger than the element size of a swizzled buffer")
            place = (
                (index // group) * group * wide
                + (offset // element) * element * group
                + (index % group) * element
                + offset % element
            )
            place = np.where(swizzled[:, None], place, linear)
        address = (base + soffset)[:, None] + place
        by_record = (wide != 0) & (self.idxen or bool(add_tid.any()))
        room = np.where(records > soffset, records - soffset, np.uint64(0))[:, None]
        lanes = []
        for at in range(max(1, size // 4)):
            by_bytes = linear + np.uint64(4 * at) < room
            lanes.append(np.where(by_record, index < records[:, None], by_bytes))
        if all(bool(one.all()) for one in lanes):
            return address, None
        return address, lanes


def _check_carry(s: Group, offset: Array, records: Array) -> None:
    """The register's and the instruction's offset may not meet beyond 32 bits, and yet in range.

    LLVM's compiler counts on their sum being taken modulo 2**32 there, its developers describe one
    that is out of range (llvm-project #207821); no manual says which.

    Raises:
        Fault: they do.
    """
    low = offset & np.uint64(0xFFFF_FFFF)
    bad = (offset >> _32 != 0) & (low < records[:, None]) & s.mask
    if bad.any():
        raise Fault(
            "a buffer access whose offsets add up to more than 32 bits, and to one in range without"
            " the carry, is not emulated: which of the two hardware takes is not published",
            int(np.argmax(bad.any(axis=1))),
        )


def _range_load(
    shared: Shared, s: Group, address: Array, lanes: list[Array] | None, size: int
) -> Array:
    """Load with out-of-range dwords as 0."""
    active = active_lanes(s)
    if lanes is None:
        parts = spaces.global_memory(shared, s, address, size, ANY_BYTE, active)
        return places.load(parts, s.shape, size)
    everything = lanes[0]
    for one in lanes[1:]:
        everything = everything & one
    same = all(bool((one == everything).all()) for one in lanes)
    if same:
        mask = everything if active is None else everything & active
        parts = spaces.global_memory(shared, s, address, size, ANY_BYTE, mask)
        return places.load(parts, s.shape, size)
    out = np.zeros((*s.shape, len(lanes)), np.uint32)
    for at, one in enumerate(lanes):
        mask = one if active is None else one & active
        parts = spaces.global_memory(shared, s, address + np.uint64(4 * at), 4, ANY_BYTE, mask)
        out[..., at] = places.load(parts, s.shape, 4)[..., 0]
    return out


def _buffer_load(name: str, size: int, how: str) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        shared = ctx.shared
        if "lds" in parsed.modifiers:
            processor = shared.processor
            if size > 4 and not processor.family.wide_lds_loads:
                raise Fault(f"{processor.name} has no {parsed.mnemonic} to LDS")
            buffer = Buffer(ctx, parsed, 0)
            send = dma(ctx, name, parsed.number("offset"))

            def to_lds(s: Group) -> None:
                address, lanes = buffer.addresses(s, size, False)
                send(s, _range_load(shared, s, address, lanes, size))

            return to_lds
        buffer = Buffer(ctx, parsed, 1)
        move = Move(ctx, parsed.operands[0], size, how)

        def step(s: Group) -> None:
            address, lanes = buffer.addresses(s, size, False)
            move.fill(s, _range_load(shared, s, address, lanes, size))

        return step

    return build


def _buffer_store(size: int, how: str) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        shared, buffer = ctx.shared, Buffer(ctx, parsed, 1)
        move = Move(ctx, parsed.operands[0], size, how)

        def step(s: Group) -> None:
            address, lanes = buffer.addresses(s, size, False)
            values, active = move.data(s), active_lanes(s)
            if lanes is None:
                places.store(
                    spaces.global_memory(shared, s, address, size, ANY_BYTE, active), values, size
                )
                return
            for at, one in enumerate(lanes):
                mask = one if active is None else one & active
                width = min(size, 4)
                parts = spaces.global_memory(
                    shared, s, address + np.uint64(4 * at), width, ANY_BYTE, mask
                )
                places.store(parts, values[..., at : at + 1], width)

        return step

    return build


def _buffer_atomic(name: str) -> Callable[[Context, Parsed], Step]:
    op = OPS[name]

    def build(ctx: Context, parsed: Parsed) -> Step:
        shared, buffer = ctx.shared, Buffer(ctx, parsed, 1)
        returns = "sc0" in parsed.modifiers or "glc" in parsed.modifiers
        unit = np.dtype(op.dtype).itemsize
        move = Move(ctx, parsed.operands[0], size_of(op, name), "u")
        target = move if move.size == unit else None
        if returns and target is None:
            rows = parsed.operands[0]
            assert isinstance(rows, Register)
            target = Move(ctx, rows._replace(size=unit // 4), unit, "u")

        def step(s: Group) -> None:
            address, lanes = buffer.addresses(s, unit, True)
            mask = active_lanes(s)
            if lanes is not None:
                mask = lanes[0] if mask is None else lanes[0] & mask
            parts = spaces.global_memory(shared, s, address, unit, unit, mask)
            old = run_atomic(s, parts, op, move, returns)
            if returns and target is not None and old is not None:
                target.fill(s, old)

        return step

    return build


for _name, _size, _how in LOADS:
    row(f"buffer_load_{_name}", _buffer_load(_name, _size, _how), inert=CACHE)
for _name, _size, _how in STORES:
    row(f"buffer_store_{_name}", _buffer_store(_size, _how), inert=CACHE)
for _name, _one in OPS.items():
    row(f"buffer_atomic_{_name}", _buffer_atomic(_name), _one.note, SCOPE)
