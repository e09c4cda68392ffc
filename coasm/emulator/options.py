"""How a launch is run, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["MAX_INSTRUCTIONS", "STACK", "Coverage", "Options", "Outcome", "Trace"]

#: Wave-instructions after which a launch is given up, unless the options say otherwise.
MAX_INSTRUCTIONS = 1_000_000_000
#: HIP's stack of a work-item, where neither kernel nor program says one.
STACK = 1024


class Trace(NamedTuple):
    """Print instructions with the registers they change, for one wave and lane.

    ``wave`` counts over the launch: workgroup (x first) times waves of a workgroup, plus the wave
    in it. ``write`` gets one line for each instruction, without a newline.
    """

    wave: int = 0
    lane: int = 0
    write: Callable[[str], object] = print


class Options(NamedTuple):
    """How a launch is run.

    ``race``: conflicts over LDS between barriers are errors. ``strict``: reading a register that
    was never written is one. ``max_instructions``: wave-instructions until the launch counts as a
    runaway (None: a generous number). ``stop_at``: an address or a label at which
    the launch ends with a dump, given in :attr:`Outcome.dump`. ``num_cu``: compute units that the
    device is taken to have. ``stack``: bytes of scratch that a work-item gets at least where the
    kernel's descriptor says that its stack has no bound (recursion, calls through pointers), as
    HIP's ``hipLimitStackSize``.
    """

    race: bool = False
    strict: bool = False
    max_instructions: int | None = None
    trace: Trace | None = None
    stop_at: int | str | None = None
    num_cu: int = 256
    stack: int = STACK


class Coverage(NamedTuple):
    """Addresses of instructions, in the code object.

    ``code`` is the kernel's own code and that of each function of which something was executed,
    without the padding behind it. ``executed`` were executed by at least one wave. ``asleep`` were
    only executed while EXEC switched off every lane that they could have worked on: they did
    nothing.
    """

    code: frozenset[int] = frozenset()
    executed: frozenset[int] = frozenset()
    asleep: frozenset[int] = frozenset()

    def also(self, other: Coverage) -> Coverage:
        """This launch and another one of the same code object together."""
        executed = self.executed | other.executed
        return Coverage(self.code | other.code, executed, (self.asleep | other.asleep) - executed)


class Outcome(NamedTuple):
    """What a launch did: instructions times waves, seconds, what of it is less than exact.

    ``dump`` has the registers and the LDS where ``stop_at`` was reached, as text. ``coverage`` says
    which of the kernel's instructions were executed.
    """

    wave_instructions: int
    seconds: float
    fidelity: tuple[str, ...]
    dump: str = ""
    coverage: Coverage = Coverage()
