"""The waves of a dispatch at the kernel's first instruction.

Source: LLVM AMDGPU usage, "Initial Kernel Execution State" and "Kernel Descriptor"; the HSA
runtime specification for the dispatch packet.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from coasm.codeobject import Kernel
from coasm.descriptor import Resources, decode
from coasm.emulator.engine.flight import EMPTY
from coasm.emulator.state.places import Array
from coasm.emulator.state.shared import Shared
from coasm.emulator.state.waves import SCALARS, Group
from coasm.errors import UnsupportedError
from coasm.target import TargetID

__all__ = ["MODE_BITS", "USER_SGPRS", "Dispatch", "initial_waves"]

MODE_BITS = {
    "float_round_mode_32": 0,
    "float_round_mode_16_64": 2,
    "float_denorm_mode_32": 4,
    "float_denorm_mode_16_64": 6,
    "enable_dx10_clamp": 8,
    "enable_ieee_mode": 9,
    "fp16_ovfl": 23,
}


#: The user SGPRs that a wave begins with here.
USER_SGPRS = (
    *("dispatch_ptr", "queue_ptr", "kernarg_segment_ptr", "dispatch_id", "private_segment_size"),
    "kernarg_preload",
)


class Dispatch(NamedTuple):
    """A kernel, its *grid* of workgroups of *workgroup* work-items, and its arguments.

    ``arguments`` and ``packet`` are where the kernarg segment and the dispatch packet are.
    """

    kernel: Kernel
    target: TargetID
    asked: Resources
    grid: tuple[int, int, int]
    workgroup: tuple[int, int, int]
    kernarg: bytes
    arguments: int = 0
    packet: int = 0

    @property
    def items(self) -> int:
        """The work-items of a workgroup."""
        return self.workgroup[0] * self.workgroup[1] * self.workgroup[2]

    @property
    def waves(self) -> int:
        """The waves of a workgroup."""
        return -(-self.items // self.asked.wave_size)

    def aql_packet(self, scratch: int, lds: int) -> bytes:
        """The AQL dispatch packet: sizes in work-items, 64 bytes."""
        grid, workgroup = self.grid, self.workgroup
        whole = [g * w for g, w in zip(grid, workgroup, strict=True)]
        dimensions = 3 if whole[2] > 1 else 2 if whole[1] > 1 else 1
        sizes = [min(size, 0xFFFF_FFFF) for size in whole]
        head = (2, dimensions, *workgroup, 0, *sizes, scratch, lds)
        return struct.pack("<HHHHHHIIIIIQQQQ", *head, 0, self.arguments, 0, 0)


def initial_waves(
    dispatch: Dispatch, shared: Shared, first: int, count: int, *, strict: bool
) -> Group:
    """The waves of workgroups *first* to *first + count*.

    Raises:
        UnsupportedError: the kernel asks for SGPRs that are not emulated.
    """
    waves = dispatch.waves
    n = count * waves
    rows, lanes = shared.layout.rows, shared.layout.lanes
    vector = np.zeros((rows, n, lanes), np.uint32)
    scalar = np.zeros((SCALARS // 2, n, 2), np.uint32)
    local = np.arange(n, dtype=np.int64)
    wg = local // waves
    item = (local % waves)[:, None] * lanes + np.arange(lanes)
    if shared.layout.vgprs:
        vector[0] = _workitem_ids(dispatch, item)
    registers = _sgprs(dispatch, shared, first + wg)
    for number, value in registers.items():
        scalar[number >> 1, :, number & 1] = value
    on = item < dispatch.items
    scalar[63] = np.packbits(on, axis=1, bitorder="little").view(np.uint32).reshape(n, 2)
    group = Group(shared.layout, vector, scalar, first * waves + local, wg, shared.constants)
    group.pc = dispatch.kernel.entry
    if any(user.name == "kernarg_preload" for user in dispatch.asked.user_sgprs):
        group.pc += shared.processor.family.preload_prologue
    modes = dispatch.asked.float_modes
    group.mode = sum(value << MODE_BITS[name] for name, value in modes if name in MODE_BITS)
    group.pending = EMPTY
    if strict:
        group.written = np.zeros((rows + SCALARS, n), np.bool_)
        group.written[0] = True
        group.written[[rows + number for number in registers]] = True
    return group


def _workitem_ids(dispatch: Dispatch, item: Array) -> Array:
    """What is in v0: x, y and z in ten bits each, as far as the kernel asks for them."""
    width, height, _ = dispatch.workgroup
    ids = dispatch.asked.workitem_ids
    packed = item % width
    if ids > 1:
        packed = packed | item // width % height << 10
    if ids > 2:
        packed = packed | item // (width * height) << 20
    return np.where(item < dispatch.items, packed, 0)


def _sgprs(dispatch: Dispatch, shared: Shared, workgroup: Array) -> dict[int, Any]:
    """The SGPRs that are set, by number; *workgroup*: that of each wave."""
    name = dispatch.kernel.name
    registers: dict[int, Any] = {}

    def put(at: int, value: Any, size: int = 1) -> int:
        registers[at] = value & 0xFFFF_FFFF
        if size == 2:
            registers[at + 1] = value >> 32
        return at + size

    values: dict[str, tuple[int, int]] = {
        "dispatch_ptr": (dispatch.packet, 2),
        "queue_ptr": (0, 2),
        "kernarg_segment_ptr": (dispatch.arguments, 2),
        "dispatch_id": (1, 2),
        "private_segment_size": (shared.scratch_size, 1),
    }
    for user in dispatch.asked.user_sgprs:
        if user.name in values:
            put(user.first, *values[user.name])
        elif user.name == "kernarg_preload":
            fields = decode(dispatch.kernel.descriptor, dispatch.target)
            offset = 4 * fields["kernarg_preload_offset"]
            words = dispatch.kernarg[offset : offset + 4 * user.count].ljust(4 * user.count, b"\0")
            for at in range(user.count):
                put(user.first + at, int.from_bytes(words[4 * at : 4 * at + 4], "little"))
        else:
            raise UnsupportedError(f"{name}: the user SGPRs {user.name} are not emulated")
    at = dispatch.asked.user_sgpr_count
    width, height, _ = dispatch.grid
    places = {
        "workgroup_id_x": workgroup % width,
        "workgroup_id_y": workgroup // width % height,
        "workgroup_id_z": workgroup // (width * height),
    }
    for system in dispatch.asked.system_sgprs:
        at = put(at, places.get(system, 0))
    if any(number >= SCALARS for number in registers):
        raise UnsupportedError(f"{name}: more initial SGPRs than a wave has")
    return registers
