"""Instructions of LDS: reads, writes, atomics.

Source: CDNA3 and CDNA4 ISA guides, "Data Share".
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.atomics import OPS, Op, add_flushed, compare_swap, larger, smaller
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.moves import ANY_BYTE, Move, active_lanes
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import Array, Step
from coasm.emulator.rows.values import store as put_row
from coasm.emulator.state import places, spaces
from coasm.emulator.state.shared import Shared
from coasm.emulator.state.waves import Deferred, Group
from coasm.isa import M0, Operand, Parsed

__all__: list[str] = []


def _lds_address(ctx: Context, operand: Operand) -> Callable[[Group, int], Array]:
    at = ctx.rows(operand)[0]

    def address(s: Group, offset: int) -> Array:
        value = s.u[at]
        return value + np.uint32(offset) if offset else value

    return address


def _ds_read(size: int, how: str = "u") -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        move = Move(ctx, parsed.operands[0], size, how)
        address, offset, shared = (
            _lds_address(ctx, parsed.operands[1]),
            parsed.number("offset"),
            ctx.shared,
        )

        def step(s: Group) -> None:
            parts = spaces.lds(shared, s, address(s, offset), size, ANY_BYTE, active_lanes(s))
            if s.ds_queue:
                spaces.before_read(shared, s, parts, size)
            if shared.race is not None:
                shared.race.read(s, parts, size)
            move.fill(s, places.load(parts, s.shape, size))

        return step

    return build


def _ds_read_transposed(bits: int) -> Callable[[Context, Parsed], Step]:
    """16 lanes at a time read rows of 16 elements, and lane *i* of them gets column *i*.

    A lane reads 64 bits, so a row is what 4, 2 or 1 lanes read one after the other. Source: LLVM,
    ``amdgpu.transpose_load``; proven by what Triton builds upon it (tests/compilers), and for 4
    bits by a published measurement of an MI350X: 16 times 16 elements in each 16 lanes. Nothing
    proves the same of elements of 6 bits, which are not emulated therefore.
    """
    size = 8
    count = 8 * size // bits  # elements of a lane, rows of a block

    def build(ctx: Context, parsed: Parsed) -> Step:
        move = Move(ctx, parsed.operands[0], size, "u")
        address, shared = _lds_address(ctx, parsed.operands[1]), ctx.shared
        offset = parsed.number("offset")
        lane, element = np.arange(ctx.layout.lanes)[:, None], np.arange(count)[None, :]
        column = lane & 15
        lanes, elements = lane & ~15 | element * 16 // count + column // count, column % count

        def transposed(values: Array) -> Array:
            flat = np.unpackbits(values.view(np.uint8), axis=-1, bitorder="little")
            parts = flat.reshape(*values.shape[:2], count, bits)[:, lanes, elements]
            return np.packbits(parts.reshape(*values.shape[:2], -1), axis=-1, bitorder="little")

        def step(s: Group) -> None:
            if not s.full:
                raise Fault("a transposing read with lanes switched off is not emulated")
            parts = spaces.lds(shared, s, address(s, offset), size, ANY_BYTE, active_lanes(s))
            if s.ds_queue:
                spaces.before_read(shared, s, parts, size)
            if shared.race is not None:
                shared.race.read(s, parts, size)
            loaded = np.ascontiguousarray(places.load(parts, s.shape, size))
            move.fill(s, transposed(loaded).view(np.uint32))

        return step

    return build


def _ds_read2(size: int, scale: int) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        rows = ctx.rows(parsed.operands[0])
        half = size // 4
        address, shared = _lds_address(ctx, parsed.operands[1]), ctx.shared
        offsets = [parsed.number(name) * scale for name in ("offset0", "offset1")]

        def step(s: Group) -> None:
            for which, offset in enumerate(offsets):
                parts = spaces.lds(shared, s, address(s, offset), size, 4, active_lanes(s))
                if s.ds_queue:
                    spaces.before_read(shared, s, parts, size)
                if shared.race is not None:
                    shared.race.read(s, parts, size)
                values = places.load(parts, s.shape, size)
                if which == 0:
                    first = values
            for at in range(half):
                put_row(s, rows[at], first[..., at])
                put_row(s, rows[half + at], values[..., at])

        return step

    return build


def _defer(shared: Shared, s: Group, parts: list[places.Part], values: Array, address: int) -> None:
    """Queue a write to LDS; it is done at the wait that covers it."""
    if parts:
        offsets, valid = parts[0].offsets, parts[0].mask
    else:
        offsets, valid = np.zeros(s.shape, np.int64), np.zeros(s.shape, bool)
    s.ds_queue.append(Deferred(address, offsets, values, valid))


def _ds_write(size: int, how: str = "u") -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        ctx.writes_lds_late = True
        move = Move(ctx, parsed.operands[1], size, how)
        address, offset, shared = (
            _lds_address(ctx, parsed.operands[0]),
            parsed.number("offset"),
            ctx.shared,
        )
        place = ctx.address

        def step(s: Group) -> None:
            parts = spaces.lds(shared, s, address(s, offset), size, ANY_BYTE, active_lanes(s))
            if shared.race is not None:
                shared.race.write(s, parts, size)
            if size < 4:
                spaces.settle(shared, s)
                places.store(parts, move.data(s), size)
                parts = []
            _defer(shared, s, parts, move.data(s), place)

        return step

    return build


def _ds_write2(size: int, scale: int) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        ctx.writes_lds_late = True
        moves = [Move(ctx, op, size, "u") for op in parsed.operands[1:3]]
        address, shared = _lds_address(ctx, parsed.operands[0]), ctx.shared
        offsets = [parsed.number(name) * scale for name in ("offset0", "offset1")]

        def step(s: Group) -> None:
            spaces.settle(shared, s)
            for move, offset in zip(moves, offsets, strict=True):
                parts = spaces.lds(shared, s, address(s, offset), size, 4, active_lanes(s))
                if shared.race is not None:
                    shared.race.write(s, parts, size)
                places.store(parts, move.data(s), size)
            _defer(shared, s, [], np.zeros((*s.shape, 1), np.uint32), 0)

        return step

    return build


for _name, _size, _how in (
    ("b32", 4, "u"),
    ("b64", 8, "u"),
    ("b96", 12, "u"),
    ("b128", 16, "u"),
    ("u8", 1, "u"),
    ("i8", 1, "i"),
    ("u16", 2, "u"),
    ("i16", 2, "i"),
    ("u8_d16", 1, "u lo"),
    ("u8_d16_hi", 1, "u hi"),
    ("i8_d16", 1, "i lo"),
    ("i8_d16_hi", 1, "i hi"),
    ("u16_d16", 2, "u lo"),
    ("u16_d16_hi", 2, "u hi"),
):
    row(f"ds_read_{_name}", _ds_read(_size, _how))
for _bits in (16, 8, 4):
    row(f"ds_read_b64_tr_b{_bits}", _ds_read_transposed(_bits))
for _name, _size, _how in (
    ("b8", 1, "u"),
    ("b16", 2, "u"),
    ("b32", 4, "u"),
    ("b64", 8, "u"),
    ("b96", 12, "u"),
    ("b128", 16, "u"),
    ("b8_d16_hi", 1, "u hi"),
    ("b16_d16_hi", 2, "u hi"),
):
    row(f"ds_write_{_name}", _ds_write(_size, _how))
for _name, _size in (("b32", 4), ("b64", 8)):
    row(f"ds_read2_{_name}", _ds_read2(_size, _size))
    row(f"ds_read2st64_{_name}", _ds_read2(_size, 64 * _size))
    row(f"ds_write2_{_name}", _ds_write2(_size, _size))
    row(f"ds_write2st64_{_name}", _ds_write2(_size, 64 * _size))


def _masked(old: Array, data: Array) -> Array:
    """The bits of the first operand out, the second in. Operands: the second, the first."""
    return old & ~data[..., 1] | data[..., 0]


def _wrapped(old: Array, data: Array) -> Array:
    return np.where(old >= data[..., 1], old - data[..., 1], old + data[..., 0])


def _exchange_where_asked(old: Array, data: Array) -> Array:
    """A new value of 31 bits where the highest bit is set."""
    return np.where(data >> np.uint32(31) != 0, data & np.uint32(0x7FFF_FFFF), old)


#: Only LDS has these.
DS_OPS = {
    **OPS,
    "rsub": Op(np.uint32, lambda old, data: data - old),
    "rsub_x2": Op(np.uint64, lambda old, data: data - old),
    "min_f32": Op(np.float32, smaller),
    "max_f32": Op(np.float32, larger),
    "cmpst_f32": Op(np.float32, compare_swap),
    "cmpst_f64": Op(np.float64, compare_swap),
    "mskor": Op(np.uint32, _masked),
    "mskor_x2": Op(np.uint64, _masked),
    "wrap": Op(np.uint32, _wrapped),
    "condxchg": Op(np.uint32, _exchange_where_asked),
}


def _ds_op(ctx: Context, name: str) -> Op:
    """An operation of LDS in the mode of the wave, which its float atomics respect.

    All but the addition of float64. Source: LLVM, ``SIISelLowering.cpp``.
    """
    if name == "add_f64" or not name.endswith(("f16", "f32", "f64")):
        return DS_OPS[name]
    kind = "f32" if name.endswith("f32") else "f16"
    flushes = ctx.flushes_in(kind), ctx.flushes_out(kind)
    if flushes == (False, False):
        return DS_OPS[name]
    if flushes == (True, True) and name == "add_f32":
        return Op(np.float32, add_flushed)
    raise Fault("an atomic of LDS on floats with this handling of denormals is not emulated")


def _ds_atomic(name: str, returns: bool) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        op = _ds_op(ctx, name)
        size = np.dtype(op.dtype).itemsize
        base = 1 if returns else 0
        address, offset, shared = (
            _lds_address(ctx, parsed.operands[base]),
            parsed.number("offset"),
            ctx.shared,
        )
        data = [Move(ctx, operand, size, "u") for operand in parsed.operands[base + 1 :]]
        target = Move(ctx, parsed.operands[0], size, "u") if returns else None

        def step(s: Group) -> None:
            parts = spaces.lds(shared, s, address(s, offset), size, size, active_lanes(s))
            if s.ds_queue:
                spaces.before_read(shared, s, parts, size)
            values = [np.ascontiguousarray(move.data(s)).view(op.dtype)[..., 0] for move in data]
            # DS compare-and-swap has the comparison first, then the replacement.
            operand = np.stack(values[::-1], axis=-1) if len(values) == 2 else values[0]
            old = places.atomic(parts, s.shape, op.dtype, op.update, operand, op.ufunc, returns)
            if target is not None and old is not None:
                target.fill(s, old[..., None].view(np.uint32))

        return step

    return build


def _ds_row(name: str, op: str) -> None:
    """``ds_KIND_TYPE`` and ``ds_KIND_rtn_TYPE``."""
    kind, _, dtype = name.rpartition("_")
    note = DS_OPS[op].note
    if kind != "wrxchg":
        row(f"ds_{name}", _ds_atomic(op, False), note)
    row(f"ds_{kind}_rtn_{dtype}", _ds_atomic(op, True), note)


for _ds, _op in (
    ("add_u", "add"),
    ("sub_u", "sub"),
    ("rsub_u", "rsub"),
    ("inc_u", "inc"),
    ("dec_u", "dec"),
    ("min_i", "smin"),
    ("max_i", "smax"),
    ("min_u", "umin"),
    ("max_u", "umax"),
    ("and_b", "and"),
    ("or_b", "or"),
    ("xor_b", "xor"),
    ("wrxchg_b", "swap"),
    ("cmpst_b", "cmpswap"),
    ("mskor_b", "mskor"),
):
    _ds_row(f"{_ds}32", _op)
    _ds_row(f"{_ds}64", f"{_op}_x2")
for _name in ("add", "min", "max", "cmpst"):
    _ds_row(f"{_name}_f32", f"{_name}_f32")
    _ds_row(f"{_name}_f64", f"{_name}_f64")
for _name in ("pk_add_bf16", "pk_add_f16"):
    _ds_row(_name, _name)
row("ds_wrap_rtn_b32", _ds_atomic("wrap", True))


def _ds_exchange2(size: int, scale: int) -> Callable[[Context, Parsed], Step]:
    """Two places of each lane get new values; the target gets both old ones."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        address, shared = _lds_address(ctx, parsed.operands[1]), ctx.shared
        data = [Move(ctx, operand, size, "u") for operand in parsed.operands[2:4]]
        target = Move(ctx, parsed.operands[0], 2 * size, "u")
        offsets = [parsed.number(name) * scale for name in ("offset0", "offset1")]
        op = DS_OPS["swap" if size == 4 else "swap_x2"]

        def step(s: Group) -> None:
            lanes = active_lanes(s)
            both = [
                spaces.lds(shared, s, address(s, offset), size, size, lanes) for offset in offsets
            ]
            places_of = [part.offsets[s.mask] for parts in both for part in parts]
            if places_of and len(np.unique(np.concatenate(places_of))) < 2 * len(places_of[0]):
                raise Fault("two lanes exchange one place, in an order that is not known")
            old = []
            for parts, move in zip(both, data, strict=True):
                spaces.settle(shared, s)
                values = np.ascontiguousarray(move.data(s)).view(op.dtype)[..., 0]
                got = places.atomic(parts, s.shape, op.dtype, op.update, values, None, True)
                assert got is not None
                old.append(got[..., None].view(np.uint32))
            target.fill(s, np.concatenate(old, axis=-1))

        return step

    return build


for _name, _size in (("b32", 4), ("b64", 8)):
    row(f"ds_wrxchg2_rtn_{_name}", _ds_exchange2(_size, _size))
    row(f"ds_wrxchg2st64_rtn_{_name}", _ds_exchange2(_size, 64 * _size))


def _ds_exchange_halves(ctx: Context, parsed: Parsed) -> Step:
    """Either dword of 8 bytes, each by the highest bit of its own new value."""
    address, offset = _lds_address(ctx, parsed.operands[1]), parsed.number("offset")
    data, target = (Move(ctx, parsed.operands[at], 8, "u") for at in (2, 0))
    op, shared = DS_OPS["condxchg"], ctx.shared

    def step(s: Group) -> None:
        first = address(s, offset) & np.uint32(0xFFF8)
        values, old = data.data(s), np.zeros((*s.shape, 2), np.uint32)
        spaces.settle(shared, s)
        for half in (0, 1):
            parts = spaces.lds(shared, s, first + np.uint32(4 * half), 4, 4, active_lanes(s))
            operand = np.ascontiguousarray(values[..., half])
            got = places.atomic(parts, s.shape, op.dtype, op.update, operand, None, True)
            assert got is not None
            old[..., half] = got
        target.fill(s, old)

    return step


row("ds_condxchg32_rtn_b64", _ds_exchange_halves)


def _place_of_lane(ctx: Context, parsed: Parsed) -> Callable[[Group], Array]:
    """M0[15:0] and the offset, and 4 bytes for each lane before it."""
    lanes = np.arange(ctx.layout.lanes, dtype=np.uint32) * np.uint32(4)
    offset = np.uint32(parsed.number("offset"))
    return lambda s: (s.su[M0] & np.uint32(0xFFFF))[:, None] + offset + lanes


def _ds_read_lanes(ctx: Context, parsed: Parsed) -> Step:
    move, place = Move(ctx, parsed.operands[0], 4, "u"), _place_of_lane(ctx, parsed)
    shared = ctx.shared

    def step(s: Group) -> None:
        parts = spaces.lds(shared, s, place(s), 4, 4, active_lanes(s))
        if s.ds_queue:
            spaces.before_read(shared, s, parts, 4)
        if shared.race is not None:
            shared.race.read(s, parts, 4)
        move.fill(s, places.load(parts, s.shape, 4))

    return step


def _ds_write_lanes(ctx: Context, parsed: Parsed) -> Step:
    ctx.writes_lds_late = True
    move, place = Move(ctx, parsed.operands[0], 4, "u"), _place_of_lane(ctx, parsed)
    shared, instruction = ctx.shared, ctx.address

    def step(s: Group) -> None:
        parts = spaces.lds(shared, s, place(s), 4, 4, active_lanes(s))
        if shared.race is not None:
            shared.race.write(s, parts, 4)
        _defer(shared, s, parts, move.data(s), instruction)

    return step


row("ds_read_addtid_b32", _ds_read_lanes)
row("ds_write_addtid_b32", _ds_write_lanes)
