"""Conversions between types of 16 bits and more."""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.floats import check_rounding, floating, output
from coasm.emulator.rows.integer import vector
from coasm.emulator.rows.nans import INVALID, Function
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import FP16_OVFL, Array, Step
from coasm.emulator.state.waves import Group
from coasm.isa import Parsed

__all__ = ["to_bf16"]


def _to_int(dtype: Any, function: Function = np.trunc) -> Function:
    """Float to integer: truncated, saturated, NaN is 0."""
    limits = np.iinfo(dtype)

    def compute(a: Array) -> Array:
        wide = np.where(np.isnan(a), 0.0, function(a.astype(np.float64)))
        clipped = np.clip(wide, float(limits.min), float(limits.max))
        INVALID[0] = False
        return clipped.astype(np.int64).astype(dtype)

    return compute


row("v_cvt_f32_u32", floating("f32 u32", lambda a: a.astype(np.float32), normal=True))
row("v_cvt_f32_i32", floating("f32 i32", lambda a: a.astype(np.float32), normal=True))
row("v_cvt_f64_u32", floating("f64 u32", lambda a: a.astype(np.float64)))
row("v_cvt_f64_i32", floating("f64 i32", lambda a: a.astype(np.float64)))
row("v_cvt_f16_u16", floating("f16 u16", lambda a: a.astype(np.float16)))
row("v_cvt_f16_i16", floating("f16 i16", lambda a: a.astype(np.float16)))
row("v_cvt_u32_f32", vector("u32 f32", _to_int(np.uint32)))
row("v_cvt_i32_f32", vector("i32 f32", _to_int(np.int32)))
row("v_cvt_u32_f64", vector("u32 f64", _to_int(np.uint32)))
row("v_cvt_i32_f64", vector("i32 f64", _to_int(np.int32)))
row("v_cvt_u16_f16", vector("u16 f16", _to_int(np.uint16)))
row("v_cvt_i16_f16", vector("i16 f16", _to_int(np.int16)))
row("v_cvt_flr_i32_f32", vector("i32 f32", _to_int(np.int32, np.floor)))
row(
    "v_cvt_rpi_i32_f32",
    vector("i32 f32", lambda a: _to_int(np.int32, np.floor)(a + np.float32(0.5))),
)
row("v_cvt_f32_f16", floating("f32 f16", lambda a: a.astype(np.float32)))
row("v_cvt_f64_f32", floating("f64 f32", lambda a: a.astype(np.float64)))
row("v_cvt_f32_f64", floating("f32 f64", lambda a: a.astype(np.float32)))
for _at in range(4):
    row(
        f"v_cvt_f32_ubyte{_at}",
        floating(
            "f32 u32",
            lambda a, at=_at: (a >> np.uint32(8 * at) & np.uint32(255)).astype(np.float32),
        ),
    )


def _half_of(a: Array) -> Array:
    """float32 → float16, to nearest even; NumPy would let a signalling NaN stay one."""
    value: Array = np.asarray(a.astype(np.float16))
    nans = np.isnan(value)
    if nans.any():
        value = np.where(nans, (value.view(np.uint16) | np.uint16(0x200)).view(np.float16), value)
    return value


def _to_half(ctx: Context, parsed: Parsed) -> Step:
    limited = bool(ctx.mode & FP16_OVFL)

    def compute(a: Array) -> Array:
        value = _half_of(a)
        if limited:
            value = np.where(
                np.isinf(value) & ~np.isinf(a), np.copysign(np.float16(65504), value), value
            )
        return value

    return floating("f16 f32", compute, limited=True)(ctx, parsed)


row("v_cvt_f16_f32", _to_half)


def to_bf16(a: Array) -> Array:
    """float32 → the bits of bfloat16, to nearest even; a NaN stays one, quiet."""
    raw = np.ascontiguousarray(a).view(np.uint32)
    rounded = (raw + (np.uint32(0x7FFF) + (raw >> np.uint32(16) & np.uint32(1)))) >> np.uint32(16)
    nans = np.isnan(a)
    if nans.any():
        rounded = np.where(nans, raw >> np.uint32(16) | np.uint32(0x40), rounded)
    return rounded


row(
    "v_cvt_pk_bf16_f32",
    vector("u32 f32 f32", lambda a, b: to_bf16(a) | to_bf16(b) << np.uint32(16)),
)
row(
    "v_cvt_f32_bf16",
    floating("f32 bf16", lambda a: (a.astype(np.uint32) << np.uint32(16)).view(np.float32)),
)


def _rtz(a: Array) -> Array:
    """float32 → float16, towards zero."""
    value = _half_of(a)
    over = np.abs(value.astype(np.float64)) > np.abs(a.astype(np.float64))
    return np.where(over, value.view(np.uint16) - np.uint16(1), value.view(np.uint16)).view(
        np.float16
    )


def _pack_halves(convert: Function, *, rounds: bool) -> Callable[[Context, Parsed], Step]:
    """Two float32 → two float16 in a register. *rounds*: as MODE says."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        if rounds:
            check_rounding(ctx, {"f16"})
            if ctx.mode & FP16_OVFL:
                raise Fault("FP16_OVFL is not emulated here")
        gets = [ctx.source(parsed, at, "f32") for at in (1, 2)]
        put, finish = ctx.target(parsed, "u32"), output(ctx, parsed, "f16")

        def step(s: Group) -> None:
            halves = [convert(get(s)) for get in gets]
            if finish is not None:
                halves = [finish(half) for half in halves]
            low, high = (np.ascontiguousarray(v).view(np.uint16).astype(np.uint32) for v in halves)
            put(s, np.asarray(low | high << np.uint32(16)))

        return step

    return build


row("v_cvt_pkrtz_f16_f32", _pack_halves(_rtz, rounds=False))
row("v_cvt_pk_f16_f32", _pack_halves(_half_of, rounds=True))


_NEAREST = "a normalized number is rounded to nearest even; the guides do not say"


def _norm_one(low: float, scale: float, dtype: Any) -> Function:
    def one(a: Array) -> Array:
        value = np.clip(np.where(np.isnan(a), 0.0, a.astype(np.float64)), low, 1.0)
        return np.rint(value * scale).astype(dtype).view(np.uint16)

    return one


def _norm(low: float, scale: float, dtype: Any) -> Function:
    one = _norm_one(low, scale, dtype)
    return lambda a, b: one(a).astype(np.uint32) | one(b).astype(np.uint32) << np.uint32(16)


row("v_cvt_pknorm_i16_f32", vector("u32 f32 f32", _norm(-1.0, 32767.0, np.int16)))
row("v_cvt_pknorm_u16_f32", vector("u32 f32 f32", _norm(0.0, 65535.0, np.uint16)))
row("v_cvt_pknorm_i16_f16", vector("u32 f16 f16", _norm(-1.0, 32767.0, np.int16)), _NEAREST)
row("v_cvt_pknorm_u16_f16", vector("u32 f16 f16", _norm(0.0, 65535.0, np.uint16)), _NEAREST)
row("v_cvt_norm_i16_f16", vector("u16 f16", _norm_one(-1.0, 32767.0, np.int16)), _NEAREST)
row("v_cvt_norm_u16_f16", vector("u16 f16", _norm_one(0.0, 65535.0, np.uint16)), _NEAREST)


def _sixteenths(a: Array) -> Array:
    """A signed number of 4 bits, in sixteenths."""
    number = (a & np.uint32(15)).astype(np.int32)
    return ((number ^ 8) - 8).astype(np.float32) / np.float32(16)


row("v_cvt_off_f32_i4", floating("f32 u32", _sixteenths))


def _random_half(kind: str) -> Callable[[Context, Parsed], Step]:
    """float32 and a seed → 16 bits in the half that op_sel says: the dropped bits of the fraction,
    and as many from the top of the seed, are added and cut off."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        op_sel = parsed.bits("op_sel", 3)  # a bit for each source, then that of the result
        if any(op_sel[:2]):
            raise Fault(f"the modifier op_sel:{list(op_sel)} of {parsed.mnemonic} is not emulated")
        if kind == "f16" and ctx.mode & FP16_OVFL:
            raise Fault("FP16_OVFL is not emulated here")
        bare = parsed._replace(modifiers={})
        value, seed = ctx.source(bare, 1, "f32"), ctx.source(bare, 2, "u32")
        half = {"op_sel": f"[0,0,{op_sel[2]}]"}
        put = ctx.target(parsed._replace(modifiers=half), "u16", keep=True)
        cut = _cut_f16 if kind == "f16" else _cut_bf16
        return lambda s: put(s, cut(*np.broadcast_arrays(value(s), seed(s))))

    return build


def _cut_bf16(a: Array, seed: Array) -> Array:
    raw = np.ascontiguousarray(a).view(np.uint32)
    total = raw + (seed >> np.uint32(16))
    bits = np.where(np.isfinite(a), total, raw | np.where(np.isnan(a), np.uint32(1 << 22), 0))
    return (bits >> np.uint32(16)).astype(np.uint16)


def _cut_f16(a: Array, seed: Array) -> Array:
    plain = np.isfinite(a) & (a != 0)
    size = np.where(plain, np.abs(a), np.float32(1)).astype(np.float64)
    exponent = np.maximum(np.frexp(size)[1] - 1, -14)
    units = np.floor(np.ldexp(size, 23 - exponent)).astype(np.int64) + (seed >> np.uint32(19))
    value = np.ldexp((units >> 13).astype(np.float64), exponent - 10)
    return _half_of(np.where(plain, np.copysign(value, a), a).astype(np.float32)).view(np.uint16)


_RANDOM = "a result is one of its two neighbours, by the top bits of the seed"
row("v_cvt_sr_f16_f32", _random_half("f16"), f"v_cvt_sr_f16_f32: {_RANDOM}")
row("v_cvt_sr_bf16_f32", _random_half("bf16"), f"v_cvt_sr_bf16_f32: {_RANDOM}")
