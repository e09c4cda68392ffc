"""Memory instructions: scalar loads, LDS, buffer, global, flat and scratch.

Source: CDNA3 and CDNA4 ISA guides, "Scalar Memory", "Data Share", "Vector Memory". Where
NUM_RECORDS counts bytes and where records: Mesa, ``ac_descriptors.c`` (GFX9).
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Array, Context, Getter, Step, flush
from coasm.emulator.rows.context import store as put_row
from coasm.emulator.rows.floats import to_bf16
from coasm.emulator.rows.table import row
from coasm.emulator.state import places, spaces
from coasm.emulator.state.shared import Shared
from coasm.emulator.state.waves import LANES, Deferred, Group
from coasm.isa import M0, Literal, Operand, Parsed, Register, Word

__all__: list[str] = []

#: What only steers caches, which hold nothing back here. The SC0 of an atomic is none: it says that
#: the old value is returned. Source: CDNA3 and CDNA4 ISA guides, "Memory Scopes".
CACHE, SCOPE = "sc0 sc1 nt", "sc1 nt"

_MASK48 = np.uint64((1 << 48) - 1)
_U3 = np.uint64(~3 & 0xFFFF_FFFF_FFFF_FFFF)


# Scalar loads.


def _scalar_load(dwords: int, buffer: bool = False) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        target, base, offset = parsed.operands[:3]
        assert isinstance(target, Register) and isinstance(base, Register)
        pair = ctx.pair(base)
        number = parsed.number("offset")
        if isinstance(offset, Literal):
            ctx.take(offset)
            number += int(offset.value)
            where: Getter | None = None
        else:
            where = ctx.scalar_source(offset, "u32")
        first = [ctx.scalar(n) for n in target.numbers]
        if len(first) != dwords:
            raise Fault("the result does not have the size of what is loaded")
        constant = np.int64(number).astype(np.uint64)
        shared = ctx.shared

        def step(s: Group) -> None:
            address = s.d[pair] + constant
            if buffer:
                address = (s.d[pair] & _MASK48) + constant
            if where is not None:
                address = address + where(s)
            limit = None
            if buffer:
                stride = (s.su[2 * pair + 1] >> np.uint32(16) & np.uint32(0x3FFF)).astype(np.uint64)
                size = s.su[2 * pair + 2].astype(np.uint64) * np.where(
                    stride == 0, np.uint64(1), stride
                )
                relative = address - (s.d[pair] & _MASK48)
                limit = relative + np.uint64(4 * dwords) <= size
                if not limit.all():
                    raise Fault(
                        "a scalar buffer load beyond the buffer is not emulated",
                        int(np.argmin(limit)),
                    )
            parts = spaces.global_memory(
                shared, s, np.ascontiguousarray(address), 4 * dwords, 4, None
            )
            if len(parts) == 1 and parts[0].mask is None:
                values = places.gather(parts[0].views, parts[0].offsets, dwords)
            else:
                values = np.zeros((s.n, dwords), np.uint32)
                for part in parts:
                    mask = np.ones(s.n, bool) if part.mask is None else part.mask
                    values[mask] = places.gather(part.views, part.offsets[mask], dwords)
            for at, number in enumerate(first):
                s.su[number][...] = values[:, at]

        return step

    return build


for _n, _suffix in ((1, ""), (2, "x2"), (4, "x4"), (8, "x8"), (16, "x16")):
    row(f"s_load_dword{_suffix}", _scalar_load(_n), inert="glc")
    row(f"s_buffer_load_dword{_suffix}", _scalar_load(_n, buffer=True), inert="glc")


def _time(ctx: Context, parsed: Parsed) -> Step:
    put, shared = ctx.scalar_target(parsed.operands[0], "u64"), ctx.shared
    return lambda s: put(s, np.full(s.n, shared.clock, np.uint64))


row("s_memtime s_memrealtime", _time, "s_memtime: counts instructions, not cycles")


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
        out = np.empty((s.n, LANES, len(self.rows)), np.uint32)
        for at, index in enumerate(self.rows):
            out[..., at] = s.u[index]
        if "hi" in self.how:
            out >>= np.uint32(16)
        return out


def _active(s: Group) -> Array | None:
    return None if s.full else s.mask


#: Loads and stores may lie at any byte; atomics, scalar loads and pairs in LDS may not.
_ANY_BYTE = 1


# LDS.


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
            parts = spaces.lds(shared, s, address(s, offset), size, _ANY_BYTE, _active(s))
            if s.ds_queue:
                spaces.before_read(shared, s, parts, size)
            if shared.race is not None:
                shared.race.read(s, parts, size)
            move.fill(s, places.load(parts, (s.n, LANES), size))

        return step

    return build


def _ds_read_transposed(bits: int) -> Callable[[Context, Parsed], Step]:
    """16 lanes at a time read rows of 16 elements, and lane *i* of them gets column *i*.

    A lane reads 64 bits, so a row is what 4 or 2 lanes read one after the other. Source: LLVM,
    ``amdgpu.transpose_load``; proven by what Triton builds upon it (tests/compilers). Nothing
    proves the same of elements of 4 and 6 bits, which are not emulated therefore.
    """
    size = 8
    count = 8 * size // bits  # elements of a lane, rows of a block
    lane, element = np.arange(LANES)[:, None], np.arange(count)[None, :]
    column = lane & 15
    lanes, elements = lane & ~15 | element * 16 // count + column // count, column % count

    def transposed(values: Array) -> Array:
        flat = np.unpackbits(values.view(np.uint8), axis=-1, bitorder="little")
        parts = flat.reshape(*values.shape[:2], count, bits)[:, lanes, elements]
        packed = np.packbits(parts.reshape(*values.shape[:2], -1), axis=-1, bitorder="little")
        return packed.view(np.uint32)

    def build(ctx: Context, parsed: Parsed) -> Step:
        move = Move(ctx, parsed.operands[0], size, "u")
        address, shared = _lds_address(ctx, parsed.operands[1]), ctx.shared
        offset = parsed.number("offset")

        def step(s: Group) -> None:
            if not s.full:
                raise Fault("a transposing read with lanes switched off is not emulated")
            parts = spaces.lds(shared, s, address(s, offset), size, _ANY_BYTE, _active(s))
            if s.ds_queue:
                spaces.before_read(shared, s, parts, size)
            if shared.race is not None:
                shared.race.read(s, parts, size)
            loaded = np.ascontiguousarray(places.load(parts, (s.n, LANES), size))
            move.fill(s, transposed(loaded))

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
                parts = spaces.lds(shared, s, address(s, offset), size, 4, _active(s))
                if s.ds_queue:
                    spaces.before_read(shared, s, parts, size)
                if shared.race is not None:
                    shared.race.read(s, parts, size)
                values = places.load(parts, (s.n, LANES), size)
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
        offsets, valid = np.zeros((s.n, LANES), np.int64), np.zeros((s.n, LANES), bool)
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
            parts = spaces.lds(shared, s, address(s, offset), size, _ANY_BYTE, _active(s))
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
                parts = spaces.lds(shared, s, address(s, offset), size, 4, _active(s))
                if shared.race is not None:
                    shared.race.write(s, parts, size)
                places.store(parts, move.data(s), size)
            _defer(shared, s, [], np.zeros((s.n, LANES, 1), np.uint32), 0)

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
for _bits in (16, 8):
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


# Atomics: (name, type, ufunc for memory op data, or a function).


def _increment(old: Array, data: Array) -> Array:
    return np.where(old >= data, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old: Array, data: Array) -> Array:
    return np.where((old == 0) | (old > data), data, old - old.dtype.type(1))


_FLOATS: dict[Any, tuple[Any, int]] = {
    np.dtype(np.float16): (np.uint16, 1 << 9),
    np.dtype(np.float32): (np.uint32, 1 << 22),
    np.dtype(np.float64): (np.uint64, 1 << 51),
}


def _sum(old: Array, data: Array) -> Array:
    """A float sum: a NaN stays one, quiet, the first of two; numbers without a sum give AMD's."""
    total = old + data
    if np.isnan(total).any():
        unsigned, quiet = _FLOATS[total.dtype]
        total = np.where(np.isnan(total), np.abs(total), total)  # x86's has its sign set
        for value in (data, old):
            bits = np.ascontiguousarray(value).view(unsigned) | unsigned(quiet)
            total = np.where(np.isnan(value), bits.view(value.dtype), total)
    return total


def _add_bf16(old: Array, data: Array) -> Array:
    out = np.zeros(old.shape, np.uint32)
    for up in (np.uint32(0), np.uint32(16)):
        a, b = ((v >> up << np.uint32(16)).view(np.float32) for v in (old, data))
        out |= to_bf16(_sum(a, b)) << up
    return out


def _add_f16(old: Array, data: Array) -> Array:
    a, b = (np.ascontiguousarray(v)[:, None].view(np.float16) for v in (old, data))
    return np.ascontiguousarray(_sum(a, b)).view(np.uint32)[:, 0]


def _smaller(old: Array, data: Array) -> Array:
    """As the ISA guides have it: what is no number, or the same number, changes nothing."""
    return np.where(data < old, data, old)


def _larger(old: Array, data: Array) -> Array:
    return np.where(data > old, data, old)


def _add_flushed(old: Array, data: Array) -> Array:
    return flush(np.atleast_1d(_sum(flush(old), flush(data))))


class Op:
    """What an atomic does: ``update(old, data)`` on *dtype*, and the ufunc that does the same.

    The ufunc of a float addition does so where everything is finite.
    """

    def __init__(self, dtype: Any, update: Any, ufunc: Any = None, note: str = "") -> None:
        self.dtype, self.update, self.ufunc, self.note = dtype, update, ufunc, note


def _exchange(old: Array, data: Array) -> Array:
    return data


_WIDE: tuple[tuple[str, str, Any, Any], ...] = (
    ("add", "u", np.add, np.add),
    ("sub", "u", np.subtract, np.subtract),
    ("umin", "u", np.minimum, np.minimum),
    ("umax", "u", np.maximum, np.maximum),
    ("smin", "i", np.minimum, np.minimum),
    ("smax", "i", np.maximum, np.maximum),
    ("and", "u", np.bitwise_and, np.bitwise_and),
    ("or", "u", np.bitwise_or, np.bitwise_or),
    ("xor", "u", np.bitwise_xor, np.bitwise_xor),
    ("inc", "u", _increment, None),
    ("dec", "u", _decrement, None),
    ("swap", "u", _exchange, None),
)
_TYPES = {"u": (np.uint32, np.uint64), "i": (np.int32, np.int64)}
OPS: dict[str, Op] = {}
for _name, _sign, _update, _ufunc in _WIDE:
    for _at, _suffix in ((0, ""), (1, "_x2")):
        OPS[_name + _suffix] = Op(_TYPES[_sign][_at], _update, _ufunc)
_ORDER = "float atomics add in the order of the waves"
OPS["add_f32"] = Op(np.float32, _sum, np.add, _ORDER)
OPS["add_f64"] = Op(np.float64, _sum, np.add, _ORDER)
OPS["min_f64"] = Op(np.float64, _smaller)
OPS["max_f64"] = Op(np.float64, _larger)
OPS["pk_add_bf16"] = Op(np.uint32, _add_bf16, None, _ORDER)
OPS["pk_add_f16"] = Op(np.uint32, _add_f16, None, _ORDER)


def _compare_swap(old: Array, data: Array) -> Array:
    return np.where(old == data[..., 1], data[..., 0], old)


OPS["cmpswap"] = Op(np.uint32, _compare_swap)
OPS["cmpswap_x2"] = Op(np.uint64, _compare_swap)


def _updated(
    s: Group, parts: list[places.Part], op: Op, data: Array, returns: bool
) -> Array | None:
    return places.atomic(parts, (s.n, LANES), op.dtype, op.update, data, op.ufunc, returns)


def _run_atomic(
    s: Group, parts: list[places.Part], op: Op, move: Move, returns: bool
) -> Array | None:
    """The old values as uint32 [n, 64, dwords] where *returns*."""
    raw = move.data(s)
    data = np.ascontiguousarray(raw).view(op.dtype)
    if data.shape[-1] == 1:
        data = data[..., 0]
    if any(part.space == "scratch" for part in parts) and np.dtype(op.dtype).itemsize == 8:
        raise Fault("a 64-bit atomic on scratch memory")
    old = _updated(s, parts, op, data, returns)
    return None if old is None else old[..., None].view(np.uint32)


def _size_of(op: Op, name: str) -> int:
    return int(np.dtype(op.dtype).itemsize) * (2 if name.startswith("cmpswap") else 1)


#: Only LDS has these.
DS_OPS = {
    **OPS,
    "rsub": Op(np.uint32, lambda old, data: data - old),
    "rsub_x2": Op(np.uint64, lambda old, data: data - old),
    "min_f32": Op(np.float32, _smaller),
    "max_f32": Op(np.float32, _larger),
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
        return Op(np.float32, _add_flushed)
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
            parts = spaces.lds(shared, s, address(s, offset), size, size, _active(s))
            if s.ds_queue:
                spaces.before_read(shared, s, parts, size)
            values = [np.ascontiguousarray(move.data(s)).view(op.dtype)[..., 0] for move in data]
            # DS compare-and-swap has the comparison first, then the replacement.
            operand = np.stack(values[::-1], axis=-1) if len(values) == 2 else values[0]
            old = places.atomic(
                parts, (s.n, LANES), op.dtype, op.update, operand, op.ufunc, returns
            )
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
):
    _ds_row(f"{_ds}32", _op)
    _ds_row(f"{_ds}64", f"{_op}_x2")
for _name in ("add", "min", "max"):
    _ds_row(f"{_name}_f32", f"{_name}_f32")
    _ds_row(f"{_name}_f64", f"{_name}_f64")
for _name in ("pk_add_bf16", "pk_add_f16"):
    _ds_row(_name, _name)


def _bpermute(backward: bool) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        d = ctx.rows(parsed.operands[0])[0]
        index, data = (ctx.rows(op)[0] for op in parsed.operands[1:3])
        offset = np.uint32(parsed.number("offset"))

        def step(s: Group) -> None:
            lane = ((s.u[index] + offset) >> np.uint32(2) & np.uint32(63)).astype(np.int64)
            source = s.u[data] if s.full else np.where(s.mask, s.u[data], np.uint32(0))
            rows = np.arange(s.n)[:, None]
            if backward:
                put_row(s, d, source[rows, lane])
                return
            out = np.zeros((s.n, LANES), np.uint32)
            on = np.broadcast_to(s.mask, lane.shape)
            which = np.broadcast_to(rows, lane.shape)
            out[which[on], lane[on]] = source[on]  # the highest lane wins
            put_row(s, d, out)

        return step

    return build


row("ds_bpermute_b32", _bpermute(True))
row("ds_permute_b32", _bpermute(False))


def _swizzle(ctx: Context, parsed: Parsed) -> Step:
    d, a = ctx.rows(parsed.operands[0])[0], ctx.rows(parsed.operands[1])[0]
    # From the encoding: the text names the patterns.
    parsed.modifiers.get("offset")
    number = int.from_bytes(ctx.data[:2], "little")
    lane = np.arange(LANES)
    if number & 0x8000:
        lanes = lane & ~3 | (number >> 2 * (lane & 3) & 3)
    else:
        low = lane & 31
        lanes = lane & 32 | ((low & number & 31 | number >> 5 & 31) ^ number >> 10 & 31)

    def step(s: Group) -> None:
        source = s.u[a] if s.full else np.where(s.mask, s.u[a], np.uint32(0))
        put_row(s, d, source[:, lanes])

    return step


row("ds_swizzle_b32", _swizzle)


# Global, flat and scratch.


def _vector_address(ctx: Context, parsed: Parsed, at: int, space: str) -> Getter:
    """The addresses of an access whose address operands begin at *at*."""
    vaddr = parsed.operands[at]
    saddr = parsed.operands[at + 1] if space != "flat" else Word("off")
    offset = parsed.number("offset")
    if space == "scratch":
        vector = None if isinstance(vaddr, Word) else ctx.rows(vaddr)[0]
        scalar = None if isinstance(saddr, Word) else ctx.scalar_source(saddr, "u32")

        def private(s: Group) -> Array:
            total = np.full((s.n, LANES), np.uint32(offset & 0xFFFF_FFFF))
            if vector is not None:
                total += s.u[vector]
            if scalar is not None:
                total += scalar(s)[:, None] if scalar(s).ndim else scalar(s)
            return total

        return private
    constant = np.int64(offset).astype(np.uint64)
    if isinstance(saddr, Word):
        low, high = ctx.rows(vaddr)[:2]

        def wide(s: Group) -> Array:
            both = np.empty((s.n, LANES, 2), np.uint32)
            both[..., 0] = s.u[low]
            both[..., 1] = s.u[high]
            address = both.view(np.uint64)[..., 0]
            return address + constant if offset else address

        return wide
    row_at, pair = ctx.rows(vaddr)[0], ctx.pair(saddr)
    return lambda s: s.u[row_at].astype(np.uint64) + (s.d[pair] + constant)[:, None]


_PORTS = {"global": spaces.global_memory, "flat": spaces.flat, "scratch": spaces.scratch}


def _vector_load(space: str, size: int, how: str) -> Callable[[Context, Parsed], Step]:
    port = _PORTS[space]

    def build(ctx: Context, parsed: Parsed) -> Step:
        move = Move(ctx, parsed.operands[0], size, how)
        address, shared = _vector_address(ctx, parsed, 1, space), ctx.shared

        def step(s: Group) -> None:
            parts = port(shared, s, address(s), size, _ANY_BYTE, _active(s))
            if s.ds_queue and space == "flat":
                spaces.before_read(shared, s, parts, size)
            move.fill(s, places.load(parts, (s.n, LANES), size))

        return step

    return build


def _vector_store(space: str, size: int, how: str) -> Callable[[Context, Parsed], Step]:
    port = _PORTS[space]

    def build(ctx: Context, parsed: Parsed) -> Step:
        if space == "scratch":  # scratch_store off, v0, s33
            data, parts_at = 1, parsed._replace(operands=(parsed.operands[0], *parsed.operands[2:]))
        else:
            data, parts_at = 1, parsed._replace(operands=(parsed.operands[0], *parsed.operands[2:]))
        move = Move(ctx, parsed.operands[data], size, how)
        address, shared = _vector_address(ctx, parts_at, 0, space), ctx.shared

        def step(s: Group) -> None:
            parts = port(shared, s, address(s), size, _ANY_BYTE, _active(s))
            if space == "flat":
                spaces.settle(shared, s)
            places.store(parts, move.data(s), size)

        return step

    return build


def _vector_atomic(space: str, name: str) -> Callable[[Context, Parsed], Step]:
    port, op = _PORTS[space], OPS[name]

    def build(ctx: Context, parsed: Parsed) -> Step:
        returns = "sc0" in parsed.modifiers or "glc" in parsed.modifiers
        base = 1 if returns else 0
        operands = parsed.operands[base:]
        unit = np.dtype(op.dtype).itemsize
        move = Move(ctx, operands[1], _size_of(op, name), "u")
        target = Move(ctx, parsed.operands[0], unit, "u") if returns else None
        bare = parsed._replace(operands=(operands[0], *operands[2:]))
        address, shared = _vector_address(ctx, bare, 0, space), ctx.shared
        # The memory keeps the denormals of float32, LDS does as the mode says.
        mixed = name == "add_f32" and ctx.flushes_in("f32")

        def step(s: Group) -> None:
            parts = port(shared, s, address(s), unit, unit, _active(s))
            if s.ds_queue and space == "flat":
                spaces.before_read(shared, s, parts, unit)
            if mixed and any(part.space == "lds" for part in parts):
                raise Fault("an atomic on floats in LDS with flushed denormals is not emulated")
            old = _run_atomic(s, parts, op, move, returns)
            if target is not None and old is not None:
                target.fill(s, old)

        return step

    return build


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
for _space in _PORTS:
    for _name, _size, _how in LOADS:
        row(f"{_space}_load_{_name}", _vector_load(_space, _size, _how), inert=CACHE)
    for _name, _size, _how in STORES:
        row(f"{_space}_store_{_name}", _vector_store(_space, _size, _how), inert=CACHE)
    if _space != "scratch":
        for _name, _one in OPS.items():
            row(f"{_space}_atomic_{_name}", _vector_atomic(_space, _name), _one.note, SCOPE)


# Direct-to-LDS loads.


_DMA_SIZES = {
    "ubyte": 1,
    "sbyte": 1,
    "ushort": 2,
    "sshort": 2,
    "dword": 4,
    "dwordx3": 12,
    "dwordx4": 16,
}


def _dma(ctx: Context, name: str, offset: int) -> Callable[[Group, Array], None]:
    """A function that queues loaded values (uint32 [n, 64, dwords]) on their way to LDS.

    Lane L's go to ``M0 + offset + L * stride``: stride 4, 16 for 12 and 16 bytes.
    """
    if name not in _DMA_SIZES:
        raise Fault(f"a load of {name} has no way to LDS")
    ctx.writes_lds_late = True
    size = _DMA_SIZES[name]
    stride = 16 if size > 4 else 4
    place = np.arange(LANES, dtype=np.uint32) * np.uint32(stride) + np.uint32(offset & 0xFFFF_FFFF)
    shared, address = ctx.shared, ctx.address
    signed = name.startswith("s")

    def send(s: Group, values: Array) -> None:
        if signed:
            values = (
                values.astype(np.int8 if size == 1 else np.int16).astype(np.int32).view(np.uint32)
            )
        where = s.su[M0][:, None] + place
        parts = spaces.lds(shared, s, where, max(size, 4), 4, _active(s))
        if shared.race is not None:
            shared.race.write(s, parts, max(size, 4), flying=True)
        if parts:
            entry = Deferred(address, parts[0].offsets, values, parts[0].mask)
        else:
            entry = Deferred(
                address, np.zeros((s.n, LANES), np.int64), values, np.zeros((s.n, LANES), bool)
            )
        s.vm_queue.append(entry)

    return send


def _global_lds(name: str) -> Callable[[Context, Parsed], Step]:
    size = _DMA_SIZES[name]

    def build(ctx: Context, parsed: Parsed) -> Step:
        address, shared = _vector_address(ctx, parsed, 0, "global"), ctx.shared
        send = _dma(ctx, name, parsed.number("offset"))

        def step(s: Group) -> None:
            parts = spaces.global_memory(shared, s, address(s), size, _ANY_BYTE, _active(s))
            send(s, places.load(parts, (s.n, LANES), size))

        return step

    return build


for _name in ("ubyte", "sbyte", "ushort", "sshort", "dword"):
    row(f"global_load_lds_{_name}", _global_lds(_name), inert=CACHE)
for _name in ("dwordx3", "dwordx4"):
    row(f"global_load_lds_{_name}", _global_lds(_name), inert=CACHE)


# Buffers.

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
        base = s.d[pair] & _MASK48
        word1, word3 = s.su[self.first + 1], s.su[self.first + 3]
        records = s.su[self.first + 2].astype(np.uint64)
        stride = word1 >> np.uint32(16) & np.uint32(0x3FFF)
        swizzled = word1 >> np.uint32(31) != 0
        add_tid = word3 & np.uint32(1 << 23)
        soffset: Array = np.asarray(self.soffset(s)).astype(np.uint64)
        offset: Array
        if self.offset_row is None:
            offset = np.full((s.n, LANES), self.inst)
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
            np.zeros((s.n, LANES), np.uint64)
            if self.index_row is None
            else s.u[self.index_row].astype(np.uint64)
        )
        if add_tid.any():
            index = index + np.where(
                add_tid[:, None] != 0, np.arange(LANES, dtype=np.uint64), np.uint64(0)
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
    active = _active(s)
    if lanes is None:
        parts = spaces.global_memory(shared, s, address, size, _ANY_BYTE, active)
        return places.load(parts, (s.n, LANES), size)
    everything = lanes[0]
    for one in lanes[1:]:
        everything = everything & one
    same = all(bool((one == everything).all()) for one in lanes)
    if same:
        mask = everything if active is None else everything & active
        parts = spaces.global_memory(shared, s, address, size, _ANY_BYTE, mask)
        return places.load(parts, (s.n, LANES), size)
    out = np.zeros((s.n, LANES, len(lanes)), np.uint32)
    for at, one in enumerate(lanes):
        mask = one if active is None else one & active
        parts = spaces.global_memory(shared, s, address + np.uint64(4 * at), 4, _ANY_BYTE, mask)
        out[..., at] = places.load(parts, (s.n, LANES), 4)[..., 0]
    return out


def _buffer_load(name: str, size: int, how: str) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        shared = ctx.shared
        if "lds" in parsed.modifiers:
            processor = shared.processor
            if size > 4 and not processor.family.wide_lds_loads:
                raise Fault(f"{processor.name} has no {parsed.mnemonic} to LDS")
            buffer = Buffer(ctx, parsed, 0)
            send = _dma(ctx, name, parsed.number("offset"))

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
            values, active = move.data(s), _active(s)
            if lanes is None:
                places.store(
                    spaces.global_memory(shared, s, address, size, _ANY_BYTE, active), values, size
                )
                return
            for at, one in enumerate(lanes):
                mask = one if active is None else one & active
                width = min(size, 4)
                parts = spaces.global_memory(
                    shared, s, address + np.uint64(4 * at), width, _ANY_BYTE, mask
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
        move = Move(ctx, parsed.operands[0], _size_of(op, name), "u")
        target = move if move.size == unit else None
        if returns and target is None:
            rows = parsed.operands[0]
            assert isinstance(rows, Register)
            target = Move(ctx, rows._replace(size=unit // 4), unit, "u")

        def step(s: Group) -> None:
            address, lanes = buffer.addresses(s, unit, True)
            mask = _active(s)
            if lanes is not None:
                mask = lanes[0] if mask is None else lanes[0] & mask
            parts = spaces.global_memory(shared, s, address, unit, unit, mask)
            old = _run_atomic(s, parts, op, move, returns)
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
