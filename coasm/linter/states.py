"""Wait states over the control-flow graph: the hazards of the rules, applied.

What is in flight when a block starts is the nearest that any way there leaves: the shortest path
counts, around loops too. Every producer in the window is checked, not the nearest alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache, reduce
from operator import or_
from typing import NamedTuple

from coasm.flow.cfg import Block
from coasm.flow.forward import forward
from coasm.isa import Operand, Register
from coasm.isa.depctr import FIELDS
from coasm.isa.table import opcode
from coasm.linter.findings import ADVICE, ERROR, Finding, Fix
from coasm.linter.operation import EXEC_BITS, ORDER, SGPRS, VGPRS, WRITTEN, Operation, kind, named
from coasm.linter.program import Program
from coasm.linter.rules import RULES, wait_states
from coasm.linter.rules.rule import EVER, Hazard, states_in

__all__ = ["FIXES", "Violation", "check_states", "fix_of", "states_of", "violations"]


class _Fixing(NamedTuple):
    """What makes a finding go away: the kinds that it has as an instruction, and its text."""

    kinds: int
    text: str


#: By the name in the rows. ``{wait}`` is the target's wait for what is on its way in a wave,
#: ``{source}`` the consumer's first source.
FIXES = {
    "s_nop": _Fixing(kind("salu"), "s_nop"),
    "v_nop": _Fixing(kind("valu v_nop"), "v_nop"),
    "move": _Fixing(kind("valu"), "v_mov_b32_e32 {source}, {source}"),
    "scalar move": _Fixing(kind("salu scalar_result"), "s_mov_b32 null, 0"),
    "stores": _Fixing(kind("vscnt0"), "s_waitcnt_vscnt null, 0x0"),
    "idle": _Fixing(kind("idle"), "{wait} 0x0"),
    "sdst": _Fixing(kind("sdst0"), "{wait} depctr_sa_sdst(0) depctr_va_sdst(0)"),
    "tensorcnt": _Fixing(kind("tensorcnt10"), "s_wait_tensorcnt 0xa"),
    **{field: _Fixing(kind(f"{field}0"), f"{{wait}} depctr_{field}(0)") for field in FIELDS},
}
#: Those of which as many are needed as states are missing.
_COUNTED = ("s_nop", "v_nop")
_DEPCTR = "s_waitcnt_depctr"

_SCALAR, _WMMA = kind("salu"), kind("coexecuting")


def _superseded(kinds: int) -> int:
    """What of :data:`WRITTEN` is gone where an instruction of these *kinds* writes it again.

    A scalar instruction's result is there at once; and a WMMA waits for the one ahead of it that
    writes the same registers.
    """
    return SGPRS | EXEC_BITS if kinds & _SCALAR else VGPRS if kinds & _WMMA else 0


class _Manner(NamedTuple):
    """How the states of a row pass, as bits of kinds: see :class:`~coasm.linter.rules.rule.Hazard`.

    ``counts``: of 0 every instruction is a state. ``other`` and ``enough`` are ``or_enough``.
    """

    counts: int = 0
    other: int = 0
    enough: int = EVER
    cleared: int = 0
    through: int = 0


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
    manner: _Manner


class _Hot(NamedTuple):
    """What a producer leaves: rows of one manner with the registers, states and sure states."""

    manner: _Manner
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


@cache
def _rows(column: str) -> tuple[_Row, ...]:
    found = []
    for name, hazard in ((rule.name, row) for rule in RULES.values() for row in rule.hazards):
        states = hazard.states_on(column)
        if states is None:
            continue
        other, enough = hazard.or_enough or ("", EVER)
        manner = _Manner(
            kind(hazard.counts), kind(other), enough, kind(hazard.cleared), kind(hazard.through)
        )
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
                manner,
            )
        )
    return tuple(found)


@lru_cache(maxsize=1 << 12)
def _rows_of(kinds: int, column: str) -> tuple[_Row, ...]:
    """The rows of which an instruction of these *kinds* is a producer."""
    return tuple(row for row in _rows(column) if kinds & row.producer and not kinds & row.unless)


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
def _left_by(operation: Operation, column: str) -> tuple[_Hot, ...]:
    """What *operation* leaves for those behind it, a part for each manner."""
    rows: dict[_Manner, list[tuple[_Row, int, int, int]]] = {}
    for row in _rows_of(operation.kinds, column):
        out = row.hazard.out
        registers = operation.writes & WRITTEN[out] if out in WRITTEN else operation.role(out)
        states = _by_passes(row.states, operation)
        sure = states if row.sure is None else _by_passes(row.sure, operation)
        if registers and states:
            rows.setdefault(row.manner, []).append((row, registers, states, sure))
    found = []
    for manner, those in rows.items():
        mask = reduce(or_, (registers for _, registers, _, _ in those))
        found.append(_Hot(manner, mask, max(states for _, _, states, _ in those), tuple(those)))
    return tuple(found)


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
    """A producer in flight: its operation, the times when its states begin, what of it is gone.

    ``gone`` are registers that have been written since: who reads them reads that result.
    ``active``: what has to come in between has come.
    """

    producer: int
    since: int
    other: int
    gone: int
    active: bool
    hot: _Hot


#: Producer and manner → the states since, those of the other kind, what of it is gone, whether
#: what has to come in between has.
_State = dict[tuple[int, _Manner], tuple[int, int, int, bool]]


def violations(program: Program, *, repair: bool = False, advice: bool = True) -> list[Violation]:
    """Every place that has too few wait states, in order of the consumers.

    With *repair* the missing states count as inserted before each consumer that lacks them, so
    that what follows needs no more than it would then. *advice*: what is advice too.
    """
    walk = _Walk(program, repair, advice)
    found: dict[int, list[Violation]] = {}

    def transfer(number: int, entry: _State) -> _State:
        found[number], leaving = walk.block(program.blocks[number], entry)
        return leaving

    nothing: _State = {}
    forward(program.graph.follows, dict.fromkeys(program.reached, nothing), transfer, _merge)
    return [violation for number in sorted(found) for violation in found[number]]


def _merge(known: _State, new: _State) -> _State:
    """The nearest of each producer, gone only where it is on both ways."""
    merged = known
    for key, after in new.items():
        before = known.get(key)
        if before is not None:
            after = (
                min(before[0], after[0]),
                min(before[1], after[1]),
                before[2] & after[2],
                before[3] or after[3],
            )
        if after != before:
            if merged is known:
                merged = dict(known)
            merged[key] = after
    return merged


class _Walk:
    """Goes through the blocks of a program."""

    def __init__(self, program: Program, repair: bool, advice: bool) -> None:
        column = program.family.wait_states
        self.operations = program.operations
        self.left = [_left_by(operation, column) for operation in self.operations]
        self.repair, self.advice = repair, advice
        manners = {row.manner for row in _rows(column)}
        #: The kinds that count by themselves, 0 first: every instruction.
        self.clocks = (0, *sorted({m.counts for m in manners} | {m.other for m in manners} - {0}))
        self.acts = reduce(or_, (m.cleared | m.through for m in manners), 0)

    def block(self, block: Block, entry: _State) -> tuple[list[Violation], _State]:
        """What violates a row in a block, and what is in flight where it ends."""
        times = dict.fromkeys(self.clocks, 0)
        flights = self._entering(entry)
        mask = _mask(flights)
        found: list[Violation] = []
        for index in range(block.first, block.last):
            operation = self.operations[index]
            kinds = operation.kinds
            if mask & (operation.reads | operation.writes):
                violated = [
                    v
                    for v in _check(self.operations, flights, index, times)
                    if self.advice or v.level == ERROR
                ]
                found += violated
                if self.repair and violated:
                    flights = _repaired(flights, violated, times)
                superseded = operation.writes & mask & _superseded(kinds)
                if superseded:
                    flights = [f._replace(gone=f.gone | superseded) for f in flights]
            if flights and kinds & self.acts:
                flights = _acted(flights, kinds)
                mask = _mask(flights)
            times[0] += states_of(operation)
            for clock in self.clocks[1:]:
                times[clock] += 1 if kinds & clock else 0
            hot = self.left[index]
            if hot:
                flights = _added(flights, index, hot, times)
                mask = _mask(flights)
        return found, _leaving(flights, times)

    def _entering(self, entry: _State) -> list[_Flight]:
        flights = []
        for (producer, manner), (since, other, gone, active) in entry.items():
            (hot,) = (hot for hot in self.left[producer] if hot.manner == manner)
            flights.append(_Flight(producer, -since, -other, gone, active, hot))
        flights.sort(key=lambda flight: (flight.since, flight.producer))
        return flights


def _alive(flight: _Flight, times: Mapping[int, int]) -> bool:
    """Whether it has not had states enough."""
    manner = flight.hot.manner
    return (
        times[manner.counts] - flight.since < flight.hot.farthest
        and times[manner.other] - flight.other < manner.enough
    )


def _acted(flights: Sequence[_Flight], kinds: int) -> list[_Flight]:
    """What is in flight behind an instruction of these *kinds*, which may clear some of it."""
    found = []
    for flight in flights:
        manner = flight.hot.manner
        if not kinds & manner.cleared:
            active = flight.active or bool(kinds & manner.through)
            found.append(flight if active == flight.active else flight._replace(active=active))
    return found


def _added(
    flights: Sequence[_Flight], index: int, hot: Sequence[_Hot], times: Mapping[int, int]
) -> list[_Flight]:
    """*flights* that still are, and what *index* leaves. What never ends, the last has alone."""
    ever = {new.manner: new.mask for new in hot if new.farthest == EVER}
    kept = [
        f
        for f in flights
        if _alive(f, times)
        and not (
            f.hot.farthest == EVER and f.hot.manner in ever and not f.hot.mask & ~ever[f.hot.manner]
        )
    ]
    for new in hot:
        manner = new.manner
        since, other = times[manner.counts], times[manner.other]
        kept.append(_Flight(index, since, other, 0, not manner.through, new))
    return kept


def _repaired(
    flights: Sequence[_Flight], violated: Sequence[Violation], times: dict[int, int]
) -> list[_Flight]:
    """What is in flight when what *violated* asks for stands before the instruction."""
    missing: dict[int, int] = {}
    cleared = 0
    for violation in violated:
        clock = kind(violation.hazard.counts)
        if violation.needs < EVER:
            missing[clock] = max(missing.get(clock, 0), violation.needs - violation.has)
        cleared |= FIXES[violation.hazard.fix].kinds
    if 0 not in missing:  # what is put in is a state, too
        missing[0] = max([1, *missing.values()])
    for clock, states in missing.items():
        times[clock] += states
    return _acted(flights, cleared)


def _leaving(flights: Sequence[_Flight], times: Mapping[int, int]) -> _State:
    leaving: _State = {}
    for flight in flights:
        if _alive(flight, times):
            manner = flight.hot.manner
            # Of a loop's own producer the last is the nearest.
            leaving[flight.producer, manner] = (
                times[manner.counts] - flight.since,
                times[manner.other] - flight.other,
                flight.gone,
                flight.active,
            )
    return leaving


def _mask(flights: Sequence[_Flight]) -> int:
    mask = 0
    for flight in flights:
        mask |= flight.hot.mask
    return mask


def _check(
    operations: Sequence[Operation],
    flights: Sequence[_Flight],
    index: int,
    times: Mapping[int, int],
) -> list[Violation]:
    """The rows that operation *index* violates, the worst of each rule and producer."""
    consumer = operations[index]
    touches = consumer.reads | consumer.writes
    worst: dict[tuple[str, int], Violation] = {}
    for flight in flights:
        hot = flight.hot
        if not hot.mask & touches or not flight.active or not _alive(flight, times):
            continue
        has = times[hot.manner.counts] - flight.since
        for row, registers, needs, sure in hot.rows:
            if has >= needs or not consumer.kinds & row.consumer or consumer.kinds & row.but:
                continue
            overlap = 0
            for role in row.into:
                overlap |= consumer.role(role)
            overlap &= registers
            if row.hazard.out in WRITTEN:
                overlap &= ~flight.gone
            producer = flight.producer
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
    instruction = fix_of(v, program)
    case = "instruction" if v.hazard.fix not in _COUNTED else v.hazard.fix
    if case == "s_nop":
        case = "one s_nop" if missing <= 16 else "two s_nop"
    finding = RULES[v.rule].finding(
        case,
        program.name_at(v.consumer),
        program.place(v.consumer),
        registers=named(v.overlap & ~ORDER),
        missing=missing,
        operand=(missing - 1) % 16,
        instruction=instruction,
    )
    fix = Fix(states=missing) if v.hazard.fix == "s_nop" else Fix(instruction=instruction)
    ever = v.needs == EVER
    return finding._replace(
        level=v.level,
        producer=program.place(v.producer),
        has=None if ever else v.has,
        needs=None if ever else v.needs,
        fix=fix._replace(times=missing) if v.hazard.fix == "v_nop" else fix,
    )


def fix_of(violation: Violation, program: Program) -> str:
    """The instruction that makes a *violation* go away, ahead of its consumer."""
    fix = FIXES[violation.hazard.fix]
    wait = "s_wait_alu" if opcode("s_wait_alu", program.family.instructions) else _DEPCTR
    consumer = program.operations[violation.consumer].operands
    source = named(_bits_of(consumer[1])) if len(consumer) > 1 else ""
    return fix.text.format(wait=wait, source=source)


def _bits_of(operand: Operand) -> int:
    if not isinstance(operand, Register):
        return 0
    return ((1 << operand.size) - 1) << operand.first
