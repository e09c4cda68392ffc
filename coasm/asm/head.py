"""The comment at the top of a listing. (:mod:`coasm.asm.original` reads what it says.)"""

from __future__ import annotations

import os
from typing import NamedTuple

from coasm.asm.debug import debug_line
from coasm.asm.linking import NO_PADDING, link_line
from coasm.asm.names import display
from coasm.codeobject import CodeObject

__all__ = ["Head", "head_lines"]


class Head(NamedTuple):
    """What the head says beside what the object says of itself.

    ``digest`` is the object's SHA-256. ``commands`` are that of coasm which builds the listing, and
    that of clang, None where there is none.
    """

    digest: str
    features: tuple[str, ...]
    linking: tuple[str, ...]
    commands: tuple[str, str | None]


def head_lines(co: CodeObject, head: Head, warnings: tuple[str, ...]) -> list[str]:
    """The comment at the top: what the listing came from and how it is assembled."""
    digest, features, linking, commands = head
    lines = [
        f"// Listing of {display(os.path.basename(co.name))}",
        f"// sha256 {digest}",
        f"// {co.target}, code object v{co.code_object_version}",
        "//",
        f"// {display(commands[0])}",
    ]
    if commands[1] is not None:
        lines += [
            f"// {display(commands[1])}",
            "//   (clang alone leaves LLVM's encoding where a `pin` comment holds the original's"
            + (", and makes room in the RELRO segment)" if NO_PADDING in linking else ")"),
        ]
    if features or linking:
        lines.append("//")
    if features:
        lines.append(f"// coasm: features {' '.join(features)}")
    if linking:
        lines.append(link_line(linking))
    debug = debug_line(co.elf)
    if debug is not None:
        lines += ["//", debug]
    if co.code_object_version < 4:
        lines += ["//", "// LLVM no longer writes code object v3: this listing says v4."]
    if warnings:
        lines += [
            "//",
            "// An edit between these and what they reach breaks a distance in the code:",
        ]
        lines += [f"//   {display(w)}" for w in warnings]
    return [*lines, ""]
