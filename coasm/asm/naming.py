"""What each symbol and each address is called in a listing."""

from __future__ import annotations

from collections import defaultdict

from coasm.asm.code import Code
from coasm.asm.knowledge import Knowledge
from coasm.asm.names import display, is_plain, spell
from coasm.asm.references import References
from coasm.asm.sections import carried_sections
from coasm.codeobject import CodeObject, Section, Symbol
from coasm.codeobject.elf import (
    SHN_ABS,
    SHN_LORESERVE,
    SHN_UNDEF,
    STB_GLOBAL,
    STB_LOCAL,
    STB_WEAK,
    STT_FILE,
    STT_FUNC,
    STT_NOTYPE,
    STT_OBJECT,
    STT_SECTION,
    STV_DEFAULT,
)
from coasm.errors import UnsupportedError

__all__ = ["TYPES", "Naming"]

#: The symbol types that a listing can say, as ``.type`` has them.
TYPES = {STT_NOTYPE: "notype", STT_OBJECT: "object", STT_FUNC: "function"}


class Naming:
    """The names of an object's symbols and addresses, and the labels that it takes.

    ``names`` are by symbol index, ``by_section`` the named symbols by section index and address.
    ``targets`` are the labels of addresses in code, ``data_labels`` those in data,
    ``addresses`` how what a reference leads to is called. ``preload_entries`` are the addresses
    that firmware enters where it preloads arguments, with the kernel's entry and name.
    """

    def __init__(
        self, co: CodeObject, code: dict[int, Code], known: Knowledge, references: References
    ) -> None:
        self.co = co
        self.code = code
        self.known = known
        self.sections = carried_sections(co)
        self.names = self._name_symbols()
        self.by_section: dict[int, dict[int, list[Symbol]]] = defaultdict(lambda: defaultdict(list))
        self.first_named: dict[str, Symbol] = {}
        self.last_named: dict[str, Symbol] = {}
        for symbol in co.symbols:
            self.first_named.setdefault(symbol.name, symbol)
            if symbol.index in self.names:
                self.by_section[symbol.shndx][symbol.value].append(symbol)
                self.last_named[symbol.name] = symbol
        self.entries = {k.entry for k in co.kernels}
        self.preload_entries = self._preload_entries()
        self.pointers = references.data
        self.references = {
            a: r for a, r in references.code.items() if r.anchor not in known.numeric
        }
        self.branches = references.branches
        self.targets = self._branch_targets()
        self.data_labels: dict[int, str] = {}
        self.fixed_targets: set[int] = set()
        self._name_addresses()

    def _name_symbols(self) -> dict[int, str]:
        """Symbol index → what it is called in the text; without those that the linker makes."""
        carried = {s.index for s in self.sections}
        names: dict[int, str] = {}
        taken: dict[str, int] = {}
        linked: set[str] = set()
        for symbol in self.co.symbols:
            where = f"{self.co.name}: symbol {display(symbol.name)!r}"
            if symbol.type in (STT_FILE, STT_SECTION):
                continue
            if symbol.shndx == SHN_UNDEF:
                raise UnsupportedError(f"{where}: undefined symbols are not handled")
            if symbol.shndx >= SHN_LORESERVE and symbol.shndx != SHN_ABS:
                raise UnsupportedError(f"{where}: section index {symbol.shndx:#x} is not handled")
            if symbol.shndx != SHN_ABS and symbol.shndx not in carried:
                continue
            if symbol.bind not in (STB_LOCAL, STB_GLOBAL, STB_WEAK) or symbol.type not in TYPES:
                raise UnsupportedError(
                    f"{where}: binding {symbol.bind} or type {symbol.type} is not handled"
                )
            if symbol.other & ~3:
                raise UnsupportedError(f"{where}: st_other {symbol.other:#x} is not handled")
            if symbol.bind != STB_LOCAL:
                # To the linker, what follows an @ is a version, and there is no version script.
                if not symbol.name or "@" in symbol.name or symbol.name in linked:
                    raise UnsupportedError(f"{where}: a global name that cannot be linked")
                linked.add(symbol.name)
            spelled = spell(symbol.name)
            if spelled is None or symbol.name in taken or symbol.index in self.known.stand_ins:
                names[symbol.index] = ""
            else:
                names[symbol.index] = spelled
                taken[symbol.name] = symbol.index
        number = 0
        for index in [i for i, n in names.items() if not n]:
            while f"coasm_symbol_{number}" in taken:
                number += 1
            names[index] = f"coasm_symbol_{number}"
            number += 1
        return names

    def _preload_entries(self) -> dict[int, tuple[int, str]]:
        """Address that firmware enters where it preloads arguments → the kernel's entry and name.

        Those that the listing can keep: in the kernel's section, between instructions, behind an
        entry that has a name.
        """
        from coasm.descriptor import preload_entry

        entries = {}
        for kernel in self.co.kernels:
            address = preload_entry(kernel.descriptor, kernel.entry, self.co.target)
            section = self.co.section_at(kernel.entry)
            if address is None or section is None or not section.code:
                continue
            name = next(
                (
                    self.names[symbol.index]
                    for symbol in self.by_section[section.index].get(kernel.entry, ())
                    if is_plain(self.names[symbol.index])
                ),
                None,
            )
            if name is not None and self.code[section.index].stops_at(address):
                entries[address] = kernel.entry, name
        return entries

    def dynamic_name(self, index: int) -> str:
        """What the global symbol with that index in ``.dynsym`` is called in the text."""
        symbols = self.co.elf.dynamic_symbols
        wanted = symbols[index].name if 0 < index < len(symbols) else ""
        for symbol in self.co.symbols:
            if symbol.name == wanted and symbol.bind != STB_LOCAL and symbol.index in self.names:
                return self.names[symbol.index]
        raise UnsupportedError(
            f"{self.co.name}: a relocation names dynamic symbol {index} ({display(wanted)!r}), "
            "which is not defined"
        )

    def _branch_targets(self) -> dict[int, str]:
        """The address of each branch target in the same section → the label branches use."""
        labels: dict[int, str] = {}
        named = {r.target for r in self.references.values()}
        named |= {p.target for ps in self.pointers.values() for p in ps.values() if p.base is None}
        raw = self.known.raw
        for index, section_code in self.code.items():
            section = self.co.sections[index]
            wanted = named | {t for address, t in self.branches[index] if address not in raw}
            for target in filter(section_code.stops_at, wanted):
                labels[target] = (
                    f".L{target - section.addr:04x}_{index}"
                    if len(self.code) > 1
                    else f".L{target - section.addr:04x}"
                )
        return labels

    def _name_addresses(self) -> None:
        """Find what each address that something refers to is called, and which labels it takes."""
        self.addresses: dict[int, str] = {}
        wanted = {r.target for r in self.references.values() if r.symbol is None}
        wanted |= {
            p.target
            for ps in self.pointers.values()
            for p in ps.values()
            if p.symbol is None and p.base is None
        }
        for target in sorted(wanted):
            name = self._address_name(target)
            if name is None:
                raise UnsupportedError(f"{self.co.name}: a pointer to {target:#x} leads nowhere")
            self.addresses[target] = name

    def _address_name(self, target: int) -> str | None:
        section = self.co.section_at(target)
        if section is None:  # perhaps the end of one
            section = next(
                (s for s in self.sections if s.alloc and s.addr + s.size == target), None
            )
        if section is None or section not in self.sections:
            return None
        for symbol in self.by_section[section.index].get(target, ()):
            if self._can_refer(symbol):
                return self.names[symbol.index]
        if section.code:
            self.fixed_targets.add(target)
            return self.targets.get(target)
        for address, symbols in self.by_section[section.index].items():
            for symbol in symbols:
                inside = address < target < address + symbol.size
                if inside and symbol.type == STT_OBJECT and self._can_refer(symbol):
                    return f"{self.names[symbol.index]}+{target - address}"
        return self.data_labels.setdefault(
            target, f".Ldata{target - section.addr:04x}_{section.index}"
        )

    def _can_refer(self, symbol: Symbol) -> bool:
        """Whether the linker resolves a distance to the symbol itself: no other can replace it."""
        bound = symbol.bind == STB_LOCAL or symbol.visibility != STV_DEFAULT
        return bound and is_plain(self.names[symbol.index])

    def jumps(self, section: Section, used: set[int]) -> dict[int, tuple[int, str | None]]:
        """Address of a branch → where it goes, and the label there.

        *used* gets the targets that need a label of their own. None where there is no label: the
        branch leads out of the section, or into an instruction.
        """
        known = self.known
        symbols = self.by_section[section.index]
        low, high = section.addr, section.addr + section.size
        names: dict[int, str | None] = {}
        jumps: dict[int, tuple[int, str | None]] = {}
        for address, target in self.branches[section.index]:
            if address in known.raw:
                continue
            if target not in names:
                names[target] = next(
                    (  # a branch to a global symbol would be left to the linker, which refuses it
                        self.names[s.index]
                        for s in symbols.get(target, ())
                        if s.bind == STB_LOCAL and is_plain(self.names[s.index])
                    ),
                    None,
                )
            label = names[target]
            if target not in self.targets or not low <= target <= high:
                label = None
            elif label is None or address in known.local_targets:
                label = self.targets[target]
                used.add(target)
            jumps[address] = target, label
        return jumps
