"""Where in its line what a finding is about stands: an operand, or the instruction."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from coasm.linter.findings import Finding

__all__ = ["with_column"]

_LABELS = re.compile(r"\s*(?:(?:[\w.$@]+|\"[^\"]*\")\s*:\s*)*")
_WORD = re.compile(r"[^\s;/]+")
_REGISTER = re.compile(r"(?<![\w.])(s|v|a|ttmp)(?:(\d+)|\[(\d+)(?::(\d+))?\])(?![\w\]])")
_NAMED = re.compile(r"(?<![\w.])(vcc|exec|m0|scc)(?:_lo|_hi)?(?!\w)")


def with_column(
    finding: Finding, own: Sequence[str], files: Mapping[str, Sequence[str]]
) -> Finding:
    """*finding* with the text of its line and the column in it.

    *own* are the lines of the source, *files* those of what it includes. The operand is the first
    that has a register which the message names, a source before a result where it is about a read;
    the instruction's name where none has.
    """
    place = finding.place
    lines = own if place.file is None else files.get(place.file, ())
    if place.line is None or not 1 <= place.line <= len(lines):
        return finding
    source = lines[place.line - 1].rstrip("\r")
    start = _LABELS.match(source)
    word = _WORD.search(source, start.end() if start else 0)
    if word is None:
        return finding
    low, high = _operand(source, word.end(), finding.what) or word.span()
    place = place._replace(source=source, column=low + 1, width=high - low)
    return finding._replace(place=place)


def _operand(source: str, start: int, message: str) -> tuple[int, int] | None:
    """Where the operand of *source* that the *message* is about stands."""
    wanted = _registers(message)
    names = {match[1] for match in _NAMED.finditer(message)}
    end = min(
        (at for sign in ("//", ";", "/*") if (at := source.find(sign, start)) >= 0), default=-1
    )
    code = source if end < 0 else source[:end]
    found = [m.span() for m in _REGISTER.finditer(code, start) if _registers(m[0]) & wanted]
    found += [m.span() for m in _NAMED.finditer(code, start) if m[1] in names]
    if "overw" not in message:  # what is read comes behind what is written
        sources = code.find(",", start)
        found = [span for span in found if span[0] > sources >= 0] or found
    return min(found, default=None)


def _registers(text: str) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for kind, single, low, high in _REGISTER.findall(text):
        first, last = int(single or low), int(single or high or low)
        found |= {(kind, number) for number in range(first, min(last, first + 512) + 1)}
    return found
