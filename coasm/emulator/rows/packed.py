"""Packed instructions: two 16-bit numbers in a register, or two float32 in a pair of them."""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.floats import PACKED_THREE, check_rounding, output, picker
from coasm.emulator.rows.fma import FMA
from coasm.emulator.rows.integer import Function, saturating, vector
from coasm.emulator.rows.nans import INVALID, default_nan
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import DTYPES, IEEE, INDEX_DST, Array, Getter, Step, flush, store
from coasm.emulator.state.waves import Group
from coasm.isa import Literal, Operand, Parsed, Register

__all__: list[str] = []


def _half16(ctx: Context, operand: Operand, at: int, pick: int) -> Getter:
    """The low or the high half of a 32-bit operand; a constant has zeros above."""
    raw = ctx.raw_source(operand, at, "f16")
    shift = np.uint32(16 * pick)
    return lambda s: (raw(s) >> shift).astype(np.uint16).view(np.float16)


def _half32(ctx: Context, operand: Operand, kind: str, pick: int) -> Getter:
    """The low or the high register of a pair; both halves of a constant are the constant.

    That is how LLVM counts on it: what Triton 3.9 compiles adds `1.0` to a high half so.
    """
    if isinstance(operand, Literal):
        if pick and operand.value != 0:
            ctx.doubt = "the high half of a constant (op_sel_hi) is taken to be the constant"
        at = ctx.k(operand, kind)
    else:
        ctx.take(operand)
        assert isinstance(operand, Register)
        at = ctx.k(operand._replace(first=operand.first + pick * (operand.size > 1), size=1))
    return lambda s: (s.f if kind == "f32" else s.u)[at]


def _packed(
    kind: str, function: Callable[[Context], Function], count: int
) -> Callable[[Context, Parsed], Step]:
    """*function* on the low and on the high halves; op_sel, op_sel_hi, neg_lo, neg_hi pick."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        check_rounding(ctx, {kind})
        rows = ctx.rows(parsed.operands[0])
        selects = half_selects(parsed, count)
        negate = parsed.bits("neg_lo", count), parsed.bits("neg_hi", count)
        finish, compute = output(ctx, parsed, kind), function(ctx)
        flushes = ctx.flushes_in(kind)

        def getter(at: int, which: int) -> Getter:
            operand, pick = parsed.operands[1 + at], selects[which][at]
            if kind == "f16":
                plain = _half16(ctx, operand, at, pick)
            else:
                plain = _half32(ctx, operand, kind, pick)
            inner = (lambda s: flush(plain(s))) if flushes else plain
            return (lambda s: np.negative(inner(s))) if negate[which][at] else inner

        halves = [[getter(at, which) for at in range(count)] for which in (0, 1)]

        def half(s: Group, which: int) -> Array:
            values = tuple(get(s) for get in halves[which])
            value = np.asarray(compute(*values)).astype(DTYPES[kind], copy=False)
            if INVALID[0]:
                value = default_nan(value, values)
            return value if finish is None else finish(value)

        def step(s: Group) -> None:
            low, high = (half(s, which) for which in (0, 1))
            if kind == "f32":
                store(s, rows[0], low.view(np.uint32))
                store(s, rows[1], high.view(np.uint32))
                return
            low, high = (v.view(np.uint16).astype(np.uint32) for v in (low, high))
            store(s, rows[0], low | high << np.uint32(16))

        return step

    return build


for _kind in ("f16", "f32"):
    row(f"v_pk_add_{_kind}", _packed(_kind, lambda ctx: np.add, 2))
    row(f"v_pk_mul_{_kind}", _packed(_kind, lambda ctx: np.multiply, 2))
    row(f"v_pk_fma_{_kind}", _packed(_kind, lambda ctx, k=_kind: FMA[k], 3))  # type: ignore[misc]
for _name, _smaller in (("min", True), ("max", False)):
    row(
        f"v_pk_{_name}_f16",
        _packed("f16", lambda ctx, less=_smaller: picker(less, bool(ctx.mode & IEEE)), 2),  # type: ignore[misc]
    )


def _packed_accumulate(ctx: Context, parsed: Parsed) -> Step:
    """Two fused multiply-adds whose addends are the halves of the result register."""
    check_rounding(ctx, {"f16"})
    if any(isinstance(op, Literal) and isinstance(op.value, float) for op in parsed.operands):
        raise Fault("a floating-point constant as packed numbers is not emulated")
    if "dst_sel" in parsed.modifiers:
        raise Fault("the modifiers of SDWA on v_pk_fmac_f16 are not emulated")
    gets = [ctx.source(parsed, at, "u32") for at in (1, 2)]
    d, put = ctx.k(parsed.operands[0]), ctx.target(parsed, "u32")
    finish = output(ctx, parsed, "f16")
    flushes = ctx.flushes_in("f16")

    def halves(s: Group, up: int) -> Iterator[Array]:
        for raw in (*(get(s) for get in gets), s.u[d]):
            half = (raw >> np.uint32(up)).astype(np.uint16).view(np.float16)
            yield flush(half) if flushes else half

    def step(s: Group) -> None:
        parts = []
        for up in (0, 16):
            values = tuple(halves(s, up))
            value = np.asarray(FMA["f16"](*values))
            if INVALID[0]:
                value = default_nan(value, values)
            value = value if finish is None else finish(value)
            parts.append(value.view(np.uint16).astype(np.uint32))
        put(s, parts[0] | parts[1] << np.uint32(16))

    return step


row("v_pk_fmac_f16", _packed_accumulate)
for _name, _three in PACKED_THREE.items():
    row(f"v_pk_{_name}3_f16", _packed("f16", lambda ctx, f=_three: f, 3))  # type: ignore[misc]


def _packed_move(ctx: Context, parsed: Parsed) -> Step:
    """op_sel alone picks: its first bit for the low result of source 0, its second for the high
    one of source 1. Source: CDNA3 ISA guide, V_PK_MOV_B32."""
    rows = ctx.rows(parsed.operands[0])
    parsed.modifiers.get("op_sel_hi")  # has no meaning here
    low, high = (
        _half32(ctx, operand, "u32", pick)
        for operand, pick in zip(parsed.operands[1:], parsed.bits("op_sel", 2), strict=True)
    )

    def step(s: Group) -> None:
        a, b = np.array(low(s)), np.array(high(s))
        store(s, rows[0], a)
        store(s, rows[1], b)

    return step


row("v_pk_mov_b32", _packed_move)


# Packed 16-bit integers.


def packed(
    kind: str, function: Function, count: int, *, saturate: bool = False
) -> Callable[[Context, Parsed], Step]:
    """*function* on the low and on the high halves of integers; op_sel and op_sel_hi pick.

    *saturate*: *function* takes ``clamp=True``.
    """
    dtype = DTYPES[kind]

    def build(ctx: Context, parsed: Parsed) -> Step:
        d = ctx.rows(parsed.operands[0])[0]
        if ctx.index & INDEX_DST:
            raise Fault("VGPR index mode on a packed result is not emulated")
        more = {"clamp": True} if saturate and "clamp" in parsed.modifiers else {}
        # A constant of floating point is the bits of a float32 here.
        raws = [ctx.raw_source(parsed.operands[1 + at], at) for at in range(count)]
        selects = half_selects(parsed, count)

        def half(s: Group, which: int) -> Array:
            values = [
                (raw(s) >> np.uint32(16 * pick)).astype(np.uint16).view(dtype)
                for raw, pick in zip(raws, selects[which], strict=True)
            ]
            return np.asarray(function(*values, **more)).view(np.uint16).astype(np.uint32)

        return lambda s: store(s, d, half(s, 0) | half(s, 1) << np.uint32(16))

    return build


def half_selects(parsed: Parsed, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Which half of each source the low and the high result take (op_sel, op_sel_hi)."""
    high = parsed.bits("op_sel_hi", count, 1) if "op_sel_hi" in parsed.modifiers else (1,) * count
    return parsed.bits("op_sel", count), high


def _shift16(function: np.ufunc) -> Function:
    return lambda a, b: function(b, (a & a.dtype.type(15)).astype(b.dtype))


_PACKED: tuple[tuple[str, str, Function], ...] = (
    ("mul_lo_u16", "u16", np.multiply),
    ("min_u16", "u16", np.minimum),
    ("max_u16", "u16", np.maximum),
    ("min_i16", "i16", np.minimum),
    ("max_i16", "i16", np.maximum),
)
for _name, _kind, _half in _PACKED:
    row(f"v_pk_{_name}", packed(_kind, _half, 2))
for _kind in ("u16", "i16"):
    row(f"v_pk_add_{_kind}", packed(_kind, saturating(np.add), 2, saturate=True))
    row(f"v_pk_sub_{_kind}", packed(_kind, saturating(np.subtract), 2, saturate=True))
row("v_pk_lshlrev_b16", packed("u16", _shift16(np.left_shift), 2))
row("v_pk_lshrrev_b16", packed("u16", _shift16(np.right_shift), 2))
row("v_pk_ashrrev_i16", packed("i16", _shift16(np.right_shift), 2))
row("v_pk_mad_u16 v_pk_mad_i16", packed("u16", lambda a, b, c: a * b + c, 3))


def _pack_b32_f16(a: Array, b: Array) -> Array:
    low, high = (np.ascontiguousarray(v).view(np.uint16).astype(np.uint32) for v in (a, b))
    return low | high << np.uint32(16)


# LLVM takes it for a canonicalization: denormals are flushed as MODE says.
row("v_pack_b32_f16", vector("u32 f16 f16", _pack_b32_f16))
