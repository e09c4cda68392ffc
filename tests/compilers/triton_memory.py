"""Memory in Triton: atomics, blocks and their edges, gathers, caches, calls, many programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import triton
import triton.language as tl

from tests.compilers.cases import TYPES, Case, empty, numbers

__all__ = ["cases"]


@triton.jit
def atomics(x, o, OP: tl.constexpr, B: tl.constexpr, SEM: tl.constexpr, SCOPE: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + p)
    at = o + p % 8
    m = p % 5 != 0
    if OP == "add":
        tl.atomic_add(at, a, mask=m, sem=SEM, scope=SCOPE)
    elif OP == "max":
        tl.atomic_max(at, a, mask=m, sem=SEM, scope=SCOPE)
    elif OP == "min":
        tl.atomic_min(at, a, mask=m, sem=SEM, scope=SCOPE)
    elif OP == "and":
        tl.atomic_and(at, a, mask=m, sem=SEM, scope=SCOPE)
    elif OP == "or":
        tl.atomic_or(at, a, mask=m, sem=SEM, scope=SCOPE)
    elif OP == "xor":
        tl.atomic_xor(at, a, mask=m, sem=SEM, scope=SCOPE)


@triton.jit
def exchange(x, o, old, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(old + p, tl.atomic_xchg(o + p, tl.load(x + p), mask=p % 3 != 1), mask=p % 3 != 1)


@triton.jit
def compare_swap(x, y, o, old, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(old + p, tl.atomic_cas(o + p, tl.load(x + p), tl.load(y + p)))


@triton.jit
def turns(o, ticket, B: tl.constexpr):
    """Each program waits for the one before it."""
    pid = tl.program_id(0)
    while tl.atomic_add(ticket, 0) != pid:
        pass
    p = tl.arange(0, B)
    a = tl.load(o + p, volatile=True)
    tl.store(o + p, a * 3 + pid)
    tl.debug_barrier()
    tl.atomic_xchg(ticket, pid + 1)


@triton.jit
def described(x, o, rows, columns, R: tl.constexpr, C: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [R, C])
    target = tl.make_tensor_descriptor(o, [rows, columns], [columns, 1], [R, C])
    at = [tl.program_id(0) * R, tl.program_id(1) * C]
    target.store(at, source.load(at) * 2)


@triton.jit
def cached(x, o, B: tl.constexpr, LOAD: tl.constexpr, STORE: tl.constexpr, KEEP: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + p, cache_modifier=LOAD, eviction_policy=KEEP)
    tl.store(o + p, a + a, cache_modifier=STORE, eviction_policy=KEEP)


@triton.jit
def embedding(table, ids, o, n, WIDTH: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.arange(0, WIDTH)
    at = tl.load(ids + row, mask=row < n, other=0)
    there = (row < n) & (at >= 0)
    a = tl.load(table + at[:, None] * WIDTH + c[None, :], mask=there[:, None], other=0)
    tl.store(o + row[:, None] * WIDTH + c[None, :], a, mask=(row < n)[:, None])


@triton.jit
def scatter(x, at, o, n, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    i = tl.load(at + p, mask=p < n, other=0)
    tl.store(o + i * 3, tl.load(x + p, mask=p < n), mask=(p < n) & (i % 4 != 0))


@triton.jit(noinline=True)
def _called(a, b):
    return a * b + 1


@triton.jit
def calls(x, o, B: tl.constexpr):
    for i in range(B):
        at = tl.program_id(0) * B + i
        tl.store(o + at, _called(tl.load(x + at), i) + _called(i, at))


@triton.jit
def programs(o):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    nx, ny, nz = tl.num_programs(0), tl.num_programs(1), tl.num_programs(2)
    tl.store(o + (z * ny + y) * nx + x, x + 100 * y + 10000 * z + nx * ny * nz)


@triton.jit
def wide_offsets(x, o, stride, B: tl.constexpr):
    p = tl.arange(0, B)
    at = (p.to(tl.int64) * stride) % 1000
    tl.store(o + p, tl.load(x + at) + (at >> 3).to(tl.float32))


@triton.jit
def truths(x, y, o, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    a, b = tl.load(x + p) != 0, tl.load(y + p) != 0
    r = (a & b) | (a ^ b) & ~(b & (p % 2 == 0))
    tl.store(o + p, r.to(tl.int8))
    tl.store(o + tl.num_programs(0) * B + tl.program_id(0), tl.max((a & b).to(tl.int8), 0))


@triton.jit
def turned(x, o, R: tl.constexpr, C: tl.constexpr, D: tl.constexpr):
    r, c, d = tl.arange(0, R), tl.arange(0, C), tl.arange(0, D)
    a = tl.load(x + r[:, None, None] * C * D + c[None, :, None] * D + d[None, None, :])
    b = tl.permute(a, (2, 0, 1))
    q = d[:, None, None] * R * C + r[None, :, None] * C + c[None, None, :]
    tl.store(o + q, b)


@triton.jit
def running(x, o, n, B: tl.constexpr):
    """A sum over chunks that is carried from one to the next."""
    carried = tl.zeros((1,), tl.int32)
    for start in range(0, n, B):
        p = start + tl.arange(0, B)
        a = tl.load(x + p, mask=p < n, other=0)
        s = tl.cumsum(a, 0) + carried
        tl.store(o + p, s, mask=p < n)
        carried += tl.sum(a, 0)


_ATOMIC = {
    "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "add": np.add,
}  # fmt: skip


def _atomics(op: str, kind: str, sem: str = "acq_rel", scope: str = "gpu") -> Case:
    draw = np.random.default_rng(81)
    if kind[0] in "iu" and op != "add":
        x = numbers(kind, 256, 82)
    else:
        x = draw.integers(-4, 5, 256).astype(TYPES[kind])
        if op in ("max", "min"):
            x = (x + draw.uniform(-0.4, 0.4, 256)).astype(TYPES[kind])
    taken = np.arange(256) % 5 != 0
    want = np.zeros(8, TYPES[kind])
    for at in np.flatnonzero(taken):
        want[at % 8] = _ATOMIC[op](want[at % 8], x[at])
    arguments: tuple[tuple[str, Any], ...] = (("*" + kind, x), empty(want, kind))
    constants: dict[str, Any] = {"OP": op, "B": 128, "SEM": sem, "SCOPE": scope}
    name = f"atomic_{op}_{kind}_{sem}_{scope}"
    return Case(name, atomics, arguments, constants, want, (2,), 4)


def _exchanges() -> Iterator[Case]:
    for kind in ("i32", "i64", "fp32"):
        x, o = numbers(kind, 256, 83), numbers(kind, 256, 84)
        m = np.arange(256) % 3 != 1
        arguments = (("*" + kind, x), ("*" + kind, o), empty(x, kind))
        want, left = np.where(m, o, 0).astype(o.dtype), np.where(m, x, o)
        yield Case(
            f"exchange_{kind}", exchange, arguments, {"B": 128}, want, (2,), 2, also={1: left}
        )
        y = numbers(kind, 256, 85)
        same = np.arange(256) % 2 == 0
        x = np.where(same, o, x)
        arguments = (("*" + kind, x), ("*" + kind, y), ("*" + kind, o), empty(x, kind))
        yield Case(
            f"compare_swap_{kind}", compare_swap, arguments, {"B": 128}, o, (2,), 4,
            also={2: np.where(o == x, y, o)},
        )  # fmt: skip
    o = np.arange(64, dtype=np.int32)
    want = o.copy()
    for pid in range(5):
        want = want * 3 + pid
    arguments = (("*i32", o), ("*i32", np.zeros(1, np.int32)))
    yield Case(
        "turns", turns, arguments, {"B": 64}, np.array([5], np.int32), (5,), 2, also={0: want}
    )


def _edges() -> Iterator[Case]:
    for kind in ("fp32", "fp16", "i32"):
        x = numbers(kind, 50 * 64, 87, 1.0).reshape(50, 64)
        with np.errstate(all="ignore"):
            want = x + x
        arguments = (("*" + kind, x), empty(want, kind), ("i32", 50), ("i32", 64))
        yield Case(f"described_{kind}", described, arguments, {"R": 16, "C": 32}, want, (4, 2), 4)


def _loads() -> Iterator[Case]:
    x = numbers("fp32", 512, 88)
    for load, store, keep in (
        (".ca", ".wb", ""), (".cg", ".cg", "evict_first"), (".cv", ".wt", "evict_last"),
        ("", ".cs", "evict_first"),
    ):  # fmt: skip
        arguments = (("*fp32", x), empty(x, "fp32"))
        constants = {"B": 256, "LOAD": load, "STORE": store, "KEEP": keep}
        yield Case(f"cached{load}{store}_{keep}", cached, arguments, constants, x + x, (2,), 2)
    for kind in ("fp16", "fp32", "i8"):
        table = numbers(kind, 20 * 32, 89).reshape(20, 32)
        ids = np.random.default_rng(90).integers(-1, 20, 50).astype(np.int64)
        want = np.where((ids >= 0)[:, None], table[ids], 0).astype(table.dtype)
        arguments = (("*" + kind, table), ("*i64", ids), empty(want, kind), ("i32", 50))
        yield Case(f"embedding_{kind}", embedding, arguments, {"WIDTH": 32, "B": 16}, want, (4,), 2)
        x = numbers(kind, 100, 91)
        at = np.random.default_rng(92).permutation(100).astype(np.int32)
        want = np.zeros(300, x.dtype)
        want[at[at % 4 != 0] * 3] = x[at % 4 != 0]
        arguments = (("*" + kind, x), ("*i32", at), empty(want, kind), ("i32", 100))
        yield Case(f"scatter_{kind}", scatter, arguments, {"B": 64}, want, (2,), 1)
        x = numbers(kind, 8 * 16 * 4, 93).reshape(8, 16, 4)
        want = np.ascontiguousarray(x.transpose(2, 0, 1))
        arguments = (("*" + kind, x), empty(want, kind))
        yield Case(f"turned_{kind}", turned, arguments, {"R": 8, "C": 16, "D": 4}, want)
    x = numbers("fp32", 1000, 94)
    at = np.arange(128, dtype=np.int64) * 12345678901 % 1000
    want = x[at] + (at >> 3).astype(np.float32)
    arguments = (("*fp32", x), empty(want, "fp32"), ("i64", 12345678901))
    yield Case("wide_offsets", wide_offsets, arguments, {"B": 128}, want, (1,), 2)


def _others() -> Iterator[Case]:
    for kind in ("i32", "i64"):
        x = numbers(kind, 16, 95)
        i = np.arange(16, dtype=x.dtype)
        with np.errstate(all="ignore"):
            want = x * (i % 8) + 1 + (i % 8) * i + 1
        arguments: tuple[tuple[str, Any], ...] = (("*" + kind, x), empty(want, kind))
        yield Case(f"calls_{kind}", calls, arguments, {"B": 8}, want, (2,), 2)
    nx, ny, nz = 5, 3, 2
    z, y, x = np.mgrid[:nz, :ny, :nx]
    want = (x + 100 * y + 10000 * z + nx * ny * nz).astype(np.int32)
    yield Case("programs", programs, (empty(want, "i32"),), {}, want, (nx, ny, nz), 1)
    draw = np.random.default_rng(96)
    a, b = draw.integers(0, 2, (2, 256)).astype(np.int8)
    s, t, even = a != 0, b != 0, np.arange(256) % 128 % 2 == 0
    r = ((s & t) | (s ^ t) & ~(t & even)).astype(np.int8)
    want = np.concatenate((r, (s & t).reshape(2, 128).max(1).astype(np.int8)))
    arguments = (("*i8", a), ("*i8", b), empty(want, "i8"))
    yield Case("truths", truths, arguments, {"B": 128}, want, (2,), 2)
    x = draw.integers(-9, 9, 1000).astype(np.int32)
    want = x.cumsum(dtype=np.int32)
    arguments = (("*i32", x), empty(want, "i32"), ("i32", 1000))
    yield Case("running", running, arguments, {"B": 256}, want, (1,), 4)


def cases() -> Iterator[Case]:
    """All of them."""
    for kind in ("i32", "i64", "fp32", "u32", "u64", "fp64"):
        for op in ("add", "max", "min", "and", "or", "xor"):
            if kind[0] in "iu" or op in ("add", "max", "min"):
                yield _atomics(op, kind)
    yield from (_atomics("add", kind, "relaxed") for kind in ("fp16", "bf16", "fp32"))
    for sem in ("acquire", "release", "relaxed"):
        yield from (_atomics("add", "i32", sem, scope) for scope in ("cta", "sys"))
    yield from _exchanges()
    yield from _edges()
    yield from _loads()
    yield from _others()
