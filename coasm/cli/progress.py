"""A progress bar on standard error, where that is a terminal."""

from __future__ import annotations

import sys
from typing import Any

from coasm.cli.terminal import printable

__all__ = ["Progress"]


class Progress:
    """A bar over *total* pieces of work; nothing where there is one, or nobody to see it."""

    def __init__(self, total: int) -> None:
        self._bar: Any = None
        if total < 2 or not sys.stderr.isatty():
            return
        from rich import progress
        from rich.console import Console

        self._bar = progress.Progress(
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, text: str) -> None:
        """A piece is done: *text* says which."""
        if self._bar is not None:
            self._bar.update(self._task, advance=1, description=printable(text)[-60:])
