"""The code of two objects that are compared, and the pairs of pieces that belong together."""

from __future__ import annotations

from dataclasses import dataclass

from coasm.asm.code import Instruction, Item, branch_target
from coasm.asm.references import CodeReference
from coasm.codeobject import CodeObject, Section
from coasm.compare.align import Alignment
from coasm.compare.places import CodePair
from coasm.compare.units import Unit
from coasm.isa.kinds import is_a

__all__ = ["Compared", "Side", "stem", "target_of", "without_literal"]


@dataclass(frozen=True)
class Side:
    """One object's code: its items by section, the addresses in it, and where PC reads stay.

    ``numeric`` are the instructions that read the program counter for a use that is not proven to
    be an address.
    """

    co: CodeObject
    items: dict[int, list[Item]]
    references: dict[int, CodeReference]
    numeric: frozenset[int]

    def targets(self) -> set[int]:
        """Where branches and addresses lead."""
        found = {reference.target for reference in self.references.values()}
        for items in self.items.values():
            found.update(t for t in map(target_of, items) if t is not None)
        return found

    def symbol(self, reference: CodeReference) -> str | None:
        """The symbol whose address is read from the global offset table; None for all others."""
        if reference.symbol is None:
            return None
        return self.co.elf.dynamic_symbols[reference.symbol].name


@dataclass(frozen=True)
class Compared:
    """One pair of sections, or with *units* of functions in them.

    ``branches`` are those in pieces that are compared as data: the piece's original address, and
    the original and the rebuilt target, to be the same place.
    """

    section: Section
    units: tuple[Unit, Unit] | None
    pair: CodePair
    alignment: Alignment
    a: list[Item]
    b: list[Item]
    branches: tuple[tuple[int, int, int], ...]

    @property
    def function(self) -> str:
        return self.units[0].label(self.section) if self.units else ""

    def partners(self) -> list[tuple[int, int]]:
        """The items that are equal, by position, a branch's target aside."""
        return [
            (i, block.b_low - block.a_low + i)
            for block in self.alignment.blocks
            if block.equal
            for i in range(block.a_low, block.a_high)
        ]


def target_of(item: Item) -> int | None:
    """Where a direct branch goes; None for everything else."""
    return branch_target(item) if isinstance(item, Instruction) else None


def without_literal(item: Instruction, reference: CodeReference) -> str:
    """An instruction with the kind of a reference in place of the distance."""
    operands = item.operands.split(", ")
    operands[reference.operand] = reference.kind
    return f"{item.mnemonic} {', '.join(operands)}"


def stem(branch: Instruction) -> str:
    """A branch without its target, which is a number or a label of any spelling."""
    if is_a(branch.mnemonic, "branch without operands"):
        return branch.mnemonic
    return branch.text.partition(",")[0]
