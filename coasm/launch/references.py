"""What an output of a launch file is compared with, and the comparison.

A reference is computed from the buffers as they were filled, in float64 (integers wrap around in
their own type, as the hardware's do), and rounded once, to the type of the expect: some elements at
a time, so that it takes little memory beside the buffers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coasm.launch.buffers import LIMIT_VARIABLE, Buffer, exact, limit, load_npy, pieces
from coasm.launch.document import At

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["Comparison", "Expected", "check_work", "compare", "read_expected"]


class Expected(NamedTuple):
    """What a buffer must be after the launch: ``reference`` of the buffers before it.

    ``work``: how many numbers go into it.
    ``against`` says the kind of reference. An element may differ by ``atol + rtol * |expected|``.
    """

    reference: Reference
    against: str
    rtol: float
    atol: float
    work: int


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


#: Products in a matmul that take the time of a number elsewhere.
_PRODUCTS = 256
#: Numbers of each side of a matmul that are worked on at a time.
_DEPTH = 1 << 23
_REFERENCES = ("npy", "constant", "buffer", "sum", "product", "matmul")
#: Of the buffers as they were filled, the elements in that slice of all.
Reference = Callable[[Mapping[str, Buffer], slice], "Array"]


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
    reference, work = _reference(fields[how], how, what, own, buffers, folder)
    return Expected(reference, how, tolerance("rtol"), tolerance("atol"), work)


def check_work(at: At, what: str, work: int) -> None:
    """Refuse comparisons that take *work* numbers, the one *at* here the last of them.

    Raises:
        LaunchError: it is more than a launch file may ask for.
    """
    if work > limit():
        raise at.error(
            f"{what}: {work:,} numbers to compare with, with the outputs before it (a matmul's "
            f"products count {_PRODUCTS} to one); the limit is {limit():,} ({LIMIT_VARIABLE} sets "
            "another)"
        )


def _reference(
    at: At, how: str, what: str, own: Buffer, buffers: Mapping[str, Buffer], folder: Path
) -> tuple[Reference, int]:
    """The reference, and how many numbers go into it."""
    import numpy as np

    def named(node: At) -> str:
        name = node.text(what)
        if name not in buffers:
            raise node.error(f"{what}: there is no buffer {name!r}")
        return name

    size = own.array.size
    if how == "npy":
        loaded = load_npy(at, what, own.dtype, own.shape, folder).reshape(-1)
        return lambda _, part: loaded[part], size
    if how == "constant":
        value = exact(at, what, np.array([at.number(what)]), own.dtype)
        return lambda _, part: np.broadcast_to(value, part.stop - part.start), size
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

    def elementwise(now: Mapping[str, Buffer], part: slice) -> Array:
        # Integers wrap around as the hardware's do; floats are rounded once, at the end.
        kind = own.dtype.dtype() if own.dtype.integer else np.dtype(np.float64)
        terms = (now[name].array.reshape(-1)[part].astype(kind) for name in names)
        result: Array = next(terms)
        with np.errstate(all="ignore"):
            for term in terms:
                result = combine(result, term)
        return result

    return elementwise, size * len(names)


def _matmul(
    at: At,
    what: str,
    own: Buffer,
    buffers: Mapping[str, Buffer],
    named: Callable[[At], str],
) -> tuple[Reference, int]:
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
    rows, columns = own.shape

    def product(now: Mapping[str, Buffer], part: slice) -> Array:
        """The elements of *part*: those rows that it touches, and of a single one those columns."""

        def side(key: str, lines: slice, depth: slice) -> Array:
            values: Array = now[names[key]].array[lines, depth].astype(np.float64)
            if f"{key}_scale" in names:
                scale = now[names[f"{key}_scale"]].array
                each = a[1] // scale.shape[1]
                at = np.arange(depth.start, depth.stop) // each
                values *= scale[lines].astype(np.float64)[:, at]
            return values

        first, last = part.start // columns, (part.stop - 1) // columns
        across = slice(0, columns)
        if first == last:
            across = slice(part.start - first * columns, part.stop - first * columns)
        down = slice(first, last + 1)
        whole = np.zeros((down.stop - down.start, across.stop - across.start))
        thick = max(1, _DEPTH // max(whole.shape))
        for start in range(0, a[1], thick):
            depth = slice(start, min(start + thick, a[1]))
            whole += side("a", down, depth) @ side("b", across, depth).T
        begin = part.start - first * columns - across.start
        return whole.reshape(-1)[begin : begin + part.stop - part.start]

    return product, own.array.size * max(1, a[1] // _PRODUCTS)


def compare(name: str, expect: Expected, buffers: Mapping[str, Buffer], got: Array) -> Comparison:
    """Compare one buffer: the reference is rounded to the buffer's type first."""
    own = buffers[name]
    flat = got.reshape(-1)
    wrong, most = 0, 0.0
    first: tuple[int, ...] | None = None
    shown: tuple[float | int | None, float | int | None] = (None, None)
    for part in pieces(flat.size):
        found, at, both, error = _compare_piece(expect, own, buffers, flat[part], part)
        if found and not wrong:
            first = _position(part.start + at, own.shape)
            shown = both
        wrong += found
        most = max(most, error)
    return Comparison(
        name=name,
        against=expect.against,
        elements=got.size,
        wrong=wrong,
        first_wrong=first,
        got=shown[0],
        expected=shown[1],
        max_abs_err=most,
        rtol=expect.rtol,
        atol=expect.atol,
    )


def _position(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    import numpy as np

    return tuple(int(i) for i in np.unravel_index(index, shape))


def _compare_piece(
    expect: Expected, own: Buffer, buffers: Mapping[str, Buffer], got: Array, part: slice
) -> tuple[int, int, tuple[float | int, float | int], float]:
    """How many elements of *part* are wrong, the first of them, what it is and must be, and the
    largest difference."""
    import numpy as np

    with np.errstate(all="ignore"):
        expected = expect.reference(buffers, part).astype(own.dtype.dtype())
        if own.dtype.integer:
            # Differences of 64-bit integers do not fit in 64 bits, but for their sign.
            x, y = got.astype(np.uint64), expected.astype(np.uint64)
            error: Array = np.where(got > expected, x - y, y - x).astype(np.float64)
            allowed = expect.atol + expect.rtol * np.abs(expected.astype(np.float64))
            bad = (got != expected) & (error > allowed)
        else:
            values, wanted = got.astype(np.float64), expected.astype(np.float64)
            same = (values == wanted) | (np.isnan(values) & np.isnan(wanted))
            error = np.where(same, 0.0, np.abs(values - wanted))
            error[~np.isfinite(error)] = np.inf
            bad = ~same & ~(error <= expect.atol + expect.rtol * np.abs(wanted))
    first = int(bad.argmax())
    plain = int if own.dtype.integer else float
    shown = plain(got[first]), plain(expected[first])
    return int(np.count_nonzero(bad)), first, shown, float(error.max())
