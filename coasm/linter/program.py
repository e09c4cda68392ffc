"""The code of an object as the rules walk it: its control-flow graph, operations, and lines."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from coasm.asm.code import DATA, Code, Instruction
from coasm.asm.lines import Line, Spot
from coasm.codeobject import CodeObject, Kernel
from coasm.codeobject.elf import STT_FUNC
from coasm.errors import UnsupportedError
from coasm.flow.cfg import Block, Graph, Unfollowed, control_flow
from coasm.kernels import kernels_of
from coasm.linter.findings import Place
from coasm.linter.operation import Operation, operation
from coasm.target import Family

__all__ = ["Program", "Undecoded", "build_program", "parts"]

#: Instructions that a part of a program has at least, where there are more of them.
_PART = 4000


class Undecoded(NamedTuple):
    """Bytes at *address* that flow reaches and nothing can decode; *kernel* leads there."""

    address: int
    size: int
    kernel: str


@dataclass(frozen=True)
class Program:
    """The control-flow graph of an object, and what the rules know beside it.

    ``entries`` are the names of kernels and functions by the index of their first block;
    ``reached`` the blocks that are judged. ``undecoded`` is where flow comes to what is neither an
    instruction nor declared to be data. ``lines`` is address → line of the source; the ``name`` of
    the source tells its own lines from those of the files that it includes. ``code`` is what was
    decoded, by section. ``before`` names what ends where a part (:func:`parts`) begins.
    """

    co: CodeObject
    graph: Graph
    entries: Mapping[int, str]
    reached: frozenset[int]
    lines: Mapping[int, Line] = field(default_factory=dict)
    name: str = ""
    code: Mapping[int, Code] = field(default_factory=dict)
    undecoded: Sequence[Undecoded] = ()
    before: str = ""

    @property
    def instructions(self) -> Sequence[Instruction]:
        """Those of the graph."""
        return self.graph.instructions

    @property
    def blocks(self) -> Sequence[Block]:
        """Those of the graph."""
        return self.graph.blocks

    @property
    def unfollowed(self) -> Sequence[Unfollowed]:
        """Those of the graph."""
        return self.graph.unfollowed

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
        family = self.family
        return [_operation(item, family) for item in self.instructions]

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
    for number, block in enumerate(blocks):
        open_edges += crossing[number]
        begins = blocks[low].first
        if number + 1 < len(blocks) and (open_edges or block.last - begins < _PART):
            continue
        numbers = range(low, number + 1)
        reached = frozenset(at - low for at in numbers if at in program.reached)
        entries = {at - low: program.entries[at] for at in numbers if at in program.entries}
        count += bool(reached)
        if reached and count % shares == share:
            yield replace(
                program,
                graph=program.graph.part(low, number + 1),
                entries=entries,
                reached=reached,
                before=before,
            )
        before = entries[max(entries)] if entries else before
        low = number + 1


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
    graph = control_flow(co, code)
    entries = _entries(co, graph)
    roots = list(entries)
    if kernel is not None:
        roots = [block for block, name in entries.items() if name == kernel]
        wanted = [k for k in kernels_of(co) if k.name == kernel]
        if not roots and not wanted:
            raise UnsupportedError(f"no kernel {kernel!r} in {co.name}")
    reached = graph.reached(roots)
    if kernel is None and (graph.unfollowed or not roots):
        reached = frozenset(range(len(graph.blocks)))
    program = Program(co, graph, entries, reached, lines or {}, name, code)
    return replace(program, undecoded=tuple(_undecoded(program, kernel)))


def _entries(co: CodeObject, graph: Graph) -> dict[int, str]:
    """Block → the name of the kernel or function that starts with it."""
    found = {
        graph.block_at(symbol.value): symbol.name
        for symbol in co.symbols
        if symbol.type == STT_FUNC and co.section_of(symbol) is not None
    }
    found.update({graph.block_at(k.entry): k.name for k in kernels_of(co)})
    return {block: name for block, name in found.items() if block is not None}


def _operation(item: Instruction, family: Family) -> Operation:
    try:
        return operation(meant(item), family)
    except UnsupportedError as error:
        raise UnsupportedError(f"{item.address:#x}: {item.text}: {error}") from None


def meant(item: Instruction) -> str:
    """The text of an instruction with the VGPRs that it reaches; of a guess at them that one."""
    registers = item.registers.removesuffix(" (a guess)")
    return f"{item.mnemonic} {registers}" if registers else item.text


def _undecoded(program: Program, kernel: str | None) -> Iterator[Undecoded]:
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
        if index in program.graph.falls:
            item = program.instructions[index]
            wanted.setdefault(item.address + item.size, program.name_at(index))
        target = program.graph.targets.get(index)
        if target is not None:
            wanted.setdefault(target, program.name_at(index))
    flows = [program.graph.flow(one.at) for one in program.unfollowed]
    if any(flow is not None and flow.sort == "jump" for flow in flows):
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
