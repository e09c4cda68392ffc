"""The instructions of two objects, compared by what they say, not by how they are encoded."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from coasm.asm.decode import Instruction, Item, Raw, branch_target, decode
from coasm.asm.quirks import has_respellings, respell
from coasm.codeobject import CodeObject, Section
from coasm.compare.align import Alignment, align
from coasm.compare.places import CodePair, Places, by_layout, place_of
from coasm.compare.report import DontCare, Finding, Hunk, Line, Row
from coasm.compare.text import moves
from coasm.errors import UnsupportedError
from coasm.llvm import Llvm, find_llvm
from coasm.target import Processor

__all__ = ["Comparison", "compare"]

#: Rows of context before and after what differs.
_CONTEXT = 3
#: Bytes of a run of data that a line shows.
_SHOWN = 16

# Branches that have no other operand than where they lead.
_ONLY_TARGET = re.compile(r"s_c?branch(?!_i_fork)")
# What reads the program counter to reach something at a distance that is baked into the code.
_PC_RELATIVE = re.compile(r"s_get_?pc_[bi]64|s_add_pc_i64")
#: The bits of a branch that hold its distance, in the first word.
_DISTANCE = 0xFFFF


@dataclass(frozen=True)
class Comparison:
    """What the instructions differ in, and which places correspond."""

    places: Places
    findings: tuple[Finding, ...]
    hunks: tuple[Hunk, ...]
    dont_care: tuple[DontCare, ...]


@dataclass(frozen=True)
class _Compared:
    """One pair of sections.

    ``branches`` are those in pieces that are compared as data: the piece's original address, and
    the original and the rebuilt target, to be the same place.
    """

    name: str
    pair: CodePair
    alignment: Alignment
    a: list[Item]
    b: list[Item]
    branches: tuple[tuple[int, int, int], ...]

    def partners(self) -> list[tuple[int, int]]:
        """The items that are equal, by position, a branch's target aside."""
        return [
            (i, block.b_low - block.a_low + i)
            for block in self.alignment.blocks
            if block.equal
            for i in range(block.a_low, block.a_high)
        ]


def compare(
    original: CodeObject,
    rebuilt: CodeObject,
    sections: Sequence[tuple[Section, Section]],
    llvm: Llvm | None = None,
) -> Comparison:
    """Compare the instructions of pairs of code sections; without *llvm* one is looked for.

    Raises:
        ToolError: no LLVM was found, or it failed.
        UnsupportedError: the LLVM does not know the target.
    """
    if llvm is None:
        llvm = find_llvm(processor=original.target.name)
    for co in (original, rebuilt):
        if not llvm.knows(co.target.name):
            raise UnsupportedError(
                f"{co.name}: {co.target.name} is not known to the LLVM in {llvm.directory}"
            )
    processors = original.target.processor, rebuilt.target.processor
    one, other = decode(original, llvm), decode(rebuilt, llvm)
    compared = [_aligned(a, b, one[a.index], other[b.index], *processors) for a, b in sections]
    places = Places(tuple(c.pair for c in compared), by_layout(original, rebuilt))
    hunks = tuple(h for c in compared for h in _hunks(c, places, original, rebuilt))
    return Comparison(
        places, tuple(_pc_relative(original, rebuilt, compared)), hunks, _dont_care(compared)
    )


def _aligned(
    a: Section, b: Section, ones: list[Item], others: list[Item], one: Processor, other: Processor
) -> _Compared:
    tokens = _tokens(ones, one, {})
    # The same bytes are the same instruction, even where one object has it printed otherwise
    # (VCC in an object of wave64 kernels).
    known = {item.data: token for item, token in zip(ones, tokens, strict=True)}
    alignment = align(tokens, _tokens(others, other, known if one == other else {}))
    # Data whose length is not known ends at the next symbol: where one side has another symbol,
    # the same bytes are divided otherwise. They are compared as one piece.
    branches: list[tuple[int, int, int]] = []
    merged = False
    for block in reversed(alignment.blocks):
        if block.equal:
            continue
        left, right = ones[block.a_low : block.a_high], others[block.b_low : block.b_high]
        data = b"".join(item.data for item in left)
        if data and data == b"".join(item.data for item in right):
            merged = True
            for side in (left, right):
                for item in side:
                    target = _target(item)
                    if target is not None:
                        start, moved = left[0].address, target - side[0].address
                        branches.append((start, start + moved, right[0].address + moved))
            ones[block.a_low : block.a_high] = [Raw(left[0].address, data, "data")]
            others[block.b_low : block.b_high] = [Raw(right[0].address, data, "data")]
    if merged:
        tokens = _tokens(ones, one, {})
        known = {item.data: token for item, token in zip(ones, tokens, strict=True)}
        alignment = align(tokens, _tokens(others, other, known if one == other else {}))
    pair = CodePair(a, b, _starts(a, ones), _starts(b, others), alignment)
    return _Compared(a.name, pair, alignment, ones, others, tuple(branches))


def _starts(section: Section, items: list[Item]) -> tuple[int, ...]:
    return (*(item.address for item in items), section.addr + section.size)


def _target(item: Item) -> int | None:
    return branch_target(item) if isinstance(item, Instruction) else None


def _tokens(
    items: list[Item], processor: Processor, known: dict[bytes, Hashable]
) -> list[Hashable]:
    """What each item is compared by: its text, a branch's without its target, data's bytes."""
    respelled = has_respellings(processor)
    tokens: list[Hashable] = []
    for item in items:
        if isinstance(item, Raw):
            tokens.append(item.data)
        elif branch_target(item) is not None:
            tokens.append(_stem(item))
        else:
            token = known.get(item.data)
            if token is None or isinstance(token, bytes):
                changed = respell(processor, item.text) if respelled else None
                token = changed[0] if changed else item.text
            tokens.append(token)
    return tokens


def _stem(branch: Instruction) -> str:
    """A branch without its target, which is a number or a label of any spelling."""
    if _ONLY_TARGET.match(branch.text):
        return branch.mnemonic
    return branch.text.partition(",")[0]


def _hunks(
    compared: _Compared, places: Places, original: CodeObject, rebuilt: CodeObject
) -> list[Hunk]:
    rows = _rows(compared, places)
    differing = [n for n, (kind, _, _) in enumerate(rows) if kind != "same"]
    spans: list[tuple[int, int]] = []
    for n in differing:
        low, high = max(n - _CONTEXT, 0), min(n + _CONTEXT + 1, len(rows))
        if spans and low <= spans[-1][1]:
            spans[-1] = (spans[-1][0], high)
        else:
            spans.append((low, high))
    hunks = []
    for low, high in spans:
        shown = []
        for kind, i, j in rows[low:high]:
            a = compared.a[i] if i is not None else None
            b = compared.b[j] if j is not None else None
            skip = 0
            if isinstance(a, Raw) and isinstance(b, Raw) and kind == "changed":
                pairs = enumerate(zip(a.data, b.data, strict=False))
                skip = next((n for n, (x, y) in pairs if x != y), min(len(a.data), len(b.data)))
                skip = min(skip & ~3, len(a.data) - 1 & ~3, len(b.data) - 1 & ~3)
            left = _line(original, a, skip) if a is not None else None
            right = _line(rebuilt, b, skip) if b is not None else None
            shown.append(Row(kind, left, right))
        hunks.append(Hunk(compared.name, tuple(shown)))
    return hunks


_Row = tuple[str, "int | None", "int | None"]


def _rows(compared: _Compared, places: Places) -> list[_Row]:
    """Kind and positions of each row of a pair of sections, in order."""
    a, b = compared.a, compared.b
    rows: list[_Row] = []
    for block in compared.alignment.blocks:
        left, right = range(block.a_low, block.a_high), range(block.b_low, block.b_high)
        if block.equal:
            for i, j in zip(left, right, strict=True):
                one, other = _target(a[i]), _target(b[j])
                leads = one is None or other is None or places.same(one, other)
                rows.append(("same" if leads else "branch", i, j))
            continue
        both = min(len(left), len(right))
        rows += [("changed", left[n], right[n]) for n in range(both)]
        rows += [("removed", i, None) for i in left[both:]]
        rows += [("inserted", None, j) for j in right[both:]]
    for address, one, other in compared.branches:
        if not places.same(one, other):
            piece = next(i for i, item in enumerate(a) if item.address == address)
            rows = [("branch", *row[1:]) if row[1] == piece else row for row in rows]
    return rows


def _line(co: CodeObject, item: Item, skip: int) -> Line:
    """A line that shows *item*; of data what starts *skip* bytes in."""
    if isinstance(item, Raw):
        data = item.data[skip : skip + _SHOWN]
        more = len(item.data) - skip - len(data)
        text = data.hex(" ") + (f" … ({more} more bytes)" if more else "")
        return Line(item.address + skip, f"data: {text}", data)
    target = branch_target(item)
    text = item.text if target is None else f"{_stem(item)} -> {place_of(co, target)}"
    return Line(item.address, text, item.data)


def _pc_relative(
    original: CodeObject, rebuilt: CodeObject, compared: Sequence[_Compared]
) -> list[Finding]:
    """Instructions whose baked distances cannot be right on both sides, for the layout moved."""
    found = [
        (c, item)
        for c in compared
        for item in c.a
        if isinstance(item, Instruction) and _PC_RELATIVE.match(item.text)
    ]
    if not found:
        return []
    moved = moves(original, rebuilt, data=True)
    for c in compared:
        moved |= {c.b[j].address - c.a[i].address for i, j in c.partners()}
    if len(moved) <= 1:
        return []
    note = "reaches a place at a distance that is baked into the code, but the layout moved"
    return [
        Finding(f"{c.name}+{item.address - c.pair.original.addr:#x}", item.text, item.text, note)
        for c, item in found
    ]


def _dont_care(compared: Sequence[_Compared]) -> tuple[DontCare, ...]:
    """The differing bits of instructions that are the same, by mnemonic, the most bytes first."""
    counts: Counter[str] = Counter()
    sizes: defaultdict[str, Counter[tuple[int, int]]] = defaultdict(Counter)
    bits: defaultdict[str, Counter[int]] = defaultdict(Counter)
    byte_counts: Counter[str] = Counter()
    for c in compared:
        for i, j in c.partners():
            one, other = c.a[i], c.b[j]
            if one.data == other.data or isinstance(one, Raw) or isinstance(other, Raw):
                continue
            name = one.mnemonic
            if len(one.data) != len(other.data):
                counts[name] += 1
                sizes[name][len(one.data), len(other.data)] += 1
                continue
            differ = int.from_bytes(one.data, "little") ^ int.from_bytes(other.data, "little")
            if branch_target(one) is not None:
                differ &= ~_DISTANCE
            if not differ:
                continue
            counts[name] += 1
            byte_counts[name] += sum(map(bool, differ.to_bytes(len(one.data), "little")))
            bits[name].update(n for n in range(differ.bit_length()) if differ >> n & 1)
    return tuple(
        DontCare(
            name,
            counts[name],
            byte_counts[name],
            tuple(sorted(bits[name].items())),
            tuple((*size, count) for size, count in sorted(sizes[name].items())),
        )
        for name in sorted(counts, key=lambda name: (-byte_counts[name], name))
    )
