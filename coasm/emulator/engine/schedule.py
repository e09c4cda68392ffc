"""The groups of waves of a launch: which runs next, where they split and meet, barriers."""

from __future__ import annotations

import numpy as np

from coasm.emulator.engine.program import Program
from coasm.emulator.errors import EmulationError
from coasm.emulator.state.places import Array
from coasm.emulator.state.shared import Shared
from coasm.emulator.state.waves import Group, join

__all__ = ["Schedule"]

#: How far from the lowest address on the fair choice of a group is made: every so many blocks.
_FAIR = 64


class Schedule:
    """The waves of *workgroups* workgroups, *waves* each.

    By workgroup: how many waves have ``arrived`` at a barrier, how many are ``alive``, where the
    last one ``ended``.
    """

    def __init__(self, program: Program, shared: Shared, workgroups: int, waves: int) -> None:
        self.program, self.shared, self.waves = program, shared, waves
        self.turn = 0
        self.arrived: Array = np.zeros(workgroups, np.int64)
        self.alive: Array = np.full(workgroups, waves, np.int64)
        self.ended: Array = np.full(workgroups, -1, np.int64)

    def choose(self) -> Group:
        """The group that runs next, together with all that stand at its place.

        Raises:
            EmulationError: all wait at a barrier that is never complete.
        """
        self.turn += 1
        groups = self.shared.groups
        if len(groups) == 1 and groups[0].barrier < 0:
            best = groups[0]
        else:
            ready = [g for g in groups if g.barrier < 0]
            if not ready:
                raise self._stuck()
            fair = self.turn % _FAIR == 0
            best = min(ready, key=lambda g: g.turn if fair else g.pc)
            same = [g for g in ready if g.pc == best.pc and g.key == best.key]
            if len(same) > 1:
                best = join(same, self.shared.constants)
                gone = {id(g) for g in same}
                self.shared.groups = [g for g in groups if id(g) not in gone]
                self.shared.groups.append(best)
        best.turn = self.turn
        return best

    def split(self, s: Group, leave: Array) -> tuple[Group, Group]:
        """*s* in two groups: of the waves that stay, and of those of *leave* ([n] booleans)."""
        gone = s.take(np.flatnonzero(leave), self.shared.constants)
        stay = s.take(np.flatnonzero(~leave), self.shared.constants)
        self._remove(s)
        self.shared.groups += [stay, gone]
        return stay, gone

    def wait(self, s: Group, address: int) -> None:
        """The waves of *s* have come to the barrier at *address*."""
        if self.waves == 1:
            if self.shared.race is not None:
                self.shared.race.epoch[s.wg] += 1
            return
        s.barrier = address
        np.add.at(self.arrived, s.wg, 1)
        self._release()

    def end(self, s: Group, address: int) -> None:
        """The waves of *s* have ended at *address*."""
        self._remove(s)
        np.subtract.at(self.alive, s.wg, 1)
        self.ended[s.wg] = address
        self._release()

    def who(self, s: Group, row: int) -> str:
        """One wave of a group, for a message."""
        wave = int(s.waves[row])
        return f", wave {wave} (workgroup {wave // self.waves})"

    def _remove(self, group: Group) -> None:
        self.shared.groups = [g for g in self.shared.groups if g is not group]

    def _release(self) -> None:
        """Let the workgroups go on whose waves have all reached a barrier."""
        full = (self.arrived == self.alive) & (self.arrived > 0)
        if not full.any():
            return
        early = full & (self.alive < self.waves)
        waiting = [g for g in self.shared.groups if g.barrier >= 0]
        if early.any():
            for group in waiting:
                rows = np.flatnonzero(early[group.wg])
                if rows.size:
                    raise self._ended_early(group, int(rows[0]))
        for group in waiting:
            free = full[group.wg]
            if free.all():
                group.barrier = -1
            elif free.any():
                self.split(group, free)[1].barrier = -1
        self.arrived[full] = 0
        if self.shared.race is not None:
            self.shared.race.epoch[full] += 1

    def _stuck(self) -> EmulationError:
        group = self.shared.groups[0]
        missing = self.alive[group.wg] - self.arrived[group.wg]
        row = int(np.argmax(missing))
        text = f"a barrier that {int(missing[row])} waves of the workgroup never reach"
        return self.program.error(group.barrier, text, self.who(group, row))

    def _ended_early(self, group: Group, row: int) -> EmulationError:
        ended = self.program.place(int(self.ended[group.wg[row]]))
        text = f"a barrier that some waves of the workgroup never reach: they ended at {ended}"
        return self.program.error(group.barrier, text, self.who(group, row))
