"""Wait states over the control-flow graph: the rows of :mod:`coasm.linter.hazards`, applied.

What is in flight when a block starts is the nearest that any way there leaves: the shortest path
counts, around loops too. Every producer in the window is checked, not the nearest alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from coasm.linter import hazards
from coasm.linter.findings import Finding, Fix
from coasm.linter.hazards import FARTHEST, HAZARDS, WRITTEN, Hazard
from coasm.linter.operation import Operation, kind, named
from coasm.linter.program import Block, Program
from coasm.linter.rules import RULES

__all__ = ["Violation", "check_states", "states_of", "violations"]


class _Row(NamedTuple):
    """A hazard's row for one target, with kinds as bits."""

    hazard: Hazard
    producer: int
    unless: int
    consumer: int
    but: int
    into: tuple[str, ...]
    states: int | Mapping[int, int]


class _Hot(NamedTuple):
    """What a producer leaves: rows with the registers and the states that they are about."""

    mask: int
    farthest: int
    rows: tuple[tuple[_Row, int, int], ...]


class Violation(NamedTuple):
    """A *consumer* that comes *has* states after a *producer* and *needs* more of them."""

    hazard: Hazard
    producer: int
    consumer: int
    has: int
    needs: int
    overlap: int


@lru_cache(maxsize=8)
def _rows(processor: str) -> tuple[_Row, ...]:
    found = []
    for hazard in HAZARDS:
        states: object = hazard.states
        if isinstance(states, Mapping) and isinstance(next(iter(states)), str):
            states = states.get(processor)
        if states is None:
            continue
        assert isinstance(states, (int, Mapping))
        found.append(
            _Row(
                hazard,
                kind(hazard.producer),
                kind(hazard.unless),
                kind(hazard.consumer),
                kind(hazard.but),
                tuple(hazard.into.split()),
                states,
            )
        )
    return tuple(found)


def states_of(operation: Operation) -> int:
    """The wait states that an instruction counts for where it stands between two others."""
    if operation.base != "s_nop":
        return 1
    first = operation.operands[0] if operation.operands else None
    value = getattr(first, "value", 0)
    return (int(value) & 15) + 1


@lru_cache(maxsize=1 << 17)
def _left_by(operation: Operation, processor: str) -> _Hot | None:
    """What *operation* leaves for those behind it; None where no row has it as producer."""
    rows = []
    mask = farthest = 0
    for row in _rows(processor):
        if not operation.kinds & row.producer or operation.kinds & row.unless:
            continue
        out = row.hazard.out
        registers = operation.writes & WRITTEN[out] if out in WRITTEN else operation.role(out)
        states = row.states
        if not isinstance(states, int):
            assert operation.matrix is not None
            states = states.get(operation.matrix.passes, 0)
        if registers and states:
            rows.append((row, registers, states))
            mask |= registers
            farthest = max(farthest, states)
    return _Hot(mask, farthest, tuple(rows)) if rows else None


def _matches(same: str, producer: Operation, consumer: Operation) -> bool:
    """Whether producer and consumer are as the row's ``same`` says."""
    if not same:
        return True
    if same in (hazards.SAME_NAME, hazards.OTHER_NAME):
        return (producer.base == consumer.base) == (same == hazards.SAME_NAME)
    if producer.writes & WRITTEN["vgprs"] != consumer.role("c"):
        return same == hazards.PART
    return same == (hazards.EXACT if producer.base == consumer.base else hazards.OTHER_OPCODE)


class _Flight(NamedTuple):
    """A producer in flight: its operation's index, and the time when its states begin."""

    producer: int
    since: int
    hot: _Hot


def violations(program: Program, *, repair: bool = False) -> list[Violation]:
    """Every place that has too few wait states, in order of the consumers.

    With *repair* the missing states count as inserted before each consumer that lacks them, so
    that what follows needs no more than it would then.
    """
    left = [_left_by(operation, program.processor) for operation in program.operations]
    states = [states_of(operation) for operation in program.operations]
    entries: list[dict[int, int]] = [{} for _ in program.blocks]
    found: dict[int, list[Violation]] = {}
    todo = sorted(program.reached, reverse=True)
    waiting = set(todo)
    while todo:
        number = todo.pop()
        waiting.discard(number)
        block = program.blocks[number]
        found[number], leaving = _walk(program, block, entries[number], left, states, repair)
        for following in block.follows:
            into = entries[following]
            nearer = {p: d for p, d in leaving.items() if d < into.get(p, FARTHEST)}
            if nearer:
                into.update(nearer)
                if following not in waiting:
                    waiting.add(following)
                    todo.append(following)
    return [violation for number in sorted(found) for violation in found[number]]


def _walk(
    program: Program,
    block: Block,
    entry: Mapping[int, int],
    left: Sequence[_Hot | None],
    states: Sequence[int],
    repair: bool,
) -> tuple[list[Violation], dict[int, int]]:
    """One block: what violates a row in it, and producer → states since where it ends."""
    flights = [
        _Flight(producer, -distance, hot)
        for producer, distance in sorted(entry.items(), key=lambda item: -item[1])
        if (hot := left[producer]) is not None
    ]
    mask = 0
    for flight in flights:
        mask |= flight.hot.mask
    found: list[Violation] = []
    operations = program.operations
    time = 0
    for index in range(block.first, block.last):
        operation = operations[index]
        if mask & (operation.reads | operation.writes):
            violated = _check(operations, flights, index, time)
            found += violated
            if repair and violated:
                time += max(v.needs - v.has for v in violated)
        time += states[index]
        hot = left[index]
        if hot is not None:
            flights = [f for f in flights if time - f.since < f.hot.farthest]
            flights.append(_Flight(index, time, hot))
            mask = 0
            for flight in flights:
                mask |= flight.hot.mask
    leaving: dict[int, int] = {}
    for flight in flights:
        if time - flight.since < flight.hot.farthest:
            leaving[flight.producer] = time - flight.since  # the last of a loop's is the nearest
    return found, leaving


def _check(
    operations: Sequence[Operation], flights: Sequence[_Flight], index: int, time: int
) -> list[Violation]:
    """The rows that operation *index* violates at *time*, the worst of each rule and producer."""
    consumer = operations[index]
    touches = consumer.reads | consumer.writes
    worst: dict[tuple[str, int], Violation] = {}
    for producer, since, hot in flights:
        has = time - since
        if has >= hot.farthest or not hot.mask & touches:
            continue
        for row, registers, needs in hot.rows:
            if has >= needs or not consumer.kinds & row.consumer or consumer.kinds & row.but:
                continue
            overlap = 0
            for role in row.into:
                overlap |= consumer.role(role)
            overlap &= registers
            hazard = row.hazard
            if overlap and _matches(hazard.same, operations[producer], consumer):
                key = hazard.rule, producer
                before = worst.get(key)
                if before is None or before.needs - before.has < needs - has:
                    worst[key] = Violation(hazard, producer, index, has, needs, overlap)
    return list(worst.values())


def check_states(program: Program) -> list[Finding]:
    """The findings of :func:`violations`."""
    return [_finding(program, violation) for violation in violations(program)]


def _finding(program: Program, v: Violation) -> Finding:
    missing = v.needs - v.has
    return Finding(
        v.hazard.rule,
        v.hazard.level,
        program.name_at(v.consumer),
        program.place(v.consumer),
        f"{RULES[v.hazard.rule].title}: {named(v.overlap)}",
        f"insert s_nop {min(missing, 16) - 1} before it"
        if missing <= 16
        else f"insert {missing} wait states before it (s_nop 15 and s_nop {missing - 17})",
        program.place(v.producer),
        v.has,
        v.needs,
        Fix(states=missing),
    )
