"""Floating-point vector instructions and conversions.

Arithmetic is IEEE 754 with round to nearest even. NaN results have AMD's default bits where no
operand was a NaN. Source: CDNA3 and CDNA4 ISA guides, "Vector ALU Operations"; LLVM for what
happens to the half of a register that a 16-bit result does not use.
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import (
    DTYPES,
    DX10_CLAMP,
    FP16_OVFL,
    IEEE,
    ROUND_16,
    ROUND_32,
    Array,
    Context,
    Getter,
    Step,
    bit_modifiers,
    flush,
    store,
)
from coasm.emulator.rows.integer import accumulating, compare, half_selects, is_plain, vector
from coasm.emulator.rows.table import row
from coasm.emulator.state.waves import LANES, Group, pack, unpack
from coasm.isa import VCC, Literal, Operand, Parsed, Register

__all__ = ["INVALID", "fma32", "fma64", "on_invalid"]

Function = Callable[..., Any]

#: Set by NumPy's error callback when an operation was invalid: its NaNs are x86's.
INVALID = [False]

_QUIET: dict[Any, tuple[Any, int, int]] = {
    np.dtype(np.float16): (np.uint16, 0x7E00, 0x0200),
    np.dtype(np.float32): (np.uint32, 0x7FC0_0000, 0x0040_0000),
    np.dtype(np.float64): (np.uint64, 0x7FF8_0000_0000_0000, 0x0008_0000_0000_0000),
}


def on_invalid(_kind: str, _flag: int) -> None:
    """NumPy's callback for floating-point errors."""
    INVALID[0] = True


def default_nan(result: Array, sources: tuple[Array, ...]) -> Array:
    """*result* with AMD's default NaN where an operation on numbers gave a NaN."""
    INVALID[0] = False
    bad = np.isnan(result)
    for value in sources:
        bad = bad & ~np.isnan(value)
    if bad.any():
        unsigned, bits, _ = _QUIET[result.dtype]
        result = np.array(result)
        result.view(unsigned)[bad] = bits
    return result


def _check_rounding(ctx: Context, kinds: set[str]) -> None:
    if ("f32" in kinds and ctx.mode & ROUND_32) or (kinds & {"f16", "f64"} and ctx.mode & ROUND_16):
        raise Fault("a rounding mode other than to nearest even is not emulated")


def _output(
    ctx: Context, parsed: Parsed, kind: str, limited: bool = False
) -> Callable[[Array], Array] | None:
    """What happens to a result before it is stored: output modifier, clamp, denormals.

    *limited*: the function has seen to FP16_OVFL itself; any other infinite result is an error.
    """
    scale = {"mul:2": 2.0, "mul:4": 4.0, "div:2": 0.5}.get(
        next((f"{k}:{parsed.modifiers[k]}" for k in ("mul", "div") if k in parsed.modifiers), "")
    )
    clamp = "clamp" in parsed.modifiers
    flushes = ctx.flushes_out(kind)
    guards = kind == "f16" and bool(ctx.mode & FP16_OVFL) and not limited
    if scale is None and not clamp and not flushes and not guards:
        return None
    dtype = DTYPES[kind]
    nan_is_zero = bool(ctx.mode & DX10_CLAMP)
    # The output modifier works only where denormals are flushed and IEEE mode is off.
    if scale is not None and (not flushes or ctx.mode & IEEE):
        scale = None

    def finish(value: Array) -> Array:
        if scale is not None:
            value = flush(value) * dtype(scale)
        if guards and np.isinf(value).any():
            raise Fault("an infinite f16 is not emulated where FP16_OVFL is set")
        if clamp:
            low = np.where(np.isnan(value), dtype(0), value) if nan_is_zero else value
            value = np.minimum(np.where(low <= 0, dtype(0), low), dtype(1))
        return flush(value) if flushes else value

    return finish


def floating(
    kinds: str,
    function: Function,
    *,
    keep: bool = False,
    exact: bool = False,
    limited: bool = False,
) -> Callable[[Context, Parsed], Step]:
    """A float ``dst = function(*sources)``.

    *exact*: the result is never rounded and never denormal unless an operand is (minimum, ...).
    *limited*: as for :func:`_output`.
    """
    out, *sources = kinds.split()
    dtype = DTYPES[out]
    direct = isinstance(function, np.ufunc) and {out, *sources} == {"f32"} and len(sources) == 2

    def build(ctx: Context, parsed: Parsed) -> Step:
        _check_rounding(ctx, {out} if not exact else set())
        if direct and is_plain(ctx, parsed) and not parsed.modifiers:
            return _direct(ctx, parsed, function)  # type: ignore[arg-type]
        gets = [ctx.source(parsed, at + 1, kind) for at, kind in enumerate(sources)]
        put = ctx.target(parsed, out, keep=keep)
        finish = _output(ctx, parsed, out, limited)
        if exact and not parsed.modifiers:
            finish = None
        ctx.now_clean = out == "f32" and ctx.flushes_out("f32")

        def step(s: Group) -> None:
            values = tuple(get(s) for get in gets)
            result = np.asarray(function(*values)).astype(dtype, copy=False)
            if INVALID[0]:
                result = default_nan(result, values)
            put(s, result if finish is None else finish(result))

        return step

    return build


def _direct(ctx: Context, parsed: Parsed, function: np.ufunc) -> Step:
    """float32 on whole registers: straight into the result register."""
    d = ctx.rows(parsed.operands[0])[0]
    a, b = (ctx.k(operand, "f32") for operand in parsed.operands[1:])
    check = [ctx.flushes_in("f32") and not ctx.is_clean(op, "f32") for op in parsed.operands[1:]]
    flush_a, flush_b = check
    flush_out = ctx.flushes_out("f32")
    ctx.now_clean = flush_out

    def step(s: Group) -> None:
        f = s.f
        x, y = f[a], f[b]
        if flush_a:
            x = flush(x)
        if flush_b:
            y = flush(y)
        if s.full and d != a and d != b:
            out = f[d]
            function(x, y, out=out)
            if INVALID[0]:
                out[...] = default_nan(out, (x, y))
            if flush_out:
                value = flush(out)
                if value is not out:
                    out[...] = value
            return
        value = function(x, y)
        if INVALID[0]:
            value = default_nan(value, (x, y))
        if flush_out:
            value = flush(value)
        store(s, d, value.view(np.uint32))

    return step


# Fused multiply-add, rounded once.

_LOW29, _HALF29 = np.uint64(0x1FFF_FFFF), np.uint64(0x1000_0000)
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
    product = a.astype(np.float64) * b  # exact: 48 bits
    addend = c.astype(np.float64)
    total = np.asarray(product + addend)
    result = total.astype(np.float32)
    tie = (np.atleast_1d(total).view(np.uint64) & _LOW29) == _HALF29
    small = np.abs(total) < 2.0**-125
    if tie.any() or (small & (total != 0)).any():
        # A sum that float64 had to round may look like a tie of float32: round it to odd first.
        exact, error = _two_sum(*np.broadcast_arrays(product, addend))
        result = _round_to_odd(np.ascontiguousarray(exact), error).astype(np.float32)
    return result


def _fma32_odd(a: Array, b: Array, c: Array) -> Array:
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
        result[at] = _fma_exact(float(a[at]), float(b[at]), float(c[at]))
    INVALID[0] = bool(np.isnan(result).any())
    return result


def _fma_exact(a: float, b: float, c: float, power: int = 0) -> float:
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


_FMA = {"f16": fma16, "f32": fma32, "f64": fma64}


def _two_sources(name: str, function: Function) -> None:
    for kind in ("f16", "f32", "f64"):
        row(f"v_{name}_{kind}", floating(f"{kind} {kind} {kind}", function))


_two_sources("add", np.add)
_two_sources("mul", np.multiply)
for _kind in ("f16", "f32"):
    row(f"v_sub_{_kind}", floating(f"{_kind} {_kind} {_kind}", np.subtract))
    row(f"v_subrev_{_kind}", floating(f"{_kind} {_kind} {_kind}", lambda a, b: b - a))


def _legacy(a: Array, b: Array) -> Array:
    return np.where((a == 0) | (b == 0), np.float32(0), a * b)


row("v_mul_legacy_f32", floating("f32 f32 f32", _legacy))

for _kind in ("f32", "f64"):
    row(f"v_fma_{_kind}", floating(f"{_kind} {_kind} {_kind} {_kind}", _FMA[_kind]))
row("v_fma_f16", floating("f16 f16 f16 f16", fma16, keep=True))
row("v_fma_legacy_f16", floating("f16 f16 f16 f16", fma16))
row("v_mad_legacy_f16", floating("f16 f16 f16 f16", lambda a, b, c: a * b + c))


def _mixed(out: str, high: bool = False) -> Callable[[Context, Parsed], Step]:
    """Sources of f32, or of either half of an f16 register as op_sel_hi and op_sel say; a fused
    multiply-add in f32. Its f16 result goes to one half of a register and leaves the other alone.
    """
    dtype = DTYPES[out]

    def build(ctx: Context, parsed: Parsed) -> Step:
        _check_rounding(ctx, {"f32", out})
        halves = parsed.bits("op_sel_hi", 3)
        # op_sel means nothing to a whole register.
        whole = parsed._replace(modifiers={})
        picks = parsed.bits("op_sel", 3)
        halved = parsed._replace(modifiers={"op_sel": str(list(picks)).replace(" ", "")})
        gets = [ctx.source(halved, 1 + at, "f16") if half else ctx.source(whole, 1 + at, "f32")
                for at, half in enumerate(halves)]  # fmt: skip
        where = parsed._replace(modifiers={"op_sel": "[0,0,0,1]"} if high else {})
        put = ctx.target(where, out, keep=True)
        finish = _output(ctx, parsed, out)
        flushes = out != "f32" and ctx.flushes_out("f32")

        def step(s: Group) -> None:
            a, b, c = (get(s).astype(np.float32, copy=False) for get in gets)
            result = np.asarray(fma32(a, b, c))
            if INVALID[0]:
                result = default_nan(result, (a, b, c))
            if flushes:
                result = flush(result)
            result = result.astype(dtype, copy=False)
            put(s, result if finish is None else finish(result))

        return step

    return build


row("v_fma_mix_f32", _mixed("f32"))
row("v_fma_mixlo_f16", _mixed("f16"))
row("v_fma_mixhi_f16", _mixed("f16", high=True))


def _accumulate(kind: str, order: str) -> Callable[[Context, Parsed], Step]:
    """fmac: the result register is the addend; fmamk, fmaak: a constant is a factor, the addend."""
    inner = floating(f"{kind} {kind} {kind} {kind}", _FMA[kind])

    def build(ctx: Context, parsed: Parsed) -> Step:
        ops = parsed.operands
        if order == "mac":
            target = ops[0]
            assert isinstance(target, Register)
            full = (*ops, target)
        elif order == "mk":
            full = (ops[0], ops[1], ops[2], ops[3])
        else:
            full = ops
        return inner(ctx, parsed._replace(operands=full))

    return build


for _kind in ("f32", "f64"):
    row(f"v_fmac_{_kind}", _accumulate(_kind, "mac"))
row("v_fmamk_f32", _accumulate("f32", "mk"))
row("v_fmaak_f32", _accumulate("f32", "ak"))


def _pick(smaller: bool, ieee: bool) -> Function:
    def compute(a: Array, b: Array) -> Array:
        choose = (np.fmin if smaller else np.fmax)(a, b)
        zeros = (a == 0) & (b == 0)
        if zeros.any():
            # -0 is less than +0.
            negative = np.signbit(a) | np.signbit(b) if smaller else np.signbit(a) & np.signbit(b)
            choose = np.where(zeros, np.where(negative, -a.dtype.type(0), a.dtype.type(0)), choose)
        nans = np.isnan(a) | np.isnan(b)
        if nans.any():
            unsigned, _, quiet = _QUIET[a.dtype]
            a, b, choose = (np.ascontiguousarray(v) for v in np.broadcast_arrays(a, b, choose))
            result = np.where(np.isnan(a), b, a)
            if ieee:
                for value in (b, a):
                    raw = value.view(unsigned)
                    signalling = np.isnan(value) & (raw & unsigned(quiet) == 0)
                    result = np.where(signalling, (raw | unsigned(quiet)).view(a.dtype), result)
            choose = np.where(nans, result, choose)
        INVALID[0] = False
        return choose

    return compute


def _min_max(kind: str, smaller: bool, count: int) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        pick = _pick(smaller, bool(ctx.mode & IEEE))
        function = pick if count == 2 else (lambda a, b, c: pick(pick(a, b), c))
        return floating(" ".join([kind] * (count + 1)), function, exact=True)(ctx, parsed)

    return build


def _median(kind: str) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        low, high = (_pick(smaller, bool(ctx.mode & IEEE)) for smaller in (True, False))

        def compute(a: Array, b: Array, c: Array) -> Array:
            nans = np.isnan(a) | np.isnan(b) | np.isnan(c)
            smallest: Array = low(low(a, b), c)
            largest: Array = high(high(a, b), c)
            middle = np.where(
                largest == a, high(b, c), np.where(largest == b, high(a, c), high(a, b))
            )
            return np.where(nans, smallest, middle)

        return floating(f"{kind} {kind} {kind} {kind}", compute, exact=True)(ctx, parsed)

    return build


for _kind in ("f16", "f32", "f64"):
    for _name, _smaller in (("min", True), ("max", False)):
        row(f"v_{_name}_{_kind}", _min_max(_kind, _smaller, 2))
        if _kind != "f64":
            row(f"v_{_name}3_{_kind}", _min_max(_kind, _smaller, 3))
    if _kind != "f64":
        row(f"v_med3_{_kind}", _median(_kind))


def _ieee_pick(smaller: bool) -> Function:
    """IEEE 754-2019 minimum or maximum: -0 is less than +0, a NaN operand gives a NaN."""
    function = np.minimum if smaller else np.maximum

    def two(a: Array, b: Array) -> Array:
        result = function(a, b)
        zeros = (a == 0) & (b == 0)
        if zeros.any():
            negative = np.signbit(a) | np.signbit(b) if smaller else np.signbit(a) & np.signbit(b)
            sign = np.where(negative, -1.0, 1.0).astype(a.dtype)
            result = np.where(zeros, np.copysign(result, sign), result)
        nans = np.isnan(a) | np.isnan(b)
        return np.where(nans, a + b, result) if nans.any() else result

    return two


_PACKED_THREE: dict[str, Function] = {}
for _name, _smaller in (("minimum", True), ("maximum", False)):
    _two = _ieee_pick(_smaller)
    _three = lambda a, b, c, two=_two: two(two(a, b), c)  # noqa: E731
    row(f"v_{_name}3_f32", floating("f32 f32 f32 f32", _three, exact=True))
    _PACKED_THREE[_name] = _three


# One operand.


def _rounding(function: Function) -> Function:
    return lambda a: np.copysign(function(a), a)


def _fract(a: Array) -> Array:
    below_one = np.nextafter(a.dtype.type(1), a.dtype.type(0))
    return np.minimum(a - np.floor(a), below_one)


_ROUNDINGS: tuple[tuple[str, Function], ...] = (
    ("trunc", np.trunc),
    ("ceil", np.ceil),
    ("floor", np.floor),
    ("rndne", np.rint),
)
for _kind in ("f16", "f32", "f64"):
    for _name, _function in _ROUNDINGS:
        row(f"v_{_name}_{_kind}", floating(f"{_kind} {_kind}", _rounding(_function)))
    row(f"v_fract_{_kind}", floating(f"{_kind} {_kind}", _fract))

_ULP = "1 ulp"
_TRANSCENDENTAL: tuple[tuple[str, Function], ...] = (
    ("rcp", lambda x: 1.0 / x),
    ("rsq", lambda x: 1.0 / np.sqrt(x)),
    ("sqrt", np.sqrt),
    ("exp", np.exp2),
    ("log", np.log2),
    ("sin", lambda x: np.sin(np.fmod(x, 1.0) * (2 * np.pi))),
    ("cos", lambda x: np.cos(np.fmod(x, 1.0) * (2 * np.pi))),
)


def _through64(function: Function) -> Function:
    """Worked out in float64 and rounded: correctly rounded but for ties that float64 cannot see."""

    def compute(a: Array) -> Array:
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            return np.asarray(function(a.astype(np.float64))).astype(a.dtype)

    return compute


for _name, _function in _TRANSCENDENTAL:
    for _kind in ("f16", "f32"):
        row(
            f"v_{_name}_{_kind}",
            floating(f"{_kind} {_kind}", _through64(_function)),
            f"v_{_name}_{_kind}: rounded correctly, the hardware is within {_ULP}",
        )
row(
    "v_rcp_iflag_f32",
    floating("f32 f32", _through64(lambda x: 1.0 / x)),
    f"v_rcp_iflag_f32: rounded correctly, the hardware is within {_ULP}",
)
for _name, _function in _TRANSCENDENTAL[:3]:
    row(
        f"v_{_name}_f64",
        floating("f64 f64", _function),
        f"v_{_name}_f64: rounded correctly, the hardware is less precise",
    )


def _frexp_mant(a: Array) -> Array:
    mantissa = np.frexp(a)[0]
    return np.where(np.isfinite(a), mantissa, a)


def _frexp_exp(a: Array) -> Array:
    exponent: Array = np.asarray(np.frexp(a.astype(np.float64))[1])
    return np.where(np.isfinite(a), exponent, 0)


for _kind, _exp in (("f16", "i16"), ("f32", "i32"), ("f64", "i32")):
    row(f"v_frexp_mant_{_kind}", floating(f"{_kind} {_kind}", _frexp_mant))
    row(f"v_frexp_exp_{_exp}_{_kind}", vector(f"{_exp} {_kind}", _frexp_exp))


def _ldexp(a: Array, b: Array) -> Array:
    wide = np.ldexp(a.astype(np.float64), np.clip(b, -2000, 2000))
    return wide.astype(a.dtype)


row("v_ldexp_f16", floating("f16 f16 b16", lambda a, b: _ldexp(a, b.view(np.int16))))
row("v_ldexp_f32", floating("f32 f32 i32", _ldexp))
row("v_ldexp_f64", floating("f64 f64 i32", lambda a, b: np.ldexp(a, np.clip(b, -5000, 5000))))

# Comparison.

FLOAT: dict[str, Function] = {
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "lg": lambda a, b: (a < b) | (a > b),
    "ge": np.greater_equal,
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
    "f": lambda a, b: np.zeros(np.broadcast_shapes(a.shape, b.shape), bool),
    "tru": lambda a, b: np.ones(np.broadcast_shapes(a.shape, b.shape), bool),
}
for _kind in ("f16", "f32", "f64"):
    for _op, _function in FLOAT.items():
        row(f"v_cmp_{_op}_{_kind}", compare(_kind, _function))
        row(f"v_cmpx_{_op}_{_kind}", compare(_kind, _function, to_exec=True))


def _class(kind: str, to_exec: bool) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        dtype = DTYPES[kind]
        raw_kind = {"f16": "b16", "f32": "u32", "f64": "b64"}[kind]
        plain = parsed.operands[1]
        bare = (
            plain._replace(negate=False, absolute=False) if isinstance(plain, Register) else plain
        )
        stripped = parsed._replace(operands=(parsed.operands[0], bare, *parsed.operands[2:]))
        bits = ctx.source(stripped, 1, raw_kind)
        if isinstance(plain, Register):
            bits = bit_modifiers(plain, bits, {"f16": 15, "f32": 31, "f64": 63}[kind])
        wanted_classes = ctx.source(parsed, 2, "b16" if kind == "f16" else "u32")
        put = ctx.mask_target(parsed.operands[0])
        unsigned, _, quiet = _QUIET[np.dtype(dtype)]
        smallest = np.finfo(dtype).smallest_normal  # type: ignore[type-var]

        def step(s: Group) -> None:
            raw = np.ascontiguousarray(bits(s))
            value, wanted = raw.view(dtype), wanted_classes(s).astype(np.uint32)
            nan, inf, minus = np.isnan(value), np.isinf(value), np.signbit(value)
            is_quiet = raw & unsigned(quiet) != 0
            small = (np.abs(value) < smallest) & (value != 0)
            zero = value == 0
            normal = ~(nan | inf | small | zero)
            classes = (
                nan & ~is_quiet,
                nan & is_quiet,
                inf & minus,
                normal & minus,
                small & minus,
                zero & minus,
                zero & ~minus,
                small & ~minus,
                normal & ~minus,
                inf & ~minus,
            )
            found = np.zeros(value.shape, bool)
            for at, one in enumerate(classes):
                found = found | one & (wanted >> np.uint32(at) & np.uint32(1)).astype(bool)
            INVALID[0] = False
            put(s, found)
            if to_exec:
                s.d[63][...] = pack(np.broadcast_to(found, (s.n, LANES)) & s.mask)
                s.update_exec()

        return step

    return build


for _kind in ("f16", "f32", "f64"):
    row(f"v_cmp_class_{_kind}", _class(_kind, False))
    row(f"v_cmpx_class_{_kind}", _class(_kind, True))


# Conversions.


def _to_int(dtype: Any, function: Function = np.trunc) -> Function:
    """Float to integer: truncated, saturated, NaN is 0."""
    limits = np.iinfo(dtype)

    def compute(a: Array) -> Array:
        wide = np.where(np.isnan(a), 0.0, function(a.astype(np.float64)))
        clipped = np.clip(wide, float(limits.min), float(limits.max))
        INVALID[0] = False
        return clipped.astype(np.int64).astype(dtype)

    return compute


row("v_cvt_f32_u32", floating("f32 u32", lambda a: a.astype(np.float32)))
row("v_cvt_f32_i32", floating("f32 i32", lambda a: a.astype(np.float32)))
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
            _check_rounding(ctx, {"f16"})
            if ctx.mode & FP16_OVFL:
                raise Fault("FP16_OVFL is not emulated here")
        gets = [ctx.source(parsed, at, "f32") for at in (1, 2)]
        put, finish = ctx.target(parsed, "u32"), _output(ctx, parsed, "f16")

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


def _norm(low: float, scale: float, dtype: Any) -> Function:
    def one(a: Array) -> Array:
        value = np.clip(np.where(np.isnan(a), 0.0, a.astype(np.float64)), low, 1.0)
        return np.rint(value * scale).astype(dtype).view(np.uint16).astype(np.uint32)

    return lambda a, b: one(a) | one(b) << np.uint32(16)


row("v_cvt_pknorm_i16_f32", vector("u32 f32 f32", _norm(-1.0, 32767.0, np.int16)))
row("v_cvt_pknorm_u16_f32", vector("u32 f32 f32", _norm(0.0, 65535.0, np.uint16)))

# Division helpers. Source: CDNA3 ISA guide, V_DIV_SCALE, V_DIV_FMAS, V_DIV_FIXUP.


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
        put, finish = ctx.target(parsed, kind), _output(ctx, parsed, kind)

        def step(s: Group) -> None:
            a, b, c = (np.ascontiguousarray(v) for v in np.broadcast_arrays(*(g(s) for g in gets)))
            value = np.array(np.broadcast_to(_FMA[kind](a, b, c), (s.n, LANES)))
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
    return np.ldexp(_fma32_odd(a, b, c), powers).astype(np.float32)


def _scaled64(a: Array, b: Array, c: Array, powers: Array) -> Array:
    """The same for float64: exactly where the scaled value, or the one before, is out of range."""
    before = fma64(a, b, c)
    result: Array = np.ldexp(before, powers)
    unsure = (np.abs(result) < 2.0**-1000) | ~np.isfinite(before)
    for place in np.argwhere(unsure):
        at = tuple(place)
        result[at] = _fma_exact(float(a[at]), float(b[at]), float(c[at]), int(powers[at]))
    return result


def _div_fixup(kind: str) -> Function:
    dtype = DTYPES[kind]

    def compute(x: Array, denominator: Array, numerator: Array) -> Array:
        x, d, n = np.broadcast_arrays(x, denominator, numerator)
        negative = np.signbit(d) ^ np.signbit(n)
        unsigned, nan_bits, quiet = _QUIET[np.dtype(dtype)]

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

# Packed: two float16 in a register, or two float32 in a pair of them.


def _half16(ctx: Context, operand: Operand, at: int, pick: int) -> Getter:
    """The low or the high half of a 32-bit operand; a constant has zeros above."""
    raw = ctx.raw_source(operand, at, "f16")
    shift = np.uint32(16 * pick)
    return lambda s: (raw(s) >> shift).astype(np.uint16).view(np.float16)


def _half32(ctx: Context, operand: Operand, kind: str, pick: int) -> Getter:
    """The low or the high register of a pair.

    Raises:
        Fault: the high half of a constant: what stands there is not known, and no compiler asks.
    """
    if isinstance(operand, Literal):
        if pick and operand.value != 0:
            raise Fault("the high half of a constant operand (op_sel) is not emulated")
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
        _check_rounding(ctx, {kind})
        rows = ctx.rows(parsed.operands[0])
        selects = half_selects(parsed, count)
        negate = parsed.bits("neg_lo", count), parsed.bits("neg_hi", count)
        finish, compute = _output(ctx, parsed, kind), function(ctx)
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
    row(f"v_pk_fma_{_kind}", _packed(_kind, lambda ctx, k=_kind: _FMA[k], 3))  # type: ignore[misc]
for _name, _smaller in (("min", True), ("max", False)):
    row(
        f"v_pk_{_name}_f16",
        _packed("f16", lambda ctx, less=_smaller: _pick(less, bool(ctx.mode & IEEE)), 2),  # type: ignore[misc]
    )

for _name, _three in _PACKED_THREE.items():
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


def _dot2(kind: str) -> Function:
    """``c + a.low * b.low + a.high * b.high`` in float32; a product is exact."""

    def wide(value: Array, up: int) -> Array:
        half = value >> np.uint32(up) & np.uint32(0xFFFF)
        if kind == "bf16":
            return (half << np.uint32(16)).view(np.float32)
        return half.astype(np.uint16).view(np.float16).astype(np.float32)

    def compute(a: Array, b: Array, c: Array) -> Array:
        sources = [wide(v, up) for up in (0, 16) for v in (a, b)]
        total = c + sources[0] * sources[1] + sources[2] * sources[3]
        return default_nan(total, (c, *sources)) if INVALID[0] else total

    return compute


_DOT = "the two additions of a dot product are rounded one after the other"
row("v_dot2c_f32_f16", accumulating("f32 u32 u32", _dot2("f16")), _DOT)
row("v_dot2c_f32_bf16", accumulating("f32 u32 u32", _dot2("bf16")), _DOT)
