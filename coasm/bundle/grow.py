"""Room for larger bundles in an ELF file: a new loadable segment, or a section that moves.

A linked file gets a segment of its own behind everything else for the bundles. It takes one more
program header, for which the sections behind the table (notes, symbol hashes) move into the new
segment; where something is there that may not, the whole table does. The section header table is
written anew behind it, with one more ``.hip_fatbin``, so that tools find what wrappers point to.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from coasm.bundle.host import Host, HostSection
from coasm.codeobject.elf import (
    PT_INTERP,
    PT_LOAD,
    PT_PHDR,
    SHF_ALLOC,
    SHT_DYNAMIC,
    SHT_DYNSYM,
    SHT_GNU_HASH,
    SHT_HASH,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_PROGBITS,
)
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
#: Sections that nothing but a program header or a dynamic tag leads to: type → that tag, or 0.
_MOVABLE = {SHT_NOTE: 0, SHT_HASH: 4, SHT_GNU_HASH: 0x6FFFFEF5, SHT_DYNSYM: 6}


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
    aside = _in_the_way(host)
    offset, address, page = _place(out, host, loads, fixed=aside is None)
    out.extend(bytes(offset - len(out)))
    places = []
    for bundle in bundles:
        out.extend(bytes(_up(len(out), _ALIGN) - len(out)))
        places.append(address + len(out) - offset)
        out.extend(bundle)
    size = len(out) - offset
    count = len(host.segments) + 1
    if aside is None:
        out.extend(bytes(_up(len(out), 16) - len(out)))
        headers_at = len(out)
        length = headers_at - offset + count * SEGMENT_SIZE
        headers_address = address + headers_at - offset
    else:
        headers_at = host.header.phoff
        first = next(s for s in loads if s.offset <= headers_at < s.offset + s.filesz)
        headers_address = headers_at - first.offset + first.vaddr
        aside = aside.moved_to(len(out), address + len(out) - offset)
        out.extend(bytes(aside.offset - len(out)))
        out.extend(out[aside.old_offset : aside.old_offset + aside.size])
        length = len(out) - offset
        out[aside.old_offset : aside.old_offset + aside.size] = bytes(aside.size)
        _move_tags(out, host, aside)
    own = Segment(PT_LOAD, _PF_R, offset, address, address, length, length, page)
    table = _headers(host, own, (headers_at, headers_address), aside)
    out[headers_at : headers_at + len(table)] = table
    _write_sections(out, host, section, (address, offset, size), aside)
    _change_header(out, phoff=headers_at, phnum=count)
    return places


def _headers(host: Host, own: Segment, at: tuple[int, int], aside: _Aside | None) -> bytes:
    """The program headers with the segment *own*, at that offset and address of the file."""
    table = b""
    last = max(n for n, s in enumerate(host.segments) if s.type == PT_LOAD)
    for number, segment in enumerate(host.segments):
        if segment.type == PT_PHDR:
            whole = (len(host.segments) + 1) * SEGMENT_SIZE
            offset, address = at
            segment = segment._replace(
                offset=offset, vaddr=address, paddr=address, filesz=whole, memsz=whole
            )
        elif aside is not None and segment.type != PT_LOAD and aside.holds(segment.offset):
            segment = segment._replace(
                offset=segment.offset + aside.offset - aside.old_offset,
                vaddr=segment.vaddr + aside.distance,
                paddr=segment.paddr + aside.distance,
            )
        table += packed(segment) + (packed(own) if number == last else b"")
    return table


def _place(
    out: bytearray, host: Host, loads: Sequence[Segment], *, fixed: bool
) -> tuple[int, int, int]:
    """Offset, address and alignment of a new segment; *fixed*: with the program headers in it."""
    page = max(_ALIGN, *(s.align for s in loads))
    address = _up(max(s.vaddr + s.memsz for s in loads), page)
    offset = _up(len(out), page)
    if fixed and any(s.type in (PT_PHDR, PT_INTERP) for s in host.segments):
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
    return offset, address, page


class _Aside(NamedTuple):
    """Bytes of a file that make room for another program header, and where they go."""

    old_offset: int
    old_address: int
    size: int
    align: int
    offset: int = 0
    address: int = 0

    @property
    def distance(self) -> int:
        return self.address - self.old_address

    def holds(self, offset: int) -> bool:
        """Whether what was at *offset* of the file moves."""
        return self.old_offset <= offset < self.old_offset + self.size

    def moved_to(self, offset: int, address: int) -> _Aside:
        """The same at the next place from there that is aligned as the old one is."""
        up = (self.old_address - address) % self.align
        return self._replace(offset=offset + up, address=address + up)


def _in_the_way(host: Host) -> _Aside | None:
    """What has to go where another program header is to be; None where something there may not.

    GNU strip and objcopy write the program headers behind the file header, whatever e_phoff says;
    elsewhere they would overwrite what is loaded. Whole segments and sections move.
    """
    start = host.header.phoff + len(host.segments) * SEGMENT_SIZE
    load = next(
        (s for s in host.segments if s.type == PT_LOAD and s.offset == 0 and s.filesz >= start),
        None,
    )
    if load is None or host.header.phoff != FILE_HEADER_SIZE:
        return None
    sections = sorted(
        (s for s in host.sections if s.flags & SHF_ALLOC and s.type != SHT_NOBITS and s.size),
        key=lambda s: s.offset,
    )
    loaded = [s for s in sections if s.offset >= start]
    others = [s for s in host.segments if s.type not in (PT_LOAD, PT_PHDR) and s.filesz]
    end, align = start + SEGMENT_SIZE, 16
    first = last = None
    for section in loaded:
        if section.offset >= end:
            break
        if section.type not in _MOVABLE and section.name != ".interp":
            return None
        first, last = first or section, section
        align = max(align, section.align)
        end = max(end, section.offset + section.size)
        for segment in others:
            if segment.offset < end and segment.offset + segment.filesz > section.offset:
                end = max(end, segment.offset + segment.filesz)
    if first is None or last is None:
        return None if start + SEGMENT_SIZE > load.filesz else _Aside(start, load.vaddr, 0, 1)
    if align > _ALIGN or end > load.filesz or first.addr - load.vaddr != first.offset:
        return None
    return _Aside(first.offset, first.addr, last.offset + last.size - first.offset, align)


def _move_tags(out: bytearray, host: Host, aside: _Aside) -> None:
    """Let the dynamic section say where the moved tables are."""
    tags = {tag for tag in _MOVABLE.values() if tag}
    for section in host.sections:
        if section.type != SHT_DYNAMIC:
            continue
        for at in range(section.offset, section.offset + section.size // 16 * 16, 16):
            tag, value = struct.unpack_from("<QQ", out, at)
            if tag in tags and aside.old_address <= value < aside.old_address + aside.size:
                struct.pack_into("<Q", out, at + 8, value + aside.distance)


def _change_header(out: bytearray, **fields: int) -> None:
    """Give fields of the file header other values."""
    header = packed(file_header(bytes(out[:FILE_HEADER_SIZE]))._replace(**fields))
    out[IDENT_SIZE : IDENT_SIZE + len(header)] = header


def _write_sections(
    out: bytearray,
    host: Host,
    like: HostSection,
    place: tuple[int, int, int],
    aside: _Aside | None,
) -> None:
    """A new section header table at the end, with one more section named as *like*."""
    address, offset, size = place
    old, count = host.header.shoff, len(host.sections)
    if count + 1 >= 0xFF00:
        raise UnsupportedError(f"{host.name}: more than 65,278 sections")
    table = bytes(out[old : old + count * SECTION_HEADER_SIZE])
    rows = section_headers(table)
    name = rows[like.number].name
    if aside is not None:
        for number, row in enumerate(rows):
            if row.flags & SHF_ALLOC and row.type != SHT_NOBITS and aside.holds(row.offset):
                rows[number] = row._replace(
                    addr=row.addr + aside.distance,
                    offset=row.offset + aside.offset - aside.old_offset,
                )
        table = b"".join(packed(row) for row in rows)
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
