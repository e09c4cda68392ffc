"""Faults of the emulator name the lines of the source that was run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coasm.__main__ import main

pytestmark = pytest.mark.usefixtures("llvm")

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_both_lines_of_a_missing_wait(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (EXAMPLES / "vector_add.s").read_text().split("\n")
    lines.remove("\ts_waitcnt\tvmcnt(0)")
    (tmp_path / "vector_add.s").write_text("\n".join(lines))
    spec = tmp_path / "launch.yaml"
    spec.write_text((EXAMPLES / "vector_add.yaml").read_text())
    assert main(["run", "--backend", "emulator", "--spec", str(spec)]) == 2
    error = capsys.readouterr().err
    used, load = (
        next(n for n, line in enumerate(lines, 1) if line.startswith(f"\t{start}"))
        for start in ("v_add_f32", "global_load_dword\tv2")
    )
    assert re.search(rf"vector_add\.s:{used} `v_add_f32", error)
    assert re.search(rf"`global_load_dword v2.*` at 0x\w+, .*vector_add\.s:{load};", error)
