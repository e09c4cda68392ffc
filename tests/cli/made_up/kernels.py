"""``coasm kernels``: the kernels of an object. A made-up command: see docs/where-to-touch.md."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from coasm.cli.options import JsonOption
from coasm.cli.terminal import printable

__all__ = ["kernels"]


def kernels(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The object.")],
    json_: JsonOption = False,
) -> int:
    """List the kernels of an object.

    \b
    Examples:
      coasm kernels kernel.co

    Exit status: 0 there are some, 1 there are none.
    """
    from coasm.opening import open_code_object

    names = [kernel.name for kernel in open_code_object(file).kernels]
    print(json.dumps(names) if json_ else "\n".join(map(printable, names)))
    return 0 if names else 1
