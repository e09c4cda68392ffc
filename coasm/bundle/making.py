"""Bundles that are made anew, of code objects.

Source: Clang documentation, "Clang Offload Bundler"; ``HIPUtility.cpp`` of Clang's driver for the
IDs and the alignment.
"""

from __future__ import annotations

from collections.abc import Sequence

from coasm.bundle.compressed import pack
from coasm.bundle.images import find
from coasm.bundle.table import MAX_IMAGES, made
from coasm.codeobject import CodeObject
from coasm.errors import CoasmError

__all__ = ["bundle_of", "is_bundle_for"]

_HOST = "host-x86_64-unknown-linux-gnu-"
#: The version of ``CCOB`` that ROCm has read since there are bundles of zstd.
_VERSION = 2


def bundle_of(objects: Sequence[CodeObject], *, compress: bool = False) -> bytes:
    """An offload bundle of *objects*, in their order; compressed with zstd if asked for.

    Raises:
        CoasmError: two objects of one target, or none at all.
        UnsupportedError: too large for a compressed bundle's header.
    """
    if not 0 < len(objects) < MAX_IMAGES:
        raise CoasmError(f"a bundle of {len(objects)} code objects")
    taken: dict[str, str] = {}
    for co in objects:
        target = str(co.target)
        if target in taken:
            raise CoasmError(f"{co.name}: is for {target}, and so is {taken[target]}")
        taken[target] = co.name
    images = [(f"hipv4-amdgcn-amd-amdhsa--{co.target}", co.data) for co in objects]
    data = made([(_HOST, b""), *images])
    return pack(data, _VERSION, "zstd", 1 << 62) if compress else data


def is_bundle_for(path: str, objects: Sequence[CodeObject]) -> bool:
    """Whether the file at *path* has images for the targets of *objects*, and no others."""
    try:
        return [entry.target for entry in find(path)] == [str(co.target) for co in objects]
    except CoasmError:
        return False
