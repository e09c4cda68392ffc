"""The host's ELF file around a bundle: sections, segments, wrappers, relocations.

Everything is read from its place in the mapped file, and checked before it is used; the records are
those of :mod:`coasm.codeobject.layout`. Sources: the System V ABI's ELF-64 format; Clang's
``CGCUDANV.cpp`` for the wrapper, ``__CudaFatBinaryWrapper``: magic ``HIPF``, version 1, a pointer
to the bundle, a pointer that is null.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from coasm.codeobject import layout
from coasm.codeobject.elf import (
    ET_REL,
    MAX_SHARED,
    PT_DYNAMIC,
    PT_LOAD,
    SHF_ALLOC,
    SHT_DYNSYM,
    SHT_NOBITS,
    SHT_NULL,
    SHT_RELA,
    SHT_SYMTAB,
)
from coasm.codeobject.layout import FileHeader, Segment
from coasm.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from coasm.bundle.compressed import Buffer

__all__ = ["WRAPPER", "WRAPPER_MAGIC", "WRAPPER_VERSION", "Host", "HostSection", "Pointer"]

_U64 = struct.Struct("<Q")

_PN_XNUM, _SHN_XINDEX = 0xFFFF, 0xFFFF
WRAPPER = struct.Struct("<IIQQ")
WRAPPER_MAGIC, WRAPPER_VERSION = 0x48495046, 1  # "HIPF"

_TYPE = 0xFFFFFFFF
# (machine, relocation type) → whether the symbol's value is added to the addend.
# Source: the psABIs: R_X86_64_RELATIVE, R_X86_64_64; R_AARCH64_RELATIVE, R_AARCH64_ABS64.
_TAG = struct.Struct("<QQ")
_DT_RELA, _DT_RELASZ = 7, 8
_RELOCATIONS = {(62, 8): False, (62, 1): True, (183, 1027): False, (183, 257): True}


class HostSection(NamedTuple):
    """One section header; ``offset`` is in the file that holds the ELF file, not in the latter."""

    number: int
    name: str
    type: int
    flags: int
    addr: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entsize: int


class Pointer(NamedTuple):
    """A wrapper's pointer to a bundle: the address that it has when loaded, and who says so.

    ``field`` is the offset in the file of the pointer itself; ``addend`` that of the relocation's
    addend, None where no relocation with an addend sets the pointer.
    """

    value: int
    field: int
    addend: int | None


@dataclass(frozen=True)
class Host:
    """An ELF-64 little-endian file of any machine that lies in *data* from *base* to *end*.

    Raises:
        FormatError: damaged; the text names the place.
        UnsupportedError: a 32-bit or big-endian file.
    """

    data: Buffer
    base: int
    end: int
    name: str

    def __post_init__(self) -> None:
        if self.end - self.base < layout.FILE_HEADER_SIZE:
            raise FormatError(f"{self.name}: truncated ELF header")
        ident = self.data[self.base : self.base + 16]
        if ident[4] != 2 or ident[5] != 1:
            raise UnsupportedError(f"{self.name}: not a 64-bit little-endian ELF file")

    @cached_property
    def header(self) -> FileHeader:
        """The file header."""
        at = self.base
        return layout.file_header(self.data[at : at + layout.FILE_HEADER_SIZE])

    @property
    def relocatable(self) -> bool:
        return self.header.type == ET_REL

    def _check(self, offset: int, size: int, what: str) -> int:
        """*offset*, as one into ``data``."""
        if offset + size > self.end - self.base:
            raise FormatError(
                f"{self.name}: {what} at offset {offset:#x} with size {size:#x} is outside the "
                f"file ({self.end - self.base:#x} bytes)"
            )
        return self.base + offset

    @cached_property
    def sections(self) -> tuple[HostSection, ...]:
        """Every section; those that have bytes are known to lie inside the file."""
        h, size = self.header, layout.SECTION_HEADER_SIZE
        if not h.shoff:
            return ()
        if h.shentsize != size:
            raise FormatError(f"{self.name}: section header size {h.shentsize}, not {size}")
        at = self._check(h.shoff, size, "the section table")
        (first,) = layout.section_headers(self.data[at : at + size])
        shnum = h.shnum or first.size
        shstrndx = first.link if h.shstrndx == _SHN_XINDEX else h.shstrndx
        at = self._check(h.shoff, shnum * size, "the section header table")
        rows = layout.section_headers(self.data[at : at + shnum * size])
        if shstrndx >= len(rows):
            raise FormatError(f"{self.name}: section {shstrndx} is not the section name table")
        table = rows[shstrndx]
        start = self._check(table.offset, table.size, "the section name table")
        names = self.data[start : start + table.size]
        found, left = [], MAX_SHARED + len(names)
        for index, row in enumerate(rows):
            stop = names.find(b"\0", row.name)
            if stop < 0 and (names or row.name):
                raise FormatError(f"{self.name}: the name of section {index} is outside its table")
            left -= max(stop - row.name, 0)
            if left < 0:
                raise FormatError(f"{self.name}: many names of sections share their bytes")
            name = names[row.name : stop].decode("utf-8", "surrogateescape")
            if row.type not in (SHT_NULL, SHT_NOBITS):
                self._check(row.offset, row.size, f"section {index} ({name!r})")
            row = row._replace(offset=row.offset + self.base)
            found.append(HostSection(index, name, *row[1:]))
        return tuple(found)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Every program header."""
        h, size = self.header, layout.SEGMENT_SIZE
        if not h.phnum:
            return ()
        if h.phentsize != size:
            raise FormatError(f"{self.name}: program header size {h.phentsize}, not {size}")
        if h.phnum == _PN_XNUM:
            raise UnsupportedError(f"{self.name}: more than 65,534 program headers")
        at = self._check(h.phoff, h.phnum * size, "the program header table")
        return tuple(layout.segments(self.data[at : at + h.phnum * size]))

    def pointers(self) -> list[Pointer]:
        """The pointers of all wrappers, in a linked file.

        Raises:
            FormatError: a wrapper section that does not hold wrappers.
            UnsupportedError: a relocation of a kind that is not understood sets a pointer.
        """
        fields: dict[int, int] = {}  # address → offset in the file
        for section in self.sections:
            if section.name != ".hipFatBinSegment" or section.type == SHT_NOBITS:
                continue
            if section.size % WRAPPER.size:
                raise FormatError(f"{self.name}: {section.name}: a wrapper that is cut short")
            for at in range(0, section.size, WRAPPER.size):
                magic, version, *_ = WRAPPER.unpack_from(self.data, section.offset + at)
                if (magic, version) != (WRAPPER_MAGIC, WRAPPER_VERSION):
                    raise UnsupportedError(
                        f"{self.name}: {section.name}: a wrapper with magic {magic:#x}, version "
                        f"{version}; known is {WRAPPER_MAGIC:#x}, version {WRAPPER_VERSION}"
                    )
                fields[section.addr + at + 8] = section.offset + at + 8
        relocated = self._relocations(fields.keys())
        found = []
        for address, field in fields.items():
            value, addend = relocated.get(address, (None, None))
            if value is None:
                value = _U64.unpack_from(self.data, field)[0]
            found.append(Pointer(value, field, addend))
        return found

    def unsectioned(self) -> list[int]:
        """The offsets in ``data`` of the bundles of a linked file that has no section headers.

        A wrapper is where its magic, version and null pointer are in memory that is loaded to be
        written or relocated; the pointer is what the dynamic relocations make of it.
        """
        loads = [s for s in self.segments if s.type == PT_LOAD and s.filesz]
        pattern = struct.pack("<II", WRAPPER_MAGIC, WRAPPER_VERSION)
        fields: dict[int, int] = {}
        for load in loads:
            start = self._check(load.offset, load.filesz, "a segment")
            at = self.data.find(pattern, start, start + load.filesz)
            while at >= 0:
                address = load.vaddr + at - start
                if address % 8 == 0 and at + WRAPPER.size <= start + load.filesz:
                    fields[address + 8] = _U64.unpack_from(self.data, at + 8)[0]
                at = self.data.find(pattern, at + 1, start + load.filesz)
        for address, info, addend in self._dynamic_relocations(loads):
            if address in fields and _RELOCATIONS.get((self.header.machine, info & _TYPE)) is False:
                fields[address] = addend
        found = set()
        for value in fields.values():
            for load in loads:
                if load.vaddr <= value < load.vaddr + load.filesz:
                    found.add(self.base + load.offset + value - load.vaddr)
        return sorted(found)

    def _dynamic_relocations(self, loads: Collection[Segment]) -> Iterator[tuple[int, int, int]]:
        """The relocations that the dynamic section leads to. Source: the System V ABI."""
        tags: dict[int, int] = {}
        for segment in self.segments:
            if segment.type == PT_DYNAMIC:
                at = self._check(segment.offset, segment.filesz, "the dynamic section")
                tags = dict(_TAG.iter_unpack(self.data[at : at + segment.filesz // 16 * 16]))
        rela, size = tags.get(_DT_RELA, 0), tags.get(_DT_RELASZ, 0)
        for load in loads:
            if load.vaddr <= rela and rela + size <= load.vaddr + load.filesz:
                at = self.base + load.offset + rela - load.vaddr
                size = size // layout.RELA.size * layout.RELA.size
                yield from layout.RELA.iter_unpack(self.data[at : at + size])

    def _relocations(self, wanted: Collection[int]) -> dict[int, tuple[int, int]]:
        """Address → (value, offset in the file of the addend), of the dynamic relocations there."""
        found: dict[int, tuple[int, int]] = {}
        for section in self.sections:
            if section.type != SHT_RELA or not section.flags & SHF_ALLOC:
                continue
            size = section.size // layout.RELA.size * layout.RELA.size
            rows = layout.RELA.iter_unpack(self.data[section.offset : section.offset + size])
            for index, (address, info, addend) in enumerate(rows):
                if address not in wanted:
                    continue
                adds_symbol = _RELOCATIONS.get((self.header.machine, info & _TYPE))
                if adds_symbol is None:
                    raise UnsupportedError(
                        f"{self.name}: the relocation of the wrapper at {address - 8:#x} has type "
                        f"{info & _TYPE}"
                    )
                value = addend + (self._symbol(section, info >> 32) if adds_symbol else 0)
                found[address] = (value, section.offset + index * layout.RELA.size + 16)
        return found

    def _symbol(self, relocations: HostSection, index: int) -> int:
        """The value of a symbol of the table that a relocation section refers to."""
        table = self.sections[relocations.link] if relocations.link < len(self.sections) else None
        if table is None or table.type not in (SHT_SYMTAB, SHT_DYNSYM):
            raise FormatError(f"{self.name}: section {relocations.number}: no symbol table")
        if (index + 1) * layout.SYMBOL.size > table.size:
            raise FormatError(f"{self.name}: section {relocations.number}: no symbol {index}")
        return int(
            layout.SYMBOL.unpack_from(self.data, table.offset + index * layout.SYMBOL.size)[4]
        )
