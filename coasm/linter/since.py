"""What an edit adds: the findings of a program that those of its original do not have.

Two findings are the same where rule, kernel and message are, and the instructions at their places
and at their producers stand for each other in an alignment of the two kernels' code. An edit that
makes a finding worse (another level, fewer wait states) makes it new.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from coasm.compare.align import Alignment, align
from coasm.isa.flow import is_direct
from coasm.linter.findings import ERROR, Finding, Place
from coasm.linter.program import Program
from coasm.linter.rules import RULES

__all__ = ["Known", "split_known"]

_ADDRESS = re.compile(r"0x[0-9a-f]+")


class Known(NamedTuple):
    """How many findings the *original*, by its name, has as well."""

    original: str
    errors: int
    advice: int


class _Own(NamedTuple):
    """A kernel or function: its name and its instructions, from operation *first* to *last*."""

    name: str
    first: int
    last: int


class _Pair(NamedTuple):
    """A kernel of the program and that of the original that it stands for, aligned."""

    own: _Own
    theirs: _Own
    alignment: Alignment


def split_known(
    program: Program,
    found: Iterable[Finding],
    original: Program,
    had: Iterable[Finding],
    renamed: Mapping[str, str] | None = None,
) -> tuple[list[Finding], list[Finding]]:
    """*found* in *program* as those that are new, and those that *original* *had* too.

    *renamed* are kernels of the original that have another name now.
    """
    partners = _Partners(program, original, renamed or {})
    left: dict[object, list[Finding]] = defaultdict(list)
    for one in had:
        key = _key(one, one.place.address, one.producer and one.producer.address)
        left[one.kernel, key].append(one)
    new: list[Finding] = []
    known: list[Finding] = []
    for one in found:
        kernel = partners.kernel(one.kernel)
        place = partners.address(one.kernel, one.place)
        producer = partners.address(one.kernel, one.producer) if one.producer else None
        candidates = left.get((kernel, _key(one, place, producer)), [])
        match = next((old for old in candidates if not _is_worse(one, old)), None)
        if place is None or match is None or (one.producer and producer is None):
            new.append(one)
        else:
            candidates.remove(match)
            known.append(one)
    return new, known


def _key(finding: Finding, place: int | None, producer: int | None) -> object:
    return finding.rule, _ADDRESS.sub("", finding.what), place, producer


def _is_worse(finding: Finding, old: Finding) -> bool:
    """Whether *finding* is more than *old* was."""
    if finding.level == ERROR and old.level != ERROR:
        return True
    states = RULES[finding.rule].group == "wait states"
    if not states or finding.has is None or old.has is None:
        return False
    return finding.has < old.has


class _Partners:
    """Which kernel, and which address in it, of the original stands for one of the program."""

    def __init__(self, program: Program, original: Program, renamed: Mapping[str, str]) -> None:
        self._program, self._original = program, original
        self._own = _pieces(program)
        self._theirs = _pieces(original)
        self._names = {name: name for name in self._own if name in self._theirs}
        for old, new in renamed.items():
            if new in self._own and old in self._theirs:
                self._names[new] = old
        alone = [
            [kernel.name for kernel in one.kernels if kernel.name not in self._names]
            for one in (program, original)
        ]
        if len(alone[0]) == len(alone[1]) == 1:  # the one that has another name
            self._names[alone[0][0]] = alone[1][0]
        self._pairs: dict[str, _Pair | None] = {}

    def kernel(self, name: str) -> str | None:
        """The original's name of a kernel or function."""
        return self._names.get(name)

    def address(self, kernel: str, place: Place) -> int | None:
        """The address in the original of what is at *place* of a kernel or function."""
        pair = self._pair(kernel)
        if pair is None:
            return None
        at = self._program.index(place.address)
        if not pair.own.first <= at < pair.own.last:
            return None
        there = pair.alignment.partner(at - pair.own.first)
        if there is None:
            return None
        return self._original.instructions[pair.theirs.first + there].address

    def _pair(self, kernel: str) -> _Pair | None:
        if kernel not in self._pairs:
            own, theirs = self._own.get(kernel), self._theirs.get(self._names.get(kernel, ""))
            self._pairs[kernel] = None
            if own is not None and theirs is not None:
                texts = _texts(self._program, own), _texts(self._original, theirs)
                self._pairs[kernel] = _Pair(own, theirs, align(*texts))
        return self._pairs[kernel]


def _pieces(program: Program) -> dict[str, _Own]:
    """Every kernel and function by its name; of several that are called alike the last."""
    starts = [(program.blocks[at].first, program.entries[at]) for at in sorted(program.entries)]
    if not starts or starts[0][0]:
        starts.insert(0, (0, ""))
    ends = [first for first, _ in starts[1:]] + [len(program.instructions)]
    return {name: _Own(name, first, last) for (first, name), last in zip(starts, ends, strict=True)}


def _texts(program: Program, own: _Own) -> Sequence[str]:
    """The instructions; of branches the mnemonic, for an edit in between changes the distance."""
    found = []
    for item in program.instructions[own.first : own.last]:
        name = item.mnemonic
        found.append(name if is_direct(name) else item.text)
    return found
