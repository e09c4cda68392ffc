"""The table of instructions: each mnemonic once, with the function that prepares it.

A row's builder gets a :class:`~coasm.emulator.rows.context.Context` and the parsed instruction and
gives the step that runs it on a group. ``note`` says what about it is known to be less than exact.
Which target has an instruction says :mod:`coasm.isa.table`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from coasm.emulator.rows.context import Context
from coasm.emulator.rows.values import Getter, Step
from coasm.isa import Parsed

__all__ = ["ENDINGS", "ROWS", "WAITS", "Builder", "Ending", "Row", "ending", "row"]

Builder = Callable[[Context, Parsed], Step]
#: The registers that each matrix operand of an instruction depends on.
Operands = Callable[[Parsed], tuple[range, ...]]


class Row(NamedTuple):
    """One instruction: how it is prepared, and what of it is less than exact.

    ``inert``: the modifiers that change no result, by name; every other one the builder takes or
    the instruction is refused. ``decodes``: the registers whose values, decoded, the step keeps in
    ``Group.decoded`` until something writes them.
    """

    build: Builder
    note: str = ""
    inert: str = ""
    decodes: Operands | None = None


class Ending(NamedTuple):
    """What an instruction does that ends a block.

    ``sort`` is ``next`` (the code behind is prepared for another mode), ``mode`` (the same, and
    ``picks`` gives the MODE of each wave, int64 [n]), ``branch`` (of the waves
    that ``picks`` says, [n] booleans; without it of all), ``jump`` (to the addresses in memory that
    ``picks`` gives, [n] uint64), ``barrier`` or ``end``. ``step`` is what else it does, after
    ``picks``.
    """

    sort: str
    step: Step | None = None
    picks: Getter | None = None


ROWS: dict[str, Row] = {}
#: The instructions that end a block.
ENDINGS: dict[str, Callable[[Context, Parsed], Ending]] = {}
#: The instructions that wait for memory operations.
WAITS: set[str] = set()


def row(
    names: str,
    build: Builder,
    note: str = "",
    inert: str = "",
    decodes: Operands | None = None,
) -> None:
    """Add the rows of the mnemonics in *names*, separated by blanks."""
    for name in names.split():
        ROWS[name] = Row(build, note, inert, decodes)


def ending(names: str, build: Callable[[Context, Parsed], Ending]) -> None:
    """Add the instructions in *names*, which end a block."""
    for name in names.split():
        ENDINGS[name] = build
