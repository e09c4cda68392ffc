"""One number at a time in Triton: functions, integers, masks, random numbers, inline assembly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.language.extra.hip import libdevice

from tests.compilers.cases import TYPES, Array, Case, empty, numbers

__all__ = ["cases"]


@triton.jit
def function(x, o, n, F: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + p, mask=p < n, other=1.0)
    tl.store(o + p, F(a).to(o.dtype.element_ty), mask=p < n)


@triton.jit
def function_of_two(x, y, o, n, F: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + p, mask=p < n, other=1)
    b = tl.load(y + p, mask=p < n, other=1)
    tl.store(o + p, F(a, b).to(o.dtype.element_ty), mask=p < n)


@triton.jit
def integers(x, y, o, n, OP: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    m = p < n
    a = tl.load(x + p, mask=m, other=1)
    b = tl.load(y + p, mask=m, other=1)
    if OP == "divide":
        r = a // b
    elif OP == "rest":
        r = a % b
    elif OP == "high":
        r = tl.umulhi(a, b)
    elif OP == "left":
        r = a << (b & 15)
    elif OP == "right":
        r = a >> (b & 15)
    elif OP == "logic":
        r = (a & b) ^ ((a | 5) & ~b)
    elif OP == "least":
        r = tl.minimum(a, b) + tl.maximum(a, -b)
    elif OP == "size":
        r = tl.abs(a) - b
    elif OP == "order":
        r = (a < b).to(tl.int32) + 2 * (a == b).to(tl.int32) + 4 * (a >= b).to(tl.int32)
    elif OP == "multiply":
        r = a * b + (a - b) * 3
    tl.store(o + p, r.to(o.dtype.element_ty), mask=m)


@triton.jit
def clamp(x, o, n, B: tl.constexpr, NAN: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + p, mask=p < n, other=0.0)
    low = tl.full((B,), -1.5, a.dtype)
    high = tl.full((B,), 2.25, a.dtype)
    tl.store(o + p, tl.clamp(a, low, high, propagate_nan=NAN), mask=p < n)


@triton.jit
def extremes(x, y, o, n, B: tl.constexpr, NAN: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + p, mask=p < n, other=0.0)
    b = tl.load(y + p, mask=p < n, other=0.0)
    r = tl.where(p % 2 == 0, tl.minimum(a, b, NAN), tl.maximum(a, b, NAN))
    tl.store(o + p, r, mask=p < n)


@triton.jit
def bitcast(x, o, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + p, tl.load(x + p).to(o.dtype.element_ty, bitcast=True))


@triton.jit
def random(o, seed, OP: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    if OP == "int":
        tl.store(o + p, tl.randint(seed, p))
    elif OP == "uniform":
        tl.store(o + p, tl.rand(seed, p))
    elif OP == "normal":
        tl.store(o + p, tl.randn(seed, p))


@triton.jit
def dropout(x, o, n, part, seed, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + p, mask=p < n)
    keep = tl.rand(seed, p) > part
    tl.store(o + p, tl.where(keep, a / (1 - part), 0.0), mask=p < n)


@triton.jit
def assembly(x, y, o, B: tl.constexpr, TEXT: tl.constexpr, PACK: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    a, b = tl.load(x + p), tl.load(y + p)
    r = tl.inline_asm_elementwise(
        TEXT, "=v,v,v", [a, b], dtype=o.dtype.element_ty, is_pure=True, pack=PACK
    )
    tl.store(o + p, r)


@triton.jit
def strided(x, o, rows, columns, stride, B: tl.constexpr, C: tl.constexpr):
    r = (tl.program_id(0) * B + tl.arange(0, B)).to(tl.int64)[:, None]
    c = (tl.program_id(1) * C + tl.arange(0, C))[None, :]
    m = (r < rows) & (c < columns) & ((r + c) % 3 != 0)
    a = tl.load(x + r * stride + c, mask=m, other=7)
    tl.store(o + r * columns + c, a + tl.program_id(2), mask=(r < rows) & (c < columns))


@triton.jit
def _collatz(a):
    count = a * 0
    while tl.max(a, 0) > 1:
        odd = (a & 1) == 1
        count += (a > 1).to(a.dtype)
        a = tl.where(a <= 1, a, tl.where(odd, 3 * a + 1, a // 2))
    return count


@triton.jit
def branches(x, o, n, B: tl.constexpr):
    pid = tl.program_id(0)
    p = pid * B + tl.arange(0, B)
    a = tl.load(x + p, mask=p < n, other=1)
    if pid == 0:
        a = _collatz(a)
    elif pid == 1:
        for i in range(pid, tl.num_programs(0) + 3):
            if i % 2 == 0:  # noqa: SIM108
                a = a * 3 + i
            else:
                a = a ^ i
    else:
        for i in tl.static_range(5):
            a += i * pid
    tl.store(o + p, a, mask=p < n)


@triton.jit
def rotary(x, cosine, sine, o, n, HALF: tl.constexpr):
    row = tl.program_id(0)
    p = tl.arange(0, HALF)
    a = tl.load(x + row * 2 * HALF + p).to(tl.float32)
    b = tl.load(x + row * 2 * HALF + HALF + p).to(tl.float32)
    c, s = tl.load(cosine + row * HALF + p), tl.load(sine + row * HALF + p)
    tl.store(o + row * 2 * HALF + p, (a * c - b * s).to(o.dtype.element_ty))
    tl.store(o + row * 2 * HALF + HALF + p, (b * c + a * s).to(o.dtype.element_ty))


@triton.jit
def pieces(x, o, B: tl.constexpr):
    p = tl.arange(0, B)
    a = tl.load(x + p)
    even, odd = tl.split(tl.reshape(a, (B // 2, 2)))
    joined = tl.join(odd + 1, even * 2)
    turned = tl.permute(joined, (1, 0))
    flat = tl.reshape(turned, (B,))
    tl.store(o + p, tl.flip(flat, 0))
    tl.store(o + B + p, tl.interleave(odd, even))


@triton.jit
def unpack(x, scale, o, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + p)
    low = ((a & 15) ^ 8) - 8
    high = (((a >> 4) & 15) ^ 8) - 8
    both = tl.interleave(low, high).to(tl.float32)
    q = tl.program_id(0) * 2 * B + tl.arange(0, 2 * B)
    tl.store(o + q, (both * tl.load(scale + q // 32)).to(o.dtype.element_ty))


@triton.jit
def quantize(x, o, scale, ROWS: tl.constexpr, C: tl.constexpr, TOP: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, C)
    a = tl.load(x + r[:, None] * C + c[None, :])
    s = tl.max(tl.abs(a), 1) / TOP
    tl.store(scale + r, s)
    tl.store(o + r[:, None] * C + c[None, :], (a / s[:, None]).to(o.dtype.element_ty))


def _gamma(a: Array) -> Array:
    import math

    return np.array([math.lgamma(v) for v in a.tolist()])


def _python(name: str) -> Callable[[Array], Array]:
    import math

    return lambda a: np.array([getattr(math, name)(v) for v in a.tolist()])


_HALVES = np.array([-2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5])
#: Function → (in Triton, in NumPy, from, to).
_FUNCTIONS: dict[str, tuple[Any, Callable[[Array], Any], float, float]] = {
    "exp2": (tl.exp2, np.exp2, -60, 60), "log2": (tl.log2, np.log2, 1e-6, 1e6),
    "cos": (tl.cos, np.cos, -200, 200), "erf": (tl.erf, _python("erf"), -4, 4),
    "ceil": (tl.ceil, np.ceil, -9, 9), "abs": (tl.abs, np.abs, -9, 9),
    "sin_large": (tl.sin, np.sin, -1e7, 1e7), "sqrt": (tl.sqrt, np.sqrt, 0, 1e6),
    "expm1": (libdevice.expm1, np.expm1, -3, 3), "cosh": (libdevice.cosh, np.cosh, -9, 9),
    "sinh": (libdevice.sinh, np.sinh, -9, 9), "tan": (libdevice.tan, np.tan, -1.4, 1.4),
    "asin": (libdevice.asin, np.arcsin, -1, 1), "acos": (libdevice.acos, np.arccos, -1, 1),
    "asinh": (libdevice.asinh, np.arcsinh, -99, 99), "acosh": (libdevice.acosh, np.arccosh, 1, 99),
    "atanh": (libdevice.atanh, np.arctanh, -0.99, 0.99),
    "log10": (libdevice.log10, np.log10, 1e-6, 1e6),
    "erfc": (libdevice.erfc, _python("erfc"), -2, 4), "lgamma": (libdevice.lgamma, _gamma, 0.1, 40),
    "rint": (libdevice.rint, np.rint, -4, 4), "trunc": (libdevice.trunc, np.trunc, -4, 4),
    "nearbyint": (libdevice.nearbyint, np.rint, -4, 4),
    "round": (libdevice.round, lambda a: np.copysign(np.floor(np.abs(a) + 0.5), a), -4, 4),
    "rsqrt": (libdevice.rsqrt, lambda a: 1 / np.sqrt(a), 1e-3, 1e5),
    "fast_exp": (libdevice.fast_expf, np.exp, -9, 9),
    "fast_tanh": (libdevice.fast_tanhf, np.tanh, -3, 3),
}  # fmt: skip
_EXACT = ("ceil", "abs", "rint", "trunc", "nearbyint", "round")

_OF_TWO: dict[str, tuple[Any, Callable[[Array, Array], Any]]] = {
    "pow": (libdevice.pow, np.power), "atan2": (libdevice.atan2, np.arctan2),
    "hypot": (libdevice.hypot, np.hypot), "copysign": (libdevice.copysign, np.copysign),
    "fmod": (libdevice.fmod, np.fmod), "nextafter": (libdevice.nextafter, np.nextafter),
}  # fmt: skip


def _function(name: str, kind: str) -> Case:
    there, here, low, high = _FUNCTIONS[name]
    x = np.random.default_rng(11).uniform(low, high, 300).astype(TYPES[kind])
    if name in _EXACT:
        x[:8] = _HALVES
    want = np.asarray(here(x.astype(np.float64))).astype(x.dtype)
    tolerance = 0.0 if name in _EXACT else {"fp32": 2e-5, "fp64": 1e-12, "fp16": 2e-3}[kind]
    arguments = (("*" + kind, x), empty(want, kind), ("i32", 300))
    return Case(
        f"{name}_{kind}", function, arguments, {"F": there, "B": 128}, want, (3,), 2, tolerance
    )


def _of_two(name: str, kind: str) -> Case:
    there, here = _OF_TWO[name]
    x, y = numbers(kind, 300, 12), numbers(kind, 300, 13)
    if name == "pow":
        x, y = np.abs(x), y / 2
    tolerance = {"pow": 5e-6, "atan2": 1e-6, "hypot": 1e-6}.get(name, 0.0)
    if name in ("copysign", "fmod", "nextafter"):
        want = np.asarray(here(x, y))
    else:
        want = np.asarray(here(x.astype(np.float64), y.astype(np.float64))).astype(x.dtype)
    arguments = (("*" + kind, x), ("*" + kind, y), empty(want, kind), ("i32", 300))
    constants = {"F": there, "B": 128}
    return Case(f"{name}_{kind}", function_of_two, arguments, constants, want, (3,), 1, tolerance)


def _quotient(a: Array, b: Array) -> Array:
    whole = np.abs(a.astype(object)) // np.abs(b.astype(object))
    return np.where((a < 0) != (b < 0), -whole, whole).astype(a.dtype)


def _high(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    whole = a.view(unsigned).astype(object) * b.view(unsigned).astype(object) >> bits
    return whole.astype(unsigned).view(a.dtype)


_INTEGERS: dict[str, Callable[[Array, Array], Any]] = {
    "divide": _quotient,
    "rest": lambda a, b: a - _quotient(a, b) * b,
    "high": _high,
    "left": lambda a, b: a << (b & b.dtype.type(15)),
    "right": lambda a, b: a >> (b & b.dtype.type(15)),
    "logic": lambda a, b: (a & b) ^ ((a | a.dtype.type(5)) & ~b),
    "least": lambda a, b: np.minimum(a, b) + np.maximum(a, -b),
    "size": lambda a, b: np.abs(a) - b,
    "order": lambda a, b: (a < b) + 2 * (a == b) + 4 * (a >= b),
    "multiply": lambda a, b: a * b + (a - b) * a.dtype.type(3),
}


def _integers(op: str, kind: str) -> Case:
    x, y = numbers(kind, 500, 14), numbers(kind, 500, 15)
    x[:100:3] = x[:100:3] % 100
    y[::2] = y[::2] % 17
    if op in ("divide", "rest"):
        y = np.where((y == 0) | (y == y.dtype.type(-1 if kind[0] == "i" else 0)), 3, y)
        y = y.astype(x.dtype)
    y[:50] = x[:50] if op == "order" else y[:50]
    out = "i32" if op == "order" else kind
    with np.errstate(all="ignore"):
        want = _INTEGERS[op](x, y).astype(TYPES[out])
    arguments = (("*" + kind, x), ("*" + kind, y), empty(want, out), ("i32", 500))
    return Case(f"{op}_{kind}", integers, arguments, {"OP": op, "B": 128}, want, (4,), 2)


def _philox(seed: int, count: int) -> Array:
    """The first word of Philox 4x32-10, counter (i, 0, 0, 0): Salmon and others, SC11."""
    counter = [np.arange(count, dtype=np.uint64), *(np.zeros(count, np.uint64) for _ in range(3))]
    low, high, mask = seed & 0xFFFFFFFF, seed >> 32, np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a = counter[0] * np.uint64(0xD2511F53)
        b = counter[2] * np.uint64(0xCD9E8D57)
        counter = [
            (b >> np.uint64(32)) ^ counter[1] ^ np.uint64(low), b & mask,
            (a >> np.uint64(32)) ^ counter[3] ^ np.uint64(high), a & mask,
        ]  # fmt: skip
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return counter[0].astype(np.uint32)


def _uniform(words: Array) -> Array:
    signed = words.view(np.int32)
    positive = np.where(signed < 0, -signed - 1, signed).astype(np.float32)
    return positive * np.float32(4.6566127342e-10)


def _randoms() -> Iterator[Case]:
    words = _philox(1234, 512)
    bits = words.view(np.int32)
    arguments = (empty(bits, "i32"), ("i32", 1234))
    yield Case("random_int", random, arguments, {"OP": "int", "B": 256}, bits, (2,))
    uniform = _uniform(words).astype(np.float32)
    arguments = (empty(uniform, "fp32"), ("i32", 1234))
    constants = {"OP": "uniform", "B": 256}
    yield Case("random_uniform", random, arguments, constants, uniform, (2,), 4, 1e-7)
    x = numbers("fp32", 500, 16)
    part = np.float32(0.25)
    kept = uniform[:500] > part
    want = np.where(kept, x / (1 - part), 0).astype(np.float32)
    arguments = (("*fp32", x), empty(want, "fp32"), ("i32", 500), ("fp32", 0.25), ("i32", 1234))
    yield Case("dropout", dropout, arguments, {"B": 128}, want, (4,), 2, 1e-6)


def _nans(kind: str) -> tuple[Array, Array]:
    edges = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 6e4, -6e-8]).astype(
        TYPES[kind]
    )
    x, y = numbers(kind, 300, 17), numbers(kind, 300, 18)
    x[:81], y[:81] = np.repeat(edges, 9), np.tile(edges, 9)
    return x, y


def _comparisons() -> Iterator[Case]:
    for kind in ("fp32", "fp16", "bf16", "fp64"):
        x, y = _nans(kind)
        for nan in (tl.PropagateNan.ALL, tl.PropagateNan.NONE):
            least, most = (np.minimum, np.maximum) if nan == tl.PropagateNan.ALL else (
                np.fmin, np.fmax)  # fmt: skip
            want = np.where(np.arange(300) % 2 == 0, least(x, y), most(x, y))
            arguments = (("*" + kind, x), ("*" + kind, y), empty(want, kind), ("i32", 300))
            name = f"extremes_{kind}_{nan.name}"
            yield Case(name, extremes, arguments, {"B": 128, "NAN": nan}, want, (3,), 2)
            if kind != "fp64":
                want = np.clip(x, x.dtype.type(-1.5), x.dtype.type(2.25)).astype(x.dtype)
                if nan == tl.PropagateNan.NONE:
                    want = np.where(np.isnan(x), x.dtype.type(-1.5), want).astype(x.dtype)
                arguments = (("*" + kind, x), empty(want, kind), ("i32", 300))
                constants = {"B": 128, "NAN": nan}
                name = f"clamp_{kind}_{nan.name}"
                yield Case(name, clamp, arguments, constants, want, (3,), 1)


def _assembly() -> Iterator[Case]:
    x, y = numbers("fp32", 256, 19), numbers("fp32", 256, 20)
    for text, want in (
        ("v_max_f32 $0, $1, $2", np.maximum(x, y)),
        ("v_mul_f32_e64 $0, -|$1|, $2", -np.abs(x) * y),
        ("v_add_f32_e64 $0, $1, $2 clamp", np.clip(x + y, 0, 1)),
        ("v_mov_b32 $0, $1\nv_sub_f32 $0, $0, $2", x - y),
    ):
        arguments = (("*fp32", x), ("*fp32", y), empty(want, "fp32"))
        constants = {"B": 128, "TEXT": text, "PACK": 1}
        yield Case(f"assembly_{text.split()[0]}", assembly, arguments, constants, want, (2,))
    x, y = numbers("fp16", 512, 21), numbers("fp16", 512, 22)
    arguments = (("*fp16", x), ("*fp16", y), empty(x, "fp16"))
    constants = {"B": 256, "TEXT": "v_pk_add_f16 $0, $1, $2", "PACK": 2}
    yield Case("assembly_packed", assembly, arguments, constants, x + y, (2,), 2)


def _strided(kind: str) -> Case:
    x = (np.arange(70 * 50) % 100).astype(TYPES[kind]).reshape(70, 50)
    r, c = np.mgrid[:70, :45]
    want = np.where((r + c) % 3 != 0, x[:, :45], 7).astype(x.dtype)
    arguments = (("*" + kind, x), empty(want, kind), ("i32", 70), ("i32", 45), ("i32", 50))
    return Case(f"strided_{kind}", strided, arguments, {"B": 16, "C": 32}, want, (5, 2, 1), 2)


def _branches() -> Case:
    x = np.random.default_rng(23).integers(1, 60, 300).astype(np.int32)
    want = x.copy()
    for at in range(128):
        a, count = int(x[at]), 0
        while a > 1:
            a, count = (3 * a + 1 if a & 1 else a // 2), count + 1
        want[at] = count
    for i in range(1, 6):
        want[128:256] = want[128:256] * 3 + i if i % 2 == 0 else want[128:256] ^ i
    want[256:] += 20
    arguments = (("*i32", x), empty(want, "i32"), ("i32", 300))
    return Case("branches", branches, arguments, {"B": 128}, want, (3,), 2)


def _shapes() -> Iterator[Case]:
    for kind in ("fp32", "i8", "i16", "i64"):
        x = numbers(kind, 256, 24)
        even, odd = x[::2], x[1::2]
        with np.errstate(all="ignore"):
            flipped = np.concatenate((odd + x.dtype.type(1), even * x.dtype.type(2)))[::-1]
        want = np.concatenate((flipped, np.stack((odd, even), 1).reshape(-1)))
        arguments = (("*" + kind, x), empty(want, kind))
        yield Case(f"pieces_{kind}", pieces, arguments, {"B": 256}, want, (1,), 2)
    x = numbers("fp16", 6 * 64, 25).reshape(6, 64)
    angle = np.random.default_rng(26).uniform(-3, 3, (6, 32))
    c, s = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    a, b = x[:, :32].astype(np.float64), x[:, 32:].astype(np.float64)
    want = np.concatenate((a * c - b * s, b * c + a * s), 1).astype(np.float16)
    arguments = (("*fp16", x), ("*fp32", c), ("*fp32", s), empty(want, "fp16"), ("i32", 6))
    yield Case("rotary", rotary, arguments, {"HALF": 32}, want, (6,), 1, 2e-3)
    x = numbers("i8", 512, 27)
    scale = np.exp2(np.random.default_rng(28).integers(-3, 4, 32)).astype(np.float32)
    nibbles = np.stack((x & 15, x >> 4 & 15), 1).reshape(-1)
    want = (((nibbles ^ 8) - 8) * np.repeat(scale, 32)).astype(np.float16)
    arguments = (("*i8", x), ("*fp32", scale), empty(want, "fp16"))
    yield Case("unpack_int4", unpack, arguments, {"B": 128}, want, (4,), 2)


def _quantize(kind: str, top: float, target: str) -> Case:
    x = numbers("fp32", 16 * 128, 29).reshape(16, 128)
    scale = (np.abs(x).max(1) / np.float32(top)).astype(np.float32)
    want = (x / scale[:, None]).astype(TYPES[kind])
    arguments = (("*fp32", x), empty(want, kind), empty(scale, "fp32"))
    constants = {"ROWS": 4, "C": 128, "TOP": top}
    # A quotient that is off by a bit may round to the number beside it.
    return Case(
        f"quantize_{kind}", quantize, arguments, constants, scale, (4,), 2, 0.13, (target,),
        also={1: want},
    )  # fmt: skip


def cases() -> Iterator[Case]:
    """All of them."""
    yield from (_function(name, "fp32") for name in _FUNCTIONS)
    wide = ("cos", "erf", "exp2", "log2", "expm1", "tan", "asin", "lgamma", "round", "rint")
    yield from (_function(name, "fp64") for name in wide if name not in ("fast_exp", "fast_tanh"))
    yield from (_of_two(name, kind) for name in _OF_TWO for kind in ("fp32", "fp64"))
    for op in _INTEGERS:
        kinds = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
        if op == "high":
            kinds = ["i32", "i64", "u32", "u64"]
        if op in ("size", "least"):
            kinds = kinds[:4]
        yield from (_integers(op, kind) for kind in kinds)
    yield from _randoms()
    yield from _comparisons()
    yield from _assembly()
    yield from (_strided(kind) for kind in ("fp32", "i8", "bf16", "i64"))
    yield _branches()
    yield from _shapes()
    yield _quantize("fp8e4b8", 240.0, "gfx942")
    yield _quantize("fp8e4nv", 448.0, "gfx950")
