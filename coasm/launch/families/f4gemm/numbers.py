"""The numbers of a product: operands, the exact result, and how far off a right kernel may be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from coasm.launch.families.f4gemm.layouts import SCALE_BLOCK, dequantise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

__all__ = ["Operands", "Shape", "Verdict", "judge", "operands", "reference"]

#: Scale exponents of the operands: 2^-3 to 2^3.
_EXPONENTS = (-3, 3)

#: Half a unit in the last place of a bf16, relative to the number: the result's own rounding.
BF16_ROUNDING = 2.0**-8
#: With split K the parts are summed in bf16: the bound is this part of max|reference|.
SPLIT_BOUND = 0.02
#: Sums below this are exact in f32: the least bit of a product of these operands is 2^-8.
_EXACT_F32 = 2.0**16


class Shape(NamedTuple):
    """D is ``m`` by ``n``, the products are over ``k``."""

    m: int
    n: int
    k: int

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


class Operands(NamedTuple):
    """MXFP4 by rows: ``a`` [M, K / 2] and ``b`` [N, K / 2] bytes, scales [rows, K / 32]."""

    a: Bytes
    a_scale: Bytes
    b: Bytes
    b_scale: Bytes


def operands(shape: Shape, seed: int) -> Operands:
    """Random operands: every fp4 number, and scales 2^-3 to 2^3, all equally likely.

    The products' least bit is 2^-8, the largest is 2304. The same seed gives the same numbers.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    low, high = (127 + e for e in _EXPONENTS)

    def matrix(rows: int) -> tuple[Bytes, Bytes]:
        packed = np.frombuffer(rng.bytes(rows * shape.k // 2), np.uint8)
        columns = shape.k // SCALE_BLOCK
        scales = rng.integers(low, high, (rows, columns), np.uint8, endpoint=True)
        return packed.reshape(rows, shape.k // 2), scales

    return Operands(*matrix(shape.m), *matrix(shape.n))


def reference(ops: Operands) -> NDArray[np.float64]:
    """The product ``[M, N]``, exact.

    Products and sums of the operands of :func:`operands` are multiples of 2^-8 far below 2^45:
    float64 holds each of them, in whatever order BLAS adds.
    """
    import numpy as np

    left = dequantise(ops.a, ops.a_scale)
    result = np.empty((ops.a.shape[0], ops.b.shape[0]))
    step = max(256, (1 << 24) // left.shape[1])  # at most 128 MiB of B at a time
    for first in range(0, ops.b.shape[0], step):
        rows = slice(first, first + step)
        np.matmul(left, dequantise(ops.b[rows], ops.b_scale[rows]).T, out=result[:, rows])
    return result


class Verdict(NamedTuple):
    """How a result compares with its reference.

    ``max_rel_err`` is over the elements whose reference is not 0, ``max_abs_err`` over all;
    ``of_max`` is ``max_abs_err`` as a part of max|reference|. ``wrong`` counts the elements
    outside the bound; ``first_wrong`` is the (row, column) of the first. ``bound`` says the rule.
    A result that is no number makes the errors infinite.
    """

    passed: bool
    max_abs_err: float
    max_rel_err: float
    of_max: float
    wrong: int
    first_wrong: tuple[int, int] | None
    bound: str


def judge(result: NDArray[Any], exact: NDArray[np.float64], *, parts: int, k: int) -> Verdict:
    """Compare a bf16 *result* with the *exact* product; *parts* is the number of parts of K.

    Without split K every element must be within 2^-8 of the exact one, and 0 where that is 0.
    Where sums leave what f32 holds exactly (at K = 16,384), one rounding for each 32 elements of
    K is allowed besides. With split K the bound is 2 % of max|exact|.
    """
    import numpy as np

    values = result.astype(np.float64)
    size = np.abs(exact)
    error = np.abs(values - exact)
    error[~np.isfinite(values)] = np.inf
    top = float(size.max())
    if parts > 1:
        allowed: Any = SPLIT_BOUND * top
        bound = f"{SPLIT_BOUND:.0%} of max|ref|"
    else:
        allowed = BF16_ROUNDING * size
        bound = "2^-8"
        if top >= _EXACT_F32:
            allowed = allowed + k / SCALE_BLOCK * 2.0**-24 * top
            bound = "2^-8 and f32 rounding"
    bad = error > allowed
    wrong = int(np.count_nonzero(bad))
    first = None
    if wrong:
        row, column = np.unravel_index(int(bad.argmax()), bad.shape)
        first = int(row), int(column)
    relative = np.divide(error, size, out=np.zeros_like(error), where=size > 0)
    worst = float(error.max())
    return Verdict(
        passed=wrong == 0,
        max_abs_err=worst,
        max_rel_err=float(relative.max()),
        of_max=worst / top if top else (math.inf if worst else 0.0),
        wrong=wrong,
        first_wrong=first,
        bound=bound,
    )
