"""The ELF container of a code object: header, sections, segments, symbols, relocations.

The records are pyelftools' (:mod:`coasm.codeobject.layout`). Every offset, size and index of the
file is checked before it is used, so that a damaged file ends in a
:class:`~coasm.errors.FormatError` that names the place. Source: the System V ABI's ELF-64 object
file format.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from coasm.codeobject import layout
from coasm.codeobject.layout import Segment
from coasm.errors import FormatError, UnsupportedError

__all__ = [
    "EM_AMDGPU",
    "ET_DYN",
    "ET_REL",
    "OSABI_AMDGPU_HSA",
    "Elf",
    "ElfHeader",
    "Relocation",
    "Section",
    "Segment",
    "Symbol",
]

EM_AMDGPU = 224
OSABI_AMDGPU_HSA = 64
ET_REL, ET_EXEC, ET_DYN = 1, 2, 3

SHT_NULL, SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA = 0, 1, 2, 3, 4
SHT_HASH, SHT_DYNAMIC, SHT_NOTE, SHT_NOBITS, SHT_REL, SHT_DYNSYM = 5, 6, 7, 8, 9, 11
SHT_GNU_HASH = 0x6FFFFFF6
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_MERGE, SHF_STRINGS = 1, 2, 4, 0x10, 0x20
SHN_UNDEF, SHN_LORESERVE, SHN_ABS, SHN_COMMON, SHN_XINDEX = 0, 0xFF00, 0xFFF1, 0xFFF2, 0xFFFF
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_PHDR = 1, 2, 3, 4, 6
STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_SECTION, STT_FILE = 0, 1, 2, 3, 4
STV_DEFAULT, STV_INTERNAL, STV_HIDDEN, STV_PROTECTED = 0, 1, 2, 3

#: What sections and names together may have besides the bytes of the file: they could all have the
#: same, 65,000 sections the whole file and as many names one long string.
MAX_SHARED = 1 << 27


class ElfHeader(NamedTuple):
    """The ELF file header, field for field (``e_ident`` beyond the magic by its members)."""

    os_abi: int
    abi_version: int
    type: int
    machine: int
    entry: int
    phoff: int
    shoff: int
    flags: int
    phnum: int
    shnum: int
    shstrndx: int


class Section(NamedTuple):
    """One section header, its name, and its bytes (empty for ``SHT_NOBITS``)."""

    index: int  # type: ignore[assignment]
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
    data: bytes

    @property
    def alloc(self) -> bool:
        """Whether the section is part of the loaded image."""
        return bool(self.flags & SHF_ALLOC)

    @property
    def code(self) -> bool:
        """Whether the section holds instructions: loaded, executable, with bytes."""
        return (
            self.type == SHT_PROGBITS
            and self.flags & (SHF_ALLOC | SHF_EXECINSTR) == SHF_ALLOC | SHF_EXECINSTR
        )


class Symbol(NamedTuple):
    """One symbol table entry. *index* is its place in its own table."""

    index: int  # type: ignore[assignment]
    name: str
    value: int
    size: int
    bind: int
    type: int
    other: int
    shndx: int

    @property
    def visibility(self) -> int:
        """``STV_*``: the low two bits of ``st_other``."""
        return self.other & 3


class Relocation(NamedTuple):
    """One relocation entry of the section *section* (its index); ``addend`` is 0 for REL."""

    section: int
    offset: int
    type: int
    symbol: int
    addend: int


def _text(raw: bytes) -> str:
    """Names as text: UTF-8, with undecodable bytes kept as surrogates (lossless both ways)."""
    return raw.decode("utf-8", "surrogateescape")


class Elf:
    """A parsed ELF-64 little-endian AMDGPU file. Reads *data* once; nothing is modified.

    Raises:
        FormatError: not such a file, or damaged: *where* names the place.
        UnsupportedError: a well-formed ELF for another machine or OS ABI.
    """

    def __init__(self, data: bytes, name: str = "<bytes>") -> None:
        self.data = data
        self.name = name
        self._left = MAX_SHARED + len(data)
        self.header = self._read_header()
        self.sections = self._read_sections()
        self.segments = self._read_segments()

    def _fail(self, what: str) -> FormatError:
        return FormatError(f"{self.name}: {what}")

    def _check(self, offset: int, size: int, what: str) -> None:
        if offset + size > len(self.data):
            raise self._fail(
                f"{what} at offset {offset:#x} with size {size:#x} is outside the file "
                f"({len(self.data):#x} bytes)"
            )

    def _slice(self, offset: int, size: int, what: str) -> bytes:
        self._check(offset, size, what)
        self._take(size, what)
        return self.data[offset : offset + size]

    def _take(self, size: int, what: str) -> None:
        """Count *size* bytes that are about to be copied."""
        self._left -= size
        if self._left < 0:
            raise self._fail(f"{what}: many sections or names share their bytes")

    def _read_header(self) -> ElfHeader:
        data = self.data
        if not data:
            raise self._fail("the file is empty")
        if data[:4] != b"\x7fELF":
            raise self._fail("not an ELF file")
        size = layout.FILE_HEADER_SIZE
        if len(data) < size:
            raise self._fail(f"truncated: {len(data)} bytes, an ELF header has {size}")
        if data[4] != 2 or data[5] != 1:
            raise UnsupportedError(f"{self.name}: not a 64-bit little-endian ELF file")
        h = layout.file_header(data)
        if h.machine != EM_AMDGPU:
            raise UnsupportedError(
                f"{self.name}: an ELF file for machine {h.machine}, not EM_AMDGPU ({EM_AMDGPU})"
            )
        if data[7] != OSABI_AMDGPU_HSA:
            raise UnsupportedError(
                f"{self.name}: OS ABI {data[7]}, not AMDGPU_HSA ({OSABI_AMDGPU_HSA})"
            )
        if data[6] != 1 or h.version != 1 or h.ehsize != size:
            raise self._fail("damaged ELF header (version or header size)")
        size = layout.SECTION_HEADER_SIZE
        if h.shnum and h.shentsize != size:
            raise self._fail(f"section header size {h.shentsize}, expected {size}")
        size = layout.SEGMENT_SIZE
        if h.phnum and h.phentsize != size:
            raise self._fail(f"program header size {h.phentsize}, expected {size}")
        if not h.shnum and h.shoff:
            raise UnsupportedError(f"{self.name}: more than 65,279 sections")
        return ElfHeader(
            os_abi=data[7],
            abi_version=data[8],
            type=h.type,
            machine=h.machine,
            entry=h.entry,
            phoff=h.phoff,
            shoff=h.shoff,
            flags=h.flags,
            phnum=h.phnum,
            shnum=h.shnum,
            shstrndx=h.shstrndx,
        )

    def _read_sections(self) -> tuple[Section, ...]:
        h = self.header
        if not h.shnum:
            return ()
        size = h.shnum * layout.SECTION_HEADER_SIZE
        rows = layout.section_headers(self._slice(h.shoff, size, "the section header table"))
        if h.shstrndx >= h.shnum or rows[h.shstrndx].type != SHT_STRTAB:
            raise self._fail(f"section {h.shstrndx} is not the section name table")
        table = rows[h.shstrndx]
        names = self._slice(table.offset, table.size, "the section name table")
        sections = []
        for index, row in enumerate(rows):
            name = self._string(names, row.name, f"the name of section {index}")
            if row.type in (SHT_NULL, SHT_NOBITS):
                data = b""
            else:
                data = self._slice(row.offset, row.size, f"section {index} ({name!r})")
            sections.append(Section(index, name, *row[1:], data))
        return tuple(sections)

    def _read_segments(self) -> tuple[Segment, ...]:
        h = self.header
        if not h.phnum:
            return ()
        size = h.phnum * layout.SEGMENT_SIZE
        segments = layout.segments(self._slice(h.phoff, size, "the program header table"))
        for index, segment in enumerate(segments):
            if segment.filesz > segment.memsz and segment.type == PT_LOAD:
                raise self._fail(f"segment {index} is larger in the file than in memory")
            self._check(segment.offset, segment.filesz, f"segment {index}")
        return tuple(segments)

    def _string(self, table: bytes, offset: int, what: str) -> str:
        end = table.find(b"\0", offset) if offset < len(table) else -1
        if end < 0:
            if offset == 0 and not table:
                return ""
            raise self._fail(f"{what} is outside its string table")
        self._take(end - offset, what)
        return _text(table[offset:end])

    def header_of(self, section: Section) -> int:
        """The offset in the file of a section's header."""
        return self.header.shoff + layout.SECTION_HEADER_SIZE * section.index

    def symbols_of(self, table: Section) -> tuple[Symbol, ...]:
        """The entries of a ``SHT_SYMTAB`` or ``SHT_DYNSYM`` section, entry 0 included."""
        where = f"section {table.index} ({table.name!r})"
        if table.size % layout.SYMBOL.size:
            raise self._fail(f"{where}: size {table.size} is no multiple of {layout.SYMBOL.size}")
        if table.link >= len(self.sections) or self.sections[table.link].type != SHT_STRTAB:
            raise self._fail(f"{where}: its string table (section {table.link}) is none")
        strings = self.sections[table.link].data
        symbols = []
        for index, row in enumerate(layout.SYMBOL.iter_unpack(table.data)):
            name, info, other, shndx, value, size = row
            if SHN_UNDEF < shndx < SHN_LORESERVE and shndx >= len(self.sections):
                raise self._fail(f"{where}: symbol {index} is in section {shndx}, which is none")
            if shndx == SHN_XINDEX:
                raise UnsupportedError(f"{self.name}: {where}: extended section indices")
            text = self._string(strings, name, f"{where}: the name of symbol {index}")
            symbols.append(Symbol(index, text, value, size, info >> 4, info & 15, other, shndx))
        return tuple(symbols)

    def _table(self, typ: int) -> tuple[Symbol, ...]:
        tables = [s for s in self.sections if s.type == typ]
        if len(tables) > 1:
            raise self._fail(f"{len(tables)} symbol tables of one kind")
        return self.symbols_of(tables[0]) if tables else ()

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The entries of ``.symtab``, or nothing where it was stripped."""
        return self._table(SHT_SYMTAB)

    @cached_property
    def dynamic_symbols(self) -> tuple[Symbol, ...]:
        """The entries of ``.dynsym``."""
        return self._table(SHT_DYNSYM)

    @cached_property
    def relocations(self) -> tuple[Relocation, ...]:
        """Every entry of every REL and RELA section, in file order."""
        return tuple(r for section in self.sections for r in self.relocations_of(section))

    def relocations_of(self, section: Section) -> list[Relocation]:
        """The entries of a REL or RELA section; none of any other."""
        if section.type not in (SHT_RELA, SHT_REL):
            return []
        record = layout.RELA if section.type == SHT_RELA else layout.REL
        if section.size % record.size:
            raise self._fail(f"section {section.index} ({section.name!r}): partial entry")
        return [
            Relocation(
                section.index, offset, info & 0xFFFFFFFF, info >> 32, addend[0] if addend else 0
            )
            for offset, info, *addend in record.iter_unpack(section.data)
        ]

    def notes_of(self, section: Section) -> list[tuple[bytes, int, bytes]]:
        """The notes of a ``SHT_NOTE`` section: (owner name without NUL, type, descriptor)."""
        data, at, found = section.data, 0, []
        where = f"section {section.index} ({section.name!r})"
        while at < len(data):
            if at + layout.NOTE.size > len(data):
                raise self._fail(f"{where}: truncated note header at {at:#x}")
            namesz, descsz, typ = layout.NOTE.unpack_from(data, at)
            name_at = at + layout.NOTE.size
            name_end = name_at + namesz
            desc_at = (name_end + 3) & ~3
            if name_end > len(data) or desc_at + descsz > len(data):
                raise self._fail(f"{where}: the note at {at:#x} is longer than its section")
            name = data[name_at:name_end].rstrip(b"\0")
            found.append((name, typ, data[desc_at : desc_at + descsz]))
            at = (desc_at + descsz + 3) & ~3
        return found
