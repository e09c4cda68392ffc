"""All kernels in Triton."""

from tests.compilers import (
    triton_elementwise,
    triton_kernels,
    triton_memory,
    triton_products,
    triton_reductions,
)

__all__ = ["CASES"]

_MODULES = (triton_kernels, triton_elementwise, triton_reductions, triton_products, triton_memory)
CASES = tuple(case for module in _MODULES for case in module.cases())
