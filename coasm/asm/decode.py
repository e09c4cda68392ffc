"""Code bytes → instructions: what LLVM's disassembler says, and where it says nothing.

The text comes from ``llvm-objdump -d -z``, first on the object itself. A section whose lines do
not cover it exactly, one item after the other, is decoded again from a probe: an ELF file made
here that holds just these bytes, with a symbol at each known start of an instruction and nothing
else. On that way encodings that LLVM reads only with don't-care bits set
(:mod:`coasm.asm.quirks`) get those bits; after a word that stays unknown nothing is taken for an
instruction until the next address that a symbol or a branch names, for the unknown word's length
is unknown too; and what crashes the disassembler is data.
"""

from __future__ import annotations

import bisect
import os
import re
import struct
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from coasm.asm.code import Code, Instruction, Item, Raw, branch_target
from coasm.asm.quirks import dont_care_rows
from coasm.codeobject import CodeObject, Section
from coasm.codeobject.elf import STT_OBJECT
from coasm.llvm import Llvm
from coasm.llvm.run import TRUE16, Dump, first_features, has_true16, objdump, write_bytes
from coasm.llvm.scratch import scratch_folder
from coasm.target import TargetID

__all__ = [
    "DATA",
    "TRUE16",
    "Code",
    "Disassembly",
    "Instruction",
    "Item",
    "Raw",
    "branch_target",
    "decode",
    "decode_bytes",
    "disassemble",
    "features",
    "has_true16",
    "leaves_unsaid",
    "parse_dump",
    "probe",
    "real_registers",
    "undecoded",
    "without_halves",
]


#: The reason of bytes that a symbol declares to be data.
DATA = "data"

# A line of the disassembler: text, then "// address: words", then remarks.
_LINE = re.compile(
    r"^\t([^\n]*?)\s*// ([0-9A-F]{12,16}): ((?:[0-9A-F]{8} ?)+|(?:[0-9A-F]{2} ?)+)(?=$|[ <;])",
    re.M,
)
_WORDS = re.compile(r"[0-9A-F ]*")
#: Where "// ADDRESS: WORDS" begins behind the tab of a line with a short text, and its words.
_COMMENT, _ENCODING = 59, 76
#: Characters of the words of an encoding → its bytes.
_SIZES = {9 * words - 1: 4 * words for words in range(1, 9)}
_SAFE_NAMES = re.compile(r"[\w.$@\0-]*", re.ASCII)
_MARK = re.compile(r"\s*/\*.*?\*/")
_REGISTER_MARK = re.compile(r"[^\s,]+\s*/\*([av]\d+|[av]\[[\d:]+\])\*/")
_DATA = (".long", ".word", ".byte", ".short")

#: Rounds of decoding again, and runs of the disassembler, before what is left becomes data.
_ROUNDS = 12
_PROBES = 150
#: Words that are tried first when a crash is looked for.
_STEP = 64

#: ``s_nop 0``: the same word on every target (SOPP opcode 0).
_S_NOP = (0xBF800000).to_bytes(4, "little")


def features(co: CodeObject) -> tuple[str, ...]:
    """The subtarget features, beside the processor's own, that the object's text is in.

    The settings that its target ID names, and ``+wavefrontsize64`` where a GFX10 or later object
    holds only kernels of 64 lanes (their VCC operands are spelled ``vcc``, not ``vcc_lo``).
    """
    found = [
        f"{'+' if value == 'on' else '-'}{name}"
        for name, value in (("sramecc", co.target.sramecc), ("xnack", co.target.xnack))
        if value in ("on", "off") and not (value == "off" and co.code_object_version == 3)
    ]
    if co.target.processor.version[0] >= 10:
        sizes = {kernel.metadata.get(".wavefront_size") for kernel in co.kernels}
        if sizes == {64} and co.target.processor.version[:2] < (12, 5):
            found.append("+wavefrontsize64")
    return tuple(found)


def parse_dump(text: str) -> list[tuple[int, int, str]]:
    """(address, size, text with its marks) of each line of a disassembly that has an encoding."""
    found = []
    for match in _LINE.finditer(text):
        length = len(match[3].rstrip()) + 1
        found.append((int(match[2], 16), length // 9 * 4 or length // 3, match[1]))
    return found


def _columns(text: str) -> tuple[bytes, list[int], list[str]] | None:
    """The encodings in a disassembly, one behind the other, their sizes, and the texts.

    It is :func:`parse_dump` in half the time, for lines that are all alike: they are taken apart
    all at once. None where they are not.
    """
    # The text, filled up with spaces; "// "; the address and the words. Behind them perhaps the
    # place that a branch goes to, and a heading, in angle brackets both.
    lines = text.rstrip().split("\n\t")[1:]
    texts = [line[:_COMMENT].rstrip() for line in lines]
    words = [line[_ENCODING:] for line in lines]
    for at in [
        at for at, line in enumerate(lines) if "<" in line or line[_COMMENT : _COMMENT + 1] != "/"
    ]:
        printed, _, told = lines[at].partition("// ")
        found = _WORDS.match(told, _ENCODING - _COMMENT - 3)
        texts[at], words[at] = printed.rstrip(), found[0].rstrip() if found else ""
    try:
        sizes = [_SIZES[len(of_one)] for of_one in words]
        code = array("I", bytes.fromhex("".join(words)))
    except (KeyError, ValueError):
        return None
    code.byteswap()  # printed as numbers, the first digit the highest
    return code.tobytes(), sizes, texts


def _covering(co: CodeObject, text: str) -> dict[int, Code] | None:
    """The code of each section by a disassembly whose lines are exactly the code.

    None where they are not, or data is among them.
    """
    sections = co.code_sections
    if any(_has_data(co, section) for section in sections):
        return None
    columns = _columns(text)
    if columns is None or columns[0] != b"".join(section.data for section in sections):
        return None
    _, sizes, texts = columns
    stops = list(accumulate(sizes, initial=0))
    found: dict[int, Code] = {}
    first = base = 0
    for section in sections:
        after = bisect.bisect_left(stops, base + section.size, first)
        if stops[after] != base + section.size:
            return None
        ends = stops[first : after + 1]
        if base:
            ends = [stop - base for stop in ends]
        own = Code(section.data, section.addr, ends, texts[first:after])
        if any(mnemonic.startswith(".") for mnemonic in own.by_mnemonic):
            return None
        if "/*" in text:
            own = Code.of(
                [_instruction(*item[:3]) for item in own if isinstance(item, Instruction)]
            )
        found[section.index] = own
        first, base = after, base + section.size
    return found


def _instruction(address: int, data: bytes, text: str) -> Instruction:
    if "/*" not in text:
        return Instruction(address, data, text)
    return Instruction(address, data, _MARK.sub("", text), real_registers(text))


def real_registers(text: str) -> str:
    """The operands of a printed instruction with its register marks in place of what they mark."""
    marked = _REGISTER_MARK.sub(r"\1", text)
    if marked == text:
        return ""
    return _MARK.sub("", marked).partition(" ")[2].strip()


def decode(
    co: CodeObject,
    llvm: Llvm,
    dump: Dump | None = None,
    extra: tuple[str, ...] = (),
) -> dict[int, Code]:
    """The code of each code section of *co*, by section index.

    *extra* are subtarget features beside those of :func:`features`, *dump* is a disassembly of the
    object itself that has already run, with :func:`~coasm.llvm.run.first_features`.
    """
    mattr = ",".join((*features(co), *extra))
    if not _prints_safely(co):
        dump = Dump("", False)
    elif dump is None or extra != first_features(co.target) or "wavefrontsize64" in mattr:
        with scratch_folder() as folder:
            path = os.path.join(folder, "in.co")
            write_bytes(path, co.data)
            dump = objdump(llvm, [path], co.target, mattr)
    found = _covering(co, dump.text) if dump.complete else None
    if found is None:
        rows = parse_dump(dump.text) if dump.complete else []
        found = {
            section.index: Code.of(_section_items(co, llvm, section, rows, mattr))
            for section in co.code_sections
        }
    if co.target.processor.version[:2] == (12, 5):
        from coasm.asm.vgpr_msb import has_states, with_registers

        if has_states(found):
            lists = {index: list(code) for index, code in found.items()}
            lists = with_registers(co, llvm, lists, mattr)
            return {index: Code.of(items) for index, items in lists.items()}
    return found


def _section_items(
    co: CodeObject, llvm: Llvm, section: Section, rows: list[tuple[int, int, str]], mattr: str
) -> list[Item]:
    """The items of one section; *rows* are those of the whole object's disassembly."""
    end = section.addr + section.size
    own = [row for row in rows if section.addr <= row[0] < end]
    items: list[Item] = []
    position = section.addr
    for address, size, text in own:
        if address != position or text.startswith(_DATA) or _has_data(co, section):
            break
        data = section.data[address - section.addr : address - section.addr + size]
        items.append(_instruction(address, data, text))
        position += size
    if position == end and len(items) == len(own):
        return items
    printed = {a: (size, text) for a, size, text in own}
    return _Careful(co, llvm, section, mattr).decode(printed)


def _prints_safely(co: CodeObject) -> bool:
    """Whether the names of *co* cannot be taken for something else where they are printed.

    The disassembler prints them as headings and as operands of branches, so one with a line feed
    and a comment in it would pass for an instruction. Such an object is decoded from a probe.
    """
    elf = co.elf
    names = [s.name for table in (elf.symbols, elf.dynamic_symbols, elf.sections) for s in table]
    return _SAFE_NAMES.fullmatch("\0".join(names)) is not None


def _data_runs(co: CodeObject, section: Section) -> list[tuple[int, int]]:
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


def _has_data(co: CodeObject, section: Section) -> bool:
    return any(s.type == STT_OBJECT and s.shndx == section.index for s in co.symbols)


class _Careful:
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
        for low, high in _data_runs(self.co, self.section):
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
            if address < floor or address + size != at or not text.startswith(_DATA):
                break
            at = address
        return base + at, base + at

    def _walk(
        self, rows: dict[int, tuple[int, str]], *, settle: bool = False
    ) -> tuple[list[Item], bool]:
        """The items by *rows*, and whether decoding again will show more; not with *settle*."""
        start, end = self.section.addr, self.section.addr + self.section.size
        boundaries = self._boundaries()
        data_runs = {low: high for low, high in _data_runs(self.co, self.section)}
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
            if row is None or row[1].startswith(_DATA) or at in self.crashes:
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
            items.append(_instruction(at, data, text))
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


def decode_bytes(
    co: CodeObject, llvm: Llvm, code: bytes, starts: Sequence[int], mattr: str
) -> list[tuple[int, int, str]] | None:
    """:func:`parse_dump` of *code* as if it were *co*'s, at address 0 and begun anew at *starts*.

    None where the disassembler failed.
    """
    with scratch_folder() as folder:
        path = os.path.join(folder, "probe.co")
        write_bytes(path, probe(co.target, co.elf.header.abi_version, code, starts))
        dump = objdump(llvm, [path], co.target, mattr)
    return parse_dump(dump.text) if dump.complete else None


def probe(target: TargetID, abi_version: int, code: bytes, starts: Sequence[int]) -> bytes:
    """A minimal ELF file: one code section at address 0, an unnamed-type symbol at each start."""
    names = b"\0" + b"".join(b"p%d\0" % i for i in range(len(starts)))
    symbols = [struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)]
    at = 1
    for index, start in enumerate(starts):
        symbols.append(struct.pack("<IBBHQQ", at, 0, 0, 1, start, 0))
        at += len(b"p%d\0" % index)
    table = b"".join(symbols)
    section_names = b"\0.text\0.symtab\0.strtab\0.shstrtab\0"
    blobs = [code, table, names, section_names]
    offsets = []
    body = b"\0" * 64
    for blob in blobs:
        body += b"\0" * (-len(body) % 8)
        offsets.append(len(body))
        body += blob
    body += b"\0" * (-len(body) % 8)
    headers = [struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)]
    rows: Iterable[tuple[bytes, int, int, int, int, int, int]] = (
        (b".text", 1, 6, 0, 0, 4, 0),
        (b".symtab", 2, 0, 3, len(symbols), 8, 24),
        (b".strtab", 3, 0, 0, 0, 1, 0),
        (b".shstrtab", 3, 0, 0, 0, 1, 0),
    )
    for (name, typ, flags, lnk, info, align, entsize), offset, blob in zip(
        rows, offsets, blobs, strict=True
    ):
        headers.append(
            struct.pack(
                "<IIQQQQIIQQ",
                section_names.index(name + b"\0"),
                typ,
                flags,
                0,
                offset,
                len(blob),
                lnk,
                info,
                align,
                entsize,
            )
        )
    ident = b"\x7fELF\x02\x01\x01" + bytes([64, abi_version]) + b"\0" * 7
    header = ident + struct.pack(
        "<HHIQQQIHHHHHH",
        1,
        224,
        1,
        0,
        0,
        len(body),
        target.e_flags(abi_version),
        64,
        0,
        0,
        64,
        len(headers),
        4,
    )
    return header + body[64:] + b"".join(headers)


def undecoded(items: Sequence[Item]) -> list[Raw]:
    """What LLVM cannot read."""
    raws = items.raws if isinstance(items, Code) else items
    return [item for item in raws if isinstance(item, Raw) and item.reason != DATA]


class Disassembly(NamedTuple):
    """All code of an object in address order: ``items``, and ``instructions`` alone."""

    items: tuple[Item, ...]

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        return tuple(i for i in self.items if isinstance(i, Instruction))


#: Vector instructions with an operand of 16 or 8 bits; every other prints the same with halves.
_NARROW = re.compile(r"v_\w*(?:16|8)")
_HALF, _LOWER = re.compile(r"\bv\d+\.[lh]\b"), re.compile(r"\b(v\d+)\.l\b")
#: Instructions with an operand of 16 bits that is half a register; packed ones take it whole.
_HALVES = re.compile(
    r"v_(?!pk_|permlane|s?wmma|dot|cvt_(?:scale|pk|sr))(?:\w+_)?(?:bf|[fiub])16"
    r"(?:_(?:[fiu](?:32|64)|fp8|bf8))?(?:_e32|_e64)?$"
)
#: GFX10 and later: the top bits of a VOP3 encoding, and its four op_sel bits.
_VOP3, _OP_SEL = 0x35, 0x7800
#: v128 to v255: the upper half of a register in the shorter encodings of 16-bit instructions.
_UPPER_HALF = re.compile(r"\bv(?:12[89]|1[3-9]\d|2\d\d)\b")


def without_halves(co: CodeObject, llvm: Llvm, code: dict[int, Code]) -> dict[int, Code] | None:
    """*code*, as :func:`decode` gave it with :data:`TRUE16`, as it is printed without.

    That differs where halves are named, and for lower ones only in that ``v3.l`` is ``v3``. None
    where it leaves something unsaid: data, or an upper half that the text does not name.
    """
    halved = {
        index: [at for at in own.positions(_NARROW.match) if _HALF.search(own.texts[at])]
        for index, own in code.items()
    }
    texts = {own.bytes_at(at): own.texts[at] for i, own in code.items() for at in halved[i]}
    if not texts or _names_halves(co, llvm, next(iter(texts))):
        return None if leaves_unsaid(code) else code
    if any(own.others.keys() & set(halved[index]) for index, own in code.items()):
        whole = decode(co, llvm)  # with the registers that they reach
        return None if leaves_unsaid(whole) else whole
    printed = {data: _LOWER.sub(r"\1", text) for data, text in texts.items()}
    upper = {data: text for data, text in printed.items() if _HALF.search(text)}
    if any(_HALVES.match(t.split()[0]) and not _is_vop3(data) for data, t in upper.items()):
        return None  # the shorter encodings have nothing that could name it
    if upper:
        rows = decode_bytes(co, llvm, b"".join(upper), [0], ",".join(features(co))) or []
        if [size for _, size, _ in rows] != [len(data) for data in upper]:
            return None
        upper = {data: text for data, (_, _, text) in zip(upper, rows, strict=True)}
        if any(text.startswith(_DATA) or _leaves_out(text, data) for data, text in upper.items()):
            return None
    printed |= upper
    found = {}
    for index, own in code.items():
        changed = list(own.texts)
        for at in halved[index]:
            changed[at] = printed[own.bytes_at(at)]
        found[index] = Code(own.data, own.start, own.stops, changed, own.others)
    return found


#: Processor and disassembler → whether its own way is :data:`TRUE16`.
_DEFAULT: dict[tuple[str, str], bool] = {}


def _names_halves(co: CodeObject, llvm: Llvm, data: bytes) -> bool:
    """Whether LLVM prints halves by itself, judged by an instruction that has one."""
    key = co.target.name, llvm.objdump
    if key not in _DEFAULT:
        rows = decode_bytes(co, llvm, data, [0], ",".join(features(co))) or []
        _DEFAULT[key] = any(_HALF.search(text) for _, _, text in rows)
    return _DEFAULT[key]


def leaves_unsaid(code: dict[int, Code]) -> bool:
    """Whether something is data, or an instruction whose text leaves out a half of a register."""
    return any(undecoded(own) for own in code.values()) or any(
        _leaves_out(own.texts[at], own.bytes_at(at))
        for own in code.values()
        for at in own.positions(_HALVES.match)
    )


def _leaves_out(text: str, data: bytes) -> bool:
    if "op_sel" in text or not _HALVES.match(text.partition(" ")[0]):
        return False
    if _is_vop3(data):
        return int.from_bytes(data[:4], "little") & _OP_SEL != 0 and len(data) >= 8
    return _UPPER_HALF.search(text) is not None


def _is_vop3(data: bytes) -> bool:
    return data[3] >> 2 == _VOP3


def disassemble(co: CodeObject, llvm: Llvm) -> Disassembly:
    """The instructions and the undecoded bytes of every code section of *co*."""
    extra = (TRUE16,) if has_true16(co.target) else ()
    code = decode(co, llvm, extra=extra)
    return Disassembly(tuple(item for items in code.values() for item in items))
