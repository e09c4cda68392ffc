"""Dot products of the numbers in a register, added to a third operand or to the result.

Source: CDNA3 and CDNA4 ISA guides, V_DOT*.
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.floats import check_rounding, output
from coasm.emulator.rows.integer import Function
from coasm.emulator.rows.nans import INVALID, default_nan
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import Array, Getter, Step
from coasm.emulator.state.waves import Group
from coasm.isa import Literal, Parsed

__all__: list[str] = []


def _refuse(parsed: Parsed) -> None:
    """No manual says how a floating-point constant reaches packed numbers; op_sel misexecutes."""
    if any(isinstance(op, Literal) and isinstance(op.value, float) for op in parsed.operands[1:3]):
        raise Fault("a floating-point constant as packed numbers is not emulated")


def _integers(bits: int, *, signed: bool) -> Function:
    """``c`` plus the products of the numbers of so many bits; with *clamp* saturated."""
    limits = np.iinfo(np.int32 if signed else np.uint32)

    def parts(value: Array) -> list[Array]:
        found = []
        for at in range(0, 32, bits):
            part = (value >> np.uint32(at) & np.uint32((1 << bits) - 1)).astype(np.int64)
            found.append(part - ((part >> (bits - 1)) << bits) if signed else part)
        return found

    def compute(a: Array, b: Array, c: Array, clamp: bool = False) -> Array:
        total = (c.view(np.int32) if signed else c).astype(np.int64)
        for x, y in zip(parts(a), parts(b), strict=True):
            total = total + x * y
        if clamp:
            total = np.clip(total, limits.min, limits.max)
        return total.astype(np.uint32)

    return compute


def _integer_dot(function: Function, *, accumulates: bool) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        _refuse(parsed)
        get_a, get_b = (ctx.source(parsed, at, "u32") for at in (1, 2))
        get_c = _addend(ctx, parsed, "u32", accumulates)
        put, clamp = ctx.target(parsed, "u32"), "clamp" in parsed.modifiers

        def step(s: Group) -> None:
            put(s, np.asarray(function(get_a(s), get_b(s), get_c(s), clamp)))

        return step

    return build


def _addend(ctx: Context, parsed: Parsed, kind: str, accumulates: bool) -> Getter:
    """The third operand, or the register of the result as it is."""
    if not accumulates:
        return ctx.source(parsed, 3, kind)
    d = ctx.k(parsed.operands[0])
    return (lambda s: s.u[d]) if kind == "u32" else (lambda s: s.f[d])


for _bits, _size in ((16, 2), (8, 4), (4, 8)):
    for _sign in ("i", "u"):
        _function = _integers(_bits, signed=_sign == "i")
        row(f"v_dot{_size}_{_sign}32_{_sign}{_bits}", _integer_dot(_function, accumulates=False))
    _function = _integers(_bits, signed=True)
    row(f"v_dot{_size}c_i32_i{_bits}", _integer_dot(_function, accumulates=True))


def _two(kind: str, sum_first: bool) -> Function:
    """Two products, which are exact, and the addend, summed up in float32 from the left:
    the products first, or the addend first."""

    def wide(value: Array, up: int) -> Array:
        half = value >> np.uint32(up) & np.uint32(0xFFFF)
        if kind == "bf16":
            return (half << np.uint32(16)).view(np.float32)
        return half.astype(np.uint16).view(np.float16).astype(np.float32)

    def compute(a: Array, b: Array, c: Array) -> Array:
        sources = [wide(v, up) for up in (0, 16) for v in (a, b)]
        low, high = sources[0] * sources[1], sources[2] * sources[3]
        total = low + high + c if sum_first else c + low + high
        return default_nan(total, (c, *sources)) if INVALID[0] else total

    return compute


#: The sign bits of the low and of the high half.
_SIGNS = (0x8000, 0x8000_0000)


def _float_dot(kind: str, *, accumulates: bool) -> Callable[[Context, Parsed], Step]:
    function = _two(kind, sum_first=kind == "bf16" and not accumulates)

    def build(ctx: Context, parsed: Parsed) -> Step:
        _refuse(parsed)
        check_rounding(ctx, {"f32"})
        low, high = parsed.bits("neg_lo", 3), parsed.bits("neg_hi", 3)
        if low[2] != high[2]:
            raise Fault("different modifiers neg_lo and neg_hi of an addend are not emulated")
        flips = [np.uint32(low[at] * _SIGNS[0] | high[at] * _SIGNS[1]) for at in (0, 1)]
        gets = [ctx.source(parsed, at, "u32") for at in (1, 2)]
        get_c = _addend(ctx, parsed, "f32", accumulates)
        put, finish = ctx.target(parsed, "f32"), output(ctx, parsed, "f32")

        def step(s: Group) -> None:
            a, b = (np.asarray(get(s) ^ flip) for get, flip in zip(gets, flips, strict=True))
            c = get_c(s)
            total = np.asarray(function(a, b, np.negative(c) if low[2] else c))
            put(s, total if finish is None else finish(total))

        return step

    return build


_DOT = "the two additions of a dot product are rounded one after the other"
for _kind in ("f16", "bf16"):
    row(f"v_dot2_f32_{_kind}", _float_dot(_kind, accumulates=False), _DOT)
    row(f"v_dot2c_f32_{_kind}", _float_dot(_kind, accumulates=True), _DOT)
