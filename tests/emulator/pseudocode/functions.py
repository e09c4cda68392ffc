"""The functions that the pseudo-code names without saying what they do.

Source: CDNA3 and CDNA4 ISA guides, "Vector ALU Operations"; their names say the rest.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import cache

from tests.emulator.pseudocode import softfloat
from tests.emulator.pseudocode.softfloat import FORMATS, Real
from tests.emulator.pseudocode.values import (
    Value,
    boolean,
    cast,
    integer,
    real,
    rounded,
    to_integer,
    truncated,
    typed,
)

__all__ = ["FUNCTIONS", "TRANSCENDENTAL", "approximate", "conversion", "flush"]


def _field(a: Value) -> int:
    return a.bits >> a.form.fraction & ((1 << a.form.exponent) - 1)


def is_denormal(a: Value) -> bool:
    return _field(a) == 0 and a.bits & ((1 << a.form.fraction) - 1) != 0


def flush(a: Value) -> Value:
    """A denormal becomes the zero of its sign."""
    return a._replace(bits=a.bits & a.form.sign) if is_denormal(a) else a


def _nan(a: Value, quiet: bool | None = None) -> Value:
    found = real(a).kind == "nan"
    if found and quiet is not None:
        found = bool(a.bits & a.form.quiet) == quiet
    return boolean(found)


def _whole(a: Value) -> Value:
    number = real(a)
    if number.kind != "number":
        return a
    return rounded(
        number._replace(value=Real(number.sign, truncated(number.value), 0)), a.kind, a.width
    )


def floor(a: Value) -> Value:
    number = real(a)
    if number.kind != "number":
        return a
    whole = truncated(number.value)
    exact = number.value.exponent >= 0 or not (
        number.value.mantissa & ((1 << -number.value.exponent) - 1)
    )
    if number.sign and not exact:
        whole += 1
    return rounded(number._replace(value=Real(number.sign, whole, 0)), a.kind, a.width)


def _fract(a: Value) -> Value:
    down = softfloat.negate(real(floor(a)))
    return rounded(softfloat.add(real(a), down), a.kind, a.width)


def _even(a: Value) -> Value:
    number = real(a)
    return boolean(number.kind == "number" and truncated(number.value) % 2 == 0)


def _round_even(a: Value) -> Value:
    number = real(a)
    exponent = number.value.exponent
    if number.kind != "number" or exponent >= 0:
        return a
    whole, rest = divmod(number.value.mantissa, 1 << -exponent)
    half = 1 << (-exponent - 1)
    whole += rest > half or (rest == half and whole & 1)
    return rounded(number._replace(value=Real(number.sign, whole, 0)), a.kind, a.width)


def _frexp_exponent(a: Value) -> int:
    """The exponent that C's frexp gives: of a mantissa in [0.5, 1); 0 of 0."""
    value = real(a).value
    return value.exponent + value.mantissa.bit_length() if value.mantissa else 0


def _mantissa(a: Value) -> Value:
    number = real(a)
    size = number.value.mantissa.bit_length()
    return rounded(number._replace(value=number.value._replace(exponent=-size)), a.kind, a.width)


def _fma(a: Value, b: Value, c: Value) -> Value:
    return rounded(softfloat.add(softfloat.multiply(real(a), real(b)), real(c)), a.kind, a.width)


def _fma_scaled(a: Value, b: Value, c: Value, power: Value) -> Value:
    """``fma(a, b, c) * 2**power``, rounded once."""
    total = softfloat.add(softfloat.multiply(real(a), real(b)), real(c))
    scale = real(Value("x", 0, Real(0, 1, integer(power))))
    return rounded(softfloat.multiply(total, scale), a.kind, a.width)


def _ldexp(a: Value, count: Value) -> Value:
    power = Value("x", 0, Real(0, 1, integer(count)))
    return rounded(softfloat.multiply(real(a), real(power)), a.kind, a.width)


def _signext_from_bit(a: Value, count: Value) -> Value:
    size = count.bits
    if size == 0:
        return a._replace(bits=0)
    if size >= a.width:
        return a
    low = a.bits & ((1 << size) - 1)
    if low >> (size - 1):
        low |= (1 << a.width) - (1 << size)
    return a._replace(bits=low)


def _norm(a: Value, signed: bool) -> Value:
    """A number of [-1, 1] or [0, 1] as a fraction of the largest integer, to nearest even."""
    scale, low = (32767, -1.0) if signed else (65535, 0.0)
    number = real(a)
    value = 0.0
    if number.kind != "nan":
        value = min(max(_float(a), low), 1.0)
    return Value("i" if signed else "u", 16, round(value * scale) & 0xFFFF)


def _saturated(a: Value, kind: str) -> Value:
    """An integer of 32 bits, or a number rounded to nearest even, as one of fewer bits."""
    signed, width = kind[0] == "i", int(kind[1:])
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    if a.kind == "f":
        value = _float(a)
        whole = 0 if math.isnan(value) else round(min(max(value, low), high))
    else:
        whole = min(max(integer(a), low), high)
    return Value(kind[0], width, whole & ((1 << width) - 1))


@cache
def _two_over_pi() -> int:
    """The first 1201 bits of the fraction of 2/π. Source of π: Gauss and Legendre's mean."""
    with localcontext() as context:
        context.prec = 400
        a, b, t, p = Decimal(1), 1 / Decimal(2).sqrt(), Decimal("0.25"), Decimal(1)
        for _ in range(10):
            a, b, t, p = (a + b) / 2, (a * b).sqrt(), t - p * ((a - b) / 2) ** 2, 2 * p
        return int(8 * t / (a + b) ** 2 * 2**1201)


def _trig_preop(a: Value, b: Value) -> Value:
    """What the text says in numbers of 1201 bits."""
    shift = (b.bits & 31) * 53 + max(_field(a) - 1077, 0)
    whole = (_two_over_pi() << shift >> 1201 - 53) & (1 << 53) - 1
    power = -53 - shift + (128 if _field(a) >= 1968 else 0)
    number = Value("x", 0, Real(0, whole, power))
    return rounded(real(number), "f", 64)


def _float(a: Value) -> float:
    """A value as Python's float: exact, but for what is beyond it."""
    number = real(a)
    if number.kind == "nan":
        return math.nan
    if number.kind == "inf":
        return -math.inf if number.sign else math.inf
    wide = softfloat.pack(number.value, FORMATS["f64"])
    return float(struct.unpack("<d", struct.pack("<Q", wide))[0])


#: Functions that hardware only approximates, in the precision of Python's float.
TRANSCENDENTAL: dict[str, Callable[[float], float]] = {
    "sin2pi": lambda x: math.sin(2 * math.pi * math.fmod(x, 1.0)),
    "cos2pi": lambda x: math.cos(2 * math.pi * math.fmod(x, 1.0)),
    "log2": lambda x: math.log2(x) if x > 0 else (-math.inf if x == 0 else math.nan),
    "exp2": lambda x: math.inf if x >= 1024 else 2.0**x if x > -1100 else 0.0,
}


def approximate(name: str, a: Value) -> Value:
    """log2, exp2, or a sine or cosine of turns, worked out in double precision and rounded."""
    x = _float(a)
    if math.isnan(x) or (math.isinf(x) and name in ("sin2pi", "cos2pi")):
        return a._replace(bits=a.form.nan)
    result = TRANSCENDENTAL[name](x)
    if name == "log2" and math.isinf(x) and x > 0:
        result = math.inf
    bits = int(struct.unpack("<Q", struct.pack("<d", result))[0])
    return cast(Value("f", 64, bits), a.kind, a.width)


def _power(base: Value, a: Value) -> Value:
    del base  # 2
    return approximate("exp2", a)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "abs": lambda a: a._replace(bits=a.bits & ~a.form.sign),
    "sign": lambda a: boolean(bool(a.bits & a.form.sign)),
    "exponent": lambda a: Value("i", 32, _field(a)),
    "mantissa": _mantissa,
    "isNAN": _nan,
    "isSignalNAN": lambda a: _nan(a, False),
    "isQuietNAN": lambda a: _nan(a, True),
    "cvtToQuietNAN": lambda a: a._replace(bits=a.bits | a.form.quiet),
    "isEven": _even,
    "trunc": _whole,
    "floor": floor,
    "fract": _fract,
    "fma": _fma,
    "fma_scaled": _fma_scaled,
    "ldexp": _ldexp,
    "sqrt": lambda a: rounded(softfloat.root(real(a)), a.kind, a.width),
    "pow": _power,
    "log2": lambda a: approximate("log2", a),
    "sin2pi": lambda a: approximate("sin2pi", a),
    "cos2pi": lambda a: approximate("cos2pi", a),
    "rndne": lambda a: _round_even(a),
    "frexp_exp": lambda a: Value("i", 32, _frexp_exponent(a) & 0xFFFF_FFFF),
    "signext": lambda a: Value("i", 64, integer(a._replace(kind="i")) & (1 << 64) - 1),
    "signext_from_bit": _signext_from_bit,
    "f32_to_u8": lambda a: _saturated(a, "u8"),
    "i32_to_i16": lambda a: _saturated(a, "i16"),
    "u32_to_u16": lambda a: _saturated(a, "u16"),
    "trig_preop": _trig_preop,
    "f16_to_snorm": lambda a: _norm(a, True),
    "f16_to_unorm": lambda a: _norm(a, False),
    "f32_to_snorm": lambda a: _norm(a, True),
    "f32_to_unorm": lambda a: _norm(a, False),
    "s_ff1_i32_b64": lambda a: Value("i", 32, (a.bits & -a.bits).bit_length() - 1),
    "nop": lambda: boolean(False),
}


def conversion(name: str, a: Value, towards_zero: bool) -> Value | None:
    """``f32_to_u32`` and its like; None where the name is no such function."""
    parts = name.split("_to_")
    if len(parts) != 2 or not parts[1][-1:].isdigit() or name in FUNCTIONS:
        return None
    kind, width = typed(parts[1])
    if kind in ("f", "bf"):
        if a.kind in ("f", "bf"):
            return cast(a, kind, width, towards_zero)
        return rounded(real(a), kind, width)
    if a.kind in ("f", "bf"):
        return Value(kind, width, to_integer(a, kind, width) & ((1 << width) - 1))
    return cast(a, kind, width)
