"""Launches on coasm's own emulator."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from coasm.codeobject import CodeObject, Kernel
from coasm.launch.arguments import Geometry
from coasm.launch.device import Figures

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

    def launch(self, co: CodeObject, kernel: Kernel, geometry: Geometry, kernarg: bytes) -> Figures:
        from coasm import emulator

        started = time.perf_counter()
        outcome = emulator.launch(
            co,
            kernel,
            grid=geometry.grid,
            workgroup=geometry.workgroup,
            kernarg=kernarg,
            memory=self.memory,
            llvm=self.llvm,
            options=self.options,
            dynamic_lds=geometry.dynamic_lds,
        )
        seconds = time.perf_counter() - started
        return Figures(
            (seconds,),
            outcome.wave_instructions,
            tuple(outcome.fidelity),
            outcome.dump,
            outcome.coverage,
        )

    def time(
        self,
        co: CodeObject,
        kernel: Kernel,
        geometry: Geometry,
        kernarg: bytes,
        *,
        warmup: int,
        iterations: int,
    ) -> Figures:
        # Nothing to warm up: what the first launch of a kernel prepares is kept.
        runs = [self.launch(co, kernel, geometry, kernarg) for _ in range(iterations)]
        return runs[-1]._replace(seconds=tuple(run.seconds[0] for run in runs))

    def reset(self) -> None:
        self.memory.reset()

    def close(self) -> None:
        self.reset()
