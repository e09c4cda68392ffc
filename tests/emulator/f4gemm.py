"""Operands, layouts and the launch of an f4gemm kernel, for the tests of the emulator.

Source: the kernels' published driver (row-major MXFP4 operands, 16x16 weight shuffle, padded and
shuffled E8M0 scales) and the objects' own argument offsets.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import ml_dtypes
import numpy as np

from coasm.codeobject import CodeObject
from coasm.emulator import Memory, Options, Outcome, launch
from coasm.llvm import Llvm

_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
VALUES = np.concatenate([_VALUES, -_VALUES])


class Result(NamedTuple):
    """The product, the reference in float64, and what the launch did."""

    product: np.ndarray
    reference: np.ndarray
    outcome: Outcome

    @property
    def relative(self) -> float:
        """The largest relative error; infinite where a zero came out as something else."""
        some = self.reference != 0
        if self.product[~some].any():
            return float("inf")
        error = np.abs(self.product - self.reference)[some] / np.abs(self.reference[some])
        return float(error.max())

    @property
    def absolute(self) -> float:
        """The largest error as a fraction of the largest reference value."""
        return float(np.abs(self.product - self.reference).max() / np.abs(self.reference).max())


def decode(packed: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Packed fp4 and E8M0 → float64."""
    out = np.empty((len(packed), 2 * packed.shape[1]))
    out[:, 0::2], out[:, 1::2] = VALUES[packed & 15], VALUES[packed >> 4]
    return out * np.repeat(2.0 ** (scales.astype(float) - 127), 32, axis=1)


def shuffle_weight(b: np.ndarray) -> np.ndarray:
    n, kp = b.shape
    tiles = b.reshape(n // 16, 16, kp // 32, 2, 16).transpose(0, 2, 3, 1, 4)
    return np.ascontiguousarray(tiles).reshape(n, kp)


def shuffle_scales(s: np.ndarray) -> np.ndarray:
    rows, columns = -(-len(s) // 256) * 256, -(-s.shape[1] // 8) * 8
    padded = np.full((rows, columns), 0x7F, np.uint8)
    padded[: len(s), : s.shape[1]] = s
    tiles = padded.reshape(rows // 32, 2, 16, columns // 8, 2, 4).transpose(0, 3, 5, 2, 4, 1)
    return np.ascontiguousarray(tiles).reshape(rows, columns)


def multiply(
    llvm: Llvm,
    co: CodeObject,
    tile: tuple[int, int],
    m: int,
    n: int,
    k: int,
    *,
    shuffled: bool = True,
    split: int = 1,
    options: Options | None = None,
) -> Result:
    """Random operands with exponents 2^-3 to 2^3 through one kernel."""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 256, (rows, k // 2), dtype=np.uint8) for rows in (m, n))
    scale_a, scale_b = (rng.integers(124, 131, (rows, k // 32), dtype=np.uint8) for rows in (m, n))
    memory = Memory()

    def rows_padded(data: np.ndarray) -> np.ndarray:
        return np.concatenate([data, np.zeros((-len(data) % 256, data.shape[1]), np.uint8)])

    place = {}
    for name, data in (
        ("A", rows_padded(a)),
        ("B", rows_padded(shuffle_weight(b) if shuffled else b)),
        ("scale A", shuffle_scales(scale_a)),
        ("scale B", shuffle_scales(scale_b)),
    ):
        place[name] = memory.allocate(data.nbytes, name, data)
    height = -(-m // 256) * 256  # the kernel without weight shuffle stores whole tiles
    place["D"] = memory.allocate(2 * height * n, "D")
    per = -(-(k // split) // 256) * 256 if split > 1 else k
    block = bytearray(384)
    for offset, name in (
        (0, "D"),
        (0x20, "A"),
        (0x30, "B"),
        (0x110, "scale A"),
        (0x120, "scale B"),
    ):
        struct.pack_into("<Q", block, offset, place[name])
    columns = -(-k // 32 // 8) * 8
    struct.pack_into("<f", block, 0x40, 1.0)
    for offset, value in (
        *((0x80, n), (0xA0, k), (0xC0, k), (0xE0, m), (0xF0, n), (0x100, k)),
        *((0x130, columns), (0x150, columns), (0x170, split.bit_length() - 1)),
    ):
        struct.pack_into("<I", block, offset, value)
    outcome = launch(
        co,
        co.kernels[0],
        grid=(-(-n // tile[1]), -(-m // tile[0]), -(-k // per)),
        workgroup=(256, 1, 1),
        kernarg=bytes(block),
        memory=memory,
        llvm=llvm,
        options=options or Options(),
    )
    product = memory.view(place["D"]).view(ml_dtypes.bfloat16).reshape(height, n)[:m].astype(float)
    return Result(product, decode(a, scale_a) @ decode(b, scale_b).T, outcome)
