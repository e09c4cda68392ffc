"""Which addresses of one code object correspond to which of another."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from coasm.codeobject import CodeObject, Section
from coasm.codeobject.elf import STT_SECTION
from coasm.compare.align import Alignment

__all__ = ["CodePair", "Key", "Places", "by_layout", "named", "place_of"]

Key = tuple[str, int]  # a section's name, and which of that name it is


def named(sections: Iterable[Section]) -> dict[Key, Section]:
    """The sections by name; those that share one are told apart by their order."""
    seen: Counter[str] = Counter()
    found = {}
    for section in sections:
        found[section.name, seen[section.name]] = section
        seen[section.name] += 1
    return found


def place_of(co: CodeObject, address: int) -> str:
    """An address for a reader: the symbol there, or the section and the offset in it."""
    for symbol in co.symbols:
        if symbol.value == address and symbol.name and symbol.type != STT_SECTION:
            return f"{symbol.name} at {address:#x}"
    section = co.section_at(address)
    if section is None:
        return f"{address:#x}, outside every section"
    return f"{section.name}+{address - section.addr:#x} at {address:#x}"


def by_layout(original: CodeObject, rebuilt: CodeObject) -> Callable[[int, int], bool]:
    """Whether two addresses are the same offset in sections of the same name.

    Outside all sections: the same address.
    """
    one, other = (
        {section.index: key for key, section in named(co.sections).items()}
        for co in (original, rebuilt)
    )

    def same(a: int, b: int) -> bool:
        left, right = original.section_at(a), rebuilt.section_at(b)
        if left is None or right is None:
            return left is right and a == b
        return one[left.index] == other[right.index] and a - left.addr == b - right.addr

    return same


@dataclass(frozen=True)
class CodePair:
    """Two ranges of code that correspond, and how: by alignment, or byte for byte (None).

    They are whole sections, or functions with the padding behind them. ``a_starts`` and
    ``b_starts`` are the addresses of their items and, at last, where the items end.
    """

    a_low: int
    a_high: int
    b_low: int
    b_high: int
    a_starts: tuple[int, ...] = ()
    b_starts: tuple[int, ...] = ()
    alignment: Alignment | None = None

    @staticmethod
    def whole(a: Section, b: Section) -> CodePair:
        """Two sections, byte for byte."""
        return CodePair(a.addr, a.addr + a.size, b.addr, b.addr + b.size)

    def same(self, a: int, b: int) -> bool:
        """Whether *a*, in or at the end of the original range, is where *b* is in the other."""
        if self.alignment is None:
            return a - self.a_low == b - self.b_low
        if not self.b_low <= b <= self.b_high:
            return False
        i, j = bisect_right(self.a_starts, a) - 1, bisect_right(self.b_starts, b) - 1
        if a == self.a_starts[i] and b == self.b_starts[j]:
            low, high = self.alignment.places(i)
            return low <= j <= high
        if b - self.b_starts[j] != a - self.a_starts[i]:
            return False
        last = len(self.a_starts) - 1, len(self.b_starts) - 1
        return (i, j) == last or self.alignment.partner(i) == j


@dataclass(frozen=True)
class Places:
    """The places of a whole object: those of its code, and *elsewhere* says it for the rest."""

    code: tuple[CodePair, ...]
    elsewhere: Callable[[int, int], bool]

    @cached_property
    def _pairs(self) -> list[CodePair]:
        return sorted(self.code, key=lambda pair: pair.a_low)

    @cached_property
    def _lows(self) -> list[int]:
        return [pair.a_low for pair in self._pairs]

    @cached_property
    def _ends(self) -> dict[int, CodePair]:
        return {pair.a_high: pair for pair in self._pairs}

    def pair_at(self, a: int) -> CodePair | None:
        """The pair whose original range holds *a*."""
        index = bisect_right(self._lows, a) - 1
        pair = self._pairs[index] if index >= 0 else None
        return pair if pair is not None and a < pair.a_high else None

    def same(self, a: int, b: int) -> bool:
        """Whether address *a* of the original is the same place as *b* of the rebuilt object."""
        pair = self.pair_at(a) or self._ends.get(a)
        return pair.same(a, b) if pair is not None else self.elsewhere(a, b)
