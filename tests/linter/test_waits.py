"""The wait counters against LLVM and against the emulator.

LLVM 22's ``si-insert-waitcnts`` says which waits a program needs: with them the linter finds
nothing, and with one of them weaker by one it asks for LLVM's. Where LLVM waits for something else
:data:`tests.linter.wait_cases.DIFFERENCES` has both, and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from coasm.counters import GFX9
from coasm.linter.findings import ADVICE, ERROR
from coasm.linter.operation import VGPRS, operation
from coasm.llvm import Llvm
from coasm.target import processor
from tests.linter.mir import Blocks, llc_path
from tests.linter.mir_waits import (
    NO_WAIT,
    Asked,
    Spot,
    Wait,
    asked,
    judge,
    waited,
    with_waits,
)
from tests.linter.wait_cases import (
    DIFFERENCES,
    FLAT_POOL,
    IN_LDS,
    IN_ORDER_ANYWAY,
    POOL,
    SITUATIONS,
    TARGETS,
    Ask,
    Difference,
    InLds,
    Situation,
)

_RULES = ("vmem-wait", "lds-wait", "smem-wait", "flat-wait")
_BOUNDED = settings(derandomize=True, max_examples=10, deadline=None, phases=[Phase.generate])


@pytest.fixture(scope="module")
def llvm_22(llvm: Llvm) -> Llvm:
    if llvm.major != 22 or not llc_path(llvm).exists() or llvm.mc is None:
        pytest.skip("no llc and llvm-mc of LLVM 22, whose waits these are")
    return llvm


def weaker(waits: Mapping[Spot, Wait]) -> list[tuple[Spot, int, dict[Spot, Wait]]]:
    """The waits with one of their counts left out, and raised by one: where, which, all of them."""
    found = []
    for spot, wait in waits.items():
        for counter, (count, most) in enumerate(
            zip(wait, (GFX9.most[0], GFX9.most[2]), strict=True)
        ):
            for raised in {None, count + 1} if count is not None and count < most else {None}:
                if count is not None:
                    counts = [raised if at == counter else n for at, n in enumerate(wait)]
                    found.append((spot, counter, {**waits, spot: Wait(*counts)}))
    return found


def alone(wait: Wait, counter: int) -> Wait:
    """*wait* for one counter only."""
    return Wait(*(count if at == counter else None for at, count in enumerate(wait)))


def of_registers(found: Sequence[Asked]) -> list[Asked]:
    return [one for one in found if one.rule in _RULES]


# --- each situation -------------------------------------------------------------------------------


class Judged(NamedTuple):
    """LLVM's waits in a program, and our findings: without any, with them, with one weaker."""

    llvm: dict[Spot, Wait]
    without: list[Asked]
    with_them: list[Asked]
    weaker: list[tuple[Spot, int, list[Asked]]]


def both(programs: Sequence[Blocks], target: str, llvm: Llvm, *, lds: bool = False) -> list[Judged]:
    """Each program as both judge it."""
    waits = waited(programs, target, llvm, lds=lds)
    variants: list[tuple[Blocks, Mapping[Spot, Wait]]] = []
    for program, needed in zip(programs, waits, strict=True):
        variants += [(program, {}), (program, needed)]
        variants += [(program, changed) for _, _, changed in weaker(needed)]
    found = iter(judge(variants, target, llvm))
    return [
        Judged(
            needed,
            next(found),
            next(found),
            [(spot, counter, next(found)) for spot, counter, _ in weaker(needed)],
        )
        for needed in waits
    ]


@cache
def situations(target: str, llvm: Llvm) -> dict[str, Judged]:
    have = [one for one in SITUATIONS if target in one.targets]
    found = both([one.program for one in have], target, llvm)
    return {one.about: judged for one, judged in zip(have, found, strict=True)}


def finding(program: Blocks, ask: Ask) -> Asked:
    """The finding that *ask* is in *program*."""
    block, index = ask.producer
    return Asked(ask.at, ask.rule, ask.level, program[block][index], ask.wait)


def needed(asks: Sequence[Ask]) -> dict[Spot, Wait]:
    waits: dict[Spot, Wait] = {}
    for ask in asks:
        waits[ask.at] = waits.get(ask.at, NO_WAIT).with_(ask.wait)
    return waits


def test_situations_have_their_own_names() -> None:
    assert len({one.about for one in SITUATIONS}) == len(SITUATIONS)


@pytest.mark.parametrize(
    ("situation", "target"),
    [
        pytest.param(one, target, id=f"{one.about}-{target}")
        for one in SITUATIONS
        for target in one.targets
    ],
)
def test_a_situation(llvm_22: Llvm, target: str, situation: Situation) -> None:
    """The rules, LLVM and the linter want the same waits; one count more is found."""
    judged = situations(target, llvm_22)[situation.about]
    assert judged.llvm == needed(situation.asks)
    want = [finding(situation.program, ask) for ask in situation.asks]
    assert of_registers(judged.without) == want
    assert judged.with_them == []
    either: list[bool] = []
    for spot, counter, found in judged.weaker:
        least = alone(judged.llvm[spot], counter)
        if situation.about == "cache maintenance behind it":
            either.append(bool(found))
            continue
        assert asked(found) == {spot: least}
        there = [one for one in want if one.spot == spot]
        strictest = {one[:4] for one in there if one.wait[counter] == least[counter]}
        said, possible = {one[:4] for one in found}, {one[:4] for one in there}
        if situation.about in IN_ORDER_ANYWAY:
            said |= {(spot, rule, "error", at) for spot, rule, _, at in said}
            possible |= {(spot, rule, "advice", at) for spot, rule, _, at in possible}
        assert strictest <= said <= possible
    # Newer LLVM counts the two in vmcnt: a wait for one more is enough there, none at all is not.
    assert either in ([], [True, False], [False, True])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", IN_LDS, ids=lambda case: case.about)
def test_what_goes_through_lds(llvm_22: Llvm, target: str, case: InLds) -> None:
    """With LLVM's waits only what it does not know is left: other waves, behind a barrier."""
    (judged,) = both([case.program], target, llvm_22, lds=True)
    assert judged.llvm == case.llvm
    want = [finding(case.program, ask) for ask in case.asks]
    assert judged.without == want
    assert judged.with_them == [one for one in want if one.rule == "lds-barrier"]
    for _, _, found in judged.weaker:
        assert found == want


def test_a_load_to_lds_with_others_behind_it(llvm_22: Llvm) -> None:
    """Its wait leaves those out; without one the linter does not count and asks for all."""
    load = "global_load_dword v1, v5, s[4:5]"
    program = [["buffer_load_dword v5, s[8:11], 0 offen lds", load, load, "ds_read_b32 v2, v6"]]
    (judged,) = both([program], "gfx950", llvm_22, lds=True)
    assert judged.llvm == {(0, 3): Wait(2, None)}
    assert [(one.rule, one.spot) for one in judged.without] == [("lds-dma-wait", (0, 3))]
    assert judged.with_them == []
    for _, _, found in judged.weaker:
        assert found == judged.without


def test_a_write_between_barriers(llvm_22: Llvm) -> None:
    """A write to LDS is waited for before the barrier, not behind it."""
    write, read, barrier = "ds_write_b32 v5, v6", "ds_read_b32 v2, v6", "s_barrier"
    program = [[write, barrier, read]]
    before, behind = {(0, 1): Wait(None, 0)}, {(0, 2): Wait(None, 0)}
    good, bad = judge([(program, before), (program, behind)], "gfx942", llvm_22)
    assert good == []
    assert [(one.rule, one.spot) for one in bad] == [("lds-barrier", (0, 2))]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", DIFFERENCES, ids=lambda case: case.why[:40])
def test_where_llvm_waits_for_something_else(llvm_22: Llvm, target: str, case: Difference) -> None:
    (judged,) = both([case.program], target, llvm_22)
    assert judged.llvm == case.llvm
    assert asked(judged.without) == case.ours


# --- programs at random ---------------------------------------------------------------------------

Pool = Mapping[str, Sequence[str]]


def _texts(pool: Pool, least: int, most: int) -> st.SearchStrategy[list[str]]:
    line = st.one_of([st.sampled_from(texts) for texts in pool.values()])
    return st.lists(line, min_size=least, max_size=most)


def _programs(pool: Pool, *, loops: bool) -> st.SearchStrategy[list[Blocks]]:
    """Straight ones, ones that go two ways and meet again; loops of one block, and of three."""
    some, more = _texts(pool, 1, 4), _texts(pool, 2, 8)
    shapes: list[st.SearchStrategy[Blocks]] = [
        _texts(pool, 4, 16).map(lambda lines: [lines]),
        st.tuples(some, some, some, more).map(
            lambda b: [[*b[0], "s_cbranch_scc0 2"], [*b[1], "s_branch 3"], b[2], b[3]]
        ),
    ]
    if loops:
        shapes += [
            st.tuples(some, more, some).map(lambda b: [b[0], [*b[1], "s_cbranch_scc1 1"], b[2]]),
            st.tuples(some, some, some, some, some).map(
                lambda b: [
                    b[0],
                    [*b[1], "s_cbranch_scc0 3"],
                    b[2],
                    [*b[3], "s_cbranch_scc1 1"],
                    b[4],
                ]
            ),
        ]
    return st.lists(st.one_of(shapes), min_size=25, max_size=25)


#: Rounds of a loop that show all that can come round.
_ROUNDS = 3


def unrolled(
    program: Blocks, waits: Mapping[Spot, Wait]
) -> tuple[Blocks, dict[Spot, Wait], dict[int, int]]:
    """A program without its loop: some rounds of it, each of which may leave; block → original.

    The loop is all blocks but the first and the last.
    """
    size = len(program) - 2
    after = 1 + _ROUNDS * size
    blocks: list[list[str]] = [list(program[0])]
    origin = {0: 0, after: len(program) - 1}
    for turn in range(_ROUNDS):
        for number in range(1, size + 1):
            block = list(program[number])
            if block[-1].startswith("s_cbranch"):
                to = int(block[-1].split()[1])
                to = after if to == 1 else to + turn * size
                block[-1] = f"s_cbranch_scc0 {to}"
            origin[len(blocks)] = number
            blocks.append(block)
    blocks.append(list(program[-1]))
    copied = {
        (new, index): wait
        for (old, index), wait in waits.items()
        for new in origin
        if origin[new] == old
    }
    return blocks, copied, origin


def _loops(program: Blocks) -> bool:
    return any(block and block[-1] == "s_cbranch_scc1 1" for block in program)


class Doubt(NamedTuple):
    """A program with some waits: what it lacks of LLVM's, and what the linter asks for."""

    program: Blocks
    waits: Mapping[Spot, Wait]
    wanted: dict[Spot, Wait]
    ours: dict[Spot, Wait]


def still_asked(doubts: Sequence[Doubt], target: str, llvm: Llvm) -> list[dict[Spot, Wait]]:
    """What LLVM asks for beyond the waits that each program has, in the rounds of its loop."""
    made = [unrolled(one.program, one.waits) for one in doubts]
    texts = [with_waits(blocks, waits)[0] for blocks, waits, _ in made]
    result = []
    for (_, waits, origin), found in zip(made, waited(texts, target, llvm), strict=True):
        asks: dict[Spot, Wait] = {}
        for (block, index), wait in found.items():
            has = waits.get((block, index), NO_WAIT)
            more = Wait(*(n if n != h else None for n, h in zip(wait, has, strict=True)))
            if more != NO_WAIT:
                spot = origin[block], index
                asks[spot] = asks.get(spot, NO_WAIT).with_(more)
        result.append(asks)
    return result


def _lds_over_lds(program: Blocks, spot: Spot, target: str) -> bool:
    """Whether LLVM may wait there for what the linter takes for ordered."""
    texts = program[spot[0]]
    if spot[1] >= len(texts) or not texts[spot[1]].startswith("ds_"):
        return False
    return bool(operation(texts[spot[1]], processor(target).family).writes & VGPRS)


def disagree(programs: Sequence[Blocks], target: str, llvm: Llvm) -> list[Doubt]:
    """Programs with waits in which the linter asks for something else than LLVM."""
    needs = waited(programs, target, llvm)
    variants: list[tuple[Blocks, Mapping[Spot, Wait], dict[Spot, Wait]]] = []
    for program, llvms in zip(programs, needs, strict=True):
        variants.append((program, llvms, {}))
        for spot, counter, changed in weaker(llvms):
            if counter == 0 or not _lds_over_lds(program, spot, target):
                variants.append((program, changed, {spot: alone(llvms[spot], counter)}))
    found = judge([(program, waits) for program, waits, _ in variants], target, llvm)
    doubts = []
    for (program, waits, wanted), asks in zip(variants, found, strict=True):
        ours = asked(of_registers(asks))
        if ours != wanted:
            doubts.append(Doubt(program, waits, wanted, ours))
    looped = [one for one in doubts if _loops(one.program)]
    judged = still_asked(looped, target, llvm) if looped else []
    return [one for one in doubts if not _loops(one.program)] + [
        one for one, theirs in zip(looped, judged, strict=True) if one.ours != theirs
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_programs_at_random(llvm_22: Llvm, target: str) -> None:
    """With LLVM's waits clean; with one left out or weaker, that one is asked for.

    LLVM leaves waits in loops that it needed only as long as it did not know what comes round, and
    waits before loops for what they use. There LLVM judges rounds of the loop.
    """

    @_BOUNDED
    @given(_programs(POOL, loops=True))
    def check(programs: list[Blocks]) -> None:
        disagreements = disagree(programs, target, llvm_22)
        assert not disagreements, disagreements[0]

    check()


@pytest.mark.parametrize("target", TARGETS)
def test_programs_at_random_with_flat(llvm_22: Llvm, target: str) -> None:
    """As above; but FLAT that one counter has covered makes LLVM ask for 0 of the other too."""

    @_BOUNDED
    @given(_programs(FLAT_POOL, loops=False))
    def check(programs: list[Blocks]) -> None:
        for doubt in disagree(programs, target, llvm_22):
            assert doubt.wanted, doubt
            ((spot, wait),) = doubt.wanted.items()
            flats = [
                (block, index)
                for block, texts in enumerate(doubt.program)
                for index, text in enumerate(texts)
                if text.startswith("flat_")
            ]
            halves = [at for at, has in doubt.waits.items() if has.count(0) == 1]
            assert 0 in wait and any(min(flats) < half < spot for half in halves), doubt

    check()


# --- levels ---------------------------------------------------------------------------------------

_LOAD = "global_load_dword v1, v5, s[4:5]"
_USE = "v_mov_b32_e32 v9, v1"


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        pytest.param(
            [[_LOAD], ["global_store_dword v5, v1, s[4:5]", "s_cbranch_scc1 1"]],
            "vmem-wait",
            id="a load before a loop",
        ),
        pytest.param(
            [["ds_read_b32 v1, v5"], [_USE, "s_cbranch_scc1 1"]],
            "lds-wait",
            id="LDS before a loop",
        ),
        pytest.param(
            [["s_nop 0"], [_USE, "s_cbranch_scc0 3"], ["s_nop 0"], [_LOAD, "s_cbranch_scc1 1"]],
            "vmem-wait",
            id="round a loop",
        ),
    ],
)
def test_a_loop_without_a_wait_is_an_error(llvm_22: Llvm, program: Blocks, rule: str) -> None:
    """No wait covers it on any way: that the first use counts as waited for is none."""
    (found,) = judge([(program, {})], "gfx942", llvm_22)
    assert [(one.rule, one.level) for one in found] == [(rule, ERROR)]


_MFMA = "v_mfma_f32_32x32x64_f8f6f4 v[16:31], v[0:7], v[8:15], 0"
_IDLE = "s_nop 7"
_TRANSPOSED = "ds_read_b64_tr_b8 v[2:3], v50"
# What kernels of aiter do that run on hardware, and what none of them does.
_WITNESSED: dict[str, tuple[list[str], str, str]] = {
    # fwd_hd256_fp8_causal: three reads, an MFMA of 16 passes and too weak a wait in between.
    "LDS into an MFMA behind another": (
        [
            _TRANSPOSED,
            *[f"ds_read_b64_tr_b8 v[{n}:{n + 1}], v50" for n in (60, 62, 64)],
            "v_mfma_f32_32x32x64_f8f6f4 v[80:95], v[100:107], v[108:115], 0",
            "s_nop 0",
            _MFMA,
        ],
        "lds-wait",
        ADVICE,
    ),
    "LDS into an MFMA soon": ([_TRANSPOSED, *["s_nop 0"] * 6, _MFMA], "lds-wait", ERROR),
    # mla_a8w8_qh16_qseqlen1_gqaratio16_ps: a wait for one too many.
    "the next of LDS into the last of eight": (
        ["ds_read_b128 v[4:7], v50", "ds_read_b128 v[60:63], v50", _MFMA],
        "lds-wait",
        ADVICE,
    ),
    "the next but one of LDS into the last of eight": (
        ["ds_read_b128 v[60:63], v50", "ds_read_b128 v[4:7], v50", _MFMA],
        "lds-wait",
        ERROR,
    ),
    "the next of LDS into the first of eight": (
        ["ds_read_b128 v[0:3], v50", "ds_read_b128 v[60:63], v50", _MFMA],
        "lds-wait",
        ERROR,
    ),
    "LDS into a VALU behind an MFMA": (
        [
            _TRANSPOSED,
            "v_mfma_f32_32x32x64_f8f6f4 v[80:95], v[100:107], v[108:115], 0",
            *["s_nop 0"] * 4,
            "v_mov_b32_e32 v9, v2",
        ],
        "lds-wait",
        ERROR,
    ),
    # fmoe_bf16_pertokenFp8_g1u1_tkw1_gelu_1tg_32x64: 42 instructions behind the load.
    "over a load that nobody read": (
        [_LOAD, *[_IDLE] * 5, "v_mov_b32_e32 v1, 0"],
        "vmem-wait",
        ADVICE,
    ),
    "over a load that nobody read, soon": (
        [_LOAD, *[_IDLE] * 4, "v_mov_b32_e32 v1, 0"],
        "vmem-wait",
        ERROR,
    ),
    # mla_a8w8_qh32_qseqlen4_gqaratio8_ps: two barriers and 69 instructions behind the load.
    "memory behind a barrier": ([_LOAD, "s_barrier", *[_IDLE] * 8, _USE], "vmem-wait", ADVICE),
    "memory behind a barrier, soon": ([_LOAD, "s_barrier", *[_IDLE] * 7, _USE], "vmem-wait", ERROR),
    "memory long before": ([_LOAD, *[_IDLE] * 30, _USE], "vmem-wait", ERROR),
}


@pytest.mark.parametrize("what", _WITNESSED)
def test_what_kernels_that_work_do_is_advice(llvm_22: Llvm, what: str) -> None:
    """LLVM waits in all of them."""
    texts, rule, level = _WITNESSED[what]
    (waits,) = waited([[texts]], "gfx950", llvm_22)
    assert (0, len(texts) - 1) in waits
    (found,) = judge([([texts], {})], "gfx950", llvm_22)
    assert [(one.rule, one.level) for one in found] == [(rule, level)]


def test_a_wait_on_one_way_makes_it_advice(llvm_22: Llvm) -> None:
    """LLVM waits; but the way without one may never be taken."""
    program = [[_LOAD, "s_cbranch_scc0 2"], ["s_nop 0"], [_USE]]
    (there,) = waited([program], "gfx942", llvm_22)
    assert there == {(2, 0): Wait(0, None)}
    found = judge([(program, {}), (program, {(1, 0): Wait(0, None)})], "gfx942", llvm_22)
    assert [[(one.spot, one.level) for one in each] for each in found] == [
        [((2, 0), ERROR)],
        [((2, 0), ADVICE)],
    ]


def test_half_a_register_over_the_other(llvm_22: Llvm) -> None:
    """Loads into halves end in order like others; what they keep is not read at issue."""
    low, high = (f"buffer_load_short_d16{half} v1, v5, s[8:11], 0 offen" for half in ("", "_hi"))
    program = [[low, high, _USE]]
    (there,) = waited([program], "gfx942", llvm_22)
    assert there == {(0, 2): Wait(0, None)}
    assert asked(judge([(program, {})], "gfx942", llvm_22)[0]) == there
