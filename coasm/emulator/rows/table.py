"""The table of instructions: each mnemonic once, with the function that prepares it.

A row's builder gets a :class:`~coasm.emulator.operands.Context` and the parsed instruction and
gives the step that runs it on a group. ``note`` says what about it is known to be less than exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from coasm.emulator.rows.context import Context, Step
from coasm.isa import Parsed

__all__ = ["GFX942", "GFX950", "ROWS", "Builder", "Row", "row"]

Builder = Callable[[Context, Parsed], Step]


#: The first GFX version that has an instruction.
GFX942, GFX950 = (9, 4), (9, 5)


class Row(NamedTuple):
    """One instruction: how it is prepared, and what of it is less than exact.

    ``inert``: the modifiers that change no result, by name; every other one the builder takes or
    the instruction is refused. ``since``, ``until``: the first and the last GFX version (of the
    targets that are emulated) that have it.
    """

    build: Builder
    note: str = ""
    inert: str = ""
    since: tuple[int, int] = GFX942
    until: tuple[int, int] = GFX950


ROWS: dict[str, Row] = {}


def row(
    names: str,
    build: Builder,
    note: str = "",
    inert: str = "",
    since: tuple[int, int] = GFX942,
    until: tuple[int, int] = GFX950,
) -> None:
    """Add the rows of the mnemonics in *names*, separated by blanks."""
    for name in names.split():
        ROWS[name] = Row(build, note, inert, since, until)
