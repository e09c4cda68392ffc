"""A stand-in for the f4gemm objects, and a device that computes what their kernels promise."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from coasm.codeobject import CodeObject
from coasm.launch.arguments import Geometry
from coasm.llvm import Llvm
from tests.launch.objects import Arg, FakeDevice, build, source

#: The documented argument block: name, offset, size.
BLOCK = (
    *(("D", 0x00, 8), ("C", 0x10, 8), ("A", 0x20, 8), ("B", 0x30, 8)),
    *(("alpha", 0x40, 4), ("beta", 0x50, 4), ("strideD0", 0x60, 4), ("strideD1", 0x70, 4)),
    *(("strideC0", 0x80, 4), ("strideC1", 0x90, 4), ("strideA0", 0xA0, 4), ("strideA1", 0xB0, 4)),
    *(("strideB0", 0xC0, 4), ("strideB1", 0xD0, 4), ("Mdim", 0xE0, 4), ("Ndim", 0xF0, 4)),
    *(("Kdim", 0x100, 4), ("ScaleA", 0x110, 8), ("ScaleB", 0x120, 8)),
    *(("strideScaleA0", 0x130, 4), ("strideScaleA1", 0x140, 4), ("strideScaleB0", 0x150, 4)),
    *(("strideScaleB1", 0x160, 4), ("log2_k_split", 0x170, 4)),
)


def block_arguments(*, split: bool = True) -> tuple[list[Arg], int]:
    """The metadata's arguments, padding included, and the segment's size."""
    found: list[Arg] = []
    rows = BLOCK if split else BLOCK[:-1]
    for name, offset, size in rows:
        kind = "global_buffer" if size == 8 else "by_value"
        more = () if size == 8 else ((".value_type", "i32"),)
        found.append((name, offset, size, kind, *more))
        step = 8 if size == 8 else 4
        for at in range(offset + size, offset + 16, step):
            found.append(("pad", at, step, "by_value"))
    return found, 16 * len(rows)


def write_folder(llvm: Llvm, folder: Path, rows: list[tuple[int, int, int, int, str]]) -> None:
    """A manifest and its objects: rows of tile M, tile N, splitK, bpreshuffle, name."""
    lines = ["tile_M,tile_N,splitK,bpreshuffle,knl_name,co_name"]
    for tile_m, tile_n, split, shuffled, name in rows:
        lines.append(f"{tile_m},{tile_n},{split},{shuffled},{name},{name}.co")
        arguments, size = block_arguments(split=bool(shuffled))
        text = source(
            arguments, size, name=name, metadata="    .reqd_workgroup_size: [ 256, 1, 1 ]\n"
        )
        (folder / f"{name}.co").write_bytes(build(llvm, text).data)
    (folder / "kernels.csv").write_text("\n".join(lines) + "\n")


_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def fp4(code: int) -> float:
    return -_E2M1[code & 7] if code & 8 else _E2M1[code & 7]


def multiply(device: FakeDevice, co: CodeObject, geometry: Geometry, kernarg: bytes) -> None:
    """What an f4gemm kernel promises, element by element, from the documented layouts."""
    values = {
        name: struct.unpack_from("<Q" if size == 8 else "<I", kernarg, offset)[0]
        for name, offset, size in BLOCK
        if offset < len(kernarg)
    }
    assert struct.unpack_from("<ff", kernarg, 0x40)[0] == 1.0
    assert struct.unpack_from("<f", kernarg, 0x50)[0] == 0.0
    m, n, k = values["Mdim"], values["Ndim"], values["Kdim"]
    assert values["strideA0"] == values["strideB0"] == k  # in fp4 elements
    stride = values["strideC0"]
    a, b, d = (device.buffers[values[name]] for name in "ABD")
    assert a.size == -(-m // 256) * 256 * k // 2 and b.size == -(-n // 256) * 256 * k // 2
    shuffled = "noBpre" not in co.kernels[0].name
    rows = 32 if shuffled else 256  # the kernel for plain B stores whole tiles
    assert d.size == -(-m // rows) * rows * stride * 2

    def scale(which: str, row: int, block: int) -> float:
        sn = values[f"strideScale{which}0"]
        d0, d1, d2 = row // 32, row // 16 % 2, row % 16
        d3, d4, d5 = block // 8, block // 4 % 2, block % 4
        at = ((((d0 * sn // 8 + d3) * 4 + d5) * 16 + d2) * 2 + d4) * 2 + d1
        data = device.buffers[values[f"Scale{which}"]]
        assert data.size % (256 * sn) == 0
        return float(2.0 ** (int(data[at]) - 127))

    def element(which: str, row: int, column: int) -> float:
        byte = column // 2
        if which == "B" and shuffled:
            n0, n1, k0, k1, k2 = row // 16, row % 16, byte // 32, byte // 16 % 2, byte % 16
            at = (((n0 * (k // 2 // 32) + k0) * 2 + k1) * 16 + n1) * 16 + k2
        else:
            at = row * (k // 2) + byte
        code = int((a if which == "A" else b)[at]) >> (4 * (column % 2)) & 15
        return fp4(code) * scale(which, row, column // 32)

    left = [[element("A", row, at) for at in range(k)] for row in range(m)]
    right = [[element("B", row, at) for at in range(k)] for row in range(n)]
    for row in range(m):
        for column in range(n):
            exact = sum(x * y for x, y in zip(left[row], right[column], strict=True))
            bits = struct.unpack("<I", struct.pack("<f", exact))[0]
            bits = bits + 0x7FFF + (bits >> 16 & 1) >> 16  # round to nearest, ties to even
            at = 2 * (row * stride + column)
            d[at], d[at + 1] = bits & 0xFF, bits >> 8


def poison(device: FakeDevice, *_: Any) -> None:
    """A kernel that writes nothing."""
