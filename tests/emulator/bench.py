"""Runs single instructions on the emulator, without a launch: one wave, its registers as given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coasm.descriptor import resources
from coasm.emulator import Memory, Options
from coasm.emulator.engine.flight import EMPTY
from coasm.emulator.engine.program import program_of
from coasm.emulator.engine.waits import land_ds, land_vm
from coasm.emulator.machine import Machine
from coasm.emulator.rows.context import Context
from coasm.emulator.state.shared import Shared
from coasm.emulator.state.waves import SCALARS, Group
from coasm.llvm import Llvm
from tests.emulator.harness import assemble

#: Denormals are kept; a NaN is clamped to 0; IEEE mode is on.
MODE = 0x3F0
LDS, SCRATCH, GLOBAL = 8192, 512, 1 << 14


class Bench:
    """A machine whose code are *lines*; each can be run alone on a wave of its own."""

    def __init__(self, llvm: Llvm, target: str, lines: Sequence[str]) -> None:
        co = assemble(llvm, "\n".join([*lines, "s_endpgm"]), target, lds=LDS, vgprs=192, offset=128)
        kernel = co.kernels[0]
        program = program_of(co, kernel, llvm)
        addresses = sorted(a for a in program.instructions if a >= kernel.entry)
        assert len(addresses) == len(lines) + 1
        self.addresses = dict(zip(lines, addresses[:-1], strict=True))
        self.encodings = {
            line: program.instructions[at].data for line, at in self.addresses.items()
        }
        self.memory = Memory()
        self.base = self.memory.allocate(GLOBAL, "global")
        asked = resources(kernel.descriptor, co.target)
        self.shared = Shared(co.target.processor, asked, self.memory, LDS, SCRATCH, 0)
        self.machine = Machine(program, self.shared, Options())

    def wave(self, mode: int = MODE) -> Group:
        """A wave with all registers 0, all lanes on, and LDS and scratch 0."""
        layout = self.shared.layout
        vector = np.zeros((layout.rows, 1, 64), np.uint32)
        scalar = np.zeros((SCALARS // 2, 1, 2), np.uint32)
        scalar[63] = 0xFFFF_FFFF
        zero = np.zeros(1, np.int64)
        group = Group(layout, vector, scalar, zero, zero, self.shared.constants)
        group.mode, group.pending = mode, EMPTY
        self.machine.start([group], 1, 1, 0)
        return group

    def run(self, line: str, group: Group) -> Group:
        """*group* after the instruction, and after all that it left in flight.

        Raises:
            Fault: it is refused, or does what it may not.
        """
        context = Context(self.shared, group.mode, group.index)
        step = self.machine.blocks.item(context, self.addresses[line]).step
        # Constants that the instruction has are known to the groups of the machine.
        with np.errstate(all="ignore"):
            step(group)
            land_vm(self.shared, len(group.vm_queue))(group)
            land_ds(self.shared, len(group.ds_queue))(group)
        return group

    @property
    def lds(self) -> np.ndarray:
        """The bytes of LDS."""
        view: np.ndarray = self.shared.lds_views[1]
        return view[:LDS]

    @property
    def scratch(self) -> np.ndarray:
        """The bytes of scratch, dwords interleaved over the lanes."""
        view: np.ndarray = self.shared.scratch_views[1]
        return view[: 64 * SCRATCH]

    @property
    def globals(self) -> np.ndarray:
        """The bytes of the one buffer in global memory."""
        return self.memory.view(self.base)
