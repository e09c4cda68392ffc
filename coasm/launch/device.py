"""What runs kernels: the emulator, or a GPU through HIP, behind one small interface."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from coasm.codeobject import CodeObject, Kernel
from coasm.errors import DeviceError, LaunchError, UnsupportedError
from coasm.launch.arguments import Geometry
from coasm.target import TargetID, relative

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from coasm.emulator import Coverage, Memory, Options
    from coasm.llvm import Llvm

    Bytes = NDArray[np.uint8]

__all__ = ["BACKENDS", "Device", "Emulator", "Figures", "open_device"]

#: What ``--backend`` takes.
BACKENDS = ("auto", "emulator", "hip")


class Figures(NamedTuple):
    """What the launches of one kernel took.

    ``seconds`` has one entry per timed launch: kernel time by events on a GPU, wall time on the
    emulator. ``wave_instructions`` is the emulator's count for one launch, else None.
    ``fidelity`` names what is known to be less than exact among the executed instructions.
    ``dump`` is set where the emulator was told to stop, and did: the buffers are half done.
    ``coverage`` says which instructions the emulator executed; a GPU does not tell.
    """

    seconds: tuple[float, ...]
    wave_instructions: int | None = None
    fidelity: tuple[str, ...] = ()
    dump: str = ""
    coverage: Coverage | None = None

    @property
    def median(self) -> float:
        """The median of ``seconds``: the mean of the middle two where their number is even."""
        from statistics import median

        return median(self.seconds)


class Device(Protocol):
    """Buffers in device memory, and launches. Addresses are those that kernels are given."""

    @property
    def name(self) -> str:
        """``emulator`` or ``hip``."""

    @property
    def description(self) -> str:
        """What it is, for people."""

    @property
    def num_cu(self) -> int:
        """Compute units: what the tile choice counts with."""

    def allocate(self, data: Bytes, name: str) -> int:
        """A new buffer that holds *data*; its address."""

    def write(self, address: int, data: Bytes) -> None:
        """Overwrite the buffer at *address* from its start."""

    def read(self, address: int) -> Bytes:
        """A copy of the whole buffer at *address*."""

    def launch(self, co: CodeObject, kernel: Kernel, geometry: Geometry, kernarg: bytes) -> Figures:
        """Run a kernel once, to its end."""

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
        """Run a kernel *warmup* + *iterations* times; ``seconds`` are those of the latter."""

    def reset(self) -> None:
        """Free every buffer."""

    def close(self) -> None:
        """Free everything."""


class Emulator:
    """The emulator as a :class:`Device`. *num_cu* defaults to an MI355X's 256."""

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


#: Targets that the emulator runs.
EMULATED = ("gfx942", "gfx950")


def open_device(
    backend: str,
    target: TargetID,
    *,
    llvm: str | None = None,
    options: Options | Callable[[], Options] | None = None,
) -> tuple[Device, str | None]:
    """The device that *backend* (one of :data:`BACKENDS`) means for an object of *target*.

    *options* are the emulator's, or a function that makes them. The text is set where ``auto``
    fell back to the emulator: one line that says why.

    Raises:
        DeviceError: ``hip`` has no usable device.
        UnsupportedError: the emulator does not run the target.
        ToolError: the emulator finds no LLVM to disassemble with.
    """
    from coasm.launch.hip import Hip

    if backend not in BACKENDS:
        raise LaunchError(f"no backend {backend!r}; known are {', '.join(BACKENDS)}")
    reason = None
    if backend != "emulator":
        try:
            return Hip(target), None
        except DeviceError as error:
            if backend == "hip":
                raise
            reason = f"no usable GPU ({error}): using the emulator"
    if relative(target.name) not in EMULATED:
        because = f"; {reason}" if reason else ""
        raise UnsupportedError(
            f"the emulator runs {' and '.join(EMULATED)}, not {target.name}{because}"
        )
    from coasm.llvm import find_llvm

    try:
        made = options() if callable(options) else options
        return Emulator(find_llvm(llvm, processor=target.name), made), reason
    except ImportError as error:
        raise LaunchError(
            f"the emulator needs {_package(error)}: pip install {_package(error)}"
        ) from None


def _package(error: ImportError) -> str:
    return (error.name or str(error)).partition(".")[0]
