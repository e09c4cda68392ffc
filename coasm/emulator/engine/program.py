"""A kernel's code, prepared: instructions by address, blocks of steps, and what is in flight.

A block is a straight run of instructions from a branch target, or from where a branch falls
through, to the next one. Which memory operations are in flight when a block is entered decides
what its waits complete and which registers may not be touched; that is worked out once for each
such state (:class:`Plan`) and costs nothing afterwards.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from coasm.emulator.errors import EmulationError
from coasm.errors import UnsupportedError
from coasm.isa import Access, Parsed, access, parse, register_name
from coasm.isa.flow import FLOW

if TYPE_CHECKING:
    from coasm.asm.code import Instruction
    from coasm.codeobject import CodeObject, Kernel
    from coasm.llvm import Llvm

__all__ = ["EMPTY", "Flight", "InFlight", "Program", "program_of"]

#: Terminators: what ends a block, beside the next block's start.
ENDS = re.compile(rf"(?:{'|'.join(FLOW)}|s_barrier|s_setreg\w*|s_set_gpr_idx_\w+)$")


class Flight(NamedTuple):
    """One memory operation in flight: its instruction, the registers it will write.

    ``ordered`` operations of a counter end in their order. ``writes_lds``: its data reaches LDS
    only when it ends.
    """

    address: int
    mask: int
    ordered: bool
    writes_lds: bool


class InFlight(NamedTuple):
    """The memory operations in flight by counter, oldest first."""

    vm: tuple[Flight, ...]
    lgkm: tuple[Flight, ...]

    @property
    def mask(self) -> int:
        """A bit for each register that waits for data."""
        found = 0
        for flight in (*self.vm, *self.lgkm):
            found |= flight.mask
        return found


EMPTY = InFlight((), ())


class Program:
    """The instructions of a code object, parsed when they are first asked for."""

    def __init__(self, co: CodeObject, kernel: Kernel, instructions: Iterable[Instruction]) -> None:
        from coasm.asm.code import branch_target

        self.co, self.kernel = co, kernel
        self._instruction_set = co.target.processor.family.instructions
        self.instructions: dict[int, Instruction] = {i.address: i for i in instructions}
        self._parsed: dict[int, tuple[Parsed, Access]] = {}
        self.targets: dict[int, int] = {}
        self.leaders: set[int] = {kernel.entry}
        for address, instruction in self.instructions.items():
            target = branch_target(instruction)
            if target is not None:
                self.targets[address] = target
                self.leaders.add(target)
        #: The registers that a decoded matrix operand depends on.
        self.matrix_registers = self._matrix_registers()

    def parsed(self, address: int) -> tuple[Parsed, Access]:
        """The parts of the instruction at *address* and the registers it reads and writes."""
        found = self._parsed.get(address)
        if found is None:
            text = self.instructions[address].text
            try:
                parsed = parse(text)
                found = self._parsed[address] = parsed, access(parsed, self._instruction_set)
            except (ValueError, IndexError):
                raise UnsupportedError(
                    f"the text of this instruction is not understood: {text}"
                ) from None
        return found

    def describe(self, address: int) -> str:
        """An address for a message: with the label it has, or lies behind."""
        best = None
        for symbol in self.co.symbols:
            if symbol.value <= address and symbol.name and (best is None or symbol.value > best[0]):
                best = symbol.value, symbol.name
        label = ""
        if best is not None:
            behind = address - best[0]
            label = f" <{best[1]}{f'+{behind:#x}' if behind else ''}>"
        return self.place(address, label)

    def place(self, address: int, label: str = "") -> str:
        """An address for a message, with the line of the source that it is from."""
        line = self.co.line_of(address) if self.co.line_of is not None else None
        return f"{address:#x}{label}" + ("" if line is None else f", {line}")

    def _matrix_registers(self) -> frozenset[int]:
        from coasm.emulator.rows.matrix import source_keys

        found: set[int] = set()
        for address, instruction in self.instructions.items():
            if instruction.text.startswith("v_mfma"):
                with contextlib.suppress(UnsupportedError):  # an error where it is executed
                    for numbers in source_keys(self.parsed(address)[0]):
                        found.update(numbers)
        return frozenset(found)


_PROGRAMS: dict[tuple[bytes, str, int], Program] = {}
_CODE: dict[bytes, tuple[Instruction, ...]] = {}  # the last objects', for their other kernels
_KEEP, _KEEP_CODE = 64, 4


def program_of(co: CodeObject, kernel: Kernel, llvm: Llvm) -> Program:
    """The program of a kernel; kept, so that further launches do not decode again.

    Raises:
        CoasmError: the code cannot be disassembled.
        EmulationError: there is no instruction at the kernel's entry.
    """
    import hashlib

    from coasm.asm.decode import disassemble

    digest = hashlib.sha256(co.data).digest()
    key = digest, kernel.symbol, kernel.entry
    found = _PROGRAMS.get(key)
    if found is None:
        code = _CODE.get(digest)
        if code is None:
            code = tuple(disassemble(co, llvm).instructions)
            _drop(_CODE, _KEEP_CODE)
            _CODE[digest] = code
        program = Program(co, kernel, code)
        if kernel.entry not in program.instructions:
            raise EmulationError(
                f"{co.name}: {kernel.name}: no instruction at its entry {kernel.entry:#x}"
            )
        _drop(_PROGRAMS, _KEEP)
        found = _PROGRAMS[key] = program
    return found


def _drop(kept: dict[Any, Any], most: int) -> None:
    """Make room for one more: what came first goes."""
    while len(kept) >= most:
        del kept[next(iter(kept))]


def register_list(mask: int) -> str:
    """The registers of a bit mask, by name, for a message: the first of them."""
    numbers = [n for n in range(mask.bit_length()) if mask >> n & 1]
    names = ", ".join(register_name(n) for n in numbers[:4])
    return names + (", …" if len(numbers) > 4 else "")
