"""``coasm roundtrip``: objects through disasm, asm and verify."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from coasm.cli.options import JsonOption, LlvmOption
from coasm.cli.progress import Progress
from coasm.cli.terminal import printable

if TYPE_CHECKING:
    from coasm.trips import RoundTrip

__all__ = ["roundtrip"]


def roundtrip(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...", help="Code objects, listings, libraries, or folders of objects."
        ),
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
      coasm roundtrip libkernels.so
      coasm roundtrip hsa --json | jq 'select(.status != "ok")'

    Exit status: 0 all ok, 1 something is different, 2 something could not be judged.
    """
    from coasm.trips import collect, roundtrip_many

    files = collect(paths)
    results: list[RoundTrip] = []
    with Progress(len(files)) as bar:
        for result in roundtrip_many(files, llvm, jobs=jobs):
            results.append(result)
            if json_:
                print(json.dumps(result.to_json()), flush=True)
            bar.step(result.path)
    if not json_:
        _table(results)
    if any(r.status == "error" for r in results):
        return 2
    return 0 if all(r.status == "ok" for r in results) else 1


#: Column of the table → what it counts in a group of results.
_COLUMNS: tuple[tuple[str, Callable[[RoundTrip], int]], ...] = (
    ("objects", lambda r: 1),
    ("ok", lambda r: r.status == "ok"),
    ("loaded", lambda r: bool(r.loaded_identical)),
    ("file", lambda r: bool(r.file_identical)),
    ("instructions", lambda r: r.instructions or 0),
    ("pinned", lambda r: r.pinned or 0),
    ("raw", lambda r: r.raw or 0),
)


def _table(results: Sequence[RoundTrip]) -> None:
    """What is not ok, one by one, and the sums by target."""
    from rich.text import Text

    from coasm.cli.tables import console as open_console
    from coasm.cli.tables import show_table

    console = open_console()
    for result in results:
        if result.status != "ok":
            style = "red" if result.status == "error" else "yellow"
            what = printable(f"{result.path}: {result.error}")
            console.print(Text.assemble((result.status, style), " ", what), soft_wrap=True)
    groups: dict[str, list[RoundTrip]] = {}
    for result in sorted(results, key=lambda r: r.target or "?"):
        groups.setdefault(result.target or "?", []).append(result)

    def counts(name: str, group: Sequence[RoundTrip]) -> list[str]:
        return [name, *(f"{sum(map(count, group)):,}" for _, count in _COLUMNS)]

    show_table(
        console,
        ["target", *(f"{title}>" for title, _ in _COLUMNS)],
        [counts(*group) for group in groups.items()],
        footer=counts("all", results) if len(groups) > 1 else None,
    )
    console.print('"loaded" and "file": identical to the original, byte for byte')
