"""The manifest: a CSV file beside the code objects that lists each kernel with its tile."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import NamedTuple

from coasm.codeobject.model import read_input
from coasm.errors import FormatError, LaunchError
from coasm.launch.family import Listing

__all__ = ["COLUMNS", "Entry", "Manifest", "find_manifest", "listing", "read_manifest"]

#: The columns that a manifest must have; others are left alone.
COLUMNS = ("tile_M", "tile_N", "splitK", "bpreshuffle", "knl_name", "co_name")

#: Name of a manifest that is taken where a folder holds several CSV files.
_USUAL = "f4gemm_bf16_per1x32Fp4.csv"


class Entry(NamedTuple):
    """One row: a kernel, its tile in elements, whether it splits K, and how it wants B.

    ``kernel`` is the (mangled) symbol, ``object`` the file's name, ``line`` the row's line.
    """

    tile_m: int
    tile_n: int
    split_k: bool
    bpreshuffle: bool
    kernel: str
    object: str
    line: int


class Manifest(NamedTuple):
    """The rows of one manifest in their order; ``path`` is the CSV file."""

    path: Path
    entries: tuple[Entry, ...]

    @property
    def folder(self) -> Path:
        """Where the code objects are."""
        return self.path.parent

    def path_of(self, entry: Entry) -> Path:
        """The code object of *entry*.

        Raises:
            LaunchError: the folder does not hold it.
        """
        path = self.folder / entry.object
        if not path.is_file():
            raise LaunchError(
                f"no such code object: {path}; {self.path.name}:{entry.line} lists it, but the "
                "folder does not hold it (--co-dir names the folder)"
            )
        return path

    def named(self, name: str) -> Entry:
        """The entry of a kernel, by its symbol or by its code object's file name.

        Raises:
            LaunchError: there is none, or more than one.
        """
        found = [
            e for e in self.entries if name in (e.kernel, e.object, e.object.removesuffix(".co"))
        ]
        if len(found) == 1:
            return found[0]
        if found:
            lines = ", ".join(str(e.line) for e in found)
            raise LaunchError(
                f"{self.path}: {name!r} is in lines {lines}; name the other of symbol and file"
            )
        from difflib import get_close_matches

        names = [e.object for e in self.entries] + [e.kernel for e in self.entries]
        close = get_close_matches(name, names, n=1)
        hint = f"; did you mean {close[0]}?" if close else " (--list shows what there is)"
        raise LaunchError(f"{self.path}: no kernel {name!r}{hint}")


def folder_of(co_dir: str | os.PathLike[str] | None, arch: str = "gfx950") -> Path:
    """The folder of the code objects: *co_dir*, or else ``$AITER_ASM_DIR/<arch>/f4gemm``.

    Raises:
        LaunchError: neither is given, or it is no folder.
    """
    if co_dir is not None:
        folder, source = Path(co_dir), "--co-dir"
    else:
        root = os.environ.get("AITER_ASM_DIR")
        if not root:
            raise LaunchError(
                "where are the code objects? Name their folder with --co-dir, or aiter's hsa "
                f"folder with AITER_ASM_DIR in the environment ({arch}/f4gemm in it is used)"
            )
        folder, source = Path(root, arch, "f4gemm"), "AITER_ASM_DIR"
    if not folder.is_dir():
        raise LaunchError(f"{folder}: no such folder ({source})")
    return folder


def find_manifest(co_dir: str | os.PathLike[str] | None = None, arch: str = "gfx950") -> Manifest:
    """The manifest in the folder that :func:`folder_of` finds.

    Raises:
        LaunchError: no folder, or no CSV file or several in it.
        FormatError: see :func:`read_manifest`.
    """
    folder = folder_of(co_dir, arch)
    found = sorted(folder.glob("*.csv"))
    usual = folder / _USUAL
    if usual in found:
        return read_manifest(usual)
    if len(found) != 1:
        what = ", ".join(path.name for path in found) if found else "none"
        raise LaunchError(f"{folder}: expected one manifest ({_USUAL}); CSV files there: {what}")
    return read_manifest(found[0])


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Read a manifest.

    Raises:
        FormatError: it cannot be read, lacks a column or a value, or a value is not what its
            column holds; the text names file and line.
    """
    path = Path(path)
    try:
        text = read_input(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path}: not UTF-8 text ({error.reason} at byte {error.start})"
        ) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    entries: list[Entry] = []
    columns: dict[str, int] = {}
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            where = f"{path}:{reader.line_num}"
            cells = [cell.strip() for cell in row]
            if not columns:
                columns = {name: at for at, name in enumerate(cells)}
                missing = [name for name in COLUMNS if name not in columns]
                if missing:
                    raise FormatError(f"{where}: no column {', '.join(missing)}")
                width = len(cells)
                continue
            if len(cells) != width:
                raise FormatError(f"{where}: {len(cells)} values for {width} columns")
            entries.append(_entry(where, {n: cells[columns[n]] for n in COLUMNS}, reader.line_num))
    except csv.Error as error:
        raise FormatError(f"{path}:{reader.line_num}: {error}") from None
    if not columns:
        raise FormatError(f"{path}:1: empty; expected the columns {', '.join(COLUMNS)}")
    if not entries:
        raise FormatError(f"{path}: lists no kernel")
    return Manifest(path, tuple(entries))


def _entry(where: str, row: dict[str, str], line: int) -> Entry:
    def number(column: str, low: int, high: int) -> int:
        text = row[column]
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise FormatError(f"{where}: {column} is {text!r}, expected a whole number")
        if not low <= int(text) <= high:
            raise FormatError(f"{where}: {column} is {text}, expected {low} to {high}")
        return int(text)

    name = row["co_name"]
    # Nothing but a file of this folder: the name comes out of a file.
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise FormatError(
            f"{where}: co_name is {name!r}, expected the name of a file in this folder"
        )
    if not row["knl_name"]:
        raise FormatError(f"{where}: knl_name is empty")
    return Entry(
        number("tile_M", 1, 1 << 16),
        number("tile_N", 1, 1 << 16),
        bool(number("splitK", 0, 1)),
        bool(number("bpreshuffle", 0, 1)),
        row["knl_name"],
        name,
        line,
    )


def listing(manifest: Manifest) -> Listing:
    """The rows of a manifest, as ``--list`` shows them."""
    lines = [
        str(manifest.path),
        f"{'tile':>10}  {'splitK':>6}  {'bpreshuffle':>11}  object, kernel",
    ]
    for entry in manifest.entries:
        missing = "" if (manifest.folder / entry.object).is_file() else "  (missing)"
        lines += [
            f"{entry.tile_m:>5}x{entry.tile_n:<4}  {entry.split_k:>6d}  {entry.bpreshuffle:>11d}  "
            f"{entry.object}{missing}",
            f"{'':33}{entry.kernel}",
        ]
    rows = [entry._asdict() for entry in manifest.entries]
    return Listing(tuple(lines), {"manifest": str(manifest.path), "kernels": rows})
