"""What is loaded: the image byte for byte, the data in it, and the symbols that lead there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from coasm.codeobject import CodeObject, Kernel, Section, Segment
from coasm.codeobject.elf import (
    PT_LOAD,
    SHN_ABS,
    SHN_UNDEF,
    SHT_DYNAMIC,
    SHT_DYNSYM,
    SHT_GNU_HASH,
    SHT_HASH,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_REL,
    SHT_RELA,
    SHT_STRTAB,
    STB_LOCAL,
)
from coasm.codeobject.model import DESCRIPTOR_SIZE
from coasm.compare.kernels import kernels_of
from coasm.compare.places import named
from coasm.compare.report import ABSENT, Finding

__all__ = ["compare_data", "compare_loaded", "compare_symbols", "data_sections"]

# e_shoff; e_shnum and e_shstrndx: where the section headers are, which nothing loads.
_UNLOADED = ((0x28, 8), (0x3C, 4))
_EHDR_SIZE = 64
#: Equal bytes between two differing ones that do not end a range.
_GAP = 8
_DIFFERING = re.compile(rb"[^\0]+(?:\0{1,%d}[^\0]+)*" % _GAP, re.S)
#: Bytes of a range that a finding shows.
_SHOWN = 16

# What the linker makes anew for every layout: the tables that the loader reads.
_LINKING = frozenset(
    (SHT_DYNAMIC, SHT_DYNSYM, SHT_GNU_HASH, SHT_HASH, SHT_NOTE, SHT_REL, SHT_RELA, SHT_STRTAB)
)
#: R_AMDGPU_RELATIVE64: its addend is an address. Source: LLVM AMDGPU usage, "Relocation Records".
_RELATIVE64 = 13


def compare_loaded(original: CodeObject, rebuilt: CodeObject) -> tuple[Finding, ...]:
    """What differs in the loaded images: segments, and ranges of bytes by section and offset.

    Every byte of every PT_LOAD segment counts, but for ``e_shoff``, ``e_shnum`` and ``e_shstrndx``
    of the ELF header. Empty where the images are identical.
    """
    findings: list[Finding] = []
    sides = [[s for s in co.elf.segments if s.type == PT_LOAD] for co in (original, rebuilt)]
    for number in range(max(map(len, sides))):
        one, other = (side[number] if number < len(side) else None for side in sides)
        if one is None or other is None or _shape(one) != _shape(other):
            findings.append(
                Finding(
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
    if segment.offset < _EHDR_SIZE:
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


def _range(place: str, left: bytes, right: bytes, start: int, end: int) -> Finding:
    def shown(data: bytes) -> object:
        part = data[start:end]
        if not part:
            return ABSENT
        return part[:_SHOWN].hex(" ") + (" …" if len(part) > _SHOWN else "")

    size = end - start
    return Finding(place, shown(left), shown(right), f"{size} byte{'s' if size > 1 else ''}")


def _place(co: CodeObject, address: int, offset: int) -> str:
    section = co.section_at(address)
    if section is not None:
        return f"{section.name}+{address - section.addr:#x}"
    header = co.elf.header
    if offset < _EHDR_SIZE:
        return f"ELF header+{offset:#x}"
    if header.phoff <= offset < header.phoff + 56 * header.phnum:
        return f"program headers+{offset - header.phoff:#x}"
    return f"between sections, at {address:#x}"


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


def compare_data(original: CodeObject, rebuilt: CodeObject) -> tuple[Finding, ...]:
    """What differs in the loaded data beside code, descriptors, metadata and the linker's tables.

    Sections are compared by name, whatever their address; dynamic relocations by what they say of
    which place.
    """
    findings: list[Finding] = []
    ones, others = named(data_sections(original)), named(data_sections(rebuilt))
    kernels = kernels_of(original, rebuilt).values(), kernels_of(rebuilt, original).values()
    for key in {**ones, **others}:
        one, other = ones.get(key), others.get(key)
        if one is None or other is None or one.size != other.size:
            left_size, right_size = (
                ABSENT if s is None else f"{s.size} bytes" for s in (one, other)
            )
            findings.append(Finding(f"section {key[0]}", left_size, right_size))
            continue
        if one.type == SHT_NOBITS and other.type == SHT_NOBITS:
            continue
        left, right = map(_without_descriptors, (one, other), kernels)
        findings += [
            _range(f"{key[0]}+{start:#x}", left, right, start, end)
            for start, end in _ranges(left, right)
        ]
    return (*findings, *_compare_relocations(original, rebuilt))


def _without_descriptors(section: Section, kernels: Iterable[Kernel]) -> bytes:
    """The bytes of a section, kernel descriptors zeroed: they have a check of their own."""
    if section.type == SHT_NOBITS:
        return b""
    data = bytearray(section.data)
    for kernel in kernels:
        at = kernel.descriptor_address - section.addr
        if 0 <= at <= len(data) - DESCRIPTOR_SIZE:
            data[at : at + DESCRIPTOR_SIZE] = bytes(DESCRIPTOR_SIZE)
    return bytes(data)


def _compare_relocations(original: CodeObject, rebuilt: CodeObject) -> list[Finding]:
    one, other = Counter(_relocations(original)), Counter(_relocations(rebuilt))
    return [
        *(Finding("relocation", row) for row in (one - other).elements()),
        *(Finding("relocation", ABSENT, row) for row in (other - one).elements()),
    ]


def _relocations(co: CodeObject) -> Iterator[str]:
    for row in co.elf.relocations:
        if not co.sections[row.section].alloc:
            continue
        symbols = co.elf.dynamic_symbols
        name = symbols[row.symbol].name if row.symbol < len(symbols) else f"symbol {row.symbol}"
        what = _section_offset(co, row.addend) if row.type == _RELATIVE64 else f"{row.addend:#x}"
        yield f"{_section_offset(co, row.offset)}: type {row.type}, {name or 'no symbol'}, {what}"


def _section_offset(co: CodeObject, address: int) -> str:
    section = co.section_at(address)
    return f"{section.name}+{address - section.addr:#x}" if section else f"{address:#x}"


def compare_symbols(original: CodeObject, rebuilt: CodeObject) -> tuple[Finding, ...]:
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
                findings.append(Finding(f".{table}: {name}", one, other))
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
