"""The short way of ``disasm`` and ``asm`` reads a command line as typer does, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coasm.asm.source import NO_OPTIONS
from coasm.cli import app, build_object, write_listing
from coasm.cli.simple import simple

_BOTH = {"output": None, "force": False, "json_": False, "llvm": None}
_DEFAULTS = {
    "disasm": {**_BOTH, "kernel": None},
    "asm": {**_BOTH, "like": None, "lint": False, "options": NO_OPTIONS},
}

_WORDS = st.sampled_from(
    [
        "k.co",
        "other",
        "-",
        "-o",
        "--output",
        "--kernel",
        "--like",
        "-f",
        "--force",
        "--json",
        "--llvm",
        "-h",
        "--x",
        "--",
        "--output=a",
        "-oa",
        "-fo",
        "--forc",
    ]
)


#: Command → the function without typer that it calls, and what that function takes.
_FUNCTIONS: dict[str, tuple[Any, str]] = {
    "disasm": (write_listing, "write_listing"),
    "asm": (build_object, "build_object"),
}


def _by_typer(command: str, arguments: list[str]) -> dict[str, Any] | None:
    """What typer makes of it; None where it does not call the command."""
    calls: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            *_FUNCTIONS[command], lambda file, **rest: calls.append({"file": file, **rest})
        )
        with pytest.raises(SystemExit):
            app.run([command, *arguments])
    return calls[0] if calls else None


@pytest.mark.parametrize("command", list(_FUNCTIONS))
@given(arguments=st.lists(_WORDS, max_size=6))
def test_the_short_way_means_what_typer_means(command: str, arguments: list[str]) -> None:
    found = simple(command, arguments)
    if found is not None:
        assert {**_DEFAULTS[command], **found} == _by_typer(command, arguments)


@pytest.mark.parametrize(
    "line",
    [
        "disasm k.co",
        "disasm k.co -o x.s -f",
        "disasm --llvm d k.co --json",
        "asm k.s",
        "asm k.s --like k.co -o x.co",
    ],
)
def test_what_people_type_takes_the_short_way(line: str) -> None:
    command, *arguments = line.split()
    assert simple(command, arguments) is not None
