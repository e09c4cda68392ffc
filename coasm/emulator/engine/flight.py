"""The memory operations that are in flight, by counter."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["EMPTY", "Flight", "InFlight", "registers_of"]


class Flight(NamedTuple):
    """One memory operation in flight: its instruction, the registers it will write.

    ``ordered`` operations of a counter end in their order. ``writes_lds``: its data reaches LDS
    only when it ends.
    """

    address: int
    mask: int
    ordered: bool
    writes_lds: bool


#: The memory operations in flight by counter, in the order of the target's, oldest first.
InFlight = tuple[tuple[Flight, ...], ...]
#: Nothing is in flight, whatever counters there are.
EMPTY: InFlight = ()


def registers_of(queues: InFlight) -> int:
    """A bit for each register that waits for data."""
    found = 0
    for queue in queues:
        for flight in queue:
            found |= flight.mask
    return found
