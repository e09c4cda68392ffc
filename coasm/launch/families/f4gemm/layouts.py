"""How f4gemm operands lie in memory.

MXFP4: OCP e2m1 numbers, two in a byte (the even element in the low nibble), and for every 32 of
them along K one E8M0 scale, ``2**(byte - 127)``. Source: OCP *Microscaling Formats (MX)
Specification* 1.0; the shuffles: aiter's ``shuffle_weight`` (layout 16x16) and ``shuffle_scale``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

__all__ = [
    "SCALE_BLOCK",
    "SCALE_PAD",
    "dequantise",
    "pad_rows",
    "pad_scales",
    "shuffle_scales",
    "shuffle_weights",
]

#: Elements along K that share a scale.
SCALE_BLOCK = 32
#: What fills padded scales: 2^0, so that an edge tile never meets a NaN.
SCALE_PAD = 0x7F


def shuffle_weights(packed: Bytes) -> Bytes:
    """B as the BpreShuffle kernels read it, from rows of packed bytes, ``[N, K / 2]``.

    N must be a multiple of 16 and K / 2 of 32. Tiles of 16 rows by 16 bytes become contiguous:
    byte ``[16 * n0 + n1, 32 * k0 + 16 * k1 + k2]`` goes to ``[n0, k0, k1, n1, k2]``.
    """
    import numpy as np

    rows, width = packed.shape
    tiles = packed.reshape(rows // 16, 16, width // 32, 2, 16)
    return np.ascontiguousarray(tiles.transpose(0, 2, 3, 1, 4)).reshape(rows, width)


def pad_rows(array: Bytes, multiple: int, fill: int = 0) -> Bytes:
    """*array* ``[rows, columns]`` with rows of *fill* up to the next *multiple*."""
    import numpy as np

    more = -array.shape[0] % multiple
    return np.pad(array, ((0, more), (0, 0)), constant_values=fill)


def pad_scales(scales: Bytes) -> Bytes:
    """*scales* ``[rows, K / 32]`` padded to multiples of 256 rows and 8 columns."""
    import numpy as np

    rows, columns = scales.shape
    margin = ((0, -rows % 256), (0, -columns % 8))
    return np.pad(scales, margin, constant_values=SCALE_PAD)


def shuffle_scales(padded: Bytes) -> Bytes:
    """Scales as the kernels read them, from :func:`pad_scales`' result; of the same shape.

    Byte ``[32 * d0 + 16 * d1 + d2, 8 * d3 + 4 * d4 + d5]`` goes to ``[d0, d3, d5, d2, d4, d1]``.
    """
    import numpy as np

    rows, columns = padded.shape
    parts = padded.reshape(rows // 32, 2, 16, columns // 8, 2, 4)
    return np.ascontiguousarray(parts.transpose(0, 3, 5, 2, 4, 1)).reshape(rows, columns)


def dequantise(packed: Bytes, scales: Bytes) -> NDArray[np.float64]:
    """The numbers ``[rows, K]`` that packed MXFP4 and its scales stand for; exact."""
    import numpy as np
    from ml_dtypes import float4_e2m1fn, float8_e8m0fnu

    def table(dtype: Any, codes: int) -> NDArray[np.float64]:
        numbers: NDArray[np.float64] = (
            np.arange(codes, dtype=np.uint8).view(dtype).astype(np.float64)
        )
        return numbers

    fp4 = table(float4_e2m1fn, 16)
    pairs = np.stack((np.tile(fp4, 16), np.repeat(fp4, 16)), axis=1)  # byte → (low, high nibble)
    rows, width = packed.shape
    values: NDArray[np.float64] = pairs[packed].reshape(rows, -1, SCALE_BLOCK)
    values *= table(float8_e8m0fnu, 256)[scales[:, : 2 * width // SCALE_BLOCK, None]]
    return values.reshape(rows, 2 * width)
