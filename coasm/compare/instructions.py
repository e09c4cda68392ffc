"""The instructions of two objects, compared by what they say, not by how they are encoded."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from coasm.asm.code import Instruction, Item, Raw, branch_target
from coasm.asm.decode import decode
from coasm.asm.quirks import has_respellings, respell
from coasm.asm.references import find_references
from coasm.codeobject import CodeObject, Section
from coasm.compare.align import Alignment, Block, align
from coasm.compare.data import DataPlaces, data_places, moves
from coasm.compare.hunks import hunks_of
from coasm.compare.places import CodePair, Places
from coasm.compare.report import ABSENT, Difference, DontCare, Function, Hunk
from coasm.compare.sides import Compared, Side, stem, target_of, without_literal
from coasm.compare.units import Unit, cut, cuts_of, pair_units
from coasm.errors import UnsupportedError
from coasm.isa.kinds import is_a
from coasm.llvm import Llvm, find_llvm

__all__ = ["Comparison", "compare"]


#: The bits of a branch that hold its distance, in the first word.
_DISTANCE = 0xFFFF
#: An instruction without its literal.
_FIRST_WORD = 0xFFFFFFFF


@dataclass(frozen=True)
class Comparison:
    """What the instructions differ in, and which places correspond."""

    places: Places
    findings: tuple[Difference, ...]
    hunks: tuple[Hunk, ...]
    dont_care: tuple[DontCare, ...]
    functions: tuple[Function, ...]


#: A section, its units on both sides, and which of them correspond (see :func:`pair_units`).
_Paired = tuple[Section, list[Unit], list[Unit], list[tuple["int | None", "int | None"]]]


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
        if llvm.name_of(co.target.name) is None:
            raise UnsupportedError(
                f"{co.name}: {co.target.name} is not known to the LLVM in {llvm.directory}"
            )
    sides = _side(original, llvm), _side(rebuilt, llvm)
    compared, alone, runs = _paired(sections, *sides)
    data = data_places(original, rebuilt)
    places = Places(tuple(c.pair for c in compared), data.same)
    hunks: list[Hunk] = []
    differing: set[int] = set()
    for c in compared:
        found = hunks_of(c, places, *sides)
        hunks += found
        if found:
            differing.add(c.pair.a_low)
    findings: list[Difference] = []
    for finding, at in (*_runs_on(runs, differing), *_pc_relative(*sides, compared, data)):
        findings.append(finding)
        differing.add(at)
    for function in alone:
        there = "in this object only"
        values = (there, ABSENT) if function.verdict == "missing" else (ABSENT, there)
        findings.append(Difference(f"function {function.name}", *values))
    functions = [_function(c, differing) for c in compared if c.units] + alone
    return Comparison(
        places, tuple(findings), tuple(hunks), _dont_care(compared, sides[0]), tuple(functions)
    )


def _paired(
    sections: Sequence[tuple[Section, Section]], original: Side, rebuilt: Side
) -> tuple[list[Compared], list[Function], list[_Paired]]:
    """Sections, or functions in them, by pairs; functions alone; which units belong together."""
    sides = original, rebuilt
    compared: list[Compared] = []
    alone: list[Function] = []
    runs: list[_Paired] = []
    cuts = cuts_of(original.co, rebuilt.co), cuts_of(rebuilt.co, original.co)
    targets = [side.targets() if len(c) else set() for side, c in zip(sides, cuts, strict=True)]
    for pair in sections:
        ones, others = (
            cut(section, side.items[section.index], c.get(section.index, {}), t)
            for section, side, c, t in zip(pair, sides, cuts, targets, strict=True)
        )
        if len(ones) <= 1 and len(others) <= 1:
            compared.append(_whole(*pair, *sides))
            continue
        tokens, other_tokens = _Tokens(*sides).of(ones, others)
        rows = pair_units(ones, others, tokens, other_tokens)
        runs.append((pair[0], ones, others, rows))
        for i, j in rows:
            if i is not None and j is not None:
                both = ones[i], others[j]
                compared.append(_aligned(pair[0], both, tokens[i], other_tokens[j], *sides))
            elif i is not None:
                name = ones[i].label(pair[0])
                alone.append(Function(name, pair[0].name, "missing", ones[i].low, None))
            elif j is not None:
                name = others[j].label(pair[1])
                alone.append(Function(name, pair[1].name, "new", None, others[j].low))
    return compared, alone, runs


def _side(co: CodeObject, llvm: Llvm) -> Side:
    code = decode(co, llvm)
    items = {index: list(own) for index, own in code.items()}
    try:
        found = find_references(co, code)
    except UnsupportedError:  # of some of its places it cannot be said what they lead to
        numeric = (
            item.address
            for section in items.values()
            for item in section
            if isinstance(item, Instruction) and is_a(item.mnemonic, "relative to PC")
        )
        return Side(co, items, {}, frozenset(numeric))
    return Side(co, items, found.code, frozenset(found.numeric))


def _function(compared: Compared, differing: set[int]) -> Function:
    assert compared.units is not None
    one, other = compared.units
    if compared.pair.a_low in differing:
        verdict = "different"
    else:
        same = [item.data for item in compared.a] == [item.data for item in compared.b]
        verdict = "identical" if same else "equivalent"
    return Function(compared.function, compared.section.name, verdict, one.low, other.low)


def _runs_on(runs: Sequence[_Paired], differing: set[int]) -> Iterator[tuple[Difference, int]]:
    """Functions that execution leaves at their end, where it goes on with something else."""
    for section, ones, others, rows in runs:
        partner = {i: j for i, j in rows if i is not None}
        partner[len(ones)] = len(others)
        for i, j in rows:
            if i is None or j is None or ones[i].low in differing:
                continue
            one, other = ones[i], others[j]
            if one.runs_into == other.runs_into and (one.runs_into or partner[i + 1] == j + 1):
                continue
            if one.runs_into is None and other.runs_into is None:
                continue
            yield (
                Difference(
                    f"function {one.label(section)}",
                    _follows(ones, i, section),
                    _follows(others, j, section),
                    "has no end of its own: what lies behind it is executed after it",
                ),
                one.low,
            )


def _follows(units: list[Unit], index: int, section: Section) -> str:
    behind = units[index].runs_into
    if behind is None:
        return "ends"
    if behind:
        return f"runs into {behind}"
    if index + 1 == len(units):
        return "runs into the end of the section"
    return f"runs into {units[index + 1].label(section)}"


class _Tokens:
    """What items are compared by: text, of branches and addresses without the target; or bytes.

    The same bytes are the same instruction, even where one object has it printed otherwise (VCC in
    an object of wave64 kernels).
    """

    def __init__(self, original: Side, rebuilt: Side) -> None:
        self.sides = original, rebuilt
        self.known: dict[bytes, Hashable] = {}

    def of(
        self, ones: Sequence[Unit], others: Sequence[Unit]
    ) -> tuple[list[tuple[Hashable, ...]], list[tuple[Hashable, ...]]]:
        """The tokens of units of both objects."""
        tokens = [tuple(self.original(unit.items)) for unit in ones]
        return tokens, [tuple(self.rebuilt(unit.items)) for unit in others]

    def original(self, items: Sequence[Item]) -> list[Hashable]:
        """Those of the original object, to be asked for first."""
        one, other = self.sides
        tokens = _tokens(items, one, {})
        if one.co.target.processor == other.co.target.processor:
            for item, token in zip(items, tokens, strict=True):
                if item.address not in one.references:
                    self.known[item.data] = token
        return tokens

    def rebuilt(self, items: Sequence[Item]) -> list[Hashable]:
        """Those of the rebuilt object."""
        return _tokens(items, self.sides[1], self.known)


def _whole(a: Section, b: Section, original: Side, rebuilt: Side) -> Compared:
    ones, others = list(original.items[a.index]), list(rebuilt.items[b.index])
    tokens = _Tokens(original, rebuilt)
    alignment = align(tokens.original(ones), tokens.rebuilt(others))
    alignment, branches = _merged(alignment, ones, others, original, rebuilt)
    starts = _starts(ones, a.addr + a.size), _starts(others, b.addr + b.size)
    pair = CodePair(a.addr, a.addr + a.size, b.addr, b.addr + b.size, *starts, alignment)
    return Compared(a, None, pair, alignment, ones, others, branches)


def _aligned(
    section: Section,
    units: tuple[Unit, Unit],
    tokens: Sequence[Hashable],
    other_tokens: Sequence[Hashable],
    original: Side,
    rebuilt: Side,
) -> Compared:
    ones, others = list(units[0].items), list(units[1].items)
    branches: tuple[tuple[int, int, int], ...] = ()
    if tokens == other_tokens:
        alignment = Alignment((Block(0, len(ones), 0, len(others), True),))
    else:
        alignment = align(tokens, other_tokens)
        alignment, branches = _merged(alignment, ones, others, original, rebuilt)
    (a, b), ends = units, [items[-1].address + len(items[-1].data) for items in (ones, others)]
    starts = _starts(ones, ends[0]), _starts(others, ends[1])
    pair = CodePair(a.low, a.high, b.low, b.high, *starts, alignment)
    return Compared(section, units, pair, alignment, ones, others, branches)


def _merged(
    alignment: Alignment, ones: list[Item], others: list[Item], original: Side, rebuilt: Side
) -> tuple[Alignment, tuple[tuple[int, int, int], ...]]:
    """The alignment with the same bytes as one piece where they are divided otherwise.

    Data whose length is not known ends at the next symbol: where one side has another symbol, the
    same bytes are divided otherwise. They are compared as one piece, which takes the place of its
    items in *ones* and *others*; what leads out of it is returned (see :class:`Compared`).
    """
    branches: list[tuple[int, int, int]] = []
    merged = False
    for block in reversed(alignment.blocks):
        if block.equal:
            continue
        left, right = ones[block.a_low : block.a_high], others[block.b_low : block.b_high]
        data = b"".join(item.data for item in left)
        if data and data == b"".join(item.data for item in right):
            merged = True
            start, shift = left[0].address, right[0].address - left[0].address
            one, other = _leads(left, original), _leads(right, rebuilt)
            for offset in {**one, **other}:
                # What only one side takes for a branch says the same on the other.
                goes = one[offset] if offset in one else other[offset] - shift
                branches.append((start, goes, other.get(offset, goes + shift)))
            ones[block.a_low : block.a_high] = [Raw(left[0].address, data, "data")]
            others[block.b_low : block.b_high] = [Raw(right[0].address, data, "data")]
    if merged:
        tokens = _Tokens(original, rebuilt)
        alignment = align(tokens.original(ones), tokens.rebuilt(others))
    return alignment, tuple(branches)


def _leads(items: Sequence[Item], side: Side) -> dict[int, int]:
    """Where branches and addresses among *items* lead, by their offset from the first."""
    found = {}
    for item in items:
        reference = side.references.get(item.address)
        target = reference.target if reference is not None else target_of(item)
        if target is not None:
            found[item.address - items[0].address] = target
    return found


def _starts(items: list[Item], end: int) -> tuple[int, ...]:
    return (*(item.address for item in items), end)


def _tokens(items: Sequence[Item], side: Side, known: dict[bytes, Hashable]) -> list[Hashable]:
    """What each item is compared by (see :class:`_Tokens`)."""
    processor, references = side.co.target.processor, side.references
    respelled = has_respellings(processor)
    tokens: list[Hashable] = []
    for item in items:
        if isinstance(item, Raw):
            tokens.append(item.data)
        elif branch_target(item) is not None:
            tokens.append(stem(item))
        elif item.address in references:
            tokens.append(without_literal(item, references[item.address]))
        else:
            token = known.get(item.data)
            if token is None or isinstance(token, bytes):
                changed = respell(processor, item.text) if respelled else None
                token = changed[0] if changed else item.text
            tokens.append(token)
    return tokens


def _pc_relative(
    original: Side, rebuilt: Side, compared: Sequence[Compared], data: DataPlaces
) -> Iterator[tuple[Difference, int]]:
    """Instructions whose baked distances cannot be right on both sides, for the layout moved.

    Those whose use is proven to be an address are compared by what they lead to.
    """
    if not original.numeric and not rebuilt.numeric:
        return
    moved = moves(original.co, rebuilt.co, data=True) | data.moves()
    for c in compared:
        moved |= {c.b[j].address - c.a[i].address for i, j in c.partners()}
    if len(moved) <= 1:
        return
    note = "reaches a place at a distance that is baked into the code, but the layout moved"
    for c in compared:
        numeric = original.numeric
        if rebuilt.numeric:
            others = {c.a[i].address for i, j in c.partners() if c.b[j].address in rebuilt.numeric}
            numeric = numeric | others
        for item in c.a:
            if item.address in numeric and isinstance(item, Instruction):
                place = f"{c.section.name}+{item.address - c.section.addr:#x}"
                if c.function:
                    place = f"{c.function}+{item.address - c.pair.a_low:#x}"
                yield Difference(place, item.text, item.text, note), c.pair.a_low


def _dont_care(compared: Sequence[Compared], original: Side) -> tuple[DontCare, ...]:
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
            elif one.address in original.references:
                differ &= _FIRST_WORD  # the literal is what differs, and was compared
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
