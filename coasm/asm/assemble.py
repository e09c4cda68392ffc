"""A listing, edited or not, → a code object: what ``coasm asm`` does."""

from __future__ import annotations

from dataclasses import dataclass

from coasm.asm.build import assemble_text, link_object
from coasm.asm.like import like
from coasm.codeobject import CodeObject
from coasm.llvm import Llvm

__all__ = ["Result", "assemble"]


@dataclass(frozen=True)
class Result:
    """A built code object, and what a person should know about it.

    ``pins`` counts the pinned instructions whose original encoding was restored, ``lost`` those
    that LLVM now encodes otherwise (they were edited). ``warnings`` are one line each.
    """

    data: bytes
    pins: int
    lost: int
    warnings: tuple[str, ...]


def assemble(
    text: str, llvm: Llvm, *, name: str = "<listing>", like_object: CodeObject | None = None
) -> Result:
    """Assemble and link the listing *text*; *name* stands for it in messages.

    With *like_object* the file is laid out as that object where it is not loaded.

    Raises:
        AssemblyError: the assembler or the linker refused it.
        UnsupportedError: it names no target, or one that cannot be written.
    """
    what, built = assemble_text(name, text, llvm)
    assert built.object is not None
    data = link_object(built.object, llvm)
    warnings = [line for line in _tool_warnings(built.messages, name)]
    if like_object is not None:
        kept = like(data, like_object)
        data = kept.data
        warnings += [f"not kept: {remark}" for remark in kept.remarks]
        if like_object.target != what.target:
            warnings.append(
                f"the listing is for {what.target}, the original for {like_object.target}"
            )
    return Result(data, len(built.pins) - len(built.lost), len(built.lost), tuple(warnings))


def _tool_warnings(messages: str, name: str) -> list[str]:
    """The assembler's own warnings, a line each, with the name of the listing."""
    return [
        line.replace("<stdin>", name, 1)
        for line in messages.split("\n")
        if line.startswith("<stdin>:") and ": warning: " in line
    ]
