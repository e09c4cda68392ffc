"""What a rule is: what it says and why, the words of its findings, its numbers and its bugs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from coasm.descriptor import Resources
from coasm.isa import Parsed
from coasm.linter.findings import ADVICE, ERROR, Finding, Place

__all__ = ["EVER", "Hazard", "Message", "OperandBug", "Rule", "States", "states_in"]

#: States that never suffice: only what clears a hazard does.
EVER = 1 << 20

#: By column (:class:`~coasm.target.Family`, ``wait_states``), of which a key may name several, or
#: one number for all; within it by the producer's passes, or one number.
States = int | Mapping[int, int] | Mapping[str, int | Mapping[int, int]]


def states_in(column: str, states: States | None) -> int | Mapping[int, int] | None:
    """The *states* of one column, a number or by passes; None where there are none for it."""
    if isinstance(states, Mapping) and isinstance(next(iter(states)), str):
        return next((of for names, of in states.items() if column in str(names).split()), None)
    return states  # type: ignore[return-value]


class Hazard(NamedTuple):
    """One row: *out* of a *producer*, *into* a *consumer*, needs *states* in between.

    Producer and consumer are kinds of :data:`coasm.linter.operation.KINDS`, of which one is
    enough, without those in *unless* (of the producer) and *but* (of the consumer). *out* is a
    role, or what of the written registers counts (:data:`~coasm.linter.operation.WRITTEN`); *into*
    are roles. *same* says how they have to match beside having a register in common. *on* are the
    columns that have the row, where its states do not say so.

    A state is any instruction, but with *counts* one of those kinds alone; *or_enough* is another
    such kind, of which so many suffice as well. *cleared* are kinds of instructions behind which
    the hazard is gone, and *through* kinds of which one has to come in between for it to be one.
    *fix* is what makes the states, or clears it: of :data:`coasm.linter.states.FIXES`.

    Fewer states than *sure* are an error (None: fewer than *states*). From there on it is advice,
    because sources disagree or a kernel that works does it: *witness* says which.
    """

    producer: str
    out: str
    consumer: str
    into: str
    states: States
    same: str = ""
    unless: str = ""
    but: str = ""
    sure: States | None = None
    witness: str = ""
    on: str = ""
    counts: str = ""
    or_enough: tuple[str, int] | None = None
    cleared: str = ""
    through: str = ""
    fix: str = "s_nop"

    def states_on(self, column: str) -> int | Mapping[int, int] | None:
        """The states that it needs on targets of a *column*; None where they do not have it."""
        return states_in(column, self.states) if not self.on or column in self.on.split() else None

    def seen(self, sure: States, witness: str) -> Hazard:
        """The row, an error below *sure* states and from there on advice, because of *witness*."""
        return self._replace(sure=sure, witness=witness)


class OperandBug(NamedTuple):
    """One row: where the target has the *trait*, *kind* must not be as *when* says.

    *trait* is the name of a :class:`~coasm.target.Family` attribute, *kind* one of
    :mod:`coasm.isa.kinds`, *case*
    names the rule's message. *when* is asked of the instruction and of the resources of the kernel
    that it is in, None in a function.
    """

    trait: str
    kind: str
    when: Callable[[Parsed, Resources | None], bool]
    case: str


class Message(NamedTuple):
    """The words of a finding, with ``{names}`` for what it is about, and its level."""

    what: str
    advice: str
    level: str = ERROR


#: What a rule says of its hazards, unless it has messages of its own.
_OF_HAZARDS = {
    "one s_nop": Message("{title}: {registers}", "insert s_nop {operand} before it"),
    "two s_nop": Message(
        "{title}: {registers}",
        "insert {missing} wait states before it (s_nop 15 and s_nop {operand})",
    ),
    "v_nop": Message("{title}: {registers}", "insert {missing} v_nop before it"),
    "instruction": Message("{title}: {registers}", "insert {instruction} before it"),
}


class Rule(NamedTuple):
    """A rule. ``title`` is the head of its findings, ``why`` what goes wrong, ``source`` of that.

    ``group`` is one of :data:`coasm.linter.rules.GROUPS`.
    """

    name: str
    title: str
    why: str
    source: str
    messages: Mapping[str, Message] = _OF_HAZARDS
    hazards: tuple[Hazard, ...] = ()
    bugs: tuple[OperandBug, ...] = ()
    group: str = ""

    @property
    def level(self) -> str:
        """The higher of the levels that its findings have."""
        if self.hazards:
            return ADVICE if all(row.sure == 0 for row in self.hazards) else ERROR
        levels = {message.level for message in self.messages.values()}
        return ERROR if ERROR in levels else ADVICE

    def finding(self, case: str, kernel: str, place: Place, **words: object) -> Finding:
        """What the rule says in a *case*, one of ``messages``, with the *words* that it names."""
        message = self.messages[case]
        what = message.what.format(title=self.title, **words).removesuffix(": ")
        return Finding(
            self.name, message.level, kernel, place, what, message.advice.format(**words)
        )
