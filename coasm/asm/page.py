"""The lines of a listing that say where a symbol is and what it is like, and lines of data."""

from __future__ import annotations

import re
import struct

from coasm.asm.content import Content
from coasm.asm.knowledge import Knowledge
from coasm.asm.names import spell
from coasm.asm.naming import TYPES, Naming
from coasm.asm.sections import section_directive
from coasm.codeobject import Kernel, Section, Symbol
from coasm.codeobject.elf import (
    STT_NOTYPE,
    STT_OBJECT,
    STV_DEFAULT,
    STV_HIDDEN,
    STV_INTERNAL,
    STV_PROTECTED,
)
from coasm.codeobject.model import DESCRIPTOR_SIZE

__all__ = ["VISIBILITY", "ZERO_RUN", "Page"]

VISIBILITY = {STV_HIDDEN: ".hidden", STV_PROTECTED: ".protected", STV_INTERNAL: ".internal"}
#: Zero bytes in a row from which on they are written as one ``.zero``.
ZERO_RUN = 16
_ZEROS = re.compile(rb"\0{%d,}" % ZERO_RUN)


class Page:
    """The lines of a listing so far, in ``lines``."""

    def __init__(self, content: Content, known: Knowledge, naming: Naming) -> None:
        self.co = content.co
        self.code = content.code
        self.directives = content.directives
        self.known = known
        self.naming = naming
        self.names = naming.names
        self.by_section = naming.by_section
        self.kernel_by_descriptor = {k.symbol: k for k in content.co.kernels}
        self.lines: list[str] = []

    def section_line(self, section: Section) -> None:
        """The directive that begins a section."""
        self.lines.append(section_directive(section))

    def align(self, alignment: int) -> None:
        """The directive that aligns what follows, if it has to be."""
        if alignment > 1:
            self.lines.append(f"\t.p2align\t{alignment.bit_length() - 1}")

    def attributes(self, symbol: Symbol, name: str, *, visibility: bool = True) -> None:
        """The directives of a symbol's type and visibility."""
        if symbol.type != STT_NOTYPE:
            self.lines.append(f"\t.type\t{name},@{TYPES[symbol.type]}")
        if visibility and symbol.visibility != STV_DEFAULT:
            self.lines.append(f"\t{VISIBILITY[symbol.visibility]}\t{name}")

    def label(self, symbol: Symbol, section: Section) -> None:
        """A symbol that is defined here."""
        name = self.names[symbol.index]
        descriptor = self._descriptor_of(symbol)
        self.attributes(symbol, name, visibility=descriptor is None)
        # The directive block copies this symbol's visibility of that moment to NAME.kd, and makes
        # a default one protected: see coasm.asm.data_lines.
        if descriptor is not None and descriptor.visibility == symbol.visibility != STV_DEFAULT:
            self.lines.append(f"\t{VISIBILITY[symbol.visibility]}\t{name}")
        self.lines.append(f"{name}:")
        # Unless its size is written where the code that it spans ends.
        if symbol.size and not (section.code and self.ends_at(section, symbol)):
            self.lines.append(f"\t.size\t{name}, {symbol.size}")

    def ends_at(self, section: Section, symbol: Symbol) -> bool:
        """Whether a label can stand where a symbol in code ends."""
        return self.code[section.index].stops_at(symbol.value + symbol.size)

    def inside_labels(self, address: int, base: int, section: Section) -> None:
        """Symbols that are not at the start of an item: defined by their distance from one."""
        for symbol in self.by_section[section.index][address]:
            name = self.names[symbol.index]
            label = f".Lnear{symbol.index}"
            self.lines.append(f"{label}:")
            self.attributes(symbol, name)
            self.lines.append(f"\t.set {name}, {label}{address - base:+d}")
            if symbol.size and not (section.code and self.ends_at(section, symbol)):
                self.lines.append(f"\t.size {name}, {symbol.size}")

    def _descriptor_of(self, symbol: Symbol) -> Symbol | None:
        """The descriptor symbol whose directive block will speak of the kernel *symbol*."""
        kernel = self.kernel_by_descriptor.get(symbol.name + ".kd")
        if kernel is None or self.data_reason(kernel) is not None:
            return None
        return self.naming.first_named.get(kernel.symbol)

    def data_reason(self, kernel: Kernel) -> str | None:
        """Why a descriptor cannot be a directive block; None where it can."""
        if kernel.symbol in self.known.data_descriptors:
            return self.known.data_descriptors[kernel.symbol]
        if self.directives.get(kernel.symbol) is None:
            return "no set of directives yields these bytes"
        section = self.co.section_at(kernel.descriptor_address)
        if section is None or section.name != ".rodata":
            return "it is not in .rodata"
        if (
            kernel.descriptor_address - section.addr
        ) % DESCRIPTOR_SIZE or section.align % DESCRIPTOR_SIZE:
            return "it is not aligned to 64 bytes"
        code = self.naming.last_named.get(kernel.name)
        descriptor = self.naming.last_named.get(kernel.symbol)
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

    def data(self, data: bytes) -> None:
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
