"""``--strict``: reading a vector or scalar register that was never written is an error."""

from __future__ import annotations

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context, Step
from coasm.emulator.state.waves import SCALARS, Group
from coasm.isa import EXEC, VGPR, Access, Parsed, register_name

__all__ = ["checked"]

#: What may write only some lanes, or a part, of its destination and keeps the rest.
_KEEP = ("v_writelane", "v_fma_mix", "v_mad_mix", "v_cvt_")
_WHOLE = ("v_mfma", "v_readlane", "v_writelane")


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
    # Lane-wise writes (v_writelane) read the register that they change; that is no use of it.
    merged = used.reads & used.writes if parsed.mnemonic == "v_writelane_b32" else frozenset()
    keeps = parsed.encoding.endswith("dpp") or parsed.mnemonic.startswith(_KEEP)

    def run(s: Group) -> None:
        assert s.written is not None
        active = s.full or bool(s.mask.any())
        for number, at in reads:
            if at is None or number in merged or (keeps and number in used.writes):
                continue
            known = s.written[at]
            bad = ~known
            if number >= VGPR and not parsed.mnemonic.startswith(_WHOLE):
                bad = bad & s.mask.any(axis=1)
            if active and bad.any():
                raise Fault(f"{register_name(number)} was never written", int(np.argmax(bad)))
        step(s)
        for at in writes:
            s.written[at] = True

    return run
