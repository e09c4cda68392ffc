"""The code sections of a listing: instructions, labels, and what of them is data."""

from __future__ import annotations

import re
import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from coasm.asm.code import Code, Raw
from coasm.asm.content import Content
from coasm.asm.knowledge import Knowledge
from coasm.asm.names import display
from coasm.asm.page import ZERO_RUN, Page
from coasm.asm.references import CodeReference
from coasm.codeobject import Section
from coasm.codeobject.elf import STT_FUNC

__all__ = ["CodeWriter", "Lines", "pin_comment"]

_ZERO_WORDS = re.compile(rb"\0{4,}")
#: Kernels start at multiples of this (LLVM AMDGPU usage, "Kernel Descriptor": 256-byte alignment).
_KERNEL_ALIGN = 256
_COLUMN = 72
#: What LLVM aligns code with (``AMDGPUAsmBackend::writeNopData``).
_S_NOP = b"\0\0\x80\xbf"
_PADDING = "s_nop 0"


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


def pin_comment(original: bytes, llvm: bytes) -> str:
    """The comment that keeps an encoding which LLVM writes otherwise (see docs)."""
    return f"// pin {_words(original)} over {_words(llvm)}"


def _words(data: bytes) -> str:
    words = struct.unpack(f"<{len(data) // 4}I", data)
    return " ".join(["%08X"] * len(words)) % words


class CodeWriter:
    """Writes code sections on a page.

    ``placed`` is where their items went, ``raw_count`` how many pieces of data with a reason there
    are, ``padding`` how many instructions a directive makes, ``frame_ends`` the labels where the
    code of frame entries ends.
    """

    def __init__(self, page: Page, content: Content, known: Knowledge) -> None:
        self.page = page
        self.co = content.co
        self.code = content.code
        self.remarks = content.remarks
        self.known = known
        self.naming = page.naming
        self.names = page.names
        self.by_section = page.by_section
        self.placed: list[Lines] = []
        self.raw_count = 0
        self.padding = 0
        self.frame_ends: dict[int, str] = {}

    def write(self, section: Section) -> None:
        """Write one code section."""
        low, high = section.addr, section.addr + section.size
        self.page.section_line(section)
        self.page.align(section.align)
        starts = sorted(self.by_section[section.index])
        self._find_ends(section)
        self.used_targets: set[int] = {t for t in self.naming.fixed_targets if low <= t <= high}
        jumps = self.naming.jumps(section, self.used_targets)
        labelled = {*starts, *self.ends, *self.naming.entries}
        fixed = {a for a in self.naming.preload_entries if low <= a < high}
        pieces = self._split(section, labelled | set(self.naming.targets), fixed)
        pending = [a for a in reversed(starts) if not pieces.stops_at(a)]
        shown, written = self._instructions(pieces, section, jumps)
        # The items that are data, or have something before them.
        special = labelled | self.used_targets | self.known.raw.keys() | fixed
        special.update(raw.address for raw in pieces.raws)
        stops = pieces.stops
        special.update(low + stops[bisect_right(stops, a - low) - 1] for a in pending if a > low)
        lines = self.page.lines
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
                lines.append(f"{self.naming.targets[address]}:")
            while pending and address < pending[-1] < address + len(pieces.bytes_at(at)):
                self.page.inside_labels(pending.pop(), address, section)
            raw = self._raw_at(pieces, at)
            if raw is not None:
                data.add(at)
                self._raw(raw)
                done = at + 1
            runs.append((done, len(lines)))
        lines += shown[done:]
        self.placed.append(Lines(section.index, pieces, runs, written, frozenset(data)))
        self._labels_at(high, section)
        if high in self.used_targets:
            lines.append(f"{self.naming.targets[high]}:")
        for address in reversed(pending):
            self.page.inside_labels(address, high, section)

    def _find_ends(self, section: Section) -> None:
        """Note in ``ends`` the names of symbols by where they end, and where frame entries do."""
        self.ends: dict[int, list[str]] = defaultdict(list)
        for address, symbols in sorted(self.by_section[section.index].items()):
            for symbol in symbols:
                if symbol.size and self.page.ends_at(section, symbol):
                    self.ends[address + symbol.size].append(self.names[symbol.index])
        # Where the code of a frame entry ends is no symbol's place: that may move to its alignment.
        for pointers in self.naming.pointers.values():
            for pointer in pointers.values():
                if pointer.base is not None and self.code[section.index].stops_at(pointer.target):
                    self.frame_ends[pointer.target] = self._end_label(pointer.target, section)
                    self.ends.setdefault(pointer.target, [])

    def _instructions(
        self, pieces: Code, section: Section, jumps: dict[int, tuple[int, str | None]]
    ) -> tuple[list[str], dict[int, str]]:
        """The line of each item that is an instruction, and the texts that are not as printed."""
        shown = ["\t" + text for text in pieces.texts]
        written: dict[int, str] = {}
        known = self.known
        changed = jumps.keys() | self.remarks.keys() | known.pins.keys() | known.spellings.keys()
        changed |= self.naming.references.keys()
        for at in pieces.places(changed):
            if pieces.texts[at]:
                text, shown[at] = self._instruction(
                    pieces, at, section, jumps.get(pieces.address(at))
                )
                if text != pieces.texts[at]:
                    written[at] = text
        return shown, written

    def _raw_at(self, pieces: Code, at: int) -> Raw | None:
        """The item as data, where it is data or has to be written as such."""
        item, address = pieces.others.get(at), pieces.address(at)
        if isinstance(item, Raw):
            return item
        if address not in self.known.raw:
            return None
        reason = f"{display(pieces.texts[at])}: {self.known.raw[address]}"
        return Raw(address, pieces.bytes_at(at), reason)

    def _fix(self, address: int, section: Section) -> None:
        """Directives that keep an address at its distance from a kernel's entry, or fail."""
        entry, name = self.naming.preload_entries[address]
        if _keeps_alignment(section, entry):
            self.page.align(_KERNEL_ALIGN)
        line = f"\t.org {name}+{address - entry}"
        self.page.lines.append(f"{line:<{_COLUMN}} // firmware that preloads arguments enters here")

    def _split(self, section: Section, labels: set[int], fixed: set[int]) -> Code:
        """Data runs cut at labels, and zero instructions joined to data: long runs, and padding.

        What the alignment before a *fixed* address makes itself is no instruction either.
        """
        code = self.code[section.index]
        functions = self.naming.entries | {s.value for s in self.co.symbols if s.type == STT_FUNC}
        changes: list[tuple[int, int, list[Raw]]] = []
        for low, high in _runs_of_zeros(code, labels):
            end = section.addr + code.stops[high]
            padding = high == len(code) or (code.texts[high] and end in functions)
            data = bytes(end - code.address(low))
            if padding or len(data) >= ZERO_RUN:
                changes.append((low, high, [Raw(code.address(low), data, "zeros")]))
        for address in sorted(fixed):
            entry = self.naming.preload_entries[address][0]
            high = low = code.position(address) or 0
            while low and code.address(low - 1) > entry and code.bytes_at(low - 1) == _S_NOP:
                low -= 1
                if code.address(low) in labels:
                    break
            if low < high and _keeps_alignment(section, entry):
                changes.append(
                    (low, high, [Raw(code.address(low), _S_NOP * (high - low), _PADDING)])
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
            self.page.lines.append(f"{label}:")
            self.page.lines += [f"\t.size\t{name}, {label}-{name}" for name in self.ends[address]]
        symbols = self.by_section[section.index].get(address, ())
        function = any(s.type == STT_FUNC for s in symbols) or address in self.naming.entries
        if (
            symbols
            and self.page.lines[-1]
            and not self.page.lines[-1].startswith(("\t.p2align", "\t.text"))
        ):
            self.page.lines.append("")
        if (
            function
            and address % _KERNEL_ALIGN == 0
            and section.align % _KERNEL_ALIGN == 0
            and address != section.addr
        ):
            self.page.align(_KERNEL_ALIGN)
        for symbol in symbols:
            self.page.label(symbol, section)

    def _end_label(self, address: int, section: Section) -> str:
        suffix = f"_{section.index}" if len(self.code) > 1 else ""
        return f".Lend{address - section.addr:04x}{suffix}"

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
        reference = self.naming.references.get(address)
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
            name, _, offset = self.naming.addresses[reference.target].partition("+")
        else:
            name, offset = self.naming.dynamic_name(reference.symbol), ""
        addend = reference.literal + int(offset or 0)
        operands[reference.operand] = f"{name}@{reference.kind}{addend:+d}"
        return f"{mnemonic} {', '.join(operands)}"

    def _raw(self, item: Raw) -> None:
        if item.reason == _PADDING:
            self.padding += len(item.data) // len(_S_NOP)
            return  # by the directive that follows
        if item.reason not in ("zeros", "data"):
            self.raw_count += 1
            self.page.lines.append(f"\t// data: {display(item.reason)}")
        self.page.data(item.data)


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
