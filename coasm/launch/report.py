"""What is said of a launch, as data: whoever prints it knows no kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from coasm.launch.device import Figures

if TYPE_CHECKING:
    from coasm.launch.edits import Reached

__all__ = ["Judged", "Report", "Shown"]


class Judged(NamedTuple):
    """A result that was compared: how far off it is, in words, and what of it is wrong.

    ``where`` goes on from the number of wrong elements, as in ``of 64 elements; first D[0, 0]``.
    """

    passed: bool
    text: str
    wrong: int = 0
    where: str = ""


class Report(NamedTuple):
    """What was launched, line by line, each with its label, and what came of it.

    ``judged`` is empty where nothing was compared. ``saved`` are the files to be written, ``rate``
    is what the time means on a GPU, as in ``3.1 TFLOP/s``.
    """

    launched: tuple[tuple[str, str], ...]
    judged: tuple[Judged, ...]
    saved: tuple[str, ...] = ()
    rate: str = ""


class Shown(Protocol):
    """What came of a launch, to be shown as text or as JSON."""

    @property
    def figures(self) -> Figures: ...

    def report(self) -> Report: ...

    def to_json(self, edit: Reached | None = None) -> dict[str, Any]:
        """Everything but arrays; *edit* is what the run executed of an edit."""
