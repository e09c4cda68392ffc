"""Matrix products in Triton: tiles and pipelines, narrow and scaled formats, attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import triton
import triton.language as tl

from tests.compilers.cases import TYPES, Array, Case, empty, numbers

__all__ = ["cases"]


@triton.jit
def tiled(
    a, b, bias, c, M, N, K, am, ak, bk, bn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, ACC: tl.constexpr,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    row, column = tl.swizzle2d(
        tl.program_id(0) // columns, tl.program_id(0) % columns, rows, columns, GROUP
    )
    rm = (row * BM + tl.arange(0, BM)) % M
    rn = (column * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * am + rk[None, :] * ak
    pb = b + rk[:, None] * bk + rn[None, :] * bn
    acc = tl.zeros((BM, BN), dtype=ACC)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=rk[None, :] < K - k * BK, other=0.0)
        y = tl.load(pb, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc, out_dtype=ACC)
        pa += BK * ak
        pb += BK * bk
    acc += tl.load(bias + rn)[None, :].to(ACC)
    if ACTIVATION:
        acc = tl.where(acc >= 0, acc, acc * 0.5)
    qm, qn = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN)
    m = (qm[:, None] < M) & (qn[None, :] < N)
    tl.store(c + qm[:, None] * N + qn[None, :], acc.to(c.dtype.element_ty), mask=m)


@triton.jit
def split_k(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, S: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.program_id(2) * BK, K, BK * S):
        rk = k + tl.arange(0, BK)
        x = tl.load(a + rm[:, None] * K + rk[None, :])
        y = tl.load(b + rk[:, None] * N + rn[None, :])
        acc += tl.dot(x, y)
    tl.atomic_add(c + rm[:, None] * N + rn[None, :], acc, sem="relaxed")


@triton.jit
def persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    columns = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * columns, tl.num_programs(0)):
        rm = tile // columns * BM + tl.arange(0, BM)
        rn = tile % columns * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            rk = k + tl.arange(0, BK)
            x = tl.load(a + rm[:, None] * K + rk[None, :])
            y = tl.load(b + rn[:, None] * K + rk[None, :])
            acc = tl.dot(x, y.T, acc)
        tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def described(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(da.load([row, k]), db.load([column, k]).T, acc)
    dc.store([row, column], acc.to(c.dtype.element_ty))


@triton.jit
def batched(a, b, c, Z: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    z, m, n, k = tl.arange(0, Z), tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + z[:, None, None] * M * K + m[None, :, None] * K + k[None, None, :])
    y = tl.load(b + z[:, None, None] * K * N + k[None, :, None] * N + n[None, None, :])
    q = z[:, None, None] * M * N + m[None, :, None] * N + n[None, None, :]
    tl.store(c + q, tl.dot(x, y).to(c.dtype.element_ty))


@triton.jit
def precise(a, b, c, S: tl.constexpr, PRECISION: tl.constexpr):
    p = tl.arange(0, S)[:, None] * S + tl.arange(0, S)[None, :]
    tl.store(c + p, tl.dot(tl.load(a + p), tl.load(b + p), input_precision=PRECISION))


@triton.jit
def scaled(
    a, sa, b, sb, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, FA: tl.constexpr,
    FB: tl.constexpr, PA: tl.constexpr, PB: tl.constexpr,
):  # fmt: skip
    rm = tl.program_id(0) * M + tl.arange(0, M)
    rn = tl.program_id(1) * N + tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BK):
        ka = k // PA + tl.arange(0, BK // PA)
        kb = k // PB + tl.arange(0, BK // PB)
        ks = k // 32 + tl.arange(0, BK // 32)
        x = tl.load(a + rm[:, None] * (K // PA) + ka[None, :])
        y = tl.load(b + rn[:, None] * (K // PB) + kb[None, :])
        s = tl.load(sa + rm[:, None] * (K // 32) + ks[None, :])
        if FB == "fp16" or FB == "bf16":
            acc = tl.dot_scaled(x, s, FA, y.T, None, FB, acc)
        else:
            t = tl.load(sb + rn[:, None] * (K // 32) + ks[None, :])
            acc = tl.dot_scaled(x, s, FA, y.T, t, FB, acc)
    n = tl.num_programs(1) * N
    tl.store(c + rm[:, None] * n + rn[None, :], acc)


@triton.jit
def block_scales(a, sa, b, sb, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K // BK):
        rk = k * BK + tl.arange(0, BK)
        x = tl.load(a + rm[:, None] * K + rk[None, :])
        y = tl.load(b + rn[None, :] * K + rk[:, None])
        s = tl.load(sa + rm * (K // BK) + k)
        t = tl.load(sb + rn // BN * (K // BK) + k)
        acc += tl.dot(x, y) * s[:, None] * t[None, :]
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def attention(
    q, k, v, o, lse, L, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) * L * D
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    x = tl.load(q + head + rm[:, None] * D + rd[None, :], mask=rm[:, None] < L, other=0.0)
    most = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * BM, L) if CAUSAL else L
    for start in range(0, end, BN):
        rn = start + tl.arange(0, BN)
        y = tl.load(k + head + rn[None, :] * D + rd[:, None], mask=rn[None, :] < L, other=0.0)
        s = tl.dot(x, y) * scale
        keep = rn[None, :] < L
        if CAUSAL:
            keep = keep & (rn[None, :] <= rm[:, None])
        s = tl.where(keep, s, -float("inf"))
        new = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        w = tl.exp2(most - new)
        total = total * w + tl.sum(p, 1)
        z = tl.load(v + head + rn[:, None] * D + rd[None, :], mask=rn[:, None] < L, other=0.0)
        acc = tl.dot(p.to(z.dtype), z, acc * w[:, None])
        most = new
    m = rm[:, None] < L
    r = (acc / total[:, None]).to(o.dtype.element_ty)
    tl.store(o + head + rm[:, None] * D + rd[None, :], r, mask=m)
    tl.store(lse + tl.program_id(1) * L + rm, most + tl.log2(total), mask=rm < L)


@triton.jit
def paged(q, cache, table, o, n, scale, PAGE: tl.constexpr, D: tl.constexpr, H: tl.constexpr):
    h, rd, at = tl.arange(0, H), tl.arange(0, D), tl.arange(0, PAGE)
    x = tl.load(q + h[:, None] * D + rd[None, :])
    most = tl.full((H,), -1e30, tl.float32)
    total = tl.zeros((H,), tl.float32)
    acc = tl.zeros((H, D), tl.float32)
    for page in range(0, tl.cdiv(n, PAGE)):
        block = tl.load(table + page).to(tl.int64)
        y = tl.load(cache + (block * PAGE + at)[:, None] * D + rd[None, :])
        s = tl.dot(x, y.T) * scale
        s = tl.where((page * PAGE + at < n)[None, :], s, -1e30)
        new = tl.maximum(most, tl.max(s, 1))
        w, p = tl.exp(most - new), tl.exp(s - new[:, None])
        total = total * w + tl.sum(p, 1)
        acc = acc * w[:, None] + tl.dot(p.to(y.dtype), y)
        most = new
    tl.store(o + h[:, None] * D + rd[None, :], (acc / total[:, None]).to(o.dtype.element_ty))


@triton.jit
def convolution(
    x, w, o, H, W, CI: tl.constexpr, CO: tl.constexpr, P: tl.constexpr, PAD: tl.constexpr
):
    """3x3, image in H x W x C, one program for P pixels."""
    p = tl.program_id(0) * P + tl.arange(0, P)
    y, z = p // W, p % W
    ci, co = tl.arange(0, CI), tl.arange(0, CO)
    acc = tl.zeros((P, CO), tl.float32)
    for tap in range(0, 9):
        iy, iz = y + tap // 3 - PAD, z + tap % 3 - PAD
        inside = (iy >= 0) & (iy < H) & (iz >= 0) & (iz < W) & (p < H * W)
        at = (iy * W + iz)[:, None] * CI + ci[None, :]
        a = tl.load(x + at, mask=inside[:, None], other=0.0)
        b = tl.load(w + tap * CI * CO + ci[:, None] * CO + co[None, :])
        acc = tl.dot(a, b, acc)
    m = (p < H * W)[:, None]
    tl.store(o + p[:, None] * CO + co[None, :], acc.to(o.dtype.element_ty), mask=m)


@triton.jit
def experts(x, w, ids, order, o, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Rows in the order of their experts, each block of rows for one."""
    block = tl.program_id(0)
    row = tl.load(order + block * BM + tl.arange(0, BM))
    there = row >= 0
    expert = tl.load(ids + block).to(tl.int64)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(x + row[:, None] * K + rk[None, :], mask=there[:, None], other=0.0)
        b = tl.load(w + expert * N * K + rn[None, :] * K + rk[:, None])
        acc = tl.dot(a, b, acc)
    g = acc * tl.sigmoid(acc)
    tl.store(o + row[:, None] * N + rn[None, :], g.to(o.dtype.element_ty), mask=there[:, None])


@triton.jit
def from_int4(a, b, s, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """B in 4 bits, two along K in a byte, a scale for each 32 of K."""
    rm, rn = tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(a + rm[:, None] * K + rk[None, :])
        y = tl.load(b + (rk[:, None] // 2) * N + rn[None, :])
        y = ((y >> ((rk[:, None] % 2) * 4).to(tl.int8)) & 15) - 8
        t = tl.load(s + (rk[:, None] // 32) * N + rn[None, :])
        acc = tl.dot(x, (y.to(tl.float32) * t).to(x.dtype), acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc)


def _whole(shape: tuple[int, ...], kind: str, seed: int, most: int = 3) -> Array:
    """Small whole numbers, so that every sum is exact."""
    draw = np.random.default_rng(seed)
    return draw.integers(-most, most + 1, shape).astype(TYPES[kind])


def _exact(a: Array, b: Array) -> Array:
    return a.astype(np.float64) @ b.astype(np.float64)


_FLOATS = (("fp16", "fp16"), ("bf16", "bf16"), ("fp32", "fp32"), ("fp16", "fp32"))


def _tiled(
    kind: str, out: str, tile: tuple[int, int, int], shape: tuple[int, int, int], warps: int,
    options: dict[str, Any] | None = None, turned: tuple[bool, bool] = (False, False),
    targets: tuple[str, ...] = ("gfx942", "gfx950"),
) -> Case:  # fmt: skip
    (bm, bn, bk), (m, n, k) = tile, shape
    a, b = _whole((m, k), kind, 51), _whole((k, n), kind, 52)
    bias = _whole((n,), out, 53)
    total = _exact(a, b) + bias.astype(np.float64)
    whole = out == "i32"
    want = (total if whole else np.where(total >= 0, total, total * 0.5)).astype(TYPES[out])
    strides = [(1, m) if turned[0] else (k, 1), (1, k) if turned[1] else (n, 1)]
    a, b = (np.ascontiguousarray(x.T) if t else x for x, t in zip((a, b), turned, strict=True))
    arguments = [("*" + kind, a), ("*" + kind, b), ("*" + out, bias), empty(want, out)]
    arguments += [("i32", value) for value in (m, n, k, *strides[0], *strides[1])]
    constants = {
        "BM": bm, "BN": bn, "BK": bk, "GROUP": 2, "ACC": tl.int32 if whole else tl.float32,
        "ACTIVATION": not whole,
    }  # fmt: skip
    grid = (-(-m // bm) * -(-n // bn),)
    given = "_".join(map(str, (*tile, *(options or {}).values(), *map(int, turned))))
    return Case(
        f"tiled_{kind}_{out}_{given}", tiled, tuple(arguments), constants, want, grid, warps,
        targets=targets, options=options or {},
    )  # fmt: skip


def _tilings() -> Iterator[Case]:
    shape = (100, 72, 96)
    for kind, out in _FLOATS:
        yield _tiled(kind, out, (64, 32, 32), shape, 4)
        yield _tiled(kind, out, (32, 64, 32), shape, 2, turned=(True, True))
        yield _tiled(kind, out, (128, 128, 32), shape, 8, {"num_stages": 3})
    yield _tiled("i8", "i32", (64, 64, 64), shape, 4)
    yield _tiled("i8", "i32", (32, 32, 32), shape, 1, {"num_stages": 1})
    for turned in ((False, True), (True, False)):
        yield _tiled("fp16", "fp16", (64, 64, 32), shape, 4, {"matrix_instr_nonkdim": 32}, turned)
        yield _tiled("bf16", "bf16", (64, 64, 64), shape, 4, {"matrix_instr_nonkdim": 16}, turned)
        yield _tiled("fp16", "fp32", (64, 64, 64), shape, 4, {"num_stages": 2, "kpack": 2}, turned)
    for kind, target in (
        ("fp8e4b8", "gfx942"), ("fp8e5b16", "gfx942"), ("fp8e4nv", "gfx950"), ("fp8e5", "gfx950"),
        ("fp8e5", "gfx942"),
    ):  # fmt: skip
        for size in (16, 32):
            options = {"matrix_instr_nonkdim": size}
            for turned in ((False, True), (False, False)):
                yield _tiled(
                    kind, "fp32", (32, 64, 64), shape, 4, options, turned, targets=(target,)
                )


def _strategies() -> Iterator[Case]:
    m, n, k = 64, 64, 128
    a, b = _whole((m, k), "fp16", 54), _whole((k, n), "fp16", 55)
    want = _exact(a, b).astype(np.float32)
    arguments: tuple[tuple[str, Any], ...] = (("*fp16", a), ("*fp16", b), empty(want, "fp32"))
    constants = {"BM": 32, "BN": 32, "BK": 32, "S": 2}
    sizes = (("i32", n), ("i32", k))
    yield Case("split_k", split_k, arguments + sizes, constants, want, (2, 2, 2), 4)
    b = np.ascontiguousarray(b.T)
    for kernel, grid in ((persistent, (3,)), (described, (2, 2))):
        out = want.astype(np.float16)
        arguments = (("*fp16", a), ("*fp16", b), empty(out, "fp16"), ("i32", m), *sizes)
        constants = {"BM": 32, "BN": 32, "BK": 32}
        yield Case(kernel.__name__, kernel, arguments, constants, out, grid, 4)
    for kind in ("fp16", "bf16", "fp32"):
        a, b = _whole((4, 32, 32), kind, 56), _whole((4, 32, 32), kind, 57)
        want = _exact(a, b).astype(np.float32)
        arguments = (("*" + kind, a), ("*" + kind, b), empty(want, "fp32"))
        constants = {"Z": 4, "M": 32, "N": 32, "K": 32}
        yield Case(f"batched_{kind}", batched, arguments, constants, want)
    a, b = (np.abs(numbers("fp32", 1024, seed)).reshape(32, 32) for seed in (58, 59))
    want = _exact(a, b).astype(np.float32)
    for precision, tolerance, targets in (
        ("ieee", 1e-5, ("gfx942", "gfx950")), ("tf32", 2e-2, ("gfx942",)),
        ("bf16x3", 1e-3, ("gfx942", "gfx950")), ("bf16x6", 1e-4, ("gfx942", "gfx950")),
    ):  # fmt: skip
        arguments = (("*fp32", a), ("*fp32", b), empty(want, "fp32"))
        constants = {"S": 32, "PRECISION": precision}
        yield Case(
            f"precise_{precision}", precise, arguments, constants, want, (1,), 4, tolerance, targets
        )


_CODES: dict[str, Any] = {
    "e2m1": ml_dtypes.float4_e2m1fn, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16, "fp16": np.float16,
}  # fmt: skip


def _codes(name: str, rows: int, k: int, seed: int) -> tuple[str, Array, Array]:
    """Numbers of a format: their Triton type, the bytes, and what they are."""
    values = _whole((rows, k), "fp32", seed, 2).astype(_CODES[name])
    wide = values.astype(np.float64)
    if name == "e2m1":
        codes = values.view(np.uint8) if values.itemsize == 1 else values
        return "*u8", (codes[:, ::2] & 15) | (codes[:, 1::2] & 15) << 4, wide
    if name in ("e4m3", "e5m2"):
        return ("*u8" if name == "" else "*fp8e4nv" if name == "e4m3" else "*fp8e5"), values, wide
    return "*" + name, values, wide


def _scaled(
    first: str, second: str, tile: tuple[int, int, int], warps: int, **options: Any
) -> Case:
    m, n, bk = tile
    k = 2 * bk
    draw = np.random.default_rng(60)
    ka, a, wide_a = _codes(first, 2 * m, k, 61)
    kb, b, wide_b = _codes(second, 2 * n, k, 62)
    sa, sb = (draw.integers(124, 131, (rows, k // 32)).astype(np.uint8) for rows in (2 * m, 2 * n))
    left = wide_a * np.repeat(2.0 ** (sa.astype(int) - 127), 32, 1)
    right = wide_b
    if second not in ("bf16", "fp16"):
        right = right * np.repeat(2.0 ** (sb.astype(int) - 127), 32, 1)
    want = (left @ right.T).astype(np.float32)
    arguments = ((ka, a), ("*u8", sa), (kb, b), ("*u8", sb), empty(want, "fp32"), ("i32", k))
    constants = {"M": m, "N": n, "BK": bk, "FA": first, "FB": second}
    constants |= {"PA": 1 + (first == "e2m1"), "PB": 1 + (second == "e2m1")}
    targets = ("gfx942", "gfx950")
    name = f"scaled_{first}_{second}_{m}x{n}x{bk}" + "".join(f"_{v}" for v in options.values())
    return Case(
        name, scaled, arguments, constants, want, (2, 2), warps, 1e-6, targets, options=options
    )


def _block_scales(kind: str, target: str) -> Case:
    m, n, k = 64, 256, 256
    draw = np.random.default_rng(63)
    a, b = _whole((m, k), kind, 64), _whole((n, k), kind, 65)
    sa = draw.uniform(0.5, 2, (m, k // 128)).astype(np.float32)
    sb = draw.uniform(0.5, 2, (n // 128, k // 128)).astype(np.float32)
    wide = a.astype(np.float64) * np.repeat(sa, 128, 1)
    other = b.astype(np.float64) * np.repeat(np.repeat(sb, 128, 0), 128, 1)
    want = (wide @ other.T).astype(TYPES["bf16"])
    arguments = (
        ("*" + kind, a), ("*fp32", sa), ("*" + kind, b), ("*fp32", sb), empty(want, "bf16"),
        ("i32", n), ("i32", k),
    )  # fmt: skip
    constants = {"BM": 32, "BN": 128, "BK": 128}
    return Case(
        f"block_scales_{kind}", block_scales, arguments, constants, want, (2, 2), 4, 8e-3, (target,)
    )


def _attention(kind: str, length: int, d: int, causal: bool, tile: tuple[int, int], warps: int,
               **options: Any) -> Case:  # fmt: skip
    q, k, v = (
        numbers(kind, 2 * length * d, seed, 1.0).reshape(2, length, d) for seed in (66, 67, 68)
    )
    wide = q.astype(np.float64), k.astype(np.float64), v.astype(np.float64)
    s = wide[0] @ wide[1].transpose(0, 2, 1) / np.sqrt(d)
    if causal:
        s = np.where(np.tri(length, dtype=bool), s, -np.inf)
    most = s.max(-1, keepdims=True)
    p = np.exp(s - most)
    total = p.sum(-1, keepdims=True)
    want = (p / total @ wide[2]).astype(TYPES[kind])
    lse = ((most + np.log(total)) / np.log(2))[..., 0].astype(np.float32)
    arguments = (
        ("*" + kind, q), ("*" + kind, k), ("*" + kind, v), empty(want, kind), empty(lse, "fp32"),
        ("i32", length), ("fp32", 1 / np.sqrt(d) / np.log(2)),
    )  # fmt: skip
    constants = {"D": d, "BM": tile[0], "BN": tile[1], "CAUSAL": causal}
    tolerance = {"fp16": 1e-2, "bf16": 6e-2, "fp32": 1e-2}[kind]  # of float32 too: TF32 products
    given = "_".join(map(str, (length, d, int(causal), *tile, *options.values())))
    grid = (-(-length // tile[0]), 2)
    return Case(
        f"attention_{kind}_{given}", attention, arguments, constants, lse, grid,
        warps, tolerance, also={3: want}, options=options,
    )  # fmt: skip


def _others() -> Iterator[Case]:
    d, h, page, n = 64, 16, 16, 70
    q, cache = numbers("fp16", h * d, 69, 1.0).reshape(h, d), numbers("fp16", 8 * page * d, 70, 1.0)
    table = np.array([5, 2, 7, 0, 3], np.int32)
    kept = cache.reshape(8, page, d)[table].reshape(-1, d)[:n].astype(np.float64)
    s = q.astype(np.float64) @ kept.T / 8
    p = np.exp(s - s.max(1, keepdims=True))
    want = (p / p.sum(1, keepdims=True) @ kept).astype(np.float16)
    arguments: tuple[tuple[str, Any], ...] = (
        ("*fp16", q), ("*fp16", cache), ("*i32", table), empty(want, "fp16"), ("i32", n),
        ("fp32", 0.125),
    )  # fmt: skip
    constants = {"PAGE": page, "D": d, "H": h}
    yield Case("paged", paged, arguments, constants, want, (1,), 4, 1e-2)
    height, width, ci, co = 9, 11, 16, 32
    for kind in ("fp16", "fp32"):
        x, w = _whole((height, width, ci), kind, 71), _whole((3, 3, ci, co), kind, 72)
        padded = np.pad(x.astype(np.float64), ((1, 1), (1, 1), (0, 0)))
        total = sum(
            padded[i : i + height, j : j + width] @ w[i, j].astype(np.float64)
            for i in range(3) for j in range(3)
        )  # fmt: skip
        want = np.asarray(total).astype(TYPES[kind])
        arguments = (
            ("*" + kind, x), ("*" + kind, w), empty(want, kind), ("i32", height), ("i32", width),
        )  # fmt: skip
        constants = {"CI": ci, "CO": co, "P": 64, "PAD": 1}
        yield Case(f"convolution_{kind}", convolution, arguments, constants, want, (2,), 4)
    rows, n, k, tile = 40, 64, 64, 16
    x, w = _whole((rows, k), "bf16", 73, 2), _whole((3, n, k), "bf16", 74, 2)
    expert = np.random.default_rng(75).integers(0, 3, rows)
    order, ids = [], []
    for e in range(3):
        chosen = np.flatnonzero(expert == e).tolist()
        chosen += [-1] * (-len(chosen) % tile)
        order += chosen
        ids += [e] * (len(chosen) // tile)
    total = np.einsum("rk,rnk->rn", x.astype(np.float64), w.astype(np.float64)[expert])
    want = (total / (1 + np.exp(-total))).astype(TYPES["bf16"])
    arguments = (
        ("*bf16", x), ("*bf16", w), ("*i32", np.array(ids, np.int32)),
        ("*i32", np.array(order, np.int32)), empty(want, "bf16"), ("i32", n), ("i32", k),
    )  # fmt: skip
    constants = {"BM": tile, "BN": 32, "BK": 32}
    yield Case("experts", experts, arguments, constants, want, (len(ids), 2), 4, 1e-2)
    m, n, k = 32, 64, 128
    a = _whole((m, k), "fp16", 76)
    b = np.random.default_rng(77).integers(-8, 8, (k, n))
    s = np.exp2(np.random.default_rng(78).integers(-2, 3, (k // 32, n))).astype(np.float32)
    packed = ((b[::2] + 8) | (b[1::2] + 8) << 4).astype(np.uint8).view(np.int8)
    want = _exact(a, b * np.repeat(s, 32, 0)).astype(np.float32)
    arguments = (
        ("*fp16", a), ("*i8", packed), ("*fp32", s), empty(want, "fp32"), ("i32", k),
    )  # fmt: skip
    constants = {"M": m, "N": n, "BK": 64}
    yield Case("from_int4", from_int4, arguments, constants, want, (1,), 4)


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _tilings()
    yield from _strategies()
    for first in ("e2m1", "e4m3", "e5m2"):
        for second in ("e2m1", "e4m3", "e5m2", "bf16", "fp16"):
            yield _scaled(first, second, (32, 32, 128), 4)
    yield _scaled("e2m1", "e2m1", (64, 64, 256), 4, matrix_instr_nonkdim=32)
    yield _scaled("e4m3", "e4m3", (64, 64, 128), 8, matrix_instr_nonkdim=16)
    yield _scaled("e5m2", "e4m3", (16, 32, 128), 1, matrix_instr_nonkdim=16)
    yield _block_scales("fp8e4b8", "gfx942")
    yield _block_scales("fp8e4nv", "gfx950")
    for kind, d, causal, tile, warps in (
        ("fp16", 64, False, (64, 32), 4), ("fp16", 64, True, (32, 32), 2),
        ("bf16", 128, True, (64, 64), 4), ("bf16", 32, False, (128, 64), 8),
        ("fp32", 32, True, (32, 32), 4),
    ):  # fmt: skip
        yield _attention(kind, 100, d, causal, tile, warps)
    yield _attention("fp16", 96, 64, True, (64, 32), 4, num_stages=1)
    yield _attention("fp16", 96, 64, False, (64, 32), 4, matrix_instr_nonkdim=32)
    yield from _others()
