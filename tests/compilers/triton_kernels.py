"""Kernels in Triton with what NumPy says of them; to be imported where triton is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice

from tests.compilers.cases import TYPES, Case, empty, numbers

__all__ = ["cases"]


@triton.jit
def binary(x, y, o, n, OP: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    m = p < n
    a = tl.load(x + p, mask=m, other=1)
    b = tl.load(y + p, mask=m, other=1)
    if OP == "add":
        r = a + b
    elif OP == "mul":
        r = a * b
    elif OP == "max":
        r = tl.maximum(a, b)
    elif OP == "div":
        r = a / b
    elif OP == "exact_div":
        r = tl.div_rn(a, b)
    elif OP == "floor_div":
        r = a // b
    elif OP == "rem":
        r = a % b
    elif OP == "shift":
        r = a >> (b & 7)
    elif OP == "select":
        r = tl.where(a < b, a, b + a)
    elif OP == "fma":
        r = tl.fma(a, b, a)
    tl.store(o + p, r, mask=m)


@triton.jit
def unary(x, o, n, OP: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    m = p < n
    a = tl.load(x + p, mask=m, other=1.0)
    if OP == "exp":
        r = tl.exp(a)
    elif OP == "log":
        r = tl.log(a)
    elif OP == "sin":
        r = tl.sin(a)
    elif OP == "rsqrt":
        r = tl.rsqrt(a)
    elif OP == "sqrt":
        r = tl.sqrt_rn(a)
    elif OP == "floor":
        r = tl.floor(a)
    elif OP == "sigmoid":
        r = tl.sigmoid(a)
    elif OP == "tanh":
        r = libdevice.tanh(a)
    elif OP == "log1p":
        r = libdevice.log1p(a)
    elif OP == "atan":
        r = libdevice.atan(a)
    tl.store(o + p, r, mask=m)


@triton.jit
def cast(x, o, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + p, tl.load(x + p).to(o.dtype.element_ty))


@triton.jit
def reduce(x, o, OP: tl.constexpr, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    r = tl.arange(0, R)[:, None]
    c = tl.arange(0, C)[None, :]
    a = tl.load(x + r * C + c)
    if OP == "cumsum":
        tl.store(o + r * C + c, tl.cumsum(a, AXIS))
    elif OP == "sort":
        tl.store(o + r * C + c, tl.sort(a))
    elif OP == "trans":
        tl.store(o + tl.arange(0, C)[:, None] * R + tl.arange(0, R)[None, :], tl.trans(a))
    else:
        if OP == "sum":
            v = tl.sum(a, AXIS)
        elif OP == "max":
            v = tl.max(a, AXIS)
        elif OP == "argmax":
            v = tl.argmax(a, AXIS)
        elif OP == "xor":
            v = tl.xor_sum(a, AXIS)
        if AXIS == 0:
            tl.store(o + tl.arange(0, C), v)
        else:
            tl.store(o + tl.arange(0, R), v)


@triton.jit
def softmax(x, o, n, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    a = tl.load(x + row * n + c, mask=c < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(a - tl.max(a, 0))
    tl.store(o + row * n + c, (e / tl.sum(e, 0)).to(o.dtype.element_ty), mask=c < n)


@triton.jit
def matmul(
    a, b, c, M, N, K, S: tl.constexpr, SK: tl.constexpr, ACC: tl.constexpr, ZERO: tl.constexpr
):
    rm = tl.program_id(0) * S + tl.arange(0, S)
    rn = tl.program_id(1) * S + tl.arange(0, S)
    acc = tl.zeros((S, S), dtype=ACC)
    for k in range(0, K, SK):
        rk = k + tl.arange(0, SK)
        ma = (rm[:, None] < M) & (rk[None, :] < K)
        mb = (rk[:, None] < K) & (rn[None, :] < N)
        x = tl.load(a + rm[:, None] * K + rk[None, :], mask=ma, other=ZERO)
        y = tl.load(b + rk[:, None] * N + rn[None, :], mask=mb, other=ZERO)
        acc = tl.dot(x, y, acc, out_dtype=ACC)
    mc = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty), mask=mc)


@triton.jit
def gather(x, at, o, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    p = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(o + p, tl.gather(tl.load(x + p), tl.load(at + p), AXIS))


@triton.jit
def atomic(x, o, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o + p % 7, tl.load(x + p))


@triton.jit
def histogram(x, o, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o + tl.arange(0, 64), tl.histogram(tl.load(x + p), 64))


@triton.jit
def collatz(x, o, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + p)
    count = tl.zeros((B,), tl.int32)
    i = 0
    while i < 40:
        a = tl.where(a == 1, a, tl.where(a % 2 == 0, a // 2, 3 * a + 1))
        count += (a != 1).to(tl.int32)
        i += 1
    tl.store(o + p, count)


def _wide(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return values.astype(np.float64 if values.dtype != np.float64 else np.longdouble)


def _rest(a: Any, b: Any) -> Any:
    return a - _quotient(a, b) * b


def _quotient(a: Any, b: Any) -> Any:
    whole = np.abs(a.astype(object)) // np.abs(b.astype(object))
    return np.where((a < 0) != (b < 0), -whole, whole).astype(a.dtype)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "max": np.maximum,
    "div": lambda a, b: a / b,
    "exact_div": lambda a, b: a / b,
    "floor_div": _quotient,
    "rem": _rest,
    "shift": lambda a, b: a >> (b & a.dtype.type(7)),
    "select": lambda a, b: np.where(a < b, a, b + a),
}


def _binary(op: str, kind: str, tolerance: float = 0.0) -> Case:
    x, y = numbers(kind, 1000, 1), numbers(kind, 1000, 2)
    if kind[0] == "i" and op in ("floor_div", "rem"):
        y = np.where((y == 0) | (y == -1), y.dtype.type(3), y)
    if op == "exact_div":
        edges = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e-45, 3e38, 1e-38], x.dtype)
        x[:81], y[:81] = np.repeat(edges, 9), np.tile(edges, 9)
    with np.errstate(all="ignore"):
        if kind in ("fp16", "bf16"):
            want = _BINARY[op](x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
        else:
            want = _BINARY[op](x, y)
    arguments = (("*" + kind, x), ("*" + kind, y), empty(want, kind), ("i32", 1000))
    return Case(f"{op}_{kind}", binary, arguments, {"OP": op, "B": 256}, want, (4,), 4, tolerance)


_UNARY: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "log": np.log, "sin": np.sin, "rsqrt": lambda a: 1 / np.sqrt(a),
    "sqrt": np.sqrt, "floor": np.floor, "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "tanh": np.tanh, "log1p": np.log1p, "atan": np.arctan,
}  # fmt: skip


def _unary(op: str, kind: str) -> Case:
    x = numbers(kind, 700, 3)
    if op in ("log", "log1p", "rsqrt", "sqrt"):
        x = np.abs(x)
    want = _UNARY[op](x.astype(np.float64)).astype(x.dtype)
    exact = op in ("floor", "sqrt")
    tolerance = 0.0 if exact else (1e-5 if kind == "fp32" else 1e-13)
    arguments = (("*" + kind, x), empty(want, kind), ("i32", 700))
    return Case(f"{op}_{kind}", unary, arguments, {"OP": op, "B": 256}, want, (3,), 4, tolerance)


def _cast(source: str, target: str, targets: tuple[str, ...] = ("gfx942", "gfx950")) -> Case:
    if source.startswith("fp8"):
        x = np.arange(512).astype(np.uint8).view(TYPES[source])
    else:
        x = numbers(source, 512, 4, 30.0)
    narrow = x.astype(np.float32) if "8" in source + target and source[0] != "i" else x
    want = narrow.astype(TYPES[target])
    arguments = (("*" + source, x), empty(want, target))
    return Case(f"{source}_{target}", cast, arguments, {"B": 256}, want, (2,), targets=targets)


def _reduce(op: str, kind: str, rows: int, columns: int, axis: int, warps: int) -> Case:
    x = numbers(kind, rows * columns, 5).reshape(rows, columns)
    if kind[0] not in "iu" and op in ("sum", "cumsum"):
        x = np.rint(x.astype(np.float32)).astype(x.dtype)
    functions: dict[str, Callable[[], Any]] = {
        "sum": lambda: x.sum(axis, dtype=x.dtype), "max": lambda: x.max(axis),
        "argmax": lambda: x.argmax(axis).astype(np.int32), "sort": lambda: np.sort(x, 1),
        "xor": lambda: np.bitwise_xor.reduce(x, axis), "trans": lambda: x.T.copy(),
        "cumsum": lambda: x.cumsum(axis, dtype=x.dtype),
    }  # fmt: skip
    want = functions[op]()
    out = "i32" if op == "argmax" else kind
    arguments = (("*" + kind, x), empty(want, out))
    constants = {"OP": op, "R": rows, "C": columns, "AXIS": axis}
    name = f"{op}_{kind}_{rows}x{columns}_{axis}"
    return Case(name, reduce, arguments, constants, want, (1,), warps)


def _matmul(kind: str, out: str, size: int, deep: int, **more: Any) -> Case:
    """Small whole numbers, so that every sum is exact; 50 x 40 x 100, so that tiles overlap."""
    m, n, k = 50, 40, 100
    draw = np.random.default_rng(6)
    x, y = (draw.integers(-4, 5, shape).astype(TYPES[kind]) for shape in ((m, k), (k, n)))
    want = (x.astype(np.float64) @ y.astype(np.float64)).astype(TYPES[out])
    arguments = (("*" + kind, x), ("*" + kind, y), empty(want, out))
    arguments += tuple(("i32", value) for value in (m, n, k))
    acc = {"i32": tl.int32, "fp64": tl.float64}.get(out, tl.float32)
    constants = {"S": size, "SK": deep, "ACC": acc, "ZERO": 0 if kind[0] == "i" else 0.0}
    targets = more.pop("targets", ("gfx942", "gfx950"))
    options = more.pop("options", {})
    name = f"matmul_{kind}_{out}_{size}" + "".join(f"_{v}" for v in options.values())
    grid = (-(-m // size), -(-n // size))
    return Case(name, matmul, arguments, constants, want, grid, targets=targets, options=options)


def _others() -> Iterator[Case]:
    draw = np.random.default_rng(7)
    for kind, tolerance in (("fp32", 1e-5), ("fp16", 2e-3), ("bf16", 1e-2)):
        x = draw.standard_normal((5, 200)).astype(np.float32).astype(TYPES[kind])
        e = np.exp(_wide(x) - _wide(x).max(1, keepdims=True))
        want = (e / e.sum(1, keepdims=True)).astype(x.dtype)
        arguments = (("*" + kind, x), empty(want, kind), ("i32", 200))
        yield Case(f"softmax_{kind}", softmax, arguments, {"B": 256}, want, (5,), 2, tolerance)
    for kind, axis in (("fp32", 0), ("i8", 1), ("i64", 0)):
        x = numbers(kind, 2048, 8).reshape(32, 64)
        at = draw.integers(0, (32, 64)[axis], (32, 64)).astype(np.int32)
        want = np.take_along_axis(x, at.astype(np.int64), axis)
        arguments = (("*" + kind, x), ("*i32", at), empty(want, kind))
        constants = {"R": 32, "C": 64, "AXIS": axis}
        yield Case(f"gather_{kind}_{axis}", gather, arguments, constants, want)
    for kind in ("fp32", "fp16", "bf16", "i32", "i64"):
        x = draw.integers(-3, 4, 512).astype(TYPES[kind])
        place = np.arange(512) % 7
        want = np.array([x[place == at].astype(np.float64).sum() for at in range(8)], TYPES[kind])
        arguments = (("*" + kind, x), empty(want, kind))
        yield Case(f"atomic_{kind}", atomic, arguments, {"B": 256}, want, (2,))
    x = draw.integers(0, 64, 1024).astype(np.int32)
    want = np.bincount(x, minlength=64).astype(np.int32)
    yield Case("histogram", histogram, (("*i32", x), empty(want, "i32")), {"B": 256}, want, (4,))
    x = np.arange(1, 513, dtype=np.int32)
    a, want = x.astype(np.int64), np.zeros(512, np.int32)
    for _ in range(40):
        a = np.where(a == 1, a, np.where(a % 2 == 0, a // 2, 3 * a + 1))
        want += (a != 1).astype(np.int32)
    yield Case("collatz", collatz, (("*i32", x), empty(want, "i32")), {"B": 256}, want, (2,))


def cases() -> Iterator[Case]:
    """All of them."""
    for kind in ("fp32", "fp16", "bf16", "i8", "i64"):
        for op in ("add", "mul"):
            yield _binary(op, kind)
    yield from (_binary("select", kind) for kind in ("fp64", "i16"))
    yield from (_binary(op, kind) for op in ("floor_div", "rem") for kind in ("i32", "i64"))
    yield from (_binary("exact_div", "fp32"), _binary("div", "fp64"), _binary("shift", "i8"))
    yield from (_unary(op, "fp32") for op in _UNARY)
    yield from (_unary(op, "fp64") for op in ("exp", "log", "atan"))
    for source, target in (("fp32", "fp16"), ("fp32", "bf16"), ("bf16", "fp32"), ("fp16", "i32"),
                           ("i64", "fp32"), ("i8", "fp64"), ("fp64", "bf16")):  # fmt: skip
        yield _cast(source, target)
    for narrow in ("fp8e4b8", "fp8e5b16", "fp8e4nv", "fp8e5"):
        targets = ("gfx942",) if "b" in narrow else ("gfx950",)
        for wide in ("fp32", "fp16", "bf16"):
            yield _cast(narrow, wide, targets)
            yield _cast(wide, narrow, targets)
        yield _matmul(narrow, "fp32", 32, 64, targets=targets)
        yield _matmul(narrow, "fp32", 16, 64, targets=targets, options={"matrix_instr_nonkdim": 4})
    yield from (_reduce("max", kind, 16, 64, 0, 4) for kind in ("fp16", "i8", "i64"))
    yield from (_reduce(op, "fp32", 64, 16, 1, 2) for op in ("sum", "argmax", "cumsum", "trans"))
    yield from (_reduce(op, "i32", 4, 256, 1, 8) for op in ("xor", "sort", "cumsum"))
    for kind, out in (("fp16", "fp32"), ("bf16", "bf16"), ("i8", "i32"), ("fp32", "fp32"),
                      ("fp64", "fp64")):  # fmt: skip
        yield _matmul(kind, out, 32, 32)
    yield _matmul("fp16", "fp32", 16, 16, options={"matrix_instr_nonkdim": 4})
    yield _matmul("i8", "i32", 16, 16, options={"matrix_instr_nonkdim": 4})
    yield _matmul("bf16", "fp32", 16, 32, options={"num_stages": 1})
    yield from _others()
