"""What a listing is made of."""

from __future__ import annotations

from typing import NamedTuple

from coasm.asm.code import Code
from coasm.asm.references import References
from coasm.codeobject import CodeObject

__all__ = ["Content"]


class Content(NamedTuple):
    """An object, its decoded code, and what was found out about both.

    *directives* are those of each kernel descriptor by its symbol, None of one that has none,
    *yaml* the metadata, *remarks* what stands behind an instruction, by address.
    """

    co: CodeObject
    code: dict[int, Code]
    yaml: str | None
    directives: dict[str, tuple[str, ...] | None]
    remarks: dict[int, str]
    references: References
