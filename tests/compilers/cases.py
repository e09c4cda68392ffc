"""What a kernel of a compiler is given and must give, and random numbers for it."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

__all__ = ["TYPES", "Array", "Case", "empty", "numbers"]

Array = np.ndarray[Any, Any]

TYPES: dict[str, Any] = {
    "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "fp64": np.float64,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "i1": np.bool_,
    "fp8e5": ml_dtypes.float8_e5m2, "fp8e4nv": ml_dtypes.float8_e4m3fn,
    "fp8e5b16": ml_dtypes.float8_e5m2fnuz, "fp8e4b8": ml_dtypes.float8_e4m3fnuz,
}  # fmt: skip


class Case(NamedTuple):
    """A kernel, its arguments with their Triton types, and the last argument as NumPy has it.

    ``also`` has what is expected of further arguments, by their place.
    ``tolerance`` is relative, or to 0.1 where that is larger; 0: equal but for the bits of NaNs.
    """

    name: str
    kernel: Any
    arguments: tuple[tuple[str, Any], ...]
    constants: dict[str, Any]
    want: Array
    grid: tuple[int, ...] = (1,)
    warps: int = 4
    tolerance: float = 0.0
    targets: tuple[str, ...] = ("gfx942", "gfx950")
    options: dict[str, Any] = {}  # noqa: RUF012
    also: dict[int, Array] = {}  # noqa: RUF012


def numbers(kind: str, count: int, seed: int, spread: float = 4.0) -> Array:
    draw = np.random.default_rng(seed)
    dtype = TYPES[kind]
    if kind[0] in "iu":
        limits = np.iinfo(dtype)
        return draw.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
    return (draw.standard_normal(count) * spread).astype(dtype)


def empty(values: Any, kind: str) -> tuple[str, Array]:
    return "*" + kind, np.zeros(np.asarray(values).shape, TYPES[kind])
