"""``coasm lint --fix``: the missing wait states and waits put into a listing, and nothing else.

What is missing is worked out on the program: before an instruction goes a wait, then wait states,
until no finding is left; whatever turns out not to be needed after all is taken back. Then it is
written into the text, in one step, and the new listing is built again to see that it says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from coasm.asm.code import Instruction
from coasm.asm.source import NO_OPTIONS, SourceOptions
from coasm.counters import Counters
from coasm.errors import CoasmError, UnsupportedError
from coasm.isa.waits import simm_of, wait_text, wait_texts, waits_of
from coasm.linter.findings import ADVICE, ERROR, Finding
from coasm.linter.lint import allowed_rules
from coasm.linter.program import Program
from coasm.linter.rereads import rereads
from coasm.linter.sources import Source, listing_source
from coasm.linter.statements import Statements, insert
from coasm.linter.states import fix_of, violations
from coasm.linter.strict import check_strict
from coasm.linter.waits import check_waits
from coasm.target import with_wait_states

__all__ = ["Change", "Fixed", "fix"]

#: Rounds before it is said that no end is in sight.
_ROUNDS = 16
#: How often it is tried to do with less.
_TRIES = 128
#: The states that one s_nop gives at most.
_NOP = 16
_MNEMONIC_NOP = "s_nop"
_BY_HAND = "put the fix of coasm lint in by hand"


class Change(NamedTuple):
    """*text* was put before the instruction of *line* of the given listing.

    ``was``: the text of that line's instruction where it was changed into *text* instead.
    """

    line: int
    text: str
    was: str | None = None


class Fixed(NamedTuple):
    """The listing with what was missing, and what that was, in the order of the lines.

    ``left`` are the wait findings that no wait makes right. All lines are those of the given text.
    """

    text: str
    changes: tuple[Change, ...]
    left: tuple[Finding, ...]


class _Demand(NamedTuple):
    """What an instruction has to have before it: at most so many operations out, more states.

    ``put`` are the instructions that a generation has for what no state mends.
    """

    waits: tuple[tuple[str, int], ...] = ()
    states: int = 0
    put: tuple[str, ...] = ()

    @property
    def asked(self) -> set[str]:
        """The counters that it waits for, and the fields that ask for something."""
        fields = {name for name in ("states", "put") if getattr(self, name)}
        return fields | {counter for counter, _ in self.waits}


#: Operation of the given program → what goes before it.
_Demands = dict[int, _Demand]
_NOTHING = _Demand()


class _Missing(NamedTuple):
    """A finding as a demand at operation *user*. ``key`` tells it from others."""

    key: tuple[object, ...]
    user: int
    demand: _Demand
    is_error: bool
    local: bool


def fix(
    text: str,
    *,
    name: str = "<listing>",
    llvm: str | None = None,
    advice: bool = False,
    options: SourceOptions = NO_OPTIONS,
) -> Fixed:
    """The listing *text* with what it lacks of wait states and waits; with *advice* of that too.

    Lines keep labels, comments, indentation and ends. ``coasm: allow`` comments are kept to. Waits
    that are stricter than need be are not weakened.

    Raises:
        CoasmError: *text* cannot be judged, or not be changed: a macro or a repetition makes the
            instruction, or its line is not known. It names the file and the line.
    """
    source = listing_source(text, name, llvm, options=options)
    program = source.program
    if not program.family.wait_states or program.family.counters is None:
        raise UnsupportedError(
            f"{name}: no rules for wait states and waits of {program.co.target.name} "
            f"(there are for {' and '.join(with_wait_states())})"
        )
    repair = _Repair(source, advice)
    demands = repair.demands()
    made = repair.made(demands).program
    left = repair.left(made)
    if not demands and not repair.split:
        return Fixed(text, (), left)
    fixed, changes = _write(source, repair, demands)
    got = listing_source(fixed, name, llvm, options=options).program
    _check(source.name, got, made)
    return Fixed(fixed, changes, left)


class _Made(NamedTuple):
    """A program with demands met, its instructions and blocks alone.

    ``origin``: operation → that of the given program, None for what was put in.
    """

    program: Program
    origin: Sequence[int | None]


class _Repair:
    """What is missing in a program.

    ``accepted`` are the findings that stay: advice that was not asked for, and what comments allow.
    ``split``: the ``s_nop``s that say more than one can. ``raised``: what may be changed in its
    place, because the instruction behind it is reached through it alone.
    """

    def __init__(self, source: Source, advice: bool) -> None:
        self.source, self.advice = source, advice
        self.program = program = source.program
        assert program.family.counters is not None
        self.counters = program.family.counters
        allowed = allowed_rules(source)[0]
        self.allowed = {
            (rule, line)
            for (file, line), rules in allowed.items()
            for rule in rules
            if file is None
        }
        self.at = {item.address: index for index, item in enumerate(program.instructions)}
        self.block_of = {
            index: number
            for number, block in enumerate(program.blocks)
            for index in range(block.first, block.last)
        }
        self.lines = Statements(source)
        starts = {block.first for block in program.blocks}
        self.raised = {
            index
            for index, item in enumerate(program.instructions)
            if (item.mnemonic == _MNEMONIC_NOP or item.mnemonic in self.counters.waits)
            and index + 1 not in starts
            and self.lines.statement(index) is not None
        }
        self.split = {
            index: operand + 1
            for index, item in enumerate(program.instructions)
            if item.mnemonic == _MNEMONIC_NOP
            and (operand := _simm(item)) >= _NOP
            and not self._is_allowed("nop-range", index)
        }
        given = self.made({})
        self.accepted: set[tuple[object, ...]] = set()
        self.accepted = {
            missing.key
            for missing in (*self._waits(given, True), *self._states(given, False))
            if not (missing.is_error or advice)
        }

    def _is_allowed(self, rule: str, index: int) -> bool:
        line = self.program.lines.get(self.program.instructions[index].address)
        return line is not None and (rule, line.root) in self.allowed

    def left(self, program: Program) -> tuple[Finding, ...]:
        """The wait findings of *program*, which is fixed, that no wait makes right."""
        return tuple(
            finding
            for finding in _lacking(program)
            if finding.fix is None
            and (self.advice or finding.level == ERROR)
            and not self._is_allowed(finding.rule, self.at[finding.place.address])
        )

    def demands(self) -> _Demands:
        """What is missing: each wait as weak and each number of states as small as can be.

        Raises:
            CoasmError: it does not come to an end.
        """
        demands: _Demands = {}
        for find, fields in ((self._waits, self.counters.names), (self._states, ("states", "put"))):
            far: set[int] = set()
            for _ in range(_ROUNDS):
                made = self.made(demands)
                missing = find(made, True) or find(made, False)
                if not missing:
                    break
                for user, demand in _together(missing).items():
                    demands[user] = _more(demands.get(user, _NOTHING), demand)
                far |= {one.user for one in missing if not one.local}
            else:
                raise CoasmError(
                    f"{self.source.name}: the fixes do not come to an end after {_ROUNDS} rounds; "
                    "put those of the first findings in by hand"
                )
            self._take_back(demands, {(user, field) for user in far for field in fields}, find)
        return {user: demand for user, demand in demands.items() if demand != _NOTHING}

    def _take_back(
        self,
        demands: _Demands,
        knobs: set[tuple[int, str]],
        find: Callable[[_Made, bool], list[_Missing]],
    ) -> None:
        """Weaken those of *demands* that were made before the way around a loop was known.

        *knobs* are the operations and fields that may be more than is needed.
        """
        for _ in range(_TRIES):
            knobs = {(user, field) for user, field in knobs if field in demands[user].asked}
            if not knobs:
                return
            weaker = dict(demands)
            for user, field in knobs:
                weaker[user] = _weaker(weaker[user], field, self.counters)
            missing = find(self.made(weaker), False)
            if not missing:
                demands.update(weaker)
                continue
            needed = {(one.user, field) for one in missing for field in one.demand.asked}
            # Where others need it, the last of them goes first.
            knobs -= needed & knobs or {max(knobs)}

    def _waits(self, made: _Made, repair: bool) -> list[_Missing]:
        """The waits that *made* lacks; how they repair each other is known by itself.

        But not of loads to LDS: they come first, for their waits may be enough for others.
        """
        found: list[_Missing] = []
        lacks = [f for f in _lacking(made.program) if f.fix is not None]
        for finding in [f for f in lacks if f.rule == "lds-dma-wait"] or lacks:
            if finding.producer is None:
                continue
            assert finding.fix is not None
            user = self.at[finding.place.address]
            producer = self.at[finding.producer.address]
            demand = _Demand(finding.fix.waits)
            found += self._missing(finding.rule, producer, user, demand, finding.level)
        return found

    def _states(self, made: _Made, repair: bool) -> list[_Missing]:
        """The wait states that *made* lacks, with *repair* as if those before were there."""
        found: list[_Missing] = []
        for one in violations(made.program, repair=repair, advice=self.advice or not repair):
            user, producer = made.origin[one.consumer], made.origin[one.producer]
            assert user is not None and producer is not None
            if one.hazard.fix == "s_nop":
                demand = _Demand(states=one.needs - one.has)
            else:
                times = one.needs - one.has if one.hazard.fix == "v_nop" else 1
                demand = _Demand(put=(fix_of(one, made.program),) * times)
            found += self._missing(one.rule, producer, user, demand, one.level)
        for reread in rereads(made.program):
            at = made.origin[reread.consumer]
            assert at is not None
            found += self._missing("sgpr-reread", at, at, _Demand(put=(reread.instruction,)), ERROR)
        strict = self.advice and made.program.family.counters is not None
        for finding in check_strict(made.program) if strict else ():
            if finding.rule == "soft-clause":
                user = self.at[finding.place.address]
                found += self._missing(finding.rule, user - 1, user, _Demand(states=1), ADVICE)
        return found

    def _missing(
        self, rule: str, producer: int, user: int, demand: _Demand, level: str
    ) -> Iterator[_Missing]:
        key = rule, user, producer
        if key not in self.accepted and not self._is_allowed(rule, user):
            local = producer < user and self.block_of[producer] == self.block_of[user]
            yield _Missing(key, user, demand, level == ERROR, local)

    def before(self, user: int, demand: _Demand) -> tuple[str | None, list[str]]:
        """How *demand* is met: what the instruction ahead becomes, and what is put in."""
        ahead = user - 1 if user - 1 in self.raised else None
        became = None
        added: list[str] = []
        states = demand.states
        if demand.waits:
            left = dict(demand.waits)
            if ahead is not None and self._mnemonic(ahead) in self.counters.waits:
                became = _raised(self.program.instructions[ahead], left, self.counters)
            added += wait_texts(self.counters.of(**left), self.counters)
        if ahead is not None and self._mnemonic(ahead) == _MNEMONIC_NOP and states:
            has = _simm(self.program.instructions[ahead]) + 1
            total = min(has + states, _NOP)
            if total > has:
                became, states = f"{_MNEMONIC_NOP} {total - 1}", states - (total - has)
        return became, [*added, *_nops(states), *demand.put]

    def _mnemonic(self, index: int) -> str:
        return self.program.instructions[index].mnemonic

    def edits(self, demands: _Demands) -> tuple[dict[int, str], dict[int, list[str]]]:
        """The operations that become something else, and what is put in before which."""
        became: dict[int, str] = {}
        added: dict[int, list[str]] = {}
        for index, states in self.split.items():
            *added[index], became[index] = _nops(states)
        for user, demand in demands.items():
            changed, more = self.before(user, demand)
            if changed is not None:
                became[user - 1] = changed
            if more:
                added[user] = [*added.get(user, []), *more]
        return became, added

    def made(self, demands: _Demands) -> _Made:
        """The program with *demands* met."""
        became, added = self.edits(demands)
        if not became and not added:
            return _Made(self.program, range(len(self.program.instructions)))
        instructions: list[Instruction] = []
        origin: list[int | None] = []
        starts: dict[int, int] = {}
        for index, item in enumerate(self.program.instructions):
            starts[index] = len(instructions)
            for text in added.get(index, ()):
                instructions.append(_instruction(text, item.address, self.counters))
                origin.append(None)
            changed = became.get(index)
            if changed is not None:
                item = _instruction(changed, item.address, self.counters)
            instructions.append(item)
            origin.append(index)
        starts[len(self.program.instructions)] = len(instructions)
        blocks = [
            block._replace(first=starts[block.first], last=starts[block.last])
            for block in self.program.blocks
        ]
        graph = replace(self.program.graph, instructions=instructions, blocks=blocks)
        return _Made(replace(self.program, graph=graph), origin)


def _lacking(program: Program) -> list[Finding]:
    """The findings about waits, where there are rules for those of the target."""
    return check_waits(program)


def _together(missing: Iterable[_Missing]) -> _Demands:
    """What satisfies all of *missing*: the strictest waits, the most states."""
    found: _Demands = {}
    for one in missing:
        before = found.get(one.user, _NOTHING)
        states = max(before.states, one.demand.states)
        # As often as the one asks for it that asks most often.
        lacking = Counter(one.demand.put) - Counter(before.put)
        demand = one.demand._replace(states=states, put=tuple(lacking.elements()))
        found[one.user] = _more(before._replace(states=0), demand)
    return found


def _more(before: _Demand, more: _Demand) -> _Demand:
    """Both demands; the states are beside those that there were."""
    return _Demand(
        tuple(_stricter(dict(before.waits), more.waits).items()),
        before.states + more.states,
        before.put + more.put,
    )


def _stricter(one: dict[str, int], other: Iterable[tuple[str, int]]) -> dict[str, int]:
    """What waits for both."""
    found = dict(one)
    for counter, count in other:
        found[counter] = min(count, found.get(counter, count))
    return found


def _weaker(demand: _Demand, field: str, counters: Counters) -> _Demand:
    if field == "put":
        return demand._replace(put=demand.put[:-1])
    if field == "states":
        return demand._replace(states=demand.states - 1)
    most = counters.most[counters.names.index(field)]
    waits = [
        (counter, count + (counter == field))
        for counter, count in demand.waits
        if counter != field or count < most
    ]
    return demand._replace(waits=tuple(waits))


def _simm(item: Instruction) -> int:
    return int.from_bytes(item.data[:2], "little")


def _nops(states: int) -> list[str]:
    sizes = [_NOP] * (states // _NOP) + [states % _NOP] * bool(states % _NOP)
    return [f"{_MNEMONIC_NOP} {size - 1}" for size in sizes]


def _raised(ahead: Instruction, left: dict[str, int], counters: Counters) -> str | None:
    """The wait *ahead* when it also waits for what of *left* it can, which is taken from there."""
    fields = counters.waits[ahead.mnemonic]
    has = zip(counters.names, waits_of(ahead.mnemonic, ahead.data, counters) or (), strict=True)
    wanted = [(counter, left.pop(counter)) for counter in fields if counter in left]
    if not wanted:
        return None
    own = {counter: count for counter, count in has if count is not None}
    return wait_text(ahead.mnemonic, _stricter(own, wanted), counters)


def _instruction(text: str, address: int, counters: Counters) -> Instruction:
    """What is put in as the rules see it; nops and waits with SIMM16."""
    mnemonic = text.split(" ")[0]
    simm = 0
    if mnemonic in counters.waits:
        simm = simm_of(text, counters)
    elif mnemonic == _MNEMONIC_NOP:
        simm = int(text.split()[1])
    return Instruction(address, simm.to_bytes(4, "little"), text)


def _write(source: Source, repair: _Repair, demands: _Demands) -> tuple[str, tuple[Change, ...]]:
    """The listing with the fixes, and what they are, by line."""
    became, added = repair.edits(demands)
    text = list(source.text)
    lines = repair.lines
    changes = []
    # From the end on, so that what is still to come keeps its place.
    places = {}
    for index in {*became, *added}:
        line, place = lines.line(index), lines.statement(index)
        if line is None or place is None:
            raise lines.refuse(index, _BY_HAND)
        places[line] = index, place
    for line in sorted(places, reverse=True):
        index, (first, last) = places[line]
        own = text[line - 1]
        if index in became:
            changes.append(Change(line, became[index], own[first:last]))
            own = own[:first] + became[index] + own[last:]
        if index in added:
            text[line - 1 : line] = insert(own, first, added[index])
            changes += [Change(line, put) for put in reversed(added[index])]
        else:
            text[line - 1] = own
    return "\n".join(text), tuple(reversed(changes))


def _check(name: str, got: Program, wanted: Program) -> None:
    """See that the new listing is the program that was worked out.

    Raises:
        CoasmError: it is not.
    """
    both = zip(got.instructions, wanted.instructions, strict=False)
    plain = (_MNEMONIC_NOP, *(wanted.family.counters.waits if wanted.family.counters else ()))
    if len(got.instructions) != len(wanted.instructions) or any(
        one.mnemonic != other.mnemonic or (one.mnemonic in plain and one.data[:2] != other.data[:2])
        for one, other in both
    ):
        raise CoasmError(
            f"{name}: the fixed listing does not assemble to what was meant; "
            "put the fixes of coasm lint in by hand"
        )
