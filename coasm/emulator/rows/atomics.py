"""What atomics do, in whatever memory."""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.convert import to_bf16
from coasm.emulator.rows.moves import Move
from coasm.emulator.rows.values import Array, flush
from coasm.emulator.state import places
from coasm.emulator.state.waves import Group

__all__ = ["OPS", "Op", "add_flushed", "compare_swap", "larger", "run_atomic", "size_of", "smaller"]


def _increment(old: Array, data: Array) -> Array:
    return np.where(old >= data, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old: Array, data: Array) -> Array:
    return np.where((old == 0) | (old > data), data, old - old.dtype.type(1))


_FLOATS: dict[Any, tuple[Any, int]] = {
    np.dtype(np.float16): (np.uint16, 1 << 9),
    np.dtype(np.float32): (np.uint32, 1 << 22),
    np.dtype(np.float64): (np.uint64, 1 << 51),
}


def _sum(old: Array, data: Array) -> Array:
    """A float sum: a NaN stays one, quiet, the first of two; numbers without a sum give AMD's."""
    total = old + data
    if np.isnan(total).any():
        unsigned, quiet = _FLOATS[total.dtype]
        total = np.where(np.isnan(total), np.abs(total), total)  # x86's has its sign set
        for value in (data, old):
            bits = np.ascontiguousarray(value).view(unsigned) | unsigned(quiet)
            total = np.where(np.isnan(value), bits.view(value.dtype), total)
    return total


def _add_bf16(old: Array, data: Array) -> Array:
    out = np.zeros(old.shape, np.uint32)
    for up in (np.uint32(0), np.uint32(16)):
        a, b = ((v >> up << np.uint32(16)).view(np.float32) for v in (old, data))
        out |= to_bf16(_sum(a, b)) << up
    return out


def _add_f16(old: Array, data: Array) -> Array:
    a, b = (np.ascontiguousarray(v)[:, None].view(np.float16) for v in (old, data))
    return np.ascontiguousarray(_sum(a, b)).view(np.uint32)[:, 0]


def smaller(old: Array, data: Array) -> Array:
    """As the ISA guides have it: what is no number, or the same number, changes nothing."""
    return np.where(data < old, data, old)


def larger(old: Array, data: Array) -> Array:
    return np.where(data > old, data, old)


def add_flushed(old: Array, data: Array) -> Array:
    return flush(np.atleast_1d(_sum(flush(old), flush(data))))


class Op:
    """What an atomic does: ``update(old, data)`` on *dtype*, and the ufunc that does the same.

    The ufunc of a float addition does so where everything is finite.
    """

    def __init__(self, dtype: Any, update: Any, ufunc: Any = None, note: str = "") -> None:
        self.dtype, self.update, self.ufunc, self.note = dtype, update, ufunc, note


def _exchange(old: Array, data: Array) -> Array:
    return data


#: Name, type, what it does, and the ufunc that does the same.
_WIDE: tuple[tuple[str, str, Any, Any], ...] = (
    ("add", "u", np.add, np.add),
    ("sub", "u", np.subtract, np.subtract),
    ("umin", "u", np.minimum, np.minimum),
    ("umax", "u", np.maximum, np.maximum),
    ("smin", "i", np.minimum, np.minimum),
    ("smax", "i", np.maximum, np.maximum),
    ("and", "u", np.bitwise_and, np.bitwise_and),
    ("or", "u", np.bitwise_or, np.bitwise_or),
    ("xor", "u", np.bitwise_xor, np.bitwise_xor),
    ("inc", "u", _increment, None),
    ("dec", "u", _decrement, None),
    ("swap", "u", _exchange, None),
)
_TYPES = {"u": (np.uint32, np.uint64), "i": (np.int32, np.int64)}
OPS: dict[str, Op] = {}
for _name, _sign, _update, _ufunc in _WIDE:
    for _at, _suffix in ((0, ""), (1, "_x2")):
        OPS[_name + _suffix] = Op(_TYPES[_sign][_at], _update, _ufunc)
_ORDER = "float atomics add in the order of the waves"
OPS["add_f32"] = Op(np.float32, _sum, np.add, _ORDER)
OPS["add_f64"] = Op(np.float64, _sum, np.add, _ORDER)
OPS["min_f64"] = Op(np.float64, smaller)
OPS["max_f64"] = Op(np.float64, larger)
OPS["pk_add_bf16"] = Op(np.uint32, _add_bf16, None, _ORDER)
OPS["pk_add_f16"] = Op(np.uint32, _add_f16, None, _ORDER)


def compare_swap(old: Array, data: Array) -> Array:
    return np.where(old == data[..., 1], data[..., 0], old)


OPS["cmpswap"] = Op(np.uint32, compare_swap)
OPS["cmpswap_x2"] = Op(np.uint64, compare_swap)


def _updated(
    s: Group, parts: list[places.Part], op: Op, data: Array, returns: bool
) -> Array | None:
    return places.atomic(parts, s.shape, op.dtype, op.update, data, op.ufunc, returns)


def run_atomic(
    s: Group, parts: list[places.Part], op: Op, move: Move, returns: bool
) -> Array | None:
    """The old values as uint32 [n, 64, dwords] where *returns*."""
    raw = move.data(s)
    data = np.ascontiguousarray(raw).view(op.dtype)
    if data.shape[-1] == 1:
        data = data[..., 0]
    if any(part.space == "scratch" for part in parts) and np.dtype(op.dtype).itemsize == 8:
        raise Fault("a 64-bit atomic on scratch memory")
    old = _updated(s, parts, op, data, returns)
    return None if old is None else old[..., None].view(np.uint32)


def size_of(op: Op, name: str) -> int:
    return int(np.dtype(op.dtype).itemsize) * (2 if name.startswith("cmpswap") else 1)
