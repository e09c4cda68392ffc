"""``coasm roundtrip``: objects through disasm, asm and verify."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from coasm.cli.options import JsonOption, LlvmOption
from coasm.cli.terminal import printable

__all__ = ["roundtrip"]


def roundtrip(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Code objects, or folders of them.")
    ],
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes (default: one a core).")
    ] = None,
    json_: JsonOption = False,
    llvm: LlvmOption = None,
) -> int:
    """Take code objects through disasm, asm and verify, and say what is identical.

    Nothing is written. An object is "ok" when the four checks of verify hold and the loaded image
    of the fresh link is identical. With --json each object is a line on standard output.

    \b
    Examples:
      coasm roundtrip kernel.co
      coasm roundtrip /opt/aiter/hsa --jobs 8
      coasm roundtrip hsa --json | jq 'select(.status != "ok")'

    Exit status: 0 all ok, 1 something is different, 2 something could not be judged.
    """
    from coasm.trips import RoundTrip, collect, roundtrip_many

    files = collect(paths)
    results: list[RoundTrip] = []
    bar = _Progress(len(files), enabled=sys.stderr.isatty())
    try:
        for result in roundtrip_many(files, llvm, jobs=jobs):
            results.append(result)
            if json_:
                bar.clear()
                print(json.dumps(result.to_json()), flush=True)
            bar.step(result.path)
    finally:
        bar.close()
    if not json_:
        _table(results)
    if any(r.status == "error" for r in results):
        return 2
    return 0 if all(r.status == "ok" for r in results) else 1


class _Progress:
    """A progress bar on standard error, where that is a terminal."""

    def __init__(self, total: int, *, enabled: bool) -> None:
        self._bar = None
        if enabled and total > 1:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            self._bar = Progress(
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.description}", markup=False),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task("", total=total)
            self._bar.start()

    def clear(self) -> None:
        """Nothing: rich redraws below what is printed."""

    def step(self, path: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, advance=1, description=printable(path)[-60:])

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def _table(results: list) -> None:  # type: ignore[type-arg]
    """What is not ok, one by one, and the sums by target."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    bad = [r for r in results if r.status != "ok"]
    for result in bad:
        style = "red" if result.status == "error" else "yellow"
        console.print(
            f"[{style}]{result.status}[/] {escape(printable(result.path))}: "
            f"{escape(printable(result.error or ''))}",
            soft_wrap=True,
        )
    table = Table(box=box.SIMPLE_HEAD, show_footer=len({r.target for r in results}) > 1)
    groups: dict[str, list] = {}  # type: ignore[type-arg]
    for result in results:
        groups.setdefault(result.target or "?", []).append(result)
    columns = (
        ("objects", lambda rs: len(rs)),
        ("ok", lambda rs: sum(r.status == "ok" for r in rs)),
        ("loaded identical", lambda rs: sum(bool(r.loaded_identical) for r in rs)),
        ("file identical", lambda rs: sum(bool(r.file_identical) for r in rs)),
        ("instructions", lambda rs: sum(r.instructions or 0 for r in rs)),
        ("pinned", lambda rs: sum(r.pinned or 0 for r in rs)),
        ("raw", lambda rs: sum(r.raw or 0 for r in rs)),
    )
    table.add_column("target", footer="all")
    for title, count in columns:
        table.add_column(title, justify="right", footer=f"{count(results):,}")
    for name in sorted(groups):
        table.add_row(escape(name), *(f"{count(groups[name]):,}" for _, count in columns))
    console.print(table)
