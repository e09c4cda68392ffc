"""What the bits of operands are: types, constants, denormals, and what MODE says of them.

A *kind* says how the bits of an operand are to be taken: ``u32 i32 f32 u64 i64 f64 u16 i16 f16
bf16``, ``b16 b64`` (the bits of an operand of type f16 or f64), ``m`` (a bit for each lane, in
a scalar pair).
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from coasm.emulator.state.places import Array
from coasm.emulator.state.waves import Group

__all__ = [
    "DTYPES",
    "Array",
    "Getter",
    "Setter",
    "Step",
    "constant64",
    "float_bits",
    "flush",
    "spread",
    "store",
]

Step = Callable[[Group], None]
Getter = Callable[[Group], Array]
Setter = Callable[[Group, Array], None]

DTYPES: dict[str, type[np.generic]] = {
    "u8": np.uint8,
    "i8": np.int8,
    "u16": np.uint16,
    "i16": np.int16,
    "f16": np.float16,
    "bf16": np.uint16,
    "b16": np.uint16,
    "u32": np.uint32,
    "i32": np.int32,
    "f32": np.float32,
    "b64": np.uint64,
    "u64": np.uint64,
    "i64": np.int64,
    "f64": np.float64,
}

#: MODE bits. Source: CDNA3 ISA guide, "MODE register fields".
DENORM_32_IN, DENORM_32_OUT, DENORM_16_IN, DENORM_16_OUT = 1 << 4, 1 << 5, 1 << 6, 1 << 7
ROUND_32, ROUND_16, DX10_CLAMP, IEEE, FP16_OVFL = 3, 3 << 2, 1 << 8, 1 << 9, 1 << 23
#: Vector instructions are skipped.
VSKIP = 1 << 28

#: VGPR index mode: which operands are indexed. Source: CDNA3 ISA guide, S_SET_GPR_IDX_ON.
INDEX_SRC = (1, 2, 4)
INDEX_DST = 8


def float_bits(value: float, kind: str) -> int:
    """The bits of an inline float constant, as its operand's type has it.

    A 16-bit float stands in the low half, with zeros above; packed 16-bit integers get the constant
    as float32. Source: LLVM, ``getInlineEncodingV216``: what the hardware was found to do.
    """
    if kind.endswith("64"):
        return int(struct.unpack("<Q", struct.pack("<d", _inline64(value)))[0])
    if kind in ("f16", "b16"):
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    single = int(struct.unpack("<I", struct.pack("<f", value))[0])
    return single >> 16 if kind == "bf16" else single


def _inline64(value: float) -> float:
    # 1/(2*pi) is printed rounded; the hardware has it in full.
    return (
        struct.unpack("<d", struct.pack("<Q", 0x3FC45F306DC9C882))[0]
        if abs(value - 0.15915494) < 1e-8
        else value
    )


def constant64(value: int, kind: str) -> Array:
    """A 64-bit constant as a 0-d array."""
    return np.array(value & 0xFFFF_FFFF_FFFF_FFFF, np.uint64).view(DTYPES[kind])


_SMALLEST = {
    np.dtype(np.float32): 2.0**-126,
    np.dtype(np.float16): 2.0**-14,
    np.dtype(np.float64): 2.0**-1022,
}


def spread(value: Array, shape: tuple[int, ...]) -> Array:
    """*value* in that shape; NumPy's own function takes its time where nothing is to be done."""
    return value if value.shape == shape else np.broadcast_to(value, shape)


#: From how many numbers on NumPy finds their least faster than it counts those below a limit.
_MANY = 1 << 13
_F32, _U32 = np.dtype(np.float32), np.dtype(np.uint32)
#: Arrays: NumPy converts a scalar operand anew each time.
_ONE, _LEAST = np.array(1, np.uint32), np.array(0xFF_FFFF, np.uint32)


def flush(value: Array) -> Array:
    """*value* with its denormals replaced by zeros of their sign; the same array if it has none."""
    if value.dtype is _F32 and value.ndim and value.strides[-1] == 4:
        bits = value.view(_U32)
        doubled = bits + bits  # twice a denormal, less one, is below all others
        np.subtract(doubled, _ONE, doubled)
        if doubled.size < _MANY:
            if not np.count_nonzero(np.less(doubled, _LEAST)):
                return value
        elif int(doubled.min()) >= 0xFF_FFFF:
            return value
    value = np.asarray(value)
    small = np.abs(value) < value.dtype.type(_SMALLEST[value.dtype])
    if not small.any():
        return value
    return np.where(small, np.copysign(value.dtype.type(0), value), value)


def store(s: Group, row: int, value: Array, enabled: Getter | None = None) -> None:
    """Put uint32 values into a register row, in the lanes of EXEC (and of *enabled*)."""
    if enabled is not None:
        np.copyto(s.u[row], value, where=s.mask & enabled(s))
    elif s.full:
        s.u[row][...] = value
    else:
        np.copyto(s.u[row], value, where=s.mask)
