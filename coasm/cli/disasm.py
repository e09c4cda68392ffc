"""``coasm disasm``: a code object as editable assembly."""

from __future__ import annotations

from typing import Annotated

import typer

from coasm.cli.options import JsonOption, LlvmOption

__all__ = ["disasm"]


def disasm(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="The code object (.co, .hsaco), or LIBRARY:TARGET for one inside."
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The listing (default: FILE's name with .s; - is standard output).",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Overwrite an existing listing.")
    ] = False,
    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel",
            metavar="NAME",
            help="Show one kernel's code, descriptor and metadata, on standard output: to be read.",
        ),
    ] = None,
    json_: JsonOption = False,
    llvm: LlvmOption = None,
) -> None:
    """Write a code object as assembly that can be edited, and prove that it assembles back.

    The listing is assembled before it is written: every instruction that LLVM would encode
    otherwise carries its original encoding in a "pin" comment, which coasm asm restores as long as
    the instruction is not edited.

    What --kernel shows is a part of that listing; it does not assemble. The kernel is meant by its
    symbol, its demangled name, or a part that no other kernel has.

    \b
    Examples:
      coasm disasm kernel.co                  writes kernel.s
      coasm disasm kernel.co -o work/k.s
      coasm disasm kernel.co -o - | less
      coasm disasm libkernels.so:gfx942       writes libkernels.so.gfx942.s
      coasm disasm libkernels.so:gfx942 --kernel 'scale<float>' | less
    """
    from coasm.cli.write_listing import write_listing

    write_listing(file, output=output, force=force, json_=json_, llvm=llvm, kernel=kernel)
