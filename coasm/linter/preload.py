"""The second entry of kernels with preloaded arguments, an address that no symbol names.

Firmware that preloads enters the kernel 256 bytes behind its entry; other firmware enters at the
entry, where a prologue loads the same SGPRs and goes on there, or traps. Source: LLVM AMDGPU usage,
"Preloaded Kernel Arguments"; ``AMDGPUPreloadKernArgProlog.cpp``.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial

from coasm.codeobject import Kernel
from coasm.flow.cfg import reached
from coasm.linter.findings import Finding
from coasm.linter.program import Program
from coasm.linter.rules import RULES

__all__ = ["check_preload"]


def check_preload(program: Program) -> list[Finding]:
    """Kernels whose code does not begin where firmware that preloads arguments enters it."""
    from coasm.descriptor import preload_entry

    found = []
    for kernel in program.kernels:
        entry = preload_entry(kernel.descriptor, kernel.entry, program.co.target)
        if entry is not None:
            finding = _check(program, kernel, entry)
            found += [finding] if finding is not None else []
    return found


def _check(program: Program, kernel: Kernel, entry: int) -> Finding | None:
    finding = partial(
        RULES["preload-entry"].finding,
        kernel=kernel.name,
        entry=entry,
        offset=entry - kernel.entry,
        symbol=kernel.name,
    )
    if program.index(entry) < 0:
        return finding("no instruction", place=program.place_of(kernel.entry, kernel.name))
    starts = program.graph.block_addresses
    first = bisect_left(starts, kernel.entry)
    if first == len(starts) or starts[first] != kernel.entry:
        return None  # said by another rule
    elsewhere: list[tuple[int, int]] = []

    def within(number: int) -> list[int]:
        """What comes after a block and is still ahead of the second entry."""
        block = program.blocks[number]
        if program.instructions[block.last - 1].address >= entry:
            return []  # it runs on through the second entry
        targets = {following: starts[following] for following in block.follows}
        elsewhere.extend(
            (block.last - 1, target)
            for target in targets.values()
            if not kernel.entry <= target <= entry
        )
        return [number for number, target in targets.items() if kernel.entry <= target < entry]

    reached(within, [first])
    if not elsewhere:
        return None
    at, target = min(elsewhere)
    return finding("goes elsewhere", place=program.place(at), target=target)
