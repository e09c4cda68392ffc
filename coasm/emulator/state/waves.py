"""Waves that stand at the same address: their registers as arrays over (register, wave, lane).

Every instruction works on all waves of a group at once. A group is split where its waves go
different ways, by copying the registers of those that leave, and groups that meet are joined
again, so that the arrays of a group are always whole: no instruction selects waves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["MASK_LANES", "SCALARS", "Deferred", "Group", "Layout"]

#: The lanes that a lane mask has: EXEC, VCC and others are pairs of scalar registers here.
MASK_LANES = 64
#: Scalar registers by their operand numbers: 0 to 127, M0 and EXEC among them.
SCALARS = 128


class Layout(NamedTuple):
    """How many VGPRs and AGPRs a wave has, and how many lanes.

    VGPRs are the first rows of the register array, AGPRs those behind them.
    """

    vgprs: int
    agprs: int
    lanes: int

    @property
    def rows(self) -> int:
        return self.vgprs + self.agprs


class Deferred:
    """A write to LDS that is still in flight: byte offsets, values and lanes by wave.

    ``applied``: the wave itself has read LDS since, so that the write has been done for it.
    """

    __slots__ = ("address", "applied", "index", "valid", "values")

    def __init__(
        self, address: int, index: NDArray[Any], values: NDArray[Any], valid: NDArray[Any] | None
    ) -> None:
        # index: [waves, lanes]; values: [waves, lanes, dwords]; valid: [waves, lanes]
        self.address, self.index, self.values, self.valid = address, index, values, valid
        self.applied = False

    def take(self, rows: NDArray[Any]) -> Deferred:
        valid = None if self.valid is None else self.valid[rows]
        taken = Deferred(self.address, self.index[rows], self.values[rows], valid)
        taken.applied = self.applied
        return taken

    @staticmethod
    def join(parts: Sequence[Deferred]) -> Deferred:
        valid: NDArray[Any] | None = None
        if any(part.valid is not None for part in parts):
            valid = np.concatenate(
                [np.ones(p.index.shape[:2], bool) if p.valid is None else p.valid for p in parts]
            )
        joined = Deferred(
            parts[0].address,
            np.concatenate([part.index for part in parts]),
            np.concatenate([part.values for part in parts]),
            valid,
        )
        joined.applied = all(part.applied for part in parts)
        return joined


class Group:
    """The state of ``n`` waves. ``pc`` is the address of the code object.

    ``u``, ``i``, ``f`` list what a 32-bit operand of a vector instruction can be, as uint32, int32
    and float32: the VGPRs and AGPRs ([n, 64]), the scalar registers ([n, 1]), the program's
    constants (0-d). ``su``, ``si`` are the same for scalar instructions ([n]), ``d`` the
    aligned scalar pairs as uint64 ([n]). ``full`` says that EXEC is all ones, ``mask`` is EXEC
    as booleans [n, 64]. ``clean`` has a bit for each row of ``V`` that holds no denormal float32 in
    the lanes of EXEC.
    """

    __slots__ = (
        "S",
        "V",
        "barrier",
        "clean",
        "d",
        "decoded",
        "ds_queue",
        "f",
        "full",
        "i",
        "ids",
        "index",
        "layout",
        "mask",
        "mode",
        "n",
        "pc",
        "pending",
        "scc",
        "shape",
        "si",
        "su",
        "turn",
        "u",
        "vm_queue",
        "waves",
        "wg",
        "written",
    )

    def __init__(
        self,
        layout: Layout,
        vector: NDArray[np.uint32],
        scalar: NDArray[np.uint32],
        waves: NDArray[np.int64],
        wg: NDArray[np.int64],
        constants: Sequence[NDArray[np.uint32]],
    ) -> None:
        self.layout = layout
        self.V, self.S = vector, scalar  # [rows, n, 64], [64, n, 2]
        self.n = len(waves)
        self.shape = self.n, layout.lanes
        self.waves, self.wg = waves, wg
        self.ids = wg[:, None]
        self.pc = 0
        self.mode = 0
        self.index = 0
        self.pending: Any = None
        self.clean = 0
        self.barrier = -1
        self.turn = 0
        self.scc: NDArray[np.bool_] = np.zeros(self.n, bool)
        self.vm_queue: list[Deferred] = []
        self.ds_queue: list[Deferred] = []
        self.decoded: dict[Any, Any] = {}
        self.written: NDArray[np.bool_] | None = None
        pairs = scalar.view(np.uint64)[..., 0]
        self.d: list[NDArray[np.uint64]] = list(pairs)
        flat = [scalar[r >> 1, :, r & 1] for r in range(SCALARS)]
        self.su: list[NDArray[Any]] = flat
        self.si: list[NDArray[Any]] = [row.view(np.int32) for row in flat]
        self.u: list[NDArray[Any]] = [*vector, *(row[:, None] for row in flat)]
        self.i: list[NDArray[Any]] = [*vector.view(np.int32), *(row[:, None] for row in self.si)]
        self.f: list[NDArray[Any]] = [
            *vector.view(np.float32),
            *(row.view(np.float32)[:, None] for row in flat),
        ]
        for constant in constants:
            self.add_constant(constant)
        self.update_exec()

    def add_constant(self, bits: NDArray[np.uint32]) -> None:
        """Append one more constant to the operand lists."""
        signed = bits.view(np.int32)
        self.u.append(bits)
        self.i.append(signed)
        self.f.append(bits.view(np.float32))
        self.su.append(bits)
        self.si.append(signed)

    def update_exec(self) -> None:
        """EXEC has changed: work out ``full`` and ``mask`` again."""
        bits = self.d[63]
        self.full = bool((~bits == 0).all())
        self.mask: NDArray[np.bool_] = unpack(bits)

    def take(self, rows: NDArray[Any], constants: Sequence[NDArray[np.uint32]]) -> Group:
        """A new group of the waves at these positions, with copies of their registers."""
        other = Group(
            self.layout,
            np.ascontiguousarray(self.V[:, rows]),
            np.ascontiguousarray(self.S[:, rows]),
            self.waves[rows],
            self.wg[rows],
            constants,
        )
        for name in ("pc", "mode", "index", "pending", "barrier", "turn", "clean"):
            setattr(other, name, getattr(self, name))
        other.scc = self.scc[rows]
        other.vm_queue = [entry.take(rows) for entry in self.vm_queue]
        other.ds_queue = [entry.take(rows) for entry in self.ds_queue]
        if self.written is not None:
            other.written = np.ascontiguousarray(self.written[:, rows])
        return other

    @property
    def key(self) -> tuple[Any, ...]:
        """Groups of the same key stand at one place in the same state: they can be joined."""
        return (self.pc, self.mode, self.index, self.pending, self.barrier)


def join(groups: Sequence[Group], constants: Sequence[NDArray[np.uint32]]) -> Group:
    """One group of all waves of *groups*, which have the same :attr:`Group.key`."""
    waves = np.concatenate([g.waves for g in groups])
    order = np.argsort(waves, kind="stable")
    vector = np.concatenate([g.V for g in groups], axis=1)
    scalar = np.concatenate([g.S for g in groups], axis=1)
    if not (order[1:] > order[:-1]).all():
        vector, scalar = (
            np.ascontiguousarray(vector[:, order]),
            np.ascontiguousarray(scalar[:, order]),
        )
    wg = np.concatenate([g.wg for g in groups])[order]
    whole = Group(groups[0].layout, vector, scalar, waves[order], wg, constants)
    for name in ("pc", "mode", "index", "pending", "barrier"):
        setattr(whole, name, getattr(groups[0], name))
    whole.turn = max(g.turn for g in groups)
    whole.clean = -1
    for g in groups:
        whole.clean &= g.clean
    whole.scc = np.concatenate([g.scc for g in groups])[order]
    for name in ("vm_queue", "ds_queue"):
        queues = [getattr(g, name) for g in groups]
        joined = [Deferred.join(parts).take(order) for parts in zip(*queues, strict=True)]
        setattr(whole, name, joined)
    if groups[0].written is not None:
        parts = [g.written for g in groups if g.written is not None]
        whole.written = np.ascontiguousarray(np.concatenate(parts, axis=1)[:, order])
    return whole


def unpack(bits: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """[n] masks of 64 lanes → booleans [n, 64]."""
    raw = np.ascontiguousarray(bits).view(np.uint8).reshape(-1, 8)
    return np.unpackbits(raw, axis=1, bitorder="little").view(np.bool_)


def pack(mask: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Booleans [n, 64] → [n] masks of 64 lanes."""
    return np.packbits(mask, axis=1, bitorder="little").view(np.uint64)[:, 0]
