"""What a file says of its code beside it: debug information, and the build ID."""

from __future__ import annotations

from coasm.asm.debug import is_debug
from coasm.codeobject import CodeObject
from coasm.codeobject.elf import SHT_NOTE

__all__ = ["remarks"]

_BUILD_ID = (b"GNU", 3)  # owner and type of NT_GNU_BUILD_ID. Source: the gABI's note of GNU ld


def remarks(original: CodeObject, rebuilt: CodeObject) -> tuple[str, ...]:
    """What is to be said of two files that differ: whether what they say of their code is of it."""
    found = []
    same_code = _code(original) == _code(rebuilt)
    one, other = _debug(original), _debug(rebuilt)
    if one and not other:
        found.append("without the original's debug information")
    elif other and not one:
        found.append("with debug information that the original does not have")
    elif one != other:
        found.append("other debug information")
    elif one and not same_code:
        found.append("the original's debug information, which is of other code")
    identity = _build_id(original)
    if identity and identity == _build_id(rebuilt):
        found.append("the original's build ID, though the files differ")
    return tuple(found)


def _code(co: CodeObject) -> list[tuple[int, bytes]]:
    return [(section.addr, section.data) for section in co.code_sections]


def _debug(co: CodeObject) -> list[tuple[str, bytes]]:
    return sorted((section.name, section.data) for section in co.sections if is_debug(section))


def _build_id(co: CodeObject) -> bytes:
    for section in co.sections:
        if section.type == SHT_NOTE:
            for owner, kind, identity in co.elf.notes_of(section):
                if (owner, kind) == _BUILD_ID:
                    return identity
    return b""
