"""IEEE 754 arithmetic on bit patterns, exact: integers all the way, rounded once at the end."""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

__all__ = ["FORMATS", "Format", "Real", "Unpacked", "pack", "unpack"]


class Format(NamedTuple):
    """Exponent and fraction bits of a binary format."""

    exponent: int
    fraction: int

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.fraction

    @property
    def nan(self) -> int:
        """The default NaN: positive, quiet."""
        return self.infinity | self.quiet

    @property
    def quiet(self) -> int:
        return 1 << (self.fraction - 1)

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)


FORMATS = {"f16": Format(5, 10), "bf16": Format(8, 7), "f32": Format(8, 23), "f64": Format(11, 52)}


class Real(NamedTuple):
    """An exact number: ``(-1)**sign * mantissa * 2**exponent``."""

    sign: int
    mantissa: int
    exponent: int


class Unpacked(NamedTuple):
    """A float: "nan", "inf" or "number", and its exact value."""

    kind: str
    sign: int
    value: Real


def unpack(bits: int, form: Format) -> Unpacked:
    """What a bit pattern stands for."""
    sign = bits >> (form.width - 1) & 1
    field = bits >> form.fraction & ((1 << form.exponent) - 1)
    fraction = bits & ((1 << form.fraction) - 1)
    if field == (1 << form.exponent) - 1:
        return Unpacked("nan" if fraction else "inf", sign, Real(sign, 0, 0))
    lowest = 1 - form.bias - form.fraction
    if field:
        return Unpacked(
            "number", sign, Real(sign, fraction | 1 << form.fraction, lowest + field - 1)
        )
    return Unpacked("number", sign, Real(sign, fraction, lowest))


def pack(value: Real, form: Format, towards_zero: bool = False) -> int:
    """The bits of an exact number, rounded once: to nearest even, or towards zero."""
    sign = form.sign if value.sign else 0
    mantissa, exponent = value.mantissa, value.exponent
    if not mantissa:
        return sign
    least = 1 - form.bias
    top = max(exponent + mantissa.bit_length() - 1, least)
    shift = top - form.fraction - exponent
    if shift <= 0:
        count = mantissa << -shift
    else:
        count, rest = mantissa >> shift, mantissa & ((1 << shift) - 1)
        half = 1 << (shift - 1)
        if not towards_zero and (rest > half or (rest == half and count & 1)):
            count += 1
    # A carry out of the fraction counts on into the exponent by itself.
    field = ((top - least) << form.fraction) + count
    if field >= form.infinity:
        field = form.infinity - 1 if towards_zero else form.infinity
    return sign | field


def negate(value: Unpacked) -> Unpacked:
    sign = value.sign ^ 1
    return Unpacked(value.kind, sign, value.value._replace(sign=sign))


def _sum(a: Real, b: Real) -> Real:
    low = min(a.exponent, b.exponent)
    x = a.mantissa << (a.exponent - low)
    y = b.mantissa << (b.exponent - low)
    total = (-x if a.sign else x) + (-y if b.sign else y)
    sign = (a.sign & b.sign) if total == 0 else int(total < 0)
    return Real(sign, abs(total), low)


def _product(a: Real, b: Real) -> Real:
    return Real(a.sign ^ b.sign, a.mantissa * b.mantissa, a.exponent + b.exponent)


_NAN = Unpacked("nan", 0, Real(0, 0, 0))


def add(a: Unpacked, b: Unpacked) -> Unpacked:
    """The exact sum."""
    if "nan" in (a.kind, b.kind):
        return _NAN
    if a.kind == "inf":
        return _NAN if b.kind == "inf" and a.sign != b.sign else a
    if b.kind == "inf":
        return b
    total = _sum(a.value, b.value)
    return Unpacked("number", total.sign, total)


def multiply(a: Unpacked, b: Unpacked) -> Unpacked:
    """The exact product."""
    sign = a.sign ^ b.sign
    if "nan" in (a.kind, b.kind):
        return _NAN
    if "inf" in (a.kind, b.kind):
        zero = (a.kind == "number" and not a.value.mantissa) or (
            b.kind == "number" and not b.value.mantissa
        )
        return _NAN if zero else Unpacked("inf", sign, Real(sign, 0, 0))
    return Unpacked("number", sign, _product(a.value, b.value))


def divide(a: Unpacked, b: Unpacked) -> Unpacked:
    """The quotient, with enough bits and a sticky one to be rounded once."""
    sign = a.sign ^ b.sign
    infinite, nothing = Unpacked("inf", sign, Real(sign, 0, 0)), Real(sign, 0, 0)
    if "nan" in (a.kind, b.kind) or (a.kind == b.kind == "inf"):
        return _NAN
    if a.kind == "inf":
        return infinite
    if b.kind == "inf":
        return Unpacked("number", sign, nothing)
    if not b.value.mantissa:
        return infinite if a.value.mantissa else _NAN
    quotient, rest = divmod(a.value.mantissa << 140, b.value.mantissa)
    exponent = a.value.exponent - b.value.exponent - 141
    return Unpacked("number", sign, Real(sign, quotient << 1 | (rest != 0), exponent))


def root(a: Unpacked) -> Unpacked:
    """The square root, with enough bits and a sticky one to be rounded once."""
    if a.kind == "nan" or (a.sign and (a.kind == "inf" or a.value.mantissa)):
        return _NAN
    if a.kind == "inf" or not a.value.mantissa:
        return a
    up = 160 + (a.value.exponent & 1)
    whole = a.value.mantissa << up
    found = isqrt(whole)
    exponent = (a.value.exponent - up) // 2 - 1
    return Unpacked("number", 0, Real(0, found << 1 | (found * found != whole), exponent))
