"""The element types of buffers, the narrow ones from ml_dtypes included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["DTYPES", "DType"]


class DType(NamedTuple):
    """One element type. ``numpy`` names it in NumPy, or in ml_dtypes where ``narrow``.

    ``per_byte`` elements are packed in a byte, the first in the lowest bits; an array of such a
    type has one element in each byte until it is packed.
    """

    name: str
    numpy: str
    kind: str  # "int", "uint", "float", "scale"
    narrow: bool = False
    per_byte: int = 1

    def dtype(self) -> Any:
        """The NumPy dtype."""
        import numpy as np

        if not self.narrow:
            return np.dtype(self.numpy)
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, self.numpy))

    @property
    def integer(self) -> bool:
        return self.kind in ("int", "uint")

    def size(self, count: int) -> int:
        """Bytes of *count* elements in memory."""
        return -(-count // self.per_byte) * int(self.dtype().itemsize)

    def pack(self, array: Array) -> Array:
        """*array* as it lies in memory, as flat bytes."""
        import numpy as np

        flat = np.ascontiguousarray(array).reshape(-1)
        data: Array = flat.view(np.uint8)
        if self.per_byte == 2:
            data = data & 0xF
            return np.asarray(data[0::2] | data[1::2] << 4, np.uint8)
        return data

    def unpack(self, data: Array, shape: tuple[int, ...]) -> Array:
        """The array of *shape* whose bytes are *data*."""
        import numpy as np

        if self.per_byte == 2:
            data = np.stack((data & 0xF, data >> 4), axis=-1).reshape(-1)
        array: Array = data.view(self.dtype()).reshape(shape)
        return array

    def portable(self, array: Array) -> Array:
        """*array* in a type that every NumPy reads: narrow types become float32, exactly."""
        import numpy as np

        return array.astype(np.float32) if self.narrow else array


_ALL = (
    *(DType(f"i{bits}", f"int{bits}", "int") for bits in (8, 16, 32, 64)),
    *(DType(f"u{bits}", f"uint{bits}", "uint") for bits in (8, 16, 32, 64)),
    *(DType(f"f{bits}", f"float{bits}", "float") for bits in (16, 32, 64)),
    DType("bf16", "bfloat16", "float", narrow=True),
    DType("f8e4m3", "float8_e4m3fn", "float", narrow=True),
    DType("f8e5m2", "float8_e5m2", "float", narrow=True),
    DType("f8e4m3fnuz", "float8_e4m3fnuz", "float", narrow=True),
    DType("f8e5m2fnuz", "float8_e5m2fnuz", "float", narrow=True),
    DType("fp4", "float4_e2m1fn", "float", narrow=True, per_byte=2),
    DType("e8m0", "float8_e8m0fnu", "scale", narrow=True),
)

#: Every element type by its name: gfx950's FP8 is ``f8e4m3`` and ``f8e5m2``, gfx942's ``…fnuz``.
DTYPES = {one.name: one for one in _ALL}
