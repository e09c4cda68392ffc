"""Kernels of real libraries run the same before and after an edit, and compute what NumPy does.

bitsandbytes 0.50 and torch_scatter 2.1: the parameters are those of the kernels' C++ signatures,
which the mangled names spell out; ``TensorInfo`` is PyTorch's (data, 25 sizes, 25 strides, dims).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest

import coasm
from coasm.bundle import extract
from coasm.codeobject import CodeObject, load
from coasm.emulator import Memory, launch
from coasm.launch.arguments import Geometry, pack
from coasm.llvm import Llvm
from tests.edits import with_nops
from tests.wheels import entries_of

pytestmark = pytest.mark.slow

Array = np.ndarray[Any, Any]


class TensorInfo(NamedTuple):
    """A contiguous tensor of 64-bit integers in one dimension, as PyTorch hands it to a kernel."""

    data: Array


class Both(NamedTuple):
    """A library's object for a target, and the one that its listing with nops makes."""

    original: CodeObject
    edited: CodeObject

    def run(
        self, llvm: Llvm, kernel: str, arguments: Mapping[int, Any], grid: int, workgroup: int
    ) -> list[Array]:
        """The buffers among *arguments* (by offset) behind the launch; both leave the same."""
        first, second = (
            _run(llvm, co, kernel, arguments, grid, workgroup)
            for co in (self.original, self.edited)
        )
        for one, other in zip(first, second, strict=True):
            assert one.tobytes() == other.tobytes(), kernel
        return first


def _run(
    llvm: Llvm, co: CodeObject, name: str, arguments: Mapping[int, Any], grid: int, workgroup: int
) -> list[Array]:
    kernel = next(k for k in co.kernels if k.name == name)
    memory, geometry = Memory(), Geometry((grid, 1, 1), (workgroup, 1, 1))
    values: dict[str | int, Any] = {}
    buffers: list[tuple[int, Array]] = []
    for offset, value in arguments.items():
        array = value.data if isinstance(value, TensorInfo) else value
        if isinstance(array, np.ndarray):
            buffers.append((memory.allocate(array.nbytes, f"@{offset}", array), array))
            values[offset] = buffers[-1][0]
            if isinstance(value, TensorInfo):
                values[offset] = struct.pack(
                    "<Q25i25ii4x", buffers[-1][0], array.size, *[0] * 24, 1, *[0] * 24, 1
                )
        else:
            values[offset] = value
    launch(
        co,
        kernel,
        grid=geometry.grid,
        workgroup=geometry.workgroup,
        kernarg=pack(kernel, values, geometry),
        memory=memory,
        llvm=llvm,
    )
    return [memory.view(at).copy().view(a.dtype).reshape(a.shape) for at, a in buffers]


_KEPT: dict[tuple[str, str], Both] = {}


def _both(name: str, target: str) -> Both:
    found = _KEPT.get((name, target))
    if found is None:
        entry = next(e for e in entries_of(name) if e.target == target)
        co = load(extract(entry), name=f"{name}:{entry.name}")
        text, count = with_nops(coasm.disassemble(co).text)
        assert count > len(co.kernels)
        found = _KEPT[name, target] = Both(co, load(coasm.assemble(text).data, name="edited.co"))
    return found


@pytest.fixture(params=["gfx942", "gfx950"])
def bitsandbytes(request: pytest.FixtureRequest) -> Both:
    return _both("libbitsandbytes_rocm72", request.param)


@pytest.fixture(params=["gfx942", "gfx950"])
def scatter(request: pytest.FixtureRequest) -> Both:
    return _both("_scatter_cuda", request.param)


@pytest.fixture(params=["gfx942", "gfx950"])
def segments(request: pytest.FixtureRequest) -> Both:
    return _both("_segment_csr_cuda", request.param)


def _floats(size: int, seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


def test_fill_count_and_multiply(bitsandbytes: Both, llvm: Llvm) -> None:
    """``kfunc<T, FUNC>(T* A, T* B, T value, long n)``, FUNC: fill, count, multiply."""
    a, b, n = _floats(1000, 1), _floats(1000, 2), 900
    for function, wanted in enumerate((np.full(n, 2.5), np.arange(n), a[:n] * b[:n])):
        arguments = {0: a, 8: b, 16: 2.5, 24: n}
        got, same = bitsandbytes.run(
            llvm, f"_Z5kfuncIfLi{function}EEvPT_S1_S0_l", arguments, 2, 256
        )
        assert got[:n].tolist() == wanted.astype(np.float32).tolist()
        assert got[n:].tolist() == a[n:].tolist() and same.tolist() == b.tolist()


#: The 16 numbers of the NF4 type. Source: QLoRA (Dettmers et al. 2023), appendix E.
_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)


def test_dequantize(bitsandbytes: Both, llvm: Llvm) -> None:
    """``kDequantizeBlockwise<float, …, TYPE>(code, A, absmax, out, blocksize, n)``: 8 bits by a
    table, and NF4, two in a byte, the high half first (its block size counts bytes)."""
    rng = np.random.default_rng(3)
    code, packed = _floats(256, 4), rng.integers(0, 256, 1500, dtype=np.uint8)
    scales = _floats(64, 5)
    kernel = "_Z20kDequantizeBlockwiseIfLi512ELi64ELi8ELi{}EEvPfPhS0_PT_ii"
    out = np.zeros(1500, np.float32)
    arguments = {0: code, 8: packed, 16: scales, 24: out, 32: 64, 36: 1500}
    got = bitsandbytes.run(llvm, kernel.format(0), arguments, 3, 64)[3]
    assert got.tolist() == (code[packed] * scales[np.arange(1500) // 64]).tolist()

    numbers = np.array(_NF4, np.float32)[np.stack([packed >> 4, packed & 15], 1).reshape(-1)]
    arguments |= {24: np.zeros(3000, np.float32), 32: 32, 36: 3000}
    got = bitsandbytes.run(llvm, kernel.format(2), arguments, 3, 64)[3]
    assert got.tolist() == (numbers * scales[np.arange(3000) // 64]).tolist()


def test_quantize_rows(bitsandbytes: Both, llvm: Llvm) -> None:
    """``kInt8VectorQuant(half* A, char* out, float* rowStats, float threshold, rows, cols)``: a
    maximum over 1024 work-items, through LDS."""
    rows, columns = 3, 1500
    a = (_floats(rows * columns, 6) * 10).astype(np.float16).reshape(rows, columns)
    out, stats = np.zeros((rows, columns), np.int8), np.zeros(rows, np.float32)
    arguments = {0: a, 8: out, 16: stats, 24: 0.0, 28: rows, 32: columns}
    name = "_Z16kInt8VectorQuantI6__halfLi1024ELi0EEvPT_PaPffii"
    _, got, most = bitsandbytes.run(llvm, name, arguments, rows, 1024)
    wide = a.astype(np.float64)
    assert most.tolist() == np.abs(wide).max(1).tolist()
    exact = wide * 127 / np.abs(wide).max(1, keepdims=True)
    assert np.abs(got - exact).max() <= 0.5 + 1e-4  # to the nearest, after a division in f32


def test_dequantize_a_product(bitsandbytes: Both, llvm: Llvm) -> None:
    """``kdequant_mm_int32_fp16(A, rowStats, colStats, out, bias, rows, cols, n)``: A scaled by both
    statistics and 1/127², plus a bias."""
    rows, columns = 6, 500
    a = np.random.default_rng(7).integers(-200000, 200000, (rows, columns), dtype=np.int32)
    row, column = np.abs(_floats(rows, 8)), np.abs(_floats(columns, 9))
    bias = _floats(columns, 10).astype(np.float16)
    out = np.zeros((rows, columns), np.float16)
    arguments = {0: a, 8: row, 16: column, 24: out, 32: bias, 40: rows, 44: columns, 48: a.size}
    name = "_Z22kdequant_mm_int32_fp16ILi4ELi512EEvPiPfS1_P6__halfS3_iii"
    got = bitsandbytes.run(llvm, name, arguments, -(-a.size // 2048), 512)[3]
    exact = a * row[:, None].astype(np.float64) * column / 127**2 + bias
    assert np.abs(got - exact).max() <= 2.0**-10 * np.abs(exact).max()
    assert np.abs(exact).max() > 10


_REDUCTIONS = {
    0: np.add,
    2: np.multiply,
    4: np.minimum,
    5: np.maximum,
}


@pytest.mark.parametrize("kind", _REDUCTIONS)
def test_scatter(scatter: Both, llvm: Llvm, kind: int) -> None:
    """``scatter_kernel<float, KIND>(src, TensorInfo index, out, E, K, N, numel)``: atomics, those
    that the hardware lacks in loops of compare-and-swap."""
    size, bins = 300, 40
    # Whole numbers and powers of two: the order of the work-items does not matter.
    source = np.random.default_rng(11).integers(-50, 50, size).astype(np.float32)
    if kind == 2:
        source = np.ldexp(np.float32(1), source.astype(int) % 3 - 1).astype(np.float32)
    index = np.random.default_rng(12).integers(0, bins, size)
    out = np.full(bins, 4, np.float32)
    arguments = {0: source, 8: TensorInfo(index), 224: out, 232: size, 236: 1, 240: bins, 244: size}
    name = (
        f"_Z14scatter_kernelIfL13ReductionType{kind}EEvPKT_N2at4cuda6detail10TensorInfoIliEE"
        "PS1_iiii"
    )
    got = scatter.run(llvm, name, arguments, 2, 256)[2]
    wanted = out.copy()
    _REDUCTIONS[kind].at(wanted, index, source)
    assert got.tolist() == wanted.tolist()


@pytest.mark.parametrize("kind", _REDUCTIONS)
def test_segments(segments: Both, llvm: Llvm, kind: int) -> None:
    """``segment_csr_kernel<int, KIND, 1>(src, TensorInfo bounds, out, arg_out, N, E)``."""
    source = np.random.default_rng(13).integers(-9, 9, 400, dtype=np.int32)
    source[source == 0] = 1
    bounds = np.array([0, 3, 4, 10, 75, 76, 200, 399, 400])
    out, where = np.zeros(8, np.int32), np.zeros(8, np.int64)
    arguments = {0: source, 8: TensorInfo(bounds), 224: out, 232: where, 240: 8, 248: 400}
    name = (
        f"_Z18segment_csr_kernelIiL13ReductionType{kind}ELi1EEvPKT_N2at4cuda6detail10TensorInfoIliEE"
        "PS1_Plmm"
    )
    got, found = segments.run(llvm, name, arguments, 1, 256)[2:]
    wanted = _REDUCTIONS[kind].reduceat(source, bounds[:-1], dtype=np.int32)
    assert got.tolist() == wanted.tolist()
    if kind > 2:
        assert source[found].tolist() == wanted.tolist()
