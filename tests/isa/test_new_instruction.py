"""An instruction that is made up is known by its row alone (docs/where-to-touch.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coasm.errors import UnsupportedError
from coasm.isa import EXEC, SCC, VGPR, access, parse, table
from coasm.isa.rows import vector
from coasm.linter.operation import kind, operation
from coasm.target import processor

_ROW = "950: d:f32 s:f32 s:f64 > scc = v_made_{up,down}_f32"
_PAGE = Path(__file__).parents[2] / "docs/where-to-touch.md"


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(vector, "ROWS", f"{vector.ROWS}[valu]\n{_ROW}\n")
    _forget()
    yield
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    table.opcode.cache_clear()
    table._rows.cache_clear()
    operation.cache_clear()


def test_the_page_shows_the_row() -> None:
    assert _ROW in _PAGE.read_text("utf-8")


def test_what_it_reads_and_writes() -> None:
    used = access(parse("v_made_up_f32_e64 v1, v2, s[4:5]"), "950")
    assert used.reads == {VGPR + 2, 4, 5, EXEC, EXEC + 1}
    assert used.writes == {VGPR + 1, SCC}


def test_lint_takes_it_for_what_its_unit_is() -> None:
    made = operation("v_made_down_f32_e64 v1, v2, s[4:5]", processor("gfx950").family)
    assert made.kinds == kind("valu valu_but_nop")
    assert made.role("constant") == 0b11 << 4


def test_a_target_that_lacks_it_says_so() -> None:
    with pytest.raises(UnsupportedError, match="v_made_up_f32 is not described for gfx942"):
        access(parse("v_made_up_f32 v1, v2, s[4:5]"), "942")
