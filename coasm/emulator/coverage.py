"""Which instructions of a kernel a launch executed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from coasm.emulator.engine.program import Program

__all__ = ["Coverage", "coverage_of"]

#: What assemblers and linkers fill gaps between functions with.
_PADDING = ("s_nop", "s_code_end")


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


def coverage_of(program: Program, executed: Iterable[int], asleep: Iterable[int]) -> Coverage:
    """The coverage of a launch of *program*'s kernel that executed these addresses."""
    from coasm.codeobject.elf import STT_FUNC

    ran, slept = frozenset(executed), frozenset(asleep)
    co = program.co
    starts = {kernel.entry for kernel in co.kernels}
    starts |= {symbol.value for symbol in co.symbols if symbol.type == STT_FUNC}
    order = sorted(starts)
    addresses = sorted(program.instructions)
    functions: dict[int, list[int]] = {}
    for address in addresses:
        functions.setdefault(bisect_right(order, address), []).append(address)
    wanted = {bisect_right(order, address) for address in (program.kernel.entry, *ran, *slept)}
    code: set[int] = set()
    for function in wanted:
        own = functions[function]
        while own and _is_padding(program, own[-1]) and own[-1] not in ran:
            own.pop()
        code.update(own)
    return Coverage(frozenset(code), ran, slept)


def _is_padding(program: Program, address: int) -> bool:
    instruction = program.instructions[address]
    return instruction.mnemonic in _PADDING or not any(instruction.data)
