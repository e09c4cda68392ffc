"""Which kernel arguments the code reads, by following the kernarg segment pointer through it.

The pointer starts in the user SGPRs that the descriptor asks for, and so do preloaded arguments. It
is followed along the control flow through moves, additions of constants, and masks of its upper
half; every load from it marks the bytes that it takes. Where the code does with it what is not
followed here (hands it to a function, adds an index, stores it), an argument that nothing else
reads is unknown, not dead. Sources: LLVM AMDGPU usage, "Initial Kernel Execution State" and
"Preloaded Kernel Arguments"; the CDNA3 and CDNA4 ISA guides (scalar memory, FLAT).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from coasm.asm.code import Instruction
from coasm.codeobject import CodeObject, Kernel
from coasm.descriptor import resources
from coasm.flow.cfg import Graph
from coasm.flow.forward import forward
from coasm.isa.access import roles
from coasm.isa.flow import flow_of
from coasm.isa.kinds import bytes_loaded, is_a
from coasm.isa.table import Slot

__all__ = ["Load", "Reads", "kernarg_reads"]


class Load(NamedTuple):
    """A load of *size* bytes at *offset* of the segment by the instruction at *address*."""

    address: int
    offset: int
    size: int


class Reads(NamedTuple):
    """The bytes of the kernarg segment that the code reads.

    ``bytes`` holds their offsets. ``complete`` is False where the pointer was lost from sight: what
    is not in ``bytes`` may be read then. ``preloaded`` is how many bytes the dispatch puts into
    SGPRs; such a byte counts as read where the code uses its SGPR. ``loads`` are the loads, in
    order of their addresses.
    """

    bytes: frozenset[int]
    complete: bool
    preloaded: int = 0
    loads: tuple[Load, ...] = ()

    def of(self, offset: int, size: int) -> bool | None:
        """Whether the code reads any of *size* bytes at *offset*; None where that is not known."""
        if size > len(self.bytes):
            read = any(offset <= at < offset + size for at in self.bytes)
        else:
            read = not self.bytes.isdisjoint(range(offset, offset + size))
        if read:
            return True
        return False if self.complete else None


# What a register holds, as far as it matters: a half of the pointer plus an offset, a constant, or
# a preloaded dword of the segment. Not certain: it holds something else on another way here.
class _Value(NamedTuple):
    kind: str  # "low", "high", "constant", "argument", "mixed"
    number: int = 0
    certain: bool = True


_HIGH = _Value("high")
_MIXED = _Value("mixed")  # different parts of the pointer or arguments on different ways here

_Operation = tuple[tuple[str, Slot], ...]
_State = dict[str, _Value]  # register ("s4", "v10") → value; others hold nothing of interest

_REGISTER = re.compile(r"([sva])(?:(\d+)|\[(\d+):(\d+)\])$")
_MOVES = frozenset(
    ("s_mov_b32", "s_movk_i32", "s_mov_b64", "v_mov_b32_e32", "v_mov_b32", "v_readfirstlane_b32")
)


def kernarg_reads(co: CodeObject, kernel: Kernel, graph: Graph) -> Reads:
    """Follow the kernarg pointer of *kernel* along the control-flow *graph* of the object.

    Raises:
        FormatError, UnsupportedError: the kernel descriptor cannot be read.
    """
    return _Walk(co, kernel, graph).run()


class _Walk:
    def __init__(self, co: CodeObject, kernel: Kernel, graph: Graph) -> None:
        self.graph = graph
        self.instructions = co.target.processor.family.instructions
        self.read: set[int] = set()
        self.loads: set[Load] = set()
        self.address = 0  # of the instruction that is followed
        self.complete = True
        self.lost = {one.at for one in graph.unfollowed} | set(graph.falls)
        asked = resources(kernel.descriptor, co.target)
        self.state: _State = {}
        self.entry = kernel.entry
        self.preloaded = 0
        for user in asked.user_sgprs:
            if user.name == "kernarg_segment_ptr":
                self.state[f"s{user.first}"] = _Value("low", 0)
                self.state[f"s{user.first + 1}"] = _HIGH
            elif user.name == "kernarg_preload" and user.count:
                first = _preload_offset(kernel)
                for index in range(user.count):
                    self.state[f"s{user.first + index}"] = _Value("argument", first + 4 * index)
                self.preloaded = 4 * user.count
                # Before it are 256 bytes that load the same SGPRs on firmware without preload
                # (LLVM: needsKernArgPreloadProlog).
                self.entry += co.target.processor.family.preload_prologue

    def run(self) -> Reads:
        start = self.graph.block_at(self.entry)
        if start is None:
            return Reads(frozenset(), False, self.preloaded)
        forward(self.graph.follows, {start: self.state}, self._block, _merge)
        loads = tuple(sorted(self.loads))
        return Reads(frozenset(self.read), self.complete, self.preloaded, loads)

    def _block(self, number: int, entry: _State) -> _State | None:
        """What registers hold where a block ends; None where nothing of interest goes on."""
        state = dict(entry)
        mnemonic = ""
        for instruction in self.graph.of(number):
            if not _is_of_interest(state):
                return None
            mnemonic, named, always = _named(instruction.text, instruction.registers)
            if always or not named.isdisjoint(state):
                self.address = instruction.address
                self._step(instruction, mnemonic, state)
        flow = flow_of(mnemonic)
        if not _is_of_interest(state) or (flow is not None and flow.sort == "end"):
            return None
        if (flow is not None and flow.sort in ("call", "fork")) or (
            self.graph.blocks[number].last - 1 in self.lost
        ):
            self.complete = False  # what comes next may read anything
            return None
        return state

    def _step(self, instruction: Instruction, mnemonic: str, state: _State) -> None:
        operands = _operands(instruction.registers or instruction.operands)
        if not operands:
            return
        operation = roles(
            mnemonic, instruction.registers or instruction.operands, self.instructions
        )
        if operation is None:
            # What it reads and writes is not described: the pointer may be lost here.
            operation = tuple((operand, Slot("x")) for operand in operands)
        sources = _held(operation, "sxk", state)
        for value in sources:
            if value.kind == "argument":
                self.read.update(range(value.number, value.number + 4))
        result = self._follow(mnemonic, operands, state)
        if result is None:
            # Something that is not followed: losing a part of the pointer makes the rest unknown.
            if any(v.kind in ("low", "high", "mixed") for v in sources):
                self.complete = False
            result = {}
        if is_a(mnemonic, "relative move"):
            self.complete = False  # a register by a number that is not known here
        for register in _of(operation, "dxk"):
            state.pop(register, None)
        state.update(result)

    def _follow(self, mnemonic: str, operands: Sequence[str], state: _State) -> _State | None:
        """What a followed instruction leaves in its result; None for any other instruction."""

        def value(operand: str) -> _Value | None:
            number = _constant(operand)
            if number is not None:
                return _Value("constant", number)
            registers = _registers(operand)
            return state.get(registers[0]) if len(registers) == 1 else None

        size = bytes_loaded(mnemonic)
        if size and is_a(mnemonic, "scalar"):
            return self._load(state, operands[1], operands[2:], size)
        if size and len(operands) > 1:
            # global: address, then a scalar base or off; flat: the address alone.
            address, *more = " ".join(operands[1:3]).split()
            if is_a(mnemonic, "global") and more and more[0] != "off":
                return self._load(state, more[0], [address, *more[1:]], size)
            return self._load(state, address, more, size)
        written = _registers(operands[0])
        if mnemonic in _MOVES:
            if len(operands) != 2:
                return None
            sources = _registers(operands[1])
            if sources and len(sources) == len(written):
                held = [(to, state.get(by)) for to, by in zip(written, sources, strict=True)]
                return {
                    to: what for to, what in held if what is not None and what.kind != "argument"
                }
            number = _constant(operands[1])
            if number is not None and len(written) == 1:
                return {written[0]: _Value("constant", number)}
            return None
        if len(written) != 1 or len(operands) != 3:
            return None
        left, right = value(operands[1]), value(operands[2])
        if left is None or right is None:
            return None
        if left.kind == "constant":
            left, right = right, left
        if right.kind != "constant":
            return None
        if mnemonic in ("s_add_u32", "s_add_i32", "s_sub_u32") and left.kind in ("low", "constant"):
            if mnemonic == "s_sub_u32":
                if _constant(operands[1]) is not None:
                    return None
                right = _Value("constant", -right.number)
            return {written[0]: left._replace(number=left.number + _signed(right.number))}
        if (
            mnemonic in ("s_addc_u32", "s_subb_u32")
            and left.kind == "high"
            and _signed(right.number) in (0, -1)
        ):
            return {written[0]: left}  # the carry of the lower half
        if mnemonic == "s_and_b32" and left.kind == "high" and right.number & 0xFFFF == 0xFFFF:
            return {written[0]: left}  # addresses have 48 bits
        return None

    def _load(self, state: _State, base: str, offsets: Sequence[str], size: int) -> _State | None:
        """Mark what a load from *base* plus *offsets* takes; {} if it is one from the segment."""
        held = [state.get(register) for register in _registers(base)]
        if not any(v is not None and v.kind in ("low", "high", "mixed") for v in held):
            return None  # another pointer; a part of ours may still be among the offsets
        low, high = held if len(held) == 2 else (None, None)
        if low is None or high is None or (low.kind, high.kind) != ("low", "high"):
            return None
        offset = low.number
        for text in offsets:
            for word in text.split():
                if word.startswith("offset:"):
                    number = _constant(word[7:])
                elif _registers(word):
                    here = state.get(_registers(word)[0])
                    number = here.number if here is not None and here.kind == "constant" else None
                elif word[:1].isdigit() or word[:1] == "-":
                    number = _constant(word)
                else:
                    number = 0  # off, glc, sc0, nt, th:…
                if number is None:
                    return None
                offset += number
        self.read.update(range(offset, offset + size))
        self.loads.add(Load(self.address, offset, size))
        self.complete &= low.certain and high.certain
        return {}


def _is_of_interest(state: _State) -> bool:
    return any(value.kind != "constant" for value in state.values())


@lru_cache(maxsize=1 << 16)
def _named(text: str, registers: str) -> tuple[str, frozenset[str], bool]:
    """The mnemonic of an instruction, the registers that it names, and whether it matters always.

    One that names no register of interest does not, unless it may make a constant of interest.
    """
    mnemonic, _, rest = text.partition(" ")
    parts = _operands(registers or rest.strip())
    named = frozenset(register for part in parts for register in _registers(part))
    return mnemonic, named, mnemonic in _MOVES or is_a(mnemonic, "relative move")


def _preload_offset(kernel: Kernel) -> int:
    """Byte of the segment that the first preloaded SGPR holds: bits 7 to 15 of bytes 58 and 59."""
    return 4 * (int.from_bytes(kernel.descriptor[58:60], "little") >> 7 & 0x1FF)


def _merge(known: _State, new: _State) -> _State:
    merged = {}
    for register in known.keys() | new.keys():
        first, second = known.get(register), new.get(register)
        value = first if first == second else _either(first, second)
        if value is not None:
            merged[register] = value
    return known if merged == known else merged


def _either(one: _Value | None, other: _Value | None) -> _Value | None:
    """What a register holds that holds different things on two ways."""
    of_interest = [v for v in (one, other) if v is not None and v.kind != "constant"]
    if not of_interest:
        return None
    first, last = of_interest[0], of_interest[-1]
    if first.kind in ("low", "high") and first[:2] == last[:2]:
        return first._replace(certain=False)
    # An argument's SGPR that may have been overwritten still counts as the argument.
    if first.kind == "argument" and None in (one, other):
        return first
    return _MIXED


@cache
def _operands(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


@cache
def _registers(operand: str) -> tuple[str, ...]:
    """The 32-bit registers of an operand, without modifiers (``-v1``, ``|v1|``)."""
    word = operand.split()[0].strip("-|") if operand.split() else ""
    if "(" in word:
        word = word.partition("(")[2].rstrip(")")
    match = _REGISTER.match(word)
    if match is None:
        return ()
    if match[2] is not None:
        return (match[1] + match[2],)
    return tuple(f"{match[1]}{n}" for n in range(int(match[3]), int(match[4]) + 1))


def _held(operation: _Operation, which: str, state: _State) -> list[_Value]:
    """The values of interest in the operands whose roles are in *which*."""
    return [state[register] for register in _of(operation, which) if register in state]


def _of(operation: _Operation, which: str) -> list[str]:
    """The registers of the operands whose roles are in *which*."""
    return [
        register
        for operand, slot in operation
        if slot.role in which
        for register in _registers(operand)
    ]


@cache
def _constant(operand: str) -> int | None:
    try:
        return int(operand, 0)
    except ValueError:
        return None


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number
