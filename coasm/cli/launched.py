"""What is shown of launches: one by itself, and the table of a sweep."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from coasm.cli.progress import Progress
from coasm.cli.terminal import colored, printable
from coasm.errors import CoasmError, LaunchError

if TYPE_CHECKING:
    from rich.text import Text

    from coasm.codeobject import CodeObject
    from coasm.emulator import Coverage
    from coasm.launch.device import Device, Figures
    from coasm.launch.edits import Originals, Reached
    from coasm.launch.family import Check, Family, Outcome, Plan
    from coasm.launch.report import Report

__all__ = ["show", "status_of", "sweep"]

#: How many changed instructions that were not executed are listed.
_SHOWN = 8

#: What is said of a result without a verdict, by whether the launch was stopped.
_UNJUDGED = ("not compared", "not compared: the launch was stopped")


def status_of(right: bool, edit: Reached | None) -> int:
    """The exit status: a right result that says nothing of an edit could not be judged."""
    if not right:
        return 1
    return 0 if edit is None or edit.whole else 2


def show(report: Report, figures: Figures, edit: Reached | None, device: Device) -> None:
    """Print what was launched and what came of it; *edit* is what of an edit was executed."""
    for label, text in report.launched:
        print(f"{label:9} {printable(text)}")
    for one in report.judged:
        print(f"result    {_word(one.passed, edit)}: {printable(one.text)}")
        if one.where:
            print(f"wrong     {one.wrong:,} {printable(one.where)}")
    if not report.judged:
        print(f"result    {_UNJUDGED[bool(figures.dump)]}")
    for path in report.saved:
        print(f"saved     {printable(path)}")
    _show_executed(figures.coverage, edit)
    if device.name == "hip":
        rate = f", {report.rate}" if report.rate else ""
        print(f"time      {figures.median * 1e6:.1f} us{rate} ({device.description})")
    else:
        count = f", {figures.wave_instructions or 0:,} wave-instructions"
        print(f"time      {figures.median:.2f} s on the emulator{count}")
    if len(figures.seconds) > 1:
        print(f"          median of {len(figures.seconds)} launches")
    for line in figures.fidelity:
        print(f"fidelity  {printable(line)}")
    if figures.dump:
        print(printable(figures.dump, multiline=True))


def _word(right: bool, edit: Reached | None) -> str:
    if not right:
        return colored("FAILED", "red")
    if edit is None or edit.whole:
        return colored("PASSED", "green")
    return colored("NOT JUDGED, the edit was not run", "yellow")


def _show_executed(coverage: Coverage | None, edit: Reached | None) -> None:
    """How much of the kernel was executed, and what of an edit was not."""
    if coverage is None:
        return
    count, done = len(coverage.code), len(coverage.executed & coverage.code)
    share = f" ({done / count:.1%})" if count else ""
    print(f"executed  {done:,} of {count:,} instructions{share}")
    asleep = len(coverage.asleep & coverage.code)
    if asleep:
        print(f"          {asleep:,} more without a lane switched on: they did nothing")
    if edit is None:
        return
    reached = len(edit.edits) - len(edit.missed)
    if not edit.edits:
        print("edit      none: the instructions are the original's")
        return
    print(f"edit      {reached:,} of {len(edit.edits):,} changed instructions executed")
    for one in edit.missed[:_SHOWN]:
        why = "no lane was on" if one in edit.asleep else "not executed"
        print(f"          {why}: {printable(str(one))}")
    if len(edit.missed) > _SHOWN:
        print(f"          and {len(edit.missed) - _SHOWN:,} more")


class _Done(NamedTuple):
    """A check of the sweep, what came of it, and what of an edit it executed."""

    check: Check
    result: Outcome | CoasmError
    edit: Reached | None

    def to_json(self) -> dict[str, Any]:
        said = {"check": self.check.group}
        if isinstance(self.result, CoasmError):
            return {**said, **self.check.to_json(), "passed": None, "error": str(self.result)}
        return {**said, **self.result.to_json(self.edit)}


def sweep(
    family: Family, plan: Plan, device: Device, *, seed: int, originals: Originals, json_: bool
) -> int:
    """Run every check of the sweep; what cannot be judged is reported and does not end it."""
    todo = list(plan.checks(device))
    done: list[_Done] = []
    whole: dict[str, tuple[CodeObject, Coverage]] = {}
    with Progress(len(todo)) as bar:
        for check in todo:
            done.append(_run(plan, device, check, seed, originals))
            result = done[-1].result
            if not isinstance(result, CoasmError) and done[-1].edit is not None:
                coverage = result.figures.coverage
                assert coverage is not None
                before = whole.get(result.path)
                whole[result.path] = result.co, before[1].also(coverage) if before else coverage
            if json_:
                print(json.dumps(done[-1].to_json()), flush=True)
            bar.step(check.label)
    right = sum(not isinstance(one.result, CoasmError) and one.result.passed for one in done)
    if not json_:
        _show_table(family, done)
        print(f"{right} of {len(done)} checks passed")
    unjudged = any(isinstance(one.result, CoasmError) for one in done)
    for path, (co, coverage) in whole.items():
        edit = originals.reached(path, co, coverage)
        if edit is not None and not edit.whole:
            unjudged = True
            print(
                f"coasm: {printable(path)}: the sweep did not execute {len(edit.missed):,} of "
                f"{len(edit.edits):,} changed instructions; first {printable(str(edit.missed[0]))}",
                file=sys.stderr,
            )
    if unjudged:
        return 2
    return 0 if right == len(done) else 1


def _run(plan: Plan, device: Device, check: Check, seed: int, originals: Originals) -> _Done:
    try:
        result = plan.run(device, check, seed=seed, verify=True, iterations=0)
        if result.figures.dump:
            raise LaunchError("the launch was stopped")
        edit = originals.reached(result.path, result.co, result.figures.coverage)
        return _Done(check, result, edit)
    except CoasmError as error:
        return _Done(check, error, None)


def _show_table(family: Family, done: list[_Done]) -> None:
    from rich.text import Text

    from coasm.cli.tables import console as open_console
    from coasm.cli.tables import show_table

    rows: list[list[str | Text]] = []
    problems = []
    for check, result, edit in done:
        if isinstance(result, CoasmError):
            blank = [""] * (len(family.columns) + 1 - len(check.cells))
            rows.append([*check.cells, *blank, Text("not judged", "red")])
            problems.append(f"{check.label}: {result}")
            continue
        word = Text("passed", "green") if result.passed else Text("FAILED", "red")
        if result.passed and edit is not None and not edit.whole:
            word = Text("edit not run", "yellow")
        rows.append([*check.cells, *result.cells, f"{result.figures.median:.2f}", word])
        if not result.passed:
            wrong = sum(one.wrong for one in result.report().judged)
            problems.append(f"{check.label}: {wrong:,} elements wrong")
    console = open_console()
    show_table(console, (*family.columns, "s>", "result"), rows)
    for line in problems:
        console.print(printable(line), soft_wrap=True)
