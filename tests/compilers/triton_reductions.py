"""Many numbers to few in Triton, and in order: reductions, scans, sorting, norms, losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton
import triton.language as tl

from tests.compilers.cases import TYPES, Array, Case, empty, numbers

__all__ = ["cases"]


@triton.jit
def fold(x, o, OP: tl.constexpr, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    a = tl.load(x + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :])
    if OP == "sum":
        v = tl.sum(a, AXIS)
    elif OP == "min":
        v = tl.min(a, AXIS)
    elif OP == "max":
        v = tl.max(a, AXIS)
    elif OP == "argmin":
        v = tl.argmin(a, AXIS)
    elif OP == "argmax":
        v = tl.argmax(a, AXIS)
    elif OP == "or":
        v = tl.reduce_or(a, AXIS)
    elif OP == "xor":
        v = tl.xor_sum(a, AXIS)
    n: tl.constexpr = C if AXIS == 0 else R
    tl.store(o + tl.arange(0, n), v.to(o.dtype.element_ty))


@triton.jit
def scan(
    x, o, OP: tl.constexpr, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr, BACK: tl.constexpr
):
    p = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    a = tl.load(x + p)
    if OP == "sum":
        v = tl.cumsum(a, AXIS, reverse=BACK)
    elif OP == "product":
        v = tl.cumprod(a, AXIS, reverse=BACK)
    tl.store(o + p, v)


@triton.jit
def order(x, o, OP: tl.constexpr, R: tl.constexpr, C: tl.constexpr, K: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    a = tl.load(x + r * C + tl.arange(0, C)[None, :])
    if OP == "up":
        v = tl.sort(a)
    elif OP == "down":
        v = tl.sort(a, descending=True)
    elif OP == "top":
        v = tl.topk(a, K)
    tl.store(o + r * K + tl.arange(0, K)[None, :], v)


@triton.jit
def _welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    d = mean_b - mean_a
    part = tl.where(n == 0, 0.0, n_b / n)
    return mean_a + d * part, m2_a + m2_b + d * d * n_a * part, n


@triton.jit
def welford(x, mean, variance, C: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    m = c < C
    a = tl.load(x + row * C + c, mask=m, other=0.0)
    u, m2, n = tl.reduce((a, tl.zeros_like(a), m.to(tl.float32)), 0, _welford)
    tl.store(mean + row, u)
    tl.store(variance + row, m2 / n)


@triton.jit
def _recurrence(a, b, c, d):
    return a * c, c * b + d


@triton.jit
def recurrence(gate, x, o, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    p = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    _, h = tl.associative_scan((tl.load(gate + p), tl.load(x + p)), AXIS, _recurrence)
    tl.store(o + p, h)


@triton.jit
def _larger(a, i, b, j):
    take = (a > b) | ((a == b) & (i < j))
    return tl.where(take, a, b), tl.where(take, i, j)


@triton.jit
def largest(x, o, at, R: tl.constexpr, C: tl.constexpr):
    p = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    a = tl.load(x + p)
    v, i = tl.reduce((a, tl.broadcast_to(tl.arange(0, C)[None, :], (R, C))), 1, _larger)
    tl.store(o + tl.arange(0, R), v)
    tl.store(at + tl.arange(0, R), i)


@triton.jit
def layer_norm(x, w, b, o, mean, rstd, n, eps, B: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((B,), tl.float32)
    for start in range(0, n, B):
        c = start + tl.arange(0, B)
        total += tl.load(x + row * n + c, mask=c < n, other=0.0).to(tl.float32)
    u = tl.sum(total, 0) / n
    squares = tl.zeros((B,), tl.float32)
    for start in range(0, n, B):
        c = start + tl.arange(0, B)
        a = tl.load(x + row * n + c, mask=c < n, other=0.0).to(tl.float32)
        d = tl.where(c < n, a - u, 0.0)
        squares += d * d
    r = 1 / tl.sqrt(tl.sum(squares, 0) / n + eps)
    tl.store(mean + row, u)
    tl.store(rstd + row, r)
    for start in range(0, n, B):
        c = start + tl.arange(0, B)
        a = tl.load(x + row * n + c, mask=c < n).to(tl.float32)
        g = tl.load(w + c, mask=c < n)
        h = tl.load(b + c, mask=c < n)
        tl.store(o + row * n + c, ((a - u) * r * g + h).to(o.dtype.element_ty), mask=c < n)


@triton.jit
def norm_gradient(dy, x, w, mean, rstd, dw, lock, dx, n, B: tl.constexpr, GROUPS: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    m = c < n
    a = tl.load(x + row * n + c, mask=m, other=0.0)
    d = tl.load(dy + row * n + c, mask=m, other=0.0)
    g = tl.load(w + c, mask=m, other=0.0)
    u, r = tl.load(mean + row), tl.load(rstd + row)
    h = tl.where(m, (a - u) * r, 0.0)
    e = tl.where(m, g * d, 0.0)
    c1 = tl.sum(h * e, 0) / n
    c2 = tl.sum(e, 0) / n
    tl.store(dx + row * n + c, (e - (h * c1 + c2)) * r, mask=m)
    group = row % GROUPS
    while tl.atomic_cas(lock + group, 0, 1) == 1:
        pass
    first = lock + GROUPS + group
    count = tl.load(first)
    part = d * h
    if count == 0:
        tl.atomic_xchg(first, 1)
    else:
        part += tl.load(dw + group * n + c, mask=m)
    tl.store(dw + group * n + c, part, mask=m)
    tl.debug_barrier()
    tl.atomic_xchg(lock + group, 0)


@triton.jit
def rms_norm(x, w, o, n, eps, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    a = tl.load(x + row * n + c, mask=c < n, other=0.0).to(tl.float32)
    r = tl.rsqrt(tl.sum(a * a, 0) / n + eps)
    g = tl.load(w + c, mask=c < n).to(tl.float32)
    tl.store(o + row * n + c, (a * r * g).to(o.dtype.element_ty), mask=c < n)


@triton.jit
def cross_entropy(x, target, loss, gradient, n, B: tl.constexpr):
    row = tl.program_id(0)
    most = -float("inf")
    total = 0.0
    for start in range(0, n, B):
        c = start + tl.arange(0, B)
        a = tl.load(x + row * n + c, mask=c < n, other=-float("inf"))
        new = tl.maximum(most, tl.max(a, 0))
        total = total * tl.exp(most - new) + tl.sum(tl.exp(a - new), 0)
        most = new
    t = tl.load(target + row)
    tl.store(loss + row, tl.log(total) + most - tl.load(x + row * n + t))
    for start in range(0, n, B):
        c = start + tl.arange(0, B)
        a = tl.load(x + row * n + c, mask=c < n, other=-float("inf"))
        p = tl.exp(a - most) / total
        tl.store(gradient + row * n + c, tl.where(c == t, p - 1.0, p), mask=c < n)


@triton.jit
def wide_softmax(x, o, rows, n, stride, B: tl.constexpr, STAGES: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        c = tl.arange(0, B)
        a = tl.load(x + row * stride + c, mask=c < n, other=-float("inf"))
        e = tl.exp(a - tl.max(a, 0))
        tl.store(o + row * stride + c, e / tl.sum(e, 0), mask=c < n)


@triton.jit
def count(x, o, n, BINS: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    h = tl.histogram(tl.load(x + p, mask=p < n, other=0), BINS, mask=p < n)
    tl.atomic_add(o + tl.arange(0, BINS), h)


_FOLDS: dict[str, Callable[[Array, int], Any]] = {
    "sum": lambda x, axis: x.sum(axis, dtype=x.dtype),
    "min": lambda x, axis: x.min(axis), "max": lambda x, axis: x.max(axis),
    "argmin": lambda x, axis: x.argmin(axis).astype(np.int32),
    "argmax": lambda x, axis: x.argmax(axis).astype(np.int32),
    "or": lambda x, axis: np.bitwise_or.reduce(x, axis),
    "xor": lambda x, axis: np.bitwise_xor.reduce(x, axis),
}  # fmt: skip


def _fold(op: str, kind: str, rows: int, columns: int, axis: int, warps: int) -> Case:
    x = numbers(kind, rows * columns, 31).reshape(rows, columns)
    if kind[0] not in "iu":
        x = np.rint(x.astype(np.float64)).astype(x.dtype)  # with equal ones, and exact sums
    with np.errstate(all="ignore"):
        want = _FOLDS[op](x, axis)
    out = "i32" if op.startswith("arg") else kind
    if op == "sum" and kind in ("i8", "i16", "u8"):  # Triton adds small integers as 32 bits
        out, want = "i32", x.sum(axis, dtype=np.int32)
    if kind in ("fp16", "bf16") and op == "sum":
        want = x.astype(np.float64).sum(axis).astype(x.dtype)
    constants = {"OP": op, "R": rows, "C": columns, "AXIS": axis}
    name = f"fold_{op}_{kind}_{rows}x{columns}_{axis}"
    return Case(name, fold, (("*" + kind, x), empty(want, out)), constants, want, (1,), warps)


def _scan(op: str, kind: str, rows: int, columns: int, axis: int, back: bool) -> Case:
    draw = np.random.default_rng(32)
    if op == "product":
        x = draw.choice([1, -1, 2], (rows, columns), p=[0.7, 0.2, 0.1]).astype(TYPES[kind])
    else:
        x = draw.integers(-5, 6, (rows, columns)).astype(TYPES[kind])
    turned = np.flip(x, axis) if back else x
    function = np.cumprod if op == "product" else np.cumsum
    want = function(turned, axis, dtype=x.dtype)
    want = np.ascontiguousarray(np.flip(want, axis) if back else want)
    constants = {"OP": op, "R": rows, "C": columns, "AXIS": axis, "BACK": back}
    name = f"scan_{op}_{kind}_{rows}x{columns}_{axis}_{back}"
    return Case(name, scan, (("*" + kind, x), empty(want, kind)), constants, want, (1,), 2)


def _order(op: str, kind: str, rows: int, columns: int, keep: int, warps: int) -> Case:
    x = numbers(kind, 2 * rows * columns, 33).reshape(2 * rows, columns)
    want = np.sort(x, 1) if op == "up" else np.sort(x, 1)[:, ::-1]
    want = np.ascontiguousarray(want[:, :keep])
    constants = {"OP": op, "R": rows, "C": columns, "K": keep}
    arguments = (("*" + kind, x), empty(want, kind))
    return Case(f"order_{op}_{kind}_{columns}", order, arguments, constants, want, (2,), warps)


def _tuples() -> Iterator[Case]:
    x = numbers("fp32", 6 * 200, 34).reshape(6, 200)
    mean, variance = x.mean(1, dtype=np.float64), x.var(1, dtype=np.float64)
    mean, variance = mean.astype(np.float32), variance.astype(np.float32)
    arguments = (("*fp32", x), empty(mean, "fp32"), empty(variance, "fp32"))
    yield Case(
        "welford", welford, arguments, {"C": 200, "B": 256}, variance, (6,), 4, 1e-5,
        also={1: mean},
    )  # fmt: skip
    for axis in (0, 1):
        draw = np.random.default_rng(35)
        gate = draw.uniform(0.5, 1, (32, 64)).astype(np.float32)
        x = draw.uniform(-1, 1, (32, 64)).astype(np.float32)
        h, g, y = np.zeros((32, 64)), np.moveaxis(gate, axis, 0), np.moveaxis(x, axis, 0)
        h = np.moveaxis(h, axis, 0)
        for at in range(len(g)):
            h[at] = g[at] * (h[at - 1] if at else 0) + y[at]
        want = np.ascontiguousarray(np.moveaxis(h, 0, axis)).astype(np.float32)
        arguments = (("*fp32", gate), ("*fp32", x), empty(want, "fp32"))
        constants = {"R": 32, "C": 64, "AXIS": axis}
        yield Case(f"recurrence_{axis}", recurrence, arguments, constants, want, (1,), 4, 1e-5)
    for kind in ("fp32", "i64", "fp16"):
        x = (np.random.default_rng(36).integers(-20, 20, (16, 128))).astype(TYPES[kind])
        arguments = (("*" + kind, x), empty(x[:, 0], kind), empty(x[:, 0], "i32"))
        want = x.argmax(1).astype(np.int32)
        yield Case(
            f"largest_{kind}", largest, arguments, {"R": 16, "C": 128}, want, (1,), 4,
            also={1: x.max(1)},
        )  # fmt: skip


def _norms() -> Iterator[Case]:
    rows, n = 4, 300
    for kind, tolerance in (("fp32", 1e-5), ("fp16", 2e-3), ("bf16", 1e-2)):
        x = numbers(kind, rows * n, 37).reshape(rows, n)
        w, b = numbers("fp32", n, 38), numbers("fp32", n, 39)
        wide = x.astype(np.float64)
        u = wide.mean(1, keepdims=True)
        r = 1 / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
        want = ((wide - u) * r * w + b).astype(x.dtype)
        mean, rstd = u[:, 0].astype(np.float32), r[:, 0].astype(np.float32)
        arguments = (
            ("*" + kind, x), ("*fp32", w), ("*fp32", b), empty(want, kind), empty(mean, "fp32"),
            empty(rstd, "fp32"), ("i32", n), ("fp32", 1e-5),
        )  # fmt: skip
        yield Case(
            f"layer_norm_{kind}", layer_norm, arguments, {"B": 128}, rstd, (rows,), 2, tolerance,
            also={3: want, 4: mean},
        )  # fmt: skip
        want = (wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) * w).astype(x.dtype)
        arguments = (
            ("*" + kind, x), ("*fp32", w), empty(want, kind), ("i32", n), ("fp32", 1e-6),
        )  # fmt: skip
        yield Case(f"rms_norm_{kind}", rms_norm, arguments, {"B": 512}, want, (rows,), 4, tolerance)
    yield _gradient()
    x = numbers("fp32", 5 * 300, 40).reshape(5, 300)
    target = np.array([3, 299, 0, 128, 77], np.int64)
    wide = x.astype(np.float64)
    p = np.exp(wide - wide.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    loss = -np.log(p[np.arange(5), target]).astype(np.float32)
    p[np.arange(5), target] -= 1
    arguments = (
        ("*fp32", x), ("*i64", target), empty(loss, "fp32"), empty(p, "fp32"), ("i32", 300),
    )  # fmt: skip
    yield Case(
        "cross_entropy", cross_entropy, arguments, {"B": 128}, p.astype(np.float32), (5,), 4, 1e-5,
        also={2: loss},
    )  # fmt: skip
    p = np.exp(wide - wide.max(1, keepdims=True))
    want = (p / p.sum(1, keepdims=True)).astype(np.float32)
    for stages in (1, 2, 4):
        arguments = (("*fp32", x), empty(want, "fp32"), ("i32", 5), ("i32", 300), ("i32", 300))
        constants = {"B": 512, "STAGES": stages}
        yield Case(
            f"wide_softmax_{stages}", wide_softmax, arguments, constants, want, (2,), 4, 1e-5
        )


def _gradient() -> Case:
    rows, n, groups = 12, 100, 3
    draw = np.random.default_rng(41)
    dy, x = draw.standard_normal((2, rows, n)).astype(np.float32)
    w = draw.standard_normal(n).astype(np.float32)
    u, r = x.mean(1, keepdims=True), 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    h = (x - u) * r
    e = (w * dy).astype(np.float64)
    want = (e - (h * (h * e).mean(1, keepdims=True) + e.mean(1, keepdims=True))) * r
    sums = np.stack([(dy * h)[at::groups].sum(0) for at in range(groups)]).astype(np.float32)
    arguments = (
        ("*fp32", dy), ("*fp32", x), ("*fp32", w), ("*fp32", u), ("*fp32", r), empty(sums, "fp32"),
        ("*i32", np.zeros(2 * groups, np.int32)), empty(want, "fp32"), ("i32", n),
    )  # fmt: skip
    constants = {"B": 128, "GROUPS": groups}
    return Case(
        "norm_gradient", norm_gradient, arguments, constants, want.astype(np.float32), (rows,), 2,
        1e-4, also={5: sums},
    )  # fmt: skip


def cases() -> Iterator[Case]:
    """All of them."""
    for op in ("sum", "min", "max", "argmin", "argmax"):
        for kind in ("fp32", "fp16", "bf16", "i32", "i64", "i8", "fp64", "u8", "i16"):
            if op == "sum" and kind == "bf16":
                continue  # NumPy and Triton add in another order
            yield _fold(op, kind, 16, 128, 1, 4)
            yield _fold(op, kind, 64, 16, 0, 2)
    for op in ("or", "xor"):
        yield from (_fold(op, kind, 8, 256, 1, 8) for kind in ("i32", "i64", "i16"))
    yield from (_fold("max", "fp32", *shape, 1, 4) for shape in ((1, 1024), (2, 2), (256, 4)))
    for kind in ("fp32", "i32", "i64", "i16", "fp64"):
        for back in (False, True):
            yield _scan("sum", kind, 8, 128, 1, back)
            yield _scan("sum", kind, 64, 8, 0, back)
    yield from (_scan("product", kind, 16, 32, 1, False) for kind in ("fp32", "i32"))
    for kind in ("fp32", "i32", "fp16", "i8", "i64", "bf16"):
        yield _order("up", kind, 4, 64, 64, 2)
        yield _order("down", kind, 1, 256, 256, 4)
        yield _order("top", kind, 8, 64, 8, 2)
    yield from _tuples()
    yield from _norms()
    for bins in (16, 256):
        x = np.random.default_rng(42).integers(0, bins, 1000).astype(np.int32)
        want = np.bincount(x, minlength=bins).astype(np.int32)
        arguments = (("*i32", x), empty(want, "i32"), ("i32", 1000))
        yield Case(f"count_{bins}", count, arguments, {"BINS": bins, "B": 512}, want, (2,))
