"""The assembler's messages, with the user's files and lines, inside of macros too.

LLVM names the source ``<stdin>``, and a line that a macro or a repetition makes
``<instantiation>``, counted from the start of its text; notes behind say where it was used. Source:
LLVM's AsmParser.cpp, ``instantiateMacroLikeBody`` and ``printMacroInstantiations``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

__all__ = ["for_user", "summed_up", "warnings_in"]

#: Errors that are shown one by one; of more the first few, and how many there are.
_ALL, _FEW = 10, 3
#: What LLVM says of an instruction that another target has.
_FOREIGN = "instruction not supported on this GPU"

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


def summed_up(messages: str, target: str) -> str:
    """*messages* of :func:`for_user`, of a source that was refused for *target*, made short.

    Where most of many errors are instructions that the target does not have, that is the one error.
    """
    blocks = list(_blocks(messages.split("\n")))
    errors = [(block, said) for block in blocks if (said := _said(block)) is not None]
    if len(errors) <= _ALL:
        return messages
    foreign = [(block, said) for block, said in errors if said.startswith(_FOREIGN)]
    if 2 * len(foreign) > len(errors):
        block, said = foreign[0]
        rest = len(errors) - len(foreign)
        beside = f", and {rest:,} other error{'s' * (rest > 1)}" if rest else ""
        return block.replace(
            said,
            f"{target} does not have this instruction, nor {len(foreign) - 1:,} more of this "
            f"source{beside}; is it for another target (.amdgcn_target, --target)?",
            1,
        )
    kinds = Counter(said for _, said in errors[_FEW:])
    named = [f"{count:,} times {said}" for said, count in kinds.most_common(_FEW)]
    left = len(errors) - _FEW
    other = left - sum(count for _, count in kinds.most_common(_FEW))
    named += [f"{other:,} other"] if other else []
    shown = [block for block, _ in errors[:_FEW]]
    return "\n".join([*shown, f"and {left:,} more errors: {'; '.join(named)}"])


def _said(block: str) -> str | None:
    """What the error says that a block is about; None where it is about none."""
    for line in block.split("\n"):
        found = _PLACE.match(line)
        if found is not None:
            return line[found.end() :] if found["kind"] == "error" else None
    return None


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
