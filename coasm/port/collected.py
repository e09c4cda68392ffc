"""Reasons by kernel: whoever reaches the place of one has it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from coasm.asm.code import Instruction
from coasm.codeobject import Kernel
from coasm.linter.program import Program
from coasm.port.rules import Reason

__all__ = ["Collected"]


class Collected:
    """Reasons at the places of a *program*."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._of: dict[str, list[Reason]] = defaultdict(list)
        self._owners: dict[int, tuple[str, ...]] = {}
        self._reached: dict[str, frozenset[int]] | None = None

    def add(self, reasons: Iterable[tuple[Reason, int]]) -> None:
        """Reasons, each with the number of an instruction."""
        for reason, index in reasons:
            self._add(reason, self._block(index))

    def at(self, reason: Reason, address: int) -> None:
        """A reason at an address behind some instruction."""
        instructions = self.program.instructions
        index = bisect_right(instructions, address, key=lambda item: item.address) - 1
        self._add(reason, self._block(max(0, index)))

    def of(self, kernel: str, reason: Reason) -> None:
        """A reason of one kernel."""
        self._of[kernel].append(reason)

    def _block(self, index: int) -> int:
        return bisect_right(self.program.blocks, index, key=lambda block: block.first) - 1

    def _add(self, reason: Reason, block: int) -> None:
        for name in self._owned(block):
            self._of[name].append(reason)

    def _owned(self, block: int) -> tuple[str, ...]:
        if block not in self._owners:
            self._owners[block] = self._kernels(block)
        return self._owners[block]

    def _kernels(self, block: int) -> tuple[str, ...]:
        """The kernels that reach a block: all of them, if none is known to."""
        kernels = self.program.kernels
        if len(kernels) == 1:
            return (kernels[0].name,)
        if self._reached is None:
            graph = self.program.graph
            self._reached = {
                one.name: graph.reached(
                    [at for at, name in self.program.entries.items() if name == one.name]
                )
                for one in kernels
            }
        found = tuple(name for name, blocks in self._reached.items() if block in blocks)
        return found or tuple(kernel.name for kernel in kernels)

    def all(self, kernel: Kernel) -> Sequence[Reason]:
        """Those of one kernel."""
        return self._of[kernel.name]

    def instructions(self, kernel: Kernel) -> Iterator[Instruction]:
        """What a kernel reaches."""
        for number in sorted(self.program.reached):
            if kernel.name in self._owned(number):
                block = self.program.blocks[number]
                yield from self.program.instructions[block.first : block.last]
