"""The faults of a source's metadata, said with the user's file and line."""

from __future__ import annotations

import re

from coasm.asm.metadata_lines import metadata_span
from coasm.codeobject import CodeObject
from coasm.codeobject.elf import SHN_UNDEF
from coasm.errors import CoasmError

__all__ = ["explained", "warnings_of"]

_REFUSED = "error: invalid HSA metadata"
_BY_YAML = r"(?m)^YAML:(\d+):(\d+): "
_PLACE = r".+?:\d+:\d+: (?:error|warning|note): |Included from "


def explained(messages: str, name: str, text: str) -> str:
    """*messages* of the assembler, with why it refuses the metadata in place of that it does."""
    lines = text.split("\n")
    span = metadata_span(lines)
    if _REFUSED not in messages or span is None:
        return messages
    from coasm.notes.faults import faults

    first, end = span
    found = []
    for fault in faults(lines[first:end]):
        number = min(first + fault.line, end - 1)
        path = f"{fault.path}: " if fault.path else ""
        place = f"{name}:{number + 1}:{fault.column + 1}"
        pointer = " " * fault.column + "^"
        found.append(f"{place}: error: metadata: {path}{fault.what}\n{lines[number]}\n{pointer}")
    if not found:
        return re.sub(_BY_YAML, lambda at: f"{name}:{first + int(at[1])}:{at[2]}: ", messages)
    return "\n".join([*_others(messages), *found])


def _others(messages: str) -> list[str]:
    """The messages that are not about the metadata."""
    blocks: list[list[str]] = []
    for line in messages.split("\n"):
        if re.match(_PLACE, line) or re.match(_BY_YAML, line) or not blocks:
            blocks.append([])
        blocks[-1].append(line)
    return [
        "\n".join(block)
        for block in blocks
        if _REFUSED not in block[0] and not re.match(_BY_YAML, block[0])
    ]


def warnings_of(co: CodeObject, name: str, text: str) -> list[str]:
    """What the assembler takes of the metadata of *co*, made of *text*, and cannot be right."""
    from coasm.notes.faults import doubts, place_of

    try:
        document = co.metadata if co.metadata_note is not None else {}
    except CoasmError:
        return []
    symbols = {s.name for s in (*co.elf.symbols, *co.elf.dynamic_symbols) if s.shndx != SHN_UNDEF}
    found = list(doubts(document, symbols))
    lines = text.split("\n") if found else []
    span = metadata_span(lines)
    said = []
    for path, what in found:
        place = place_of(lines[span[0] : span[1]], path) if span is not None else None
        where = f"{name}:{span[0] + place[0] + 1}: " if span is not None and place else ""
        key = "".join(f"[{step}]" if isinstance(step, int) else str(step) for step in path)
        said.append(f"{where}metadata: {key}: {what}")
    return said
