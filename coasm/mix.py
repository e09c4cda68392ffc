"""What kinds of instructions a kernel is made of."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coasm.codeobject import CodeObject, Kernel
from coasm.codeobject.elf import STT_FUNC
from coasm.isa.flow import flow_of, leaves
from coasm.isa.kinds import CLASSES, class_of

if TYPE_CHECKING:
    from coasm.asm.code import Instruction

__all__ = ["CLASSES", "classify", "instruction_mix", "own_span"]


def classify(mnemonic: str) -> str:
    """The class of an instruction, one of :data:`CLASSES`, by its mnemonic."""
    flow = flow_of(mnemonic)
    if flow is not None and flow.sort != "trap":
        return "branch"
    return class_of(mnemonic)


def own_span(co: CodeObject, kernel: Kernel, code: Sequence[Instruction]) -> tuple[int, int]:
    """Which of *code*, all of the object's, are the kernel's own: from the first to the last.

    They go from its entry to its function's end. That is the symbol's, or, where the symbol has no
    size, the next kernel's entry or the end of the section, without the padding that follows the
    last end of control flow.
    """
    section = co.section_at(kernel.entry)
    sizes = [s.size for s in co.symbols if s.value == kernel.entry and s.type == STT_FUNC]
    size = max(sizes, default=0)
    end = kernel.entry + size
    if not size:
        end = section.addr + section.size if section else kernel.entry
        end = min([other.entry for other in co.kernels if other.entry > kernel.entry] + [end])
    first, last = (bisect_left(code, at, key=lambda i: i.address) for at in (kernel.entry, end))
    if not size:
        ends = (at for at in range(last - 1, first - 1, -1) if leaves(code[at].mnemonic))
        last = next(ends, last - 1) + 1
    return first, last


def instruction_mix(co: CodeObject, kernel: Kernel, code: Sequence[Instruction]) -> dict[str, int]:
    """Class (all of :data:`CLASSES`) → how many of a kernel's own instructions are of it."""
    first, last = own_span(co, kernel, code)
    found = [instruction.mnemonic for instruction in code[first:last]]
    counts = dict.fromkeys(CLASSES, 0)
    classes: dict[str, str] = {}
    for mnemonic in found:
        if mnemonic not in classes:
            classes[mnemonic] = classify(mnemonic)
        counts[classes[mnemonic]] += 1
    return counts
