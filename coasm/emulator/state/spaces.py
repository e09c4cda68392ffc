"""Where memory accesses go: global buffers, LDS, scratch, and the flat space over all three.

A port turns addresses into places, :class:`Part`: byte offsets into one array, for the lanes of a
mask. Loads, stores and atomics then work on places alike. Loads and stores may lie at any byte, as
the unaligned access mode of ``amdhsa`` allows (LLVM AMDGPU usage, "unaligned-access-mode").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import PRIVATE_APERTURE, SHARED_APERTURE, Array
from coasm.emulator.state.waves import LANES, Deferred, Group

if TYPE_CHECKING:
    from coasm.emulator.machine import Machine

__all__ = [
    "Part",
    "atomic",
    "before_read",
    "covered",
    "flat",
    "gather",
    "global_memory",
    "lds",
    "load",
    "scatter",
    "scratch",
    "settle",
    "store",
]

_LOW = np.uint64(0xFFFF_FFFF)


class Part(NamedTuple):
    """Lanes of an access and their places: ``offsets`` (int64, bytes) into the array of ``views``.

    ``mask`` is None where all lanes take part. ``step`` is how far the next dword of a lane is.
    """

    views: dict[int, NDArray[Any]]
    offsets: Array
    mask: Array | None
    step: int = 4
    space: str = "global"


Port = Callable[["Machine", Group, Array, int, int, "Array | None"], list[Part]]


def global_memory(
    machine: Machine, s: Group, addresses: Array, size: int, align: int, mask: Array | None
) -> list[Part]:
    """*addresses* (uint64) in the buffers of the device."""
    memory = machine.memory
    buffer = memory.locate(addresses, size, align, mask)
    if buffer is not None:
        offsets = (addresses - np.uint64(buffer.address)).view(np.int64)
        return [Part(buffer.views, offsets, mask)]
    parts = []
    for one in memory.buffers():
        low, high = np.uint64(one.address), np.uint64(one.address + one.size)
        inside = (addresses >= low) & (addresses < high)
        if mask is not None:
            inside &= mask
        if inside.any():
            parts.append(Part(one.views, (addresses - low).view(np.int64), inside))
    return parts


def lds(
    machine: Machine, s: Group, addresses: Array, size: int, align: int, mask: Array | None
) -> list[Part]:
    """*addresses* (uint32, from the start of the workgroup's LDS)."""
    used = addresses if mask is None else addresses[mask]
    if not used.size:
        return []
    bits = int(np.bitwise_or.reduce(used, axis=None))
    if int(np.maximum.reduce(used, axis=None)) + size > machine.lds_size:
        bad = addresses.astype(np.int64) + size > machine.lds_size
        _fault(
            f"access outside of LDS: {size} bytes at {{:#x}}, {machine.lds_size} are allocated",
            addresses,
            bad,
            mask,
        )
    if bits & (align - 1):
        bad = (addresses & addresses.dtype.type(align - 1)) != 0
        _fault(
            f"misaligned LDS access: {size} bytes at {{:#x}}, no multiple of {align}",
            addresses,
            bad,
            mask,
        )
    offsets = addresses.astype(np.int64)
    if machine.lds_stride:
        offsets += s.wg[:, None] * machine.lds_stride
    return [Part(machine.lds_views, offsets, mask, space="lds")]


def scratch(
    machine: Machine, s: Group, addresses: Array, size: int, align: int, mask: Array | None
) -> list[Part]:
    """*addresses* (uint32, bytes of a lane's own): dwords interleave across the wave."""
    used = addresses if mask is None else addresses[mask]
    if not used.size:
        return []
    if int(np.maximum.reduce(used, axis=None)) + size > machine.scratch_size:
        bad = addresses.astype(np.int64) + size > machine.scratch_size
        _fault(
            f"access outside of scratch: {size} bytes at {{:#x}}, {machine.scratch_size} bytes are "
            "allocated",
            addresses,
            bad,
            mask,
        )
    if int(np.bitwise_or.reduce(used, axis=None)) & (align - 1):
        bad = (addresses & addresses.dtype.type(align - 1)) != 0
        _fault(f"misaligned scratch access: {size} bytes at {{:#x}}", addresses, bad, mask)
    offsets = addresses.astype(np.int64)
    lane = np.arange(LANES) * 4
    wave = (s.waves - machine.first_wave)[:, None] * (machine.scratch_size * LANES)
    offsets = wave + (offsets >> 2) * (4 * LANES) + lane + (offsets & 3)
    return [Part(machine.scratch_views, offsets, mask, 4 * LANES, "scratch")]


def flat(
    machine: Machine, s: Group, addresses: Array, size: int, align: int, mask: Array | None
) -> list[Part]:
    """*addresses* (uint64) in the flat space: LDS and scratch have an aperture each."""
    high = addresses >> np.uint64(32)
    is_lds, is_private = high == SHARED_APERTURE, high == PRIVATE_APERTURE
    if mask is not None:
        is_lds, is_private = is_lds & mask, is_private & mask
    if not is_lds.any() and not is_private.any():
        return global_memory(machine, s, addresses, size, align, mask)
    rest = ~(is_lds | is_private)
    if mask is not None:
        rest &= mask
    low = (addresses & _LOW).astype(np.uint32)
    parts = []
    if rest.any():
        parts += global_memory(machine, s, addresses, size, align, rest)
    if is_lds.any():
        parts += lds(machine, s, low, size, align, is_lds)
    if is_private.any():
        parts += scratch(machine, s, low, size, align, is_private)
    return parts


def _fault(text: str, addresses: Array, bad: Array, mask: Array | None) -> None:
    bad = np.broadcast_to(bad, addresses.shape)
    place = np.argwhere(bad if mask is None else bad & mask)[0]
    lane = int(place[1]) if len(place) > 1 else None
    raise Fault(text.format(int(addresses[tuple(place)])), int(place[0]), lane)


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


def apply(machine: Machine, s: Group, entry: Deferred) -> None:
    """A write to LDS that was in flight is done: its dwords become visible."""
    if entry.valid is None:
        scatter(machine.lds_views, entry.index, entry.values)
    else:
        scatter(machine.lds_views, entry.index[entry.valid], entry.values[entry.valid])


def settle(machine: Machine, s: Group) -> None:
    """The writes to LDS that the waves have in flight are done: they come before what follows."""
    for entry in s.ds_queue:
        if not entry.applied:
            apply(machine, s, entry)
            entry.applied = True


def before_read(machine: Machine, s: Group, parts: list[Part], size: int) -> None:
    """A wave reads LDS: its own writes, even those without a wait, come first.

    Raises:
        Fault: it reads what another wave has written without a wait so far.
    """
    settle(machine, s)
    owners = []
    for entry in s.ds_queue:
        on = np.ones(entry.index.shape, bool) if entry.valid is None else entry.valid
        if on.any():
            dwords = covered(entry.index[on], 4 * entry.values.shape[-1])
            rows = np.broadcast_to(np.arange(s.n)[:, None], on.shape)[on]
            owners.append((dwords.ravel(), np.repeat(rows, dwords.shape[1])))
    places = [part for part in parts if part.space == "lds"]
    if not owners or not places or s.n == 1:
        return
    written = np.concatenate([dwords for dwords, _ in owners])
    writer = np.concatenate([rows for _, rows in owners])
    order = np.argsort(written, kind="stable")
    written, writer = written[order], writer[order]
    for part in places:
        on = np.ones(part.offsets.shape, bool) if part.mask is None else part.mask
        dwords = covered(part.offsets[on], size)
        read = dwords.ravel()
        rows = np.repeat(np.broadcast_to(np.arange(s.n)[:, None], on.shape)[on], dwords.shape[1])
        for side, back in (("left", 0), ("right", 1)):
            at = np.searchsorted(written, read, side=side) - back  # type: ignore[call-overload]
            at = np.clip(at, 0, len(written) - 1)
            bad = (written[at] == read) & (writer[at] != rows)
            if bad.any():
                first = int(np.argmax(bad))
                raise Fault(
                    "it reads LDS that another wave has written, without an s_waitcnt lgkmcnt",
                    int(rows[first]),
                )
