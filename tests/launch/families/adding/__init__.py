"""A made-up family: ``sum[i] = left[i] + right[i]`` in f32, judged by NumPy.

It is what ``docs/where-to-touch.md`` shows: a folder, and nothing else that knows of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from coasm.codeobject import CodeObject, Kernel
from coasm.launch.device import Device, Figures
from coasm.launch.edits import Reached, executed_json, passed_json
from coasm.launch.family import Asked, Family, Listing, Option
from coasm.launch.report import Judged, Report

_KERNEL = "vector_add"
_WORKGROUP = 64


class Addition(NamedTuple):
    """The check: *n* numbers."""

    n: int
    group: str = "length"

    @property
    def label(self) -> str:
        return f"n={self.n}"

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.group, str(self.n))

    def to_json(self) -> dict[str, Any]:
        return {"n": self.n}


class Added(NamedTuple):
    """The outcome: *wrong* is None where nothing was compared."""

    check: Addition
    path: str
    co: CodeObject
    figures: Figures
    wrong: int | None

    @property
    def passed(self) -> bool:
        return not self.wrong

    @property
    def cells(self) -> tuple[str, ...]:
        return (str(self.wrong),)

    def report(self) -> Report:
        judged: tuple[Judged, ...] = ()
        if self.wrong is not None:
            judged = (Judged(self.passed, "every bit", self.wrong, f"of {self.check.n} elements"),)
        return Report((("object", self.path), ("length", str(self.check.n))), judged)

    def to_json(self, edit: Reached | None = None) -> dict[str, Any]:
        passed = passed_json(self.wrong is not None, self.passed, edit)
        return {"n": self.check.n, "passed": passed, **executed_json(self.figures.coverage, edit)}


class Additions:
    """The plan."""

    def __init__(self, asked: Asked, given: tuple[str, CodeObject] | None) -> None:
        from coasm.opening import open_code_object

        path = os.path.join(asked["co_dir"], f"{_KERNEL}.s")
        self._path, self._co = given or (path, open_code_object(path))
        self._lengths = (1, 64, 250) if asked["n"] is None else (asked["n"],)
        self.target = self._co.target

    def checks(self, device: Device) -> Iterable[Addition]:
        return map(Addition, self._lengths)

    def run(
        self, device: Device, check: Addition, *, seed: int, verify: bool, iterations: int
    ) -> Added:
        import numpy as np

        from coasm.launch.arguments import Geometry
        from coasm.launch.general import Pointer, launch, the_kernel

        rng = np.random.default_rng(seed)
        left, right = rng.normal(size=(2, check.n)).astype(np.float32)
        result = launch(
            device,
            self._co,
            the_kernel(self._co, None),
            Geometry((-(-check.n // _WORKGROUP), 1, 1), (_WORKGROUP, 1, 1)),
            {name: Pointer(name) for name in ("sum", "left", "right")} | {"count": check.n},
            {"sum": np.zeros_like(left), "left": left, "right": right},
            iterations=iterations,
        )
        wrong = None
        if verify and not result.figures.dump:
            wrong = int(np.count_nonzero(result.arrays["sum"] != left + right))
        return Added(check, self._path, self._co, result.figures, wrong)


def _recognizes(kernel: Kernel) -> bool:
    return kernel.name == _KERNEL


FAMILY = Family(
    name="adding",
    help="sum[i] = left[i] + right[i], f32.",
    description="""\
Add numbers.

\b
Examples:
  coasm run adding vector_add.s -n 250
""",
    problem=(Option("-n", "How many numbers.", low=1),),
    options=(Option("--co-dir", "Folder of vector_add.s.", str, ".", "DIR"),),
    recognizes=_recognizes,
    plan=Additions,
    columns=("check", "n>", "wrong>"),
    listing=lambda asked: Listing((f"{_KERNEL}.s",), {"kernels": [_KERNEL]}),
)
