"""The short way of ``coasm disasm`` reads a command line as typer does, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coasm.cli import app, write_listing

_DEFAULTS = {"output": None, "force": False, "json_": False, "llvm": None, "kernel": None}

_WORDS = st.sampled_from(
    [
        "k.co",
        "other",
        "-",
        "-o",
        "--output",
        "--kernel",
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


def _by_typer(arguments: list[str]) -> dict[str, Any] | None:
    """What typer makes of it; None where it does not call the command."""
    calls: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            write_listing,
            "write_listing",
            lambda file, **rest: calls.append({"file": file, **rest}),
        )
        with pytest.raises(SystemExit):
            app.run(["disasm", *arguments])
    return calls[0] if calls else None


@given(st.lists(_WORDS, max_size=6))
def test_the_short_way_means_what_typer_means(arguments: list[str]) -> None:
    found = write_listing.simple(arguments)
    if found is not None:
        assert {**_DEFAULTS, **found} == _by_typer(arguments)


@pytest.mark.parametrize(
    "arguments", [["k.co"], ["k.co", "-o", "x.s", "-f"], ["--llvm", "d", "k.co", "--json"]]
)
def test_what_people_type_takes_the_short_way(arguments: list[str]) -> None:
    assert write_listing.simple(arguments) is not None
