"""The assembler's messages, with the user's files and lines, inside of macros too.

LLVM names the source ``<stdin>``, and a line that a macro or a repetition makes
``<instantiation>``, counted from the start of its text; notes behind say where it was used. Source:
LLVM's AsmParser.cpp, ``instantiateMacroLikeBody`` and ``printMacroInstantiations``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

__all__ = ["for_user", "warnings_in"]

_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?P<kind>error|warning|note): ")
_FROM = re.compile(r"Included from (?P<file>.+):(?P<line>\d+):$")
_USED = "while in macro instantiation"
_MADE = "<instantiation>"
_WORD = re.compile(r'\s*(?:(?:"(?:[^"\\]|\\.)*"|[\w.$@\\]+)\s*:(?!:)\s*)*([\w.$@]+)')
_MACRO = re.compile(r"\s*\.macro\s+([^\s,]+)")
_OPEN = re.compile(r"\s*\.(?:rept|irpc?)\b")
_CLOSE = re.compile(r"\s*\.endr\b")


class _Use(NamedTuple):
    """A line of a file that makes others: that of a macro's use, or of a repetition."""

    file: str
    line: int
    text: str


def for_user(messages: str, texts: Mapping[str, str]) -> str:
    """*messages* with places in *texts*: the source by its name, then the files that it includes.

    What is said of each round of a repetition alike is said once.
    """
    sources = {name: text.split("\n") for name, text in texts.items()}
    name = next(iter(sources))
    macros = _macros(sources)
    lines = [_named(line, name) for line in messages.rstrip().split("\n")]
    for at in range(len(lines) - 1, -1, -1):  # the notes of the uses first: they come behind
        found = _PLACE.match(lines[at])
        if found is None or found["file"] != _MADE:
            continue
        used = _next_use(lines, at)
        place = used and _place(used, int(found["line"]), sources, macros)
        if place:
            lines[at] = f"{place}:{found['column']}: " + lines[at][found.end("column") + 2 :]
    return "\n".join(dict.fromkeys(_blocks(lines)))


def _blocks(lines: list[str]) -> Iterator[str]:
    """Each error and warning with the notes behind it."""
    block: list[str] = []
    ahead: list[str] = []  # the files that the next message is in
    for line in lines:
        if _FROM.match(line):
            ahead.append(line)
            continue
        found = _PLACE.match(line)
        if found and found["kind"] != "note" and block:
            yield "\n".join(block)
            block = []
        block += [*ahead, line]
        ahead = []
    yield "\n".join([*block, *ahead])


def warnings_in(messages: str) -> list[str]:
    """The assembler's own warnings, a line each."""
    return [line for line in messages.split("\n") if ": warning: " in line and _PLACE.match(line)]


def _named(line: str, name: str) -> str:
    if line.startswith("<stdin>:"):
        return name + line[len("<stdin>") :]
    included = _FROM.match(line)
    if included and included["file"] == "<stdin>":
        return f"Included from {name}:{included['line']}:"
    return line


def _next_use(lines: list[str], at: int) -> _Use | None:
    """What made the line that the message at *at* is about: the next note of a use."""
    for number in range(at + 1, len(lines)):
        found = _PLACE.match(lines[number])
        if found is None:
            continue
        if found["kind"] != "note" or not lines[number].endswith(_USED):
            return None
        text = lines[number + 1] if number + 1 < len(lines) else ""
        return _Use(found["file"], int(found["line"]), text)
    return None


def _macros(sources: Mapping[str, list[str]]) -> dict[str, tuple[str, int]]:
    """Macro → the file and the line (from 1 on) of its definition; the last one of a name."""
    found = {}
    for file, lines in sources.items():
        for number, line in enumerate(lines, 1):
            named = _MACRO.match(line) if ".macro" in line else None
            if named:
                found[named[1]] = file, number
    return found


def _place(
    used: _Use, line: int, sources: Mapping[str, list[str]], macros: Mapping[str, tuple[str, int]]
) -> str | None:
    """The file and line of the body's *line*; None where it cannot be told."""
    if _OPEN.match(used.text):  # the text of a repetition is its body, again and again
        length = _length(sources.get(used.file, []), used.line)
        return f"{used.file}:{used.line + 1 + (line - 1) % length}" if length else None
    word = _WORD.match(used.text)
    if word is None or word[1] not in macros:
        return None
    file, start = macros[word[1]]
    return f"{file}:{start + line}"


def _length(lines: list[str], start: int) -> int:
    """How many lines the repetition has whose directive is line *start*; 0: it has no end."""
    depth = 1
    for number, line in enumerate(lines[start:]):
        depth += bool(_OPEN.match(line)) - bool(_CLOSE.match(line))
        if not depth:
            return number
    return 0
