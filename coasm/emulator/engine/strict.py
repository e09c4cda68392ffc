"""``--strict``: reading a vector or scalar register that was never written is an error."""

from __future__ import annotations

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.values import Step
from coasm.emulator.state.waves import SCALARS, Group
from coasm.isa import EXEC, VGPR, Access, Parsed, register_name, takes_lanes
from coasm.isa.kinds import is_a
from coasm.isa.table import opcode

__all__ = ["checked"]


def checked(step: Step, parsed: Parsed, used: Access, context: Context) -> Step:
    """*step*, after a look at the registers that it reads and before a note of what it writes.

    ``Group.written`` holds, for the rows of the register array and then the scalar registers, a
    flag per wave; a register counts as written once a lane of it was.
    """
    rows = context.layout.rows

    def position(number: int) -> int | None:
        if number >= VGPR:
            try:
                return context.row(number)
            except Fault:
                return None
        return rows + number if number < SCALARS else None

    reads = [(n, position(n)) for n in sorted(used.reads) if n not in (EXEC, EXEC + 1)]
    writes = [at for at in map(position, sorted(used.writes)) if at is not None]
    masked = takes_lanes(parsed)
    # What writes only some lanes, or a part, of a register reads it; that is no use of it.
    found = opcode(parsed.mnemonic, context.shared.processor.family.instructions)
    changes = found is not None and found.slots[:1] and found.slots[0].role == "x"
    in_part = changes and is_a(parsed.mnemonic, "writes in part")
    keeps = in_part or parsed.encoding.endswith("dpp")
    kept = used.kept | used.writes if keeps else used.kept

    def run(s: Group) -> None:
        assert s.written is not None
        active = s.full or bool(s.mask.any())
        for number, at in reads:
            if at is None or number in kept:
                continue
            known = s.written[at]
            bad = ~known
            if number >= VGPR and masked:
                bad = bad & s.mask.any(axis=1)
            if active and bad.any():
                raise Fault(f"{register_name(number)} was never written", int(np.argmax(bad)))
        step(s)
        for at in writes:
            s.written[at] = True

    return run
