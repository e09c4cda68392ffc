"""Fused multiply-add, rounded once."""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np

from coasm.emulator.rows.nans import INVALID
from coasm.emulator.rows.values import Array

__all__ = ["FMA", "fma16", "fma32", "fma32_odd", "fma64", "fma_exact"]


#: Arrays: NumPy converts a scalar operand anew each time.
_LOW29, _HALF29 = np.array(0x1FFF_FFFF, np.uint64), np.array(0x1000_0000, np.uint64)
_SMALL = np.array(2.0**-125)
_F64, _U64 = np.dtype(np.float64), np.dtype(np.uint64)
_U1 = np.uint64(1)


def _round_to_odd(total: Array, error: Array) -> Array:
    """The exact ``total + error`` rounded to odd, where *total* is that sum rounded to nearest.

    Towards zero first, then the last bit is set: a second rounding, to fewer bits, is then right.
    """
    bits = np.ascontiguousarray(total).view(np.uint64)
    inexact = (error != 0) & np.isfinite(total)
    outward = (error > 0) == (total > 0)
    odd = np.where(outward, bits, bits - _U1) | _U1
    return np.where(inexact, odd, bits).view(np.float64)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` for float32, rounded once."""
    product = np.asarray(a.astype(_F64) * b.astype(_F64))  # exact: 48 bits
    addend = c.astype(_F64)
    total = np.asarray(product + addend)
    result = total.astype(np.float32)
    ties = np.count_nonzero(np.equal(total.view(_U64) & _LOW29, _HALF29))
    small = np.less(np.abs(total), _SMALL)
    if ties or (np.count_nonzero(small) and np.count_nonzero(small & (total != 0))):
        # A sum that float64 had to round may look like a tie of float32: round it to odd first.
        exact, error = _two_sum(*np.broadcast_arrays(product, addend))
        result = _round_to_odd(np.ascontiguousarray(exact), error).astype(np.float32)
    return result


def fma32_odd(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` for float32 as float64, rounded to odd: fit to be scaled and rounded again."""
    product = a.astype(np.float64) * b  # exact: 48 bits
    total, error = _two_sum(*np.broadcast_arrays(product, c.astype(np.float64)))
    return _round_to_odd(np.ascontiguousarray(total), error)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    product = a * b
    split = 134217729.0
    x, y = a * split, b * split
    a1 = x - (x - a)
    b1 = y - (y - b)
    a2, b2 = a - a1, b - b1
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def fma64(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` for float64, rounded once."""
    a, b, c = np.broadcast_arrays(a, b, c)
    high, low = _two_product(a, b)
    t_high, t_low = _two_sum(c, low)
    v_high, v_low = _two_sum(high, t_high)
    z, error = _two_sum(t_low, v_low)
    result = np.asarray(v_high + _round_to_odd(np.ascontiguousarray(z), error))
    # Outside of the range where the pieces are exact, and for what is no number.
    sizes = [np.abs(v) for v in (a, b, c)]
    product = np.abs(a * b)
    plain = (
        (sizes[0] < 2.0**500)
        & (sizes[1] < 2.0**500)
        & (sizes[2] < 2.0**1000)
        & ((product > 2.0**-900) | (product == 0) & ((a == 0) | (b == 0)))
        & ((sizes[2] > 2.0**-900) | (c == 0))
        & (np.abs(result) > 2.0**-900)
    )
    for place in np.argwhere(~plain):
        at = tuple(place)
        result[at] = fma_exact(float(a[at]), float(b[at]), float(c[at]))
    INVALID[0] = bool(np.isnan(result).any())
    return result


def fma_exact(a: float, b: float, c: float, power: int = 0) -> float:
    """``(a * b + c) * 2**power``, rounded once."""
    from fractions import Fraction
    from math import copysign, inf, isfinite, isnan

    if isnan(a) or isnan(b) or isnan(c) or not (isfinite(a) and isfinite(b)):
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    if not isfinite(c):
        return c
    total = (Fraction(a) * Fraction(b) + Fraction(c)) * Fraction(2) ** power
    if total == 0:
        product = copysign(1.0, a) * copysign(1.0, b)
        if Fraction(a) * Fraction(b) != 0:
            return 0.0
        return -0.0 if product < 0 and copysign(1.0, c) < 0 else 0.0
    try:
        return float(total)
    except OverflowError:
        return inf if total > 0 else -inf


def fma16(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` for float16, rounded once: product and sum are exact in float64 to within
    a last bit, so the sum is rounded to odd before."""
    exact, error = _two_sum(
        *np.broadcast_arrays(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
    )
    return _round_to_odd(np.ascontiguousarray(exact), error).astype(np.float16)


FMA = {"f16": fma16, "f32": fma32, "f64": fma64}
