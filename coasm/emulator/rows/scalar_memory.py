"""Loads of scalar memory, and clocks.

Source: CDNA3 and CDNA4 ISA guides, "Scalar Memory".
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.moves import MASK48
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import Getter, Step
from coasm.emulator.state import places, spaces
from coasm.emulator.state.waves import Group
from coasm.isa import Literal, Parsed, Register

__all__: list[str] = []


def _scalar_load(dwords: int, buffer: bool = False) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        target, base, offset = parsed.operands[:3]
        assert isinstance(target, Register) and isinstance(base, Register)
        pair = ctx.pair(base)
        number = parsed.number("offset")
        if isinstance(offset, Literal):
            ctx.take(offset)
            number += int(offset.value)
            where: Getter | None = None
        else:
            where = ctx.scalar_source(offset, "u32")
        first = [ctx.scalar(n) for n in target.numbers]
        if len(first) != dwords:
            raise Fault("the result does not have the size of what is loaded")
        constant = np.int64(number).astype(np.uint64)
        shared = ctx.shared

        def step(s: Group) -> None:
            address = s.d[pair] + constant
            if buffer:
                address = (s.d[pair] & MASK48) + constant
            if where is not None:
                address = address + where(s)
            limit = None
            if buffer:
                stride = (s.su[2 * pair + 1] >> np.uint32(16) & np.uint32(0x3FFF)).astype(np.uint64)
                size = s.su[2 * pair + 2].astype(np.uint64) * np.where(
                    stride == 0, np.uint64(1), stride
                )
                relative = address - (s.d[pair] & MASK48)
                limit = relative + np.uint64(4 * dwords) <= size
                if not limit.all():
                    raise Fault(
                        "a scalar buffer load beyond the buffer is not emulated",
                        int(np.argmin(limit)),
                    )
            parts = spaces.global_memory(
                shared, s, np.ascontiguousarray(address), 4 * dwords, 4, None
            )
            if len(parts) == 1 and parts[0].mask is None:
                values = places.gather(parts[0].views, parts[0].offsets, dwords)
            else:
                values = np.zeros((s.n, dwords), np.uint32)
                for part in parts:
                    mask = np.ones(s.n, bool) if part.mask is None else part.mask
                    values[mask] = places.gather(part.views, part.offsets[mask], dwords)
            for at, number in enumerate(first):
                s.su[number][...] = values[:, at]

        return step

    return build


for _n, _suffix in ((1, ""), (2, "x2"), (4, "x4"), (8, "x8"), (16, "x16")):
    row(f"s_load_dword{_suffix}", _scalar_load(_n), inert="glc")
    row(f"s_buffer_load_dword{_suffix}", _scalar_load(_n, buffer=True), inert="glc")


def _time(ctx: Context, parsed: Parsed) -> Step:
    put, shared = ctx.scalar_target(parsed.operands[0], "u64"), ctx.shared
    return lambda s: put(s, np.full(s.n, shared.clock, np.uint64))


row("s_memtime s_memrealtime", _time, "s_memtime: counts instructions, not cycles")
