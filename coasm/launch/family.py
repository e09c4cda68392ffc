"""The face of a family of kernels: all that ``coasm run`` and the library know of one.

A family is a folder of :mod:`coasm.launch.families` whose ``__init__.py`` has a :class:`Family` as
``FAMILY``. What takes time to import (NumPy, the family's own modules) its functions import.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from coasm.codeobject import CodeObject, Kernel
from coasm.errors import LaunchError
from coasm.launch.device import Device
from coasm.launch.report import Shown
from coasm.target import TargetID

__all__ = ["Asked", "Check", "Family", "Listing", "Option", "Outcome", "Plan"]

#: The values of all options of a family by their names; of the problem's, None where not given.
Asked = Mapping[str, Any]


class Option(NamedTuple):
    """An option of a family's command. ``kind`` is int, str, or bool: a switch."""

    flag: str
    help: str
    kind: type[int] | type[str] | type[bool] = int
    default: Any = None
    metavar: str | None = None
    low: int | None = None
    high: int | None = None

    @property
    def name(self) -> str:
        """What :data:`Asked` has it as: ``--co-dir`` is ``co_dir``."""
        return self.flag.lstrip("-").replace("-", "_")

    def check(self, value: object) -> None:
        """Refuse a value that no command line gives.

        Raises:
            LaunchError: it is of another kind, or out of bounds.
        """
        kinds = (str, os.PathLike) if self.kind is str else self.kind
        right = isinstance(value, kinds)
        if right and isinstance(value, int):
            low, high = self.low, self.high
            right = (low is None or value >= low) and (high is None or value <= high)
        if not right and value != self.default:
            raise LaunchError(f"{self.name} is {value!r}; {self.flag}: {self.help}")


class Check(Protocol):
    """A problem on a kernel, to be run and judged."""

    @property
    def group(self) -> str:
        """Which part of the sweep it belongs to."""

    @property
    def label(self) -> str:
        """The problem and the object, in a few words."""

    @property
    def cells(self) -> tuple[str, ...]:
        """The problem in the sweep's table: the first of :attr:`Family.columns`."""

    def to_json(self) -> dict[str, Any]:
        """What is said of it where it could not be judged."""


class Outcome(Shown, Protocol):
    """What came of a check."""

    @property
    def path(self) -> str:
        """The object that ran, as the user names it."""

    @property
    def co(self) -> CodeObject: ...

    @property
    def passed(self) -> bool:
        """False where the result was compared and is wrong."""

    @property
    def cells(self) -> tuple[str, ...]:
        """How far off it is, in the sweep's table: the last of :attr:`Family.columns`."""


class Plan(Protocol):
    """What was asked for, checked as far as it can be without a device."""

    @property
    def target(self) -> TargetID:
        """What the device has to run."""

    def checks(self, device: Device) -> Iterable[Check]:
        """The one that the problem's options ask for, or without them those of the sweep."""

    def run(
        self, device: Device, check: Any, *, seed: int, verify: bool, iterations: int
    ) -> Outcome:
        """Launch it on operands of *seed*, compare, and time *iterations* more launches."""


class Listing(NamedTuple):
    """The kernels that a family finds, for ``--list``: as lines and as JSON."""

    lines: tuple[str, ...]
    json: dict[str, Any]


class Family(NamedTuple):
    """A family. Its name is its folder's, and the word behind ``coasm run``.

    ``help`` is one line, ``description`` what ``coasm run NAME --help`` says, examples at its end.
    ``problem`` are the options that make a problem: all of them are given, or none (``--sweep``).
    ``columns`` are those of the sweep's table (see :func:`coasm.cli.tables.show_table`); without
    them there is no ``--sweep``, and no ``--list`` without ``listing``. ``recognizes`` tells a
    kernel of the family by its symbol or metadata. ``plan`` takes an object and what the user
    calls it, or None.
    """

    name: str
    help: str
    description: str
    problem: tuple[Option, ...]
    options: tuple[Option, ...]
    recognizes: Callable[[Kernel], bool]
    plan: Callable[[Asked, tuple[str, CodeObject] | None], Plan]
    columns: tuple[str, ...] = ()
    listing: Callable[[Asked], Listing] | None = None

    def asked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """*given* with the defaults of what it lacks.

        Raises:
            LaunchError: the family has no such option, or the option takes no such value.
        """
        known = {option.name: option for option in (*self.problem, *self.options)}
        for name, value in given.items():
            if name not in known:
                raise LaunchError(f"{self.name} has no option {name!r}: {', '.join(known)}")
            known[name].check(value)
        return {name: option.default for name, option in known.items()} | dict(given)

    def whole(self, asked: Asked) -> bool:
        """Whether *asked* has the problem; False where it has nothing of it.

        Raises:
            LaunchError: it has a part.
        """
        missing = [option for option in self.problem if asked[option.name] is None]
        if missing and len(missing) < len(self.problem):
            raise LaunchError(f"give all of {self.flags}")
        return not missing

    @property
    def flags(self) -> str:
        """The options of the problem in words: ``-m, -n and -k``."""
        *most, last = (option.flag for option in self.problem)
        return f"{', '.join(most)} and {last}" if most else last
