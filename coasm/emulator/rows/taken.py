"""What a builder takes of an instruction: whatever it leaves is an error, not silence.

A builder gets the modifiers as :class:`Taken`, which notes those that it looks up, and its operands
through the accessors of :class:`~coasm.emulator.rows.context.Context`, which note what they are
given.
"""

from __future__ import annotations

from typing import Any

from coasm.emulator.errors import Fault
from coasm.isa import Literal, Operand, Parsed, Register, Word

__all__ = ["ALL", "Taken", "check_taken", "peek", "plain"]

#: As a row's ``inert``: the instruction does nothing here, whatever its operands.
ALL = "*"

#: What a list modifier has where it says nothing.
_LISTS = {"op_sel": "0", "op_sel_hi": "1", "neg_lo": "0", "neg_hi": "0", "neg": "0"}


class Taken(dict[str, str]):
    """The modifiers of an instruction; ``names`` are those that were looked up."""

    def __init__(self, modifiers: dict[str, str]) -> None:
        super().__init__(modifiers)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return super().__contains__(name)


def peek(parsed: Parsed, name: str) -> str:
    """A modifier's text, "" where it is absent; it does not count as taken."""
    return dict.get(parsed.modifiers, name, "")


def plain(operand: Operand) -> None:
    """Whoever takes an operand as it is may not be given one with a modifier.

    Raises:
        Fault: it has one.
    """
    if isinstance(operand, (Register, Literal)):
        for name in ("negate", "absolute", "sext"):
            if getattr(operand, name, False):
                raise Fault(f"the source modifier ({name}) of an operand is not emulated here")


def _without_effect(name: str, value: str) -> bool:
    if name in _LISTS:
        return set(value.strip("[]").split(",")) <= {_LISTS[name]}
    return value in ("0", "0x0") or (name.endswith("_sel") and value == "DWORD")


def check_taken(parsed: Parsed, seen: set[Operand | int], inert: str) -> None:
    """Compare what an instruction, with :class:`Taken` modifiers, has with what its builder took.

    *seen*: register numbers and constants that were read or written. *inert*: modifiers that do
    not change a result.

    Raises:
        Fault: a modifier or an operand is left over.
    """
    if inert == ALL:
        return
    taken = parsed.modifiers
    assert isinstance(taken, Taken)
    for name, value in taken.items():
        if name in taken.names or name in inert.split() or _without_effect(name, value):
            continue
        if name == "dst_unused" and peek(parsed, "dst_sel") in ("", "DWORD"):
            continue  # nothing is unused
        shown = name if value == "1" else f"{name}:{value}"
        raise Fault(f"the modifier {shown} of {parsed.mnemonic} is not emulated")
    for operand in parsed.operands:
        if isinstance(operand, Register):
            known = not seen.isdisjoint(operand.numbers)
        elif isinstance(operand, Literal):
            known = operand._replace(negate=False, absolute=False) in seen
        else:
            known = operand in seen or operand == Word("off")
        if not known:
            raise Fault(f"an operand of {parsed.mnemonic} is not emulated: {operand}")
