"""Which addresses of one code object correspond to which of another."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from coasm.codeobject import CodeObject, Section
from coasm.codeobject.elf import STT_SECTION
from coasm.compare.align import Alignment

__all__ = ["CodePair", "Places", "by_layout", "named", "place_of"]

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
    """Two code sections that correspond, and how: by alignment, or byte for byte (None).

    ``a_starts`` and ``b_starts`` are the addresses of their items and, at last, their ends.
    """

    original: Section
    rebuilt: Section
    a_starts: tuple[int, ...] = ()
    b_starts: tuple[int, ...] = ()
    alignment: Alignment | None = None

    def same(self, a: int, b: int) -> bool:
        """Whether *a*, in or at the end of the original section, is where *b* is in the other."""
        if self.alignment is None:
            return a - self.original.addr == b - self.rebuilt.addr
        if not self.rebuilt.addr <= b <= self.rebuilt.addr + self.rebuilt.size:
            return False
        i, j = bisect_right(self.a_starts, a) - 1, bisect_right(self.b_starts, b) - 1
        if a == self.a_starts[i] and b == self.b_starts[j]:
            low, high = self.alignment.places(i)
            return low <= j <= high
        within = a - self.a_starts[i]
        return b - self.b_starts[j] == within and self.alignment.partner(i) == j


@dataclass(frozen=True)
class Places:
    """The places of a whole object: those of its code sections, and by layout everything else."""

    code: tuple[CodePair, ...]
    elsewhere: Callable[[int, int], bool]

    def same(self, a: int, b: int) -> bool:
        """Whether address *a* of the original is the same place as *b* of the rebuilt object."""
        for pair in self.code:
            if pair.original.addr <= a < pair.original.addr + pair.original.size:
                return pair.same(a, b)
        for pair in self.code:
            if a == pair.original.addr + pair.original.size:
                return pair.same(a, b)
        return self.elsewhere(a, b)
