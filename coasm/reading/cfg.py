"""The control-flow graph of one kernel: blocks, edges, loops."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from coasm.flow.cfg import Graph
from coasm.flow.loops import Loop, cycles, natural_loops

__all__ = ["Block", "Cfg", "Edge", "kernel_cfg"]


class Block(NamedTuple):
    """Instructions *first* to *last* - 1 of a kernel, by their places in ``kernel.instructions``.

    It begins at *address* and ends before *end*. *follows* are the blocks that may come next,
    *before* those that it may come after. *leaves*: flow may go on elsewhere behind it, in another
    function or where a register says. *resumes*: it comes behind a call.
    """

    number: int
    address: int
    end: int
    first: int
    last: int
    follows: tuple[int, ...]
    before: tuple[int, ...]
    leaves: bool
    resumes: bool

    @property
    def places(self) -> range:
        """The places of its instructions in ``kernel.instructions``."""
        return range(self.first, self.last)


class Edge(NamedTuple):
    """From one block to another; *kind* is ``branch``, ``fall`` (it comes next), ``return``."""

    source: int
    target: int
    kind: str


@dataclass(frozen=True)
class Cfg:
    """A kernel's blocks in order of their addresses, by their numbers.

    ``entries`` are the blocks where the kernel is entered: the second is that of firmware that
    preloads arguments. ``unfollowed`` says of instructions, by address, why it is not known where
    they go.
    """

    blocks: tuple[Block, ...]
    edges: tuple[Edge, ...]
    entries: tuple[int, ...]
    unfollowed: tuple[tuple[int, str], ...]

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The natural loops, by the number of their header."""
        return natural_loops([block.follows for block in self.blocks], self.entries)

    @cached_property
    def irreducible(self) -> tuple[int, ...]:
        """The blocks of cycles with several ways in, which are no loops."""
        return cycles([block.follows for block in self.blocks], self.entries)

    def block_at(self, address: int) -> Block:
        """The block that holds the instruction at *address*.

        Raises:
            KeyError: it is none of the kernel's.
        """
        at = bisect_right(self.blocks, address, key=lambda block: block.address) - 1
        if at < 0 or address >= self.blocks[at].end:
            raise KeyError(f"{address:#x} is not in the kernel")
        return self.blocks[at]

    def block_of(self, place: int) -> Block:
        """The block of the instruction at *place* in ``kernel.instructions``."""
        return self.blocks[bisect_right(self.blocks, place, key=lambda block: block.first) - 1]


def kernel_cfg(graph: Graph, span: tuple[int, int], entries: tuple[int, ...]) -> Cfg:
    """The blocks of *graph* with the instructions of *span*; *entries* are addresses."""
    first, last = span
    low = bisect_left(graph.blocks, first, key=lambda block: block.first)
    high = bisect_left(graph.blocks, last, key=lambda block: block.first)
    inside = range(low, high)
    unknown = {one.at: one.why for one in graph.unfollowed}
    falls = set(graph.falls)
    edges: list[Edge] = []
    leaves: set[int] = set()
    for number in inside:
        block = graph.blocks[number]
        ends_at = block.last - 1
        resumed = graph.resumed(number)
        if ends_at in unknown or ends_at in falls:
            leaves.add(number)
        for following in block.follows:
            if following not in inside or resumed is not None:
                leaves.add(number)
            else:
                next_one = following == number + 1 and graph.targets.get(ends_at) is None
                follows_too = following == number + 1 and len(block.follows) > 1
                kind = "fall" if next_one or follows_too else "branch"
                edges.append(Edge(number - low, following - low, kind))
        if resumed is not None:
            leaves.add(number)
            if resumed in inside:
                edges.append(Edge(number - low, resumed - low, "return"))
    blocks = []
    for number in inside:
        block = graph.blocks[number]
        end = graph.instructions[block.last - 1]
        own = number - low
        blocks.append(
            Block(
                own,
                graph.block_addresses[number],
                end.address + end.size,
                block.first - first,
                block.last - first,
                tuple(edge.target for edge in edges if edge.source == own),
                tuple(edge.source for edge in edges if edge.target == own),
                number in leaves,
                block.resumes,
            )
        )
    found = [graph.block_at(address) for address in entries]
    return Cfg(
        tuple(blocks),
        tuple(edges),
        tuple(one - low for one in found if one is not None and one in inside),
        tuple(
            (graph.instructions[at].address, why)
            for at, why in sorted(unknown.items())
            if first <= at < last
        ),
    )
