"""Code cut into what is compared by name: kernels, functions, data among them.

A unit runs from its symbol to the next one's start. What only fills the space to there is left out,
so that neither the order of the units nor their addresses count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from coasm.asm.code import Instruction, Item, Raw
from coasm.codeobject import CodeObject, Section
from coasm.codeobject.elf import STB_LOCAL, STT_FUNC, STT_OBJECT
from coasm.compare.kernels import comparable_kernels
from coasm.isa.flow import leaves

__all__ = ["Cut", "Unit", "comparable_names", "cut", "cuts_of", "pair_units"]

# What the assembler and the linker fill gaps with: s_nop 0, zero, and (GFX10 and later)
# s_code_end. Source: LLVM 22, AMDGPUAsmBackend::writeNopData; AMDGPUTargetStreamer::EmitCodeEnd.
_NOP, _ZERO, _CODE_END = "s_nop 0", bytes(4), (0xBF9F0000).to_bytes(4, "little")
_FILLERS = ((0xBF800000).to_bytes(4, "little"), _ZERO, _CODE_END)


class Cut(NamedTuple):
    """A unit's start: its symbol ("" for what follows an object), and whether it is data."""

    name: str
    data: bool


class Unit(NamedTuple):
    """Code or data at addresses ``low`` to ``high``; ``items`` are without the padding.

    ``runs_into`` is None where execution never goes on behind it, "" where it does so with the next
    unit, else the first item of the padding that it goes on with.
    """

    name: str
    low: int
    high: int
    items: list[Item]
    data: bool
    runs_into: str | None

    def label(self, section: Section) -> str:
        """The unit for a reader."""
        return self.name or f"{section.name}+{self.low - section.addr:#x}"


def comparable_names(original: CodeObject, rebuilt: CodeObject) -> set[str] | None:
    """The symbols that both objects have, where a symbol table was stripped; else None: all."""
    if original.elf.symbols and rebuilt.elf.symbols:
        return None
    one, other = ({symbol.name for symbol in co.symbols} for co in (original, rebuilt))
    return one & other


def cuts_of(co: CodeObject, other: CodeObject) -> dict[int, dict[int, Cut]]:
    """By section index and address: where the units of *co* start, when compared with *other*.

    At functions, kernels, and the start and the end of objects that have a size. Of several names
    at one address that counts which *other* has as well.
    """
    usable = comparable_names(co, other)
    theirs = {symbol.name for symbol in other.symbols}
    code = {section.index: section for section in co.code_sections}
    found: defaultdict[int, dict[int, tuple[tuple[bool, int, str], Cut]]] = defaultdict(dict)

    def add(index: int, address: int, name: str, rank: int, data: bool = False) -> None:
        section = code.get(index)
        if section is None or not section.addr <= address < section.addr + section.size:
            return
        order = name not in theirs, rank, name
        present = found[index].get(address)
        if present is None or order < present[0]:
            found[index][address] = order, Cut(name, data)

    for kernel in comparable_kernels(co, other).values():
        at = co.section_at(kernel.entry)
        if at is not None:
            add(at.index, kernel.entry, kernel.name, 0)
    for symbol in co.symbols:
        if symbol.type not in (STT_FUNC, STT_OBJECT) or not symbol.name:
            continue
        if usable is not None and symbol.name not in usable:
            continue
        local = symbol.bind == STB_LOCAL
        if symbol.type == STT_FUNC:
            add(symbol.shndx, symbol.value, symbol.name, 1 + local)
        elif symbol.size:
            add(symbol.shndx, symbol.value, symbol.name, 3 + local, True)
            add(symbol.shndx, symbol.value + symbol.size, "", 5)
    return {
        index: {address: row[1] for address, row in sorted(rows.items())}
        for index, rows in found.items()
    }


def cut(
    section: Section, items: Sequence[Item], cuts: dict[int, Cut], targets: Iterable[int]
) -> list[Unit]:
    """The units of *section*, in order; those of nothing but padding are left out.

    *targets* are the addresses that branches lead to: what can be reached is no padding. A symbol
    in the middle of an item starts no unit.
    """
    starts = [n for n, item in enumerate(items) if item.address in cuts]
    if not starts or starts[0]:
        starts.insert(0, 0)
    reached = set(targets)
    units: list[Unit] = []
    for low, high in zip(starts, [*starts[1:], len(items)], strict=True):
        if low == high:
            continue
        first = items[low].address
        end = items[high].address if high < len(items) else section.addr + section.size
        name, data = cuts.get(first, Cut("", False))
        if data:
            units.append(Unit(name, first, end, list(items[low:high]), True, None))
            continue
        own, runs_into = _trimmed(items[low:high], reached)
        if own:
            units.append(Unit(name, first, end, own, False, runs_into))
    return units


def _trimmed(items: Sequence[Item], reached: set[int]) -> tuple[list[Item], str | None]:
    """The items without the padding at their end, and what execution runs into behind them."""
    count = len(items)
    while count and _is_filler(items[count - 1]) and items[count - 1].address not in reached:
        count -= 1
    own = list(items[:count])
    if own and isinstance(own[-1], Raw):
        data = own[-1].data
        while len(data) > 4 and data[-4:] in _FILLERS:
            data = data[:-4]
        own[-1] = own[-1]._replace(data=data)
    last = next((item for item in reversed(own) if isinstance(item, Instruction)), None)
    if last is not None and leaves(last.mnemonic):
        return own, None
    for item in items[count:]:
        if not isinstance(item, Instruction) or item.text != _NOP:
            return own, item.text if isinstance(item, Instruction) else item.data[:4].hex()
    return own, ""


def _is_filler(item: Item) -> bool:
    if isinstance(item, Raw):
        words = {item.data[at : at + 4] for at in range(0, len(item.data), 4)}
        return words <= set(_FILLERS)
    return item.text in (_NOP, "s_code_end") or not any(item.data)


def pair_units(
    ones: Sequence[Unit],
    others: Sequence[Unit],
    tokens: Sequence[tuple[Hashable, ...]],
    other_tokens: Sequence[tuple[Hashable, ...]],
) -> list[tuple[int | None, int | None]]:
    """Which unit corresponds to which, by position; None where there is none.

    By name first. Units of one name are told apart by their content, then by their order; what has
    no partner by name gets one of the same content. *tokens* say what the units hold.
    """
    partner: dict[int, int] = {}
    taken: set[int] = set()

    def match(keys: list[Hashable], other_keys: list[Hashable]) -> None:
        free: defaultdict[Hashable, list[int]] = defaultdict(list)
        for j in reversed(range(len(others))):
            if j not in taken:
                free[other_keys[j]].append(j)
        for i, key in enumerate(keys):
            if i not in partner and free.get(key):
                partner[i] = free[key].pop()
                taken.add(partner[i])

    names, other_names = _keys(ones), _keys(others)
    counts = Counter(names), Counter(other_names)
    repeated = {key for count in counts for key, number in count.items() if number > 1}
    if repeated:
        # A key of its own keeps the others out of it.
        match(
            [(key, tokens[i]) if key in repeated else (0, i) for i, key in enumerate(names)],
            [
                (key, other_tokens[j]) if key in repeated else (1, j)
                for j, key in enumerate(other_names)
            ],
        )
    match(list(names), list(other_names))
    if len(partner) < len(ones) and len(taken) < len(others):
        match(list(tokens), list(other_tokens))
    return [
        *((i, partner.get(i)) for i in range(len(ones))),
        *((None, j) for j in range(len(others)) if j not in taken),
    ]


def _keys(units: Sequence[Unit]) -> list[tuple[str, str]]:
    """A unit's name; without one, that of the unit before it."""
    before = ""
    keys = []
    for unit in units:
        keys.append((unit.name, "" if unit.name else before))
        before = unit.name or before
    return keys
