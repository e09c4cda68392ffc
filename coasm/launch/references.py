"""What an output of a launch file is compared with, and the comparison.

A reference is computed from the buffers as they were filled, in float64 (integers wrap around in
their own type, as the hardware's do), and rounded once, to the type of the expect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coasm.launch.buffers import Buffer, exact, load_npy
from coasm.launch.document import At

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["Comparison", "Expected", "compare", "read_expected"]


class Expected(NamedTuple):
    """What a buffer must be after the launch: ``reference`` of the buffers before it.

    ``against`` says the kind of reference. An element may differ by ``atol + rtol * |expected|``.
    """

    reference: Reference
    against: str
    rtol: float
    atol: float


class Comparison(NamedTuple):
    """How one buffer compares: ``wrong`` elements of ``elements``, the first at ``first_wrong``.

    ``got`` and ``expected`` are that element's. Infinite where a result is no number.
    """

    name: str
    against: str
    elements: int
    wrong: int
    first_wrong: tuple[int, ...] | None
    got: float | int | None
    expected: float | int | None
    max_abs_err: float
    rtol: float
    atol: float

    @property
    def passed(self) -> bool:
        return self.wrong == 0


_REFERENCES = ("npy", "constant", "buffer", "sum", "product", "matmul")
Reference = Callable[[Mapping[str, Buffer]], "Array"]


def read_expected(
    at: At, what: str, own: Buffer, buffers: Mapping[str, Buffer], folder: Path
) -> Expected:
    """Read ``compare:`` of the output *own*.

    Raises:
        LaunchError: it does not fit the buffers; the text names line and column.
    """
    what = f"{what}: compare"
    fields = at.fields(what, (*_REFERENCES, "rtol", "atol"))
    chosen = [name for name in _REFERENCES if name in fields]
    if len(chosen) != 1:
        raise at.error(f"{what}: expected one of {', '.join(_REFERENCES)}")

    def tolerance(name: str) -> float:
        value = float(fields[name].number(what)) if name in fields else 0.0
        if not 0 <= value < math.inf:
            raise fields[name].error(f"{what}: {name} is {value}, expected 0 or more")
        return value

    how = chosen[0]
    reference = _reference(fields[how], how, what, own, buffers, folder)
    return Expected(reference, how, tolerance("rtol"), tolerance("atol"))


def _reference(
    at: At, how: str, what: str, own: Buffer, buffers: Mapping[str, Buffer], folder: Path
) -> Reference:
    import numpy as np

    def named(node: At) -> str:
        name = node.text(what)
        if name not in buffers:
            raise node.error(f"{what}: there is no buffer {name!r}")
        return name

    if how == "npy":
        loaded = load_npy(at, what, own.dtype, own.shape, folder)
        return lambda _: loaded
    if how == "constant":
        value = exact(at, what, np.array([at.number(what)]), own.dtype)
        return lambda _: np.broadcast_to(value, own.shape)
    if how == "matmul":
        return _matmul(at, what, own, buffers, named)
    names = [named(at)] if how == "buffer" else [named(node) for node in at.sequence(what)]
    if not names:
        raise at.error(f"{what}: {how} of no buffer")
    for name in names:
        other = buffers[name]
        if other.shape != own.shape:
            raise at.error(f"{what}: {name!r} has shape {list(other.shape)}, not {list(own.shape)}")
        if other.dtype.integer != own.dtype.integer:
            raise at.error(f"{what}: {name!r} is {other.dtype.name}, not {own.dtype.name}")
    combine: Callable[..., Any] = np.multiply if how == "product" else np.add

    def elementwise(now: Mapping[str, Buffer]) -> Array:
        # Integers wrap around as the hardware's do; floats are rounded once, at the end.
        kind = own.dtype.dtype() if own.dtype.integer else np.dtype(np.float64)
        result: Array = now[names[0]].array.astype(kind)
        with np.errstate(all="ignore"):
            for name in names[1:]:
                result = combine(result, now[name].array.astype(kind))
        return result

    return elementwise


def _matmul(
    at: At,
    what: str,
    own: Buffer,
    buffers: Mapping[str, Buffer],
    named: Callable[[At], str],
) -> Reference:
    """a [M, K] times the transpose of b [N, K]; a scale stands for equally many elements of K."""
    import numpy as np

    fields = at.fields(what, ("a", "b", "a_scale", "b_scale"), ("a", "b"))
    names = {key: named(node) for key, node in fields.items()}
    shapes = {key: buffers[name].shape for key, name in names.items()}
    a, b = shapes["a"], shapes["b"]
    if len(a) != 2 or len(b) != 2 or a[1] != b[1] or own.shape != (a[0], b[0]):
        raise at.error(
            f"{what}: {list(a)} by the transpose of {list(b)} gives no {list(own.shape)}"
        )
    for key in ("a", "b"):
        scale = shapes.get(f"{key}_scale")
        rows, columns = shapes[key]
        if scale is not None and (len(scale) != 2 or scale[0] != rows or columns % scale[1]):
            raise fields[f"{key}_scale"].error(
                f"{what}: scales {list(scale)} do not divide {list(shapes[key])} along K"
            )

    def product(now: Mapping[str, Buffer]) -> Array:
        def side(key: str) -> Array:
            values: Array = now[names[key]].array.astype(np.float64)
            if f"{key}_scale" in names:
                scale = now[names[f"{key}_scale"]].array.astype(np.float64)
                values = values * np.repeat(scale, values.shape[1] // scale.shape[1], axis=1)
            return values

        result: Array = side("a") @ side("b").T
        return result

    return product


def compare(name: str, expect: Expected, buffers: Mapping[str, Buffer], got: Array) -> Comparison:
    """Compare one buffer: the reference is rounded to the buffer's type first."""
    import numpy as np

    own = buffers[name]
    with np.errstate(all="ignore"):
        expected = expect.reference(buffers).astype(own.dtype.dtype())
        if own.dtype.integer:
            # Differences of 64-bit integers do not fit in 64 bits: exact as Python's.
            bad = got != expected
            error: Array = np.zeros(got.shape)
            if bad.any():
                apart = [abs(int(x) - int(y)) for x, y in zip(got[bad], expected[bad], strict=True)]
                error[bad] = apart
                limit = expect.atol + expect.rtol * np.abs(expected[bad].astype(np.float64))
                bad[bad] = np.array(apart, np.float64) > limit
        else:
            values, wanted = got.astype(np.float64), expected.astype(np.float64)
            same = (values == wanted) | (np.isnan(values) & np.isnan(wanted))
            error = np.where(same, 0.0, np.abs(values - wanted))
            error[~np.isfinite(error)] = np.inf
            bad = ~same & ~(error <= expect.atol + expect.rtol * np.abs(wanted))
    wrong = int(np.count_nonzero(bad))
    first = None
    shown: tuple[float | int | None, float | int | None] = (None, None)
    if wrong:
        first = tuple(int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))
        plain = int if own.dtype.integer else float
        shown = plain(got[first]), plain(expected[first])
    return Comparison(
        name=name,
        against=expect.against,
        elements=got.size,
        wrong=wrong,
        first_wrong=first,
        got=shown[0],
        expected=shown[1],
        max_abs_err=float(error.max()),
        rtol=expect.rtol,
        atol=expect.atol,
    )
