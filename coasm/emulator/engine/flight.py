"""The memory operations that are in flight, by counter."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["EMPTY", "Flight", "InFlight"]


class Flight(NamedTuple):
    """One memory operation in flight: its instruction, the registers it will write.

    ``ordered`` operations of a counter end in their order. ``writes_lds``: its data reaches LDS
    only when it ends.
    """

    address: int
    mask: int
    ordered: bool
    writes_lds: bool


class InFlight(NamedTuple):
    """The memory operations in flight by counter, oldest first."""

    vm: tuple[Flight, ...]
    lgkm: tuple[Flight, ...]

    @property
    def mask(self) -> int:
        """A bit for each register that waits for data."""
        found = 0
        for flight in (*self.vm, *self.lgkm):
            found |= flight.mask
        return found


EMPTY = InFlight((), ())
