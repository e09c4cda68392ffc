"""Room for larger bundles in an ELF file: a new loadable segment, or a section that moves.

A linked file gets a segment of its own behind everything else: the bundles, then the program header
table with one more entry. The section header table is written anew behind it, with one more
``.hip_fatbin``, so that tools find what the wrappers point to. No other byte moves.
"""

from __future__ import annotations

from collections.abc import Sequence

from coasm.bundle.host import Host, HostSection
from coasm.codeobject.elf import PT_INTERP, PT_LOAD, PT_PHDR, SHF_ALLOC, SHT_PROGBITS
from coasm.codeobject.layout import (
    FILE_HEADER_SIZE,
    IDENT_SIZE,
    SECTION_HEADER_SIZE,
    SEGMENT_SIZE,
    SectionHeader,
    Segment,
    file_header,
    packed,
    section_headers,
)
from coasm.errors import FormatError, UnsupportedError

__all__ = ["add_segment", "move_section"]

#: Bundles are mapped by page, and what is in them is aligned to one.
_ALIGN = 4096
#: Bytes that a file may grow by for the sake of equal offsets and addresses.
_MAX_HOLE = 1 << 26
_PF_R = 4


def _up(value: int, align: int) -> int:
    return -(-value // align) * align


def add_segment(
    out: bytearray, host: Host, section: HostSection, bundles: Sequence[bytes]
) -> list[int]:
    """Append *bundles* to the linked file *out*, loaded with it; their addresses.

    *host* is what the file was, *section* the one that the bundles were in.

    Raises:
        FormatError: the program headers are damaged.
        UnsupportedError: the file's layout leaves no way to do it.
    """
    loads = [s for s in host.segments if s.type == PT_LOAD]
    if not loads:
        raise UnsupportedError(
            f"{host.name}: no loadable segment, and so no place for a larger one"
        )
    page = max(_ALIGN, *(s.align for s in loads))
    address = _up(max(s.vaddr + s.memsz for s in loads), page)
    offset = _up(len(out), page)
    if any(s.type in (PT_PHDR, PT_INTERP) for s in host.segments):
        # Linux before 5.18 tells a program that its headers are at load address + e_phoff.
        bias = loads[0].vaddr - loads[0].offset
        offset = max(offset, _up(address - bias, page))
        address = offset + bias
    if address >= 1 << 62 or page > _MAX_HOLE:
        raise FormatError(f"{host.name}: a segment at an impossible address or alignment")
    if offset - len(out) > _MAX_HOLE + page:
        raise UnsupportedError(
            f"{host.name}: the file would grow by {offset - len(out):,} bytes of nothing"
        )
    out.extend(bytes(offset - len(out)))
    places = []
    for bundle in bundles:
        out.extend(bytes(_up(len(out), _ALIGN) - len(out)))
        places.append(address + len(out) - offset)
        out.extend(bundle)
    size = len(out) - offset
    out.extend(bytes(_up(len(out), 16) - len(out)))
    headers_at, count = len(out), len(host.segments) + 1
    length = headers_at - offset + count * SEGMENT_SIZE
    last = max(n for n, s in enumerate(host.segments) if s.type == PT_LOAD)
    for number, segment in enumerate(host.segments):
        if segment.type == PT_PHDR:
            at = address + headers_at - offset
            segment = segment._replace(
                offset=headers_at,
                vaddr=at,
                paddr=at,
                filesz=count * SEGMENT_SIZE,
                memsz=count * SEGMENT_SIZE,
            )
        out.extend(packed(segment))
        if number == last:
            own = Segment(PT_LOAD, _PF_R, offset, address, address, length, length, page)
            out.extend(packed(own))
    _write_sections(out, host, section, (address, offset, size))
    _change_header(out, phoff=headers_at, phnum=count)
    return places


def _change_header(out: bytearray, **fields: int) -> None:
    """Give fields of the file header other values."""
    header = packed(file_header(bytes(out[:FILE_HEADER_SIZE]))._replace(**fields))
    out[IDENT_SIZE : IDENT_SIZE + len(header)] = header


def _write_sections(
    out: bytearray, host: Host, like: HostSection, place: tuple[int, int, int]
) -> None:
    """A new section header table at the end, with one more section named as *like*."""
    address, offset, size = place
    old, count = host.header.shoff, len(host.sections)
    if count + 1 >= 0xFF00:
        raise UnsupportedError(f"{host.name}: more than 65,278 sections")
    table = bytes(out[old : old + count * SECTION_HEADER_SIZE])
    name = section_headers(table)[like.number].name
    out.extend(bytes(_up(len(out), 8) - len(out)))
    _change_header(out, shoff=len(out), shnum=count + 1)
    own = SectionHeader(
        name, SHT_PROGBITS, SHF_ALLOC, address, offset, size, 0, 0, _ALIGN, entsize=0
    )
    out.extend(table + packed(own))


def move_section(out: bytearray, host: Host, section: HostSection, contents: bytes) -> None:
    """Give a section of the relocatable file *out* other *contents*, at the end of the file."""
    align = max(section.align, 1)
    out[section.offset : section.offset + section.size] = bytes(section.size)
    out.extend(bytes(_up(len(out), align) - len(out)))
    at = host.header.shoff + section.number * SECTION_HEADER_SIZE
    (header,) = section_headers(bytes(out[at : at + SECTION_HEADER_SIZE]))
    header = header._replace(offset=len(out), size=len(contents))
    out[at : at + SECTION_HEADER_SIZE] = packed(header)
    out.extend(contents)
