"""Division helpers. Source: CDNA3 ISA guide, V_DIV_SCALE, V_DIV_FMAS, V_DIV_FIXUP."""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coasm.emulator.rows.context import Context
from coasm.emulator.rows.floats import floating, output
from coasm.emulator.rows.fma import FMA, fma32_odd, fma64, fma_exact
from coasm.emulator.rows.nans import INVALID, QUIET, Function, default_nan
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import DTYPES, Array, Step
from coasm.emulator.state.waves import Group, unpack
from coasm.isa import VCC, Parsed

__all__: list[str] = []


def _exponent(a: Array) -> Array:
    """The biased exponent field."""
    if a.dtype == np.float32:
        return (a.view(np.uint32) >> np.uint32(23) & np.uint32(0xFF)).astype(np.int64)
    return (a.view(np.uint64) >> np.uint64(52) & np.uint64(0x7FF)).astype(np.int64)


def _div_scale(kind: str) -> Callable[[Context, Parsed], Step]:
    dtype = DTYPES[kind]
    up = 64 if kind == "f32" else 128
    near, low_exponent = (96, 23) if kind == "f32" else (768, 53)
    smallest = np.finfo(dtype).smallest_normal  # type: ignore[type-var]

    def denormal(value: Array) -> Array:
        return (np.abs(value) < smallest) & (value != 0)

    def build(ctx: Context, parsed: Parsed) -> Step:
        gets = [ctx.source(parsed, at, kind, 2) for at in (2, 3, 4)]
        put, put_mask = ctx.target(parsed, kind), ctx.mask_target(parsed.operands[1])

        def step(s: Group) -> None:
            x, denominator, numerator = (
                np.ascontiguousarray(v) for v in np.broadcast_arrays(*(get(s) for get in gets))
            )
            bits_equal = x == denominator
            grown = np.ldexp(x, up)
            with np.errstate(all="ignore"):
                inverse_small = denormal(dtype(1) / denominator)
                quotient_small = denormal(numerator / denominator)
            far = _exponent(numerator) - _exponent(denominator) >= near
            tiny = denormal(denominator)
            zero = (numerator == 0) | (denominator == 0)
            out, flag = x.copy(), np.zeros(x.shape, bool)
            done = zero.copy()
            out[zero] = np.nan
            for case, value, sets in (
                (far, np.where(bits_equal, grown, x), True),
                (tiny, grown, False),
                (inverse_small & quotient_small, np.where(bits_equal, np.ldexp(x, -up), x), True),
                (inverse_small, np.ldexp(x, -up), False),
                (quotient_small, np.where(x == numerator, grown, x), True),
                (_exponent(numerator) <= low_exponent, grown, False),
            ):
                now = case & ~done
                out = np.where(now, value, out)
                if sets:
                    flag |= now
                done |= case
            INVALID[0] = False
            put(s, out.astype(dtype))
            put_mask(s, flag)

        return step

    return build


def _div_fmas(kind: str) -> Callable[[Context, Parsed], Step]:
    """The last step of a division: undoes the scaling of V_DIV_SCALE where VCC says so.

    Up where the quotient so far is at least 2 (the denominator was scaled up), else down; rounded
    once. The ISA guides name half the power and one direction; hardware was measured to scale both
    ways, by the power of V_DIV_SCALE, which is what LLVM's division needs.
    """
    scale, one = (64, 127) if kind == "f32" else (128, 1023)
    scaled = _scaled32 if kind == "f32" else _scaled64

    def build(ctx: Context, parsed: Parsed) -> Step:
        gets = [ctx.source(parsed, at, kind) for at in (1, 2, 3)]
        put, finish = ctx.target(parsed, kind), output(ctx, parsed, kind)

        def step(s: Group) -> None:
            a, b, c = (np.ascontiguousarray(v) for v in np.broadcast_arrays(*(g(s) for g in gets)))
            value = np.array(np.broadcast_to(FMA[kind](a, b, c), s.shape))
            a, b, c = (np.broadcast_to(v, value.shape) for v in (a, b, c))
            pick = unpack(s.d[VCC >> 1])
            if pick.any():
                powers = np.where(_exponent(np.ascontiguousarray(c)) > one, scale, -scale)
                value = np.where(pick, scaled(a, b, c, powers), value)
            value = default_nan(value, (a, b, c))
            put(s, value if finish is None else finish(value))

        return step

    return build


def _scaled32(a: Array, b: Array, c: Array, powers: Array) -> Array:
    """``(a * b + c) * 2**powers`` for float32, rounded once."""
    return np.ldexp(fma32_odd(a, b, c), powers).astype(np.float32)


def _scaled64(a: Array, b: Array, c: Array, powers: Array) -> Array:
    """The same for float64: exactly where the scaled value, or the one before, is out of range."""
    before = fma64(a, b, c)
    result: Array = np.ldexp(before, powers)
    unsure = (np.abs(result) < 2.0**-1000) | ~np.isfinite(before)
    for place in np.argwhere(unsure):
        at = tuple(place)
        result[at] = fma_exact(float(a[at]), float(b[at]), float(c[at]), int(powers[at]))
    return result


def _div_fixup(kind: str) -> Function:
    dtype = DTYPES[kind]

    def compute(x: Array, denominator: Array, numerator: Array) -> Array:
        x, d, n = np.broadcast_arrays(x, denominator, numerator)
        negative = np.signbit(d) ^ np.signbit(n)
        unsigned, nan_bits, quiet = QUIET[np.dtype(dtype)]

        def quieted(value: Array) -> Array:
            return (np.ascontiguousarray(value).view(unsigned) | unsigned(quiet)).view(dtype)

        default = np.array(nan_bits | 1 << (8 * np.dtype(dtype).itemsize - 1), unsigned).view(dtype)
        infinity = np.where(negative, dtype(-np.inf), dtype(np.inf))
        nothing = np.where(negative, dtype(-0.0), dtype(0.0))
        out = np.copysign(x, np.where(negative, -1.0, 1.0).astype(dtype))
        if kind != "f16":
            # A quotient that overflowed on the way is a NaN here; hardware gives infinity.
            out = np.where(np.isnan(x), infinity, out)
            apart = _exponent(np.ascontiguousarray(n)) - _exponent(np.ascontiguousarray(d))
            out = np.where(apart < (-150 if kind == "f32" else -1075), nothing, out)
        out = np.where(np.isinf(d) | (n == 0), nothing, out)
        out = np.where((d == 0) | np.isinf(n), infinity, out)
        out = np.where((np.isinf(d) & np.isinf(n)) | ((d == 0) & (n == 0)), default, out)
        out = np.where(np.isnan(d), quieted(d), out)
        out = np.where(np.isnan(n), quieted(n), out)
        INVALID[0] = False
        return out

    return compute


_DIVISION = "v_div_scale, v_div_fmas: scaled as a correct division needs, not as the guides say"
for _kind in ("f32", "f64"):
    row(f"v_div_scale_{_kind}", _div_scale(_kind), _DIVISION)
    row(f"v_div_fmas_{_kind}", _div_fmas(_kind), _DIVISION)
    row(f"v_div_fixup_{_kind}", floating(" ".join([_kind] * 4), _div_fixup(_kind)))
row("v_div_fixup_f16", floating("f16 f16 f16 f16", _div_fixup("f16"), keep=True))
row("v_div_fixup_legacy_f16", floating("f16 f16 f16 f16", _div_fixup("f16")))
