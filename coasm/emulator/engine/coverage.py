"""Which instructions of a kernel a launch executed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from coasm.emulator.engine.program import Program
from coasm.emulator.options import Coverage
from coasm.isa.kinds import is_a

__all__ = ["coverage_of"]


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
    """Whether it is what assemblers and linkers fill gaps between functions with."""
    return is_a(instruction.mnemonic, "fills gaps") or not any(instruction.data)
