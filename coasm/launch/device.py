"""What runs kernels, as one small interface, and what it says of a launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from coasm.codeobject import CodeObject, Kernel
from coasm.launch.arguments import Geometry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from coasm.emulator import Coverage

    Bytes = NDArray[np.uint8]

__all__ = ["Device", "Figures", "Launch"]


class Launch(NamedTuple):
    """A kernel of an object, and what it is launched with."""

    co: CodeObject
    kernel: Kernel
    geometry: Geometry
    kernarg: bytes


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

    def launch(self, launch: Launch) -> Figures:
        """Run a kernel once, to its end."""

    def time(self, launch: Launch, *, warmup: int, iterations: int) -> Figures:
        """Run a kernel *warmup* + *iterations* times; ``seconds`` are those of the latter."""

    def reset(self) -> None:
        """Free every buffer."""

    def close(self) -> None:
        """Free everything."""
