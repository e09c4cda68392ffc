"""Where EXEC is known to have every lane that the wave began with: forward along the flow.

A state is bits: of EXEC, and of each scalar register (of the first of a pair in waves of 64) that
holds such a mask, because EXEC was saved there. Source: the ISA guides, SOP1 and SOP2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from coasm.flow.forward import forward
from coasm.isa import EXEC, Access, Parsed, Register
from coasm.isa.kinds import is_a
from coasm.isa.text import Literal, Operand

__all__ = ["whole_after", "whole_at_starts"]


def whole_after(parsed: Parsed, used: Access, state: int, words: int) -> int:
    """The state behind an instruction; a mask has so many *words*."""
    gained = _gained(parsed, state, words)
    for number in used.writes:
        if state >> (number - words + 1 if number >= words else 0):
            state &= ~(((1 << words) - 1) << number >> (words - 1))
    return state | gained


def _gained(parsed: Parsed, state: int, words: int) -> int:
    operands = parsed.operands
    into = operands[0] if operands else None
    if not isinstance(into, Register) or into.size != words:
        return 0

    def holds(operand: Operand) -> bool:
        if isinstance(operand, Literal):
            return operand.value == -1
        return isinstance(operand, Register) and operand.size == words and _at(state, operand.first)

    name, sources = parsed.mnemonic, operands[1:]
    if is_a(name, "saves EXEC"):
        gained = _at(state, EXEC) << into.first
        either = is_a(name, "widens EXEC") and (_at(state, EXEC) or holds(sources[0]))
        both = is_a(name, "narrows EXEC") and _at(state, EXEC) and holds(sources[0])
        whole = both and not is_a(name, "and of an inverse")
        return gained | int(bool(either or whole)) << EXEC
    if is_a(name, "move of masks"):
        return holds(sources[0]) << into.first
    if is_a(name, "or of masks"):
        return any(map(holds, sources)) << into.first
    return 0


def _at(state: int, number: int) -> bool:
    return bool(state >> number & 1)


def whole_at_starts(
    blocks: Sequence[Sequence[int]],
    entry: Mapping[int, int],
    accesses: Callable[[int], Iterable[tuple[Parsed, Access]]],
    words: int,
) -> dict[int, int]:
    """The state where each block begins; *blocks* are those that follow each one."""

    def transfer(number: int, state: int) -> int:
        for parsed, used in accesses(number):
            state = whole_after(parsed, used, state, words)
        return state

    return forward(
        blocks.__getitem__,
        entry,
        transfer,
        lambda known, new: known & new if known & ~new else known,
    )
