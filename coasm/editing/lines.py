"""Edits of a listing's instructions, by line, until they are written down all at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coasm.editing.snapshot import Snapshot
from coasm.errors import EditError

__all__ = ["InstructionEdits", "Put", "Written"]

_INDENT = "\t"


class Put(NamedTuple):
    """A line that is put somewhere; *origin* is the line whose instruction it is, if it is one."""

    text: str
    origin: int | None = None


class Written(NamedTuple):
    """The lines of a listing with edits: where each is from, and where what was a line begins.

    ``origins`` has the line of the former listing that has the instruction of each line; ``starts``
    the line that stands where each line of the former listing stood, for its labels.
    """

    lines: list[str]
    origins: list[int | None]
    starts: list[int]


@dataclass
class _Slot:
    """What stands at the place of an instruction: ``own`` is None where it is as it was."""

    before: list[Put] = field(default_factory=list)
    own: list[Put] | None = None
    behind: list[Put] = field(default_factory=list)


class InstructionEdits:
    """Edits of the instructions of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._slots: dict[int, _Slot] = {}
        self._labels: dict[int, str] = {}

    def __bool__(self) -> bool:
        return bool(self._slots)

    def insert(self, index: int, text: str, *, behind: bool) -> None:
        """Put the lines of *text* before or behind an instruction."""
        slot = self._slot(index)
        (slot.behind if behind else slot.before).extend(_lines(text))

    def replace(self, index: int, text: str) -> None:
        """Put the lines of *text* in the place of an instruction; none of them: it is deleted."""
        self._empty(index, _lines(text))

    def take(self, index: int) -> Put:
        """An instruction as it stands, taken out of its place."""
        line, _, statement, tail = self._snapshot.statement(index)
        self._empty(index, [])
        return Put(f"{_INDENT}{statement}{tail}", line)

    def put(self, index: int, line: Put, *, behind: bool) -> None:
        """Put what was taken before or behind an instruction."""
        slot = self._slot(index)
        (slot.behind if behind else slot.before).append(line)

    def swap(self, one: int, other: int) -> None:
        """Each of two instructions in the place of the other."""
        texts = self.take(one), self.take(other)
        self._slot(one).own, self._slot(other).own = [texts[1]], [texts[0]]

    def label(self, index: int) -> str:
        """The name of a label where an instruction stands."""
        if index not in self._labels:
            taken = "\n".join(self._snapshot.lines)
            number = len(self._labels)
            while f".Lcoasm_{number}:" in taken or f".Lcoasm_{number}" in self._labels.values():
                number += 1
            self._labels[index] = f".Lcoasm_{number}"
            self._slot(index).before.insert(0, Put(f".Lcoasm_{number}:"))
        return self._labels[index]

    def touched(self, low: int, high: int) -> bool:
        """Whether any instruction from *low* to *high* is edited."""
        lines = {self._snapshot.line(index) for index in range(low, high + 1)}
        return any(line in self._slots for line in lines)

    def _slot(self, index: int) -> _Slot:
        return self._slots.setdefault(self._snapshot.statement(index)[0], _Slot())

    def _empty(self, index: int, lines: list[Put]) -> None:
        slot = self._slot(index)
        if slot.own is not None:
            item = self._snapshot.decoded(index)
            raise EditError(
                f"{item.text} at {item.address:#x} was replaced, moved or deleted before; settle() "
                "makes an end of the edits so far"
            )
        slot.own = lines

    def written(self, spans: Mapping[int, tuple[int, list[str]]]) -> Written:
        """The listing with the edits; *spans* are lines, from one to before another, that become
        others.
        """
        made = Written([], [], [])
        end = 0
        for number, text in enumerate(self._snapshot.lines):
            made.starts.append(len(made.lines))
            if number in spans:
                end, lines = spans[number]
                made.lines.extend(lines)
                made.origins.extend([None] * len(lines))
            if number < end:
                continue
            slot = self._slots.get(number)
            for line in [Put(text, number)] if slot is None else self._of(number, slot):
                made.lines.append(line.text)
                made.origins.append(line.origin)
        return made

    def _of(self, number: int, slot: _Slot) -> list[Put]:
        """The lines for one with edits: its labels first."""
        (index,) = self._snapshot.by_line[number]
        _, head, statement, tail = self._snapshot.statement(index)
        own = [Put(f"{_INDENT}{statement}{tail}", number)] if slot.own is None else slot.own
        if head.strip():
            return [Put(head.rstrip()), *slot.before, *own, *slot.behind]
        if slot.own is None:
            own = [Put(self._snapshot.lines[number], number)]
        return [*slot.before, *own, *slot.behind]


def _lines(text: str) -> list[Put]:
    """The lines of what a user gives, indented but for labels."""
    found: list[Put] = []
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped:
            found.append(Put(stripped if _is_label(stripped) else f"{_INDENT}{stripped}"))
    return found


def _is_label(line: str) -> bool:
    return line.partition("//")[0].rstrip().endswith(":")
