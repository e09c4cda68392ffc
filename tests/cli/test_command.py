"""A command is a row and a module, and nothing else: docs/where-to-touch.md."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import coasm.cli
from coasm.__main__ import main
from coasm.cli.app import COMMANDS
from tests.docs import ROOT, blocks

_HERE = Path(__file__).parent / "made_up"


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coasm with the command ``kernels``."""
    monkeypatch.setattr(coasm.cli, "__path__", [*coasm.cli.__path__, str(_HERE)])
    monkeypatch.setitem(COMMANDS, "kernels", "List the kernels of an object.")
    monkeypatch.delitem(sys.modules, "coasm.cli.kernels", raising=False)


def test_a_row_and_a_module_are_a_command(
    capsys: pytest.CaptureFixture[str], made_up: None, tmp_path: Path
) -> None:
    def command(*argv: str) -> tuple[int, str, str]:
        return main(argv), *capsys.readouterr()

    status, out, _ = command("--help")
    assert status == 0 and "  kernels    List the kernels of an object.\n" in out
    status, out, _ = command("kernels", "--help")
    assert status == 0 and "Usage: coasm kernels [OPTIONS]" in out
    assert "  coasm kernels kernel.co\n" in out and "--json" in out
    source = str(ROOT / "examples" / "vector_add.s")
    assert command("kernels", source) == (0, "vector_add\n", "")
    assert command("kernels", source, "--json") == (0, '["vector_add"]\n', "")
    # Errors and near misses are everyone's.
    status, out, err = command("kernels", str(tmp_path / "no.co"))
    assert (status, out) == (2, "") and err.startswith("coasm: error: ") and err.count("\n") == 1
    assert "did you mean 'kernels'?" in command("kernel")[2]


def test_the_page_shows_that_command() -> None:
    page = ROOT / "docs" / "where-to-touch.md"
    (block,) = (block for block in blocks(page) if block.lines[0].startswith("def kernels"))
    assert "\n".join(block.lines) in (_HERE / "kernels.py").read_text()
