"""What lint reports: one finding a place, and what could not be followed."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ADVICE", "ERROR", "Finding", "Fix", "Place"]

ERROR, ADVICE = "error", "advice"


class Place(NamedTuple):
    """Where an instruction is: its address in the object, its line in the source if it has one.

    ``file`` is the included file that the line is of, None for the source itself. Where a macro
    made the instruction the line is that of its use, ``macro`` its name and ``body`` where its body
    has the instruction, as ``file`` and ``line``. ``source`` is that line's text, and what the
    finding is about stands in ``column`` (from 1) and takes ``width`` characters.
    """

    address: int
    line: int | None
    text: str
    file: str | None = None
    macro: str = ""
    body: tuple[str | None, int] | None = None
    source: str = ""
    column: int | None = None
    width: int = 0


class Fix(NamedTuple):
    """What makes a finding go away when it stands before the instruction that it is at.

    ``states`` wait states, a wait for at most so many operations of each counter of ``waits``, or
    an ``instruction``, so many ``times``.
    """

    states: int = 0
    waits: tuple[tuple[str, int], ...] = ()
    instruction: str = ""
    times: int = 1


class Finding(NamedTuple):
    """One finding: *rule* (see :data:`coasm.linter.rules.RULES`), *level*, and where.

    ``kernel`` is the kernel or function that the place is in. ``what`` is the message without the
    place, ``producer`` the other instruction, ``has`` and ``needs`` the numbers that it compares
    (wait states or a counter), ``advice`` what to do about it.
    """

    rule: str
    level: str
    kernel: str
    place: Place
    what: str
    advice: str
    producer: Place | None = None
    has: int | None = None
    needs: int | None = None
    fix: Fix | None = None
