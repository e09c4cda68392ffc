"""The ELF reader against pyelftools: header, sections, segments, symbols, relocations."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import (
    ENUM_P_TYPE_BASE,
    ENUM_SH_TYPE_BASE,
    ENUM_ST_INFO_BIND,
    ENUM_ST_INFO_TYPE,
    ENUM_ST_SHNDX,
    ENUM_ST_VISIBILITY,
)
from elftools.elf.relocation import RelocationSection

from coasm.codeobject.elf import SHT_NOBITS, Elf, Symbol


def _number(value: Any, names: dict[str, Any]) -> int:
    """pyelftools gives a known constant as its name."""
    return int(names[value] if isinstance(value, str) else value)


def _symbol(symbol: Any) -> tuple[int, int, int, int, int, int]:
    return (
        symbol["st_value"],
        symbol["st_size"],
        _number(symbol["st_info"]["bind"], ENUM_ST_INFO_BIND),
        _number(symbol["st_info"]["type"], ENUM_ST_INFO_TYPE),
        _number(symbol["st_other"]["visibility"], ENUM_ST_VISIBILITY),
        _number(symbol["st_shndx"], ENUM_ST_SHNDX),
    )


def _ours(symbol: Symbol) -> tuple[int, int, int, int, int, int]:
    return (
        symbol.value,
        symbol.size,
        symbol.bind,
        symbol.type,
        symbol.visibility,
        symbol.shndx,
    )


def _compare(path: Path) -> None:
    data = path.read_bytes()
    ours, oracle = Elf(data, path.name), ELFFile(io.BytesIO(data))

    header = oracle.header
    assert ours.header.abi_version == header["e_ident"]["EI_ABIVERSION"]
    assert ours.header.flags == header["e_flags"]
    assert ours.header.entry == header["e_entry"]
    assert (ours.header.phoff, ours.header.phnum) == (header["e_phoff"], header["e_phnum"])
    assert (ours.header.shoff, ours.header.shnum) == (header["e_shoff"], header["e_shnum"])
    assert ours.header.shstrndx == header["e_shstrndx"]

    assert len(ours.sections) == oracle.num_sections()
    for section, other in zip(ours.sections, oracle.iter_sections(), strict=True):
        assert section.name.encode("utf-8", "surrogateescape") == other.name.encode()
        assert section.type == _number(other["sh_type"], ENUM_SH_TYPE_BASE)
        assert (section.flags, section.addr) == (other["sh_flags"], other["sh_addr"])
        assert (section.offset, section.size) == (other["sh_offset"], other["sh_size"])
        assert (section.link, section.info) == (other["sh_link"], other["sh_info"])
        assert (section.align, section.entsize) == (other["sh_addralign"], other["sh_entsize"])
        if section.index and section.type != SHT_NOBITS:
            assert section.data == other.data()

    assert len(ours.segments) == oracle.num_segments()
    for segment, other in zip(ours.segments, oracle.iter_segments(), strict=True):
        assert segment.type == _number(other["p_type"], ENUM_P_TYPE_BASE)
        assert (segment.flags, segment.offset) == (other["p_flags"], other["p_offset"])
        assert (segment.vaddr, segment.paddr) == (other["p_vaddr"], other["p_paddr"])
        assert (segment.filesz, segment.memsz) == (other["p_filesz"], other["p_memsz"])
        assert segment.align == other["p_align"]

    for name, table in ((".symtab", ours.symbols), (".dynsym", ours.dynamic_symbols)):
        section = oracle.get_section_by_name(name)
        symbols = list(section.iter_symbols()) if section is not None else []
        assert [_ours(symbol) for symbol in table] == [_symbol(symbol) for symbol in symbols]
        for symbol, other in zip(table, symbols, strict=True):
            raw = symbol.name.encode("utf-8", "surrogateescape")
            assert raw.decode("utf-8", "replace") == other.name

    relocations = [
        (
            index,
            relocation["r_offset"],
            relocation["r_info_type"],
            relocation["r_info_sym"],
            relocation["r_addend"] if relocation.is_RELA() else 0,
        )
        for index, section in enumerate(oracle.iter_sections())
        if isinstance(section, RelocationSection)
        for relocation in section.iter_relocations()
    ]
    assert [
        (r.section, r.offset, r.type, r.symbol, r.addend) for r in ours.relocations
    ] == relocations


def test_built_objects(fixture_objects: list[tuple[str, Path]]) -> None:
    traps = [pair for pair in fixture_objects if not pair[0].startswith("template-")]
    templates = [pair for pair in fixture_objects if pair[0].startswith("template-")]
    for name, path in traps + templates[::10]:
        try:
            _compare(path)
        except AssertionError as error:
            pytest.fail(f"{name}: {error}")


def test_real_objects(corpus: list[Path]) -> None:
    for path in corpus[::12]:
        _compare(path)
