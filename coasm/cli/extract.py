"""``coasm extract``: the code objects that an executable, library or bundle carries."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coasm.cli.options import JsonOption, LlvmOption
from coasm.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coasm.bundle import Entry

__all__ = ["extract"]


def extract(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="An executable, library, object file, archive, or bundle."
        ),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="Where to put them (is made).")
    ] = ".",
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            "-t",
            metavar="TARGET",
            help="Only this one: gfx942, gfx90a:xnack+, or gfx942#2 of bundle 2.",
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", "-l", help="Show what is there; write nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Overwrite files that exist.")
    ] = False,
    json_: JsonOption = False,
    llvm: LlvmOption = None,
) -> None:
    """Take the code objects out of every bundle that a file carries.

    Each becomes FILE.N.TARGET.co, where N is the number of its bundle in the file. Where another
    command expects a code object, FILE:TARGET (or FILE:TARGET#N) does without.

    \b
    Examples:
      coasm extract libexample.so --list
      coasm extract libexample.so -o objects --target gfx942
      coasm disasm libexample.so:gfx942 -o kernels.s
    """
    from coasm.bundle import find
    from coasm.bundle.select import listed, matching
    from coasm.errors import CoasmError

    entries = everything = find(file)
    if target is not None:
        chosen = matching(entries, target)
        if not chosen:
            raise CoasmError(f"{file}: no {target} in it; there are {listed(entries)}")
        entries = chosen
    if list_:
        _list(file, entries, json_, llvm)
    else:
        _write(file, entries, names(file, everything), output, force, json_)


def _list(file: str, entries: Sequence[Entry], json_: bool, llvm: str | None) -> None:
    from coasm.bundle import extract as image_of
    from coasm.demangle import demangle

    found = []
    for entry in entries:
        kernels, kind = _kernels(image_of(entry))
        found.append((entry, kind, kernels))
    if json_:
        import json

        readable = demangle((name for _, _, kernels in found for name in kernels or ()), llvm)
        rows = []
        for entry, kind, kernels in found:
            row = _row(entry, kind)
            row["kernels"] = (
                None
                if kernels is None
                else [{"name": name, "demangled": readable.get(name)} for name in kernels]
            )
            rows.append(row)
        print(json.dumps({"path": file, "images": rows}, indent=2))
        return
    _table(file, found, llvm)


def _kernels(data: bytes) -> tuple[tuple[str, ...] | None, str]:
    """The kernels of an image (None: not known), and what the image is."""
    from coasm.bundle.select import kind_of
    from coasm.bundle.summary import kernel_entries
    from coasm.codeobject import load
    from coasm.errors import CoasmError

    kind = kind_of(data)
    if kind != "code object":
        return None, kind
    try:
        return tuple(name for name, _ in kernel_entries(load(data))), kind
    except CoasmError as error:
        return None, str(error).removeprefix("<bytes>: ")


def _row(entry: Entry, kind: str) -> dict[str, Any]:
    held = entry.container
    return {
        "bundle": entry.number,
        "target": entry.target or None,
        "id": entry.id,
        "kind": kind,
        "bytes": entry.size,
        "member": held.member or None,
        "section": held.section or None,
        "format": held.format,
        "version": held.version or None,
        "compression": held.method or None,
        "bundle_offset": held.offset,
        "bundle_bytes": held.size,
        "bundle_bytes_unpacked": held.unpacked,
    }


def _table(
    file: str, found: Sequence[tuple[Entry, str, tuple[str, ...] | None]], llvm: str | None
) -> None:
    from coasm.demangle import beside, demangle

    rows = [("bundle", "target", "bytes", "kernels")]
    notes = []
    for entry, kind, kernels in found:
        count = "" if kernels is None else f"{len(kernels):,}"
        rows.append((str(entry.number), entry.target or entry.id, f"{entry.size:,}", count))
        notes.append("" if kernels is not None else kind)
    widths = [max(len(printable(row[at])) for row in rows) for at in range(4)]
    for row, note in zip(rows, ["", *notes], strict=True):
        number, target, size, count = map(printable, row)
        line = f"{number:>{widths[0]}}  {target:<{widths[1]}}  {size:>{widths[2]}}"
        print(f"{line}  {count:>{widths[3]}}  {printable(note)}".rstrip())
    print()
    for container in dict.fromkeys(entry.container for entry, _, _ in found):
        what = container.format + (f" version {container.version}" if container.version else "")
        place = ", ".join(filter(None, (container.member, container.section)))
        print(
            printable(
                f"bundle {container.number}: {what}{', ' if place else ''}{place}, at "
                f"{container.offset:#x}, {container.size:,} bytes"
                + (
                    f" ({container.method}, {container.unpacked:,} unpacked)"
                    if container.method
                    else ""
                )
            )
        )
    # Kernels by the bundles that have them: the targets of one bundle have mostly the same.
    bundles: dict[str, list[int]] = {}
    for entry, _, kernels in found:
        for name in kernels or ():
            numbers = bundles.setdefault(name, [])
            if entry.number not in numbers:
                numbers.append(entry.number)
    if bundles:
        readable = demangle(bundles, llvm)
        print(f"\n{len(bundles):,} kernel{'s' * (len(bundles) > 1)} (in bundle)")
        for name, numbers in bundles.items():
            print(f"  {printable(beside(name, readable))}  ({', '.join(map(str, numbers))})")


def names(file: str, entries: Sequence[Entry]) -> dict[Entry, str]:
    """The file name for each image of *file*: the same each time, whatever is extracted."""
    targets = Counter((entry.number, entry.target) for entry in entries)
    found: dict[Entry, str] = {}
    for entry in entries:
        alone = entry.target and targets[entry.number, entry.target] == 1
        safe = re.sub(r"[^A-Za-z0-9._+-]", "_", entry.target if alone else entry.id)
        found[entry] = f"{os.path.basename(file)}.{entry.number}.{safe}.co"
    taken = Counter(found.values())
    return {
        entry: name if taken[name] == 1 else f"{name[:-3]}.{entry.index}.co"
        for entry, name in found.items()
    }


def _write(
    file: str,
    entries: Sequence[Entry],
    named: dict[Entry, str],
    folder: str,
    force: bool,
    json_: bool,
) -> None:
    import tempfile

    from coasm.bundle import extract as image_of
    from coasm.bundle.select import kind_of
    from coasm.errors import FormatError, OutputError
    from coasm.output import check_target, write_file

    if os.path.exists(folder) and not os.path.isdir(folder):
        raise OutputError(f"{folder}: is not a directory")
    made = not os.path.isdir(folder)
    written: list[tuple[Entry, str]] = []
    passed: list[tuple[Entry, str]] = []
    try:
        os.makedirs(folder, exist_ok=True)
        for entry in entries:
            check_target(os.path.join(folder, named[entry]), force=force, inputs=(file,))
        # All or nothing: a damaged bundle further on leaves no file behind.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".coasm-") as staging:
            for entry in entries:
                name = named[entry]
                data = image_of(entry)
                kind = kind_of(data)
                if kind == "code object":
                    write_file(os.path.join(staging, name), data)
                    written.append((entry, name))
                else:
                    passed.append((entry, kind))
            if not written:
                entry, kind = passed[0]
                raise FormatError(f"{file}: no code object in it: {entry.name} is {kind}")
            for _, name in written:
                os.replace(os.path.join(staging, name), os.path.join(folder, name))
    except OSError as error:
        raise OutputError(f"{folder}: {error.strerror or error}") from None
    finally:
        if made and os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)
    paths = [os.path.normpath(os.path.join(folder, name)) for _, name in written]
    if json_:
        import json

        rows = [
            {**_row(entry, "code object"), "output": path}
            for (entry, _), path in zip(written, paths, strict=True)
        ]
        print(json.dumps({"path": file, "images": rows}, indent=2))
    else:
        for (entry, _), path in zip(written, paths, strict=True):
            print(printable(f"{path}: {entry.target}, {entry.size:,} bytes"))
    for entry, kind in passed:
        print(printable(f"coasm: not extracted: {entry.name}: {kind}"), file=sys.stderr)
