"""What can go wrong while a kernel runs."""

from __future__ import annotations

from coasm.errors import CoasmError

__all__ = ["EmulationError", "Fault"]


class EmulationError(CoasmError):
    """A kernel did what no kernel may do, or what the emulator cannot do exactly.

    The text is one line: kernel, address, instruction, wave and lane where they are known, what is
    wrong. ``address`` is the instruction's in the code object, or None.
    """

    def __init__(self, text: str, address: int | None = None) -> None:
        super().__init__(text)
        self.address = address


class Fault(Exception):
    """Inside the emulator: what is wrong with the instruction that runs, in which wave and lane.

    ``row`` is the wave's position in its group. The runner turns it into an
    :class:`EmulationError`.
    """

    def __init__(self, text: str, row: int | None = None, lane: int | None = None) -> None:
        super().__init__(text)
        self.row, self.lane = row, lane
