"""What of a kernel the emulator would refuse, before it runs: instructions prepared, not executed.

An instruction is prepared in the modes that the kernel begins with. What only its values at run
time decide (an address, a number that is not published) is not seen.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

import coasm.emulator.rows  # all of them
from coasm.descriptor import Resources, resources
from coasm.emulator.engine.blocks import Blocks
from coasm.emulator.engine.program import Program
from coasm.emulator.errors import Fault
from coasm.emulator.initial import MODE_BITS, USER_SGPRS
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.table import ENDINGS, ROWS, WAITS
from coasm.emulator.state.memory import Memory
from coasm.emulator.state.shared import Shared
from coasm.emulator.state.waves import MASK_LANES
from coasm.errors import CoasmError

if TYPE_CHECKING:
    from coasm.asm.code import Instruction
    from coasm.codeobject import CodeObject, Kernel

__all__ = ["refused"]

assert coasm.emulator.rows

#: Registers, of which the file and the size count here.
_REGISTER = re.compile(r"\b([vsa])(?:\d+\b|\[(\d+):(\d+)\])")


def refused(co: CodeObject, kernel: Kernel, instructions: Iterable[Instruction]) -> dict[str, int]:
    """What is refused of these *instructions* of a kernel → how many there are of it.

    That is a mnemonic, or a mnemonic with the reason in brackets where only a form of it is
    refused; of a kernel that is not run at all, what stands in the way. Empty: nothing is.
    """
    asked = resources(kernel.descriptor, co.target)
    listed = list(instructions)
    whole = _whole(co, asked)
    if whole:
        return {whole: len(listed)}
    found: Counter[str] = Counter(
        f"the user SGPRs {user.name}" for user in asked.user_sgprs if user.name not in USER_SGPRS
    )
    judge = _Judge(co, kernel, asked, listed)
    for item in listed:
        reason = judge.reason(item)
        if reason:
            found[reason] += 1
    return dict(found)


def _whole(co: CodeObject, asked: Resources) -> str:
    """Why a kernel does not run at all, whatever its instructions; "" where it does."""
    processor = co.target.processor
    if not processor.family.emulated:
        return f"{processor.name}, which is not emulated"
    if asked.wave_size != MASK_LANES:
        return f"waves of {asked.wave_size} lanes"
    return ""


class _Judge:
    """Prepares the instructions of one kernel, each form once."""

    def __init__(
        self, co: CodeObject, kernel: Kernel, asked: Resources, listed: list[Instruction]
    ) -> None:
        program = Program(co, kernel, listed)
        shared = Shared(co.target.processor, asked, Memory(), asked.lds, asked.scratch, 0)
        self._program = program
        self._blocks = Blocks(program, shared, strict=False, single=True)
        mode = sum(value << MODE_BITS[name] for name, value in asked.float_modes
                   if name in MODE_BITS)  # fmt: skip
        self._context = Context(shared, mode, 0)
        self._known: dict[str, str] = {}

    def reason(self, item: Instruction) -> str:
        """What is refused of an instruction, "" where nothing is."""
        form = _form(item.text)
        if form not in self._known:
            self._known[form] = self._judged(item)
        return self._known[form]

    def _judged(self, item: Instruction) -> str:
        self._context.address, self._context.data = item.address, item.data
        name = item.mnemonic
        try:
            parsed, used = self._program.parsed(item.address)
            name = parsed.mnemonic
            if name in WAITS:
                return ""
            self._context.access = used
            if name in ENDINGS:
                ENDINGS[name](self._context, parsed)
            else:
                self._blocks.prepare(self._context, parsed)
        except (Fault, CoasmError) as fault:
            if name not in ROWS and name not in ENDINGS:
                return name
            return f"{name} ({_NUMBERED.sub('a register is', str(fault))})"
        return ""


#: What a message begins with that is about one register, whichever it is.
_NUMBERED = re.compile(r"^[vas]\d+ is")


@lru_cache(maxsize=1 << 14)
def _form(text: str) -> str:
    """An instruction without the numbers of its registers."""

    def size(match: re.Match[str]) -> str:
        low, high = match[2], match[3]
        return match[1] + ("" if low is None else f"[{int(high) - int(low)}]")

    return _REGISTER.sub(size, text)
