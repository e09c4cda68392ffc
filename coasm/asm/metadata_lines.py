"""Where the metadata of a listing says what: its kernels and their keys, by line.

Read are the lines as :func:`coasm.notes.yaml.to_yaml` lays them out, which an edit of a value
leaves: one key a line. A kernel that is written otherwise is not found; nothing but what is shown
or said depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = ["KernelLines", "Value", "kernel_lines", "metadata_span", "scalar"]

_ENTRY = re.compile(r"( *)- (?=\S)")
_KEY = re.compile(r"( *)(\.\w+):(?: +(?!/[/*])(.*?))?[ \t]*(//.*)?\r?")


class Value(NamedTuple):
    """A scalar of a kernel's map: its line (0-based) and its text; *comment* stands behind it."""

    line: int
    text: str
    comment: str = ""


class KernelLines(NamedTuple):
    """One entry of ``amdhsa.kernels``: its lines from *first* to before *end*, and its scalars."""

    first: int
    end: int
    values: dict[str, Value]

    @property
    def symbol(self) -> str:
        """The descriptor's symbol; empty where there is none."""
        found = self.values.get(".symbol")
        return scalar(found.text) if found else ""


def metadata_span(lines: Sequence[str]) -> tuple[int, int] | None:
    """The lines between ``.amdgpu_metadata`` and its end; None where there are none."""
    first, end = None, len(lines)
    for number in range(len(lines) - 1, -1, -1):  # it is the last that a listing has
        text = lines[number].strip()
        if text == ".end_amdgpu_metadata":
            end = number
        elif text == ".amdgpu_metadata":
            first = number + 1
            break
    return None if first is None else (first, end)


def kernel_lines(lines: Sequence[str]) -> Iterator[KernelLines]:
    """The kernels in the metadata of a listing's *lines*."""
    span = metadata_span(lines)
    if span is None:
        return
    at, last = span
    while at < last and not lines[at].startswith("amdhsa.kernels:"):
        at += 1
    at += 1
    while at < last:
        entry = _ENTRY.match(lines[at])
        if entry is None:
            return
        end = at + 1
        while end < last and _deeper(lines[end], len(entry[1])):
            end += 1
        yield KernelLines(at, end, _values(lines, at, end, len(entry[0])))
        at = end


def _deeper(line: str, indent: int) -> bool:
    return not line.strip() or len(line) - len(line.lstrip(" ")) > indent


def _values(lines: Sequence[str], first: int, end: int, indent: int) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for number in range(first, end):
        line = lines[number] if number > first else " " * indent + lines[number][indent:]
        if line.startswith(" " * indent + "."):
            key = _KEY.fullmatch(line)
            if key and key[3]:
                found[key[2]] = Value(number, key[3], key[4] or "")
    return found


def scalar(text: str) -> str:
    """What a scalar says, without the tag and the quotes that :func:`to_yaml` may give it."""
    if text.startswith("!str "):
        text = text[5:].strip()
    if text[:1] == text[-1:] == '"' and len(text) > 1:
        return re.sub(r'\\(["\\])', r"\1", text[1:-1])
    return text
