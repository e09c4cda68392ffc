"""A code object as the loader puts it into memory.

Source: LLVM AMDGPU usage, "Relocation Records".
"""

from __future__ import annotations

from coasm.asm.references import ABS64, RELATIVE64
from coasm.codeobject import CodeObject
from coasm.codeobject.elf import SHT_NOBITS, SHT_RELA
from coasm.emulator.state.memory import Memory
from coasm.errors import UnsupportedError

__all__ = ["load_image"]


def load_image(co: CodeObject, memory: Memory) -> tuple[list[int], int]:
    """The loaded sections as buffers of their own; and what to add to an address of the object."""
    loaded = [section for section in co.sections if section.alloc and section.size]
    if not loaded:
        return [], 0
    low = min(section.addr for section in loaded) & ~0xFFF
    high = max(section.addr + section.size for section in loaded)
    if high - low > 1 << 30:
        raise UnsupportedError(f"{co.name}: the loaded image has {high - low} bytes")
    address = memory.allocate(high - low, f"image of {co.name}", align=4096)
    for section in loaded:
        if section.type != SHT_NOBITS:
            memory.write(address + section.addr - low, section.data[: section.size])
    _relocate(co, memory, address - low)
    return [address], address - low


def _relocate(co: CodeObject, memory: Memory, base: int) -> None:
    """What the loader does to an image that lies at *base*: its words that hold addresses.

    R_AMDGPU_ABS64 is S + A, RELATIVE64 is B + A.
    """
    names = co.elf.dynamic_symbols
    for relocation in co.elf.relocations:
        table = co.elf.sections[relocation.section]
        if not table.alloc:
            continue
        where = f"{co.name}: the relocation of {relocation.offset:#x}"
        value = base + relocation.addend
        if table.type != SHT_RELA or relocation.type not in (ABS64, RELATIVE64):
            raise UnsupportedError(f"{where} has type {relocation.type}, which is not emulated")
        if relocation.type == ABS64:
            symbol = names[relocation.symbol] if relocation.symbol < len(names) else None
            if symbol is None or not symbol.shndx:
                name = symbol.name if symbol else f"number {relocation.symbol}"
                raise UnsupportedError(f"{where} is to the symbol {name!r}, which is not here")
            value += symbol.value
        place = co.section_at(relocation.offset)
        if place is None or relocation.offset + 8 > place.addr + place.size:
            raise UnsupportedError(f"{where} lies in no section")
        memory.write(base + relocation.offset, (value & (1 << 64) - 1).to_bytes(8, "little"))
