"""Global, flat and scratch memory; loads from global memory to LDS.

Source: CDNA3 and CDNA4 ISA guides, "Flat Memory".
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.atomics import OPS, run_atomic, size_of
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.moves import (
    ANY_BYTE,
    CACHE,
    DMA_SIZES,
    LOADS,
    SCOPE,
    STORES,
    Move,
    active_lanes,
    dma,
)
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import Array, Getter, Step
from coasm.emulator.state import places, spaces
from coasm.emulator.state.waves import Group
from coasm.isa import Parsed, Word

__all__: list[str] = []


def _vector_address(ctx: Context, parsed: Parsed, at: int, space: str) -> Getter:
    """The addresses of an access whose address operands begin at *at*."""
    vaddr = parsed.operands[at]
    saddr = parsed.operands[at + 1] if space != "flat" else Word("off")
    offset = parsed.number("offset")
    if space == "scratch":
        vector = None if isinstance(vaddr, Word) else ctx.rows(vaddr)[0]
        scalar = None if isinstance(saddr, Word) else ctx.scalar_source(saddr, "u32")

        def private(s: Group) -> Array:
            total = np.full(s.shape, np.uint32(offset & 0xFFFF_FFFF))
            if vector is not None:
                total += s.u[vector]
            if scalar is not None:
                total += scalar(s)[:, None] if scalar(s).ndim else scalar(s)
            return total

        return private
    constant = np.int64(offset).astype(np.uint64)
    if isinstance(saddr, Word):
        low, high = ctx.rows(vaddr)[:2]

        def wide(s: Group) -> Array:
            both = np.empty((*s.shape, 2), np.uint32)
            both[..., 0] = s.u[low]
            both[..., 1] = s.u[high]
            address = both.view(np.uint64)[..., 0]
            return address + constant if offset else address

        return wide
    row_at, pair = ctx.rows(vaddr)[0], ctx.pair(saddr)
    return lambda s: s.u[row_at].astype(np.uint64) + (s.d[pair] + constant)[:, None]


_PORTS = {"global": spaces.global_memory, "flat": spaces.flat, "scratch": spaces.scratch}


def _vector_load(space: str, size: int, how: str) -> Callable[[Context, Parsed], Step]:
    port = _PORTS[space]

    def build(ctx: Context, parsed: Parsed) -> Step:
        move = Move(ctx, parsed.operands[0], size, how)
        address, shared = _vector_address(ctx, parsed, 1, space), ctx.shared

        def step(s: Group) -> None:
            parts = port(shared, s, address(s), size, ANY_BYTE, active_lanes(s))
            if s.ds_queue and space == "flat":
                spaces.before_read(shared, s, parts, size)
            move.fill(s, places.load(parts, s.shape, size))

        return step

    return build


def _vector_store(space: str, size: int, how: str) -> Callable[[Context, Parsed], Step]:
    port = _PORTS[space]

    def build(ctx: Context, parsed: Parsed) -> Step:
        if space == "scratch":  # scratch_store off, v0, s33
            data, parts_at = 1, parsed._replace(operands=(parsed.operands[0], *parsed.operands[2:]))
        else:
            data, parts_at = 1, parsed._replace(operands=(parsed.operands[0], *parsed.operands[2:]))
        move = Move(ctx, parsed.operands[data], size, how)
        address, shared = _vector_address(ctx, parts_at, 0, space), ctx.shared

        def step(s: Group) -> None:
            parts = port(shared, s, address(s), size, ANY_BYTE, active_lanes(s))
            if space == "flat":
                spaces.settle(shared, s)
            places.store(parts, move.data(s), size)

        return step

    return build


def _vector_atomic(space: str, name: str) -> Callable[[Context, Parsed], Step]:
    port, op = _PORTS[space], OPS[name]

    def build(ctx: Context, parsed: Parsed) -> Step:
        returns = "sc0" in parsed.modifiers or "glc" in parsed.modifiers
        base = 1 if returns else 0
        operands = parsed.operands[base:]
        unit = np.dtype(op.dtype).itemsize
        move = Move(ctx, operands[1], size_of(op, name), "u")
        target = Move(ctx, parsed.operands[0], unit, "u") if returns else None
        bare = parsed._replace(operands=(operands[0], *operands[2:]))
        address, shared = _vector_address(ctx, bare, 0, space), ctx.shared
        # The memory keeps the denormals of float32, LDS does as the mode says.
        mixed = name == "add_f32" and ctx.flushes_in("f32")

        def step(s: Group) -> None:
            parts = port(shared, s, address(s), unit, unit, active_lanes(s))
            if s.ds_queue and space == "flat":
                spaces.before_read(shared, s, parts, unit)
            if mixed and any(part.space == "lds" for part in parts):
                raise Fault("an atomic on floats in LDS with flushed denormals is not emulated")
            old = run_atomic(s, parts, op, move, returns)
            if target is not None and old is not None:
                target.fill(s, old)

        return step

    return build


for _space in _PORTS:
    for _name, _size, _how in LOADS:
        row(f"{_space}_load_{_name}", _vector_load(_space, _size, _how), inert=CACHE)
    for _name, _size, _how in STORES:
        row(f"{_space}_store_{_name}", _vector_store(_space, _size, _how), inert=CACHE)
    if _space != "scratch":
        for _name, _one in OPS.items():
            row(f"{_space}_atomic_{_name}", _vector_atomic(_space, _name), _one.note, SCOPE)


def _global_lds(name: str) -> Callable[[Context, Parsed], Step]:
    size = DMA_SIZES[name]

    def build(ctx: Context, parsed: Parsed) -> Step:
        address, shared = _vector_address(ctx, parsed, 0, "global"), ctx.shared
        send = dma(ctx, name, parsed.number("offset"))

        def step(s: Group) -> None:
            parts = spaces.global_memory(shared, s, address(s), size, ANY_BYTE, active_lanes(s))
            send(s, places.load(parts, s.shape, size))

        return step

    return build


for _name in ("ubyte", "sbyte", "ushort", "sshort", "dword"):
    row(f"global_load_lds_{_name}", _global_lds(_name), inert=CACHE)
for _name in ("dwordx3", "dwordx4"):
    row(f"global_load_lds_{_name}", _global_lds(_name), inert=CACHE)
