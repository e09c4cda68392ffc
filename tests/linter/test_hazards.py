"""Programs at random on every generation, judged by LLVM's hazard recognizer and by the rows.

What LLVM 22's passes put before an instruction, and what lint says is missing there, has to be the
same instruction as often; where it is not, :data:`KNOWN` says why.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from coasm.linter.states import Violation, violations
from coasm.llvm import Llvm
from tests.linter.hazard_pools import POOLS
from tests.linter.mir import Blocks, lintable, llc_path, put_in


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
)
#: The fix of a row → how what LLVM puts in begins, and whether each is one state of several.
PUT_IN = {"s_nop": r"S_NOP (\d+)"}


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


def known(target: str, texts: Sequence[str], found: Violation) -> bool:
    """Whether that LLVM does not say so is known."""
    return any(
        row.rule == found.rule
        and re.match(row.producer, texts[found.producer])
        and re.match(row.consumer, texts[found.consumer])
        for row in KNOWN
    )


def compare(programs: Sequence[Blocks], target: str, llvm: Llvm, what: str) -> list[str]:
    """Where both judge the last instruction of a program differently, in words."""
    program, places = lintable(programs, target, llvm)
    texts = [item.text for item in program.instructions]
    ours: dict[int, list[Violation]] = defaultdict(list)
    for one in violations(program):
        number, block, at = places[one.consumer]
        last = (len(programs[number]) - 1, len(programs[number][-1]) - 1)
        if (block, at) == last and not known(target, texts, one):
            ours[number].append(one)
    wrong = []
    for number, before in enumerate(put_in(programs, target, llvm, what)):
        last = number, len(programs[number]) - 1, len(programs[number][-1]) - 1
        theirs = asked_by_llvm(before.get(last, ()))
        if theirs != asked_by_rows(ours[number]):
            rules = [(one.rule, one.has, one.needs) for one in ours[number]]
            wrong.append(f"{programs[number]}: LLVM {dict(theirs)}, rows {rules}")
    return wrong


def pairs(target: str) -> list[Blocks]:
    """Each instruction of a pool behind each other one."""
    pool = POOLS[target]
    return [[[one, two]] for one in pool for two in pool if not one.startswith("s_rfe")]


@pytest.mark.parametrize("target", POOLS)
def test_each_behind_each(judge: Llvm, target: str) -> None:
    chosen = pairs(target)
    wrong = compare(chosen, target, judge, "post-RA-hazard-rec")
    assert not wrong, f"{len(wrong)} of {len(chosen)}: {wrong[:5]}"
