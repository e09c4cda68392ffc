"""One instruction of a kernel: its operands, the registers that it uses, where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple, Protocol

from coasm.asm.code import Instruction as Decoded
from coasm.asm.code import branch_target
from coasm.errors import UnsupportedError
from coasm.isa import Access, Parsed, Register, access, parse, register_name
from coasm.isa.access import roles
from coasm.isa.table import opcode
from coasm.isa.waits import counters_used
from coasm.target import counters_of

__all__ = [
    "Instruction",
    "Operand",
    "Origin",
    "accesses",
    "accesses_of",
    "parsed_halves",
    "registers_of",
    "shown",
]

#: Roles of the table → what they are called here.
_ROLES = {"d": "write", "s": "read", "x": "read-write", "k": "partial write", "-": ""}
_GUESS = "(a guess)"


class Operand(NamedTuple):
    """One operand as it is printed.

    ``role`` is ``read``, ``write``, ``read-write``, ``partial write`` (what is not written stays),
    or empty for what is neither (a label, ``off``). ``kind`` is the table's: a number format
    (``f16x2``), ``mask`` (a bit for each lane), a part of an address (``addr``, ``base``, ``rsrc``,
    ``soffset``), or empty. ``size`` is its bytes (of each lane in a VGPR), 0 where it has none.
    ``registers`` are the names of those that it spans.
    """

    text: str
    role: str
    kind: str
    size: int
    registers: tuple[str, ...]


class Origin(Protocol):
    """The code object that an instruction is of, as far as instructions know it."""

    @property
    def instruction_set(self) -> str:
        """Which of the table's instruction sets it has."""

    @property
    def source_line(self) -> Callable[[int], str | None]:
        """Address → file and line of the source."""


class Instruction:
    """One instruction, made when it is asked for.

    ``index`` is its place among the kernel's instructions, ``address`` that in the object, ``text``
    what LLVM prints, ``bytes`` its encoding, ``co`` the code object that it is of.
    """

    __slots__ = ("_decoded", "co", "index")

    def __init__(self, index: int, decoded: Decoded, co: Origin) -> None:
        self.index = index
        self._decoded = decoded
        self.co = co

    @property
    def address(self) -> int:
        """Where it begins in the object's memory."""
        return self._decoded.address

    @property
    def text(self) -> str:
        """The instruction as LLVM prints it."""
        return self._decoded.text

    @property
    def bytes(self) -> bytes:
        """The encoding."""
        return self._decoded.data

    @property
    def size(self) -> int:
        """Bytes of the encoding."""
        return len(self._decoded.data)

    @property
    def mnemonic(self) -> str:
        """The first word of the text, with the suffix that names its encoding."""
        return self._decoded.mnemonic

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The operands in the order of the text; of a pair of instructions those of both.

        Raises:
            UnsupportedError: the table does not have the instruction, or not so.
        """
        return _operands(shown(self._decoded), self.co.instruction_set)

    @property
    def reads(self) -> tuple[str, ...]:
        """The registers that it reads, implicit ones too (``exec_lo``, ``scc``, ``vcc_lo``).

        Raises:
            UnsupportedError: as :attr:`operands`.
        """
        return registers_of(accesses(self._decoded, self.co.instruction_set).reads)

    @property
    def writes(self) -> tuple[str, ...]:
        """The registers that it writes, implicit ones too.

        Raises:
            UnsupportedError: as :attr:`operands`.
        """
        return registers_of(accesses(self._decoded, self.co.instruction_set).writes)

    @property
    def counter(self) -> str | None:
        """The wait counters that it counts in: ``vmcnt``, ``vmcnt lgkmcnt``, ``loadcnt``; or None.

        Raises:
            UnsupportedError: those of the target are not described.
        """
        instructions = self.co.instruction_set
        counters = counters_of(instructions)
        if counters is None:
            raise UnsupportedError(f"the wait counters of gfx{instructions} are not described")
        parsed = parsed_halves(self._decoded.text)[0]
        found = opcode(parsed.mnemonic, instructions)
        if found is None:
            return None
        returns = bool(accesses(self._decoded, instructions).writes)
        used = counters_used(found, counters, returns=returns, gds="gds" in parsed.modifiers)
        return " ".join(used) or None

    @property
    def line(self) -> str | None:
        """File and line of the source, ``kernel.s:12``; None where they are not known.

        Of a listing it is the listing's, of an object with debug information the compiled source's.
        """
        return self.co.source_line(self.address)

    @property
    def target(self) -> int | None:
        """The address that a direct branch or call goes to."""
        return branch_target(self._decoded)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instruction) and self._decoded == other._decoded

    def __hash__(self) -> int:
        return hash(self._decoded)

    def __repr__(self) -> str:
        return f"<{self.address:#x}: {self.text}>"


def shown(decoded: Decoded) -> str:
    """The text with the registers that are really meant.

    Raises:
        UnsupportedError: which those are is not known.
    """
    if not decoded.registers:
        return decoded.text
    if decoded.registers.endswith(_GUESS):
        raise UnsupportedError(
            f"{decoded.address:#x}: {decoded.text}: which VGPRs it means depends on the way to it"
        )
    return f"{decoded.mnemonic} {decoded.registers}"


def accesses(decoded: Decoded, instructions: str) -> Access:
    """The registers that an instruction reads and writes; of a pair those of both.

    Raises:
        UnsupportedError: the table does not have it, or not so.
    """
    try:
        return accesses_of(shown(decoded), instructions)
    except UnsupportedError as error:
        raise UnsupportedError(f"{decoded.address:#x}: {decoded.text}: {error}") from None


@lru_cache(maxsize=1 << 16)
def accesses_of(text: str, instructions: str) -> Access:
    """The same of an instruction's text."""
    parts = [access(one, instructions) for one in parsed_halves(text)]
    if len(parts) == 1:
        return parts[0]
    return Access(*(frozenset[int]().union(*sets) for sets in zip(*parts, strict=True)))


def parsed_halves(text: str) -> tuple[Parsed, ...]:
    """An instruction taken apart, or both of a pair."""
    return tuple(parse(half.strip()) for half in text.split(" :: "))


def registers_of(numbers: Iterable[int]) -> tuple[str, ...]:
    """The names of registers, in the order of their numbers."""
    return tuple(map(register_name, sorted(numbers)))


@lru_cache(maxsize=1 << 14)
def _operands(text: str, instructions: str) -> tuple[Operand, ...]:
    mnemonic, _, rest = text.partition(" ")
    found = roles(mnemonic, rest, instructions)
    if found is None:
        raise UnsupportedError(f"{mnemonic} is not described for gfx{instructions}, or not so")
    parsed = [operand for half in parsed_halves(text) for operand in half.operands]
    made = []
    for at, (part, slot) in enumerate(found):
        operand = parsed[at] if at < len(parsed) else None
        numbers = operand.numbers if isinstance(operand, Register) else ()
        size = (slot.bits + 7) // 8 if slot.bits is not None else 4 * len(numbers)
        role = _ROLES[slot.role]
        made.append(Operand(part, role, slot.kind, size, registers_of(numbers)))
    return tuple(made)
