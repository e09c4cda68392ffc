"""The records of a 64-bit little-endian ELF file: the one place that knows where which field is.

They are pyelftools' own (``ELFStructs``), headers are read and written by it. Symbols and
relocations, of which a library has 100,000s, are read a whole table at once: pyelftools takes 20
times as long, and 1.5 kB for each. What it would do with a damaged file beyond these records, and
why :mod:`coasm.codeobject.elf` does that, is in docs/how-it-is-built.md.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from io import BytesIO
from typing import Any, NamedTuple

from elftools.elf.enums import (
    ENUM_E_MACHINE,
    ENUM_E_TYPE,
    ENUM_E_VERSION,
    ENUM_P_TYPE_BASE,
    ENUM_SH_TYPE_BASE,
)
from elftools.elf.structs import ELFStructs

__all__ = [
    "FILE_HEADER_SIZE",
    "IDENT_SIZE",
    "NOTE",
    "REL",
    "RELA",
    "SECTION_HEADER_SIZE",
    "SEGMENT_SIZE",
    "SYMBOL",
    "FileHeader",
    "SectionHeader",
    "Segment",
    "SymbolRecord",
    "change_file_header",
    "change_section_header",
    "change_segment",
    "change_symbol",
    "file_header",
    "packed",
    "section_headers",
    "segments",
]


class FileHeader(NamedTuple):
    """``Elf64_Ehdr`` behind ``e_ident``."""

    type: int
    machine: int
    version: int
    entry: int
    phoff: int
    shoff: int
    flags: int
    ehsize: int
    phentsize: int
    phnum: int
    shentsize: int
    shnum: int
    shstrndx: int


class SectionHeader(NamedTuple):
    """``Elf64_Shdr``; ``name`` is an offset in the section name table."""

    name: int
    type: int
    flags: int
    addr: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entsize: int


class Segment(NamedTuple):
    """One program header, ``Elf64_Phdr``."""

    type: int
    flags: int
    offset: int
    vaddr: int
    paddr: int
    filesz: int
    memsz: int
    align: int


class SymbolRecord(NamedTuple):
    """``Elf64_Sym``; ``name`` is an offset in the string table."""

    name: int
    info: int
    other: int
    shndx: int
    value: int
    size: int


def _structs() -> Any:
    structs = ELFStructs(little_endian=True, elfclass=64)
    structs.create_basic_structs()
    structs.create_advanced_structs()
    return structs


_STRUCTS = _structs()
_RECORDS = {
    FileHeader: _STRUCTS.Elf_Ehdr,
    SectionHeader: _STRUCTS.Elf_Shdr,
    Segment: _STRUCTS.Elf_Phdr,
}
#: The fields of which pyelftools says a name where it knows one, and the numbers of the names.
_NUMBERS: dict[str, Mapping[str, int]] = {
    "e_type": ENUM_E_TYPE,
    "e_machine": ENUM_E_MACHINE,
    "e_version": ENUM_E_VERSION,
    "sh_type": ENUM_SH_TYPE_BASE,
    "p_type": ENUM_P_TYPE_BASE,
}

IDENT_SIZE = 16
FILE_HEADER_SIZE: int = _STRUCTS.Elf_Ehdr.sizeof()
SECTION_HEADER_SIZE: int = _STRUCTS.Elf_Shdr.sizeof()
SEGMENT_SIZE: int = _STRUCTS.Elf_Phdr.sizeof()

#: ``Elf64_Sym``: as :class:`SymbolRecord`.
SYMBOL = struct.Struct("<IBBHQQ")
#: ``Elf64_Rela``: offset, info, addend; ``Elf64_Rel`` has no addend.
RELA = struct.Struct("<QQq")
REL = struct.Struct("<QQ")
#: ``Elf64_Nhdr``: sizes of name and descriptor, type.
NOTE = struct.Struct("<III")


def file_header(data: bytes) -> FileHeader:
    """The file header in the first :data:`FILE_HEADER_SIZE` bytes of *data*."""
    return FileHeader(*_rows(_STRUCTS.Elf_Ehdr, data[:FILE_HEADER_SIZE])[0])


def section_headers(table: bytes) -> list[SectionHeader]:
    """The entries of a section header table."""
    return [SectionHeader(*row) for row in _rows(_STRUCTS.Elf_Shdr, table)]


def segments(table: bytes) -> list[Segment]:
    """The entries of a program header table."""
    return [Segment(*row) for row in _rows(_STRUCTS.Elf_Phdr, table)]


def packed(record: FileHeader | SectionHeader | Segment) -> bytes:
    """The bytes of a record; those of a file header are what is behind ``e_ident``."""
    fields = [f for f in _RECORDS[type(record)].subcons if f.name != "e_ident"]
    return b"".join(f.build(value) for f, value in zip(fields, record, strict=True))


def change_file_header(out: bytearray, **values: int) -> None:
    """Give fields of the file header of *out* other values."""
    header = file_header(bytes(out[:FILE_HEADER_SIZE]))._replace(**values)
    out[IDENT_SIZE:FILE_HEADER_SIZE] = packed(header)


def change_section_header(out: bytearray, at: int, **values: int) -> None:
    """Give fields of the section header at the offset *at* of *out* other values."""
    (header,) = section_headers(bytes(out[at : at + SECTION_HEADER_SIZE]))
    out[at : at + SECTION_HEADER_SIZE] = packed(header._replace(**values))


def change_segment(out: bytearray, at: int, **values: int) -> None:
    """Give fields of the program header at the offset *at* of *out* other values."""
    (header,) = segments(bytes(out[at : at + SEGMENT_SIZE]))
    out[at : at + SEGMENT_SIZE] = packed(header._replace(**values))


def change_symbol(out: bytearray, at: int, **values: int) -> None:
    """Give fields of the symbol at the offset *at* of *out* other values."""
    row = SymbolRecord(*SYMBOL.unpack_from(out, at))._replace(**values)
    SYMBOL.pack_into(out, at, *row)


def _rows(record: Any, table: bytes) -> list[list[int]]:
    stream = BytesIO(table)
    return [
        [
            _NUMBERS[field][value] if isinstance(value, str) else value
            for field, value in record.parse_stream(stream).items()
            if field != "e_ident"
        ]
        for _ in range(len(table) // record.sizeof())
    ]
