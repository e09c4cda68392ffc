"""``coasm embed``: rebuilt code objects put back into the file that carried them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coasm.cli.options import JsonOption
from coasm.cli.terminal import printable

if TYPE_CHECKING:
    from coasm.bundle.embedding import Change

__all__ = ["embed"]


def embed(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The executable, library, object file or bundle.")
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="NEW", help="The new file; FILE stays.")
    ],
    replace: Annotated[
        list[str] | None,
        typer.Option(
            "--replace",
            "-r",
            metavar="TARGET=OBJECT",
            help="The code object or listing for a target: gfx942=new.co, or gfx942#2=new.s for "
            "that of bundle 2. May be given several times.",
        ),
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(
            "--add",
            metavar="TARGET=OBJECT",
            help="A code object for a target that is not there yet; gfx950#2=new.co: in bundle 2.",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", "-f", help="Overwrite NEW even where it is no earlier build."),
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Put rebuilt code objects back into an executable or library.

    In place where the new object fits, compressed again where the bundle was; else in a new segment
    to which the fat binary's pointer is moved. All other objects keep their bytes. An object for
    another target, or without a kernel that the old one has, is refused. With --add the bundle gets
    one more object, for another target and with the kernels of those that are there. A NEW that is
    there is overwritten only with --force, unless it carries objects for the same targets as FILE.

    \b
    Examples:
      coasm embed libexample.so --replace gfx942=rebuilt.co -o new/libexample.so
      coasm embed app -r gfx1100#1=a.co -r gfx1100#2=b.co -o app.new
      coasm embed libexample.so --add gfx950=ported.co -o new/libexample.so
    """
    from coasm.bundle.embedding import embed as put
    from coasm.bundle.embedding import is_build
    from coasm.errors import CoasmError, OutputError
    from coasm.output import check_replaced, check_target, write_file

    wanted, added = _wanted("--replace", replace), _wanted("--add", add)
    if not wanted and not added:
        raise CoasmError("embed needs --replace TARGET=OBJECT or --add TARGET=OBJECT")
    check_target(output, force=True, inputs=(file, *wanted.values(), *added.values()))
    if not force:
        check_replaced(output, is_build(output, file, added=[name.split("#")[0] for name in added]))
    done = put(file, wanted, added)
    write_file(output, done.data)
    if output != "-" and os.path.isfile(output):
        try:  # an executable stays one
            os.chmod(output, os.stat(file).st_mode & 0o777)
        except OSError as error:
            raise OutputError(f"{output}: {error.strerror or error}") from None
    if json_ and output != "-":
        import json

        report = {"path": file, "output": output, "replaced": [_row(one) for one in done.changes]}
        print(json.dumps(report, indent=2))
        return
    say = sys.stderr if output == "-" else sys.stdout
    for change in done.changes:
        sizes = f"{change.old:,} -> {change.new:,} bytes"
        print(printable(f"{output}: {change.entry.name}: {sizes}, {change.where}"), file=say)
        for note in change.notes:
            print(printable(f"coasm: warning: {change.entry.name}: {note}"), file=sys.stderr)


def _wanted(option: str, given: list[str] | None) -> dict[str, str]:
    """Target → object, of ``TARGET=OBJECT``."""
    from coasm.errors import CoasmError

    wanted: dict[str, str] = {}
    for text in given or ():
        target, equals, path = text.partition("=")
        if not (target and equals and path):
            raise CoasmError(f"{option} {text}: expected TARGET=OBJECT, such as gfx942=new.co")
        if target in wanted:
            raise CoasmError(f"{option} {target}: given twice")
        wanted[target] = path
    return wanted


def _row(change: Change) -> dict[str, Any]:
    return {
        "target": change.entry.target,
        "bundle": change.entry.number,
        "id": change.entry.id,
        "old_bytes": change.old,
        "new_bytes": change.new,
        "where": change.where,
        "notes": list(change.notes),
    }
