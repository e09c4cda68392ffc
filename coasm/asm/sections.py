"""Which sections a listing writes, and how their flags are spelled."""

from __future__ import annotations

from coasm.asm.linking import BUILD_ID
from coasm.asm.names import display
from coasm.codeobject import CodeObject, Section
from coasm.codeobject.elf import (
    SHF_EXECINSTR,
    SHT_DYNAMIC,
    SHT_DYNSYM,
    SHT_GNU_HASH,
    SHT_HASH,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_NULL,
    SHT_PROGBITS,
    SHT_REL,
    SHT_RELA,
    SHT_STRTAB,
    SHT_SYMTAB,
    Elf,
)
from coasm.errors import UnsupportedError

__all__ = ["carried_sections", "check_alignments", "is_linker_made", "section_directive"]

#: Sections that the linker writes by itself.
_LINKER_TYPES = frozenset(
    (SHT_NULL, SHT_DYNSYM, SHT_GNU_HASH, SHT_HASH, SHT_DYNAMIC, SHT_STRTAB, SHT_SYMTAB)
)
_LINKER_NAMES = frozenset((".relro_padding", ".comment", ".got", BUILD_ID))

#: Section flags and how they are written. Loaded sections were merged already, and doing it again
#: might change them; the assembler insists on what it knows of debug sections.
_FLAGS = ((0x2, "a"), (0x1, "w"), (0x4, "x"))
_MERGED = 0x30
#: Bytes. What is aligned may grow by as much, in the object, in the linked file and in memory.
_MAX_ALIGN = 1 << 16


def is_linker_made(section: Section) -> bool:
    """Whether the linker writes this section by itself."""
    return section.type in _LINKER_TYPES or section.name in _LINKER_NAMES


def check_alignments(elf: Elf) -> None:
    """Refuse alignments that would make a small file a large one.

    Raises:
        UnsupportedError: one is larger than any linker or compiler asks for.
    """
    for section in elf.sections:
        if section.align > _MAX_ALIGN:
            raise UnsupportedError(
                f"{elf.name}: section {display(section.name)!r}: alignment {section.align}; "
                f"larger ones than {_MAX_ALIGN} are not handled"
            )


def carried_sections(co: CodeObject) -> list[Section]:
    """The sections that a listing writes: loaded ones by address, then the others as they are.

    Raises:
        UnsupportedError: one that no listing can say exactly.
    """
    found = []
    check_alignments(co.elf)
    for section in co.sections:
        if is_linker_made(section):
            continue
        where = f"{co.name}: section {display(section.name)!r}"
        if section.type in (SHT_REL, SHT_RELA):
            # Dynamic ones the linker makes from what refers to an address; others it has resolved.
            continue
        if section.type not in (SHT_PROGBITS, SHT_NOBITS, SHT_NOTE):
            raise UnsupportedError(f"{where}: section type {section.type:#x} is not handled")
        if section.flags & ~_MERGED & ~sum(bit for bit, _ in _FLAGS):
            raise UnsupportedError(f"{where}: section flags {section.flags:#x} are not handled")
        if section.align & (section.align - 1):
            raise UnsupportedError(f"{where}: alignment {section.align} is no power of two")
        if section.flags & SHF_EXECINSTR and not section.code:
            raise UnsupportedError(f"{where}: executable, but not loaded bytes")
        if not section.name or any(
            not (c.isalnum() and c.isascii()) and c not in "._$-+" for c in section.name
        ):
            raise UnsupportedError(f"{where}: LLVM cannot spell its name")
        found.append(section)
    loaded = sorted((s for s in found if s.alloc), key=lambda s: (s.addr, s.index))
    return [*(s for s in loaded if s.code), *(s for s in loaded if not s.code)] + [
        s for s in found if not s.alloc
    ]


def section_directive(section: Section) -> str:
    """The line that switches to *section*."""
    flags = "".join(letter for bit, letter in _FLAGS if section.flags & bit)
    kind = {SHT_NOBITS: "@nobits", SHT_NOTE: "@note"}.get(section.type, "@progbits")
    if not section.alloc and section.flags & _MERGED == _MERGED and section.entsize:
        flags, kind = flags + "MS", f"{kind},{section.entsize}"
    if section.name == ".text" and flags == "ax":
        return "\t.text"
    return f'\t.section\t{section.name},"{flags}",{kind}'
