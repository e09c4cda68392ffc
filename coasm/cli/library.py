"""What ``coasm info`` shows of a file that carries code objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from coasm.cli.terminal import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

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
    from coasm.cli.tables import console as open_console
    from coasm.cli.tables import show_table

    console = open_console(160)
    distinct = len({kernel.name for kernel in found.kernels})
    print(
        printable(
            f"{found.path}: {found.bundles} bundle{'s' * (found.bundles != 1)}, "
            f"{found.objects} code object{'s' * (found.objects != 1)}, "
            f"{distinct:,} kernels by name"
        )
    )
    columns = (
        *("target", "objects>", "bytes>", "kernels>", "VGPRs>", "AGPRs>", "SGPRs>", "LDS>"),
        *("scratch>", "spilling>"),
    )
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
    show_table(console, columns, [[_shown(cell) for cell in row] for row in rows])
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
    from rich.text import Text

    from coasm.cli.tables import show_table

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
            Text("\n".join(printable(name) for name in (k.name, names.get(k.name)) if name)),
        )
        for k in chosen[:_ROWS]
    ]
    columns = (
        *("target", "code>", "VGPRs>", "SGPRs>", "LDS>", "scratch>", "VGPR spills>"),
        *("SGPR spills>", "kernel"),
    )
    show_table(console, columns, [[_shown(cell) for cell in row] for row in rows])


def _shown(value: str | int | Text) -> str | Text:
    return f"{value:,}" if isinstance(value, int) else value
