"""V_TRIG_PREOP_F64: 53 bits of 2/π at a time. Source: CDNA3 ISA guide."""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from functools import cache

import numpy as np

from coasm.emulator.rows.floats import floating
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import Array

__all__: list[str] = []

#: Bits of the fraction of 2/π that the instruction knows, and those that it gives.
_BITS, _PART = 1201, 53


@cache
def two_over_pi() -> int:
    """The fraction of 2/π, cut off behind :data:`_BITS` bits. Source of π: Machin's formula."""
    one = 1 << _BITS + 64

    def arctan_of_inverse(n: int) -> int:
        total = term = one // n
        square, sign = n * n, 1
        for odd in range(3, 4 * _BITS, 2):
            term //= square
            sign = -sign
            total += sign * (term // odd)
        return total

    pi = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    return (2 * one << _BITS) // pi


def _part(shift: int) -> float:
    """The bits behind the first *shift*, as a whole number; zeros behind the last that is known."""
    down = _BITS - _PART - shift
    bits = two_over_pi() >> down if down >= 0 else two_over_pi() << -down
    return float(bits & (1 << _PART) - 1)


def _preop(a: Array, b: Array) -> Array:
    exponent = (np.ascontiguousarray(a).view(np.uint64) >> np.uint64(52)).astype(np.int64) & 0x7FF
    shift = (b & np.uint32(31)).astype(np.int64) * _PART + np.maximum(exponent - 1077, 0)
    known, places = np.unique(shift, return_inverse=True)
    parts = np.array([_part(int(one)) for one in known])[places.reshape(shift.shape)]
    return np.ldexp(parts, -_PART - shift + np.where(exponent >= 1968, 128, 0))


row("v_trig_preop_f64", floating("f64 f64 u32", _preop))
