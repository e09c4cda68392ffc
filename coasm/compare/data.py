"""Places in the data: by section and offset, or by object where objects lie in another order."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from coasm.codeobject import CodeObject, Kernel, Section
from coasm.codeobject.elf import (
    SHT_DYNAMIC,
    SHT_DYNSYM,
    SHT_GNU_HASH,
    SHT_HASH,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_REL,
    SHT_RELA,
    SHT_STRTAB,
    STT_OBJECT,
)
from coasm.codeobject.model import DESCRIPTOR_SIZE
from coasm.compare.kernels import comparable_kernels
from coasm.compare.places import Key, named
from coasm.compare.units import comparable_names

__all__ = [
    "ABS64",
    "RELATIVE64",
    "DataPlaces",
    "Piece",
    "Side",
    "data_places",
    "data_sections",
    "moves",
]

#: R_AMDGPU_ABS64, R_AMDGPU_RELATIVE64. Source: LLVM AMDGPU usage, "Relocation Records".
ABS64, RELATIVE64 = 3, 13

# What the linker makes anew for every layout: the tables that the loader reads.
_LINKING = frozenset(
    (SHT_DYNAMIC, SHT_DYNSYM, SHT_GNU_HASH, SHT_HASH, SHT_NOTE, SHT_REL, SHT_RELA, SHT_STRTAB)
)


def data_sections(co: CodeObject) -> list[Section]:
    """The loaded sections that hold data of the program: no code, no table of the linker."""
    return [
        s
        for s in co.sections
        if s.alloc
        and s.size
        and not s.code
        and s.type not in _LINKING
        and s.name != ".relro_padding"
    ]


def moves(original: CodeObject, rebuilt: CodeObject, *, data: bool) -> set[int]:
    """By how many bytes the code sections moved, and with *data* what the code may read."""
    sides = [
        named([*co.code_sections, *(data_sections(co) if data else ())])
        for co in (original, rebuilt)
    ]
    return {sides[1][key].addr - s.addr for key, s in sides[0].items() if key in sides[1]}


class Piece(NamedTuple):
    """An object, or what lies between two, of a section: ``name`` is "" for the latter.

    ``key`` is the same for the piece of the other side that corresponds: it holds the name, or the
    content of what has none.
    """

    start: int
    end: int
    name: str
    key: Hashable


@dataclass(frozen=True)
class Side:
    """One object's data. ``pieces`` are those of the sections that are compared by object."""

    co: CodeObject
    keys: dict[int, Key]
    kernels: tuple[Kernel, ...]
    got: dict[int, str]
    pieces: dict[int, list[Piece]]

    def key(self, address: int) -> Hashable:
        """What an address means, whatever the layout."""
        section = self.co.section_at(address)
        if section is None:
            return address
        for kernel in self.kernels if not section.code else ():
            if 0 <= address - kernel.descriptor_address < DESCRIPTOR_SIZE:
                return "descriptor", kernel.symbol, address - kernel.descriptor_address
        if address in self.got:
            return "got", self.got[address]
        pieces = self.pieces.get(section.index)
        if pieces is None:
            return self.keys[section.index], address - section.addr
        piece = pieces[bisect_right(pieces, address, key=lambda piece: piece.start) - 1]
        return self.keys[section.index], piece.key, address - piece.start

    def content(self, section: Section) -> bytes:
        """The bytes of a section without what has a check of its own.

        Kernel descriptors are zero, and a word that the loader overwrites where it holds no more
        than what the relocation says.
        """
        if section.type == SHT_NOBITS:
            return b""
        data = bytearray(section.data)
        for kernel in self.kernels:
            at = kernel.descriptor_address - section.addr
            if 0 <= at <= len(data) - DESCRIPTOR_SIZE:
                data[at : at + DESCRIPTOR_SIZE] = bytes(DESCRIPTOR_SIZE)
        for row in self.co.elf.relocations:
            at = row.offset - section.addr
            if row.type == RELATIVE64 and 0 <= at <= len(data) - 8:
                addend = (row.addend & (1 << 64) - 1).to_bytes(8, "little")
                if data[at : at + 8] == addend:
                    data[at : at + 8] = bytes(8)
        return bytes(data)


@dataclass(frozen=True)
class DataPlaces:
    """Both sides' data, and whether two addresses in it are the same place."""

    original: Side
    rebuilt: Side

    def same(self, a: int, b: int) -> bool:
        """Whether address *a* of the original is the same place as *b* of the rebuilt object.

        By object and offset in it; by section and offset where the objects lie alike.
        """
        return self.original.key(a) == self.rebuilt.key(b)

    def moves(self) -> set[int]:
        """By how many bytes the pieces of sections that are compared by object moved."""
        found: set[int] = set()
        for key, index in ((key, index) for index, key in self.original.keys.items()):
            if index not in self.original.pieces:
                continue
            other = next(n for n, k in self.rebuilt.keys.items() if k == key)
            starts = {piece.key: piece.start for piece in self.rebuilt.pieces[other]}
            found |= {
                starts[piece.key] - piece.start
                for piece in self.original.pieces[index]
                if piece.key in starts
            }
        return found


def data_places(original: CodeObject, rebuilt: CodeObject) -> DataPlaces:
    """What corresponds in the data of two objects.

    A section is taken apart into its objects where these do not lie alike on both sides.
    """
    sides = tuple(
        Side(
            co,
            {section.index: key for key, section in named(co.sections).items()},
            tuple(comparable_kernels(co, other).values()),
            _got(co),
            {},
        )
        for co, other in ((original, rebuilt), (rebuilt, original))
    )
    usable = comparable_names(original, rebuilt)
    ones, others = named(data_sections(original)), named(data_sections(rebuilt))
    for key, one in ones.items():
        other = others.get(key)
        if other is None or key[0] in (".got", ".eh_frame") or one.type != other.type:
            continue
        contents = [side.content(s) for side, s in zip(sides, (one, other), strict=True)]
        if one.size == other.size and contents[0] == contents[1] and one.type != SHT_NOBITS:
            continue
        objects = [
            list(_objects(side, s, usable)) for side, s in zip(sides, (one, other), strict=True)
        ]
        layouts = [
            [(name, start - s.addr, end - s.addr) for start, end, name in rows]
            for rows, s in zip(objects, (one, other), strict=True)
        ]
        if (one.size == other.size and layouts[0] == layouts[1]) or not all(objects):
            continue
        for side, s, rows, content in zip(sides, (one, other), objects, contents, strict=True):
            side.pieces[s.index] = _pieces(s, rows, content)
    return DataPlaces(*sides)


def _got(co: CodeObject) -> dict[int, str]:
    """The words of the global offset table that hold a named symbol's address."""
    names = co.elf.dynamic_symbols
    found = {}
    for row in co.elf.relocations:
        if row.type != ABS64 or row.addend or not 0 < row.symbol < len(names):
            continue
        section = co.section_at(row.offset)
        if section is not None and section.name == ".got":
            found[row.offset] = names[row.symbol].name
    return found


def _objects(
    side: Side, section: Section, usable: set[str] | None
) -> Iterator[tuple[int, int, str]]:
    """The objects of a section that have a size: start, end, name; those that overlap as one."""
    end = section.addr + section.size
    rows = {
        (s.value, s.value + s.size, s.name)
        for s in side.co.symbols
        if s.type == STT_OBJECT
        and s.shndx == section.index
        and s.size
        and s.name
        and section.addr <= s.value
        and s.value + s.size <= end
        and (usable is None or s.name in usable)
    }
    rows |= {
        (k.descriptor_address, k.descriptor_address + DESCRIPTOR_SIZE, k.symbol)
        for k in side.kernels
        if section.addr <= k.descriptor_address <= end - DESCRIPTOR_SIZE
    }
    run: tuple[int, int, str] | None = None
    for low, high, name in sorted(rows):
        if run is not None and low < run[1]:
            run = run[0], max(run[1], high), f"{run[2]}, {name}"
            continue
        if run is not None:
            yield run
        run = low, high, name
    if run is not None:
        yield run


def _pieces(section: Section, objects: list[tuple[int, int, str]], content: bytes) -> list[Piece]:
    repeated = Counter(name for _, _, name in objects)
    seen: Counter[Hashable] = Counter()
    pieces: list[Piece] = []

    def add(low: int, high: int, name: str) -> None:
        data = content[low - section.addr : high - section.addr]
        key: Hashable = (name, high - low, data) if repeated[name] != 1 else name
        pieces.append(Piece(low, high, name, (key, seen[key])))
        seen[key] += 1

    at = section.addr
    for low, high, name in objects:
        if at < low:
            add(at, low, "")
        add(low, high, name)
        at = high
    if at < section.addr + section.size:
        add(at, section.addr + section.size, "")
    return pieces
