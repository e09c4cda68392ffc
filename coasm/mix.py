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

__all__ = ["CLASSES", "classify", "instruction_mix"]


def classify(mnemonic: str) -> str:
    """The class of an instruction, one of :data:`CLASSES`, by its mnemonic."""
    flow = flow_of(mnemonic)
    if flow is not None and flow.sort != "trap":
        return "branch"
    return class_of(mnemonic)


def instruction_mix(co: CodeObject, kernel: Kernel, code: Sequence[Instruction]) -> dict[str, int]:
    """Class (all of :data:`CLASSES`) → how many, from a kernel's entry to its function's end.

    The end is the symbol's, or, where the symbol has no size, the next kernel's entry or the end
    of the section, without the padding that follows the last end of control flow.
    """
    section = co.section_at(kernel.entry)
    sizes = [s.size for s in co.symbols if s.value == kernel.entry and s.type == STT_FUNC]
    size = max(sizes, default=0)
    end = kernel.entry + size
    if not size:
        end = section.addr + section.size if section else kernel.entry
        end = min([other.entry for other in co.kernels if other.entry > kernel.entry] + [end])
    first, last = (bisect_left(code, at, key=lambda i: i.address) for at in (kernel.entry, end))
    found = [instruction.mnemonic for instruction in code[first:last]]
    if not size:
        stop = max((at for at, name in enumerate(found) if leaves(name)), default=-1)
        found = found[: stop + 1] or found
    counts = dict.fromkeys(CLASSES, 0)
    classes: dict[str, str] = {}
    for mnemonic in found:
        if mnemonic not in classes:
            classes[mnemonic] = classify(mnemonic)
        counts[classes[mnemonic]] += 1
    return counts
