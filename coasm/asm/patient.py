"""One section that the plain disassembly does not cover, decoded again and again from a probe.

A probe (:mod:`coasm.asm.probe`) holds just the section's bytes, with a symbol at each known start
of an instruction and nothing else. Encodings that LLVM reads only with don't-care bits set
(:mod:`coasm.asm.quirks`) get those bits; after a word that stays unknown nothing is taken for an
instruction until the next address that a symbol or a branch names, for the unknown word's length is
unknown too; and what crashes the disassembler is data.
"""

from __future__ import annotations

import bisect

from coasm.asm.code import DATA, Instruction, Item, Raw, branch_target
from coasm.asm.dump import DATA_DIRECTIVES, instruction_of
from coasm.asm.probe import decode_bytes
from coasm.asm.quirks import dont_care_rows
from coasm.codeobject import CodeObject, Section
from coasm.codeobject.elf import STT_OBJECT
from coasm.llvm import Llvm

__all__ = ["SectionDecoder", "has_data"]

#: Rounds of decoding again, and runs of the disassembler, before what is left becomes data.
_ROUNDS = 12
_PROBES = 150
#: Words that are tried first when a crash is looked for.
_STEP = 64

#: ``s_nop 0``: the same word on every target (SOPP opcode 0).
_S_NOP = (0xBF800000).to_bytes(4, "little")


class SectionDecoder:
    """Decodes one section that the plain disassembly does not cover."""

    def __init__(self, co: CodeObject, llvm: Llvm, section: Section, mattr: str) -> None:
        self.co = co
        self.llvm = llvm
        self.section = section
        self.mattr = mattr
        self.patched = bytearray(section.data)
        self.widths: dict[int, int] = {}  # address of a patched encoding → size
        self.inside: set[int] = set()  # symbols in the middle of an instruction
        self.targets: set[int] = set()  # branch targets that ended a data run
        self.crashes: set[int] = set()
        self.given_up: int | None = None  # from this address on nothing is decoded
        self.unknown = "LLVM cannot decode it"
        self.probes = 0

    def decode(self, printed: dict[int, tuple[int, str]]) -> list[Item]:
        """The section's items. *printed* is what the plain disassembly gave for it, if it ran."""
        if not printed and self._probe(_S_NOP, [0]) is None:
            self.unknown = f"LLVM does not disassemble {self.co.target.name}"
            return self._walk({}, settle=True)[0]
        items, again = self._walk(printed or self._dump())
        for _ in range(_ROUNDS):
            if not again:
                return items
            items, again = self._walk(self._dump())
        return self._walk(self._dump(), settle=True)[0]

    def _boundaries(self) -> list[int]:
        start, end = self.section.addr, self.section.addr + self.section.size
        found = {s.value for s in self.co.symbols if s.shndx == self.section.index}
        found |= {k.entry for k in self.co.kernels} | self.targets
        for low, high in _declared_data(self.co, self.section):
            found |= {low, high}
        return sorted({a for a in found - self.inside if start <= a < end} | {start})

    def _dump(self) -> dict[int, tuple[int, str]]:
        """The disassembly of the section as it is patched now, by address."""
        start, size = self.section.addr, self.section.size
        boundaries = [b - start for b in self._boundaries()]
        good = 0
        while True:
            data, masked = bytearray(self.patched), bytearray(size)
            for crash in self.crashes:
                low = crash - start
                high = _after(boundaries, low, size)
                data[low:high] = (_S_NOP * (-(-(high - low) // 4)))[: high - low]
                masked[low:high] = b"\1" * (high - low)
            if self.given_up is not None:
                low = self.given_up - start
                data[low:], masked[low:] = b"", b"\1" * (size - low)
            rows = self._probe(bytes(data), boundaries)
            if rows is not None:
                return {
                    start + address: (length, text)
                    for address, length, text in rows
                    if masked.find(1, address, address + length) < 0
                    and self._is_own(data, address, length)
                }
            found, good = self._find_crash(bytes(data), boundaries, good)
            if found is None or self.probes > _PROBES:
                self.given_up = start + good
            else:
                self.crashes.add(start + found)
                good = _after(boundaries, found, size)

    def _is_own(self, data: bytes | bytearray, low: int, length: int) -> bool:
        """Whether what was decoded are the section's bytes, but for whole patched encodings."""
        if data[low : low + length] == self.section.data[low : low + length]:
            return True
        expected = bytearray(self.section.data[low : low + length])
        for at in range(0, length, 4):
            width = self.widths.get(self.section.addr + low + at, 0)
            if width and at + width <= length:
                expected[at : at + width] = self.patched[low + at : low + at + width]
        return data[low : low + length] == expected

    def _probe(self, data: bytes, boundaries: list[int]) -> list[tuple[int, int, str]] | None:
        """Disassemble *data*; None where the disassembler failed."""
        self.probes += 1
        starts = [b for b in boundaries if b < len(data)]
        return decode_bytes(self.co, self.llvm, data, starts, self.mattr)

    def _find_crash(self, data: bytes, boundaries: list[int], good: int) -> tuple[int | None, int]:
        """The offset of the first item that the disassembler does not survive, if it is found.

        With it the offset up to which the disassembler works; before *good* it is known to. As it
        starts anew at each boundary, only what follows the last one before that is tried.
        """
        base = boundaries[bisect.bisect_right(boundaries, good) - 1]
        inner = [b - base for b in boundaries if b >= base]
        low, high = good // 4, -(-len(data) // 4)  # *low* words work, *high* fail
        rows: list[tuple[int, int, str]] = []
        step, failed = _STEP, False
        while high - low > 1 or not failed:
            middle = (low + high) // 2 if failed else min(low + step, high)
            found = self._probe(data[base : 4 * middle], inner)
            if found is None:
                high, failed = middle, True
            elif middle == high:
                return None, good
            else:
                low, rows, step = middle, found, 2 * step
        # Where the cut fell inside the item, its first words stand as data at the end.
        at = 4 * low - base
        floor = inner[bisect.bisect_right(inner, at) - 1]
        for address, size, text in reversed(rows):
            if address < floor or address + size != at or not text.startswith(DATA_DIRECTIVES):
                break
            at = address
        return base + at, base + at

    def _walk(
        self, rows: dict[int, tuple[int, str]], *, settle: bool = False
    ) -> tuple[list[Item], bool]:
        """The items by *rows*, and whether decoding again will show more; not with *settle*."""
        start, end = self.section.addr, self.section.addr + self.section.size
        boundaries = self._boundaries()
        data_runs = {low: high for low, high in _declared_data(self.co, self.section)}
        items: list[Item] = []
        again = False
        at = start
        while at < end:
            if at in data_runs:
                items.append(self._raw(at, data_runs[at], DATA))
                at = data_runs[at]
                continue
            following = bisect.bisect_right(boundaries, at)
            limit = boundaries[following] if following < len(boundaries) else end
            row = rows.get(at)
            if row is None or row[1].startswith(DATA_DIRECTIVES) or at in self.crashes:
                width = self._set_dont_care(at) if row is not None and at not in self.widths else 0
                if width and not settle:
                    again = True
                    at += width
                    continue
                reason = "the disassembler fails on it" if at in self.crashes else self.unknown
                items.append(self._raw(at, limit, reason))
                at = limit
                continue
            size, text = row
            if at + size > limit and limit < end:
                # A label inside the instruction: the instruction that runs into it is there first.
                if settle:
                    items.append(self._raw(at, limit, "its disassembly does not settle"))
                    at = limit
                    continue
                self.inside.add(limit)
                again = True
                at += size
                continue
            data = self.section.data[at - start : at - start + size]
            items.append(instruction_of(at, data, text))
            at += size
        if not again and not settle:
            again = self._new_targets(items)
        return items, again

    def _raw(self, low: int, high: int, reason: str) -> Raw:
        start = self.section.addr
        return Raw(low, self.section.data[low - start : high - start], reason)

    def _set_dont_care(self, address: int) -> int:
        """Set the don't-care bits that a known encoding at *address* lacks; its size, or 0."""
        offset = address - self.section.addr
        for row in dont_care_rows(self.co.target.processor):
            data = self.section.data[offset : offset + row.size]
            changed = row.apply(data)
            if changed is not None:
                self.patched[offset : offset + row.size] = changed
                self.widths[address] = row.size
                return row.size
        return 0

    def _new_targets(self, items: list[Item]) -> bool:
        """Whether branches lead into data runs whose length was unknown; notes their targets."""
        runs = [
            (i.address, i.address + len(i.data))
            for i in items
            if isinstance(i, Raw) and i.reason != DATA
        ]
        if not runs:
            return False
        starts = [low for low, _ in runs]
        before = len(self.targets)
        for item in items:
            if isinstance(item, Instruction):
                target = branch_target(item)
                if target is not None:
                    run = bisect.bisect_right(starts, target) - 1
                    if run >= 0 and runs[run][0] < target < runs[run][1]:
                        self.targets.add(target)
        return len(self.targets) > before


def _declared_data(co: CodeObject, section: Section) -> list[tuple[int, int]]:
    """The address ranges that symbols of type object claim, merged and in order."""
    start, end = section.addr, section.addr + section.size
    runs: list[tuple[int, int]] = []
    for low, high in sorted(
        (s.value, min(s.value + s.size, end))
        for s in co.symbols
        if s.type == STT_OBJECT and s.shndx == section.index and start <= s.value < end
    ):
        if runs and low <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(high, runs[-1][1]))
        elif high > low:
            runs.append((low, high))
    return runs


def _after(boundaries: list[int], offset: int, size: int) -> int:
    """The first boundary behind *offset*, or the end of the section."""
    index = bisect.bisect_right(boundaries, offset)
    return boundaries[index] if index < len(boundaries) else size


def has_data(co: CodeObject, section: Section) -> bool:
    """Whether a symbol declares some of the section to be data."""
    return any(s.type == STT_OBJECT and s.shndx == section.index for s in co.symbols)
