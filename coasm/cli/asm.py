"""``coasm asm``: a listing assembled and linked into a code object."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

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
from coasm.cli.terminal import printable

if TYPE_CHECKING:
    from coasm.asm.source import SourceOptions

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
    from coasm.asm.assemble import assemble
    from coasm.codeobject import load
    from coasm.errors import CoasmError, FormatError
    from coasm.linter.sources import declaration_warnings
    from coasm.opening import open_code_object, read_given
    from coasm.output import check_target, write_file

    usual = output is None
    if output is None:
        if file == "-":
            raise CoasmError("standard input needs -o FILE")
        output = os.path.splitext(file)[0] + ".rebuilt.co"
    check_target(output, force=True, inputs=(file, *([like] if like else [])))
    given = read_given(file)
    if given.data.startswith(b"\x7fELF"):
        raise FormatError(f"{given.name}: a code object, not a listing; coasm disasm makes one")
    text, name = given.text, given.name
    options = source_options(target, code_object_version, include, defsym)
    original = open_code_object(like, llvm=llvm) if like is not None else None
    result = assemble(text, llvm, name=name, like_object=original, options=options)
    if not force:
        _check_replaced(output, usual, text, name, result.data)
    write_file(output, result.data)
    same = original is not None and original.data == result.data
    warnings = list(result.warnings)
    if not lint:
        warnings += declaration_warnings(load(result.data, name=name), result.llvm)
    for note in result.notes:
        print(f"coasm: {printable(f'{name}: {note}')}", file=sys.stderr)
    for warning in warnings:
        print(f"coasm: warning: {printable(warning)}", file=sys.stderr)
    findings = _lint(text, name, llvm, options) if lint else None
    if json_ and output != "-":
        import json

        print(
            json.dumps(
                {
                    "path": file,
                    "output": output,
                    "target": str(result.target),
                    "code_object_version": result.code_object_version,
                    "notes": result.notes,
                    "bytes": len(result.data),
                    "pins_restored": result.pins,
                    "pins_lost": result.lost,
                    "identical": same if original is not None else None,
                    "warnings": warnings,
                    "lint": findings,
                }
            )
        )
        return
    said = [f"{len(result.data):,} bytes"]
    if result.pins:
        said.append(f"{result.pins:,} pins restored")
    if result.lost:
        said.append(f"{result.lost:,} pins left for edited instructions")
    if original is not None:
        said.append("identical to the original" if same else "differs from the original")
    say = sys.stderr if output == "-" else sys.stdout
    print(f"{printable(output)}: {', '.join(said)}", file=say)


def _check_replaced(output: str, usual: bool, text: str, name: str, data: bytes) -> None:
    """Refuse to overwrite what is no earlier build; under the *usual* name any code object is."""
    from coasm.asm.original import is_original
    from coasm.codeobject import load
    from coasm.errors import OutputError
    from coasm.output import check_replaced, is_build

    new = None if usual else load(data, name=name)
    if is_original(text, name, output):
        raise OutputError(f"{output}: is what the listing was made from; --force overwrites it")
    check_replaced(output, is_build(output, new))


def _lint(text: str, name: str, llvm: str | None, options: SourceOptions) -> list[dict[str, Any]]:
    """Show what lint finds in the listing as warnings; the result is the same for JSON."""
    from coasm.cli.lint import show
    from coasm.linter.lint import judge
    from coasm.linter.report import finding_json, finding_line
    from coasm.linter.sources import listing_source

    linted = judge(listing_source(text, name, llvm, options=options))
    show((finding_line(name, found, "warning") for found in linted.findings), stderr=True)
    if linted.unjudged is not None:
        print(f"coasm: warning: {printable(linted.unjudged)}", file=sys.stderr)
    return [finding_json(found) for found in linted.findings]
