"""The loops of a control-flow graph: dominators, back edges, and what is between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from coasm.flow.forward import forward

__all__ = ["Loop", "cycles", "dominators", "natural_loops"]


class Loop(NamedTuple):
    """A natural loop: every way into it leads through the block *header*.

    ``latches`` are the blocks that branch back to it. ``parent`` is the place, among the loops, of
    the smallest one around it; ``depth`` 1 is an outermost loop.
    """

    header: int
    blocks: tuple[int, ...]
    latches: tuple[int, ...]
    parent: int | None = None
    depth: int = 1


def dominators(follows: Sequence[Sequence[int]], entries: Iterable[int]) -> dict[int, int]:
    """Block → the blocks (as bits) that every way to it from *entries* leads through, itself too.

    Blocks that cannot be reached have none.
    """
    return {
        number: state | 1 << number
        for number, state in forward(
            follows.__getitem__,
            dict.fromkeys(entries, 0),
            lambda number, state: state | 1 << number,
            lambda known, new: known & new if known & ~new else known,
        ).items()
    }


def natural_loops(follows: Sequence[Sequence[int]], entries: Iterable[int]) -> tuple[Loop, ...]:
    """The loops by the number of their header; those with one header are one loop."""
    dominating = dominators(follows, entries)
    latches: dict[int, list[int]] = {}
    for number, state in sorted(dominating.items()):
        for following in follows[number]:
            if state >> following & 1:
                latches.setdefault(following, []).append(number)
    before = _before(follows, dominating)
    bodies = {header: _body(header, ends, before) for header, ends in sorted(latches.items())}
    headers = list(bodies)
    found = []
    for header, body in bodies.items():
        around = [one for one in headers if one != header and header in bodies[one]]
        inner = min(around, key=lambda one: len(bodies[one]), default=None)
        parent = None if inner is None else headers.index(inner)
        found.append(
            Loop(header, tuple(sorted(body)), tuple(latches[header]), parent, len(around) + 1)
        )
    return tuple(found)


def cycles(follows: Sequence[Sequence[int]], entries: Iterable[int]) -> tuple[int, ...]:
    """The blocks of cycles that have several ways in, and so are no natural loops."""
    dominating = dominators(follows, entries)
    onward = {
        number: {one for one in follows[number] if not state >> one & 1}
        for number, state in dominating.items()
    }
    while True:
        entered = {one for targets in onward.values() for one in targets}
        kept = {number for number, targets in onward.items() if targets and number in entered}
        if len(kept) == len(onward):
            return tuple(sorted(onward))
        onward = {number: onward[number] & kept for number in kept}


def _before(follows: Sequence[Sequence[int]], known: Mapping[int, int]) -> dict[int, list[int]]:
    before: dict[int, list[int]] = {}
    for number in known:
        for following in follows[number]:
            before.setdefault(following, []).append(number)
    return before


def _body(header: int, latches: Iterable[int], before: Mapping[int, list[int]]) -> set[int]:
    body, todo = {header}, list(latches)
    while todo:
        number = todo.pop()
        if number not in body:
            body.add(number)
            todo += before.get(number, ())
    return body
