"""Which registers hold what may still be read: backward along the control flow.

A vector register is live for the lanes that EXEC switches on, or for those that it switches off: a
vector instruction writes only the former, so it makes an end of what they held and not of the rest.
Scalar registers are live for both. What changes EXEC moves lanes from one side to the other. Where
flow goes on to what is not known here, every register is live. Source: the ISA guides, "EXECute
Mask".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from coasm.flow.forward import forward
from coasm.isa import EXEC, VGPR, Access, Parsed, Register, takes_lanes
from coasm.isa.kinds import is_a
from coasm.isa.text import Literal

__all__ = ["EVERYTHING", "Effect", "Live", "before", "effect_of", "live_at_ends"]

#: More registers than any target has numbers for.
EVERYTHING = (1 << 4096) - 1
_SCALARS = (1 << VGPR) - 1
_EXEC = 0b11 << EXEC


class Live(NamedTuple):
    """Registers, as bits, that are live for the lanes that are switched on, and off."""

    on: int
    off: int

    @property
    def registers(self) -> int:
        """Those that are live for any lane."""
        return self.on | self.off


NOTHING = Live(0, 0)
ALL = Live(EVERYTHING, EVERYTHING)


class Effect(NamedTuple):
    """What an instruction does to what is live before it, from what is live behind it.

    ``reads`` and ``writes`` are of lanes that are on, ``reads_all`` and ``writes_all`` of every
    lane. ``lanes`` is how it changes which lanes are on: ``same``, ``all``, ``fewer``, ``more``,
    ``any``.
    """

    reads: int
    writes: int
    reads_all: int
    writes_all: int
    lanes: str = "same"


def effect_of(parsed: Parsed, used: Access) -> Effect:
    """The effect of one instruction that reads and writes what *used* says."""
    reads, writes = _bits(used.reads), _bits(used.writes)
    if is_a(parsed.mnemonic, "relative register"):
        return Effect(0, 0, EVERYTHING, 0)
    lanes = _lanes(parsed) if writes & _EXEC else "same"
    if not takes_lanes(parsed):
        return Effect(0, 0, reads, writes & ~_bits(used.kept), lanes)
    scalars = writes & _SCALARS
    own = writes & ~_SCALARS & ~_bits(used.kept)
    if parsed.encoding.endswith(("dpp", "dpp8")) or is_a(parsed.mnemonic, "other lanes"):
        return Effect(0, own, reads, scalars, lanes)
    return Effect(reads & ~_SCALARS, own, reads & _SCALARS, scalars, lanes)


def _lanes(parsed: Parsed) -> str:
    name, operands = parsed.mnemonic, parsed.operands
    if is_a(name, "narrows EXEC"):
        return "fewer"
    if is_a(name, "widens EXEC"):
        return "more"
    first, second = (*operands[1:3], None, None)[:2]
    if is_a(name, "move of masks") and isinstance(first, Literal) and first.value == -1:
        whole = isinstance(operands[0], Register) and operands[0].size == 2
        return "all" if whole else "any"
    if is_a(name, "and of masks") and (
        _is_exec(first) or (_is_exec(second) and "n" not in name[5:])
    ):
        return "fewer"
    if is_a(name, "or of masks") and (_is_exec(first) or _is_exec(second)):
        return "more"
    return "any"


def _is_exec(operand: object) -> bool:
    return isinstance(operand, Register) and operand.first in (EXEC, EXEC + 1)


def _bits(numbers: Iterable[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def before(effect: Effect, behind: Live) -> Live:
    """What is live before an instruction."""
    on, off = behind
    if effect.lanes == "all":
        off = on
    elif effect.lanes == "fewer":
        on = on | off
    elif effect.lanes == "more":
        off = on | off
    elif effect.lanes == "any":
        on = off = on | off
    on = on & ~effect.writes & ~effect.writes_all | effect.reads | effect.reads_all
    off = off & ~effect.writes_all | effect.reads_all
    return Live(on, off)


def live_at_ends(
    blocks: Sequence[Sequence[int]],
    unknown: Iterable[int],
    effects: Callable[[int], Iterable[Effect]],
) -> list[Live]:
    """What is live where each block ends.

    *blocks* are the blocks that follow each one, *unknown* those behind which flow goes elsewhere,
    *effects* what the instructions of one do, the last first.
    """
    count = len(blocks)
    ends = {number: NOTHING for number in range(count)}
    for number in unknown:
        ends[number] = ALL
    preceding: list[list[int]] = [[] for _ in blocks]
    for number, follows in enumerate(blocks):
        for following in follows:
            preceding[following].append(number)
    kept: dict[int, tuple[Effect, ...]] = {}

    def transfer(turned: int, live: Live) -> Live:
        number = count - 1 - turned
        if number not in kept:
            kept[number] = tuple(effects(number))
        for effect in kept[number]:
            live = before(effect, live)
        return live

    # The last block has the lowest number, because that is the order in which forward goes.
    found = forward(
        lambda turned: (count - 1 - one for one in preceding[count - 1 - turned]),
        {count - 1 - number: live for number, live in ends.items()},
        transfer,
        _merge,
    )
    return [found[count - 1 - number] for number in range(count)]


def _merge(known: Live, new: Live) -> Live:
    on, off = known.on | new.on, known.off | new.off
    return known if (on, off) == known else Live(on, off)
