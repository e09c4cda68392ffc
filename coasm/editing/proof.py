"""What an edit is not about is as it was: every other instruction, and where each address leads.

An instruction stands for another where it is of the same line. It has the same bytes, or it holds
an address: then that leads to what stands where the old one led. What leads nobody knows where (a
number that code adds to its own address, a branch to between two instructions) must not have moved
from anything.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from coasm.asm.code import Instruction, branch_target
from coasm.asm.references import CodeReference, Pointer
from coasm.asm.sections import is_linker_made
from coasm.codeobject import Section
from coasm.codeobject.elf import SHT_NOBITS
from coasm.editing.lines import Written
from coasm.editing.snapshot import Snapshot
from coasm.errors import EditError, FormatError, UnsupportedError
from coasm.isa.flow import is_direct
from coasm.isa.kinds import following, is_a
from coasm.reading import Kernel

__all__ = ["Part", "Proof"]

#: Bytes of a descriptor that say how far its kernel is away.
_ENTRY = range(16, 24)
_DESCRIPTOR = 64
_DATA = re.compile(r"\s*\.\w+\s+0[xX]")


class Part(NamedTuple):
    """How a whole listing is in another: the descriptors (by address) that are *gone*, whether what
    it has of each section of data stands *last* there, and the *names* that became others.
    """

    names: Mapping[str, str] = {}
    gone: frozenset[int] = frozenset()
    last: bool = False
    whole: bool = True


class Proof:
    """That *new*, which was *written* from *old*, is the same but for the edits."""

    def __init__(
        self, old: Snapshot, new: Snapshot, written: Written, part: Part | None = None
    ) -> None:
        self.old, self.new, self.written = old, new, written
        self.part = part or Part()
        self.names = self.part.names

    def check(self) -> None:
        """See that it is.

        Raises:
            EditError: it is not; the text says where.
        """
        for problem in self._problems():
            raise EditError(f"{self.old.setup.name}: {problem}; the edit is not made")

    def _problems(self) -> Iterator[str]:
        for one, other in self.partners.items():
            before, after = self.old.decoded(one), self.new.decoded(other)
            problem = self._changed(before, after)
            if problem is not None:
                yield f"{before.text} at {before.address:#x} {problem}"
            elif is_a(before.mnemonic, "covers those behind it"):
                yield from self._covered(one, other)
        yield from self._unknown_ways()
        yield from self._data()

    @cached_property
    def partners(self) -> dict[int, int]:
        """Instruction → the new one that is of the same line.

        Raises:
            EditError: a line makes other instructions than before.
        """
        found: dict[int, int] = {}
        made: dict[int, list[int]] = defaultdict(list)
        for line, origin in enumerate(self.written.origins):
            if origin is not None and origin in self.old.by_line:
                made[origin] += self.new.by_line.get(line, [])
        for origin, theirs in made.items():
            own = self.old.by_line[origin]
            if len(own) != len(theirs) and _DATA.match(self.old.lines[origin]):
                continue  # numbers; whether they read as instructions is of no matter
            if len(own) != len(theirs):
                raise EditError(
                    f"{self.old.setup.name}:{origin + 1}: makes {len(theirs)} instructions where "
                    f"it made {len(own)}: {self.old.lines[origin].strip()}"
                )
            found.update(zip(own, theirs, strict=True))
        return dict(sorted(found.items()))

    def _changed(self, before: Instruction, after: Instruction) -> str | None:
        """What is no longer so of an instruction; None where it is what it was."""
        if before.registers != after.registers:
            return f"would mean {after.registers} instead of {before.registers}"
        reference = self.old.co.addresses.code.get(before.address)
        if reference is not None:
            found = self.new.co.addresses.code.get(after.address)
            if before.mnemonic != after.mnemonic or not self._leads_alike(reference, found):
                return "is a part of an address, which would lead elsewhere"
            return None
        if not is_direct(before.mnemonic):
            return None if before.data == after.data else f"would become {after.text}"
        goes, went = branch_target(after), branch_target(before)
        assert went is not None
        if before.mnemonic != after.mnemonic or goes != self.moved(went, after, before):
            return f"would lead to {goes:#x}" if goes is not None else f"would become {after.text}"
        return None

    def _leads_alike(self, one: CodeReference, other: CodeReference | None) -> bool:
        if other is None or one.kind != other.kind:
            return False
        if one.symbol is not None:
            return self._name(self.old, one.symbol, self.names) == self._name(
                self.new, other.symbol, {}
            )
        return other.target == self.moved(one.target)

    def _name(self, side: Snapshot, symbol: int | None, names: Mapping[str, str]) -> str | None:
        found = next((s.name for s in side.co.symbols if s.index == symbol), None)
        return None if found is None else names.get(found, found)

    def moved(
        self,
        address: int,
        after: Instruction | None = None,
        before: Instruction | None = None,
    ) -> int | None:
        """Where what stood at *address* stands now, its labels first; None where nobody knows.

        Of a branch to where no instruction begins, from *before* to *after*: as far away as it was,
        if nothing moved.
        """
        section = self.old.co.section_at(address)
        if section is None or not section.code:
            if section is not None:
                now = self._sections.get(section.name)
                return None if now is None else now.addr + self._offset(address, section, now)
            ended = self._ends.get(address)
            if ended is not None:
                return ended
        else:
            index = self.old.index(address)
            if index is not None:
                return self._start(index, section)
        if after is not None and before is not None and section is not None:
            within = section is self.old.co.section_at(before.address)
            if within and section.index not in self._moved_inside:
                return address + after.address - before.address
        return None

    def _offset(self, address: int, section: Section, now: Section) -> int:
        """Where in a section of data what was at an address is."""
        lost = _DESCRIPTOR * sum(section.addr <= one < address for one in self.part.gone)
        return address - section.addr - lost + self._before(section, now)

    def _before(self, section: Section, now: Section) -> int:
        """The bytes of a section of data before what there was of it."""
        return now.size - self._size(section) if self.part.last else 0

    def _size(self, section: Section) -> int:
        end = section.addr + section.size
        return section.size - _DESCRIPTOR * sum(section.addr <= a < end for a in self.part.gone)

    def _start(self, index: int, section: Section) -> int | None:
        line = self.old.line(index)
        if line is None or self.old.by_line[line][0] != index:  # in the middle of a macro
            partner = self.partners.get(index)
            return None if partner is None else self.new.decoded(partner).address
        now = self._sections.get(section.name)
        if now is None:
            return None
        lines = self._placed.get(now.index, [])
        at = bisect_left(lines, (self.written.starts[line], 0))
        return lines[at][1] if at < len(lines) else now.addr + now.size

    @cached_property
    def _placed(self) -> dict[int, list[tuple[int, int]]]:
        """Section of the new object → line and address of each of its instructions."""
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        section: Section | None = None
        for index, item in enumerate(self.new.instructions):
            line = self.new.line(index)
            if section is None or not section.addr <= item.address < section.addr + section.size:
                section = self.new.co.section_at(item.address)
            if line is not None and section is not None:
                found[section.index].append((line, item.address))
        for lines in found.values():
            lines.sort()
        return found

    @cached_property
    def _sections(self) -> dict[str, Section]:
        """The sections of the new object that are the only ones of their name."""
        found: dict[str, list[Section]] = defaultdict(list)
        for section in self.new.co.sections:
            found[section.name].append(section)
        return {name: sections[0] for name, sections in found.items() if len(sections) == 1}

    @cached_property
    def _ends(self) -> dict[int, int]:
        """Where a section with code ended → where it ends."""
        return {
            section.addr + section.size: self._sections[section.name].addr
            + self._sections[section.name].size
            for section in self.old.co.sections
            if section.code and section.name in self._sections
        }

    @cached_property
    def _moved_inside(self) -> frozenset[int]:
        """The sections whose instructions are at other distances from each other than they were."""
        distances: dict[int, set[int]] = defaultdict(set)
        for one, item in enumerate(self.old.instructions):
            section = self.old.co.section_at(item.address)
            other = self.partners.get(one)
            now = None if other is None else self.new.decoded(other).address - item.address
            if section is not None:
                distances[section.index].add(-1 if now is None else now)
        return frozenset(index for index, found in distances.items() if len(found) > 1)

    @cached_property
    def _anything_moved(self) -> bool:
        """Whether two places are at another distance from each other than they were."""
        distances = {
            self.new.decoded(other).address - self.old.decoded(one).address
            for one, other in self.partners.items()
        }
        for section in self.old.co.sections:
            if section.alloc and section.size and not is_linker_made(section):
                now = self._sections.get(section.name)
                distances.add(now.addr - section.addr if now is not None else -1)
        return len(distances) > 1 or len(self.partners) != len(self.old.instructions)

    def _covered(self, one: int, other: int) -> Iterator[str]:
        """What an instruction says of those behind it must be said of the same."""
        item = self.old.decoded(one)
        for step in range(1, following(item.text) + 1):
            if self.partners.get(one + step) != other + step:
                yield (
                    f"{item.text} at {item.address:#x} is for the instructions behind it, which "
                    "would be others"
                )
                return

    def _unknown_ways(self) -> Iterator[str]:
        """Addresses of which is not known where they lead."""
        for address in self.old.co.addresses.numeric:
            index = self.old.index(address)
            if index is None or index not in self.partners or not self._anything_moved:
                continue
            if not self._only_prefetched(address):
                yield (
                    f"{self.old.decoded(index).text} at {address:#x} begins an address of which is "
                    "not known where it leads: nothing may move"
                )

    def _only_prefetched(self, address: int) -> bool:
        """Whether an address that begins there is for prefetches of code alone, which are hints."""
        kernels = self.old.co.kernels if self.old.co.metadata_note is not None else ()
        for kernel in kernels:
            if kernel.entry <= address < kernel.entry + kernel.size:
                try:
                    return _is_only_prefetched(kernel, address)
                except UnsupportedError:
                    return False
        return False

    def _data(self) -> Iterator[str]:
        """Data is as it was, but for the addresses in it."""
        for section in self.old.co.sections:
            if not section.alloc or not section.size or is_linker_made(section):
                continue
            now = self._sections.get(section.name)
            if section.code:
                yield from self._raw(section, now)
                continue
            if section.type == SHT_NOBITS or section.name == ".note":
                continue
            size = self._size(section)
            if not size:
                continue
            if now is None or (now.size < size if not self.part.whole else now.size != size):
                yield f"section {section.name} would have another size"
            elif self._masked(self.old, section) != self._kept(now, section):
                yield f"section {section.name} would hold other data"
            else:
                yield from self._pointers(section, now)

    def _raw(self, section: Section, now: Section | None) -> Iterator[str]:
        """What of code is data stays."""
        own = self.old.co.code[section.index].raws if section.index in self.old.co.code else []
        theirs = self.new.co.code[now.index].raws if now and now.index in self.new.co.code else []
        rest = iter(raw.data.strip(b"\0") for raw in theirs)
        for raw in own:
            data = raw.data.strip(b"\0")
            if data and not any(data in other for other in rest):
                yield f"the data at {raw.address:#x} would be lost"

    def _kept(self, now: Section, section: Section) -> bytes:
        first = self._before(section, now)
        return self._masked(self.new, now)[first : first + self._size(section)]

    def _masked(self, side: Snapshot, section: Section) -> bytes:
        """A section's data without its addresses and what descriptors say."""
        data = bytearray(section.data)
        for offset, pointer in side.co.addresses.data.get(section.index, {}).items():
            data[offset : offset + pointer.size] = bytes(pointer.size)
        for kernel in sorted(_kernels(side), reverse=True):
            offset = kernel - section.addr
            if 0 <= offset < len(data):
                gone = side is self.old and kernel in self.part.gone
                data[offset : offset + _DESCRIPTOR] = b"" if gone else bytes(_DESCRIPTOR)
        return bytes(data)

    def _pointers(self, section: Section, now: Section) -> Iterator[str]:
        theirs = self.new.co.addresses.data.get(now.index, {})
        for offset, pointer in self.old.co.addresses.data.get(section.index, {}).items():
            other = theirs.get(self._offset(section.addr + offset, section, now))
            if other is None or not self._points_alike(pointer, other):
                yield f"the address at {section.addr + offset:#x} would lead elsewhere"

    def _points_alike(self, one: Pointer, other: Pointer) -> bool:
        if one.symbol is not None:
            names = (
                self._name(self.old, one.symbol, self.names),
                self._name(self.new, other.symbol, {}),
            )
            return names[0] == names[1] and one.target == other.target
        if one.base is not None:
            return True  # the end of what a frame is of: it moves with what is in it
        return other.symbol is None and other.target == self.moved(one.target)


def _is_only_prefetched(kernel: Kernel, address: int) -> bool:
    first = kernel.instructions.at(address)
    block = kernel.cfg.block_of(first.index)
    holding = set(first.writes)
    for place in range(first.index + 1, block.last):
        item = kernel.instructions[place]
        if holding & set(item.reads) and not is_a(item.mnemonic, "prefetches code"):
            return False
        holding -= set(item.writes)
        if not holding:
            return True
    return not block.leaves and not any(
        holding & set(kernel.liveness[kernel.cfg.blocks[number].first].registers)
        for number in block.follows
    )


def _kernels(side: Snapshot) -> list[int]:
    """The addresses of the descriptors; none where there is no metadata."""
    try:
        return [kernel.descriptor_address for kernel in side.co.kernels]
    except FormatError:
        return []
