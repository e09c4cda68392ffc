"""Where in the text of a listing its instructions stand, and how lines are put before them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from coasm.errors import CoasmError
from coasm.linter.sources import Source

__all__ = ["Statements", "insert"]

_MACRO = re.compile(r"^\s*\.macro\s+([^\s,]+)", re.M)
_METADATA = re.compile(r"\s*\.(end_)?amdgpu_metadata\b")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//|;|/\*')
_LABEL = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^\s:"/;]+)\s*:(?!:)')
_DATA = re.compile(r"\.(?:long|int|word|short|hword|byte|quad|[248]byte)\b")


class Statements:
    """Where in the listing of a program each of its operations stands."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.macros = set(_MACRO.findall("\n".join(source.text)))
        self.inside = in_comment(source.text)
        program = source.program
        self.count: dict[int, int] = {}
        for item in program.instructions:
            line = program.lines.get(item.address)
            if line is not None:
                self.count[line.root] = self.count.get(line.root, 0) + 1

    def line(self, index: int) -> int | None:
        """The 1-based line of operation *index*."""
        line = self.source.program.lines.get(self.source.program.instructions[index].address)
        return None if line is None else line.root

    def statement(self, index: int) -> tuple[int, int] | None:
        """Where the instruction begins and ends in its line; None where that has no such one."""
        line = self.line(index)
        if line is None or self.count[line] != 1 or self._is_elsewhere(index):
            return None
        first, last = statement_of(self.source.text[line - 1], self.inside[line - 1])
        words = self.source.text[line - 1][first:last].split()
        if not words or words[0] in self.macros:
            return None
        if words[0].startswith(".") and not _DATA.match(words[0]):
            return None
        return first, last

    def _is_elsewhere(self, index: int) -> bool:
        """Whether operation *index* is of a macro's body or of an included file."""
        place = self.source.program.place(index)
        return place.file is not None or place.body is not None

    def refuse(self, index: int, advice: str) -> CoasmError:
        """Why nothing can be put before operation *index*; *advice* says what to do about it."""
        program, line = self.source.program, self.line(index)
        item = program.instructions[index]
        if line is None:
            why = self.source.remark or "its line is not known"
            where = f"{self.source.name}: {item.address:#x}"
        else:
            place = program.place(index)
            why = "an included file has it" if place.file else "a macro or a repetition makes it"
            where = f"{place.file or self.source.name}:{place.line}"
        return CoasmError(f"{where}: {item.text}: {why}; {advice}")


def in_comment(text: Sequence[str]) -> list[bool]:
    """Whether each line begins inside of a comment."""
    found = []
    inside = metadata = False
    for line in text:
        found.append(inside)
        match = None if inside else _METADATA.match(line)
        if match:
            metadata = match[1] is None
        at = len(line) if metadata else 0
        while at < len(line):
            if inside:
                end = line.find("*/", at)
                inside, at = end < 0, len(line) if end < 0 else end + 2
                continue
            token = _TOKEN.search(line, at)
            if token is None or token[0] in ("//", ";"):
                break
            inside, at = token[0] == "/*", token.end()
    return found


def statement_of(line: str, inside: bool) -> tuple[int, int]:
    """From where to where a line has its statement, behind labels and comments."""
    at = 0
    if inside:
        at = line.find("*/")
        at = len(line) if at < 0 else at + 2
    while at < len(line):
        if line[at].isspace():
            at += 1
        elif line.startswith("/*", at):
            end = line.find("*/", at)
            at = len(line) if end < 0 else end + 2
        elif line.startswith(("//", ";"), at):
            at = len(line)
        elif label := _LABEL.match(line, at):
            at = label.end()
        else:
            break
    end = len(line)
    for token in _TOKEN.finditer(line, at):
        if token[0] in ("//", ";", "/*"):
            end = token.start()
            break
    return at, at + len(line[at:end].rstrip())


def insert(line: str, at: int, added: Sequence[str]) -> list[str]:
    """The lines for *line*, with *added* before its statement, which begins *at*."""
    end = "\r" if line.endswith("\r") else ""
    head, indent = line[:at], "\t"
    if not head.strip():
        return [*(f"{head}{put}{end}" for put in added), line]
    return [head.rstrip() + end, *(f"{indent}{put}{end}" for put in added), indent + line[at:]]
