"""The code of an object as the rules walk it: operations in basic blocks, with their edges.

Edges are those of direct branches and of what falls through. Where an indirect jump or a call goes
is not followed, but for the sequences whose address is proven (:mod:`coasm.asm.references`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from coasm.asm.decode import Code, Instruction, branch_target
from coasm.asm.lines import Line, Spot
from coasm.codeobject import CodeObject, Kernel
from coasm.codeobject.elf import STT_FUNC
from coasm.errors import UnsupportedError
from coasm.linter.findings import Place
from coasm.linter.operation import Operation, operation
from coasm.target import relative

if TYPE_CHECKING:
    from coasm.asm.references import CodeReference

__all__ = ["Block", "Program", "Unfollowed", "build_program", "kernels_of"]

#: What goes where an address in registers says, and calls.
_JUMPS = ("s_setpc_b64", "s_rfe_b64", "s_rfe_restore_b64", "s_cbranch_g_fork", "s_cbranch_join")
_CALLS = ("s_swappc_b64", "s_call_b64")
_BREAKS = (*_JUMPS, *_CALLS, "s_endpgm")


class Block(NamedTuple):
    """Operations ``first`` to ``last - 1``. ``follows`` are the blocks that may come next.

    ``resumes``: it comes after a call, whose effect on counters and hazards is not known.
    """

    first: int
    last: int
    follows: tuple[int, ...]
    resumes: bool


class Unfollowed(NamedTuple):
    """The operation *at* does not say where it goes on."""

    at: int
    why: str


@dataclass(frozen=True)
class Program:
    """The instructions of an object in order of their addresses, and their blocks.

    ``entries`` are the names of kernels and functions by the index of their first block;
    ``reached`` the blocks that are judged; ``falls`` are the operations behind which flow runs
    into data or the end of the code. ``lines`` is address → line of the source; the ``name`` of the
    source tells its own lines from those of the files that it includes.
    """

    co: CodeObject
    processor: str
    instructions: Sequence[Instruction]
    blocks: Sequence[Block]
    entries: Mapping[int, str]
    unfollowed: Sequence[Unfollowed]
    falls: Sequence[int]
    reached: frozenset[int]
    lines: Mapping[int, Line] = field(default_factory=dict)
    name: str = ""

    @cached_property
    def operations(self) -> Sequence[Operation]:
        """The instructions as the rules of gfx942 and gfx950 see them.

        Raises:
            UnsupportedError: an instruction whose operands are not known.
        """
        return [_operation(item, self.processor) for item in self.instructions]

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that the metadata lists; none where there is no metadata."""
        return kernels_of(self.co)

    def place(self, index: int) -> Place:
        """Where the operation *index* is."""
        at = self.instructions[index]
        return self.place_of(at.address, at.text)

    def place_of(self, address: int, text: str) -> Place:
        """Where *text* is, which stands at *address*."""
        line = self.lines.get(address)
        if line is None:
            return Place(address, None, text)
        file, number = self._own(line.spot)
        body = None if line.body is None else self._own(line.body)
        return Place(address, number, text, file, line.macro, body)

    def _own(self, spot: Spot) -> tuple[str | None, int]:
        """*spot* with None for the source itself."""
        return None if spot.file == self.name else spot.file, spot.line

    def name_at(self, index: int) -> str:
        """The kernel or function that the operation *index* is in."""
        starts = sorted(self.entries)
        at = bisect_right(starts, index, key=lambda block: self.blocks[block].first) - 1
        return self.entries[starts[at]] if at >= 0 else ""


def build_program(
    co: CodeObject,
    code: Mapping[int, Code],
    *,
    lines: Mapping[int, Line] | None = None,
    name: str = "",
    kernel: str | None = None,
) -> Program:
    """The program of *co* from its decoded sections *code* (:func:`coasm.asm.decode.decode`).

    With *kernel* only what that kernel reaches is judged; without, what any kernel or function
    reaches, or all code where there is none or flow cannot be followed.

    Raises:
        UnsupportedError: no such kernel.
    """
    jumps = _proven_jumps(co, code)
    processor = relative(co.target.name)
    instructions: list[Instruction] = []
    ends: set[int] = set()  # operations behind which there is no code
    for index in sorted(code):
        for item in code[index]:
            if isinstance(item, Instruction):
                instructions.append(item)
            elif instructions:
                ends.add(len(instructions) - 1)
        if instructions:
            ends.add(len(instructions) - 1)
    at = {item.address: index for index, item in enumerate(instructions)}
    names = _names(co, at)
    targets = [_target(item, jumps) for item in instructions]
    leaders = {0, *names} if instructions else set()
    for index, item in enumerate(instructions):
        target = targets[index]
        if target is not None and target in at:
            leaders.add(at[target])
        if target is not None or item.text.startswith(_BREAKS):
            leaders.add(index + 1)
    leaders |= {index + 1 for index in ends}
    firsts = sorted(index for index in leaders if index < len(instructions))
    block_at = {first: number for number, first in enumerate(firsts)}
    blocks: list[Block] = []
    unfollowed: list[Unfollowed] = []
    falls: list[int] = []
    resumes = False
    for number, first in enumerate(firsts):
        index = (firsts[number + 1] if number + 1 < len(firsts) else len(instructions)) - 1
        item, target = instructions[index], targets[index]
        mnemonic = item.mnemonic
        calls, jumps_on = mnemonic in _CALLS, mnemonic in _JUMPS
        follows: list[int] = []
        if target is not None:
            if target in at:
                follows.append(block_at[at[target]])
            else:
                unfollowed.append(Unfollowed(index, f"goes to {target:#x}, where no code is"))
        elif calls or jumps_on:
            unfollowed.append(Unfollowed(index, "goes where a register says"))
        if not (calls or jumps_on or mnemonic.startswith(("s_endpgm", "s_branch"))):
            if index in ends:
                falls.append(index)
            else:
                follows.append(number + 1)
        blocks.append(Block(first, index + 1, tuple(dict.fromkeys(follows)), resumes))
        resumes = calls and index not in ends
    entries = {block_at[index]: name for index, name in names.items()}
    roots = list(entries)
    if kernel is not None:
        roots = [block for block, name in entries.items() if name == kernel]
        if not roots:
            raise UnsupportedError(f"no kernel {kernel!r} in {co.name}")
    reached = _reach(blocks, roots)
    if kernel is None and (unfollowed or not roots):
        reached = frozenset(range(len(blocks)))
    return Program(
        co,
        processor,
        instructions,
        blocks,
        entries,
        unfollowed,
        falls,
        reached,
        lines or {},
        name,
    )


def _operation(item: Instruction, processor: str) -> Operation:
    try:
        return operation(item.text, processor)
    except UnsupportedError as error:
        raise UnsupportedError(f"{item.address:#x}: {item.text}: {error}") from None


def _proven_jumps(co: CodeObject, code: Mapping[int, Code]) -> dict[int, int]:
    """``s_setpc_b64`` → where it goes, of the long branches that compilers make.

    They add a distance to the program counter right before.
    """
    found: dict[int, int] = {}
    references: Mapping[int, CodeReference] | None = None
    for items in code.values():
        for before, item in pairwise(items):
            if not isinstance(item, Instruction) or not item.text.startswith("s_setpc_b64 s["):
                continue
            if references is None:
                from coasm.asm.references import find_references

                references = find_references(co, dict(code)).code
            reference = references.get(before.address)
            high = int.from_bytes(before.data[:4], "little") >> 16 & 0x7F
            low = int.from_bytes(item.data[:4], "little") & 0xFF
            if reference and reference.kind == "rel32@hi" and high == low + 1:
                found[item.address] = reference.target
    return found


def kernels_of(co: CodeObject) -> tuple[Kernel, ...]:
    """The kernels of *co*; none where it has no metadata, as a listing may."""
    return co.kernels if co.metadata_note is not None else ()


def _names(co: CodeObject, at: Mapping[int, int]) -> dict[int, str]:
    """Operation → the name of the kernel or function that starts with it."""
    found = {
        at[symbol.value]: symbol.name
        for symbol in co.symbols
        if symbol.type == STT_FUNC and co.section_of(symbol) is not None and symbol.value in at
    }
    found.update({at[k.entry]: k.name for k in kernels_of(co) if k.entry in at})
    return found


def _target(item: Instruction, jumps: Mapping[int, int]) -> int | None:
    return jumps.get(item.address) if item.mnemonic in _JUMPS else branch_target(item)


def _reach(blocks: Sequence[Block], roots: Sequence[int]) -> frozenset[int]:
    """The blocks that flow can reach from *roots*; behind a call too."""
    found: set[int] = set()
    todo = list(roots)
    while todo:
        number = todo.pop()
        if number not in found:
            found.add(number)
            todo += blocks[number].follows
            if number + 1 < len(blocks) and blocks[number + 1].resumes:
                todo.append(number + 1)
    return frozenset(found)
