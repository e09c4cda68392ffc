"""Vector instructions on integers and bits, moves, selections, comparisons, lane exchanges.

Source: CDNA3 and CDNA4 ISA guides, "Vector ALU Operations" (VOP1, VOP2, VOP3, VOPC).
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.dpp import write_mask, writes_all
from coasm.emulator.rows.scalar import first_one, leading_signs, leading_zeros
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import DTYPES, Array, Step
from coasm.emulator.state.waves import Group
from coasm.isa import VGPR, Literal, Parsed, Register

__all__ = ["Function", "is_plain", "random_bits", "saturating", "vector"]

Function = Callable[..., Any]
_31 = np.uint32(31)


def is_plain(ctx: Context, parsed: Parsed) -> bool:
    """Whether the operands are whole 32-bit registers or constants, without any modifier."""
    if ctx.index or parsed.modifiers:
        return False
    for operand in parsed.operands:
        if isinstance(operand, Literal) and (operand.negate or operand.absolute):
            return False
        if isinstance(operand, Register) and (
            operand.negate or operand.absolute or operand.size != 1 or 127 < operand.first < VGPR
        ):
            return False
    target = parsed.operands[0]
    return isinstance(target, Register) and target.first >= VGPR


def vector(
    kinds: str, function: Function, *, keep: bool = False, saturate: bool = False
) -> Callable[[Context, Parsed], Step]:
    """``dst = function(*sources)`` lane by lane; *kinds* are those of the result and the sources.

    A ufunc on 32-bit operands writes straight into the register. *keep*: a 16-bit result leaves
    the other half of its register alone. *saturate*: the function takes ``clamp=True``.
    """
    out, *sources = kinds.split()
    direct = isinstance(function, np.ufunc) and {out, *sources} in ({"u32"}, {"i32"})
    signed = out == "i32"

    def build(ctx: Context, parsed: Parsed) -> Step:
        if direct and is_plain(ctx, parsed):
            return _direct(ctx, parsed, function, signed)  # type: ignore[arg-type]
        clamp = saturate and "clamp" in parsed.modifiers
        gets = [ctx.source(parsed, at + 1, kind) for at, kind in enumerate(sources)]
        put = ctx.target(parsed, out, keep=keep)
        dtype = DTYPES[out]

        def step(s: Group) -> None:
            values = [get(s) for get in gets]
            result = function(*values, clamp=True) if clamp else function(*values)
            put(s, np.asarray(result).astype(dtype, copy=False))

        return step

    return build


def _direct(ctx: Context, parsed: Parsed, function: np.ufunc, signed: bool) -> Step:
    d = ctx.rows(parsed.operands[0])[0]
    at = [ctx.k(operand) for operand in parsed.operands[1:]]
    if len(at) == 2:
        a, b = at

        def two(s: Group) -> None:
            u = s.i if signed else s.u
            if s.full:
                function(u[a], u[b], out=u[d])
            else:
                function(u[a], u[b], out=u[d], where=s.mask)

        return two
    a = at[0]

    def one(s: Group) -> None:
        u = s.i if signed else s.u
        if s.full:
            function(u[a], out=u[d])
        else:
            function(u[a], out=u[d], where=s.mask)

    return one


def _swap(function: Function) -> Function:
    return lambda a, b: function(b, a)


def _reversed(kinds: str, function: np.ufunc, mask: int) -> Callable[[Context, Parsed], Step]:
    """A shift whose first operand is the distance, of which *mask* are the bits that count."""
    general = vector(kinds, lambda a, b: function(b, (a & a.dtype.type(mask)).astype(b.dtype)))
    signed = kinds.startswith("i32")

    def build(ctx: Context, parsed: Parsed) -> Step:
        count = parsed.operands[1]
        if kinds not in ("u32 u32 u32", "i32 u32 i32") or not is_plain(ctx, parsed):
            return general(ctx, parsed)
        if isinstance(count, Literal) and isinstance(count.value, int):
            ctx.take(count)
            a = ctx.layout.rows + 128 + ctx.constant(count.value & mask)
            b, d = ctx.k(parsed.operands[2]), ctx.rows(parsed.operands[0])[0]

            def step(s: Group) -> None:
                u = s.i if signed else s.u
                if s.full:
                    function(u[b], u[a], out=u[d])
                else:
                    function(u[b], u[a], out=u[d], where=s.mask)

            return step
        return general(ctx, parsed)

    return build


for _name, _function in (
    ("and", np.bitwise_and),
    ("or", np.bitwise_or),
    ("xor", np.bitwise_xor),
):
    row(f"v_{_name}_b32", vector("u32 u32 u32", _function))


def _move(ctx: Context, parsed: Parsed) -> Step:
    step = _MOVE(ctx, parsed)
    source = parsed.operands[1]
    ctx.now_clean = (
        is_plain(ctx, parsed) and isinstance(source, Literal) and ctx.is_clean(source, "f32")
    )
    return step


_MOVE = vector("u32 u32", np.positive)
row("v_mov_b32 v_accvgpr_read_b32 v_accvgpr_write_b32 v_accvgpr_mov_b32", _move)
row("v_mov_b64", vector("u64 u64", lambda a: a))
row("v_not_b32", vector("u32 u32", np.invert))
row("v_xnor_b32", vector("u32 u32 u32", lambda a, b: ~(a ^ b)))


def saturating(function: np.ufunc) -> Function:
    """Integer addition or subtraction that *clamp* saturates to the type's range."""

    def compute(a: Array, b: Array, clamp: bool = False) -> Array:
        if not clamp:
            return function(a, b)
        limits = np.iinfo(a.dtype)
        exact = function(a.astype(np.int64), b.astype(np.int64))
        return np.clip(exact, limits.min, limits.max).astype(a.dtype)

    return compute


def _arithmetic(
    kinds: str, function: np.ufunc, *, keep: bool = False
) -> Callable[[Context, Parsed], Step]:
    fast, general = (
        vector(kinds, function),
        vector(kinds, saturating(function), saturate=True, keep=keep),
    )
    return lambda ctx, parsed: (general if "clamp" in parsed.modifiers or keep else fast)(
        ctx, parsed
    )


def _median(a: Array, b: Array, c: Array) -> Array:
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


row("v_add_u32", _arithmetic("u32 u32 u32", np.add))
row("v_sub_u32", _arithmetic("u32 u32 u32", np.subtract))
row("v_subrev_u32", vector("u32 u32 u32", _swap(saturating(np.subtract))))
row("v_add_i32", _arithmetic("i32 i32 i32", np.add))
row("v_sub_i32", _arithmetic("i32 i32 i32", np.subtract))
row("v_mul_lo_u32", vector("u32 u32 u32", np.multiply))
for _kind in ("u", "i"):
    row(f"v_min_{_kind}32", vector(f"{_kind}32 {_kind}32 {_kind}32", np.minimum))
    row(f"v_max_{_kind}32", vector(f"{_kind}32 {_kind}32 {_kind}32", np.maximum))
    row(f"v_min_{_kind}16", vector(f"{_kind}16 {_kind}16 {_kind}16", np.minimum))
    row(f"v_max_{_kind}16", vector(f"{_kind}16 {_kind}16 {_kind}16", np.maximum))
    for _size in ("32", "16"):
        _three, _keep = " ".join([_kind + _size] * 4), _size == "16"
        row(
            f"v_min3_{_kind}{_size}",
            vector(_three, lambda a, b, c: np.minimum(np.minimum(a, b), c), keep=_keep),
        )
        row(
            f"v_max3_{_kind}{_size}",
            vector(_three, lambda a, b, c: np.maximum(np.maximum(a, b), c), keep=_keep),
        )
        row(f"v_med3_{_kind}{_size}", vector(_three, _median, keep=_keep))

row("v_lshlrev_b32", _reversed("u32 u32 u32", np.left_shift, 31))
row("v_lshrrev_b32", _reversed("u32 u32 u32", np.right_shift, 31))
row("v_ashrrev_i32", _reversed("i32 u32 i32", np.right_shift, 31))
row("v_lshlrev_b16", _reversed("u16 u16 u16", np.left_shift, 15))
row("v_lshrrev_b16", _reversed("u16 u16 u16", np.right_shift, 15))
row("v_ashrrev_i16", _reversed("i16 u16 i16", np.right_shift, 15))
row("v_lshlrev_b64", _reversed("u64 u32 u64", np.left_shift, 63))
row("v_lshrrev_b64", _reversed("u64 u32 u64", np.right_shift, 63))
row("v_ashrrev_i64", _reversed("i64 u32 i64", np.right_shift, 63))


def _times(dtype: Any, out: Any, shift: int = 0, bits: int = 0) -> Function:
    """A product in *dtype*, shifted; *bits*: the operands are their low 24 bits, sign-extended."""

    def compute(a: Array, b: Array) -> Array:
        if bits:
            up = a.dtype.type(32 - bits)
            a, b = a << up >> up, b << up >> up
        return (a.astype(dtype) * b.astype(dtype) >> dtype(shift)).astype(out)

    return compute


def _mul24(a: Array, b: Array) -> Array:
    up = a.dtype.type(8)
    return (a << up >> up) * (b << up >> up)


row("v_mul_hi_u32", vector("u32 u32 u32", _times(np.uint64, np.uint32, 32)))
row("v_mul_hi_i32", vector("i32 i32 i32", _times(np.int64, np.int32, 32)))
row("v_mul_i32_i24", vector("i32 i32 i32", _mul24))
row("v_mul_u32_u24", vector("u32 u32 u32", _mul24))
row("v_mul_hi_i32_i24", vector("i32 i32 i32", _times(np.int64, np.int32, 32, 24)))
row("v_mul_hi_u32_u24", vector("u32 u32 u32", _times(np.uint64, np.uint32, 32, 24)))
row("v_mad_i32_i24", vector("i32 i32 i32 i32", lambda a, b, c: _mul24(a, b) + c))
row("v_mad_u32_u24", vector("u32 u32 u32 u32", lambda a, b, c: _mul24(a, b) + c))
row("v_add_u16", _arithmetic("u16 u16 u16", np.add))
row("v_sub_u16", _arithmetic("u16 u16 u16", np.subtract))
row("v_subrev_u16", vector("u16 u16 u16", _swap(np.subtract)))
row("v_add_i16", _arithmetic("i16 i16 i16", np.add))
row("v_sub_i16", _arithmetic("i16 i16 i16", np.subtract))
row("v_mul_lo_u16", vector("u16 u16 u16", np.multiply))
row("v_mad_legacy_u16 v_mad_legacy_i16", vector("u16 u16 u16 u16", lambda a, b, c: a * b + c))
row("v_mad_u16 v_mad_i16", vector("u16 u16 u16 u16", lambda a, b, c: a * b + c, keep=True))

row("v_mad_u32_u16", vector("u32 u16 u16 u32", lambda a, b, c: a.astype(np.uint32) * b + c))
row("v_mad_i32_i16", vector("i32 i16 i16 i32", lambda a, b, c: a.astype(np.int32) * b + c))

row("v_lshl_add_u32", vector("u32 u32 u32 u32", lambda a, b, c: (a << (b & _31)) + c))
row("v_add_lshl_u32", vector("u32 u32 u32 u32", lambda a, b, c: (a + b) << (c & _31)))
row("v_lshl_or_b32", vector("u32 u32 u32 u32", lambda a, b, c: a << (b & _31) | c))
row("v_and_or_b32", vector("u32 u32 u32 u32", lambda a, b, c: a & b | c))
row("v_or3_b32", vector("u32 u32 u32 u32", lambda a, b, c: a | b | c))
row("v_add3_u32", vector("u32 u32 u32 u32", lambda a, b, c: a + b + c))
row("v_xad_u32", vector("u32 u32 u32 u32", lambda a, b, c: (a ^ b) + c))
row("v_bfi_b32", vector("u32 u32 u32 u32", lambda a, b, c: a & b | ~a & c))
row(
    "v_lshl_add_u64",
    vector("u64 u64 u32 u64", lambda a, b, c: (a << (b & np.uint32(7)).astype(np.uint64)) + c),
)


def _bitop3(bits16: bool) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        table = parsed.number("bitop3")

        def compute(a: Array, b: Array, c: Array) -> Array:
            zero = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), a.dtype)
            for entry in range(8):
                if table >> entry & 1:
                    zero |= (
                        (a if entry & 4 else ~a)
                        & (b if entry & 2 else ~b)
                        & (c if entry & 1 else ~c)
                    )
            return zero

        kind = "u16" if bits16 else "u32"
        return vector(f"{kind} {kind} {kind} {kind}", compute)(ctx, parsed)

    return build


row("v_bitop3_b32", _bitop3(False))
row("v_bitop3_b16", _bitop3(True))


def _bfe(a: Array, b: Array, c: Array) -> Array:
    at, width = b & b.dtype.type(31), c & c.dtype.type(31)
    moved = a >> at.astype(a.dtype)
    up = ((32 - width.astype(np.int32)) & 31).astype(a.dtype)
    return np.where(width == 0, a.dtype.type(0), moved << up >> up)


row("v_bfe_u32", vector("u32 u32 u32 u32", _bfe))
row("v_bfe_i32", vector("i32 i32 u32 u32", _bfe))
row(
    "v_bfm_b32",
    vector("u32 u32 u32", lambda a, b: ((np.uint32(1) << (a & _31)) - np.uint32(1)) << (b & _31)),
)


def _bytes64(a: Array, b: Array) -> Array:
    return a.astype(np.uint64) << np.uint64(32) | b


row(
    "v_alignbit_b32",
    vector("u32 u32 u32 u32", lambda a, b, c: _bytes64(a, b) >> (c & _31).astype(np.uint64)),
)
row(
    "v_alignbyte_b32",
    vector(
        "u32 u32 u32 u32",
        lambda a, b, c: _bytes64(a, b) >> ((c & np.uint32(3)) * np.uint32(8)).astype(np.uint64),
    ),
)


def _perm(a: Array, b: Array, c: Array) -> Array:
    """Each byte of *c* picks one of the 8 bytes of a:b, a sign of one of them, 0 or 0xFF."""
    both = _bytes64(a, b)
    out = np.zeros(np.broadcast_shapes(both.shape, c.shape), np.uint32)
    for at in range(4):
        pick = (c >> np.uint32(8 * at)) & np.uint32(0xFF)
        byte = (both >> ((pick & np.uint32(7)) * np.uint32(8)).astype(np.uint64)) & np.uint64(0xFF)
        sign_of = ((pick - np.uint32(8)) & np.uint32(3)) * np.uint32(16) + np.uint32(15)
        sign = (both >> sign_of.astype(np.uint64) & np.uint64(1)) * np.uint64(0xFF)
        value = np.where(
            pick < 8,
            byte,
            np.where(pick < 12, sign, np.where(pick == 12, np.uint64(0), np.uint64(0xFF))),
        )
        out |= value.astype(np.uint32) << np.uint32(8 * at)
    return out


row("v_perm_b32", vector("u32 u32 u32 u32", _perm))


def _reverse(a: Array) -> Array:
    a = (a >> np.uint32(1)) & np.uint32(0x55555555) | (a & np.uint32(0x55555555)) << np.uint32(1)
    a = (a >> np.uint32(2)) & np.uint32(0x33333333) | (a & np.uint32(0x33333333)) << np.uint32(2)
    a = (a >> np.uint32(4)) & np.uint32(0x0F0F0F0F) | (a & np.uint32(0x0F0F0F0F)) << np.uint32(4)
    return a.byteswap()


row("v_bfrev_b32", vector("u32 u32", _reverse))
row("v_ffbh_u32", vector("i32 u32", leading_zeros))
row("v_ffbl_b32", vector("i32 u32", first_one))
row("v_ffbh_i32", vector("i32 i32", leading_signs))
row("v_bcnt_u32_b32", vector("u32 u32 u32", lambda a, b: np.bitwise_count(a) + b))


def _below(high: bool) -> Callable[[Context, Parsed], Step]:
    """How many bits of a mask belong to the lanes below; of lanes 0 to 31 or of the others."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        lane = np.arange(ctx.layout.lanes)
        count = np.clip(lane - 32 if high else lane, 0, 32)
        masks = ((1 << count.astype(np.uint64)) - 1).astype(np.uint32)
        compute = vector("u32 u32 u32", lambda a, b: np.bitwise_count(a & masks) + b)
        return compute(ctx, parsed)

    return build


row("v_mbcnt_lo_u32_b32", _below(False))
row("v_mbcnt_hi_u32_b32", _below(True))


def random_bits(a: Array) -> Array:
    """The next number of a generator (a linear feedback shift register of 32 bits)."""
    return a << np.uint32(1) ^ (a >> np.uint32(31)) * np.uint32(197)


row("v_prng_b32", vector("u32 u32", random_bits))


# Carry.


def _carry(subtract: str, carry_in: bool) -> Callable[[Context, Parsed], Step]:
    """Addition, or subtraction ("a": a - b, "b": b - a), with a carry for each lane."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        left, right = ctx.source(parsed, 2, "u32", 2), ctx.source(parsed, 3, "u32", 2)
        carry = ctx.source(parsed, 4, "m", 2) if carry_in else None
        put, put_mask = ctx.target(parsed, "u32"), ctx.mask_target(parsed.operands[1])
        if write_mask(parsed, ctx.layout.lanes) is not None and not writes_all(parsed):
            raise Fault("DPP that leaves out lanes of a carry is not emulated")

        def step(s: Group) -> None:
            a, b = left(s), right(s)
            if subtract == "b":
                a, b = b, a
            flag = None if carry is None else carry(s)
            if subtract:
                value = a - b
                out = a < b
                if flag is not None:
                    out = out | (value < flag)
                    value = value - flag
            else:
                value = a + b
                out = value < a
                if flag is not None:
                    value = value + flag
                    out = out | (value < flag)
            put(s, np.asarray(value))
            put_mask(s, out)

        return step

    return build


for _sub, _base in (("", "add"), ("a", "sub"), ("b", "subrev")):
    row(f"v_{_base}_co_u32", _carry(_sub, False))
row("v_addc_co_u32", _carry("", True))
row("v_subb_co_u32", _carry("a", True))
row("v_subbrev_co_u32", _carry("b", True))


def _mad64(signed: bool) -> Callable[[Context, Parsed], Step]:
    kind, dtype = ("i", np.int64) if signed else ("u", np.uint64)

    def build(ctx: Context, parsed: Parsed) -> Step:
        a, b = ctx.source(parsed, 2, f"{kind}32", 2), ctx.source(parsed, 3, f"{kind}32", 2)
        c = ctx.source(parsed, 4, f"{kind}64", 2)
        put, put_mask = ctx.target(parsed, f"{kind}64"), ctx.mask_target(parsed.operands[1])

        def step(s: Group) -> None:
            product, addend = a(s).astype(dtype) * b(s).astype(dtype), c(s)
            value = product + addend
            # Bit 64 of the sum: the carry, or the sign of what does not fit into 64 bits.
            overflow = (product ^ value) & (addend ^ value)
            out = (overflow < 0) ^ (value < 0) if signed else value < addend
            put(s, np.asarray(value))
            put_mask(s, out)

        return step

    return build


row("v_mad_u64_u32", _mad64(False))
row("v_mad_i64_i32", _mad64(True))
