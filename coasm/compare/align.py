"""Aligns two sequences: which items of one stand for which items of the other.

Written for kernels: tens of thousands of items that mostly agree. The time is bounded whatever the
input: the common ends go first, then the shortest edit script (E. Myers, "An O(ND) difference
algorithm and its variations", 1986) up to a fixed number of edits, then anchors that occur once on
each side (B. Cohen's patience diff).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Alignment", "Block", "align"]

#: Most edits of a script that is looked for; the work is this squared.
_EDITS = 800
#: How many items in a row make an anchor. Unrolled loops repeat every single one of their items.
_WINDOWS = (1, 8)


@dataclass(frozen=True)
class Block:
    """Items ``a[a_low:a_high]`` and ``b[b_low:b_high]``; ``equal`` says that they are the same."""

    a_low: int
    a_high: int
    b_low: int
    b_high: int
    equal: bool

    @property
    def paired(self) -> bool:
        """Whether the items correspond one to one, in order, be they equal or not."""
        return self.a_high - self.a_low == self.b_high - self.b_low


@dataclass(frozen=True)
class Alignment:
    """Blocks that cover both sequences without gaps, in order."""

    blocks: tuple[Block, ...]

    @cached_property
    def _lows(self) -> list[int]:
        return [block.a_low for block in self.blocks]

    @cached_property
    def _highs(self) -> list[int]:
        return [block.a_high for block in self.blocks]

    def places(self, position: int) -> tuple[int, int]:
        """The places in *b*, first and last, that the place before item *position* of *a* is at.

        They are one and the same between equal items; where items were inserted or exchanged, a
        label may stand before or after them.
        """
        if not self.blocks:
            return 0, 0
        before = self.blocks[bisect_left(self._highs, position)]  # the first that reaches it
        after = self.blocks[bisect_right(self._lows, position) - 1]  # the last from there on
        return (
            before.b_low + (position - before.a_low if before.paired else 0),
            after.b_low + position - after.a_low if after.paired else after.b_high,
        )

    def partner(self, position: int) -> int | None:
        """The item of *b* that item *position* of *a* corresponds to one to one."""
        index = bisect_right(self._lows, position) - 1
        if index < 0:
            return None
        block = self.blocks[index]
        if not block.paired or not block.a_low <= position < block.a_high:
            return None
        return block.b_low + position - block.a_low


def align(a: Sequence[Hashable], b: Sequence[Hashable]) -> Alignment:
    """The alignment of *a* and *b*, with few unequal items (the fewest, where they are few)."""
    numbers: dict[Hashable, int] = {}
    one = [numbers.setdefault(item, len(numbers)) for item in a]
    other = [numbers.setdefault(item, len(numbers)) for item in b]
    matches = _matches(one, 0, len(one), other, 0, len(other), _EDITS, anchors=True)
    return Alignment(tuple(_blocks(matches, len(one), len(other))))


_Match = tuple[int, int, int]  # first item of a, first item of b, how many


def _blocks(matches: Iterator[_Match], a_size: int, b_size: int) -> Iterator[Block]:
    a = b = a_equal = b_equal = 0  # what is covered; where the equal run that is open started
    for a_at, b_at, count in (*matches, (a_size, b_size, 0)):
        if (a_at, b_at) != (a, b):
            if a_equal < a:
                yield Block(a_equal, a, b_equal, b, True)
            yield Block(a, a_at, b, b_at, False)
            a_equal, b_equal = a_at, b_at
        a, b = a_at + count, b_at + count
    if a_equal < a:
        yield Block(a_equal, a, b_equal, b, True)


def _matches(
    a: list[int],
    a_low: int,
    a_high: int,
    b: list[int],
    b_low: int,
    b_high: int,
    edits: int,
    *,
    anchors: bool,
) -> Iterator[_Match]:
    head = 0
    limit = min(a_high - a_low, b_high - b_low)
    while head < limit and a[a_low + head] == b[b_low + head]:
        head += 1
    tail = 0
    limit -= head
    while tail < limit and a[a_high - tail - 1] == b[b_high - tail - 1]:
        tail += 1
    if head:
        yield a_low, b_low, head
    one, other = a[a_low + head : a_high - tail], b[b_low + head : b_high - tail]
    if one and other:
        for a_at, b_at, count in _middle(one, other, edits, anchors=anchors):
            yield a_low + head + a_at, b_low + head + b_at, count
    if tail:
        yield a_high - tail, b_high - tail, tail


def _middle(a: list[int], b: list[int], edits: int, *, anchors: bool) -> Iterator[_Match]:
    """Matches of two sequences that differ at both ends."""
    positional = None
    if len(a) == len(b):
        positional = [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x == y]
        # An exchanged item is a removal and an insertion: two edits.
        edits = min(edits, 2 * (len(a) - len(positional)) - 1)
    script = _shortest(a, b, edits)
    if script is None and positional is not None and 4 * len(positional) >= len(a):
        script = [(i, i) for i in positional]
    if script is not None:
        yield from ((i, j, 1) for i, j in script)
        return
    a_done = b_done = 0
    found: list[tuple[int, int]] = []
    if anchors:
        found = max((_anchors(a, b, size) for size in _WINDOWS), key=len)
    if not found:
        yield from ((i, i, 1) for i in positional or ())
        return
    for i, j in (*found, (len(a), len(b))):
        yield from _matches(a, a_done, i, b, b_done, j, edits // 4, anchors=False)
        if i < len(a):
            yield i, j, 1
        a_done, b_done = i + 1, j + 1


def _shortest(a: list[int], b: list[int], edits: int) -> list[tuple[int, int]] | None:
    """The matched items of a shortest edit script; None where it has more than *edits* edits."""
    n, m = len(a), len(b)
    if abs(n - m) > edits:
        return None
    width = 2 * edits + 3
    furthest = [-1] * width  # by diagonal (position in a minus position in b), from -edits - 1 on
    middle = edits + 1
    furthest[middle + 1] = 0
    trace: list[list[int]] = []
    for d in range(edits + 1):
        trace.append(furthest[middle - d - 1 : middle + d + 2])
        # Diagonals that leave the rectangle are of no use.
        for k in range(-d + 2 * max(0, d - m), d - 2 * max(0, d - n) + 1, 2):
            down, right = furthest[middle + k + 1], furthest[middle + k - 1]
            x = down if k == -d or (k != d and right < down) else right + 1
            y = x - k
            while x < n and y < m and a[x] == b[y]:
                x += 1
                y += 1
            furthest[middle + k] = x
            if x >= n and y >= m:
                return _trace_back(trace, n, m)
    return None


def _trace_back(trace: list[list[int]], x: int, y: int) -> list[tuple[int, int]]:
    matched: list[tuple[int, int]] = []
    for d in range(len(trace) - 1, -1, -1):
        before, k = trace[d], x - y  # before[i] is diagonal i - d - 1
        down, right = before[k + d + 2], before[k + d]
        came_down = k == -d or (k != d and right < down)
        start = 0 if d == 0 else down if came_down else right + 1
        while x > start:
            x, y = x - 1, y - 1
            matched.append((x, y))
        if came_down:
            y -= 1
        else:
            x -= 1
    matched.reverse()
    return matched


def _anchors(a: list[int], b: list[int], size: int) -> list[tuple[int, int]]:
    """First items of the runs of *size* items that occur once on each side.

    Those of the longest order that both sides have them in.
    """
    runs_a, runs_b = _runs(a, size), _runs(b, size)
    once_a, once_b = Counter(runs_a), Counter(runs_b)
    where = {run: j for j, run in enumerate(runs_b) if once_b[run] == 1}
    pairs = [(i, where[run]) for i, run in enumerate(runs_a) if once_a[run] == 1 and run in where]
    ends: list[int] = []  # the smallest last j of an increasing run of each length
    ends_at: list[int] = []
    previous: list[int] = []
    for index, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        previous.append(ends_at[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        ends_at[length : length + 1] = [index]
    chain = []
    index = ends_at[-1] if ends_at else -1
    while index >= 0:
        chain.append(pairs[index])
        index = previous[index]
    chain.reverse()
    return chain


def _runs(items: list[int], size: int) -> list[tuple[int, ...]]:
    return list(zip(*(items[start:] for start in range(size)), strict=False))
