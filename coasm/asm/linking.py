"""How an object was linked: the linker options that give its loaded image again.

Most objects come from ``ld.lld -shared`` as it is; of others the listing's head says what is to be
added (``// coasm: link …``), and ``coasm asm`` links with just that. Each option is one of a fixed
set, recognised in the program headers and the dynamic section. Source: the ELF writer of LLD 14 to
22 (``ELF/Writer.cpp``, ``SyntheticSections.cpp``).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from coasm.codeobject import CodeObject
from coasm.codeobject.elf import (
    PT_LOAD,
    SHF_MERGE,
    SHF_STRINGS,
    SHN_LORESERVE,
    SHT_DYNAMIC,
    SHT_DYNSYM,
    SHT_GNU_HASH,
    SHT_HASH,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_SYMTAB,
    Elf,
    Section,
    Segment,
)
from coasm.codeobject.layout import (
    SECTION_HEADER_SIZE,
    SEGMENT_SIZE,
    SYMBOL,
    SymbolRecord,
    change_file_header,
    change_segment,
    change_symbol,
    packed,
    section_headers,
)
from coasm.errors import UnsupportedError

__all__ = [
    "BUILD_ID",
    "NO_PADDING",
    "declared_linking",
    "link_line",
    "linker_options",
    "linking_for",
    "linking_of",
    "unpadded",
]

#: LLD before 18 rounds the RELRO segment up to a page without a section that fills it. No option of
#: LLD says so: :func:`unpadded` takes the section out again.
NO_PADDING = "no-relro-padding"
_PADDING = ".relro_padding"
#: The section that the linker makes of ``--build-id``.
BUILD_ID = ".note.gnu.build-id"

_PAGE = 4096
_PT_GNU_STACK, _PT_GNU_RELRO = 0x6474E551, 0x6474E552
_PF_X = 1
_MERGED = SHF_MERGE | SHF_STRINGS
_NT_GNU_BUILD_ID = 3
_DT_SONAME, _DT_RPATH, _DT_RUNPATH, _DT_FLAGS, _DT_FLAGS_1 = 14, 15, 29, 30, 0x6FFFFFFB
#: Dynamic tag, a bit of its value, and the option that sets it.
_FLAGS = (
    (_DT_FLAGS, 0x2, "-Bsymbolic"),
    (_DT_FLAGS_1, 0x1, "-znow"),
    (_DT_FLAGS_1, 0x2, "-zglobal"),
    (_DT_FLAGS_1, 0x8, "-znodelete"),
    (_DT_FLAGS_1, 0x20, "-zinitfirst"),
    (_DT_FLAGS_1, 0x40, "-znodlopen"),
    (_DT_FLAGS_1, 0x80, "-zorigin"),
    (_DT_FLAGS_1, 0x400, "-zinterpose"),
)
#: Dynamic tags of strings, and the options that write them.
_STRINGS = (
    (_DT_SONAME, ("-soname={}",)),
    (_DT_RUNPATH, ("-rpath={}",)),
    (_DT_RPATH, ("--disable-new-dtags", "-rpath={}")),
)
_NAME = r"[A-Za-z0-9._+/$][A-Za-z0-9._+/$-]*"
#: Larger pages than these would make a small object a large file.
_OPTION = (
    rf"{NO_PADDING}|-O0|--no-rosegment|--hash-style=(?:gnu|sysv)|--disable-new-dtags|-Bsymbolic"
    r"|-z(?:norelro|execstack|nognustack|separate-code|separate-loadable-segments)"
    r"|-z(?:now|global|nodelete|initfirst|nodlopen|origin|interpose)"
    r"|-zmax-page-size=(?:8192|16384|32768|65536)|--image-base=0x[1-9a-f][0-9a-f]{0,11}000"
    rf"|--build-id=0x(?:[0-9a-f]{{2}}){{1,64}}|-(?:soname|rpath)={_NAME}"
)
_LINE = re.compile(r"^// coasm: link((?: \S+)+)[ \t\r]*$", re.M)


def linking_of(elf: Elf) -> tuple[str, ...]:
    """What is to be added to ``ld.lld -shared`` to get the loaded image of *elf* again."""
    if not elf.segments or not any(s.type == SHT_DYNAMIC for s in elf.sections):
        return ()  # no linker's layout
    options = [*_segments(elf), *_sections(elf), *_dynamic(elf)]
    return tuple(option for option in options if re.fullmatch(_OPTION, option))


def _segments(elf: Elf) -> Iterator[str]:
    loads = [s for s in elf.segments if s.type == PT_LOAD]
    relro = any(s.type == _PT_GNU_RELRO for s in elf.segments)
    if not relro:
        yield "-znorelro"
    elif not any(s.name == _PADDING for s in elf.sections):
        yield NO_PADDING
    stack = next((s for s in elf.segments if s.type == _PT_GNU_STACK), None)
    if stack is None:
        yield "-znognustack"
    elif stack.flags & _PF_X:
        yield "-zexecstack"
    if not loads:
        return
    page = max(s.align for s in loads)
    if page != _PAGE:
        yield f"-zmax-page-size={page}"
    if loads[0].vaddr:
        yield f"--image-base={loads[0].vaddr:#x}"
    if loads[0].flags & _PF_X and any(s.alloc and not s.flags & 5 for s in elf.sections):
        yield "--no-rosegment"
    yield from _separation(loads, page)


def _separation(loads: list[Segment], page: int) -> Iterator[str]:
    """Whether segments share pages of the file; by default they do."""
    if not page or len(loads) < 2:
        return
    apart = [not s.offset % page and not s.vaddr % page for s in loads]
    code = [bool(s.flags & _PF_X) for s in loads]
    if all(apart):
        yield "-zseparate-loadable-segments"
    elif any(code) and all(apart[n] for n in range(1, len(loads)) if code[n] != code[n - 1]):
        yield "-zseparate-code"


def _sections(elf: Elf) -> Iterator[str]:
    types = {s.type for s in elf.sections}
    if SHT_GNU_HASH not in types:
        yield "--hash-style=sysv"
    elif SHT_HASH not in types:
        yield "--hash-style=gnu"
    for section in elf.sections:
        if not section.alloc and section.flags & _MERGED == _MERGED and section.name != ".comment":
            yield "-O0"  # its strings are not merged anew, which would move them
            break
    for section in elf.sections:
        if section.name == BUILD_ID and section.type == SHT_NOTE:
            for owner, kind, value in elf.notes_of(section):
                if owner == b"GNU" and kind == _NT_GNU_BUILD_ID:
                    yield f"--build-id=0x{value.hex()}"


def _dynamic(elf: Elf) -> Iterator[str]:
    section = next(s for s in elf.sections if s.type == SHT_DYNAMIC)
    whole = section.data[: len(section.data) // 16 * 16]
    rows = dict(struct.iter_unpack("<QQ", whole))
    for tag, bit, option in _FLAGS:
        if rows.get(tag, 0) & bit:
            yield option
    names = elf.sections[section.link].data if section.link < len(elf.sections) else b""
    for tag, options in _STRINGS:
        if tag in rows:
            text = names[rows[tag] :].partition(b"\0")[0].decode("ascii", "replace")
            yield from (option.format(text) for option in options)


def linker_options(linking: tuple[str, ...]) -> tuple[str, ...]:
    """Those of *linking* that the linker has."""
    return tuple(option for option in linking if option != NO_PADDING)


def link_line(options: tuple[str, ...]) -> str:
    """The line of a listing's head that :func:`declared_linking` reads."""
    return f"// coasm: link {' '.join(options)}"


def declared_linking(text: str) -> tuple[str, ...] | None:
    """The options that a listing's head names; None where it names none.

    Raises:
        UnsupportedError: an option that coasm does not take from a listing.
    """
    found = _LINE.search(text) if "// coasm: link " in text else None
    if found is None:
        return None
    options = tuple(found[1].split())
    for option in options:
        if not re.fullmatch(_OPTION, option):
            line = text.count("\n", 0, found.start()) + 1
            raise UnsupportedError(
                f"line {line}: `// coasm: link` does not take {option!r}; "
                "docs/listing.md names what it takes"
            )
    return options


def linking_for(text: str, like: CodeObject | None) -> tuple[str, ...]:
    """How a source is linked: as its head says, else as the object that it is to be like.

    Raises:
        UnsupportedError: its head names an option that coasm does not take from a listing.
    """
    declared = declared_linking(text)
    if declared is None:
        return linking_of(like.elf) if like is not None else ()
    return declared


def unpadded(data: bytes) -> bytes:
    """A linked object without ``.relro_padding``, as LLD before 18 writes it.

    The section is no bytes of the file: its header goes, the indices behind it move up, and the
    segment ends where its bytes do.
    """
    elf = Elf(data, "the linked object")
    padding = next((s for s in elf.sections if s.name == _PADDING), None)
    if padding is None or padding.type != SHT_NOBITS:
        return data
    out = bytearray(data)
    gone, header = padding.index, elf.header
    for number, segment in enumerate(elf.segments):
        if segment.type == PT_LOAD and segment.vaddr + segment.memsz == padding.addr + padding.size:
            at = header.phoff + SEGMENT_SIZE * number
            change_segment(out, at, memsz=padding.addr - segment.vaddr)
    for section in elf.sections:
        if section.type in (SHT_SYMTAB, SHT_DYNSYM):
            _renumber(out, section, gone)
    end = header.shoff + SECTION_HEADER_SIZE * header.shnum
    headers = [
        packed(row._replace(link=row.link - (row.link > gone)))
        for index, row in enumerate(section_headers(elf.data[header.shoff : end]))
        if index != gone
    ]
    out[header.shoff : end] = b"".join(headers)
    change_file_header(out, shnum=len(headers), shstrndx=header.shstrndx - (header.shstrndx > gone))
    return bytes(out)


def _renumber(out: bytearray, table: Section, gone: int) -> None:
    """Move up the section indices of a symbol table that are behind the section *gone*."""
    for at in range(table.offset, table.offset + table.size, SYMBOL.size):
        index = SymbolRecord(*SYMBOL.unpack_from(out, at)).shndx
        if gone < index < SHN_LORESERVE:
            change_symbol(out, at, shndx=index - 1)
