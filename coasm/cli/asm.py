"""``coasm asm``: a listing assembled and linked into a code object."""

from __future__ import annotations

from typing import Annotated

import typer

from coasm.cli.options import (
    DefsymOption,
    IncludeOption,
    JsonOption,
    LlvmOption,
    TargetOption,
    VersionOption,
    source_options,
)

__all__ = ["asm"]


def asm(
    file: Annotated[
        str, typer.Argument(metavar="FILE.s", help="The listing (- is standard input).")
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The code object (default: FILE's name with .rebuilt.co).",
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            "--like", metavar="ORIG.co", help="Lay out what is not loaded as in this object."
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", "-f", help="Overwrite FILE even where it is no earlier build."),
    ] = False,
    lint: Annotated[
        bool, typer.Option("--lint", help="Warn of what coasm lint finds in the listing.")
    ] = False,
    target: TargetOption = None,
    code_object_version: VersionOption = None,
    include: IncludeOption = None,
    defsym: DefsymOption = None,
    json_: JsonOption = False,
    llvm: LlvmOption = None,
) -> None:
    """Assemble and link a listing; restore the encodings that its "pin" comments hold.

    Any source that LLVM's assembler takes is taken. The target and the code object version are
    those that it names, in its directives or its metadata, or that you do. A pin is restored only
    where LLVM again encodes the text as it did when the listing was written, so an edited
    instruction is what you wrote. With --like an unedited listing gives the identical file.

    A file that is there is overwritten only with --force, unless it is an earlier build: a code
    object with one of the listing's kernels, and not the original that the listing was made from.

    What --lint finds are warnings: they do not change the exit status (coasm lint does).

    \b
    Examples:
      coasm asm kernel.s                      writes kernel.rebuilt.co
      coasm asm kernel.s -o rebuilt/kernel.co --like kernel.co
      coasm asm theirs.s --target gfx942 -I include --defsym TILE=64
    """
    from coasm.cli.build_object import build_object

    build_object(
        file,
        output=output,
        like=like,
        force=force,
        lint=lint,
        options=source_options(target, code_object_version, include, defsym),
        json_=json_,
        llvm=llvm,
    )
