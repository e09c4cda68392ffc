"""A hazard is a rule in its group's file, and nothing else: docs/where-to-touch.md."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import coasm
from tests.docs import ROOT, blocks
from tests.linter.kernels import ended, listing

_HEAD = "RULES: tuple[Rule, ...] = (\n"
_STORE = "\tv_rcp_f32_e32 v0, v1\n\tglobal_store_dword v[2:3], v0, off"
_LDS = "\tv_rcp_f32_e32 v0, v1\n\tds_write_b32 v2, v0"


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with coasm, and in it the rule that the page shows."""
    page = ROOT / "docs" / "where-to-touch.md"
    (block,) = (block for block in blocks(page) if block.lines[0] == "Rule(")
    room = tmp_path_factory.mktemp("made_up")
    shutil.copytree(ROOT / "coasm", room / "coasm", ignore=shutil.ignore_patterns("__pycache__"))
    path = room / "coasm" / "linter" / "rules" / "wait_states.py"
    text = path.read_text("utf-8")
    assert text.count(_HEAD) == 1
    path.write_text(text.replace(_HEAD, _HEAD + "\n".join(block.lines) + "\n"), "utf-8")
    return room


def _run(room: Path, *command: str) -> tuple[int, str]:
    env = {**os.environ, "PYTHONPATH": str(room)}
    done = subprocess.run(
        [sys.executable, *command], cwd=room, env=env, capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def test_it_is_listed_explained_and_in_the_table(made_up: Path) -> None:
    page = made_up / "lint.md"
    page.write_bytes((ROOT / "docs" / "lint.md").read_bytes())
    title = "LDS takes a result of the transcendental unit at once"
    listed = _run(made_up, "-m", "coasm", "lint", "--list")[1].split("\n")
    assert ["trans-lds", title] in [line.split(None, 1) for line in listed]
    explained = _run(made_up, "-m", "coasm", "lint", "--explain", "trans-lds")[1]
    assert "trans-lds (wait states, error)" in explained
    rows = [" ".join(line.split()) for line in explained.split("\n")]
    assert "transcendental LDS: reads 2 3" in rows
    assert "transcendental VMEM, FLAT: reads 1 1 never" in rows
    assert "Why advice and no error: made_up (gfx942): " in explained
    assert _run(made_up, str(ROOT / "scripts" / "lint_page.py"), str(page)) == (0, "")
    assert f"| `trans-lds` | {title} (gfx942 to gfx950) |\n" in page.read_text("utf-8")


@pytest.mark.parametrize(("target", "needs"), [("gfx942", 2), ("gfx950", 3)])
def test_it_is_found_and_mended(made_up: Path, target: str, needs: int) -> None:
    source = made_up / f"{target}.s"
    source.write_text(listing(ended(_LDS), target))
    assert coasm.lint(str(source)) == []  # without the rule
    status, out = _run(made_up, "-m", "coasm", "lint", source.name)
    assert status == 1
    assert (
        "error[trans-lds]: LDS takes a result of the transcendental unit at once: v0; "
        f"producer v_rcp_f32_e32 at line 8, has 0 wait states, needs {needs}; "
        f"insert s_nop {needs - 1} before it"
    ) in out
    fix = ("-m", "coasm", "lint", "--fix", source.name, "-o", f"{target}.fixed.s")
    assert _run(made_up, *fix) == (0, "")
    mended = source.with_name(f"{target}.fixed.s").read_text()
    assert f"\ts_nop {needs - 1}\n\tds_write_b32 v2, v0\n" in mended


def test_what_a_witness_does_is_advice(made_up: Path) -> None:
    (made_up / "store.s").write_text(listing(ended(_STORE), "gfx942"))
    status, out = _run(made_up, "-m", "coasm", "lint", "store.s")
    assert status == 0 and "trans-lds" not in out
    status, out = _run(made_up, "-m", "coasm", "lint", "--advice", "store.s")
    assert status == 1 and "advice[trans-lds]: " in out and "needs 1; insert s_nop 0" in out
