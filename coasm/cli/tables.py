"""Tables that lose nothing on a narrow terminal: what does not fit is shown row by row."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from coasm.cli.terminal import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["console", "show_table", "shown"]

#: Characters of a word that may not be broken to make a column narrower.
_WORD = 20
#: Spaces between columns.
_GAP = 2


def console(wide: int = 120) -> Console:
    """A console that prints text as it is; *wide* columns where there is no terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else wide
    return Console(width=width, highlight=False, markup=False, emoji=False)


def shown(value: str | Text) -> Text:
    """Text that is shown as it is: no markup, no control characters."""
    from rich.text import Text

    return value if isinstance(value, Text) else Text(printable(value))


#: Rows from which on a table is printed without rich.
_MANY = 2000


def show_table(
    to: Console,
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    footer: Sequence[str] | None = None,
    plain: bool = False,
) -> None:
    """Print a table without its empty columns; one whose name ends in ``>`` is set flush right.

    Where it is wider than the console, the rows are printed one below the other, a line a cell.
    *plain*: each a line, without rich; it is one of very many.
    """
    cells = [[shown(cell) for cell in row] for row in rows]
    used = [at for at in range(len(columns)) if any(row[at].plain for row in cells)]
    names = [columns[at].rstrip(">") for at in used]
    right = [columns[at].endswith(">") for at in used]
    cells = [[row[at] for at in used] for row in cells]
    last = [shown(footer[at]) for at in used] if footer is not None else None
    every = [[shown(name) for name in names], *cells, *([last] if last else [])]
    widths = [
        max(_narrowest(row[at].plain, flush) for row in every) for at, flush in enumerate(right)
    ]
    if plain or len(cells) > _MANY:
        _plain(to, right, every)
    elif sum(widths) + _GAP * (len(widths) - 1) > to.width:
        _records(to, names, every[1:])
    else:
        _table(to, names, right, cells, last)


def _plain(to: Console, right: Sequence[bool], rows: Sequence[Sequence[Text]]) -> None:
    """A table of very many rows, each a line: rich takes a fifth of a millisecond for one."""
    widths = [max(len(row[at].plain) for row in rows) for at in range(len(right))]
    for row in rows:
        line = (
            cell.plain.rjust(width) if flush else cell.plain.ljust(width)
            for cell, width, flush in zip(row, widths, right, strict=True)
        )
        text = "  ".join(line).rstrip()
        to.file.write(f"{text}\n" if text else "")


def _narrowest(text: str, number: bool) -> int:
    """How narrow a cell can be: a number takes its place, other text is folded between words."""
    if number:
        return len(text)
    return max((min(len(word), _WORD) for word in text.split()), default=0)


def _table(
    to: Console,
    names: Sequence[str],
    right: Sequence[bool],
    rows: Sequence[Sequence[Text]],
    footer: Sequence[Text] | None,
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        box=SIMPLE_HEAD,
        padding=(0, _GAP - 1, 0, 0),  # the box sets one between columns
        pad_edge=False,
        show_edge=False,
        show_footer=footer is not None,
    )
    for at, name in enumerate(names):
        table.add_column(
            name,
            footer=footer[at] if footer is not None else "",
            justify="right" if right[at] else "left",
            no_wrap=right[at],
            overflow="fold",
        )
    for row in rows:
        table.add_row(*row)
    to.print(table)


def _records(to: Console, names: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    """Each row as its first cell, and below it the others behind the names of their columns."""
    from rich.table import Table
    from rich.text import Text

    for row in rows:
        to.print(row[0] if row[0].plain.strip() else "-", style="bold", overflow="fold")
        grid = Table.grid(padding=(0, _GAP))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for name, cell in zip(names[1:], row[1:], strict=True):
            if cell.plain.strip():
                grid.add_row(Text(f"  {name}"), cell)
        to.print(grid)
