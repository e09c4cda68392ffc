"""What can go wrong while a kernel runs."""

from __future__ import annotations

from coasm.errors import CoasmError

__all__ = ["EmulationError", "Fault", "Mistake"]


class EmulationError(CoasmError):
    """A kernel did what no kernel may do, or what the emulator cannot do exactly.

    The text is one line: kernel, address, instruction, wave and lane where they are known, what is
    wrong. ``address`` is the instruction's in the code object, or None.
    """

    def __init__(self, text: str, address: int | None = None) -> None:
        super().__init__(text)
        self.address = address


class Mistake(RuntimeError):
    """The emulator itself went wrong at an instruction; the text names it.

    No :class:`~coasm.errors.CoasmError`: it is no fault of the kernel, and nobody can act on it
    but by a report.
    """


class Fault(Exception):
    """Inside the emulator: what is wrong with the instruction that runs, in which wave and lane.

    ``row`` is the wave's position in its group. The runner turns it into an
    :class:`EmulationError`.
    """

    def __init__(self, text: str, row: int | None = None, lane: int | None = None) -> None:
        super().__init__(text)
        self.row, self.lane = row, lane
