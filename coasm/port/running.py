"""An object and what it was ported to, both run on the emulator from one launch file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from coasm.codeobject import CodeObject

__all__ = ["Difference", "Runs", "both"]


class Difference(NamedTuple):
    """A buffer that the two runs left differently: how many *bytes*, the first one's offset."""

    buffer: str
    bytes: int
    first: int


class Runs(NamedTuple):
    """Whether what each run left is as the launch file says, and where the two differ.

    ``checked`` is whether the file says anything of it.
    """

    kernel: str
    passed: tuple[bool, bool]
    checked: bool
    instructions: tuple[int, int]
    differences: tuple[Difference, ...]

    @property
    def alike(self) -> bool:
        """Whether both left the same bytes everywhere, and what is checked is right."""
        return not self.differences and all(self.passed)

    def lines(self, old: str, new: str) -> Iterator[str]:
        """What people are shown; *old* and *new* are the targets."""
        for target, passed, count in zip((old, new), self.passed, self.instructions, strict=True):
            said = ("wrong", "right")[passed] if self.checked else "not checked"
            yield f"  run on {target}: {said}, {count:,} wave-instructions"
        for one in self.differences:
            yield f"  {one.buffer}: {one.bytes:,} bytes differ, the first at {one.first:#x}"
        if not self.differences:
            yield "  every buffer is the same after both"

    def to_json(self) -> dict[str, Any]:
        """The runs as ``--json`` prints them."""
        return {**self._asdict(), "differences": [one._asdict() for one in self.differences]}


def both(
    source: CodeObject, ported: CodeObject, launch: str | os.PathLike[str], llvm: str | None = None
) -> Runs:
    """Run both on the emulator.

    Raises:
        CoasmError: the emulator does not run one of the targets, or a launch failed.
    """
    import numpy as np

    from coasm.launch import run_spec

    one, other = (
        run_spec(launch, source=co, backend="emulator", llvm=llvm) for co in (source, ported)
    )
    found = []
    for name, array in one.arrays.items():
        bytes_of = [
            np.ascontiguousarray(a).view(np.uint8).ravel() for a in (array, other.arrays[name])
        ]
        unlike = np.flatnonzero(bytes_of[0] != bytes_of[1])
        if len(unlike):
            found.append(Difference(name, len(unlike), int(unlike[0])))
    return Runs(
        one.kernel,
        (one.passed, other.passed),
        bool(one.comparisons),
        (one.figures.wave_instructions or 0, other.figures.wave_instructions or 0),
        tuple(found),
    )
