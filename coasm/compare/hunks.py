"""What differs between two pieces of code, as lines that are shown side by side."""

from __future__ import annotations

from coasm.asm.code import Item, Raw, branch_target
from coasm.compare.places import Places, place_of
from coasm.compare.report import Hunk, Line, Row
from coasm.compare.sides import Compared, Side, stem, target_of, without_literal

__all__ = ["hunks_of"]

#: Rows of context before and after what differs.
_CONTEXT = 3
#: Bytes of a run of data that a line shows.
_SHOWN = 16
_Row = tuple[str, "int | None", "int | None"]


def hunks_of(compared: Compared, places: Places, original: Side, rebuilt: Side) -> list[Hunk]:
    rows = _rows(compared, places, original, rebuilt)
    differing = [n for n, (kind, _, _) in enumerate(rows) if kind != "same"]
    spans: list[tuple[int, int]] = []
    for n in differing:
        low, high = max(n - _CONTEXT, 0), min(n + _CONTEXT + 1, len(rows))
        if spans and low <= spans[-1][1]:
            spans[-1] = (spans[-1][0], high)
        else:
            spans.append((low, high))
    hunks = []
    for low, high in spans:
        shown = []
        for kind, i, j in rows[low:high]:
            a = compared.a[i] if i is not None else None
            b = compared.b[j] if j is not None else None
            skip = 0
            if isinstance(a, Raw) and isinstance(b, Raw) and kind == "changed":
                pairs = enumerate(zip(a.data, b.data, strict=False))
                skip = next((n for n, (x, y) in pairs if x != y), min(len(a.data), len(b.data)))
                skip = min(skip & ~3, len(a.data) - 1 & ~3, len(b.data) - 1 & ~3)
            left = _line(original, a, skip) if a is not None else None
            right = _line(rebuilt, b, skip) if b is not None else None
            shown.append(Row(kind, left, right))
        hunks.append(Hunk(compared.section.name, tuple(shown), compared.function))
    return hunks


def _rows(compared: Compared, places: Places, original: Side, rebuilt: Side) -> list[_Row]:
    """Kind and positions of each row of a pair of sections, in order."""
    a, b = compared.a, compared.b
    rows: list[_Row] = []

    def leads_alike(one: Item, other: Item) -> bool:
        target, other_target = target_of(one), target_of(other)
        if target is not None and other_target is not None:
            return places.same(target, other_target)
        left = original.references.get(one.address)
        right = rebuilt.references.get(other.address)
        if left is None or right is None or isinstance(one, Raw):
            return True
        if left.symbol is not None or right.symbol is not None:
            return original.symbol(left) == rebuilt.symbol(right)
        return places.same(left.target, right.target)

    for block in compared.alignment.blocks:
        left, right = range(block.a_low, block.a_high), range(block.b_low, block.b_high)
        if block.equal:
            rows += [
                ("same" if leads_alike(a[i], b[j]) else "branch", i, j)
                for i, j in zip(left, right, strict=True)
            ]
            continue
        both = min(len(left), len(right))
        rows += [("changed", left[n], right[n]) for n in range(both)]
        rows += [("removed", i, None) for i in left[both:]]
        rows += [("inserted", None, j) for j in right[both:]]
    for address, one, other in compared.branches:
        if not places.same(one, other):
            piece = next(i for i, item in enumerate(a) if item.address == address)
            rows = [("branch", *row[1:]) if row[1] == piece else row for row in rows]
    return rows


def _line(side: Side, item: Item, skip: int) -> Line:
    """A line that shows *item*; of data what starts *skip* bytes in."""
    if isinstance(item, Raw):
        data = item.data[skip : skip + _SHOWN]
        more = len(item.data) - skip - len(data)
        text = data.hex(" ") + (f" … ({more} more bytes)" if more else "")
        return Line(item.address + skip, f"data: {text}", data)
    target, reference = branch_target(item), side.references.get(item.address)
    if target is not None:
        text = f"{stem(item)} -> {place_of(side.co, target)}"
    elif reference is not None:
        leads = side.symbol(reference) or place_of(side.co, reference.target)
        text = f"{without_literal(item, reference)} -> {leads}"
    else:
        text = item.text
    return Line(item.address, text, item.data)
