"""OpenCL C kernels, compiled by clang, against what plain Python works out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from coasm.emulator import Outcome
from coasm.llvm import Llvm
from tests.emulator.harness import opencl, run

N = 256
GRID = (N // 64, 1, 1)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(params=["gfx942-O0", "gfx942-O3", "gfx950-O0", "gfx950-O3"])
def go(request: pytest.FixtureRequest, llvm: Llvm):  # type: ignore[no-untyped-def]
    target, level = request.param.split("-O")
    co = opencl(llvm, target, level)

    def call(name: str, *arguments: object, **more: object) -> Outcome:
        return run(llvm, co, name, list(arguments), **({"grid": GRID} | more))  # type: ignore[arg-type]

    return call


def _ints(seed: int, low: int, high: int, dtype: type = np.int32) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.integers(low, high, N, dtype=dtype, endpoint=True)
    values[:4] = [low, high, 1, 0]
    return values


def test_saxpy(go) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=N).astype(np.float32), rng.normal(size=N).astype(np.float32)
    n = 200
    exact = [
        Fraction(2.5) * Fraction(float(a)) + Fraction(float(b)) for a, b in zip(x, y, strict=True)
    ]
    before = y.copy()
    go("saxpy", y, x, 2.5, n)
    assert (y[n:] == before[n:]).all()
    # Whether it is fused is the compiler's choice; a * x is exact to a last bit either way.
    for got, want in zip(y[:n], exact[:n], strict=True):
        assert abs(Fraction(float(got)) - want) <= abs(want) * Fraction(1, 1 << 21) + Fraction(
            1, 1 << 24
        )


def test_reduce_over_barriers(go) -> None:  # type: ignore[no-untyped-def]
    values = np.arange(3 * 256, dtype=np.int32) * 7 - 1000
    out = np.zeros(3, np.int32)
    go("reduce", out, values, grid=(3, 1, 1), workgroup=256)
    assert out.tolist() == values.reshape(3, 256).sum(axis=1).tolist()


def test_the_grid_in_chunks_gives_the_same(go, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    from coasm.emulator import run as room

    values = np.arange(5 * 256, dtype=np.int32) * 3 - 7
    out = np.zeros(5, np.int32)
    monkeypatch.setattr(room, "CHUNK_BYTES", 1)  # one workgroup at a time
    go("reduce", out, values, grid=(5, 1, 1), workgroup=256)
    assert out.tolist() == values.reshape(5, 256).sum(axis=1).tolist()


def test_collatz_diverges(go) -> None:  # type: ignore[no-untyped-def]
    out = np.zeros(N, np.uint32)
    go("collatz", out)
    for i in range(N):
        n, count = i + 1, 0
        while n != 1:
            n, count = (3 * n + 1 if n & 1 else n // 2), count + 1
        assert out[i] == count


def test_integer_division(go) -> None:  # type: ignore[no-untyped-def]
    a, b = _ints(2, -(2**31), 2**31 - 1), _ints(3, -1000, 1000)
    b[b == 0] = 7
    a[0], b[0] = -(2**31), 3
    q, r = np.zeros(N, np.int32), np.zeros(N, np.int32)
    go("divide", q, r, a, b)
    for x, y, quotient, rest in zip(a.tolist(), b.tolist(), q.tolist(), r.tolist(), strict=True):
        want = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        assert (quotient, rest) == (want, x - want * y)


def test_long_division(go) -> None:  # type: ignore[no-untyped-def]
    a, b = _ints(4, -(2**62), 2**62, np.int64), _ints(5, -(2**40), 2**40, np.int64)
    b[b == 0] = 3
    b[10:100] = np.arange(90) + 5
    q = np.zeros(N, np.int64)
    go("divide_long", q, a, b)
    for x, y, got in zip(a.tolist(), b.tolist(), q.tolist(), strict=True):
        assert got == abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def test_doubles_divide_correctly(go) -> None:  # type: ignore[no-untyped-def]
    x = np.random.default_rng(6).normal(size=N) * 10.0 ** np.arange(-128, 128)
    y = np.zeros(N)
    go("doubles", y, x)
    for got, v in zip(y, x, strict=True):
        exact = Fraction(float(v)) ** 2 / 3 + Fraction(float(v))
        assert (
            abs(Fraction(float(got)) - exact) <= 2 * abs(exact) / 2**52 + Fraction(v) ** 2 / 2**52
        )


def test_float_division_is_within_the_limit(go) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(7)
    a = (rng.normal(size=N) * 10.0 ** rng.integers(-30, 30, N)).astype(np.float32)
    b = (rng.normal(size=N) * 10.0 ** rng.integers(-5, 5, N)).astype(np.float32)
    y = np.zeros(N, np.float32)
    go("quotient", y, a, b)
    exact = a.astype(np.float64) / b
    normal = np.abs(exact) > 2.0**-126
    assert (
        np.abs(y - exact)[normal] <= np.spacing(np.abs(exact[normal]).astype(np.float32)) * 2.5
    ).all()


def test_bytes(go) -> None:  # type: ignore[no-untyped-def]
    x = np.arange(N).astype(np.uint8)
    y = np.zeros(N, np.uint8)
    go("bytes", y, x)
    assert y.tolist() == [(v * 3 + (v >> 2)) & 255 for v in x.tolist()]


def test_histogram_of_colliding_atomics(go) -> None:  # type: ignore[no-untyped-def]
    x = np.random.default_rng(8).integers(0, 7, N).astype(np.uint8)
    h = np.zeros(8, np.uint32)
    go("histogram", h, x)
    assert h.tolist() == np.bincount(x, minlength=8).tolist()


def test_tickets_are_all_different(go) -> None:  # type: ignore[no-untyped-def]
    following, mine = np.zeros(1, np.uint32), np.zeros(N, np.uint32)
    go("ticket", following, mine)
    assert following[0] == N
    assert sorted(mine.tolist()) == list(range(N))


def test_shorts(go) -> None:  # type: ignore[no-untyped-def]
    x = _ints(9, -(2**15), 2**15 - 1, np.int16)
    y = np.zeros(N, np.int16)
    go("shorts", y, x)
    wide = [v * v - (3 if v < 0 else v) for v in x.tolist()]
    assert y.tolist() == [(v + 2**15) % 2**16 - 2**15 for v in wide]


def test_matrix_product(go) -> None:  # type: ignore[no-untyped-def]
    n = 64
    rng = np.random.default_rng(10)
    a, b = (rng.integers(-8, 9, (n, n)).astype(np.float32) for _ in range(2))
    c = np.zeros((n, n), np.float32)
    go("matmul", c, a, b, n, grid=(1, n, 1))
    assert (c == a.astype(np.int64) @ b.astype(np.int64)).all()


def test_private_arrays(go) -> None:  # type: ignore[no-untyped-def]
    x = np.random.default_rng(11).integers(-1000, 1000, (N, 8)).astype(np.int32)
    y = np.zeros(N, np.int32)
    go("scratch", y, x)
    for row, got in zip(x.tolist(), y.tolist(), strict=True):
        total = 0
        for k in range(8):
            total = total * 3 + row[(row[0] + k) & 7]
        assert got == (total + 2**31) % 2**32 - 2**31


def test_longs(go) -> None:  # type: ignore[no-untyped-def]
    x = _ints(12, -(2**63), 2**63 - 1, np.int64)
    y = np.zeros(N, np.int64)
    go("longs", y, x)
    wide = [v * v * 3 + (v >> 3) - (v << 2) for v in x.tolist()]
    assert y.tolist() == [(v + 2**63) % 2**64 - 2**63 for v in wide]


def test_a_spinning_wave_does_not_starve_the_one_it_waits_for(go) -> None:  # type: ignore[no-untyped-def]
    flag, out = np.zeros(1, np.uint32), np.zeros(64, np.uint32)
    go("handshake", flag, out, grid=(1, 1, 1), workgroup=128)
    assert flag[0] == 1
    assert (out == 7).all()


def test_halves(go) -> None:  # type: ignore[no-untyped-def]
    x = (np.arange(N) / 16 - 8).astype(np.float16)
    y = np.zeros(N, np.float16)
    go("halves", y, x)
    wide = x.astype(np.float64) ** 2 + 1.5
    assert (np.abs(y - wide) <= np.spacing(np.abs(wide).astype(np.float16))).all()


def test_bits(go) -> None:  # type: ignore[no-untyped-def]
    x = _ints(13, 0, 2**32 - 1, np.uint32)
    y = np.zeros(N, np.uint32)
    go("bits", y, x)
    for i, (v, got) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        r = bin(v).count("1") + (32 - (v | 1).bit_length()) * 3
        turn = i & 31
        rotated = (v << turn | v >> (32 - turn)) & 0xFFFFFFFF
        assert got == r ^ int(f"{v:032b}"[::-1], 2) ^ rotated


def test_division_with_denormals_flushed(llvm: Llvm) -> None:
    co = opencl(llvm, "gfx950", "3", "-cl-denorms-are-zero")
    a = np.array([1e-30, 3.0, -2.5e30, 7.0] * 16, np.float32)
    b = np.array([3e7, -7.0, 1e9, 0.0] * 16, np.float32)
    y = np.zeros(64, np.float32)
    run(llvm, co, "quotient", [y, a, b])
    exact = a.astype(np.float64) / b
    assert np.isinf(y[3::4]).all()
    some = np.isfinite(exact)
    assert (
        np.abs(y - exact)[some] <= np.spacing(np.abs(exact[some]).astype(np.float32)) * 2.5
    ).all()
