"""Values of the pseudo-code: bits with a type, and the operations on them.

A kind is ``u i b f`` (``bf``: bfloat16), or ``x``: an exact real number, which only a power of two
is, so that scaling by it rounds once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.emulator.pseudocode import softfloat
from tests.emulator.pseudocode.softfloat import FORMATS, Format, Real, Unpacked

__all__ = ["Value", "binary", "boolean", "cast", "integer", "real", "typed"]


class Value(NamedTuple):
    """*bits* of *width* as a *kind*; for ``x`` the bits are a :class:`Real`.

    ``signed_zero``: a zero whose sign was written out, which a comparison then looks at.
    """

    kind: str
    width: int
    bits: Any
    signed_zero: bool = False

    @property
    def form(self) -> Format:
        return FORMATS["bf16" if self.kind == "bf" else f"f{self.width}"]


def boolean(value: bool) -> Value:
    return Value("u", 1, int(value))


def integer(value: Value) -> int:
    """A value as a Python integer, signed where its kind is."""
    bits: int = value.bits
    if value.kind == "i" and bits >> (value.width - 1):
        return bits - (1 << value.width)
    return bits


def typed(name: str) -> tuple[str, int]:
    """(kind, width) of ``u32``, ``bf16`` …"""
    kind = name.rstrip("0123456789")
    return kind, int(name[len(kind) :])


def real(value: Value) -> Unpacked:
    """A number of any kind, exactly."""
    if value.kind == "x":
        return Unpacked("number", value.bits.sign, value.bits)
    if value.kind in ("f", "bf"):
        return softfloat.unpack(value.bits, value.form)
    whole = integer(value)
    sign = int(whole < 0)
    return Unpacked("number", sign, Real(sign, abs(whole), 0))


def rounded(number: Unpacked, kind: str, width: int, towards_zero: bool = False) -> Value:
    """A number in a float format; a NaN is the default one."""
    form = FORMATS["bf16" if kind == "bf" else f"f{width}"]
    if number.kind == "nan":
        return Value(kind, width, form.nan)
    if number.kind == "inf":
        return Value(kind, width, form.infinity | (form.sign if number.sign else 0))
    return Value(kind, width, softfloat.pack(number.value, form, towards_zero))


def cast(value: Value, kind: str, width: int, towards_zero: bool = False) -> Value:
    """``32'U(…)``, ``64'F(…)``: a conversion; bits that become a float are taken as they are."""
    if kind in ("f", "bf"):
        if value.kind == "x":
            return value
        if value.kind not in ("f", "bf"):
            return Value(kind, width, value.bits & ((1 << width) - 1))
        if value.kind == kind and value.width == width:
            return value
        number = real(value)
        if number.kind != "nan":
            return rounded(number, kind, width, towards_zero)._replace(
                signed_zero=value.signed_zero
            )
        # A NaN keeps its sign and the high bits of its payload.
        form = FORMATS["bf16" if kind == "bf" else f"f{width}"]
        payload = value.bits & ((1 << value.form.fraction) - 1)
        up = form.fraction - value.form.fraction
        payload = payload << up if up >= 0 else payload >> -up | form.quiet
        return Value(kind, width, form.infinity | (form.sign if number.sign else 0) | payload)
    if value.kind in ("f", "bf"):
        return Value(kind, width, to_integer(value, kind, width) & ((1 << width) - 1))
    return Value(kind, width, integer(value) & ((1 << width) - 1))


def to_integer(value: Value, kind: str, width: int) -> int:
    """A float as an integer: truncated, saturated, 0 for a NaN."""
    low, high = (
        (-1 << (width - 1), (1 << (width - 1)) - 1) if kind == "i" else (0, (1 << width) - 1)
    )
    number = real(value)
    if number.kind == "nan":
        return 0
    if number.kind == "inf":
        return low if number.sign else high
    whole = truncated(number.value)
    return min(max(-whole if number.sign else whole, low), high)


def truncated(value: Real) -> int:
    """The whole part of a number's magnitude."""
    if value.exponent >= 0:
        return value.mantissa << value.exponent
    return value.mantissa >> -value.exponent


def _common(a: Value, b: Value) -> tuple[str, int]:
    if a.width != b.width:
        wider = a if a.width > b.width else b
        return ("i" if wider.kind == "i" else "u"), wider.width
    return ("i" if a.kind == b.kind == "i" else "u"), a.width


_FLOAT = {"+": softfloat.add, "*": softfloat.multiply, "/": softfloat.divide}


def _float_binary(sign: str, a: Value, b: Value) -> Value:
    x, y = real(a), real(b)
    if sign in ("==", "!=", "<>", "<", ">", "<=", ">="):
        return boolean(_compare(sign, a, b, x, y))
    if sign == "-":
        sign, y = "+", softfloat.negate(y)
    result = _FLOAT[sign](x, y)
    wide = b if a.kind == "x" or (b.kind != "x" and b.width > a.width) else a
    return rounded(result, wide.kind, wide.width)


def _compare(sign: str, a: Value, b: Value, x: Unpacked, y: Unpacked) -> bool:
    if "nan" in (x.kind, y.kind):
        return sign == "!="
    if sign == "==" and b.signed_zero:
        return x.kind == "number" and not x.value.mantissa and x.sign == y.sign
    order = _order(x, y)
    tests = {"==": order == 0, "!=": order != 0, "<>": order != 0, "<": order < 0}
    return {**tests, ">": order > 0, "<=": order <= 0, ">=": order >= 0}[sign]


def _order(x: Unpacked, y: Unpacked) -> int:
    sizes = []
    low = min(x.value.exponent, y.value.exponent)
    for part in (x, y):
        size = part.value.mantissa << (part.value.exponent - low)
        if part.kind == "inf":
            size = 1 << 9000
        sizes.append(-size if part.sign else size)
    return (sizes[0] > sizes[1]) - (sizes[0] < sizes[1])


def binary(sign: str, a: Value, b: Value) -> Value:
    """One of the text's operators. Integers are C's: the wider type, unsigned before signed."""
    if sign == "**":
        exponent = integer(b)
        base = real(a).value
        assert base.mantissa & (base.mantissa - 1) == 0
        power = base.exponent + base.mantissa.bit_length() - 1
        return Value("x", 0, Real(0, 1, power * exponent))
    if a.kind in ("f", "bf", "x") or b.kind in ("f", "bf", "x"):
        return _float_binary(sign, a, b)
    if sign in ("<<", ">>"):
        count = b.bits
        moved = integer(a) << min(count, 4096) if sign == "<<" else integer(a) >> min(count, 4096)
        return Value(a.kind if a.kind != "b" else "u", a.width, moved & ((1 << a.width) - 1))
    kind, width = _common(a, b)
    mask = (1 << width) - 1
    x, y = integer(a), integer(b)
    if kind == "u":
        x, y = x & mask, y & mask
    if sign in ("==", "!=", "<>", "<", ">", "<=", ">="):
        tests = {"==": x == y, "!=": x != y, "<>": x != y, "<": x < y, ">": x > y}
        return boolean({**tests, "<=": x <= y, ">=": x >= y}[sign])
    result = {
        "+": x + y,
        "-": x - y,
        "*": x * y,
        "&": x & y,
        "|": x | y,
        "^": x ^ y,
    }[sign]
    return Value(kind, width, result & mask)
