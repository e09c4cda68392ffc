"""Where FP8 comes from and goes to: the loads that bring it, the stores that take it away.

An instruction that takes FP8 has it from whatever wrote its registers last, on every way there;
moves are followed back. Where that is a load, FP8 enters there; where a store has its data from an
instruction that makes FP8, it leaves there. What goes by way of LDS enters where it is read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from coasm.isa.kinds import is_a
from coasm.isa.table import Opcode, opcode
from coasm.isa.text import without_encoding
from coasm.reading import Kernel
from coasm.reading.instruction import Instruction, Operand

__all__ = ["FP8", "crossings"]

#: How the number formats begin that are FP8.
FP8 = ("fp8", "bf8")
_BRINGS, _TAKES = ("load",), ("store", "atomic")
_ADDRESS = ("addr", "base", "rsrc", "soffset", "samp")


def crossings(kernel: Kernel) -> Iterator[tuple[Instruction, Instruction, bool]]:
    """The loads and stores of FP8, each with an instruction that takes or makes it, and whether it
    is brought in.

    Raises:
        UnsupportedError: an instruction that is not described.
    """
    ways = _Ways(kernel)
    code = kernel.instructions
    entered: dict[int, Instruction] = {}
    makers = set()
    for one in code:
        row = ways.row(one)
        if row is None or not any(slot.kind.startswith(FP8) for slot in row.slots):
            continue
        for operand in one.operands:
            if operand.kind.startswith(FP8):
                if operand.role == "read":
                    for source in ways.sources(one.index, operand):
                        entered.setdefault(source, one)
                else:
                    makers.add(one.index)
    for place, taker in sorted(entered.items()):
        if ways.moves_memory(code[place], _BRINGS, "LDS read"):
            yield code[place], taker, True
    for one in code if makers else ():
        if ways.moves_memory(one, _TAKES, "LDS write"):
            data = (o for o in one.operands if o.role == "read" and o.kind not in _ADDRESS)
            made = sorted({at for o in data for at in ways.sources(one.index, o) if at in makers})
            if made:
                yield one, code[made[0]], False


class _Ways:
    """A kernel's code, walked back."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._code = kernel.instructions
        self._set = kernel.co.instruction_set

    def row(self, one: Instruction) -> Opcode | None:
        return opcode(without_encoding(one.mnemonic), self._set)

    def moves_memory(self, one: Instruction, does: tuple[str, ...], lds: str) -> bool:
        """Whether it moves data between registers and memory, in that direction."""
        row = self.row(one)
        if row is None:
            return False
        return row.does in does or (row.unit == "lds" and is_a(one.mnemonic, lds))

    @cached_property
    def _writers(self) -> dict[tuple[int, str], list[int]]:
        """Block and register → the places that write it."""
        found: dict[tuple[int, str], list[int]] = defaultdict(list)
        for block in self._kernel.cfg.blocks:
            for place in block.places:
                for register in self._code[place].writes:
                    found[block.number, register].append(place)
        return found

    def sources(self, place: int, operand: Operand) -> set[int]:
        """What wrote the registers of an operand last; behind moves, what wrote theirs."""
        found: set[int] = set()
        seen: set[tuple[int, str]] = set()
        todo = [(place, register) for register in operand.registers]
        while todo:
            at, register = todo.pop()
            for writer in self._last(at, register):
                if (writer, register) in seen:
                    continue
                seen.add((writer, register))
                one = self._code[writer]
                row = self.row(one)
                if is_a(one.mnemonic, "copy") and row is not None and not row.does:
                    todo += [
                        (writer, source)
                        for other in one.operands
                        if other.role == "read"
                        for source in other.registers
                    ]
                else:
                    found.add(writer)
        return found

    def _last(self, place: int, register: str) -> Iterator[int]:
        """The writers of a register that are met first on the ways back from a place."""
        blocks = self._kernel.cfg.blocks
        number = self._kernel.cfg.block_of(place).number
        todo, seen = [(number, place)], set[int]()
        while todo:
            number, end = todo.pop()
            writers = self._writers.get((number, register), ())
            at = bisect_left(writers, end)
            if at:
                yield writers[at - 1]
                continue
            for before in blocks[number].before:
                if before not in seen:
                    seen.add(before)
                    todo.append((before, blocks[before].last))
