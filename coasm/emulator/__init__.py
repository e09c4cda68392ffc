"""Runs gfx942 and gfx950 kernels on NumPy: all waves that stand at one address at once.

Functionally exact: what is not known exactly is either an error or named in
:attr:`Outcome.fidelity`. Hazards that the hardware leaves to the program (missing wait states
between instructions) are not seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coasm.emulator.errors import EmulationError
from coasm.emulator.options import STACK, Coverage, Options, Outcome, Trace
from coasm.emulator.state.memory import Memory

if TYPE_CHECKING:
    from coasm.codeobject import CodeObject, Kernel
    from coasm.llvm import Llvm

__all__ = [
    "STACK",
    "Coverage",
    "EmulationError",
    "Memory",
    "Options",
    "Outcome",
    "Trace",
    "launch",
]


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
