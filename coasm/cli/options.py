"""Options and arguments that several commands take, declared once."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["JsonOption", "KernelOption", "LlvmOption"]

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
