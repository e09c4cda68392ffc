"""Runs gfx942 and gfx950 kernels on NumPy: all waves that stand at one address at once.

Functionally exact: what is not known exactly is either an error or named in
:attr:`Outcome.fidelity`. Hazards that the hardware leaves to the program (missing wait states
between instructions) are not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from coasm.emulator.coverage import Coverage
from coasm.emulator.errors import EmulationError
from coasm.emulator.state.memory import Memory

if TYPE_CHECKING:
    from coasm.codeobject import CodeObject, Kernel
    from coasm.llvm import Llvm

__all__ = ["Coverage", "EmulationError", "Memory", "Options", "Outcome", "Trace", "launch"]

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


def launch(
    co: CodeObject,
    kernel: Kernel,
    *,
    grid: tuple[int, int, int],
    workgroup: tuple[int, int, int],
    kernarg: bytes,
    memory: Memory,
    llvm: Llvm,
    options: Options = Options(),  # noqa: B008
    dynamic_lds: int = 0,
) -> Outcome:
    """Run *kernel*: *grid* workgroups of *workgroup* work-items, with the bytes of its arguments.

    Pointers in *kernarg* are addresses of *memory*, whose buffers the kernel changes.

    Raises:
        EmulationError: the kernel did something that no kernel may do; the text says where.
        UnsupportedError: a target that is not emulated, or a launch that cannot be.
        CoasmError: the code cannot be disassembled.
    """
    from coasm.emulator.run import run

    return run(co, kernel, grid, workgroup, kernarg, memory, llvm, options, dynamic_lds)
