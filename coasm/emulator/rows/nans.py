"""NaNs: AMD's default one where an operation on numbers gave x86's."""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from coasm.emulator.rows.values import Array

__all__ = ["INVALID", "QUIET", "Function", "default_nan", "on_invalid"]

Function = Callable[..., Any]

#: Set by NumPy's error callback when an operation was invalid: its NaNs are x86's.
INVALID = [False]

QUIET: dict[Any, tuple[Any, int, int]] = {
    np.dtype(np.float16): (np.uint16, 0x7E00, 0x0200),
    np.dtype(np.float32): (np.uint32, 0x7FC0_0000, 0x0040_0000),
    np.dtype(np.float64): (np.uint64, 0x7FF8_0000_0000_0000, 0x0008_0000_0000_0000),
}


def on_invalid(_kind: str, _flag: int) -> None:
    """NumPy's callback for floating-point errors."""
    INVALID[0] = True


def default_nan(result: Array, sources: tuple[Array, ...]) -> Array:
    """*result* with AMD's default NaN where an operation on numbers gave a NaN."""
    INVALID[0] = False
    bad = np.isnan(result)
    for value in sources:
        bad = bad & ~np.isnan(value)
    if bad.any():
        unsigned, bits, _ = QUIET[result.dtype]
        result = np.array(result)
        result.view(unsigned)[bad] = bits
    return result
