"""The code of an object as the rules walk it: operations in basic blocks, with their edges.

Edges are those of direct branches and of what falls through. Where an indirect jump or a call goes
is not followed, but for the sequences whose address is proven (:mod:`coasm.asm.references`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, overload

from coasm.asm.code import DATA, Code, Instruction, Raw
from coasm.asm.lines import Line, Spot
from coasm.codeobject import CodeObject, Kernel
from coasm.codeobject.elf import STT_FUNC
from coasm.errors import UnsupportedError
from coasm.isa.flow import Flow, flow_of
from coasm.kernels import kernels_of
from coasm.linter.findings import Place
from coasm.linter.operation import Operation, operation
from coasm.target import Family

if TYPE_CHECKING:
    from coasm.asm.references import CodeReference

__all__ = ["Block", "Program", "Undecoded", "Unfollowed", "build_program", "parts"]

#: Instructions that a part of a program has at least, where there are more of them.
_PART = 4000


class Block(NamedTuple):
    """Operations ``first`` to ``last - 1``. ``follows`` are the blocks that may come next.

    ``resumes``: it comes after a call, whose effect on counters and hazards is not known.
    """

    first: int
    last: int
    follows: tuple[int, ...]
    resumes: bool


class Unfollowed(NamedTuple):
    """The operation *at* does not say where it goes on."""

    at: int
    why: str


class Undecoded(NamedTuple):
    """Bytes at *address* that flow reaches and nothing can decode; *kernel* leads there."""

    address: int
    size: int
    kernel: str


class _Instructions(Sequence[Instruction]):
    """The instructions of several sections, without what is data; made when they are asked for."""

    def __init__(self, sections: Sequence[Code]) -> None:
        self._own = [_Section(own) for own in sections]
        self._firsts = list(accumulate(map(len, self._own), initial=0))

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
            for first, own in zip(self._firsts, self._own, strict=False):
                if low < first + len(own) and high > first:
                    found += own.between(max(low - first, 0), min(high - first, len(own)))
            return found[::step]
        at = range(len(self))[at]
        number = bisect_right(self._firsts, at) - 1
        return self._own[number][at - self._firsts[number]]

    def index(self, address: object, start: int = 0, stop: int | None = None) -> int:
        """The instruction that begins at *address*; -1 where none does."""
        for first, own in zip(self._firsts, self._own, strict=False):
            found = own.index(address) if isinstance(address, int) else -1
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

    def number(self, position: int) -> int:
        """How many instructions come before the item at *position*."""
        return position if self.positions is None else bisect_left(self.positions, position)

    def index(self, address: int) -> int:
        position = self.code.position(address)
        if position is None or isinstance(self.code.others.get(position), Raw):
            return -1
        return self.number(position)


@dataclass(frozen=True)
class Program:
    """The instructions of an object in order of their addresses, and their blocks.

    ``entries`` are the names of kernels and functions by the index of their first block;
    ``reached`` the blocks that are judged; ``falls`` are the operations behind which flow runs
    into data or the end of the code. ``undecoded`` is where flow comes to what is neither an
    instruction nor declared to be data. ``lines`` is address → line of the source; the ``name`` of
    the source tells its own lines from those of the files that it includes. ``code`` is what was
    decoded, by section. ``before`` names what ends where a part (:func:`parts`) begins.
    """

    co: CodeObject
    instructions: Sequence[Instruction]
    blocks: Sequence[Block]
    entries: Mapping[int, str]
    unfollowed: Sequence[Unfollowed]
    falls: Sequence[int]
    reached: frozenset[int]
    lines: Mapping[int, Line] = field(default_factory=dict)
    name: str = ""
    code: Mapping[int, Code] = field(default_factory=dict)
    undecoded: Sequence[Undecoded] = ()
    before: str = ""

    @property
    def family(self) -> Family:
        """What holds for the target."""
        return self.co.target.processor.family

    @cached_property
    def operations(self) -> Sequence[Operation]:
        """The instructions as the rules for wait states and waits see them.

        Raises:
            UnsupportedError: an instruction whose operands are not known.
        """
        return [_operation(item, self.family.wait_states) for item in self.instructions]

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that the metadata lists; none where there is no metadata."""
        return kernels_of(self.co)

    def place(self, index: int) -> Place:
        """Where the operation *index* is."""
        at = self.instructions[index]
        return self.place_of(at.address, at.text)

    def place_of(self, address: int, text: str) -> Place:
        """Where *text* is, which stands at *address*."""
        line = self.lines.get(address)
        if line is None:
            return Place(address, None, text)
        file, number = self._own(line.spot)
        body = None if line.body is None else self._own(line.body)
        return Place(address, number, text, file, line.macro, body)

    def _own(self, spot: Spot) -> tuple[str | None, int]:
        """*spot* with None for the source itself."""
        return None if spot.file == self.name else spot.file, spot.line

    def index(self, address: int) -> int:
        """The operation at *address*; -1 where none begins."""
        at = bisect_left(self.instructions, address, key=lambda item: item.address)
        found = at < len(self.instructions) and self.instructions[at].address == address
        return at if found else -1

    @cached_property
    def block_addresses(self) -> Sequence[int]:
        """Where each block begins."""
        return [self.instructions[block.first].address for block in self.blocks]

    @cached_property
    def _starts(self) -> list[tuple[int, str]]:
        return [(self.blocks[block].first, self.entries[block]) for block in sorted(self.entries)]

    def name_at(self, index: int) -> str:
        """The kernel or function that the operation *index* is in."""
        at = bisect_right(self._starts, index, key=lambda start: start[0]) - 1
        return self._starts[at][1] if at >= 0 else self.before


def parts(program: Program, share: int = 0, shares: int = 1) -> Iterator[Program]:
    """*program* in pieces between which nothing flows, each with numbers of its own.

    Of several *shares*, which take turns, only those of one.

    ``undecoded`` stays that of the whole.
    """
    blocks = program.blocks
    crossing = [0] * (len(blocks) + 1)  # by how many edges more lead over the end of a block
    for number, block in enumerate(blocks):
        for following in block.follows:
            crossing[min(number, following)] += 1
            crossing[max(number, following)] -= 1
    low = open_edges = count = 0
    before = ""
    unfollowed = {one.at: one for one in program.unfollowed}
    falls = set(program.falls)
    for number, block in enumerate(blocks):
        open_edges += crossing[number]
        begins = blocks[low].first
        if number + 1 < len(blocks) and (open_edges or block.last - begins < _PART):
            continue
        own = range(low, number + 1)
        reached = frozenset(at - low for at in own if at in program.reached)
        entries = {at - low: program.entries[at] for at in own if at in program.entries}
        count += bool(reached)
        if reached and count % shares == share:
            yield replace(
                program,
                instructions=program.instructions[begins : block.last],
                blocks=[_moved(blocks[at], begins, low) for at in own],
                entries=entries,
                unfollowed=[
                    unfollowed[at]._replace(at=at - begins)
                    for at in (blocks[number].last - 1 for number in own)
                    if at in unfollowed
                ],
                falls=[
                    at - begins for at in (blocks[number].last - 1 for number in own) if at in falls
                ],
                reached=reached,
                before=before,
            )
        before = entries[max(entries)] if entries else before
        low = number + 1


def _moved(block: Block, first: int, number: int) -> Block:
    follows = tuple(following - number for following in block.follows)
    return Block(block.first - first, block.last - first, follows, block.resumes)


class _Flow(NamedTuple):
    """An instruction that flow does not just pass: its row, and where it goes if that is known."""

    row: Flow
    target: int | None


def build_program(
    co: CodeObject,
    code: Mapping[int, Code],
    *,
    lines: Mapping[int, Line] | None = None,
    name: str = "",
    kernel: str | None = None,
) -> Program:
    """The program of *co* from its decoded sections *code* (:func:`coasm.asm.decode.decode`).

    With *kernel* only what that kernel reaches is judged; without, what any kernel or function
    reaches, or all code where there is none or flow cannot be followed.

    Raises:
        UnsupportedError: no such kernel.
    """
    sections = [code[index] for index in sorted(code)]
    instructions = _Instructions(sections)
    flows, ends = _flows(co, code, sections)
    names = _names(co, instructions)
    leaders = {0, *names} if len(instructions) else set()
    goes_to: dict[int, int] = {}
    for index, flow in flows.items():
        leaders.add(index + 1)
        at = -1 if flow.target is None else instructions.index(flow.target)
        if at >= 0:
            goes_to[index] = at
            leaders.add(at)
    leaders |= {index + 1 for index in ends}
    firsts = sorted(index for index in leaders if index < len(instructions))
    block_at = {first: number for number, first in enumerate(firsts)}
    blocks: list[Block] = []
    unfollowed: list[Unfollowed] = []
    falls: list[int] = []
    resumes = False
    for number, first in enumerate(firsts):
        index = (firsts[number + 1] if number + 1 < len(firsts) else len(instructions)) - 1
        follows: list[int] = []
        found = flows.get(index)
        calls = False
        if found is not None:
            row, target = found
            calls = row.sort == "call"
            if index in goes_to:
                follows.append(block_at[goes_to[index]])
            elif target is not None:
                unfollowed.append(Unfollowed(index, f"goes to {target:#x}, where no code is"))
            elif row.sort in ("jump", "call", "fork"):
                unfollowed.append(Unfollowed(index, "goes where a register says"))
        if found is None or (found.row.goes_on and not calls):
            if index in ends:
                falls.append(index)
            else:
                follows.append(number + 1)
        blocks.append(Block(first, index + 1, tuple(dict.fromkeys(follows)), resumes))
        resumes = calls and index not in ends
    entries = {block_at[index]: name for index, name in names.items()}
    roots = list(entries)
    if kernel is not None:
        roots = [block for block, name in entries.items() if name == kernel]
        wanted = [k for k in kernels_of(co) if k.name == kernel]
        if not roots and not wanted:
            raise UnsupportedError(f"no kernel {kernel!r} in {co.name}")
    reached = _reach(blocks, roots)
    if kernel is None and (unfollowed or not roots):
        reached = frozenset(range(len(blocks)))
    program = Program(
        co,
        instructions,
        blocks,
        entries,
        unfollowed,
        falls,
        reached,
        lines or {},
        name,
        code,
    )
    return replace(program, undecoded=tuple(_undecoded(program, flows, kernel)))


def _flows(
    co: CodeObject, code: Mapping[int, Code], sections: Sequence[Code]
) -> tuple[dict[int, _Flow], set[int]]:
    """By their numbers the instructions that have a row in :data:`coasm.isa.flow.FLOW`; those
    behind which there is no code.
    """
    jumps = _proven_jumps(co, code)
    flows: dict[int, _Flow] = {}
    ends: set[int] = set()
    first = 0
    for own in sections:
        section = _Section(own)
        for position in own.positions(flow_of):
            low = own.stops[position]
            row = flow_of(own.texts[position].partition(" ")[0])
            assert row is not None
            target: int | None
            if row.direct:
                simm = int.from_bytes(own.data[low : low + 2], "little", signed=True)
                target = own.start + low + 4 + 4 * simm
            else:
                target = jumps.get(own.start + low)
            if row.sort != "trap":
                flows[first + section.number(position)] = _Flow(row, target)
        for position, item in own.others.items():
            if isinstance(item, Raw):
                ends.add(first + section.number(position) - 1)
        first += len(section)
        ends.add(first - 1)
    return flows, ends - {-1}


def _operation(item: Instruction, wait_states: str) -> Operation:
    try:
        return operation(item.text, wait_states)
    except UnsupportedError as error:
        raise UnsupportedError(f"{item.address:#x}: {item.text}: {error}") from None


def _undecoded(
    program: Program, flows: Mapping[int, _Flow], kernel: str | None
) -> Iterator[Undecoded]:
    """What flow reaches and nothing can decode: behind an instruction, at a target, at an entry."""
    code = program.code.values()
    raws = {raw.address: raw for own in code for raw in own.raws if raw.reason != DATA}
    if not raws:
        return
    judged = {program.blocks[number].last - 1: number for number in program.reached}
    wanted: dict[int, str] = {}
    for one in program.kernels:
        if kernel in (None, one.name):
            wanted.setdefault(one.entry, one.name)
    for index in sorted(judged):
        if index in program.falls:
            item = program.instructions[index]
            wanted.setdefault(item.address + item.size, program.name_at(index))
        flow = flows.get(index)
        if flow is not None and flow.target is not None:
            wanted.setdefault(flow.target, program.name_at(index))
    if any(flows[one.at].row.sort == "jump" for one in program.unfollowed if one.at in flows):
        for raw in raws.values():  # a jump may go there
            if raw.data.strip(b"\0"):
                wanted.setdefault(raw.address, "")
    starts = sorted(raws)
    seen = set()
    for address, name in sorted(wanted.items()):
        at = bisect_right(starts, address) - 1
        found = raws[starts[at]] if at >= 0 else None
        end = found.address + len(found.data) if found is not None else 0
        if address < end and end not in seen:
            seen.add(end)
            yield Undecoded(address, end - address, name)


def _proven_jumps(co: CodeObject, code: Mapping[int, Code]) -> dict[int, int]:
    """Jump through a register → where it goes, of the long branches that compilers make.

    They add a distance to the program counter right before, or in the instruction itself.
    """
    found: dict[int, int] = {}
    references: Mapping[int, CodeReference] | None = None
    for own in code.values():
        for at in own.positions(lambda name: (row := flow_of(name)) and row.sort == "jump"):
            item, before = own[at], own[at - 1] if at else None
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


def _names(co: CodeObject, instructions: _Instructions) -> dict[int, str]:
    """Operation → the name of the kernel or function that starts with it."""
    found = {
        instructions.index(symbol.value): symbol.name
        for symbol in co.symbols
        if symbol.type == STT_FUNC and co.section_of(symbol) is not None
    }
    found.update({instructions.index(k.entry): k.name for k in kernels_of(co)})
    found.pop(-1, None)
    return found


def _reach(blocks: Sequence[Block], roots: Sequence[int]) -> frozenset[int]:
    """The blocks that flow can reach from *roots*; behind a call too."""
    found: set[int] = set()
    todo = list(roots)
    while todo:
        number = todo.pop()
        if number not in found:
            found.add(number)
            todo += blocks[number].follows
            if number + 1 < len(blocks) and blocks[number + 1].resumes:
                todo.append(number + 1)
    return frozenset(found)
