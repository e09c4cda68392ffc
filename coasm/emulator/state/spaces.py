"""Where memory accesses go: global buffers, LDS, scratch, and the flat space over all three.

Each turns addresses into the places, :class:`~coasm.emulator.state.places.Part`, that they are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.state.places import Array, Part, covered, scatter
from coasm.emulator.state.shared import Shared
from coasm.emulator.state.waves import Deferred, Group

__all__ = [
    "PRIVATE_APERTURE",
    "SHARED_APERTURE",
    "apply",
    "before_read",
    "flat",
    "global_memory",
    "lds",
    "scratch",
    "settle",
]

#: Apertures of LDS and scratch in the flat address space: the high dword of a generic address.
SHARED_APERTURE, PRIVATE_APERTURE = 0x0001_0000, 0x0002_0000

_LOW = np.uint64(0xFFFF_FFFF)


Port = Callable[[Shared, Group, Array, int, int, "Array | None"], list[Part]]


def global_memory(
    shared: Shared, s: Group, addresses: Array, size: int, align: int, mask: Array | None
) -> list[Part]:
    """*addresses* (uint64) in the buffers of the device."""
    memory = shared.memory
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
    shared: Shared, s: Group, addresses: Array, size: int, align: int, mask: Array | None
) -> list[Part]:
    """*addresses* (uint32, from the start of the workgroup's LDS)."""
    used = addresses if mask is None else addresses[mask]
    if not used.size:
        return []
    bits = int(np.bitwise_or.reduce(used, axis=None))
    if int(np.maximum.reduce(used, axis=None)) + size > shared.lds_size:
        bad = addresses.astype(np.int64) + size > shared.lds_size
        _fault(
            f"access outside of LDS: {size} bytes at {{:#x}}, {shared.lds_size} are allocated",
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
    if shared.lds_stride:
        offsets += s.wg[:, None] * shared.lds_stride
    return [Part(shared.lds_views, offsets, mask, space="lds")]


def scratch(
    shared: Shared, s: Group, addresses: Array, size: int, align: int, mask: Array | None
) -> list[Part]:
    """*addresses* (uint32, bytes of a lane's own): dwords interleave across the wave."""
    used = addresses if mask is None else addresses[mask]
    if not used.size:
        return []
    if int(np.maximum.reduce(used, axis=None)) + size > shared.scratch_size:
        bad = addresses.astype(np.int64) + size > shared.scratch_size
        _fault(
            f"access outside of scratch: {size} bytes at {{:#x}}, {shared.scratch_size} bytes are "
            "allocated",
            addresses,
            bad,
            mask,
        )
    if int(np.bitwise_or.reduce(used, axis=None)) & (align - 1):
        bad = (addresses & addresses.dtype.type(align - 1)) != 0
        _fault(f"misaligned scratch access: {size} bytes at {{:#x}}", addresses, bad, mask)
    offsets = addresses.astype(np.int64)
    lanes = s.layout.lanes
    wave = (s.waves - shared.first_wave)[:, None] * (shared.scratch_size * lanes)
    offsets = wave + (offsets >> 2) * (4 * lanes) + np.arange(lanes) * 4 + (offsets & 3)
    return [Part(shared.scratch_views, offsets, mask, 4 * lanes, "scratch")]


def flat(
    shared: Shared, s: Group, addresses: Array, size: int, align: int, mask: Array | None
) -> list[Part]:
    """*addresses* (uint64) in the flat space: LDS and scratch have an aperture each."""
    high = addresses >> np.uint64(32)
    is_lds, is_private = high == SHARED_APERTURE, high == PRIVATE_APERTURE
    if mask is not None:
        is_lds, is_private = is_lds & mask, is_private & mask
    if not is_lds.any() and not is_private.any():
        return global_memory(shared, s, addresses, size, align, mask)
    rest = ~(is_lds | is_private)
    if mask is not None:
        rest &= mask
    low = (addresses & _LOW).astype(np.uint32)
    parts = []
    if rest.any():
        parts += global_memory(shared, s, addresses, size, align, rest)
    if is_lds.any():
        parts += lds(shared, s, low, size, align, is_lds)
    if is_private.any():
        parts += scratch(shared, s, low, size, align, is_private)
    return parts


def _fault(text: str, addresses: Array, bad: Array, mask: Array | None) -> None:
    bad = np.broadcast_to(bad, addresses.shape)
    place = np.argwhere(bad if mask is None else bad & mask)[0]
    lane = int(place[1]) if len(place) > 1 else None
    raise Fault(text.format(int(addresses[tuple(place)])), int(place[0]), lane)


def apply(shared: Shared, s: Group, entry: Deferred) -> None:
    """A write to LDS that was in flight is done: its dwords become visible."""
    if entry.valid is None:
        scatter(shared.lds_views, entry.index, entry.values)
    else:
        scatter(shared.lds_views, entry.index[entry.valid], entry.values[entry.valid])


def settle(shared: Shared, s: Group) -> None:
    """The writes to LDS that the waves have in flight are done: they come before what follows."""
    for entry in s.ds_queue:
        if not entry.applied:
            apply(shared, s, entry)
            entry.applied = True


def before_read(shared: Shared, s: Group, parts: list[Part], size: int) -> None:
    """A wave reads LDS: its own writes, even those without a wait, come first.

    Raises:
        Fault: it reads what another wave has written without a wait so far.
    """
    settle(shared, s)
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
