"""Programs at random on every generation, judged by LLVM's hazard recognizer and by the rows.

What LLVM 22's passes put before an instruction, and what lint says is missing there, has to be the
same instruction as often; where it is not, :data:`KNOWN` says why.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest

from coasm.isa.depctr import FIELDS
from coasm.linter.rereads import rereads
from coasm.linter.states import Violation, violations
from coasm.llvm import Llvm
from tests.linter.hazard_pools import CLEARING, POOLS
from tests.linter.mir import Blocks, Place, lintable, llc_path, put_in


class Known(NamedTuple):
    """A difference: a *rule* says so and LLVM 22 does not where the two instructions are such."""

    rule: str
    why: str
    producer: str = ""
    consumer: str = ""


KNOWN = (
    Known("vskip", "only the ISA guides have it"),
    Known(
        "agpr-memory",
        "LLVM 22 asks nothing more where it has asked of M0",
        consumer=r".* lds$",
    ),
    Known(
        "wmma-coexecution",
        "LLVM 22 does not count transcendentals",
        consumer=r"v_(exp|rcp|tanh)_",
    ),
)
#: The fix of a row → what LLVM puts in. A wait on a wave is by the fields that it waits for.
PUT_IN = {
    "s_nop": r"S_NOP (\d+)",
    "v_nop": r"V_NOP_e32 .*",
    "move": r"(\$vgpr\d+) = V_MOV_B32_e32 killed \1, .*",
    "scalar move": r"\$sgpr_null = S_MOV_B32 0",
    "stores": r"S_WAITCNT_VSCNT undef \$sgpr_null, 0",
    "wait": r"S_WAITCNT_DEPCTR (\d+)",
}


def _fields(simm: int) -> list[str]:
    """The fields that a wait on a wave waits for."""
    return [
        name
        for name, (first, width) in FIELDS.items()
        if name != "hold_cnt" and not simm >> first & (1 << width) - 1
    ]


def _waited_for(simm: int) -> str:
    """The fix that a wait on a wave is."""
    fields = _fields(simm)
    if len(fields) > 2:
        return "idle"
    return "sdst" if sorted(fields) == ["sa_sdst", "va_sdst"] else "".join(fields)


@pytest.fixture(scope="module")
def judge(llvm: Llvm) -> Llvm:
    if llvm.major != 22 or not llc_path(llvm).exists() or llvm.mc is None:
        pytest.skip("no llc and llvm-mc of LLVM 22, whose numbers these are")
    return llvm


def asked_by_llvm(lines: Sequence[str]) -> Counter[str]:
    """What LLVM puts before an instruction, by the fix that it is: how many states or times."""
    found: Counter[str] = Counter()
    for line in lines:
        name, match = next(
            (name, match)
            for name, pattern in PUT_IN.items()
            if (match := re.fullmatch(pattern, line))
        )
        if name == "wait":
            name = _waited_for(int(match[1]))
        found[name] += int(match[1]) + 1 if name == "s_nop" else 1
    return found


def asked_by_rows(found: Sequence[Violation]) -> Counter[str]:
    """The same of what lint finds."""
    asked: Counter[str] = Counter()
    for one in found:
        fix = one.hazard.fix
        many = one.needs - one.has if fix in ("s_nop", "v_nop") else 1
        asked[fix] = max(asked[fix], many)
    return asked


def known(texts: Sequence[str], found: Violation) -> bool:
    """Whether that LLVM does not say so is known."""
    return any(
        row.rule == found.rule
        and re.match(row.producer, texts[found.producer])
        and re.match(row.consumer, texts[found.consumer])
        for row in KNOWN
    )


def compare(
    programs: Sequence[Blocks], target: str, llvm: Llvm, what: str = "post-RA-hazard-rec"
) -> list[str]:
    """Where both judge an instruction differently if what comes before it has its own, in words."""
    program, places = lintable(programs, target, llvm)
    texts = [item.text for item in program.instructions]
    ours: dict[Place, list[Violation]] = defaultdict(list)
    unsure: set[int] = set()
    for one in violations(program, repair=True):
        place = places[one.consumer]
        ours[place].append(one)
        # Of several matrix instructions in flight LLVM 22 judges one alone.
        several = one.rule.startswith("wmma") and str(programs[place[0]]).count("mma") > 1 + (
            "mma" in texts[one.consumer]
        )
        if known(texts, one) or several:
            unsure.add(place[0])  # what LLVM does not put in may be missing behind it
    wrong = []
    for number, before in enumerate(put_in(programs, target, llvm, what)):
        before.pop((number, 0, 0), None)  # also where there is nothing before it
        for place in () if number in unsure else sorted(before.keys() | _of(ours, number)):
            theirs, asked = asked_by_llvm(before.get(place, ())), asked_by_rows(ours[place])
            if theirs != asked:
                rules = [(one.rule, one.has, one.needs) for one in ours[place]]
                wrong.append(
                    f"{programs[number]} at {place[1:]}: LLVM {dict(theirs)}, rows {rules}"
                )
    return wrong


def _of(places: Mapping[Place, object], number: int) -> set[Place]:
    """Those of a program."""
    return {place for place in places if place[0] == number}


def pairs(target: str) -> list[Blocks]:
    """Each instruction of a pool behind each other one."""
    pool = POOLS[target]
    return [[[one, two]] for one in pool for two in pool if not one.startswith("s_rfe")]


#: Of two to five thousand pairs so many.
_PAIRS = 1200


def at_random(target: str, count: int, seed: int) -> list[Blocks]:
    """Programs of a few instructions, straight or past a branch, with waits in between."""
    rng = random.Random(f"{target} {seed}")
    pool = [text for text in POOLS[target] if not text.startswith("s_rfe")]
    programs: list[Blocks] = []
    for _ in range(count):
        few = rng.sample(pool, rng.randint(3, 6))
        lines = [
            rng.choice(few if rng.random() < 0.7 else CLEARING[target])
            for _ in range(rng.randint(3, 9))
        ]
        at = rng.randint(1, len(lines) - 1)
        if rng.random() < 0.5:
            programs.append([lines])
        elif rng.random() < 0.5:
            programs.append([[*lines[:at], "s_cbranch_scc0 2"], ["s_nop 0"], lines[at:]])
        else:
            programs.append([[*lines[:at], "s_branch 2"], ["s_nop 0"], lines[at:]])
    return programs


def test_scalars_that_a_valu_has_read(judge: Llvm) -> None:
    """GFX12: each instruction has the waits that LLVM's own pass for it puts before it."""

    # LLVM makes one of two waits in a row.
    def apart(lines: Sequence[str]) -> list[str]:
        return [text for line in lines for text in ([line, "v_nop"] if "wait" in line else [line])]

    programs: list[Blocks] = [[*map(apart, blocks)] for blocks in at_random("gfx1200", 600, 1)]
    program, places = lintable(programs, "gfx1200", judge)
    ours = {places[one.consumer]: Counter(one.waits) for one in rereads(program)}
    wrong = []
    for number, before in enumerate(put_in(programs, "gfx1200", judge, "amdgpu-wait-sgpr-hazards")):
        for place in sorted(before.keys() | _of(ours, number)):
            (line,) = before.get(place, ["S_WAITCNT_DEPCTR 65535"])
            theirs = Counter(_fields(int(line.split()[1])))
            if theirs != ours.get(place, Counter()):
                wrong.append(f"{programs[number]} at {place[1:]}: {theirs} {ours.get(place)}")
    assert len(ours) > 40 and not wrong, f"{len(wrong)}: {wrong[:5]}"


@pytest.mark.parametrize("target", POOLS)
def test_each_behind_each(judge: Llvm, target: str) -> None:
    chosen = random.Random(target).sample(pairs(target), _PAIRS)
    wrong = compare(chosen, target, judge)
    assert not wrong, f"{len(wrong)} of {len(chosen)}: {wrong[:5]}"


@pytest.mark.parametrize("target", [name for name in POOLS if "gfx9" not in name])
def test_programs_at_random(judge: Llvm, target: str) -> None:
    chosen = at_random(target, 300, 1)
    wrong = compare(chosen, target, judge)
    assert not wrong, f"{len(wrong)} of {len(chosen)}: {wrong[:5]}"
