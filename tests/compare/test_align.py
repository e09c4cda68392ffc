from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import coasm.compare.align as room
from coasm.compare.align import align
from tests.counting import lines


def longest_common(a: list[int], b: list[int]) -> int:
    """The length of a longest common subsequence, by the textbook recurrence."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = 0
        for j, y in enumerate(b):
            above = row[j + 1]
            row[j + 1] = before + 1 if x == y else max(above, row[j])
            before = above
    return row[-1]


def equal_items(a: list[int], b: list[int]) -> int:
    """How many items the alignment has as equal; checks that it is one."""
    at = (0, 0)
    count = 0
    for block in align(a, b).blocks:
        assert (block.a_low, block.b_low) == at
        at = (block.a_high, block.b_high)
        assert at > (block.a_low, block.b_low)
        if block.equal:
            assert a[block.a_low : block.a_high] == b[block.b_low : block.b_high]
            count += block.a_high - block.a_low
    assert at == (len(a), len(b))
    return count


SMALL = st.lists(st.integers(0, 4), max_size=12)


@given(SMALL, SMALL)
def test_it_covers_both_and_finds_the_most(a: list[int], b: list[int]) -> None:
    assert equal_items(a, b) == longest_common(a, b) or len(a) == len(b)


@given(SMALL, st.data())
def test_one_insertion_shifts_nothing(a: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(a)))
    b = [*a[:at], 9, *a[at:]]
    alignment = align(a, b)
    assert equal_items(a, b) == len(a)
    for place in range(len(a) + 1):
        low, high = alignment.places(place)
        assert (low, high) == (
            (place, place) if place < at else (at, at + 1) if place == at else (place + 1,) * 2
        )
    assert [alignment.partner(n) for n in range(len(a))] == [n + (n >= at) for n in range(len(a))]


@given(SMALL)
def test_equal_sequences_correspond_exactly(a: list[int]) -> None:
    alignment = align(a, list(a))
    assert [alignment.places(n) for n in range(len(a) + 1)] == [(n, n) for n in range(len(a) + 1)]


def test_items_exchanged_one_for_one_stay_paired() -> None:
    alignment = align([1, 2, 3, 4], [1, 7, 8, 4])
    assert [alignment.partner(n) for n in range(4)] == [0, 1, 2, 3]
    assert alignment.places(2) == (2, 2)


def test_a_replaced_run_of_another_length_is_open_inside() -> None:
    alignment = align([1, 2, 3, 4], [1, 7, 8, 9, 4])
    assert alignment.places(2) == (1, 4)
    assert alignment.partner(1) is None


EDITS = {
    "one insertion": lambda b: b.insert(5, -1),
    "both ends": lambda b: (b.insert(5, -1), b.pop(-5)),
    "every seventh in place": lambda b: b.__setitem__(slice(0, None, 7), [-1] * len(b[::7])),
    "shifted, every seventieth": lambda b: (
        b.insert(5, -1),
        b.__setitem__(slice(70, None, 70), [-1] * len(b[70::70])),
    ),
}
LEFT = {
    "one insertion": 30000,
    "both ends": 29999,
    "every seventh in place": 30000 - 4286,
    "shifted, every seventieth": 30000 - 428,
}


def work(a: list[int], b: list[int]) -> int:
    """How many lines of Python align() runs."""
    with lines(room) as run:
        align(a, b)
    return run.number


#: Two sequences of 30,000 have 900 million pairs.
LITTLE = 9_000_000


@pytest.mark.parametrize("name", EDITS)
def test_thirty_thousand_items_are_aligned_well_with_little_work(name: str) -> None:
    random = Random(1)
    a = [random.randrange(400) for _ in range(30000)]
    b = list(a)
    EDITS[name](b)
    assert work(a, b) < LITTLE
    count = equal_items(a, b)
    assert LEFT[name] - 5 <= count <= LEFT[name]


def test_nothing_in_common_takes_little_work() -> None:
    random = Random(2)
    a = [random.randrange(400) for _ in range(30000)]
    assert work(a, [0, 1] * 15000) < LITTLE
    assert work([0] * 30000, [0] * 10000 + [1] * 500 + [0] * 19000) < LITTLE
    assert work(a, sorted(a)) < LITTLE
