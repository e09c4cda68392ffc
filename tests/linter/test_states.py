"""The wait-state table against LLVM: both judge the same programs, one with machine IR.

LLVM 22's ``post-RA-hazard-rec`` says how many states it puts before an instruction. Where its
number is not the table's, :data:`tests.linter.state_cases.DIFFERENCES` has both, and why.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import cycle, islice
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from coasm.isa import AGPR, VGPR
from coasm.linter.operation import kind, operation
from coasm.linter.program import Program
from coasm.linter.rules import RULES as ALL_RULES
from coasm.linter.states import Violation, violations
from coasm.llvm import Llvm
from coasm.target import processor
from tests.linter.mir import Blocks, Place, inserted, lintable, llc_path, printed, registers
from tests.linter.state_cases import (
    DIFFERENCES,
    MATRIX,
    TARGETS,
    Case,
    Difference,
    cases,
    matrix_text,
    pool,
)

#: What counts as one state, whatever it is.
_FILLERS = ("s_mov_b32 s95, 0", "s_waitcnt vmcnt(0)", "s_add_u32 s95, s96, s97", "s_nop 0")
#: States that are enough for any rule.
_FAR = ("s_nop 15", "s_nop 15")
#: The farthest that LLVM 22 looks back: what needs 20 states has enough with 19 for it.
_LLVM_LOOKS = 19


@pytest.fixture(scope="module")
def judge(llvm: Llvm) -> Llvm:
    if llvm.major != 22 or not llc_path(llvm).exists() or llvm.mc is None:
        pytest.skip("no llc and llvm-mc of LLVM 22, whose numbers these are")
    return llvm


def fill(states: int) -> list[str]:
    """So many states, each an instruction."""
    return list(islice(cycle(_FILLERS), states))


def nops(states: int) -> list[str]:
    """So many states, in as few instructions as can be."""
    return ["s_nop 15"] * (states // 16) + ([f"s_nop {states % 16 - 1}"] if states % 16 else [])


# Each shape is a program with *states* from the producer to the consumer on its shortest path.


def straight(case: Case, states: int) -> Blocks:
    return [[case.producer, *fill(states), case.consumer]]


def with_nops(case: Case, states: int) -> Blocks:
    return [[case.producer, *nops(states), case.consumer]]


def looped(case: Case, states: int) -> Blocks:
    """Through the back edge, which is a state."""
    body = [case.consumer, *_FAR, case.producer, *fill(states - 1), "s_cbranch_scc1 1"]
    return [[*_FAR], body]


def in_two_blocks(case: Case, states: int) -> Blocks:
    """A loop of two blocks, whose first skips the second as often as not."""
    first = [case.consumer, *_FAR, case.producer, "s_cbranch_scc0 3"]
    return [[*_FAR], first, [*_FAR], [*nops(states - 2), "s_cbranch_scc1 1"]]


def branched(case: Case, states: int) -> Blocks:
    """Past a branch that is taken; what falls through goes a long way."""
    first = [case.producer, *fill(states - 1), "s_cbranch_scc0 2"]
    return [first, [*_FAR], [case.consumer]]


def joined(case: Case, states: int) -> Blocks:
    """From the second of two predecessors; the first does not have the producer."""
    return [["s_cbranch_scc0 2"], [case.producer, *fill(states)], [case.consumer]]


#: Shape → the fewest states that it can have.
SHAPES = {straight: 0, with_nops: 0, looped: 1, in_two_blocks: 2, branched: 1, joined: 0}


#: A rule of more pairs than so many has each pair straight and in one of the other shapes.
_FEW = 12
_TURNS = [shape for shape in SHAPES if shape is not straight]


class Judged(NamedTuple):
    """A program: what LLVM inserts before the consumer, and what the linter finds, by rule."""

    llvm: int
    ours: list[Violation]


def both(programs: Sequence[Blocks], target: str, llvm: Llvm) -> list[Judged]:
    """Each program as both judge it."""
    found: dict[int, list[Violation]] = defaultdict(list)
    program, places = lintable(programs, target, llvm)
    for violation in violations(program):
        found[places[violation.consumer][0]].append(violation)
    states = (sum(before.values()) for before in inserted(programs, target, llvm))
    return [Judged(number, found[at]) for at, number in enumerate(states)]


@cache
def adjacent(target: str, llvm: Llvm) -> list[tuple[Case, Judged, int]]:
    """The pairs with nothing in between; last what LLVM says of each one's ``like``."""
    found = cases(target)
    pairs: list[Blocks] = [[[case.producer, case.consumer]] for case in found]
    pairs += [[[case.producer, case.like or case.consumer]] for case in found]
    judged = both(pairs, target, llvm)
    count = len(found)
    return [(found[at], judged[at], judged[count + at].llvm) for at in range(count)]


def difference(case: Case) -> Difference | None:
    for row in DIFFERENCES:
        if (
            row.rule == case.rule
            and row.target in ("", case.target)
            and re.match(row.producer, case.producer)
            and re.match(row.consumer, case.consumer)
        ):
            return row
    return None


def expected(case: Case, llvm: int, like: int) -> int:
    """The states that the table has to have, from LLVM's number and the known differences."""
    row = difference(case)
    if row is None:
        return llvm
    return max(llvm, like) if row.ours is None else row.ours


RULES = sorted(rule.name for rule in ALL_RULES.values() if rule.hazards)
HAZARDS = [(rule.name, row) for rule in ALL_RULES.values() for row in rule.hazards]


@pytest.mark.parametrize("target", TARGETS)
def test_the_programs_are_the_same(judge: Llvm, target: str) -> None:
    texts = sorted({text for case in cases(target) for text in (case.producer, case.consumer)})
    assert printed(texts, target, judge) == texts


#: What keeps the half or the byte of its destination that it does not write. LLVM says so of some,
#: the linter of others.
_KEEPS = re.compile(r"v_fma_mix|v_cvt_scalef32_sr_|v_.* op_sel:\[[01,]*1\]$")

#: Both lanes take the same half of each source.
_PICKS = re.compile(r"v_pk_(add|mul|fma)_f32 .*op_sel_hi:\[0,0")


def _vectors(bits: int) -> set[str]:
    """VGPRs and AGPRs, as LLVM names them."""
    numbers = [number for number in range(VGPR, AGPR + 256) if bits >> number & 1]
    return {f"{'vgpr' if n < AGPR else 'agpr'}{(n - VGPR) % 256}" for n in numbers}


@pytest.mark.parametrize("target", TARGETS)
def test_the_registers_are_those_of_llvm(judge: Llvm, target: str) -> None:
    """What is written and what is read, of vector registers."""
    texts = {text for case in cases(target) for text in (case.producer, case.consumer)}
    texts |= {text for kind_ in pool(target) for text in kind_}
    names = sorted(texts)
    for text, (writes, reads) in zip(names, registers(names, target, judge), strict=True):
        writes, reads = ({r for r in part if r[:2] in ("vg", "ag")} for part in (writes, reads))
        made = operation(text, processor(target).family)
        assert _vectors(made.writes) == writes, text
        kept = writes if _KEEPS.match(text) else set()
        if _PICKS.match(text):
            # LLVM does not see that op_sel and op_sel_hi may leave a half of a source unread.
            assert _vectors(made.reads) < reads, text
            continue
        assert _vectors(made.reads) - kept == reads - kept, text


@pytest.mark.parametrize("target", TARGETS)
def test_every_row_has_pairs(judge: Llvm, target: str) -> None:
    """Each row, for each number of passes that an instruction of *target* has."""
    met: set[tuple[int, int]] = set()
    family = processor(target).family
    for case, judged, _ in adjacent(target, judge):
        made = operation(case.producer, family).matrix
        for violation in judged.ours:
            row = HAZARDS.index((violation.rule, violation.hazard))
            met |= {(row, 0), (row, made.passes if made else 0)}
    have = {
        operation(matrix_text(name), processor(target).family).matrix for name in MATRIX[target]
    }
    missing = []
    for row, (rule, hazard) in enumerate(HAZARDS):
        states = hazard.states_on(family.wait_states)
        if isinstance(states, dict):
            pipes = hazard.producer.split()
            passes = [m.passes for m in have if m and m.pipe in pipes and m.passes in states]
        else:
            passes = [0] if states else []
        missing += [(rule, hazard.producer) for n in passes if (row, n) not in met]
    assert not missing


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rule", ["", *RULES])
def test_a_pair(judge: Llvm, target: str, rule: str) -> None:
    """Side by side both need the same, in the rule that the case is of."""
    found = [row for row in adjacent(target, judge) if row[0].rule == rule]
    if not found:
        column = processor(target).family.wait_states
        assert not any(row.states_on(column) for row in ALL_RULES[rule].hazards)
    for case, (llvm, ours), like in found:
        row = difference(case)
        if row is not None:
            assert llvm == row.llvm, (case, row)
        wanted = expected(case, llvm, like)
        got = {v.rule: v.needs for v in ours}
        assert all(v.has == 0 for v in ours)
        assert got.pop(rule, 0) == wanted, (case, llvm)
        assert max(got.values(), default=0) <= max(wanted, 0) and set(got) <= {
            "mfma-overwrite-c",
            "sub-dword",
        }, case


@pytest.mark.parametrize("target", TARGETS)
def test_the_passes_of_every_matrix_instruction(judge: Llvm, target: str) -> None:
    """What reads D, and what overwrites C, waits by them."""
    pairs = []
    for name in MATRIX[target]:
        producer = matrix_text(name, 0, c=32)
        pairs += [[[producer, "v_mov_b32_e32 v200, v0"]], [[producer, "v_mov_b32_e32 v32, v200"]]]
    for pair, (llvm, ours) in zip(pairs, both(pairs, target, judge), strict=True):
        assert llvm == max((v.needs for v in ours), default=0), pair


@cache
def apart(target: str, llvm: Llvm) -> dict[str, list[tuple[str, Case, int, int, Judged]]]:
    """By rule: each pair in each shape with enough states, and one short: shape, case, states."""
    programs: list[Blocks] = []
    rows: list[tuple[str, Case, int, int, int]] = []
    total = Counter(case.rule for case in cases(target))
    for turn, (case, judged, like) in enumerate(adjacent(target, llvm)):
        needs = expected(case, judged.llvm, like)
        for shape, fewest in SHAPES.items():
            if total[case.rule] > _FEW and shape not in (straight, _TURNS[turn % len(_TURNS)]):
                continue
            if case.consumer.startswith("s_rfe") and shape in (looped, in_two_blocks):
                continue  # nothing comes behind it
            for states in (needs, needs - 1):
                if needs and states >= fewest:
                    programs.append(shape(case, states))
                    rows.append((shape.__name__, case, states, needs, judged.llvm))
    found: dict[str, list[tuple[str, Case, int, int, Judged]]] = defaultdict(list)
    for (name, case, states, needs, alone), judged in zip(
        rows, both(programs, target, llvm), strict=True
    ):
        found[case.rule].append((name, case, states, needs, judged))
        left = max(0, alone - states) if states < _LLVM_LOOKS else 0
        assert judged.llvm == left, (name, case, states, alone)
    return found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rule", RULES)
def test_enough_states_and_one_short(judge: Llvm, target: str, rule: str) -> None:
    """In each shape: clean with what is needed, and exactly the rule with one state fewer."""
    for shape, case, states, needs, (_, ours) in apart(target, judge)[rule]:
        got = [(v.rule, v.has, v.needs) for v in ours]
        assert got == ([(rule, states, needs)] if states < needs else []), (shape, case)


# --- programs at random -------------------------------------------------------------------------

#: Of these LLVM 22 takes the nearest that wrote a register, however long an older one takes.
_NEAREST = kind("mfma dot")


def _programs(target: str) -> st.SearchStrategy[list[Blocks]]:
    """Straight ones, and ones that go two ways and meet again, of each kind as many.

    Where ways meet LLVM 22 judges by the passes of whichever MFMA its search saw last, and what
    lies before the fork by the first way alone (:func:`test_where_ways_meet`): on the ways there
    is one MFMA or DOT, and nothing lies before the fork.
    """
    kinds = pool(target)
    far = [
        text
        for texts in kinds
        for text in texts
        if operation(text, processor(target).family).kinds & _NEAREST
    ]
    line = st.one_of([st.sampled_from(texts) for texts in kinds])
    plain = st.one_of(
        [
            st.sampled_from([text for text in texts if text not in far])
            for texts in kinds
            if texts[0] not in far
        ]
    )
    straight_ = st.lists(line, min_size=4, max_size=14).map(lambda lines: [lines])
    some = st.lists(plain, min_size=1, max_size=3)
    ways = st.tuples(some, some, some, st.integers(0, 2), st.sampled_from(far), line)
    return st.lists(st.one_of(straight_, straight_, ways.map(_forked)), min_size=25, max_size=25)


def _forked(parts: tuple[list[str], list[str], list[str], int, str, str]) -> Blocks:
    *blocks, at, far, last = parts
    made = [[*block, far] if at == number else block for number, block in enumerate(blocks)]
    return [["s_cbranch_scc0 2"], [*made[0], "s_branch 3"], made[1], [*made[2], last]]


def with_states(program: Blocks, before: dict[Place, int]) -> Blocks:
    """The program with so many states before each place."""
    states = {place[1:]: count for place, count in before.items()}
    return [
        [
            line
            for index, text in enumerate(texts)
            for line in (*nops(states.get((block, index), 0)), text)
        ]
        for block, texts in enumerate(program)
    ]


def _to_lds(text: str) -> bool:
    """Whether it is a load to LDS, which is a VALU for LLVM 22: of one state there is more."""
    return "_lds_" in text or text.endswith(" lds")


def _range(program: Program, found: Sequence[Violation]) -> tuple[int, int]:
    """The fewest and most states that LLVM 22 may insert where the linter misses those of *found*.

    By the differences that are known; and LLVM takes the nearest MFMA or DOT that wrote a register
    for the one that matters, though an older one with more passes may still be under way.
    """
    least = most = 0
    for v in found:
        texts = [program.instructions[at].text for at in (v.producer, v.consumer)]
        row = difference(Case(program.co.target.name, v.rule, *texts))
        fewest, needs = sorted((v.needs, v.needs if row is None else row.llvm))
        if v.has >= _LLVM_LOOKS:
            fewest = needs = 0
        most = max(most, needs - v.has)
        consumer = program.operations[v.consumer]
        touched = consumer.reads | consumer.writes
        between = program.operations[v.producer + 1 : v.consumer]
        if program.operations[v.producer].kinds & _NEAREST and any(
            other.kinds & _NEAREST and (other.writes | other.role("c")) & touched
            for other in between
        ):
            continue
        least = max(least, fewest - v.has)
    return least, most


class Disagreement(NamedTuple):
    """A place in a program, which has what LLVM inserts but there."""

    program: Blocks
    place: str
    llvm: int
    ours: list[tuple[str, str, str, int, int]]


def disagree(programs: Sequence[Blocks], target: str, llvm: Llvm) -> list[Disagreement]:
    """The places that LLVM and the linter judge differently, but for the known differences."""
    made: list[Blocks] = []
    judged: list[tuple[tuple[int, int] | None, int]] = []  # a place without its states, or none
    for before, blocks in zip(inserted(programs, target, llvm), programs, strict=True):
        made.append(with_states(blocks, before))
        judged.append((None, 0))
        for place, states in before.items():
            made.append(with_states(blocks, before | {place: 0}))
            earlier = [n for p, n in before.items() if p[1] == place[1] and p[2] < place[2]]
            judged.append(((place[1], place[2] + sum(len(nops(n)) for n in earlier)), states))
    program, places = lintable(made, target, llvm)
    found: dict[int, list[Violation]] = defaultdict(list)
    for violation in violations(program):
        number, block, index = places[violation.consumer]
        if judged[number][0] in (None, (block, index)):
            found[number].append(violation)
    result = []
    for number, (bare, states) in enumerate(judged):
        least, most = _range(program, found[number])
        text = "" if bare is None else made[number][bare[0]][bare[1]]
        if _to_lds(text):
            most = max(most, 1)
        if not least <= states <= most:
            names = [
                (program.instructions[v.producer].text, program.instructions[v.consumer].text)
                for v in found[number]
            ]
            ours = [
                (*pair, v.rule, v.has, v.needs)
                for pair, v in zip(names, found[number], strict=True)
            ]
            result.append(Disagreement(made[number], text, states, ours))
    return result


@pytest.mark.parametrize("target", TARGETS)
def test_programs_at_random(judge: Llvm, target: str) -> None:
    """Before each instruction both want as many states, where what comes before it has its own."""

    @settings(derandomize=True, max_examples=12, deadline=None, phases=[Phase.generate])
    @given(_programs(target))
    def check(programs: list[Blocks]) -> None:
        disagreements = disagree(programs, target, judge)
        assert not disagreements, disagreements[0]

    check()


def repaired(programs: Sequence[Blocks], target: str, llvm: Llvm, advice: bool) -> list[Blocks]:
    """The programs with the states that the linter says are missing."""
    program, places = lintable(programs, target, llvm)
    before: list[dict[Place, int]] = [{} for _ in programs]
    for v in violations(program, repair=True, advice=advice):
        place = places[v.consumer]
        known = before[place[0]].get(place, 0)
        before[place[0]][place] = max(known, v.needs - v.has)
    return [with_states(*pair) for pair in zip(programs, before, strict=True)]


@pytest.mark.parametrize("advice", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_a_repaired_program_is_clean(judge: Llvm, target: str, advice: bool) -> None:
    """Nothing is missing where ``repair`` has been followed, in loops too; nor for LLVM."""

    @settings(derandomize=True, max_examples=4, deadline=None, phases=[Phase.generate])
    @given(_programs(target))
    def check(programs: list[Blocks]) -> None:
        loops = [[[*_FAR], [*p[0], "s_cbranch_scc1 1"]] for p in programs if len(p) == 1]
        made = repaired([*programs, *loops], target, judge, advice)
        program, _ = lintable(made, target, judge)
        assert violations(program, advice=advice) == []
        if advice:
            straight_ = [blocks for blocks in made if len(blocks) == 1]
            for blocks, before in zip(straight_, inserted(straight_, target, judge), strict=True):
                for _, block, index in before:
                    assert _to_lds(blocks[block][index]), blocks

    check()


# --- where LLVM 22 is mistaken ------------------------------------------------------------------

_LONG = "v_mfma_f32_32x32x4_2b_f16 v[0:31], v[64:65], v[80:81], v[0:31]"
_SHORT = "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[64:65], v[80:81], v[40:43]"
_OTHER = "v_mfma_f32_16x16x16_f16 v[32:35], v[64:65], v[80:81], v[32:35]"
_READS = "v_mov_b32_e32 v210, v0"
_PART = "v_mfma_f32_4x4x4_16b_f16 v[128:131], v[64:65], v[80:81], v[2:5]"


@pytest.mark.parametrize(
    ("program", "states", "ours"),
    [
        pytest.param([[_LONG, _SHORT, _READS]], 5, [(0, 5), (1, 19)], id="nearest MFMA alone"),
        pytest.param(
            [["v_readlane_b32 s4, v200, 3", "s_mov_b32 s4, s90", "v_mov_b32_e32 v210, s4"]],
            1,
            [],
            id="SALU has written it since",
        ),
        pytest.param(
            [["v_cmpx_eq_u32_e64 s[80:81], v200, v201", "s_mov_b64 exec, -1", _OTHER]],
            3,
            [],
            id="SALU has written EXEC since",
        ),
    ],
)
def test_where_llvm_takes_the_nearest_vector_write(
    judge: Llvm, program: Blocks, states: int, ours: list[tuple[int, int]]
) -> None:
    found = both([program], "gfx942", judge)[0]
    assert found.llvm == states
    assert sorted((v.has, v.needs) for v in found.ours) == ours


def test_where_ways_meet(judge: Llvm) -> None:
    """LLVM 22 goes through a block once, and takes the passes of the MFMA it has seen last."""
    fork = "s_cbranch_scc0 2"
    long_way = [[_SHORT, fork], ["s_nop 15", "s_branch 3"], ["s_nop 0"], [_READS]]
    other = [[fork], [_SHORT, "s_branch 3"], [_OTHER], [_PART]]
    one, two = both([long_way, other], "gfx942", judge)
    assert (one.llvm, [(v.has, v.needs) for v in one.ours]) == (0, [(2, 5)])
    assert (two.llvm, [(v.has, v.needs) for v in two.ours]) == (4, [(1, 3)])
