"""What is loaded: the image byte for byte, the data in it, and the symbols that lead there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

from coasm.codeobject import CodeObject, Section, Segment
from coasm.codeobject.elf import PT_LOAD, SHN_ABS, SHN_UNDEF, SHT_NOBITS, STB_LOCAL
from coasm.codeobject.layout import FILE_HEADER_SIZE, SEGMENT_SIZE
from coasm.compare.data import RELATIVE64, DataPlaces, Piece, Side, data_places, data_sections
from coasm.compare.frames import Frame, frames_of
from coasm.compare.places import Places, named
from coasm.compare.report import ABSENT, Difference

__all__ = ["compare_data", "compare_loaded", "compare_symbols"]

# e_shoff; e_shnum and e_shstrndx: where the section headers are, which nothing loads.
_UNLOADED = ((0x28, 8), (0x3C, 4))
#: Equal bytes between two differing ones that do not end a range.
_GAP = 8
_DIFFERING = re.compile(rb"[^\0]+(?:\0{1,%d}[^\0]+)*" % _GAP, re.S)
#: Bytes of a range that a finding shows.
_SHOWN = 16


def compare_loaded(original: CodeObject, rebuilt: CodeObject) -> tuple[Difference, ...]:
    """What differs in the loaded images: segments, and ranges of bytes by section and offset.

    Every byte of every PT_LOAD segment counts, but for ``e_shoff``, ``e_shnum`` and ``e_shstrndx``
    of the ELF header. Empty where the images are identical.
    """
    findings: list[Difference] = []
    sides = [[s for s in co.elf.segments if s.type == PT_LOAD] for co in (original, rebuilt)]
    for number in range(max(map(len, sides))):
        one, other = (side[number] if number < len(side) else None for side in sides)
        if one is None or other is None or _shape(one) != _shape(other):
            findings.append(
                Difference(
                    f"PT_LOAD segment {number}",
                    ABSENT if one is None else _shape(one),
                    ABSENT if other is None else _shape(other),
                )
            )
        if one is None or other is None or one.vaddr != other.vaddr:
            continue
        left, right = _bytes(original, one), _bytes(rebuilt, other)
        # Past the bytes of the file a segment is zero, as far as it reaches in memory.
        size = max(len(left), len(right))
        left = left.ljust(min(size, one.memsz), b"\0")
        right = right.ljust(min(size, other.memsz), b"\0")
        for start, end in _ranges(left, right):
            place = _place(original, one.vaddr + start, one.offset + start)
            findings.append(_range(place, left, right, start, end))
    return tuple(findings)


def _shape(segment: Segment) -> str:
    flags = "".join(c if segment.flags & bit else "-" for c, bit in (("r", 4), ("w", 2), ("x", 1)))
    unknown = f" flags {segment.flags:#x}" if segment.flags & ~7 else ""
    return (
        f"{segment.vaddr:#x}..{segment.vaddr + segment.memsz:#x} {flags}{unknown} "
        f"align {segment.align:#x}"
    )


def _bytes(co: CodeObject, segment: Segment) -> bytes:
    data = co.data[segment.offset : segment.offset + segment.filesz]
    if segment.offset < FILE_HEADER_SIZE:
        masked = bytearray(data)
        for at, size in _UNLOADED:
            for position in range(max(at - segment.offset, 0), at + size - segment.offset):
                if position < len(masked):
                    masked[position] = 0
        data = bytes(masked)
    return data


def _ranges(left: bytes, right: bytes) -> Iterator[tuple[int, int]]:
    """The ranges in which two byte strings differ, those close to each other as one."""
    if left == right:
        return
    size = min(len(left), len(right))
    both = int.from_bytes(left[:size], "little") ^ int.from_bytes(right[:size], "little")
    for match in _DIFFERING.finditer(both.to_bytes(size, "little")):
        yield match.span()
    if len(left) != len(right):
        yield size, max(len(left), len(right))


def _range(place: str, left: bytes, right: bytes, start: int, end: int) -> Difference:
    def shown(data: bytes) -> object:
        part = data[start:end]
        if not part:
            return ABSENT
        return part[:_SHOWN].hex(" ") + (" …" if len(part) > _SHOWN else "")

    size = end - start
    return Difference(place, shown(left), shown(right), f"{size} byte{'s' if size > 1 else ''}")


def _place(co: CodeObject, address: int, offset: int) -> str:
    section = co.section_at(address)
    if section is not None:
        return f"{section.name}+{address - section.addr:#x}"
    header = co.elf.header
    if offset < FILE_HEADER_SIZE:
        return f"ELF header+{offset:#x}"
    if header.phoff <= offset < header.phoff + SEGMENT_SIZE * header.phnum:
        return f"program headers+{offset - header.phoff:#x}"
    return f"between sections, at {address:#x}"


def compare_data(
    original: CodeObject, rebuilt: CodeObject, places: Places | None = None
) -> tuple[Difference, ...]:
    """What differs in the loaded data beside code, descriptors, metadata and the linker's tables.

    Sections are compared by name, whatever their address; where the objects in one lie in another
    order, these by name; dynamic relocations and frame tables by what they say of which place.
    *places* says which places of the code are the same; without it, the same offsets are.
    """
    data = data_places(original, rebuilt)
    same = places.same if places is not None else data.same
    findings: list[Difference] = []
    ones, others = named(data_sections(original)), named(data_sections(rebuilt))
    for key in {**ones, **others}:
        one, other = ones.get(key), others.get(key)
        if one is not None and other is not None:
            frames = _frames(one, other)
            if frames is not None:
                findings += _compare_frames(key[0], *frames, places)
                continue
            if one.index in data.original.pieces:
                findings += _compare_pieces(data, one, other)
                continue
        if one is None or other is None or one.size != other.size:
            left_size, right_size = (
                ABSENT if s is None else f"{s.size} bytes" for s in (one, other)
            )
            findings.append(Difference(f"section {key[0]}", left_size, right_size))
            continue
        if one.type == SHT_NOBITS and other.type == SHT_NOBITS:
            continue
        left, right = data.original.content(one), data.rebuilt.content(other)
        findings += [
            _range(f"{key[0]}+{start:#x}", left, right, start, end)
            for start, end in _ranges(left, right)
        ]
    return (*findings, *_compare_relocations(data, same))


def _compare_pieces(data: DataPlaces, one: Section, other: Section) -> Iterator[Difference]:
    """A section object by object. Zeros between objects only keep these apart."""
    sides = ((data.original, one), (data.rebuilt, other))
    contents = [side.content(section) for side, section in sides]
    pieces = [_substantial(*side, bytes_) for side, bytes_ in zip(sides, contents, strict=True)]
    for key in {**pieces[0], **pieces[1]}:
        left, right = (side.get(key) for side in pieces)
        piece = left or right
        assert piece is not None
        place = piece.name or f"{one.name}: data without a name"
        if left is None or right is None or left.end - left.start != right.end - right.start:
            before, after = (
                ABSENT if p is None else f"{p.end - p.start} bytes" for p in (left, right)
            )
            yield Difference(place, before, after)
            continue
        old, new = (
            content[p.start - section.addr : p.end - section.addr]
            for content, p, section in zip(contents, (left, right), (one, other), strict=True)
        )
        for start, end in _ranges(old, new):
            yield _range(f"{place}+{start:#x}", old, new, start, end)


def _substantial(side: Side, section: Section, content: bytes) -> dict[Hashable, Piece]:
    """The pieces of a section that hold something, by key; descriptors have their own check."""
    descriptors = {kernel.descriptor_address for kernel in side.kernels}
    return {
        piece.key: piece
        for piece in side.pieces[section.index]
        if (piece.name or any(content[piece.start - section.addr : piece.end - section.addr]))
        and piece.start not in descriptors
    }


_Frames = tuple[list[Frame], list[Frame]]


def _frames(one: Section, other: Section) -> _Frames | None:
    """The entries of two frame tables that can be read."""
    if one.name != ".eh_frame":
        return None
    frames = frames_of(one), frames_of(other)
    return (frames[0], frames[1]) if frames[0] is not None and frames[1] is not None else None


def _compare_frames(
    name: str, ones: list[Frame], others: list[Frame], places: Places | None
) -> Iterator[Difference]:
    free = list(others)
    for one in ones:
        pair = places.pair_at(one.start) if places is not None else None
        found = next(
            (
                other
                for other in free
                if (pair.same(one.start, other.start) if pair else one[:2] == other[:2])
            ),
            None,
        )
        shown = f"{one.start:#x}..{one.end:#x}"
        if found is None:
            yield Difference(f"{name}: entry", shown)
            continue
        free.remove(found)
        if found.content != one.content:
            note = "says something else of the same code"
        elif pair and not pair.same(one.end, found.end):
            note = "ends at another place in the code"
        else:
            continue
        yield Difference(f"{name}: entry", shown, f"{found.start:#x}..{found.end:#x}", note)
    for other in free:
        yield Difference(f"{name}: entry", ABSENT, f"{other.start:#x}..{other.end:#x}")


class _Relocation(NamedTuple):
    """A dynamic relocation: what it writes (*target* is an address, or None), and for a reader."""

    says: tuple[int, str, int]
    target: int | None
    shown: str


def _compare_relocations(
    data: DataPlaces, same: Callable[[int, int], bool]
) -> Iterator[Difference]:
    one, other = dict(_relocations(data.original)), dict(_relocations(data.rebuilt))
    for key in {**one, **other}:
        left, right = one.get(key), other.get(key)
        if left and right and left.says == right.says:
            a, b = left.target, right.target
            if a is None or b is None:
                if a is b:
                    continue
            elif same(a, b):
                continue
        if left:
            yield Difference("relocation", left.shown)
        if right:
            yield Difference("relocation", ABSENT, right.shown)


def _relocations(side: Side) -> Iterator[tuple[Hashable, _Relocation]]:
    """By the place that they are for, and which of that place they are."""
    co = side.co
    seen: Counter[Hashable] = Counter()
    for row in co.elf.relocations:
        if not co.sections[row.section].alloc:
            continue
        symbols = co.elf.dynamic_symbols
        name = symbols[row.symbol].name if row.symbol < len(symbols) else f"symbol {row.symbol}"
        relative = row.type == RELATIVE64
        what = _section_offset(co, row.addend) if relative else f"{row.addend:#x}"
        place = side.key(row.offset)
        yield (
            (place, seen[place]),
            _Relocation(
                (row.type, name, 0 if relative else row.addend),
                row.addend if relative else None,
                f"{_section_offset(co, row.offset)}: type {row.type}, {name or 'no symbol'}, "
                f"{what}",
            ),
        )
        seen[place] += 1


def _section_offset(co: CodeObject, address: int) -> str:
    section = co.section_at(address)
    return f"{section.name}+{address - section.addr:#x}" if section else f"{address:#x}"


def compare_symbols(original: CodeObject, rebuilt: CodeObject) -> tuple[Difference, ...]:
    """The global and weak symbols that are not the same on both sides: for information.

    By table (``.symtab``, ``.dynsym``) and name; the value is address, size, type and section.
    """
    findings = []
    for table in ("symtab", "dynsym"):
        ones, others = _globals(original, table), _globals(rebuilt, table)
        if table == "symtab" and not (original.elf.symbols and rebuilt.elf.symbols):
            continue  # stripped: nothing to compare
        for name in {**ones, **others}:
            one, other = ones.get(name, ABSENT), others.get(name, ABSENT)
            if one != other:
                findings.append(Difference(f".{table}: {name}", one, other))
    return tuple(findings)


def _globals(co: CodeObject, table: str) -> dict[str, str]:
    found = {}
    for symbol in co.elf.symbols if table == "symtab" else co.elf.dynamic_symbols:
        if symbol.bind == STB_LOCAL:
            continue
        section = co.section_of(symbol)
        special = {SHN_UNDEF: "undefined", SHN_ABS: "absolute"}
        where = section.name if section else special.get(symbol.shndx, f"{symbol.shndx:#x}")
        found[symbol.name] = (
            f"{symbol.value:#x}, size {symbol.size}, type {symbol.type}, "
            f"binding {symbol.bind}, visibility {symbol.visibility}, {where}"
        )
    return found
