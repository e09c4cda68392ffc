"""The data sections of a listing: pointers, kernel descriptors, bytes."""

from __future__ import annotations

from collections.abc import Mapping

from coasm.asm.names import display, spell
from coasm.asm.page import VISIBILITY, Page
from coasm.codeobject import Kernel, Section, Symbol
from coasm.codeobject.elf import (
    SHN_LORESERVE,
    SHT_NOBITS,
    STT_FUNC,
    STV_DEFAULT,
    STV_PROTECTED,
)
from coasm.codeobject.model import DESCRIPTOR_SIZE

__all__ = ["DataWriter"]


class DataWriter:
    """Writes data sections on a page.

    ``kernel_lines`` are the lines (0-based) where a kernel descriptor begins, with its symbol.
    *frame_ends* are labels where the code of frame entries ends, by address.
    """

    def __init__(self, page: Page, frame_ends: Mapping[int, str]) -> None:
        self.page = page
        self.co = page.co
        self.naming = page.naming
        self.names = page.names
        self.by_section = page.by_section
        self.frame_ends = frame_ends
        self.kernel_lines: dict[int, str] = {}

    def write(self, section: Section) -> None:
        """Write one data section."""
        symbols = self.by_section[section.index]
        descriptors = {
            k.descriptor_address: k
            for k in self.co.kernels
            if section.alloc
            and section.addr <= k.descriptor_address
            and k.descriptor_address + DESCRIPTOR_SIZE <= section.addr + section.size
        }
        self.page.section_line(section)
        self.page.align(section.align)
        end = section.addr + section.size
        cuts = {section.addr, end} | {a for a in symbols if section.addr <= a <= end}
        cuts |= {a for a in self.naming.data_labels if section.addr <= a <= end}
        for address in descriptors:
            cuts |= {address, address + DESCRIPTOR_SIZE}
        ordered = sorted(cuts)
        after = section.addr
        for low, high in zip(ordered, [*ordered[1:], end], strict=True):
            kernel = descriptors.get(low)
            if kernel is not None and low >= after:
                self._data_label(low, section)
                self._descriptor(kernel, symbols.get(low, []), section)
                after = low + DESCRIPTOR_SIZE
                continue
            for symbol in symbols.get(low, ()):
                self.page.label(symbol, section)
            self._data_label(low, section)
            low = max(low, after)
            if low < high:
                if section.type == SHT_NOBITS:
                    self.page.lines.append(f"\t.zero {high - low}")
                else:
                    self._data(section, low - section.addr, high - section.addr)
        for address in sorted(a for a in symbols if not section.addr <= a <= end):
            self.page.inside_labels(address, end, section)

    def _data_label(self, address: int, section: Section) -> None:
        label = self.naming.data_labels.get(address)
        if label is not None and label.endswith(f"_{section.index}"):
            self.page.lines.append(f"{label}:")

    def _data(self, section: Section, low: int, high: int) -> None:
        """Bytes of a section, its pointers as expressions."""
        at = low
        for offset, pointer in sorted(self.naming.pointers.get(section.index, {}).items()):
            if not low <= offset <= high - pointer.size:
                continue
            self.page.data(section.data[at:offset])
            if pointer.base is not None:
                if pointer.target not in self.frame_ends:
                    continue
                name = f"{self.frame_ends[pointer.target]}-{self.naming.addresses[pointer.base]}"
                self.page.lines.append(f"\t.long {name}")
                at = offset + pointer.size
                continue
            if pointer.symbol is None:
                name = self.naming.addresses[pointer.target]
            else:
                name = self.naming.dynamic_name(pointer.symbol)
                name += f"{pointer.target:+d}" if pointer.target else ""
            self.page.lines.append(f"\t.long {name}-." if pointer.relative else f"\t.quad {name}")
            at = offset + pointer.size
        self.page.data(section.data[at:high])

    def _descriptor(self, kernel: Kernel, symbols: list[Symbol], section: Section) -> None:
        out = self.page.lines
        reason = self.page.data_reason(kernel)
        descriptor = next((s for s in symbols if s.name == kernel.symbol), None)
        for symbol in symbols:
            if reason is not None or symbol is not descriptor:
                self.page.label(symbol, section)
        if reason is None and descriptor is not None:
            name = spell(kernel.name)
            lines = self.page.directives[kernel.symbol]
            assert name is not None and lines is not None
            self.kernel_lines[len(out)] = kernel.symbol
            out.append(f"\t.amdhsa_kernel {name}")
            out += [f"\t\t{line}" for line in lines]
            out.append("\t.end_amdhsa_kernel")
            code = self.naming.first_named[kernel.name]
            if code.visibility != descriptor.visibility:
                # The block left the descriptor default and made the kernel protected.
                if code.visibility != STV_PROTECTED:
                    out.append(f"\t{VISIBILITY[code.visibility]}\t{self.names[code.index]}")
                if descriptor.visibility != STV_DEFAULT:
                    out.append(
                        f"\t{VISIBILITY[descriptor.visibility]}\t{self.names[descriptor.index]}"
                    )
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
        if code_symbol is None or descriptor is None:
            self.page.data(data)
            return
        self.page.data(data[:16])
        out.append(f"\t.quad {self.names[code_symbol.index]}-{self.names[descriptor.index]}")
        self.page.data(data[24:])
