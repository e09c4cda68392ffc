"""Places of a memory access, :class:`Part`: byte offsets into one array, for the lanes of a mask.

Loads, stores and atomics work on them, whatever memory the array is. Loads and stores may lie at
any byte, as the unaligned access mode of ``amdhsa`` allows (LLVM AMDGPU usage,
"unaligned-access-mode").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Part", "atomic", "covered", "gather", "load", "scatter", "store"]

Array = NDArray[Any]


class Part(NamedTuple):
    """Lanes of an access and their places: ``offsets`` (int64, bytes) into the array of ``views``.

    ``mask`` is None where all lanes take part. ``step`` is how far the next dword of a lane is.
    """

    views: dict[int, NDArray[Any]]
    offsets: Array
    mask: Array | None
    step: int = 4
    space: str = "global"


def _any_bits(offsets: Array) -> int:
    return int(np.bitwise_or.reduce(offsets, axis=None)) if offsets.size else 0


def _each_byte(offsets: Array, count: int, step: int) -> Array:
    """The places of *count* bytes from each of *offsets* on, int64 [..., count]."""
    within = (offsets & 3)[..., None] + np.arange(count)
    places: Array = (offsets & ~3)[..., None] + (within >> 2) * step + (within & 3)
    return places


def covered(offsets: Array, size: int) -> Array:
    """The dwords that *size* bytes at each of *offsets* (int64 [n]) lie in, int64 [n, ...]."""
    dwords: Array
    if _any_bits(offsets) & 3:
        dwords = (offsets[:, None] + np.arange(size)) >> 2
    else:
        dwords = (offsets >> 2)[:, None] + np.arange(max(1, size // 4))
    return dwords


def gather(views: dict[int, NDArray[Any]], offsets: Array, dwords: int, step: int = 4) -> Array:
    """uint32 [..., dwords] from byte offsets."""
    bits = _any_bits(offsets)
    if bits & 3:
        unaligned: Array = views[1].take(_each_byte(offsets, 4 * dwords, step)).view(np.uint32)
        return unaligned
    if dwords == 1:
        out: Array = views[4].take(offsets >> 2)[..., None]
        return out
    if step == 4:
        if dwords == 4 and not bits & 15:
            return views[16].take(offsets >> 4)[..., None].view(np.uint32)
        if dwords == 2 and not bits & 7:
            return views[8].take(offsets >> 3)[..., None].view(np.uint32)
    spread = (offsets >> 2)[..., None] + np.arange(dwords) * (step >> 2)
    return views[4].take(spread)


def scatter(views: dict[int, NDArray[Any]], offsets: Array, values: Array, step: int = 4) -> None:
    """Put uint32 [..., dwords] at byte offsets."""
    dwords = values.shape[-1]
    bits = _any_bits(offsets)
    if bits & 3:
        views[1][_each_byte(offsets, 4 * dwords, step)] = np.ascontiguousarray(values).view(
            np.uint8
        )
        return
    if step == 4 and dwords in (2, 4) and offsets.size:
        wide = 4 * dwords
        if not bits & (wide - 1):
            dtype = np.uint64 if wide == 8 else np.complex128
            raw = np.ascontiguousarray(values).view(dtype)[..., 0]
            views[wide][offsets >> (3 if wide == 8 else 4)] = raw
            return
    for at in range(dwords):
        views[4][(offsets + at * step) >> 2] = values[..., at]


def _gather_narrow(part: Part, offsets: Array, size: int) -> Array:
    """1 or 2 bytes from each of *offsets*."""
    narrow: Array
    if size == 2 and _any_bits(offsets) & 1:
        narrow = part.views[1].take(_each_byte(offsets, 2, part.step)).view(np.uint16)[..., 0]
    else:
        narrow = part.views[size].take(offsets >> (size >> 1))
    return narrow


def _scatter_narrow(part: Part, offsets: Array, values: Array, size: int) -> None:
    """Put the low 1 or 2 bytes of uint32 *values* at *offsets*."""
    low = values.astype(np.uint8 if size == 1 else np.uint16)
    if size == 2 and _any_bits(offsets) & 1:
        part.views[1][_each_byte(offsets, 2, part.step)] = low[..., None].view(np.uint8)
    else:
        part.views[size][offsets >> (size >> 1)] = low


def load(parts: list[Part], shape: tuple[int, int], size: int) -> Array:
    """What the parts hold: uint32 [waves, lanes, dwords]; 1 or 2 bytes zero-extended."""
    dwords = max(size // 4, 1)
    if len(parts) == 1 and parts[0].mask is None:
        part = parts[0]
        if size < 4:
            return _gather_narrow(part, part.offsets, size).astype(np.uint32)[..., None]
        return gather(part.views, part.offsets, dwords, part.step)
    out = np.zeros((*shape, dwords), np.uint32)
    for part in parts:
        mask = np.ones(shape, bool) if part.mask is None else part.mask
        where = part.offsets[mask]
        if size < 4:
            out[mask, 0] = _gather_narrow(part, where, size)
        else:
            out[mask] = gather(part.views, where, dwords, part.step)
    return out


def store(parts: list[Part], values: Array, size: int) -> None:
    """Put values (uint32 [waves, lanes, dwords]; 1 or 2 bytes: the low ones) at the parts."""
    for part in parts:
        mask = part.mask
        where = part.offsets if mask is None else part.offsets[mask]
        data = values if mask is None else values[mask]
        if size < 4:
            _scatter_narrow(part, where, data[..., 0], size)
        else:
            scatter(part.views, where, data, part.step)


def atomic(
    parts: list[Part],
    shape: tuple[int, int],
    dtype: Any,
    update: Callable[[Array, Array], Array],
    data: Array,
    ufunc: np.ufunc | None,
    returns: bool,
) -> Array | None:
    """``old = memory; memory = update(old, data)`` lane after lane; the old values if *returns*.

    *data* is [waves, lanes] of *dtype*, or with a last axis of its own (compare-and-swap). Waves
    go in order, then lanes. *ufunc*, where there is one, does the same on finite numbers.
    """
    size = np.dtype(dtype).itemsize
    old = np.zeros(shape, dtype) if returns else None
    for part in parts:
        mask = np.ones(shape, bool) if part.mask is None else part.mask
        where = part.offsets[mask] >> (2 if size == 4 else 3)
        operand = data[mask]
        view = part.views[size].view(dtype)
        before = np.empty(len(where), dtype) if returns else None
        plain = dtype not in (np.float32, np.float64) or bool(
            np.isfinite(view[where]).all() and np.isfinite(operand).all()
        )
        if ufunc is not None and not returns and plain:
            ufunc.at(view, where, operand)
            continue
        # Rounds: in each, the first of the lanes that are left for every address.
        left = np.arange(len(where))
        while left.size:
            _, first = np.unique(where[left], return_index=True)
            now = left[first]
            at = where[now]
            value = view[at]
            if before is not None:
                before[now] = value
            view[at] = update(value, operand[now])
            left = np.delete(left, first)
        if old is not None and before is not None:
            old[mask] = before
    return old
