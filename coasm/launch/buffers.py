"""The buffers of a launch file: their types, shapes, and what they are filled with."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coasm.codeobject.model import read_input
from coasm.errors import CoasmError, LaunchError
from coasm.launch.document import At
from coasm.launch.dtypes import DType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["Buffer", "exact", "limit", "load_npy", "pieces", "read_buffers"]

#: All buffers of a launch file together, in bytes; there are three copies of each while it runs.
MAX_BYTES = 1 << 28
#: Sets another limit than that.
LIMIT_VARIABLE = "COASM_MAX_BUFFERS"
#: What an element counts at least: the time that it takes does not go by its size.
_LEAST = 4
#: Elements that are worked on at a time: what is computed in float64 takes no more memory for it.
_PIECE = 1 << 20


class Buffer(NamedTuple):
    """A buffer of the document, filled."""

    dtype: DType
    shape: tuple[int, ...]
    array: Array


def limit() -> int:
    """How many bytes all buffers of a launch file may have.

    Raises:
        LaunchError: the variable that sets it holds no number.
    """
    own = os.environ.get(LIMIT_VARIABLE, "")
    if own and not own.isdecimal():
        raise LaunchError(f"{LIMIT_VARIABLE}={own}: expected a number of bytes")
    return int(own) if own else MAX_BYTES


def pieces(count: int) -> Iterator[slice]:
    """*count* elements, some at a time."""
    for start in range(0, count, _PIECE):
        yield slice(start, min(start + _PIECE, count))


def read_buffers(at: At | None, folder: Path) -> dict[str, Buffer]:
    found: dict[str, Buffer] = {}
    total, most = 0, limit()
    for name, (_, value) in (at.mapping("buffers") if at is not None else {}).items():
        what = f"buffer {name!r}"
        fields = value.fields(what, ("dtype", "shape", "fill"), ("dtype", "shape"))
        dtype = fields["dtype"].dtype(what)
        shape = _shape(fields["shape"], what)
        if dtype.per_byte > 1 and shape[-1] % dtype.per_byte:
            raise fields["shape"].error(
                f"{what}: rows of {dtype.name} need a multiple of {dtype.per_byte} elements"
            )
        total += max(dtype.dtype().itemsize, _LEAST) * math.prod(shape)
        if total > most:
            raise fields["shape"].error(
                f"{what}: {total:,} bytes with the buffers before it; the limit for all is "
                f"{most:,} ({LIMIT_VARIABLE} sets another)"
            )
        array = _fill(fields.get("fill"), what, dtype, shape, folder)
        found[name] = Buffer(dtype, shape, array)
    return found


def _shape(at: At, what: str) -> tuple[int, ...]:
    items = at.sequence(what) if at.is_sequence else [at]
    if not 1 <= len(items) <= 8:
        raise at.error(f"{what}: a shape has one to eight sizes, not {len(items)}")
    return tuple(item.integer(f"{what}: shape", 1, 1 << 40) for item in items)


_FILLS = ("zeros", "constant", "range", "random", "npy")


def _fill(at: At | None, what: str, dtype: DType, shape: tuple[int, ...], folder: Path) -> Array:
    """The array that a buffer starts as: zeros where nothing is said."""
    import numpy as np

    what = f"{what}: fill"
    kind = dtype.dtype()
    if at is None:
        return np.zeros(shape, kind) if dtype.kind != "scale" else np.ones(shape, kind)
    if not at.is_mapping:
        if at.text(what) != "zeros":
            raise at.error(
                f"{what}: expected zeros, or one of {', '.join(_FILLS[1:])} with a value"
            )
        return (
            np.zeros(shape, np.uint8).view(kind) if dtype.kind == "scale" else np.zeros(shape, kind)
        )
    options = (*_FILLS[1:], "step", "low", "high")
    fields = at.fields(what, options)
    chosen = [name for name in _FILLS if name in fields]
    if len(chosen) != 1:
        raise at.error(f"{what}: expected one of {', '.join(_FILLS)}")
    how = chosen[0]
    extras = {"range": ("step",), "random": ("low", "high")}.get(how, ())
    for name, value in fields.items():
        if name != how and name not in extras:
            raise value.error(f"{what}: {name!r} does not belong to {how!r}")
    value = fields[how]
    if how == "constant":
        number = value.number(what)
        return np.full(shape, exact(value, what, np.array([number]), dtype)[0], kind)
    if how == "range":
        step = fields["step"].number(what) if "step" in fields else 1
        return _range(value, what, dtype, shape, step)
    if how == "random":
        return _random(value, fields, what, dtype, shape)
    return load_npy(value, what, dtype, shape, folder)


def _range(at: At, what: str, dtype: DType, shape: tuple[int, ...], step: int | float) -> Array:
    import numpy as np

    start = at.number(what)
    whole = isinstance(start, int) and isinstance(step, int)
    last = start + step * (math.prod(shape) - 1)
    if whole and not all(-(1 << 63) <= end < 1 << 63 for end in (start, step, last)):
        raise at.error(f"{what}: the range leaves 64 bits")
    index = np.int64 if whole else np.float64
    return _by_pieces(
        at,
        what,
        dtype,
        shape,
        lambda part: np.arange(part.start, part.stop, dtype=index) * step + start,
    )


def _by_pieces(
    at: At, what: str, dtype: DType, shape: tuple[int, ...], numbers: Callable[[slice], Array]
) -> Array:
    """An array of *dtype* whose elements are what *numbers* gives, of some at a time."""
    import numpy as np

    array = np.empty(math.prod(shape), dtype.dtype())
    for part in pieces(array.size):
        array[part] = exact(at, what, numbers(part), dtype)
    return array.reshape(shape)


def exact(at: At, what: str, numbers: Array, dtype: DType) -> Array:
    """*numbers* in *dtype*: integers must fit, floats are rounded to nearest, none may overflow."""
    import numpy as np

    kind = dtype.dtype()
    if dtype.integer:
        if numbers.dtype.kind == "f":
            if not np.all(np.isfinite(numbers)) or np.any(numbers != np.floor(numbers)):
                raise at.error(f"{what}: not whole numbers, as {dtype.name} needs")
            if np.any(np.abs(numbers) >= 2.0**63):
                raise at.error(f"{what}: does not fit in {dtype.name}")
            numbers = numbers.astype(np.int64)
        elif numbers.dtype.kind == "O":
            raise at.error(f"{what}: does not fit in {dtype.name}")
        limits = np.iinfo(kind)
        if int(numbers.min()) < limits.min or int(numbers.max()) > limits.max:
            raise at.error(f"{what}: does not fit in {dtype.name}")
        return numbers.astype(kind)
    with np.errstate(all="ignore"):
        wide = numbers.astype(np.float64)
        result = wide.astype(kind)
    back = result.astype(np.float64)
    special = ~np.isfinite(back) & np.isfinite(wide)
    if dtype.kind == "scale" and np.any(back != wide):
        raise at.error(f"{what}: {dtype.name} holds powers of two")
    if np.any(special) or (dtype.name == "fp4" and np.any(np.abs(wide) > 6)):
        raise at.error(f"{what}: does not fit in {dtype.name}")
    return result


def _random(
    at: At, fields: Mapping[str, At], what: str, dtype: DType, shape: tuple[int, ...]
) -> Array:
    """Random elements: the same seed gives the same.

    Integers and floats are uniform between low and high; ``e8m0`` scales are powers of two whose
    exponents are; ``fp4`` without bounds takes each of its 16 codes.
    """
    import numpy as np

    rng = np.random.default_rng(at.integer(f"{what}: seed", 0, (1 << 63) - 1))
    kind = dtype.dtype()
    if dtype.name == "fp4" and "low" not in fields and "high" not in fields:
        return rng.integers(0, 15, shape, np.uint8, endpoint=True).view(kind)
    if dtype.integer:
        limits = np.iinfo(kind)
        low, high = (
            fields[name].integer(what, int(limits.min), int(limits.max))
            if name in fields
            else default
            for name, default in (("low", int(limits.min)), ("high", int(limits.max)))
        )
        if low > high:
            raise at.error(f"{what}: low is above high")
        return rng.integers(low, high, shape, kind, endpoint=True)
    if dtype.kind == "scale":
        low, high = (
            fields[name].integer(what, -127, 127) if name in fields else default
            for name, default in (("low", -3), ("high", 3))
        )
        if low > high:
            raise at.error(f"{what}: low is above high")
        return rng.integers(low + 127, high + 127, shape, np.uint8, endpoint=True).view(kind)
    bottom, top = (
        float(fields[name].number(what)) if name in fields else default
        for name, default in (("low", -1.0), ("high", 1.0))
    )
    if not (math.isfinite(bottom) and math.isfinite(top) and bottom <= top):
        raise at.error(f"{what}: expected low below high")
    return _by_pieces(
        at, what, dtype, shape, lambda part: rng.uniform(bottom, top, part.stop - part.start)
    )


def load_npy(at: At, what: str, dtype: DType, shape: tuple[int, ...], folder: Path) -> Array:
    array = _read_npy(at, what, folder)
    if array.shape != shape:
        raise at.error(f"{what}: the file's shape is {list(array.shape)}, expected {list(shape)}")
    if array.dtype == dtype.dtype():
        return array
    if array.dtype.kind not in "iuf":
        raise at.error(f"{what}: the file holds {array.dtype}, no numbers")
    flat = array.reshape(-1)
    return _by_pieces(at, what, dtype, shape, lambda part: flat[part])


def _read_npy(at: At, what: str, folder: Path) -> Array:
    import numpy as np

    path = at.path(what, folder)
    try:
        data = read_input(path)
        return np.asarray(np.load(io.BytesIO(data), allow_pickle=False))
    except CoasmError as error:
        raise at.error(str(error)) from None
    except (ValueError, EOFError, OSError, SyntaxError, MemoryError) as error:
        first = (str(error).splitlines() or ["damaged"])[0]
        raise at.error(f"{path}: not a .npy file ({first})") from None
