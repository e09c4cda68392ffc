"""What the waves of a launch share: buffers, LDS, scratch, constants; and the waves themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coasm.emulator.state.memory import Memory
from coasm.emulator.state.places import Array
from coasm.emulator.state.race import Race
from coasm.emulator.state.waves import Group, Layout
from coasm.target import Processor

if TYPE_CHECKING:
    from coasm.descriptor import Resources

__all__ = ["Shared"]


class Shared:
    """What the waves of a launch, or of a chunk of its workgroups, share.

    ``lds_views`` and ``scratch_views`` are the bytes of LDS and of scratch by the width that they
    are looked at in; a workgroup's LDS is ``lds_stride`` bytes behind that of the one before.
    ``code_base`` is what an address of the code object lies from that in memory, ``sgprs`` how many
    numbered SGPRs a wave has, ``clock`` counts wave-instructions.
    """

    def __init__(
        self,
        processor: Processor,
        asked: Resources,
        memory: Memory,
        lds_size: int,
        scratch_size: int,
        code_base: int,
    ) -> None:
        self.processor, self.memory, self.code_base = processor, memory, code_base
        self.lds_size, self.scratch_size = lds_size, scratch_size
        offset = asked.accum_offset if asked.accum_offset is not None else asked.vgprs
        self.layout = Layout(
            min(offset, asked.vgprs), max(0, asked.vgprs - offset), asked.wave_size
        )
        most, granule = processor.family.addressable_sgprs, processor.family.sgpr_allocation
        self.sgprs = min(most, -(-(asked.sgprs or most) // granule) * granule)
        self.groups: list[Group] = []
        self.constants: list[Array] = []
        self._constant_at: dict[int, int] = {}
        self.clock = 0
        self.race: Race | None = None
        self.first_wave = 0
        self.lds_stride = 0
        self.lds_views: dict[int, Array] = {}
        self.scratch_views: dict[int, Array] = {}

    def start(self, groups: list[Group], workgroups: int, waves: int, first_wave: int) -> None:
        """Take in the waves of *workgroups* workgroups, *waves* each; LDS and scratch are zero."""
        self.groups, self.first_wave = groups, first_wave
        self.lds_stride = -(-self.lds_size // 16) * 16
        self.lds_views = _views(self.lds_stride * workgroups)
        self.scratch_views = _views(workgroups * waves * self.scratch_size * self.layout.lanes)
        if workgroups == 1:
            self.lds_stride = 0

    def constant(self, bits: int) -> int:
        """The number of a 32-bit constant: constants are operands like registers."""
        found = self._constant_at.get(bits)
        if found is None:
            found = self._constant_at[bits] = len(self.constants)
            value = np.array(bits, np.uint32)
            self.constants.append(value)
            for group in self.groups:
                group.add_constant(value)
        return found


def _views(size: int) -> dict[int, Array]:
    raw = np.zeros(max(16, -(-size // 16) * 16), np.uint8)
    wide = {2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
    return {1: raw, **{width: raw.view(dtype) for width, dtype in wide.items()}}
