"""A kernel's code: its instructions by address, parsed once; the last programs are kept."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from coasm.emulator.errors import EmulationError
from coasm.emulator.rows.table import ROWS
from coasm.errors import UnsupportedError
from coasm.isa import Access, Parsed, access, parse, register_name

if TYPE_CHECKING:
    from coasm.asm.code import Instruction
    from coasm.codeobject import CodeObject, Kernel
    from coasm.llvm import Llvm

__all__ = ["Program", "program_of"]


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
        #: The registers that a decoded operand depends on.
        self.decoded_registers = self._decoded_registers()

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

    def error(self, address: int, text: str, who: str = "") -> EmulationError:
        """What is wrong with the instruction at *address*; *who*: in which wave, with a comma."""
        instruction = self.instructions.get(address)
        shown = f" `{instruction.text}`" if instruction is not None else ""
        return EmulationError(
            f"{self.kernel.name}: {self.describe(address)}{shown}{who}: {text}", address
        )

    def _decoded_registers(self) -> frozenset[int]:
        found: set[int] = set()
        for address, instruction in self.instructions.items():
            row = ROWS.get(instruction.mnemonic)
            if row is not None and row.decodes is not None:
                with contextlib.suppress(UnsupportedError):  # an error where it is executed
                    for numbers in row.decodes(self.parsed(address)[0]):
                        found.update(numbers)
        return frozenset(found)


class _Keyed:
    """A kernel of a code object, equal to that of the same bytes: a key for what is kept of it."""

    def __init__(self, co: CodeObject, kernel: Kernel | None, llvm: Llvm) -> None:
        import hashlib

        self.co, self.kernel, self.llvm = co, kernel, llvm
        self.key = hashlib.sha256(co.data).digest(), kernel and (kernel.symbol, kernel.entry)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.key == other.key


def program_of(co: CodeObject, kernel: Kernel, llvm: Llvm) -> Program:
    """The program of a kernel; kept, so that further launches do not decode again.

    Raises:
        CoasmError: the code cannot be disassembled.
        EmulationError: there is no instruction at the kernel's entry.
    """
    program = _program(_Keyed(co, kernel, llvm))
    if kernel.entry not in program.instructions:
        raise EmulationError(
            f"{co.name}: {kernel.name}: no instruction at its entry {kernel.entry:#x}"
        )
    return program


@lru_cache(64)
def _program(of: _Keyed) -> Program:
    assert of.kernel is not None
    return Program(of.co, of.kernel, _code(_Keyed(of.co, None, of.llvm)))


@lru_cache(4)  # the last objects', for their other kernels
def _code(of: _Keyed) -> tuple[Instruction, ...]:
    from coasm.asm.decode import disassemble

    return tuple(disassemble(of.co, of.llvm).instructions)


def register_list(mask: int) -> str:
    """The registers of a bit mask, by name, for a message: the first of them."""
    numbers = [n for n in range(mask.bit_length()) if mask >> n & 1]
    names = ", ".join(register_name(n) for n in numbers[:4])
    return names + (", …" if len(numbers) > 4 else "")
