"""``--race``: conflicts between the waves of a workgroup over a dword of LDS.

For each dword the last writer and the last reader are kept with the barrier that came before. Two
waves that touch a dword between the same two barriers, one of them writing, are in conflict.
Direct-to-LDS loads count as writes from when they start to when a wait has seen their end.
"""

from __future__ import annotations

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.state.places import Array, Part, covered
from coasm.emulator.state.waves import Deferred, Group

__all__ = ["Race"]

_MANY = -2


class Race:
    """The last accesses of every dword of LDS of all workgroups."""

    def __init__(self, dwords: int, workgroups: int) -> None:
        self.stride = 4 * dwords // workgroups
        self.epoch = np.ones(workgroups, np.int64)
        self.writer = np.full(dwords, -1, np.int64)
        self.written = np.zeros(dwords, np.int64)
        self.reader = np.full(dwords, -1, np.int64)
        self.was_read = np.zeros(dwords, np.int64)
        self.flying = np.full(dwords, -1, np.int64)

    def _lanes(self, s: Group, parts: list[Part], size: int) -> tuple[Array, Array, Array, Array]:
        """(dwords, waves, epochs, rows) of every lane that takes part."""
        part = parts[0]
        mask = np.ones(part.offsets.shape, bool) if part.mask is None else part.mask
        rows = np.broadcast_to(np.arange(s.n)[:, None], mask.shape)[mask]
        places = covered(part.offsets[mask], size)
        dwords = places.ravel()
        rows = np.repeat(rows, places.shape[1])
        return dwords, s.waves[rows], self.epoch[s.wg[rows]], rows

    def _conflict(self, bad: Array, rows: Array, dwords: Array, what: str, other: Array) -> None:
        if bad.any():
            at = int(np.argmax(bad))
            byte = int(dwords[at]) * 4 % self.stride
            wave = int(other[at])
            who = f"wave {wave}" if wave >= 0 else "several waves"
            raise Fault(
                f"a race: byte {byte:#x} of the LDS {what} by {who} since the last barrier",
                int(rows[at]),
            )

    def read(self, s: Group, parts: list[Part], size: int) -> None:
        """Lanes read: nobody else may have written since the last barrier."""
        if not parts:
            return
        dwords, waves, epochs, rows = self._lanes(s, parts, size)
        writer = self.writer[dwords]
        flying = self.flying[dwords]
        self._conflict(flying >= 0, rows, dwords, "is still being loaded", flying)
        bad = (self.written[dwords] == epochs) & (writer != waves)
        self._conflict(bad, rows, dwords, "was written", writer)
        again = (self.was_read[dwords] == epochs) & (self.reader[dwords] != waves)
        self.reader[dwords] = np.where(again, _MANY, waves)
        # Two waves of this very access that read the same dword.
        self.reader[dwords] = np.where(self.reader[dwords] != waves, _MANY, self.reader[dwords])
        self.was_read[dwords] = epochs

    def write(self, s: Group, parts: list[Part], size: int, *, flying: bool = False) -> None:
        """Lanes write: nobody else may have read or written since the last barrier."""
        if not parts:
            return
        dwords, waves, epochs, rows = self._lanes(s, parts, size)
        reader, writer = self.reader[dwords], self.writer[dwords]
        fly = self.flying[dwords]
        self._conflict(fly >= 0, rows, dwords, "is still being loaded", fly)
        bad = (self.was_read[dwords] == epochs) & (reader != waves)
        self._conflict(bad, rows, dwords, "was read", reader)
        bad = (self.written[dwords] == epochs) & (writer != waves)
        self._conflict(bad, rows, dwords, "was written", writer)
        self.writer[dwords], self.written[dwords] = waves, epochs
        bad = self.writer[dwords] != waves
        self._conflict(bad, rows, dwords, "is written at once", self.writer[dwords])
        if flying:
            self.flying[dwords] = waves

    def landed(self, s: Group, entry: Deferred) -> None:
        """A direct-to-LDS load has ended: its dwords are written now."""
        mask = np.ones(entry.index.shape, bool) if entry.valid is None else entry.valid
        first = entry.index[mask] >> 2
        rows = np.broadcast_to(np.arange(s.n)[:, None], mask.shape)[mask]
        count = entry.values.shape[-1]
        dwords = (first[:, None] + np.arange(count)).ravel()
        rows = np.repeat(rows, count)
        self.writer[dwords], self.written[dwords] = s.waves[rows], self.epoch[s.wg[rows]]
        self.flying[dwords] = -1
