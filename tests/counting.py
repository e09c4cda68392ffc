"""What a piece of work takes, in numbers that no machine changes: programs started, calls made,
lines run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

__all__ = ["Count", "calls", "lines", "programs"]


class Count:
    """How many there were; complete at the end of the block."""

    def __init__(self) -> None:
        self.number = 0


@contextmanager
def programs() -> Iterator[Count]:
    """Counts the programs that are started in its block, by this process."""
    count, start = Count(), subprocess.Popen.__init__

    def counted(self: Any, *arguments: Any, **options: Any) -> None:
        count.number += 1
        start(self, *arguments, **options)

    with patch.object(subprocess.Popen, "__init__", counted):
        yield count


@contextmanager
def calls() -> Iterator[Count]:
    """Counts the calls of functions in its block, Python's and built-in ones."""
    count, before = Count(), sys.getprofile()

    def counted(frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            count.number += 1

    sys.setprofile(counted)
    try:
        yield count
    finally:
        sys.setprofile(before)


@contextmanager
def lines(module: ModuleType) -> Iterator[Count]:
    """Counts the lines of *module* that run in its block: loops that call nothing count too."""
    count, before = Count(), sys.gettrace()

    def inside(frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            count.number += 1
        return inside

    def entered(frame: Any, event: str, argument: Any) -> Any:
        return inside if frame.f_code.co_filename == module.__file__ else None

    sys.settrace(entered)
    try:
        yield count
    finally:
        sys.settrace(before)
