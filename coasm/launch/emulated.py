"""Launches on coasm's own emulator."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from coasm.launch.device import Figures, Launch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from coasm.emulator import Memory, Options
    from coasm.llvm import Llvm

    Bytes = NDArray[np.uint8]

__all__ = ["Emulator"]


class Emulator:
    """The emulator as a device. *num_cu* defaults to an MI355X's 256."""

    name = "emulator"

    def __init__(self, llvm: Llvm, options: Options | None = None) -> None:
        from coasm.emulator import Memory, Options

        self.llvm = llvm
        self.options = Options() if options is None else options
        self.memory: Memory = Memory()
        self.num_cu = self.options.num_cu
        self.description = "emulator"

    def allocate(self, data: Bytes, name: str) -> int:
        return self.memory.allocate(int(data.size), name, data)

    def write(self, address: int, data: Bytes) -> None:
        self.memory.view(address)[: data.size] = data

    def read(self, address: int) -> Bytes:
        data: Bytes = self.memory.view(address).copy()
        return data

    def launch(self, launch: Launch) -> Figures:
        from coasm import emulator

        started = time.perf_counter()
        outcome = emulator.launch(
            launch.co,
            launch.kernel,
            grid=launch.geometry.grid,
            workgroup=launch.geometry.workgroup,
            kernarg=launch.kernarg,
            memory=self.memory,
            llvm=self.llvm,
            options=self.options,
            dynamic_lds=launch.geometry.dynamic_lds,
        )
        seconds = time.perf_counter() - started
        return Figures(
            (seconds,),
            outcome.wave_instructions,
            tuple(outcome.fidelity),
            outcome.dump,
            outcome.coverage,
        )

    def time(self, launch: Launch, *, warmup: int, iterations: int) -> Figures:
        # Nothing to warm up: what the first launch of a kernel prepares is kept.
        runs = [self.launch(launch) for _ in range(iterations)]
        return runs[-1]._replace(seconds=tuple(run.seconds[0] for run in runs))

    def reset(self) -> None:
        self.memory.reset()

    def close(self) -> None:
        self.reset()
