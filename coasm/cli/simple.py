"""Command lines that are read without typer, whose import takes as long as what they do.

Whatever is not known here, help and mistakes included, is left to typer, and means the same there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["OPTIONS", "simple"]

_BOTH = {
    "-o": ("output", True),
    "--output": ("output", True),
    "-f": ("force", False),
    "--force": ("force", False),
    "--json": ("json_", False),
    "--llvm": ("llvm", True),
}
#: Command → option → (parameter of the command's function, whether a value follows).
OPTIONS: dict[str, dict[str, tuple[str, bool]]] = {
    "disasm": {**_BOTH, "--kernel": ("kernel", True)},
    "asm": {**_BOTH, "--like": ("like", True)},
}


def simple(command: str, arguments: Sequence[str]) -> dict[str, Any] | None:
    """The parameters that *arguments* name, ``file`` among them; None where typer must read."""
    options = OPTIONS[command]
    found: dict[str, Any] = {}
    waiting: str | None = None
    for argument in arguments:
        if waiting is not None:
            if argument.startswith("-") and argument != "-":
                return None
            found[waiting], waiting = argument, None
        elif argument in options:
            name, takes_value = options[argument]
            if name in found:
                return None
            if takes_value:
                waiting = name
            else:
                found[name] = True
        elif argument.startswith("-") or not argument or "file" in found:
            return None
        else:
            found["file"] = argument
    return found if "file" in found and waiting is None else None
