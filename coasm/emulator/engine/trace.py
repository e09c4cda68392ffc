"""``--trace`` and ``--stop-at``: what a wave does, and its registers and LDS at a place."""

from __future__ import annotations

import numpy as np

from coasm.emulator.engine.program import Program
from coasm.emulator.options import Trace
from coasm.emulator.state.places import Array
from coasm.emulator.state.shared import Shared
from coasm.emulator.state.waves import SCALARS, Group, Layout
from coasm.isa import AGPR, VGPR, register_name

__all__ = ["Tracer", "dump_text"]


class Tracer:
    """Writes each instruction of one wave with the registers that it changed, for one lane."""

    def __init__(self, program: Program, shared: Shared, options: Trace) -> None:
        self.program, self.shared, self.options = program, shared, options
        self._before: tuple[int, Array, Array, bool] | None = None

    def _find(self, groups: list[Group]) -> tuple[Group, int] | None:
        for group in groups:
            rows = np.flatnonzero(group.waves == self.options.wave)
            if rows.size:
                return group, int(rows[0])
        return None

    def before(self, s: Group) -> None:
        """The group is about to run the instruction at its address."""
        found = self._find([s])
        if found is None:
            self._before = None
            return
        row = found[1]
        self._before = (
            s.pc,
            s.V[:, row, self.options.lane].copy(),
            s.S[:, row].ravel().copy(),
            bool(s.scc[row]),
        )

    def after(self) -> None:
        """It has run."""
        if self._before is None:
            return
        address, vector, scalar, scc = self._before
        self._before = None
        text = self.program.instructions[address].text
        changes = []
        found = self._find(self.shared.groups)
        if found is not None:
            s, row = found
            for at in np.flatnonzero(s.S[:, row].ravel() != scalar):
                changes.append(f"{register_name(int(at))}={int(s.S[:, row].ravel()[at]):#010x}")
            now = s.V[:, row, self.options.lane]
            for at in np.flatnonzero(now != vector):
                changes.append(f"{_vector_name(self.shared.layout, int(at))}={int(now[at]):#010x}")
            if bool(s.scc[row]) != scc:
                changes.append(f"scc={int(s.scc[row])}")
        self.options.write(f"{address:08x}: {text:<60} {' '.join(changes)}".rstrip())


def _vector_name(layout: Layout, row: int) -> str:
    vgprs = layout.vgprs
    return register_name(VGPR + row if row < vgprs else AGPR + row - vgprs)


def dump_text(program: Program, shared: Shared, s: Group) -> str:
    """The registers of every wave of the group (lane 0 of vectors) and the LDS that is not zero."""
    lines = [f"stopped at {program.describe(s.pc)}, {s.n} waves"]
    for row in range(min(s.n, 4)):
        lines.append(f"wave {int(s.waves[row])}: scc={int(s.scc[row])}")
        scalars = s.S[:, row].ravel()
        for at in range(SCALARS):
            if scalars[at]:
                lines.append(f"  {register_name(at)} = {int(scalars[at]):#010x}")
        for at in range(shared.layout.rows):
            values = s.V[at, row]
            if values.any():
                shown = " ".join(f"{int(v):08x}" for v in values)
                lines.append(f"  {_vector_name(shared.layout, at)} = {shown}")
    raw = shared.lds_views[4]
    for group in sorted({int(w) for w in s.wg[:4]}):
        start = group * shared.lds_stride // 4
        for at in range(0, shared.lds_size // 4, 8):
            line = raw[start + at : start + min(at + 8, shared.lds_size // 4)]
            if line.any():
                lines.append(
                    f"  lds[{group}] {4 * at:#06x}: " + " ".join(f"{int(v):08x}" for v in line)
                )
    return "\n".join(lines)
