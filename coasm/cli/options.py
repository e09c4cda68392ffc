"""Options and arguments that several commands take, declared once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from coasm.asm.source import SourceOptions

__all__ = [
    "DefsymOption",
    "IncludeOption",
    "JsonOption",
    "KernelOption",
    "LlvmOption",
    "TargetOption",
    "VersionOption",
    "source_options",
]

#: ``--llvm DIR``: the value is what :func:`coasm.llvm.find_llvm` takes.
LlvmOption = Annotated[
    str | None,
    typer.Option(
        "--llvm",
        metavar="DIR",
        help="Directory of the LLVM tools (default: COASM_LLVM, ROCm's, the newest installed).",
    ),
]

#: ``--kernel NAME``: the value is what :func:`coasm.kernels.find_kernel` takes.
KernelOption = Annotated[
    str | None,
    typer.Option(
        "--kernel",
        metavar="NAME",
        help="Only this kernel: its symbol, demangled name, or a part that no other has.",
    ),
]

#: ``--json``: machine-readable output on standard output.
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

#: What is said of an assembly source beside its text: see :class:`coasm.asm.source.SourceOptions`.
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="ID",
        help="Of a source: what it is for, such as gfx942:xnack- (default: what it says).",
    ),
]
VersionOption = Annotated[
    int | None,
    typer.Option(
        "--code-object-version",
        metavar="N",
        min=4,
        max=6,
        help="Of a source: 4, 5 or 6 (default: what it says, or else LLVM's).",
    ),
]
IncludeOption = Annotated[
    list[str] | None,
    typer.Option("-I", metavar="DIR", help="Of a source: a folder that it includes files from."),
]
DefsymOption = Annotated[
    list[str] | None,
    typer.Option("--defsym", metavar="NAME=VALUE", help="Of a source: a symbol that it uses."),
]


def source_options(
    target: str | None, version: int | None, include: list[str] | None, defsym: list[str] | None
) -> SourceOptions:
    """The four options above as one value."""
    from coasm.asm.source import SourceOptions

    return SourceOptions(target, version, tuple(include or ()), tuple(defsym or ()))
