"""Addresses in code and data: which distances and words lead somewhere.

Code computes an address from its own: ``s_getpc_b64`` (gfx1250: ``s_get_pc_i64``) and an add of a
literal. Data holds addresses where a dynamic relocation says so, and distances in frame tables.
Each that is proven to be an address comes out symbolic, so that an edit moves it; the rest stays a
number and is reported. Source: LLVM AMDGPU usage, "Relocation Records" and "Code Sequences";
SOP1 and SOP2 encodings of the ISA guides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from coasm.asm.code import Code, Instruction, Item, Raw, branches
from coasm.asm.eh_frame import code_pointers
from coasm.asm.names import display
from coasm.asm.sections import is_linker_made
from coasm.codeobject import CodeObject
from coasm.codeobject.elf import SHT_REL
from coasm.errors import UnsupportedError
from coasm.isa.flow import flow_of
from coasm.isa.kinds import is_a

__all__ = ["CodeReference", "Pointer", "References", "find_references", "gives_address"]

#: Relocation types. Source: LLVM AMDGPU usage, "Relocation Records".
ABS64, RELATIVE64 = 3, 13

#: Instructions that a sequence may span: compilers put few others in between.
_WINDOW = 64
_LITERAL, _LITERAL64 = 255, 254

_GOT_KINDS = {
    "rel32@lo": "gotpcrel32@lo",
    "rel32@hi": "gotpcrel32@hi",
    "rel64": "gotpcrel",  # 32 bits of it: the table lies behind the code, less than 4 GiB away
}
_SGPRS = re.compile(r"(?<![\w.])s(?:(\d+)|\[(\d+):(\d+)\])")
_LOW = ("s_add_u32", "s_add_co_u32")
_HIGH = ("s_addc_u32", "s_add_co_ci_u32")


class CodeReference(NamedTuple):
    """One literal of an instruction that is part of an address.

    ``kind`` is ``rel32@lo``, ``rel32@hi`` or ``rel64``; the literal is the distance from *anchor*
    to *target*, and lies *literal* bytes behind *anchor*. *operand* is its place in the text. Where
    the target is a word that the loader fills in with a *symbol*'s address (a GOT entry), ``kind``
    is the value of :data:`_GOT_KINDS`.
    """

    anchor: int
    target: int
    kind: str
    literal: int
    operand: int
    symbol: int | None = None


class Pointer(NamedTuple):
    """*size* bytes of data that hold an address, or with *relative* the distance to one.

    A pointer to a named *symbol* is left to the loader; *target* is an addend then. With *base*
    they hold the distance from there to *target*, both in code.
    """

    size: int
    target: int
    relative: bool
    symbol: int | None = None
    base: int | None = None


class References(NamedTuple):
    """An object's: by instruction address, by section index and offset, and what stays numeric.

    ``branches`` are the addresses of direct branches and calls by section index, and where each
    goes.
    """

    code: dict[int, CodeReference]
    data: dict[int, dict[int, Pointer]]
    numeric: tuple[int, ...]
    branches: dict[int, list[tuple[int, int]]]


def gives_address(item: Instruction) -> bool:
    """Whether an instruction reads the program counter into registers."""
    return is_a(item.mnemonic, "reads PC")


def _uses_pc(mnemonic: str) -> bool:
    return is_a(mnemonic, "relative to PC")


def _may_change_scc(mnemonic: str) -> bool:
    """What may not stand between the two adds."""
    return is_a(mnemonic, "scalar") and not is_a(mnemonic, "keeps SCC")


def find_references(co: CodeObject, code: dict[int, Code]) -> References:
    """Every reference that can be proven; ``numeric`` are the instructions whose use was not.

    Raises:
        UnsupportedError: a dynamic relocation or a frame table of unknown form.
    """
    labels = {s.value for s in co.symbols} | {k.entry for k in co.kernels}
    jumps: dict[int, list[tuple[int, int]]] = {}
    for index, own in code.items():
        jumps[index] = branches(own)
        labels.update(target for _, target in jumps[index])
    pointers = _pointers(co)
    entries = _got_entries(co, pointers)
    found: dict[int, CodeReference] = {}
    numeric: list[int] = []
    readers = [
        (own, at)
        for own in code.values()
        for at in own.positions(lambda name: is_a(name, "relative to PC"))
    ]
    for own, at in readers:
        item = own[at]
        assert isinstance(item, Instruction)
        sequence = _sequence(own, at, labels) if gives_address(item) else _long_branch(item)
        target = sequence[0][1].target if sequence else None
        if sequence and target in entries:
            for address, reference in sequence:
                kind, symbol = _GOT_KINDS[reference.kind], entries[target].symbol
                found[address] = reference._replace(kind=kind, symbol=symbol)
        elif sequence and target is not None and _reachable(co, target, code):
            found.update(sequence)
        else:
            numeric.append(item.address)
    return References(found, pointers, tuple(numeric), jumps)


def _got_entries(co: CodeObject, pointers: dict[int, dict[int, Pointer]]) -> dict[int, Pointer]:
    """The words of the global offset table, by address; the table is the linker's to write.

    Raises:
        UnsupportedError: a word that is no named symbol's address.
    """
    found: dict[int, Pointer] = {}
    for section in co.sections:
        if section.name != ".got":
            continue
        own = pointers.pop(section.index, {})
        for offset in range(0, section.size, 8):
            pointer = own.get(offset)
            if pointer is None or pointer.symbol is None or pointer.target:
                raise UnsupportedError(f"{co.name}: .got+{offset:#x} is no symbol's address")
            found[section.addr + offset] = pointer
    return found


def _reachable(co: CodeObject, target: int, code: dict[int, Code]) -> bool:
    """Whether a label can stand at *target*: in data anywhere, in code before an instruction."""
    section = co.section_at(target)
    if section is None:
        return False
    if not section.code:
        return not is_linker_made(section)
    return code[section.index].position(target) is not None


def _fields(item: Instruction) -> tuple[int, int, int]:
    """SOP1/SOP2: (destination, first source, second source)."""
    word = int.from_bytes(item.data[:4], "little")
    return word >> 16 & 0x7F, word & 0xFF, word >> 8 & 0xFF


def _sequence(
    items: Sequence[Item], position: int, labels: set[int]
) -> list[tuple[int, CodeReference]] | None:
    """The literals that a program counter read at *position* is added to."""
    first = items[position]
    assert isinstance(first, Instruction)
    low_register = _fields(first)[0]
    high_register = low_register + 1
    anchor = first.address + len(first.data)
    low: Instruction | None = None
    for following in range(position + 1, min(position + 1 + _WINDOW, len(items))):
        item = items[following]
        if isinstance(item, Raw) or item.address in labels:
            return None  # a second entry: the registers may hold anything
        text = item.text
        if flow_of(item.mnemonic) is not None:
            return None
        if is_a(item.mnemonic, "adds 64 bits") and len(item.data) == 12:
            destination, one, other = _fields(item)
            if (destination, {one, other}) == (low_register, {low_register, _LITERAL64}):
                value = int.from_bytes(item.data[4:12], "little")
                literal = item.address + 4 - anchor
                target = (anchor + value) & (1 << 64) - 1
                operand = 1 if one == _LITERAL64 else 2
                return [(item.address, CodeReference(anchor, target, "rel64", literal, operand))]
        mnemonic = text.split(" ", 1)[0]
        if mnemonic in _LOW and low is None and len(item.data) == 8:
            destination, one, other = _fields(item)
            if (destination, {one, other}) == (low_register, {low_register, _LITERAL}):
                low = item
                continue
        if mnemonic in _HIGH and low is not None and len(item.data) == 8:
            destination, one, other = _fields(item)
            if (destination, {one, other}) == (high_register, {high_register, _LITERAL}):
                return list(_pair(anchor, low, item))
        if mnemonic == "s_sext_i32_i16" and _fields(item)[:2] == (high_register, high_register):
            continue  # GFX12: the upper half of the program counter is 16 bits
        if (
            low is not None
            and is_a(item.mnemonic, "scalar")
            and not is_a(item.mnemonic, "keeps SCC")
        ):
            return None
        if _mentions(text, low_register, high_register):
            return None
    return None


def _pair(anchor: int, low: Instruction, high: Instruction) -> Iterator[tuple[int, CodeReference]]:
    value = int.from_bytes(low.data[4:8] + high.data[4:8], "little")
    target = (anchor + value) & (1 << 64) - 1
    for item, kind in ((low, "rel32@lo"), (high, "rel32@hi")):
        operand = 1 if _fields(item)[1] == _LITERAL else 2
        literal = item.address + 4 - anchor
        yield item.address, CodeReference(anchor, target, kind, literal, operand)


def _long_branch(item: Instruction) -> list[tuple[int, CodeReference]] | None:
    if len(item.data) != 12:
        return None
    anchor = item.address + 12
    target = (anchor + int.from_bytes(item.data[4:12], "little")) & (1 << 64) - 1
    return [(item.address, CodeReference(anchor, target, "rel64", -8, 0))]


def _mentions(text: str, low: int, high: int) -> bool:
    """Whether an instruction names one of the two SGPRs, alone or in a range."""
    for single, first, last in _SGPRS.findall(text):
        if single:
            if int(single) in (low, high):
                return True
        elif int(first) <= high and int(last) >= low:
            return True
    return False


def _pointers(co: CodeObject) -> dict[int, dict[int, Pointer]]:
    found: dict[int, dict[int, Pointer]] = {}
    for section in co.sections:
        if section.name == ".eh_frame":
            pointers = code_pointers(section.data, section.addr)
            if pointers is None:
                raise UnsupportedError(f"{co.name}: .eh_frame is in no known form")
            frames = found.setdefault(section.index, {})
            for p in pointers:
                frames[p.offset] = Pointer(4, p.target, True)
                frames[p.offset + 4] = Pointer(4, p.target + p.size, False, base=p.target)
    for relocation in co.elf.relocations:
        table = co.elf.sections[relocation.section]
        if not table.alloc:
            continue  # what the linker has resolved (--emit-relocs)
        where = f"{co.name}: section {display(table.name)!r}: the relocation of"
        place = co.section_at(relocation.offset)
        if (
            table.type == SHT_REL
            or not table.alloc
            or place is None
            or relocation.offset + 8 > place.addr + place.size
            or not place.data
        ):
            raise UnsupportedError(f"{where} {relocation.offset:#x} is not handled")
        if relocation.type == RELATIVE64 and relocation.symbol == 0:
            pointer = Pointer(8, relocation.addend, False)
        elif relocation.type == ABS64 and relocation.symbol:
            pointer = Pointer(8, relocation.addend, False, relocation.symbol)
        else:
            raise UnsupportedError(
                f"{where} {relocation.offset:#x} has type {relocation.type}, which is not handled"
            )
        found.setdefault(place.index, {})[relocation.offset - place.addr] = pointer
    return found
