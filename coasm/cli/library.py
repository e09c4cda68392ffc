"""What ``coasm info`` shows of a file that carries code objects."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from coasm.cli.terminal import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from coasm.bundle.summary import KernelUse, Summary

__all__ = ["show_library"]

#: Rows of the tables of kernels.
_ROWS = 12


def show_library(path: str, llvm: str | None, json: bool) -> None:
    """Sum up the code objects that the file at *path* carries.

    Raises:
        CoasmError: it carries none, or is damaged.
    """
    from coasm.bundle import find
    from coasm.bundle.summary import summarize
    from coasm.demangle import demangle

    found = summarize(path, find(path))
    names = demangle((kernel.name for kernel in found.kernels), llvm)
    if json:
        _json(found, names)
    else:
        _show(found, names)


def _json(found: Summary, names: dict[str, str]) -> None:
    from dataclasses import asdict
    from json import dumps

    kernels = [{**asdict(k), "demangled": names.get(k.name)} for k in found.kernels]
    document = {
        "path": found.path,
        "bundles": found.bundles,
        "objects": found.objects,
        "targets": [asdict(target) for target in found.targets],
        "kernels": kernels,
        "other": [{"image": entry.name, "is": what} for entry, what in found.other],
    }
    print(dumps(document, indent=2))


def _show(found: Summary, names: dict[str, str]) -> None:
    from rich.console import Console

    wide = None if sys.stdout.isatty() else 160
    console = Console(width=wide, highlight=False, markup=False, emoji=False)
    distinct = len({kernel.name for kernel in found.kernels})
    print(
        printable(
            f"{found.path}: {found.bundles} bundles, {found.objects} code objects, "
            f"{distinct:,} kernels by name"
        )
    )
    columns = ("target", "objects", "bytes", "kernels", "VGPRs", "AGPRs", "SGPRs", "LDS", "scratch")
    rows = [
        (
            t.target,
            t.objects,
            t.bytes,
            t.kernels,
            t.vgprs,
            t.agprs,
            t.sgprs,
            t.lds,
            t.scratch,
            t.spilling,
        )
        for t in found.targets
    ]
    console.print()
    console.print(_table((*columns, "spilling"), rows))
    print("registers of a lane and a wave, LDS and scratch in bytes: the most that a kernel takes")
    _kernels(console, "Largest kernels", found.kernels, lambda k: k.code, names)
    _kernels(console, "Kernels that spill", found.kernels, lambda k: k.spills, names)
    if not any(kernel.spills for kernel in found.kernels):
        print("\nNo kernel spills registers.")
    for entry, what in found.other:
        print(printable(f"{entry.name}: {what}"))


def _kernels(
    console: Console,
    title: str,
    kernels: Sequence[KernelUse],
    by: Callable[[KernelUse], int],
    names: dict[str, str],
) -> None:
    """The kernels with the most of something, each with the target where it has the most."""
    most: dict[str, KernelUse] = {}
    for kernel in kernels:
        if by(kernel) and (kernel.name not in most or by(kernel) > by(most[kernel.name])):
            most[kernel.name] = kernel
    chosen = sorted(most.values(), key=by, reverse=True)
    if not chosen:
        return
    more = f" ({_ROWS} of {len(chosen):,}, --json has all)" if len(chosen) > _ROWS else ""
    console.print(f"\n{title}{more}", style="bold")
    rows = [
        (
            k.target,
            k.code,
            k.vgprs,
            k.sgprs,
            k.lds,
            k.scratch,
            k.vgpr_spills,
            k.sgpr_spills,
            "\n".join(printable(name) for name in (k.name, names.get(k.name)) if name),
        )
        for k in chosen[:_ROWS]
    ]
    columns = ("target", "code", "VGPRs", "SGPRs", "LDS", "scratch")
    console.print(_table((*columns, "VGPR spills", "SGPR spills", "kernel"), rows))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str | int]]) -> Table:
    """A table; the columns of numbers are set flush right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column, example in zip(columns, rows[0], strict=True):
        number = isinstance(example, int)
        table.add_column(
            column, justify="right" if number else "left", no_wrap=number, overflow="fold"
        )
    for row in rows:
        cells = (f"{v:,}" if isinstance(v, int) else printable(v, multiline=True) for v in row)
        table.add_row(*map(Text, cells))
    return table
