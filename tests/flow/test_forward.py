"""The fixpoint: shortest ways and sets by hand, and that it ends where there are loops."""

from __future__ import annotations

from coasm.flow.forward import forward, union

#: 0 → 1 → 2 ⇄ 3, 3 → 4; 1 → 4; 5 is not reached from 0.
FOLLOWS = {0: (1,), 1: (2, 4), 2: (3,), 3: (2, 4), 4: (), 5: (4,)}


def least(known: int, new: int) -> int:
    return new if new < known else known


def test_the_shortest_way_to_each() -> None:
    """Breadth first from 0: 1 is one step away, 2 and 4 are two, 3 is three."""
    found = forward(FOLLOWS.__getitem__, {0: 0}, lambda _, steps: steps + 1, least)
    assert found == {0: 0, 1: 1, 2: 2, 3: 3, 4: 2}


def test_what_may_have_been_passed() -> None:
    found = forward(FOLLOWS.__getitem__, {0: 0}, lambda number, bits: bits | 1 << number, union)
    assert found == {0: 0, 1: 0b1, 2: 0b1111, 3: 0b1111, 4: 0b1111}


def test_nothing_is_followed_from_where_there_is_no_state() -> None:
    found = forward(
        FOLLOWS.__getitem__, {0: 0}, lambda number, bits: None if number == 2 else bits, union
    )
    assert found == {0: 0, 1: 0, 2: 0, 4: 0}


def test_the_last_call_has_the_answer() -> None:
    seen: dict[int, int] = {}

    def transfer(number: int, bits: int) -> int:
        seen[number] = bits
        return bits | 1 << number

    assert forward(FOLLOWS.__getitem__, {0: 0, 5: 0}, transfer, union) == seen
