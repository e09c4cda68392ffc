"""f4gemm: MXFP4 matrix products, ``D[M, N] (bf16) = A[M, K] * B[N, K]^T``, each with E8M0 scales.

The hand-written gfx950 kernels of ROCm/aiter (``hsa/gfx950/f4gemm``): their manifest, tile choice,
data layouts, kernel arguments and tolerances, as aiter's ``asm_gemm_a4w4.cu`` has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coasm.launch.families.f4gemm.alone import manifest_of
    from coasm.launch.families.f4gemm.manifest import Entry, Manifest, find_manifest, read_manifest
    from coasm.launch.families.f4gemm.numbers import Shape
    from coasm.launch.families.f4gemm.product import Product, Runner
    from coasm.launch.families.f4gemm.sweep import Check, checks
    from coasm.launch.families.f4gemm.tiles import Choice, choose

_HOMES = {
    **dict.fromkeys(("Entry", "Manifest", "find_manifest", "read_manifest"), "manifest"),
    "manifest_of": "alone",
    "Shape": "numbers",
    **dict.fromkeys(("Product", "Runner"), "product"),
    **dict.fromkeys(("Check", "checks"), "sweep"),
    **dict.fromkeys(("Choice", "choose"), "tiles"),
}

__all__ = [
    "Check",
    "Choice",
    "Entry",
    "Manifest",
    "Product",
    "Runner",
    "Shape",
    "checks",
    "choose",
    "find_manifest",
    "manifest_of",
    "read_manifest",
]


def __getattr__(name: str) -> Any:
    """The parts, imported when they are first asked for: ``--list`` needs no NumPy."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
