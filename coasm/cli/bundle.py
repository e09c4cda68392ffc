"""``coasm bundle``: code objects for several targets made into one offload bundle."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from coasm.cli.options import JsonOption, LlvmOption
from coasm.cli.terminal import printable

__all__ = ["bundle"]


def bundle(
    objects: Annotated[
        list[str],
        typer.Argument(
            metavar="OBJECT...", help="Code objects or listings, or LIBRARY:TARGET; one a target."
        ),
    ],
    output: Annotated[str, typer.Option("--output", "-o", metavar="OUT.hipfb", help="The bundle.")],
    compress: Annotated[
        bool, typer.Option("--compress", help="Compressed with zstd (CCOB version 2).")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Overwrite OUT even where it is no earlier build.")
    ] = False,
    json_: JsonOption = False,
    llvm: LlvmOption = None,
) -> None:
    """Make an offload bundle (a fat binary) of code objects, as hipModuleLoad takes it.

    It is what clang-offload-bundler writes with the alignment that hipcc gives it: an empty entry
    for the host, then one for each object, in their order. An OUT that is there is overwritten only
    with --force, unless it is a bundle for the same targets.

    \b
    Examples:
      coasm bundle k942.co k950.co -o kernels.hipfb
      coasm bundle edited.s libexample.so:gfx1100 -o kernels.hipfb --compress
    """
    from coasm.bundle.making import bundle_of, is_bundle_for
    from coasm.opening import open_code_object
    from coasm.output import check_replaced, check_target, write_file

    check_target(output, force=True, inputs=tuple(objects))
    opened = [open_code_object(spec, llvm=llvm) for spec in objects]
    data = bundle_of(opened, compress=compress)
    if not force:
        check_replaced(output, is_bundle_for(output, opened))
    write_file(output, data)
    if json_ and output != "-":
        import json

        images = [{"target": str(co.target), "bytes": len(co.data)} for co in opened]
        print(json.dumps({"output": output, "bytes": len(data), "images": images}, indent=2))
        return
    targets = ", ".join(str(co.target) for co in opened)
    say = sys.stderr if output == "-" else sys.stdout
    print(printable(f"{output}: {len(data):,} bytes: {targets}"), file=say)
