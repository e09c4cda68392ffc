"""The control-flow graph of an object's code, for every target: basic blocks with their edges.

Edges are those of direct branches, of what falls through, and of jumps through a register whose
address is proven (:mod:`coasm.asm.references`). What else jumps or calls is not followed: it is
among ``unfollowed``, or what comes behind a call ``resumes``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple, overload

from coasm.asm.code import Code, Instruction, Raw, branches
from coasm.codeobject import CodeObject
from coasm.codeobject.elf import STT_FUNC
from coasm.flow.forward import forward
from coasm.isa.flow import Flow, flow_of
from coasm.kernels import kernels_of

if TYPE_CHECKING:
    from coasm.asm.references import CodeReference

__all__ = ["Block", "Graph", "Instructions", "Unfollowed", "control_flow", "reached"]


class Block(NamedTuple):
    """Instructions ``first`` to ``last - 1``. ``follows`` are the blocks that may come next.

    ``resumes``: it comes after a call, whose effect on counters and hazards is not known.
    """

    first: int
    last: int
    follows: tuple[int, ...]
    resumes: bool


class Unfollowed(NamedTuple):
    """The instruction *at* does not say where it goes on."""

    at: int
    why: str


class Instructions(Sequence[Instruction]):
    """The instructions of several sections, without what is data; made when they are asked for."""

    def __init__(self, sections: Sequence[Code]) -> None:
        self._sections = [_Section(code) for code in sections]
        self._firsts = list(accumulate(map(len, self._sections), initial=0))

    def __len__(self) -> int:
        return self._firsts[-1]

    @overload
    def __getitem__(self, at: int) -> Instruction: ...
    @overload
    def __getitem__(self, at: slice) -> list[Instruction]: ...
    def __getitem__(self, at: int | slice) -> Instruction | list[Instruction]:
        if isinstance(at, slice):
            low, high, step = at.indices(len(self))
            found: list[Instruction] = []
            for first, section in zip(self._firsts, self._sections, strict=False):
                if low < first + len(section) and high > first:
                    found += section.between(max(low - first, 0), min(high - first, len(section)))
            return found[::step]
        at = range(len(self))[at]
        number = bisect_right(self._firsts, at) - 1
        return self._sections[number][at - self._firsts[number]]

    def address(self, at: int) -> int:
        """Where the instruction *at* begins."""
        number = bisect_right(self._firsts, at) - 1
        return self._sections[number].address(at - self._firsts[number])

    def index(self, address: object, start: int = 0, stop: int | None = None) -> int:
        """The instruction that begins at *address*; -1 where none does."""
        for first, section in zip(self._firsts, self._sections, strict=False):
            found = section.index(address) if isinstance(address, int) else -1
            if found >= 0:
                return first + found
        return -1


class _Section:
    """The instructions of one section by their number among themselves."""

    def __init__(self, code: Code) -> None:
        self.code = code
        raws = {at for at, item in code.others.items() if isinstance(item, Raw)}
        #: Positions in the section; None where they are the numbers themselves.
        self.positions = [at for at in range(len(code)) if at not in raws] if raws else None

    def __len__(self) -> int:
        return len(self.code if self.positions is None else self.positions)

    def __getitem__(self, number: int) -> Instruction:
        item = self.code[number if self.positions is None else self.positions[number]]
        assert isinstance(item, Instruction)
        return item

    def between(self, low: int, high: int) -> list[Instruction]:
        """Those from *low* to before *high*."""
        if low >= high:
            return []
        at = self.positions
        items = self.code[low:high] if at is None else self.code[at[low] : at[high - 1] + 1]
        return [item for item in items if isinstance(item, Instruction)]

    def address(self, number: int) -> int:
        return self.code.address(number if self.positions is None else self.positions[number])

    def number(self, position: int) -> int:
        """How many instructions come before the item at *position*."""
        return position if self.positions is None else bisect_left(self.positions, position)

    def index(self, address: int) -> int:
        position = self.code.position(address)
        if position is None or isinstance(self.code.others.get(position), Raw):
            return -1
        return self.number(position)


@dataclass(frozen=True)
class Graph:
    """The instructions of an object in order of their addresses, and their blocks.

    Instructions are named by their numbers, and so are blocks. ``falls`` are the instructions
    behind which flow runs into data or the end of the code. ``targets`` are the addresses that
    branches, jumps and calls go to, as far as they are known, whether code is there or not.
    ``block_addresses`` is where each block begins.
    """

    instructions: Sequence[Instruction]
    blocks: Sequence[Block]
    unfollowed: Sequence[Unfollowed]
    falls: Sequence[int]
    targets: Mapping[int, int]
    block_addresses: Sequence[int]

    def block_at(self, address: int) -> int | None:
        """The block that begins at *address*."""
        at = bisect_left(self.block_addresses, address)
        found = at < len(self.blocks) and self.block_addresses[at] == address
        return at if found else None

    def of(self, number: int) -> Sequence[Instruction]:
        """The instructions of a block."""
        block = self.blocks[number]
        return self.instructions[block.first : block.last]

    def flow(self, at: int) -> Flow | None:
        """The row of the instruction *at* in the table of what does not just go on."""
        return flow_of(self.instructions[at].mnemonic)

    def follows(self, number: int) -> Sequence[int]:
        """The blocks that may come next behind a block."""
        return self.blocks[number].follows

    def resumed(self, number: int) -> int | None:
        """The block that a call at the end of a block comes back to."""
        behind = number + 1
        return behind if behind < len(self.blocks) and self.blocks[behind].resumes else None

    def onward(self, number: int) -> Sequence[int]:
        """The blocks that may come next, and what a call comes back to."""
        resumed = self.resumed(number)
        follows = self.blocks[number].follows
        return follows if resumed is None else (*follows, resumed)

    def reached(self, roots: Iterable[int]) -> frozenset[int]:
        """The blocks that flow can reach from *roots*; behind a call too."""
        return reached(self.onward, roots)

    def part(self, low: int, high: int) -> Graph:
        """Blocks *low* to *high* - 1, between which and the others nothing flows, renumbered."""
        first, last = self.blocks[low].first, self.blocks[high - 1].last
        ends = [self.blocks[number].last - 1 for number in range(low, high)]
        return Graph(
            self.instructions[first:last],
            [
                Block(
                    block.first - first,
                    block.last - first,
                    tuple(following - low for following in block.follows),
                    block.resumes,
                )
                for block in self.blocks[low:high]
            ],
            [
                self._unfollowed_at[end]._replace(at=end - first)
                for end in ends
                if end in self._unfollowed_at
            ],
            [end - first for end in ends if end in self._falls],
            {end - first: self.targets[end] for end in ends if end in self.targets},
            self.block_addresses[low:high],
        )

    @cached_property
    def _unfollowed_at(self) -> Mapping[int, Unfollowed]:
        return {one.at: one for one in self.unfollowed}

    @cached_property
    def _falls(self) -> frozenset[int]:
        return frozenset(self.falls)


def reached(follows: Callable[[int], Iterable[int]], roots: Iterable[int]) -> frozenset[int]:
    """What can be reached from *roots* along *follows*."""
    entry = dict.fromkeys(roots, True)
    return frozenset(forward(follows, entry, lambda _, state: state, lambda known, _: known))


def control_flow(co: CodeObject, code: Mapping[int, Code]) -> Graph:
    """The graph of the decoded sections of *co* (:func:`coasm.asm.decode.decode`).

    A block begins where a kernel or a function does, and where a kernel is entered whose first
    arguments are in SGPRs already.
    """
    sections = [code[index] for index in sorted(code)]
    instructions = Instructions(sections)
    flows, targets, ends = _flows(co, code, sections)
    leaders = {instructions.index(address) for address in _starts(co)} | {0}
    goes_to: dict[int, int] = {}
    for index, target in targets.items():
        at = instructions.index(target)
        if at >= 0:
            goes_to[index] = at
            leaders.add(at)
    leaders.update(index + 1 for index in flows)
    leaders.update(index + 1 for index in ends)
    firsts = sorted(index for index in leaders if 0 <= index < len(instructions))
    block_at = {first: number for number, first in enumerate(firsts)}
    blocks: list[Block] = []
    unfollowed: list[Unfollowed] = []
    falls: list[int] = []
    resumes = False
    for number, (first, last) in enumerate(pairwise([*firsts, len(instructions)])):
        index = last - 1
        follows: list[int] = []
        flow = flows.get(index)
        calls = flow is not None and flow.sort == "call"
        if flow is not None:
            if index in goes_to:
                follows.append(block_at[goes_to[index]])
            elif index in targets:
                why = f"goes to {targets[index]:#x}, where no code is"
                unfollowed.append(Unfollowed(index, why))
            elif flow.sort in ("jump", "call", "fork"):
                unfollowed.append(Unfollowed(index, "goes where a register says"))
        if flow is None or (flow.goes_on and not calls):
            if index in ends:
                falls.append(index)
            else:
                follows.append(number + 1)
        blocks.append(Block(first, last, tuple(dict.fromkeys(follows)), resumes))
        resumes = calls and index not in ends
    addresses = list(map(instructions.address, firsts))
    return Graph(instructions, blocks, unfollowed, falls, targets, addresses)


def _starts(co: CodeObject) -> Iterator[int]:
    """The addresses that code is entered at from elsewhere."""
    for symbol in co.symbols:
        if symbol.type == STT_FUNC and co.section_of(symbol) is not None:
            yield symbol.value
    prologue = co.target.processor.family.preload_prologue
    for kernel in kernels_of(co):
        yield kernel.entry
        if prologue:
            yield kernel.entry + prologue


def _flows(
    co: CodeObject, code: Mapping[int, Code], sections: Sequence[Code]
) -> tuple[dict[int, Flow], dict[int, int], set[int]]:
    """By their numbers the instructions that have a row in :data:`coasm.isa.flow.FLOW`, and where
    they go if that is known; those behind which there is no code.
    """
    jumps = _proven_jumps(co, code)
    flows: dict[int, Flow] = {}
    targets: dict[int, int] = {}
    ends: set[int] = set()
    first = 0
    for section_code in sections:
        section = _Section(section_code)
        known = {**jumps, **dict(branches(section_code))}
        for position in section_code.positions(flow_of):
            row = flow_of(section_code.texts[position].partition(" ")[0])
            assert row is not None
            if row.sort != "trap":
                number = first + section.number(position)
                flows[number] = row
                target = known.get(section_code.address(position))
                if target is not None:
                    targets[number] = target
        for position, item in section_code.others.items():
            if isinstance(item, Raw):
                ends.add(first + section.number(position) - 1)
        first += len(section)
        ends.add(first - 1)
    return flows, targets, ends - {-1}


def _jumps(mnemonic: str) -> bool:
    flow = flow_of(mnemonic)
    return flow is not None and flow.sort == "jump"


def _proven_jumps(co: CodeObject, code: Mapping[int, Code]) -> dict[int, int]:
    """Jump through a register → where it goes, of the long branches that compilers make.

    They add a distance to the program counter right before, or in the instruction itself.
    """
    found: dict[int, int] = {}
    references: Mapping[int, CodeReference] | None = None
    for section_code in code.values():
        for at in section_code.positions(
            lambda name: (row := flow_of(name)) and row.sort == "jump"
        ):
            item, before = section_code[at], section_code[at - 1] if at else None
            if references is None:
                from coasm.asm.references import find_references

                references = find_references(co, dict(code)).code
            if item.address in references:  # s_add_pc_i64
                found[item.address] = references[item.address].target
                continue
            if not isinstance(before, Instruction) or len(item.data) != 4:
                continue
            reference = references.get(before.address)
            into = int.from_bytes(before.data[:4], "little") >> 16 & 0x7F
            low = int.from_bytes(item.data[:4], "little") & 0xFF
            if reference and (reference.kind, into) in (("rel32@hi", low + 1), ("rel64", low)):
                found[item.address] = reference.target
    return found
