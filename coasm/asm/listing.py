"""A code object as assembler text: which lines stand for what.

:func:`render` writes the text from a :class:`~coasm.codeobject.CodeObject`, its decoded code and
the :class:`~coasm.asm.knowledge.Knowledge` about what LLVM makes of it.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from coasm.asm.code import Code, Instruction, Raw
from coasm.asm.follow import FOLLOWS
from coasm.asm.knowledge import Knowledge
from coasm.asm.names import display, is_plain, spell, stand_in_line
from coasm.asm.references import CodeReference, References
from coasm.asm.sections import carried_sections, section_directive
from coasm.codeobject import CodeObject, Kernel, Section, Symbol
from coasm.codeobject.elf import (
    SHN_ABS,
    SHN_LORESERVE,
    SHN_UNDEF,
    SHT_NOBITS,
    SHT_NOTE,
    STB_GLOBAL,
    STB_LOCAL,
    STB_WEAK,
    STT_FILE,
    STT_FUNC,
    STT_NOTYPE,
    STT_OBJECT,
    STT_SECTION,
    STV_DEFAULT,
    STV_HIDDEN,
    STV_INTERNAL,
    STV_PROTECTED,
)
from coasm.codeobject.model import DESCRIPTOR_SIZE
from coasm.errors import UnsupportedError

__all__ = ["Content", "Listing", "pin_comment", "render"]

_VISIBILITY = {STV_HIDDEN: ".hidden", STV_PROTECTED: ".protected", STV_INTERNAL: ".internal"}
_TYPES = {STT_NOTYPE: "notype", STT_OBJECT: "object", STT_FUNC: "function"}
_BINDINGS = {STB_GLOBAL: ".globl", STB_WEAK: ".weak"}

#: Zero bytes in a row from which on they are written as one ``.zero``.
ZERO_RUN = 16
_ZEROS = re.compile(rb"\0{%d,}" % ZERO_RUN)
_ZERO_WORDS = re.compile(rb"\0{4,}")
#: Kernels start at multiples of this (LLVM AMDGPU usage, "Kernel Descriptor": 256-byte alignment).
_KERNEL_ALIGN = 256
_COLUMN = 72
#: What LLVM aligns code with (``AMDGPUAsmBackend::writeNopData``).
_S_NOP = b"\0\0\x80\xbf"
PADDING = "s_nop 0"


class Lines(NamedTuple):
    """Where the items of a section's *code* are written.

    ``runs`` are positions in *code* and the line, counted from 0, of the item there: those up to
    the next are on the lines behind it. ``written`` is the text of the instructions, by position,
    that are not written as the disassembler prints them; ``data`` are the positions of data.
    """

    section: int
    code: Code
    runs: list[tuple[int, int]]
    written: dict[int, str]
    data: frozenset[int]


class Listing(NamedTuple):
    """The text of a ``.s`` file, and which of its lines hold which instruction."""

    text: str
    code: tuple[Lines, ...]
    symbol_names: dict[int, str]
    kernel_lines: dict[int, str]  # 0-based line → descriptor symbol
    note_line: int | None
    raw_count: int
    padding: int  # instructions that a directive makes

    @property
    def instruction_count(self) -> int:
        return sum(len(own.code) - len(own.data) for own in self.code) + self.padding

    def rows(self) -> list[tuple[int, int, Instruction]]:
        """(0-based line, section index, instruction as written) of each, in address order."""
        found = []
        for own in self.code:
            items = list(own.code)
            for (low, line), (high, _) in pairwise([*own.runs, (len(items), 0)]):
                for at in range(low, high):
                    item = items[at]
                    if at not in own.data and isinstance(item, Instruction):
                        item = item._replace(text=own.written.get(at, item.text))
                        found.append((line + at - low, own.section, item))
        return found


def pin_comment(original: bytes, llvm: bytes) -> str:
    """The comment that keeps an encoding which LLVM writes otherwise (see docs)."""
    return f"// pin {_words(original)} over {_words(llvm)}"


def _words(data: bytes) -> str:
    words = struct.unpack(f"<{len(data) // 4}I", data)
    return " ".join(["%08X"] * len(words)) % words


class Content(NamedTuple):
    """What a listing is made of.

    *directives* are those of each kernel descriptor by its symbol, None of one that has none,
    *yaml* the metadata, *remarks* what stands behind an instruction, by address.
    """

    co: CodeObject
    code: dict[int, Code]
    yaml: str | None
    directives: dict[str, tuple[str, ...] | None]
    remarks: dict[int, str]
    references: References


def render(content: Content, known: Knowledge, head: list[str]) -> Listing:
    """Write the listing of *content*, which begins with the lines of *head*."""
    return _Writer(content, known).write(head)


class _Writer:
    def __init__(self, content: Content, known: Knowledge) -> None:
        co, references = content.co, content.references
        self.co = co
        self.code = content.code
        self.known = known
        self.yaml = None if known.data_note else content.yaml
        self.directives = content.directives
        self.remarks = content.remarks
        self.lines: list[str] = []
        self.placed: list[Lines] = []
        self.kernel_lines: dict[int, str] = {}
        self.note_line: int | None = None
        self.raw_count = 0
        self.padding = 0
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
        self.kernel_by_descriptor = {k.symbol: k for k in co.kernels}
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
        self.frame_ends: dict[int, str] = {}
        self._name_addresses()

    # --- names -----------------------------------------------------------------------------

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
            if symbol.bind not in (STB_LOCAL, STB_GLOBAL, STB_WEAK) or symbol.type not in _TYPES:
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

        found = {}
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
                found[address] = kernel.entry, name
        return found

    def _dynamic_name(self, index: int) -> str:
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
        found: dict[int, str] = {}
        named = {r.target for r in self.references.values()}
        named |= {p.target for ps in self.pointers.values() for p in ps.values() if p.base is None}
        raw = self.known.raw
        for index, own in self.code.items():
            section = self.co.sections[index]
            wanted = named | {t for address, t in self.branches[index] if address not in raw}
            for target in filter(own.stops_at, wanted):
                found[target] = (
                    f".L{target - section.addr:04x}_{index}"
                    if len(self.code) > 1
                    else f".L{target - section.addr:04x}"
                )
        return found

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

    def _jumps(self, section: Section) -> dict[int, tuple[int, str | None]]:
        """Address of a branch → where it goes, and the label there; notes which targets need one.

        None where there is no label: the branch leads out of the section, or into an instruction.
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
                self.used_targets.add(target)
            jumps[address] = target, label
        return jumps

    # --- the file --------------------------------------------------------------------------

    def write(self, head: list[str]) -> Listing:
        out = self.lines
        out += head
        out.append(f'\t.amdgcn_target "amdgcn-amd-amdhsa--{self.co.target}"')
        out.append(f"\t.amdhsa_code_object_version {max(self.co.code_object_version, 4)}")
        self._declarations()
        for section in self.sections:
            if section.type == SHT_NOTE and section.alloc:
                continue
            out.append("")
            if section.code:
                self._code_section(section)
            else:
                self._data_section(section)
        self._notes()
        out.append("")
        return Listing(
            "\n".join(out),
            tuple(self.placed),
            self.names,
            self.kernel_lines,
            self.note_line,
            self.raw_count,
            self.padding,
        )

    def _declarations(self) -> None:
        """Stand-ins, bindings in the order of the symbol table, and absolute symbols.

        The linker's dynamic symbol table follows the order in which global symbols are first
        named.
        """
        out = self.lines
        by_index = {s.index: s for s in self.co.symbols}
        for index, name in self.names.items():
            if name != spell(by_index[index].name):
                out.append(stand_in_line(name, by_index[index].name))
        for index, name in self.names.items():
            symbol = by_index[index]
            if symbol.bind != STB_LOCAL:
                out.append(f"\t{_BINDINGS[symbol.bind]}\t{name}")
        for index, name in self.names.items():
            symbol = by_index[index]
            if symbol.shndx == SHN_ABS:
                self._absolute(symbol, name)

    def _absolute(self, symbol: Symbol, name: str) -> None:
        self.lines.append(f"\t.set {name}, {symbol.value:#x}")
        self._attributes(symbol, name)
        if symbol.size:
            self.lines.append(f"\t.size {name}, {symbol.size}")

    def _section_line(self, section: Section) -> None:
        self.lines.append(section_directive(section))

    def _align(self, alignment: int) -> None:
        if alignment > 1:
            self.lines.append(f"\t.p2align\t{alignment.bit_length() - 1}")

    def _attributes(self, symbol: Symbol, name: str, *, visibility: bool = True) -> None:
        if symbol.type != STT_NOTYPE:
            self.lines.append(f"\t.type\t{name},@{_TYPES[symbol.type]}")
        if visibility and symbol.visibility != STV_DEFAULT:
            self.lines.append(f"\t{_VISIBILITY[symbol.visibility]}\t{name}")

    def _label(self, symbol: Symbol, section: Section) -> None:
        name = self.names[symbol.index]
        descriptor = self._descriptor_of(symbol)
        self._attributes(symbol, name, visibility=descriptor is None)
        # The directive block copies this symbol's visibility of that moment to NAME.kd, and makes
        # a default one protected: see _descriptor.
        if descriptor is not None and descriptor.visibility == symbol.visibility != STV_DEFAULT:
            self.lines.append(f"\t{_VISIBILITY[symbol.visibility]}\t{name}")
        self.lines.append(f"{name}:")
        self._size(symbol, name, section)

    def _size(self, symbol: Symbol, name: str, section: Section) -> None:
        """The size of a symbol, unless it is written where the code that it spans ends."""
        if symbol.size and not (section.code and self._ends_at(section, symbol)):
            self.lines.append(f"\t.size\t{name}, {symbol.size}")

    def _ends_at(self, section: Section, symbol: Symbol) -> bool:
        """Whether a label can stand where a symbol in code ends."""
        return self.code[section.index].stops_at(symbol.value + symbol.size)

    def _end_label(self, address: int, section: Section) -> str:
        suffix = f"_{section.index}" if len(self.code) > 1 else ""
        return f".Lend{address - section.addr:04x}{suffix}"

    def _descriptor_of(self, symbol: Symbol) -> Symbol | None:
        """The descriptor symbol whose directive block will speak of the kernel *symbol*."""
        kernel = self.kernel_by_descriptor.get(symbol.name + ".kd")
        if kernel is None or not self._said_in_directives(kernel):
            return None
        return self.first_named.get(kernel.symbol)

    def _said_in_directives(self, kernel: Kernel) -> bool:
        if kernel.symbol in self.known.data_descriptors:
            return False
        return self._data_reason(kernel) is None

    def _data_reason(self, kernel: Kernel) -> str | None:
        """Why a descriptor cannot be a directive block; None where it can."""
        if self.directives.get(kernel.symbol) is None:
            return "no set of directives yields these bytes"
        section = self.co.section_at(kernel.descriptor_address)
        if section is None or section.name != ".rodata":
            return "it is not in .rodata"
        if (
            kernel.descriptor_address - section.addr
        ) % DESCRIPTOR_SIZE or section.align % DESCRIPTOR_SIZE:
            return "it is not aligned to 64 bytes"
        code = self.last_named.get(kernel.name)
        descriptor = self.last_named.get(kernel.symbol)
        if code is None or descriptor is None or kernel.symbol != kernel.name + ".kd":
            return "it is not named after a kernel"
        if code.value != kernel.entry or descriptor.value != kernel.descriptor_address:
            return "its entry offset does not lead to its kernel"
        if descriptor.type != STT_OBJECT or descriptor.size != DESCRIPTOR_SIZE:
            return "its symbol is not an object of 64 bytes"
        if code.bind != descriptor.bind:
            return "its binding is not its kernel's"
        if code.visibility == STV_DEFAULT:
            return "its kernel's visibility is default"
        for symbol in (code, descriptor):
            if self.names[symbol.index] != spell(symbol.name):
                return "its name cannot be spelled"
        return None

    # --- code ------------------------------------------------------------------------------

    def _code_section(self, section: Section) -> None:
        low, high = section.addr, section.addr + section.size
        symbols, code = self.by_section[section.index], self.code[section.index]
        self._section_line(section)
        self._align(section.align)
        starts = sorted(symbols)
        self.ends: dict[int, list[str]] = defaultdict(list)  # address → names that end there
        for address in starts:
            for symbol in symbols[address]:
                if symbol.size and self._ends_at(section, symbol):
                    self.ends[address + symbol.size].append(self.names[symbol.index])
        # Where the code of a frame entry ends is no symbol's place: that may move to its alignment.
        for pointers in self.pointers.values():
            for pointer in pointers.values():
                if pointer.base is not None and code.stops_at(pointer.target):
                    self.frame_ends[pointer.target] = self._end_label(pointer.target, section)
                    self.ends.setdefault(pointer.target, [])
        self.used_targets: set[int] = {t for t in self.fixed_targets if low <= t <= high}
        known = self.known
        jumps = self._jumps(section)
        labelled = {*starts, *self.ends, *self.entries}
        fixed = {a for a in self.preload_entries if low <= a < high}
        pieces = self._split(section, labelled | set(self.targets), fixed)
        pending = [a for a in reversed(starts) if not pieces.stops_at(a)]
        # The instructions whose line is not their text alone, ...
        shown = ["\t" + text for text in pieces.texts]
        written: dict[int, str] = {}
        changed = jumps.keys() | self.remarks.keys() | known.pins.keys() | known.spellings.keys()
        changed |= self.references.keys()
        for at in pieces.places(changed):
            if pieces.texts[at]:
                text, shown[at] = self._instruction(
                    pieces, at, section, jumps.get(pieces.address(at))
                )
                if text != pieces.texts[at]:
                    written[at] = text
        # ... and the items that are data, or have something before them.
        special = labelled | self.used_targets | known.raw.keys() | fixed
        special.update(raw.address for raw in pieces.raws)
        stops = pieces.stops
        special.update(low + stops[bisect_right(stops, a - low) - 1] for a in pending if a > low)
        lines = self.lines
        runs, data = [(0, len(lines))], set[int]()
        done = 0
        for at in pieces.places(special):
            address = pieces.address(at)
            lines += shown[done:at]
            done = at
            if address in fixed:
                self._fix(address, section)
            if address in labelled:
                self._labels_at(address, section)
            if address in self.used_targets:
                lines.append(f"{self.targets[address]}:")
            while pending and address < pending[-1] < address + len(pieces.bytes_at(at)):
                self._inside_labels(pending.pop(), address, section)
            raw = pieces.others.get(at)
            if address in known.raw and not isinstance(raw, Raw):
                reason = f"{display(pieces.texts[at])}: {known.raw[address]}"
                raw = Raw(address, pieces.bytes_at(at), reason)
            if isinstance(raw, Raw):
                data.add(at)
                self._raw(raw)
                done = at + 1
            runs.append((done, len(lines)))
        lines += shown[done:]
        self.placed.append(Lines(section.index, pieces, runs, written, frozenset(data)))
        self._labels_at(high, section)
        if high in self.used_targets:
            lines.append(f"{self.targets[high]}:")
        for address in reversed(pending):
            self._inside_labels(address, high, section)

    def _fix(self, address: int, section: Section) -> None:
        """Directives that keep an address at its distance from a kernel's entry, or fail."""
        entry, name = self.preload_entries[address]
        if _keeps_alignment(section, entry):
            self._align(_KERNEL_ALIGN)
        line = f"\t.org {name}+{address - entry}"
        self.lines.append(f"{line:<{_COLUMN}} // firmware that preloads arguments enters here")

    def _split(self, section: Section, labels: set[int], fixed: set[int]) -> Code:
        """Data runs cut at labels, and zero instructions joined to data: long runs, and padding.

        What the alignment before a *fixed* address makes itself is no instruction either.
        """
        code = self.code[section.index]
        functions = self.entries | {s.value for s in self.co.symbols if s.type == STT_FUNC}
        changes: list[tuple[int, int, list[Raw]]] = []
        for low, high in _runs_of_zeros(code, labels):
            end = section.addr + code.stops[high]
            padding = high == len(code) or (code.texts[high] and end in functions)
            data = bytes(end - code.address(low))
            if padding or len(data) >= ZERO_RUN:
                changes.append((low, high, [Raw(code.address(low), data, "zeros")]))
        for address in sorted(fixed):
            entry = self.preload_entries[address][0]
            high = low = code.position(address) or 0
            while low and code.address(low - 1) > entry and code.bytes_at(low - 1) == _S_NOP:
                low -= 1
                if code.address(low) in labels:
                    break
            if low < high and _keeps_alignment(section, entry):
                changes.append(
                    (low, high, [Raw(code.address(low), _S_NOP * (high - low), PADDING)])
                )
        for at, item in code.others.items():
            if isinstance(item, Raw):
                low, end = item.address, item.address + len(item.data)
                cuts = [low, *sorted(a for a in labels if low < a < end), end]
                parts = [
                    Raw(a, item.data[a - low : b - low], item.reason) for a, b in pairwise(cuts)
                ]
                changes.append((at, at + 1, parts))
        return code.with_raws(sorted(changes, key=lambda change: change[0])) if changes else code

    def _labels_at(self, address: int, section: Section) -> None:
        if address in self.ends:
            label = self._end_label(address, section)
            self.lines.append(f"{label}:")
            self.lines += [f"\t.size\t{name}, {label}-{name}" for name in self.ends[address]]
        symbols = self.by_section[section.index].get(address, ())
        function = any(s.type == STT_FUNC for s in symbols) or address in self.entries
        if symbols and self.lines[-1] and not self.lines[-1].startswith(("\t.p2align", "\t.text")):
            self.lines.append("")
        if (
            function
            and address % _KERNEL_ALIGN == 0
            and section.align % _KERNEL_ALIGN == 0
            and address != section.addr
        ):
            self._align(_KERNEL_ALIGN)
        for symbol in symbols:
            self._label(symbol, section)

    def _inside_labels(self, address: int, base: int, section: Section) -> None:
        """Symbols that are not at the start of an item: defined by their distance from one."""
        for symbol in self.by_section[section.index][address]:
            name = self.names[symbol.index]
            label = f".Lnear{symbol.index}"
            self.lines.append(f"{label}:")
            self._attributes(symbol, name)
            self.lines.append(f"\t.set {name}, {label}{address - base:+d}")
            if symbol.size and not (section.code and self._ends_at(section, symbol)):
                self.lines.append(f"\t.size {name}, {symbol.size}")

    def _instruction(
        self, code: Code, at: int, section: Section, jump: tuple[int, str | None] | None
    ) -> tuple[str, str]:
        """The text of an instruction, and its line; *jump* is where it goes, and its label."""
        known = self.known
        address = code.address(at)
        text = known.spellings.get(address) or code.texts[at]
        comment = ""
        if jump is not None:
            target, label = jump
            before, comma, _ = text.rpartition(", ")
            if not comma:
                before, comma = text.partition(" ")[0], " "
            if label is not None:
                text = f"{before}{comma}{label}"
            else:
                value = int.from_bytes(code.bytes_at(at)[:2], "little")
                text = f"{before}{comma}{value}"
                comment = f"// goes to {target - section.addr:+#x} of {section.name}"
        reference = self.references.get(address)
        if reference is not None:
            text = self._symbolic(text, reference)
        if address in known.pins:
            pin = pin_comment(code.bytes_at(at), known.pins[address])
            comment = pin + comment.replace("//", " ;")
        if address in self.remarks:
            comment = (
                f"{comment} {self.remarks[address]}" if comment else f"// {self.remarks[address]}"
            )
        return text, f"\t{text:<{_COLUMN}} {comment}" if comment else f"\t{text}"

    def _symbolic(self, text: str, reference: CodeReference) -> str:
        """The text with the literal of an address as an expression that the linker resolves."""
        mnemonic, _, rest = text.partition(" ")
        operands = rest.split(", ")
        if reference.symbol is None:
            name, _, offset = self.addresses[reference.target].partition("+")
        else:
            name, offset = self._dynamic_name(reference.symbol), ""
        addend = reference.literal + int(offset or 0)
        operands[reference.operand] = f"{name}@{reference.kind}{addend:+d}"
        return f"{mnemonic} {', '.join(operands)}"

    def _raw(self, item: Raw) -> None:
        if item.reason == PADDING:
            self.padding += len(item.data) // len(_S_NOP)
            return  # by the directive that follows
        if item.reason not in ("zeros", "data"):
            self.raw_count += 1
            self.lines.append(f"\t// data: {display(item.reason)}")
        self._bytes(item.data)

    def _bytes(self, data: bytes) -> None:
        """Data directives for *data*: words, single bytes at the end, runs of zeros as one line."""
        at = 0
        for zeros in _ZEROS.finditer(data):
            low, high = -(-zeros.start() // 4) * 4, zeros.end()
            if high - low >= ZERO_RUN:
                high -= 0 if high == len(data) else high % 4
                self._words(data[at:low])
                self.lines.append(f"\t.zero {high - low}")
                at = high
        self._words(data[at:])

    def _words(self, data: bytes) -> None:
        whole = len(data) // 4
        words = [f"0x{word:08x}" for word in struct.unpack_from(f"<{whole}I", data)]
        self.lines += [f"\t.long {', '.join(words[at : at + 8])}" for at in range(0, whole, 8)]
        if len(data) % 4:
            self.lines.append("\t.byte " + ", ".join(f"0x{b:02x}" for b in data[4 * whole :]))

    # --- data ------------------------------------------------------------------------------

    def _data_section(self, section: Section) -> None:
        symbols = self.by_section[section.index]
        descriptors = {
            k.descriptor_address: k
            for k in self.co.kernels
            if section.alloc
            and section.addr <= k.descriptor_address
            and k.descriptor_address + DESCRIPTOR_SIZE <= section.addr + section.size
        }
        self._section_line(section)
        self._align(section.align)
        end = section.addr + section.size
        cuts = {section.addr, end} | {a for a in symbols if section.addr <= a <= end}
        cuts |= {a for a in self.data_labels if section.addr <= a <= end}
        for address in descriptors:
            cuts |= {address, address + DESCRIPTOR_SIZE}
        ordered = sorted(cuts)
        after = section.addr
        for low, high in zip(ordered, [*ordered[1:], end], strict=True):
            kernel = descriptors.get(low)
            if kernel is not None and low >= after:
                if low in self.data_labels and self.data_labels[low].endswith(f"_{section.index}"):
                    self.lines.append(f"{self.data_labels[low]}:")
                self._descriptor(kernel, symbols.get(low, []), section)
                after = low + DESCRIPTOR_SIZE
                continue
            for symbol in symbols.get(low, ()):
                self._label(symbol, section)
            if low in self.data_labels and self.data_labels[low].endswith(f"_{section.index}"):
                self.lines.append(f"{self.data_labels[low]}:")
            low = max(low, after)
            if low < high:
                if section.type == SHT_NOBITS:
                    self.lines.append(f"\t.zero {high - low}")
                else:
                    self._data(section, low - section.addr, high - section.addr)
        for address in sorted(a for a in symbols if not section.addr <= a <= end):
            self._inside_labels(address, end, section)

    def _data(self, section: Section, low: int, high: int) -> None:
        """Bytes of a section, its pointers as expressions."""
        at = low
        for offset, pointer in sorted(self.pointers.get(section.index, {}).items()):
            if not low <= offset <= high - pointer.size:
                continue
            self._bytes(section.data[at:offset])
            if pointer.base is not None:
                if pointer.target not in self.frame_ends:
                    continue
                name = f"{self.frame_ends[pointer.target]}-{self.addresses[pointer.base]}"
                self.lines.append(f"\t.long {name}")
                at = offset + pointer.size
                continue
            if pointer.symbol is None:
                name = self.addresses[pointer.target]
            else:
                name = self._dynamic_name(pointer.symbol)
                name += f"{pointer.target:+d}" if pointer.target else ""
            self.lines.append(f"\t.long {name}-." if pointer.relative else f"\t.quad {name}")
            at = offset + pointer.size
        self._bytes(section.data[at:high])

    def _descriptor(self, kernel: Kernel, symbols: list[Symbol], section: Section) -> None:
        out = self.lines
        reason = self.known.data_descriptors.get(kernel.symbol) or self._data_reason(kernel)
        own = next((s for s in symbols if s.name == kernel.symbol), None)
        for symbol in symbols:
            if reason is not None or symbol is not own:
                self._label(symbol, section)
        if reason is None and own is not None:
            name = spell(kernel.name)
            lines = self.directives[kernel.symbol]
            assert name is not None and lines is not None
            self.kernel_lines[len(out)] = kernel.symbol
            out.append(f"\t.amdhsa_kernel {name}")
            out += [f"\t\t{line}" for line in lines]
            out.append("\t.end_amdhsa_kernel")
            code = self.first_named[kernel.name]
            if code.visibility != own.visibility:
                # The block left the descriptor default and made the kernel protected.
                if code.visibility != STV_PROTECTED:
                    out.append(f"\t{_VISIBILITY[code.visibility]}\t{self.names[code.index]}")
                if own.visibility != STV_DEFAULT:
                    out.append(f"\t{_VISIBILITY[own.visibility]}\t{self.names[own.index]}")
            return
        from coasm.descriptor import describe

        out.append(f"\t// kernel descriptor as data: {display(reason or 'it has no symbol')}")
        out += [f"\t//   {display(line)}" for line in describe(kernel.descriptor, self.co.target)]
        data = kernel.descriptor
        code_symbol = next(
            (
                s
                for s in self.co.symbols
                if s.index in self.names
                and s.shndx < SHN_LORESERVE
                and s.value == kernel.entry
                and s.type == STT_FUNC
            ),
            None,
        )
        if code_symbol is None or own is None:
            self._bytes(data)
            return
        self._bytes(data[:16])
        out.append(f"\t.quad {self.names[code_symbol.index]}-{self.names[own.index]}")
        self._bytes(data[24:])

    # --- notes -----------------------------------------------------------------------------

    def _notes(self) -> None:
        for section in self.sections:
            if section.type != SHT_NOTE or not section.alloc:
                continue
            notes = self.co.elf.notes_of(section)
            metadata = self.co.metadata_note
            plain = (
                self.yaml is not None
                and section.name == ".note"
                and [(owner, typ) for owner, typ, _ in notes] == [(b"AMDGPU", 32)]
                and section.data == note_bytes(metadata or b"")
                and section.addr % 4 == 0
                and not self.by_section[section.index]
            )
            self.lines.append("")
            self.note_line = len(self.lines)
            if plain:
                assert self.yaml is not None
                self.lines.append(f"\t{FOLLOWS}")
                self.lines.append("\t.amdgpu_metadata")
                self.lines += self.yaml.rstrip("\n").split("\n")
                self.lines.append("\t.end_amdgpu_metadata")
            else:
                self.lines.append("\t// metadata as data: no YAML yields these bytes")
                self._section_line(section)
                self._align(section.align)
                self._bytes(section.data)


def _keeps_alignment(section: Section, entry: int) -> bool:
    """Whether a kernel's entry stays aligned, so that an alignment behind it keeps a distance."""
    return entry % _KERNEL_ALIGN == 0 and section.align % _KERNEL_ALIGN == 0


def _runs_of_zeros(code: Code, labels: set[int]) -> Iterator[tuple[int, int]]:
    """Where instructions are that consist of zero bytes: from and to; a label begins a new run."""
    stops, texts = code.stops, code.texts
    for zeros in _ZERO_WORDS.finditer(code.data):
        low = bisect_left(stops, zeros.start())
        high = bisect_right(stops, zeros.end()) - 1
        for at in [at for at in range(low, high) if code.address(at) in labels or not texts[at]]:
            if at > low:
                yield low, at
            low = at if texts[at] else at + 1
        if high > low:
            yield low, high


def note_bytes(metadata: bytes) -> bytes:
    """The section that LLVM writes for a metadata document: one note, padded to four bytes."""
    header = b"\x07\0\0\0" + len(metadata).to_bytes(4, "little") + b"\x20\0\0\0" + b"AMDGPU\0\0"
    return header + metadata + b"\0" * (-len(metadata) % 4)
