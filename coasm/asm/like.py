"""``--like ORIG``: what is not loaded comes from the original, what is loaded never does.

A fresh link writes its own ``.comment``, symbol order and section-header placement. This module
lays the tail of the file out again as the original has it: the sections that are not loaded, in
their order and with their gaps, the symbol table in the original's order with fresh values, the
section header table where it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from coasm.asm.debug import is_debug
from coasm.asm.names import display
from coasm.asm.sections import check_alignments
from coasm.codeobject import CodeObject, Elf, Section, Symbol
from coasm.codeobject.elf import (
    PT_LOAD,
    SHN_LORESERVE,
    SHT_NOBITS,
    SHT_NULL,
    SHT_REL,
    SHT_RELA,
    SHT_STRTAB,
    SHT_SYMTAB,
    STB_LOCAL,
    STT_FILE,
    STT_SECTION,
)
from coasm.codeobject.layout import (
    FILE_HEADER_SIZE,
    IDENT_SIZE,
    SECTION_HEADER_SIZE,
    SYMBOL,
    SectionHeader,
    file_header,
    packed,
    section_headers,
)

__all__ = ["Like", "like"]


class Like(NamedTuple):
    """The file laid out as the original, and what could not be kept.

    ``without_debug``: the original's debug information is of other code, and was left out.
    """

    data: bytes
    remarks: tuple[str, ...]
    without_debug: bool = False


def like(fresh: bytes, original: CodeObject) -> Like:
    """Lay *fresh*, a linked code object, out as *original*.

    The loaded bytes (every ``PT_LOAD`` byte but ``e_shoff``, ``e_shnum`` and ``e_shstrndx`` of the
    file header, which the loader does not read) are those of *fresh*.

    Raises:
        UnsupportedError: an alignment of *original* that no file is written with.
    """
    check_alignments(original.elf)
    return _Layout(Elf(fresh, "the linked object"), original.elf).build()


def _loaded_end(elf: Elf) -> int:
    """Bytes of the file up to the end of what is loaded."""
    return max((s.offset + s.filesz for s in elf.segments if s.type == PT_LOAD), default=64)


class _Layout:
    def __init__(self, new: Elf, old: Elf) -> None:
        self.new = new
        self.old = old
        self.remarks: list[str] = []

    def build(self) -> Like:
        new, old = self.new, self.old
        plan = self._plan()
        self.index_of_new = {n.index: i for i, (_, n) in enumerate(plan) if n is not None}
        self.index_of_old = {o.index: i for i, (o, _) in enumerate(plan) if o is not None}
        self.new_of_old = {o.index: n for o, n in plan if o is not None and n is not None}
        contents, infos = self._contents(plan)
        body = bytearray(new.data[: _loaded_end(new)])
        shoff, places = self._append(body, plan, contents)
        for index, (o, n) in enumerate(plan):
            if index in places:
                at, size = places[index]
                row = self._header(o, n, at, size, infos.get(index))
            elif n is not None:
                row = self._header(o, n, n.offset, n.size, n.info)
            else:
                assert o is not None  # the null section
                row = self._header(o, o, 0, 0, o.info)
            at = shoff + SECTION_HEADER_SIZE * index
            body[at : at + SECTION_HEADER_SIZE] = packed(row)
        header = file_header(bytes(body[:FILE_HEADER_SIZE]))._replace(
            shoff=shoff,
            shentsize=SECTION_HEADER_SIZE,
            shnum=len(plan),
            shstrndx=self.index_of_old.get(old.header.shstrndx, 0),
        )
        body[IDENT_SIZE:FILE_HEADER_SIZE] = packed(header)
        return Like(bytes(body), tuple(self.remarks), self.without_debug)

    def _append(
        self,
        body: bytearray,
        plan: Sequence[tuple[Section | None, Section | None]],
        contents: Mapping[int, bytes],
    ) -> tuple[int, dict[int, tuple[int, int]]]:
        """Append unloaded sections and room for their headers, in the original's file order.

        Returns where the headers are, and each section's offset and size by its index.
        """
        old = self.old
        previous = _loaded_end(old)
        tail = [(old.header.shoff, -1)]  # offset in the original, index in the plan or -1
        for index in contents:
            o, _ = plan[index]
            tail.append((o.offset if o is not None else len(old.data), index))
        shoff = 0
        places: dict[int, tuple[int, int]] = {}
        for offset, index in sorted(tail):
            if index < 0:
                align, data = 8, bytes(SECTION_HEADER_SIZE * len(plan))
                taken = SECTION_HEADER_SIZE * old.header.shnum
            else:
                o, n = plan[index]
                section = o or n
                assert section is not None
                align, data = max(section.align, 1), contents[index]
                taken = o.size if o is not None and o.type != SHT_NOBITS else 0
            if offset >= previous and not self.without_debug:  # else it holds what is left out
                gap = old.data[previous:offset]
                if len(gap) == -previous % align and len(body) % align != previous % align:
                    gap = b"\0" * (-len(body) % align)
                body += gap
            else:
                body += b"\0" * (-len(body) % align)
            if index < 0:
                shoff = len(body)
            else:
                places[index] = len(body), len(data)
            body += data
            previous = max(previous, offset + taken)
        if not self.without_debug:
            body += old.data[previous:]
        return shoff, places

    def _plan(self) -> list[tuple[Section | None, Section | None]]:
        """The sections of the result: (the original's, the fresh one's), in its order."""
        fresh: dict[tuple[str, bool], list[Section]] = defaultdict(list)
        for section in self.new.sections:
            fresh[section.name, section.alloc].append(section)
        plan: list[tuple[Section | None, Section | None]] = []
        for section in self.old.sections:
            if self._is_stale(section):
                continue
            same = fresh[section.name, section.alloc]
            if same:
                plan.append((section, same.pop(0)))
            elif section.alloc:
                self.remarks.append(f"section {display(section.name)!r} is no longer there")
            else:
                plan.append((section, None))
        for left in fresh.values():
            for section in left:
                if self._is_stale(section):
                    continue
                if not section.alloc and (
                    section.type in (SHT_SYMTAB, SHT_STRTAB) or section.name == ".comment"
                ):
                    continue  # the linker always writes them; the original was stripped of them
                after = max(
                    (
                        i
                        for i, (_, n) in enumerate(plan)
                        if n is not None and n.index < section.index
                    ),
                    default=len(plan) - 1,
                )
                plan.insert(after + 1, (None, section))
                if section.name:
                    self.remarks.append(f"section {display(section.name)!r} is new")
        return plan

    def _contents(
        self, plan: list[tuple[Section | None, Section | None]]
    ) -> tuple[dict[int, bytes], dict[int, int]]:
        """What each section that is not loaded holds, by its place in the plan; ``sh_info`` too."""
        contents: dict[int, bytes] = {}
        infos: dict[int, int] = {}
        for index, (o, n) in enumerate(plan):
            section = o or n
            assert section is not None
            if section.alloc or section.type == SHT_NULL:
                continue
            if o is None:
                assert n is not None
                contents[index] = n.data
            elif o.type == SHT_SYMTAB:
                continue
            elif n is None or o.name == ".comment" or o.type == SHT_STRTAB:
                contents[index] = o.data
            else:
                contents[index] = n.data
        for index, (o, _) in enumerate(plan):
            if o is not None and o.type == SHT_SYMTAB and index not in contents and not o.alloc:
                strings = self.index_of_old[o.link]
                table, names, first_global = self._symbols(contents[strings])
                contents[index], contents[strings] = table, names
                infos[index] = first_global
        names_at = self.index_of_old.get(self.old.header.shstrndx)
        if names_at is not None:
            grown = bytearray(contents[names_at])
            self.section_names: dict[str, int] = {}
            for o, n in plan:
                if o is None and n is not None and n.name not in self.section_names:
                    self.section_names[n.name] = len(grown)
                    grown += n.name.encode("utf-8", "surrogateescape") + b"\0"
            contents[names_at] = bytes(grown)
        return contents, infos

    @cached_property
    def moved(self) -> bool:
        """Whether the code is another, or is loaded elsewhere."""

        def code(elf: Elf) -> list[tuple[int, bytes]]:
            return [(s.addr, s.data) for s in elf.sections if s.code]

        return code(self.new) != code(self.old)

    @cached_property
    def without_debug(self) -> bool:
        """Whether there is something that is left out."""
        return any(map(self._is_stale, self.old.sections))

    def _is_stale(self, section: Section) -> bool:
        """Whether a section that is not loaded says what is true of the original's code alone."""
        tied = is_debug(section) or (section.type in (SHT_REL, SHT_RELA) and not section.alloc)
        return tied and self.moved

    def _header(
        self, o: Section | None, n: Section | None, offset: int, size: int, info: int | None
    ) -> SectionHeader:
        """The section header: names and links as in the original, places as in the fresh link."""
        base = o or n
        assert base is not None
        at = n if n is not None and n.alloc else base
        if o is not None:
            name = self._name_offset(self.old, o)
            link = self.index_of_old.get(o.link, 0) if o.link else 0
        else:
            name = self.section_names[base.name]
            link = self.index_of_new.get(base.link, 0) if base.link else 0
        if base.type == SHT_NULL:
            offset, size = base.offset, base.size
        elif base.type == SHT_NOBITS:
            size = at.size
        return SectionHeader(
            name,
            base.type,
            base.flags,
            at.addr,
            offset,
            size,
            link,
            base.info if info is None else info,
            at.align,
            base.entsize,
        )

    @staticmethod
    def _name_offset(elf: Elf, section: Section) -> int:
        at = elf.header.shoff + SECTION_HEADER_SIZE * section.index
        return section_headers(elf.data[at : at + SECTION_HEADER_SIZE])[0].name

    def _symbols(self, strings: bytes) -> tuple[bytes, bytes, int]:
        """The symbol table in the original's order with fresh values, its names, and sh_info."""
        new, old = self.new, self.old
        pairs = self._pair(old.symbols[1:], new.symbols[1:])
        offsets = self._string_offsets(old)
        names = bytearray(strings)
        rows: list[tuple[bool, bytes]] = []
        used: set[int] = set()
        for symbol in old.symbols:
            if symbol.index == 0 or symbol.type == STT_FILE:
                rows.append((True, self._pack(symbol, symbol, offsets[symbol.index], old=True)))
                continue
            other = pairs.get(symbol.index)
            place = self.new_of_old.get(symbol.shndx)
            if other is None and symbol.type == STT_SECTION and place is not None:
                # Of --emit-relocs: the fresh link has no such relocations, and no symbols for them.
                moved = symbol._replace(value=place.addr)
                rows.append((True, self._pack(symbol, moved, offsets[symbol.index], old=True)))
                continue
            if other is None:
                self.remarks.append(f"symbol {display(symbol.name)!r} is no longer there")
                continue
            used.add(other.index)
            rows.append(
                (
                    symbol.bind == STB_LOCAL,
                    self._pack(symbol, other, offsets[symbol.index], old=False),
                )
            )
        split = sum(1 for local, _ in rows if local)
        for symbol in new.symbols[1:]:
            if symbol.index in used or symbol.type == STT_FILE:
                continue
            row = self._pack(symbol, symbol, len(names), old=False)
            names += symbol.name.encode("utf-8", "surrogateescape") + b"\0"
            if symbol.bind == STB_LOCAL:
                rows.insert(split, (True, row))
                split += 1
            else:
                rows.append((False, row))
        table = next(s for s in old.sections if s.type == SHT_SYMTAB)
        first_global = table.info if len(rows) == len(old.symbols) else split
        return b"".join(row for _, row in rows), bytes(names), first_global

    def _pack(self, named: Symbol, valued: Symbol, name: int, *, old: bool) -> bytes:
        shndx = valued.shndx
        if 0 < shndx < SHN_LORESERVE:
            shndx = (self.index_of_old if old else self.index_of_new).get(shndx, 0)
        return SYMBOL.pack(
            name,
            valued.bind << 4 | valued.type,
            valued.other,
            shndx,
            valued.value,
            valued.size,
        )

    @staticmethod
    def _string_offsets(elf: Elf) -> list[int]:
        table = next(s for s in elf.sections if s.type == SHT_SYMTAB)
        return [row[0] for row in SYMBOL.iter_unpack(table.data)]

    @staticmethod
    def _pair(old: tuple[Symbol, ...], new: tuple[Symbol, ...]) -> dict[int, Symbol]:
        """Original symbol index → its fresh counterpart: by name, then by address order."""

        def groups(symbols: tuple[Symbol, ...]) -> dict[tuple[str, bool], list[Symbol]]:
            found: dict[tuple[str, bool], list[Symbol]] = defaultdict(list)
            for symbol in symbols:
                if symbol.type != STT_FILE:
                    found[symbol.name, symbol.bind == STB_LOCAL].append(symbol)
            return found

        fresh = groups(new)
        pairs: dict[int, Symbol] = {}
        for key, members in groups(old).items():
            ordered = sorted(members, key=lambda s: (s.value, s.index))
            others = sorted(fresh.get(key, ()), key=lambda s: (s.value, s.index))
            for symbol, other in zip(ordered, others, strict=False):
                pairs[symbol.index] = other
        return pairs
