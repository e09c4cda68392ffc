"""``coasm disasm``: a code object as editable assembly."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from coasm.cli.options import JsonOption, LlvmOption
from coasm.cli.terminal import printable

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
    json_: JsonOption = False,
    llvm: LlvmOption = None,
) -> None:
    """Write a code object as assembly that can be edited, and prove that it assembles back.

    The listing is assembled before it is written: every instruction that LLVM would encode
    otherwise carries its original encoding in a "pin" comment, which coasm asm restores as long as
    the instruction is not edited.

    \b
    Examples:
      coasm disasm kernel.co                  writes kernel.s
      coasm disasm kernel.co -o work/k.s
      coasm disasm kernel.co -o - | less
      coasm disasm libkernels.so:gfx942       writes libkernels.so.gfx942.s
    """
    from coasm.asm.exact import exact_listing
    from coasm.bundle.opening import open_code_object
    from coasm.llvm import find_llvm, prefetch
    from coasm.output import check_target, write_file

    path = _listing_name(file) if output is None else output
    check_target(path, force=force, inputs=(file,))
    co = open_code_object(file)
    tools = find_llvm(llvm, processor=co.target.name)
    shown = _listing_name(file) if path == "-" else path
    found = exact_listing(co, tools, dump=prefetch.take(file, tools.objdump), output=shown)
    write_file(path, found.text.encode("utf-8", "surrogateescape"))
    if json_ and path != "-":
        import json

        print(
            json.dumps(
                {
                    "path": file,
                    "output": path,
                    "target": str(co.target),
                    "code_object_version": co.code_object_version,
                    "kernels": [k.name for k in co.kernels],
                    "instructions": found.instructions,
                    "raw": found.raw,
                    "pinned": found.pinned,
                    "warnings": list(found.warnings),
                }
            )
        )
        return
    counts = [f"{found.instructions:,} instructions"]
    if found.pinned:
        counts.append(f"{found.pinned:,} pinned")
    if found.raw:
        counts.append(f"{found.raw:,} as data")
    kernels = len(co.kernels)
    say = sys.stderr if path == "-" else sys.stdout
    print(
        f"{printable(path)}: {co.target}, {kernels} kernel{'s' * (kernels != 1)}, "
        f"{', '.join(counts)}; assembles to the same bytes",
        file=say,
    )
    for warning in found.warnings:
        print(f"coasm: warning: {printable(warning)}", file=sys.stderr)


def _listing_name(file: str) -> str:
    """Where the listing of *file* goes: beside it, with the target in the name of one inside."""
    if os.path.exists(file):
        return os.path.splitext(file)[0] + ".s"
    folder, name = os.path.split(file)
    return os.path.join(folder, name.replace(":", ".").replace("#", ".") + ".s")
