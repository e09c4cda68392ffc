"""A kernel and the code that flow reaches from its entry, as the checks of resources see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from coasm.asm.code import Instruction, branch_target
from coasm.codeobject import Kernel
from coasm.descriptor import Resources, resources
from coasm.flow.cfg import reached
from coasm.linter.findings import Finding
from coasm.linter.program import Program
from coasm.linter.rules import RULES

__all__ = ["Check", "KernelCode", "check_kernels"]


@dataclass(frozen=True, eq=False)
class KernelCode:
    """A kernel and its code: ``entry`` is the number of its first block.

    ``entries`` are the addresses of all kernels of the object.
    """

    program: Program
    kernel: Kernel
    entry: int
    entries: frozenset[int]
    declared: Resources

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """The blocks that flow reaches from the entry, those behind calls too, in order."""
        return tuple(sorted(reached(self._onward, [self.entry])))

    @cached_property
    def certain(self) -> frozenset[int]:
        """The blocks that are reached without a call, which need not return."""
        return reached(self.following, [self.entry])

    @cached_property
    def instructions(self) -> list[tuple[int, Instruction]]:
        """The kernel's instructions with their numbers in the program."""
        program = self.program
        spans = (range(program.blocks[n].first, program.blocks[n].last) for n in self.blocks)
        return [(index, program.instructions[index]) for span in spans for index in span]

    def following(self, number: int) -> Iterator[int]:
        """The blocks that come after a block, but for another kernel that it runs into."""
        other = self.runs_into(number)
        for following in self.program.blocks[number].follows:
            if following != other:
                yield following

    def runs_into(self, number: int) -> int | None:
        """The block of the other kernel's entry that flow runs into at the end of a block."""
        program = self.program
        last = program.instructions[program.blocks[number].last - 1]
        if number + 1 not in program.blocks[number].follows or number + 1 == self.entry:
            return None
        first = program.graph.block_addresses[number + 1]
        return number + 1 if first in self.entries and branch_target(last) != first else None

    def _onward(self, number: int) -> Iterator[int]:
        """The same, and what a call comes back to."""
        other = self.runs_into(number)
        return (following for following in self.program.graph.onward(number) if following != other)

    def finding(self, rule: str, case: str, index: int, **words: object) -> Finding:
        """What *rule* says in a *case*, at the instruction *index*."""
        return RULES[rule].finding(case, self.kernel.name, self.program.place(index), **words)

    def at_entry(self, rule: str, case: str, **words: object) -> Finding:
        """A finding about the descriptor or the metadata."""
        return self.finding(rule, case, self.program.blocks[self.entry].first, **words)


#: A check of one kernel.
Check = Callable[[KernelCode], Iterable[Finding]]


def check_kernels(program: Program, checks: Iterable[Check]) -> list[Finding]:
    """What *checks* find in each kernel that *program* judges, by address.

    Raises:
        FormatError, UnsupportedError: a kernel descriptor that cannot be read.
    """
    entries = frozenset(kernel.entry for kernel in program.kernels)
    found: list[Finding] = []
    for kernel in program.kernels:
        entry = program.graph.block_at(kernel.entry)
        if entry is not None and entry in program.reached:
            declared = resources(kernel.descriptor, program.co.target)
            code = KernelCode(program, kernel, entry, entries, declared)
            for check in checks:
                found += check(code)
    return sorted(found, key=lambda finding: (finding.place.address, finding.rule))
