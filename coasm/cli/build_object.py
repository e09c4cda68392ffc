"""What ``coasm asm`` does; without typer, whose import takes half as long as an assembler.

What the assembler does not need is imported while it works.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from coasm.cli.terminal import printable

if TYPE_CHECKING:
    from coasm.asm.assemble import Result
    from coasm.asm.source import SourceOptions
    from coasm.llvm import Llvm

__all__ = ["build_object"]


def build_object(
    file: str,
    *,
    output: str | None = None,
    like: str | None = None,
    force: bool = False,
    lint: bool = False,
    options: SourceOptions | None = None,
    json_: bool = False,
    llvm: str | None = None,
    tools: Llvm | None = None,
) -> None:
    """Build the listing *file* and say so; see ``coasm asm --help``.

    *tools* are those of the assembler that is at work on it already.
    """
    from coasm.errors import CoasmError, FormatError
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
    original = open_code_object(like, llvm=llvm) if like is not None else None
    if tools is not None:
        from coasm.asm.linking import linker_options, linking_for
        from coasm.llvm.prefetch import start_linker

        start_linker(tools, linker_options(linking_for(text, original)))
    # What is needed once the assembler has ended, and takes time.
    import msgpack  # noqa: F401

    import coasm.notes.faults  # noqa: F401
    from coasm.asm.assemble import assemble
    from coasm.asm.source import NO_OPTIONS
    from coasm.linter.built import declaration_warnings
    from coasm.linter.declared import named_in

    named_in(text)
    options = NO_OPTIONS if options is None else options
    directory = llvm if tools is None else tools.directory
    result = assemble(text, directory, name=name, like_object=original, options=options)
    if not force:
        _check_replaced(output, usual, text, name, result.data)
    write_file(output, result.data)
    warnings = list(result.warnings)
    if not lint:
        warnings += declaration_warnings(result.co, result.llvm, text)
    for note in result.notes:
        print(f"coasm: {printable(f'{name}: {note}')}", file=sys.stderr)
    for warning in warnings:
        print(f"coasm: warning: {printable(warning)}", file=sys.stderr)
    findings = _lint(text, name, llvm, options) if lint else None
    same = original.data == result.data if original is not None else None
    if json_ and output != "-":
        import json

        print(json.dumps(_report(file, output, result, same, warnings, findings)))
    else:
        say = sys.stderr if output == "-" else sys.stdout
        print(f"{printable(output)}: {_said(result, same)}", file=say)


def _report(
    file: str,
    output: str,
    result: Result,
    same: bool | None,
    warnings: list[str],
    findings: list[dict[str, Any]] | None,
) -> dict[str, Any]:
    return {
        "path": file,
        "output": output,
        "target": str(result.target),
        "code_object_version": result.code_object_version,
        "notes": result.notes,
        "bytes": len(result.data),
        "pins_restored": result.pins,
        "pins_lost": result.lost,
        "identical": same,
        "warnings": warnings,
        "lint": findings,
    }


def _said(result: Result, same: bool | None) -> str:
    said = [f"{len(result.data):,} bytes"]
    if result.pins:
        said.append(f"{result.pins:,} pins restored")
    if result.lost:
        said.append(f"{result.lost:,} pins left for edited instructions")
    if same is not None:
        said.append("identical to the original" if same else "differs from the original")
    return ", ".join(said)


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
