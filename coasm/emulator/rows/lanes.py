"""Exchange between lanes: single lanes, permutations, swaps."""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import INDEX_DST, Step, spread, store
from coasm.emulator.state.waves import Group
from coasm.isa import Parsed

__all__: list[str] = []


def _bpermute(backward: bool) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        d = ctx.rows(parsed.operands[0])[0]
        index, data = (ctx.rows(op)[0] for op in parsed.operands[1:3])
        offset = np.uint32(parsed.number("offset"))
        last = np.uint32(ctx.layout.lanes - 1)

        def step(s: Group) -> None:
            lane = ((s.u[index] + offset) >> np.uint32(2) & last).astype(np.int64)
            source = s.u[data] if s.full else np.where(s.mask, s.u[data], np.uint32(0))
            rows = np.arange(s.n)[:, None]
            if backward:
                store(s, d, source[rows, lane])
                return
            out = np.zeros(s.shape, np.uint32)
            on = np.broadcast_to(s.mask, lane.shape)
            which = np.broadcast_to(rows, lane.shape)
            out[which[on], lane[on]] = source[on]  # the highest lane wins
            store(s, d, out)

        return step

    return build


row("ds_bpermute_b32", _bpermute(True))
row("ds_permute_b32", _bpermute(False))


def _swizzle(ctx: Context, parsed: Parsed) -> Step:
    d, a = ctx.rows(parsed.operands[0])[0], ctx.rows(parsed.operands[1])[0]
    # From the encoding: the text names the patterns.
    parsed.modifiers.get("offset")
    number = int.from_bytes(ctx.data[:2], "little")
    lane = np.arange(ctx.layout.lanes)
    if number & 0x8000:
        lanes = lane & ~3 | (number >> 2 * (lane & 3) & 3)
    else:
        low = lane & 31
        lanes = lane & 32 | ((low & number & 31 | number >> 5 & 31) ^ number >> 10 & 31)

    def step(s: Group) -> None:
        source = s.u[a] if s.full else np.where(s.mask, s.u[a], np.uint32(0))
        store(s, d, source[:, lanes])

    return step


row("ds_swizzle_b32", _swizzle)


def _readfirstlane(ctx: Context, parsed: Parsed) -> Step:
    get = ctx.raw_source(parsed.operands[1], 0)
    put = ctx.scalar_target(parsed.operands[0], "u32")

    def step(s: Group) -> None:
        value = spread(get(s), s.shape)
        if s.full:
            put(s, value[:, 0])
        else:
            put(s, value[np.arange(s.n), s.mask.argmax(axis=1)])  # lane 0 where EXEC is 0

    return step


def _readlane(ctx: Context, parsed: Parsed) -> Step:
    get, last = ctx.raw_source(parsed.operands[1], 0), np.uint32(ctx.layout.lanes - 1)
    lane, put = (
        ctx.scalar_source(parsed.operands[2], "u32"),
        ctx.scalar_target(parsed.operands[0], "u32"),
    )

    def step(s: Group) -> None:
        value = spread(get(s), s.shape)
        put(s, value[np.arange(s.n), np.broadcast_to(lane(s) & last, (s.n,))])

    return step


def _writelane(ctx: Context, parsed: Parsed) -> Step:
    d = ctx.rows(parsed.operands[0])[0]
    value, lane = (ctx.scalar_source(op, "u32") for op in parsed.operands[1:3])
    last = np.uint32(ctx.layout.lanes - 1)
    ctx.indexes |= INDEX_DST
    if ctx.index & INDEX_DST:
        one = np.arange(ctx.layout.lanes)
        put = ctx.indexed_target(d, lambda s: one == np.reshape(lane(s) & last, (-1, 1)))
        return lambda s: put(s, np.reshape(value(s), (-1, 1)))

    def step(s: Group) -> None:
        s.u[d][np.arange(s.n), np.broadcast_to(lane(s) & last, (s.n,))] = value(s)

    return step


row("v_readfirstlane_b32", _readfirstlane)
row("v_readlane_b32", _readlane)
row("v_writelane_b32", _writelane)


def _permlane_swap(width: int) -> Callable[[Context, Parsed], Step]:
    """Odd rows of the result with even rows of the source; rows of *width* lanes."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        d, a = ctx.rows(parsed.operands[0])[0], ctx.rows(parsed.operands[1])[0]

        def step(s: Group) -> None:
            pairs = (s.n, s.layout.lanes // width // 2, 2, width)
            x, y = s.u[d].reshape(pairs)[:, :, 1], s.u[a].reshape(pairs)[:, :, 0]
            if not s.full:
                # Without bounds checking a lane takes part if both are on.
                on = s.mask.reshape(pairs)
                both = on[:, :, 0] & on[:, :, 1]
                if (on[:, :, 0] ^ on[:, :, 1]).any():
                    raise Fault("lanes that exchange values are switched off in part")
                saved = x.copy()
                np.copyto(x, y, where=both)
                np.copyto(y, saved, where=both)
                return
            saved = x.copy()
            x[...] = y
            y[...] = saved

        return step

    return build


row("v_permlane16_swap_b32", _permlane_swap(16))
row("v_permlane32_swap_b32", _permlane_swap(32))


def _swap_registers(ctx: Context, parsed: Parsed) -> Step:
    d, a = ctx.rows(parsed.operands[0])[0], ctx.rows(parsed.operands[1])[0]

    def step(s: Group) -> None:
        saved = s.u[d].copy()
        store(s, d, s.u[a])
        store(s, a, saved)

    return step


row("v_swap_b32", _swap_registers)
