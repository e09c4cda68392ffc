"""Floating-point vector instructions, one result a lane.

Arithmetic is IEEE 754 with round to nearest even. NaN results have AMD's default bits where no
operand was a NaN. Source: CDNA3 and CDNA4 ISA guides, "Vector ALU Operations"; LLVM for what
happens to the half of a register that a 16-bit result does not use.
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.fma import FMA, fma16, fma32
from coasm.emulator.rows.integer import is_plain, vector
from coasm.emulator.rows.nans import INVALID, QUIET, Function, default_nan
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import (
    DTYPES,
    DX10_CLAMP,
    FP16_OVFL,
    IEEE,
    ROUND_16,
    ROUND_32,
    Array,
    Step,
    flush,
)
from coasm.emulator.state.waves import Group
from coasm.isa import Parsed, Register

__all__ = ["PACKED_THREE", "check_rounding", "floating", "output", "picker"]


def check_rounding(ctx: Context, kinds: set[str]) -> None:
    if ("f32" in kinds and ctx.mode & ROUND_32) or (kinds & {"f16", "f64"} and ctx.mode & ROUND_16):
        raise Fault("a rounding mode other than to nearest even is not emulated")


def output(
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
    normal: bool = False,
    limited: bool = False,
) -> Callable[[Context, Parsed], Step]:
    """A float ``dst = function(*sources)``.

    *exact*: the result is never rounded and never denormal unless an operand is (minimum, ...).
    *normal*: it is never denormal.
    *limited*: as for :func:`output`.
    """
    out, *sources = kinds.split()
    dtype = DTYPES[out]
    direct = {out, *sources} == {"f32"} and not (keep or normal or limited)

    def build(ctx: Context, parsed: Parsed) -> Step:
        check_rounding(ctx, {out} if not exact else set())
        if direct and is_plain(ctx, parsed):
            return _direct(ctx, parsed, function, exact)
        gets = [ctx.source(parsed, at + 1, kind) for at, kind in enumerate(sources)]
        put = ctx.target(parsed, out, keep=keep)
        finish = output(ctx, parsed, out, limited)
        if (exact or normal) and not parsed.modifiers:
            finish = None
        ctx.now_clean = out == "f32" and _cleans(ctx, exact) and ctx.is_whole(parsed)

        def step(s: Group) -> None:
            values = tuple(get(s) for get in gets)
            result = np.asarray(function(*values)).astype(dtype, copy=False)
            if INVALID[0]:
                result = default_nan(result, values)
            put(s, result if finish is None else finish(result))

        return step

    return build


def _cleans(ctx: Context, exact: bool) -> bool:
    """Whether a float32 result is never denormal in this mode; *exact* as for :func:`floating`."""
    return ctx.flushes_out("f32") and (not exact or ctx.flushes_in("f32"))


def _direct(ctx: Context, parsed: Parsed, function: Function, exact: bool) -> Step:
    """float32 on whole registers, without what other operands take."""
    d = ctx.rows(parsed.operands[0])[0]
    flushes = ctx.flushes_in("f32")
    sources = [
        (ctx.k(operand, "f32"), flushes and not ctx.is_clean(operand, "f32"))
        for operand in parsed.operands[1:]
    ]
    flush_out = ctx.flushes_out("f32") and not exact
    ctx.now_clean = _cleans(ctx, exact)
    if isinstance(function, np.ufunc) and d not in [at for at, _ in sources]:
        return _in_place(d, sources, function, flush_out)

    def step(s: Group) -> None:
        f = s.f
        values = [flush(f[at]) if flushes else f[at] for at, flushes in sources]
        value = np.asarray(function(*values), np.float32)
        if INVALID[0]:
            value = default_nan(value, tuple(values))
        if flush_out:
            value = flush(value)
        if s.full:
            f[d][...] = value
        else:
            np.copyto(f[d], value, where=s.mask)

    return step


def _in_place(d: int, sources: list[tuple[int, bool]], function: np.ufunc, flush_out: bool) -> Step:
    """A ufunc that works straight in row *d*, which is none of its sources."""

    def step(s: Group) -> None:
        f = s.f
        values = [flush(f[at]) if flushes else f[at] for at, flushes in sources]
        out = f[d] if s.full else np.empty(s.shape, np.float32)
        function(*values, out=out)
        if INVALID[0]:
            out[...] = default_nan(out, tuple(values))
        if flush_out:
            value = flush(out)
            if value is not out:
                out[...] = value
        if not s.full:
            np.copyto(f[d], out, where=s.mask)

    return step


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


def _mad(a: Array, b: Array, c: Array) -> Array:
    """A product and a sum, each rounded."""
    return a * b + c


for _kind in ("f32", "f64"):
    row(f"v_fma_{_kind}", floating(f"{_kind} {_kind} {_kind} {_kind}", FMA[_kind]))
row("v_fma_f16", floating("f16 f16 f16 f16", fma16, keep=True))
row("v_fma_legacy_f16", floating("f16 f16 f16 f16", fma16))
row("v_mad_legacy_f16", floating("f16 f16 f16 f16", _mad))
row("v_mad_f16", floating("f16 f16 f16 f16", _mad, keep=True))


def _mixed(out: str, high: bool = False) -> Callable[[Context, Parsed], Step]:
    """Sources of f32, or of either half of an f16 register as op_sel_hi and op_sel say; a fused
    multiply-add in f32. Its f16 result goes to one half of a register and leaves the other alone.
    """
    dtype = DTYPES[out]

    def build(ctx: Context, parsed: Parsed) -> Step:
        check_rounding(ctx, {"f32", out})
        halves = parsed.bits("op_sel_hi", 3)
        # op_sel means nothing to a whole register.
        whole = parsed._replace(modifiers={})
        picks = parsed.bits("op_sel", 3)
        halved = parsed._replace(modifiers={"op_sel": str(list(picks)).replace(" ", "")})
        gets = [ctx.source(halved, 1 + at, "f16") if half else ctx.source(whole, 1 + at, "f32")
                for at, half in enumerate(halves)]  # fmt: skip
        where = parsed._replace(modifiers={"op_sel": "[0,0,0,1]"} if high else {})
        put = ctx.target(where, out, keep=True)
        finish = output(ctx, parsed, out)
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


def _accumulate(
    kind: str, order: str, function: Function | None = None
) -> Callable[[Context, Parsed], Step]:
    """fmac: the result register is the addend; fmamk, fmaak: a constant is a factor, the addend."""
    inner = floating(f"{kind} {kind} {kind} {kind}", function or FMA[kind])

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
row("v_mac_f16", _accumulate("f16", "mac", _mad))
row("v_madmk_f16", _accumulate("f16", "mk", _mad))
row("v_madak_f16", _accumulate("f16", "ak", _mad))


def picker(smaller: bool, ieee: bool) -> Function:
    def compute(a: Array, b: Array) -> Array:
        choose = np.asarray((np.minimum if smaller else np.maximum)(a, b))
        if np.count_nonzero(choose) != choose.size:
            zeros = (a == 0) & (b == 0)
            # -0 is less than +0.
            negative = np.signbit(a) | np.signbit(b) if smaller else np.signbit(a) & np.signbit(b)
            choose = np.where(zeros, np.where(negative, -a.dtype.type(0), a.dtype.type(0)), choose)
        nans = np.isnan(choose)  # NumPy's minimum is one where an operand is
        if np.count_nonzero(nans):
            unsigned, _, quiet = QUIET[a.dtype]
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
        pick = picker(smaller, bool(ctx.mode & IEEE))
        function = pick if count == 2 else (lambda a, b, c: pick(pick(a, b), c))
        return floating(" ".join([kind] * (count + 1)), function, exact=True)(ctx, parsed)

    return build


def _median(kind: str) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        low, high = (picker(smaller, bool(ctx.mode & IEEE)) for smaller in (True, False))

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


PACKED_THREE: dict[str, Function] = {}
for _name, _smaller in (("minimum", True), ("maximum", False)):
    _two = _ieee_pick(_smaller)
    _three = lambda a, b, c, two=_two: two(two(a, b), c)  # noqa: E731
    row(f"v_{_name}3_f32", floating("f32 f32 f32 f32", _three, exact=True))
    PACKED_THREE[_name] = _three


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
