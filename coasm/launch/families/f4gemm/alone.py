"""One f4gemm object by itself: its row of the manifest, by the symbol of its kernel."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from coasm.codeobject import CodeObject
from coasm.errors import FormatError, LaunchError
from coasm.launch.families.f4gemm.manifest import Entry, Manifest, find_manifest
from coasm.launch.general import the_kernel

__all__ = ["NAME", "manifest_of"]

#: What aiter calls these kernels: the layout of B and the tile. Split K is in the manifest only.
NAME = re.compile(r"f4gemm_\w+?_(no)?BpreShuffle_([1-9]\d{0,4})x([1-9]\d{0,4})(?!\d)")


def manifest_of(
    co: CodeObject,
    name: str,
    *,
    co_dir: str | os.PathLike[str] | None = None,
    kernel: str | None = None,
) -> Manifest:
    """A manifest of one row: the kernel of *co*, an object that a user called *name*.

    The row is that of a manifest that lists the symbol, whatever file it names: of *co_dir*, or
    else of the object's own folder, or of ``AITER_ASM_DIR``. Without one, tile and layout are read
    off the symbol, and whether the kernel splits K is not known: the row's line is 0.

    Raises:
        LaunchError: no such kernel, several and no name, or it is no f4gemm kernel.
        CoasmError: the manifest of *co_dir* cannot be read.
    """
    symbol = the_kernel(co, kernel).name
    here = os.path.basename(name)
    for manifest in _manifests(name, co_dir):
        rows = {entry._replace(line=0, object=""): entry for entry in manifest.entries}
        found = [entry for row, entry in rows.items() if row.kernel == symbol]
        if len(found) > 1:
            lines = ", ".join(str(entry.line) for entry in found)
            raise LaunchError(f"{manifest.path}: kernel {symbol!r} is in lines {lines}, otherwise")
        if found:
            return Manifest(manifest.path, (found[0]._replace(object=here),))
    parts = NAME.search(symbol)
    if parts is None:
        raise LaunchError(
            f"{name}: {symbol!r} is no f4gemm kernel that a manifest lists or whose name has its "
            "tile; --spec FILE runs any kernel"
        )
    entry = Entry(int(parts[2]), int(parts[3]), False, not parts[1], symbol, here, 0)
    return Manifest(Path(name), (entry,))


def _manifests(name: str, co_dir: str | os.PathLike[str] | None) -> Iterator[Manifest]:
    """The manifests to look into, the nearest first."""
    if co_dir is not None:
        yield find_manifest(co_dir)
        return
    folder = os.path.dirname(name) or "."
    for place in (folder, None):
        try:
            yield find_manifest(place)
        except (FormatError, LaunchError):
            continue  # it was not asked for
