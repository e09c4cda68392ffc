"""A code object as assembler text: which lines stand for what.

:func:`render` writes the text from a :class:`~coasm.codeobject.CodeObject`, its decoded code and
the :class:`~coasm.asm.knowledge.Knowledge` about what LLVM makes of it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from coasm.asm.code import Instruction
from coasm.asm.code_lines import CodeWriter, Lines
from coasm.asm.content import Content
from coasm.asm.data_lines import DataWriter
from coasm.asm.follow import FOLLOWS
from coasm.asm.knowledge import Knowledge
from coasm.asm.names import spell, stand_in_line
from coasm.asm.naming import Naming
from coasm.asm.page import Page
from coasm.codeobject import Symbol
from coasm.codeobject.elf import SHN_ABS, SHT_NOTE, STB_GLOBAL, STB_LOCAL, STB_WEAK

__all__ = ["Listing", "render"]

_BINDINGS = {STB_GLOBAL: ".globl", STB_WEAK: ".weak"}


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
        return sum(len(section.code) - len(section.data) for section in self.code) + self.padding

    def rows(self) -> list[tuple[int, int, Instruction]]:
        """(0-based line, section index, instruction as written) of each, in address order."""
        instructions = []
        for section in self.code:
            items = list(section.code)
            for (low, line), (high, _) in pairwise([*section.runs, (len(items), 0)]):
                for at in range(low, high):
                    item = items[at]
                    if at not in section.data and isinstance(item, Instruction):
                        item = item._replace(text=section.written.get(at, item.text))
                        instructions.append((line + at - low, section.section, item))
        return instructions


def render(content: Content, known: Knowledge, head: list[str]) -> Listing:
    """Write the listing of *content*, which begins with the lines of *head*."""
    return _Writer(content, known).write(head)


class _Writer:
    def __init__(self, content: Content, known: Knowledge) -> None:
        self.co = content.co
        self.yaml = None if known.data_note else content.yaml
        self.naming = Naming(content.co, content.code, known, content.references)
        self.names = self.naming.names
        self.page = Page(content, known, self.naming)
        self.code = CodeWriter(self.page, content, known)
        self.data = DataWriter(self.page, self.code.frame_ends)
        self.note_line: int | None = None

    def write(self, head: list[str]) -> Listing:
        out = self.page.lines
        out += head
        out.append(f'\t.amdgcn_target "amdgcn-amd-amdhsa--{self.co.target}"')
        out.append(f"\t.amdhsa_code_object_version {max(self.co.code_object_version, 4)}")
        self._declarations()
        for section in self.naming.sections:
            if section.type == SHT_NOTE and section.alloc:
                continue
            out.append("")
            if section.code:
                self.code.write(section)
            else:
                self.data.write(section)
        self._notes()
        out.append("")
        return Listing(
            "\n".join(out),
            tuple(self.code.placed),
            self.names,
            self.data.kernel_lines,
            self.note_line,
            self.code.raw_count,
            self.code.padding,
        )

    def _declarations(self) -> None:
        """Stand-ins, bindings in the order of the symbol table, and absolute symbols.

        The linker's dynamic symbol table follows the order in which global symbols are first
        named.
        """
        out = self.page.lines
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
        self.page.lines.append(f"\t.set {name}, {symbol.value:#x}")
        self.page.attributes(symbol, name)
        if symbol.size:
            self.page.lines.append(f"\t.size {name}, {symbol.size}")

    def _notes(self) -> None:
        for section in self.naming.sections:
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
                and not self.naming.by_section[section.index]
            )
            self.page.lines.append("")
            self.note_line = len(self.page.lines)
            if plain:
                assert self.yaml is not None
                self.page.lines.append(f"\t{FOLLOWS}")
                self.page.lines.append("\t.amdgpu_metadata")
                self.page.lines += self.yaml.rstrip("\n").split("\n")
                self.page.lines.append("\t.end_amdgpu_metadata")
            else:
                self.page.lines.append("\t// metadata as data: no YAML yields these bytes")
                self.page.section_line(section)
                self.page.align(section.align)
                self.page.data(section.data)


def note_bytes(metadata: bytes) -> bytes:
    """The section that LLVM writes for a metadata document: one note, padded to four bytes."""
    header = b"\x07\0\0\0" + len(metadata).to_bytes(4, "little") + b"\x20\0\0\0" + b"AMDGPU\0\0"
    return header + metadata + b"\0" * (-len(metadata) % 4)
