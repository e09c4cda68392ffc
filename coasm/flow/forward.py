"""What holds along the edges of a control-flow graph: the one fixpoint that all analyses use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import TypeVar

__all__ = ["forward", "union"]

State = TypeVar("State")


def forward(
    follows: Callable[[int], Iterable[int]],
    entry: Mapping[int, State],
    transfer: Callable[[int, State], State | None],
    merge: Callable[[State, State], State],
) -> dict[int, State]:
    """What holds where each block begins that is reached from those of *entry*, by its number.

    *follows* are the blocks that may come after one. *transfer* says what holds where a block
    ends, from what holds where it begins; None: nothing is followed from there. The last time that
    it is called for a block is with the state that is the answer, so it may note what it sees.
    *merge* says what holds where two ways meet, from what is known and what comes anew. It gives
    the known state itself, the same object, where the other changes nothing, and must come to that
    at last: states are never changed in place.

    Blocks are taken in order of their numbers, which are those of their addresses, so that most of
    the ways to a block have been followed when it is come to.
    """
    states = dict(entry)
    todo = list(states)
    heapify(todo)
    waiting = set(todo)
    while todo:
        number = heappop(todo)
        waiting.discard(number)
        leaving = transfer(number, states[number])
        if leaving is None:
            continue
        for following in follows(number):
            known = states.get(following)
            merged = leaving if known is None else merge(known, leaving)
            if merged is not known:
                states[following] = merged
                if following not in waiting:
                    waiting.add(following)
                    heappush(todo, following)
    return states


def union(known: int, new: int) -> int:
    """The :func:`forward` merge of sets that are bits."""
    return known | new if new & ~known else known
