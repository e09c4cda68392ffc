"""Wait states over the control-flow graph: the hazards of the rules, applied.

What is in flight when a block starts is the nearest that any way there leaves: the shortest path
counts, around loops too. Every producer in the window is checked, not the nearest alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from coasm.flow.cfg import Block
from coasm.flow.forward import forward
from coasm.linter.findings import ADVICE, ERROR, Finding, Fix
from coasm.linter.operation import EXEC_BITS, SGPRS, WRITTEN, Operation, kind, named
from coasm.linter.program import Program
from coasm.linter.rules import RULES, wait_states
from coasm.linter.rules.rule import Hazard, states_in

__all__ = ["Violation", "check_states", "states_of", "violations"]


_SCALAR = kind("salu")
#: What of :data:`WRITTEN` is gone where a scalar instruction writes it again.
_SCALARS = ("sgprs", "vcc", "exec")
_SUPERSEDED = SGPRS | EXEC_BITS


class _Row(NamedTuple):
    """A row of a rule for one target, with kinds as bits."""

    rule: str
    hazard: Hazard
    producer: int
    unless: int
    consumer: int
    but: int
    into: tuple[str, ...]
    states: int | Mapping[int, int]
    sure: int | Mapping[int, int] | None


class _Hot(NamedTuple):
    """What a producer leaves: each row with the registers, the states and the sure states."""

    mask: int
    farthest: int
    rows: tuple[tuple[_Row, int, int, int], ...]


class Violation(NamedTuple):
    """A *consumer* that comes *has* states after a *producer* and *needs* more of them.

    ``level``: from the row's ``sure`` states on it is advice.
    """

    rule: str
    hazard: Hazard
    level: str
    producer: int
    consumer: int
    has: int
    needs: int
    overlap: int


@lru_cache(maxsize=8)
def _rows(column: str) -> tuple[_Row, ...]:
    found = []
    for name, hazard in ((rule.name, row) for rule in RULES.values() for row in rule.hazards):
        states = states_in(column, hazard.states)
        if states is not None:
            found.append(
                _Row(
                    name,
                    hazard,
                    kind(hazard.producer),
                    kind(hazard.unless),
                    kind(hazard.consumer),
                    kind(hazard.but),
                    tuple(hazard.into.split()),
                    states,
                    states_in(column, hazard.sure),
                )
            )
    return tuple(found)


def _by_passes(states: int | Mapping[int, int], operation: Operation) -> int:
    if isinstance(states, int):
        return states
    assert operation.matrix is not None
    return states.get(operation.matrix.passes, 0)


def states_of(operation: Operation) -> int:
    """The wait states that an instruction counts for where it stands between two others."""
    if operation.base != "s_nop":
        return 1
    first = operation.operands[0] if operation.operands else None
    value = getattr(first, "value", 0)
    return (int(value) & 15) + 1


@lru_cache(maxsize=1 << 16)
def _left_by(operation: Operation, column: str) -> _Hot | None:
    """What *operation* leaves for those behind it; None where no row has it as producer."""
    rows = []
    mask = farthest = 0
    for row in _rows(column):
        if not operation.kinds & row.producer or operation.kinds & row.unless:
            continue
        out = row.hazard.out
        registers = operation.writes & WRITTEN[out] if out in WRITTEN else operation.role(out)
        states = _by_passes(row.states, operation)
        sure = states if row.sure is None else _by_passes(row.sure, operation)
        if registers and states:
            rows.append((row, registers, states, sure))
            mask |= registers
            farthest = max(farthest, states)
    return _Hot(mask, farthest, tuple(rows)) if rows else None


def _matches(same: str, producer: Operation, consumer: Operation) -> bool:
    """Whether producer and consumer are as the row's ``same`` says."""
    if not same:
        return True
    if same in (wait_states.SAME_NAME, wait_states.OTHER_NAME):
        return (producer.base == consumer.base) == (same == wait_states.SAME_NAME)
    if producer.writes & WRITTEN["vgprs"] != consumer.role("c"):
        return same == wait_states.PART
    same_opcode = producer.base == consumer.base
    return same == (wait_states.EXACT if same_opcode else wait_states.OTHER_OPCODE)


class _Flight(NamedTuple):
    """A producer in flight: its operation, the time when its states begin, what of it is gone.

    ``gone`` are scalar registers that a scalar instruction has written since: who reads them reads
    that one's result.
    """

    producer: int
    since: int
    gone: int
    hot: _Hot


#: Producer → the states since, and what of it is gone.
_State = dict[int, tuple[int, int]]


def violations(program: Program, *, repair: bool = False, advice: bool = True) -> list[Violation]:
    """Every place that has too few wait states, in order of the consumers.

    With *repair* the missing states count as inserted before each consumer that lacks them, so
    that what follows needs no more than it would then. *advice*: what is advice too.
    """
    left = [_left_by(operation, program.family.wait_states) for operation in program.operations]
    states = [states_of(operation) for operation in program.operations]
    found: dict[int, list[Violation]] = {}

    def transfer(number: int, entry: _State) -> _State:
        found[number], leaving = _walk(
            program, program.blocks[number], entry, left, states, repair, advice
        )
        return leaving

    nothing: _State = {}
    forward(program.graph.follows, dict.fromkeys(program.reached, nothing), transfer, _merge)
    return [violation for number in sorted(found) for violation in found[number]]


def _merge(known: _State, new: _State) -> _State:
    """The nearest of each producer, gone only where it is on both ways."""
    merged = known
    for producer, (distance, gone) in new.items():
        before = known.get(producer)
        after = (distance, gone)
        if before is not None:
            after = (min(before[0], distance), before[1] & gone)
        if after != before:
            if merged is known:
                merged = dict(known)
            merged[producer] = after
    return merged


def _walk(
    program: Program,
    block: Block,
    entry: _State,
    left: Sequence[_Hot | None],
    states: Sequence[int],
    repair: bool,
    advice: bool,
) -> tuple[list[Violation], _State]:
    """One block: what violates a row in it, and what is in flight where it ends."""
    flights = [
        _Flight(producer, -distance, gone, hot)
        for producer, (distance, gone) in sorted(entry.items(), key=lambda item: -item[1][0])
        if (hot := left[producer]) is not None
    ]
    mask = _mask(flights)
    found: list[Violation] = []
    operations = program.operations
    time = 0
    for index in range(block.first, block.last):
        operation = operations[index]
        if mask & (operation.reads | operation.writes):
            violated = [
                v for v in _check(operations, flights, index, time) if advice or v.level == ERROR
            ]
            found += violated
            if repair:
                time += max((v.needs - v.has for v in violated), default=0)
            if operation.kinds & _SCALAR and operation.writes & mask & _SUPERSEDED:
                flights = [f._replace(gone=f.gone | operation.writes) for f in flights]
        time += states[index]
        hot = left[index]
        if hot is not None:
            flights = [f for f in flights if time - f.since < f.hot.farthest]
            flights.append(_Flight(index, time, 0, hot))
            mask = _mask(flights)
    leaving: _State = {}
    for flight in flights:
        if time - flight.since < flight.hot.farthest:
            # Of a loop's own producer the last is the nearest.
            leaving[flight.producer] = (time - flight.since, flight.gone & _SUPERSEDED)
    return found, leaving


def _mask(flights: Sequence[_Flight]) -> int:
    mask = 0
    for flight in flights:
        mask |= flight.hot.mask
    return mask


def _check(
    operations: Sequence[Operation], flights: Sequence[_Flight], index: int, time: int
) -> list[Violation]:
    """The rows that operation *index* violates at *time*, the worst of each rule and producer."""
    consumer = operations[index]
    touches = consumer.reads | consumer.writes
    worst: dict[tuple[str, int], Violation] = {}
    for producer, since, gone, hot in flights:
        has = time - since
        if has >= hot.farthest or not hot.mask & touches:
            continue
        for row, registers, needs, sure in hot.rows:
            if has >= needs or not consumer.kinds & row.consumer or consumer.kinds & row.but:
                continue
            overlap = 0
            for role in row.into:
                overlap |= consumer.role(role)
            overlap &= registers
            if row.hazard.out in _SCALARS:
                overlap &= ~gone
            if overlap and _matches(row.hazard.same, operations[producer], consumer):
                level = ERROR if has < sure else ADVICE
                found = Violation(row.rule, row.hazard, level, producer, index, has, needs, overlap)
                key = row.rule, producer
                if key not in worst or _weight(worst[key]) < _weight(found):
                    worst[key] = found
    return list(worst.values())


def _weight(violation: Violation) -> tuple[bool, int]:
    return violation.level == ERROR, violation.needs - violation.has


def check_states(program: Program) -> list[Finding]:
    """The findings of :func:`violations`."""
    return [_finding(program, violation) for violation in violations(program)]


def _finding(program: Program, v: Violation) -> Finding:
    missing = v.needs - v.has
    finding = RULES[v.rule].finding(
        "one s_nop" if missing <= 16 else "two s_nop",
        program.name_at(v.consumer),
        program.place(v.consumer),
        registers=named(v.overlap),
        missing=missing,
        operand=(missing - 1) % 16,
    )
    return finding._replace(
        level=v.level,
        producer=program.place(v.producer),
        has=v.has,
        needs=v.needs,
        fix=Fix(states=missing),
    )
