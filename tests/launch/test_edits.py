"""Whether a run executed what an edit changed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import coasm
from coasm.__main__ import main
from coasm.launch.edits import Edit, edits, reached
from coasm.llvm import Llvm
from tests.emulator.harness import assemble

pytestmark = pytest.mark.usefixtures("llvm")

EXAMPLES = Path(__file__).parents[2] / "examples"
# What the example's kernel adds with.
ADDED = "v_add_f32"


def code(llvm: Llvm, *lines: str) -> coasm.CodeObject:
    return assemble(llvm, "\n".join(lines))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("s_nop 0", "s_nop 1", ("changed", 4, "s_nop 1")),
        ("", "s_mov_b32 s3, 0", ("inserted", 4, "s_mov_b32 s3, 0")),
        ("s_mov_b32 s3, 0", "", ("removed", 4, "s_mov_b32 s3, 0")),
        ("s_branch there", "s_branch further", ("branch", 4, None)),
    ],
)
def test_each_kind_of_edit(
    llvm: Llvm, before: str, after: str, expected: tuple[str, int, str | None]
) -> None:
    ends = ("there: v_mov_b32 v1, 0", "further: s_endpgm")
    original = code(llvm, "s_mov_b32 s2, 0", before, *ends)
    edited = code(llvm, "s_mov_b32 s2, 0", after, *ends)
    (found,) = edits(original, edited, llvm)
    kind, offset, text = expected
    assert (found.kind, found.address - edited.kernels[0].entry) == (kind, offset)
    assert text is None or found.text == text
    assert edits(original, original, llvm) == ()


def test_edits_of_one_place_are_in_the_order_of_the_code(llvm: Llvm) -> None:
    """In each run: a set of texts has another order in each."""
    lines = [f"s_mov_b32 s{number}, {number}" for number in range(3, 19)]
    ends = ("s_mov_b32 s2, 0", "s_endpgm")
    found = edits(code(llvm, ends[0], *lines, ends[1]), code(llvm, *ends), llvm)
    assert [one.text for one in found] == lines and len({one.address for one in found}) == 1


def test_only_what_was_executed_is_reached() -> None:
    from coasm.emulator import Coverage

    ran, slept, dead = (Edit("changed", at, "s_nop 0") for at in (0, 4, 8))
    found = reached((ran, slept, dead), Coverage(executed=frozenset({0}), asleep=frozenset({4})))
    assert found.missed == (slept, dead) and found.asleep == (slept,) and not found.whole
    assert reached((ran,), Coverage(executed=frozenset({0}))).whole


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The vector addition of the examples as ``kernel.co`` with its listing, and a launch file."""
    text = (EXAMPLES / "vector_add.s").read_text()
    (tmp_path / "kernel.co").write_bytes(coasm.assemble(text).data)
    spec = (EXAMPLES / "vector_add.yaml").read_text().replace("vector_add.s", "kernel.co")
    (tmp_path / "launch.yaml").write_text(spec)
    assert main(["disasm", str(tmp_path / "kernel.co")]) == 0
    return tmp_path


def edit(folder: Path, old: str, new: str) -> None:
    """Change the first place of *old* in the listing, and build it."""
    listing = folder / "kernel.s"
    text = listing.read_text()
    assert old in text
    listing.write_text(text.replace(old, new, 1))
    assert main(["asm", str(listing)]) == 0


def run(folder: Path, capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    argv = ("--backend", "emulator", "--spec", str(folder / "launch.yaml"), *argv)
    capsys.readouterr()
    status = main(["run", str(folder / "kernel.rebuilt.co"), *argv])
    return status, capsys.readouterr().out


def test_an_edit_that_is_executed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(folder, "\ts_endpgm", "\ts_nop 0\n\ts_endpgm")
    status, out = run(folder, capsys)
    assert status == 0 and "PASSED" in out
    assert "edit      1 of 1 changed instructions executed" in out


def test_a_right_result_without_the_edit_has_not_passed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Behind the end of the kernel: no way leads there.
    edit(folder, "\ts_endpgm", "\ts_endpgm\n\tv_mov_b32_e32 v7, 7\n\ts_endpgm")
    status, out = run(folder, capsys)
    assert status == 2 and "NOT JUDGED" in out and "PASSED" not in out
    assert "v_mov_b32_e32 v7, 7" in out
    status, out = run(folder, capsys, "--json")
    report = json.loads(out)
    assert status == 2 and report["passed"] is None
    assert report["edit"]["missed"][0]["text"] == "v_mov_b32_e32 v7, 7"
    assert report["executed"]["executed"] < report["executed"]["instructions"]


def test_the_original_by_like(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(folder, "\ts_endpgm", "\ts_endpgm\n\tv_mov_b32_e32 v7, 7\n\ts_endpgm")
    os.remove(folder / "kernel.s")  # nothing names the original
    status, out = run(folder, capsys)
    assert status == 0 and "edit " not in out and "executed  " in out
    assert run(folder, capsys, "--like", str(folder / "kernel.co"))[0] == 2
    originals = folder / "originals"
    originals.mkdir()
    shutil.copy(folder / "kernel.co", originals / "kernel.rebuilt.co")
    assert run(folder, capsys, "--like", str(originals))[0] == 2
    assert run(folder, capsys, "--like", str(folder / "none.co"))[0] == 2


def test_a_wrong_result_is_wrong_whatever_was_executed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(folder, ADDED, "v_sub_f32")
    edit(folder, "\ts_endpgm", "\ts_endpgm\n\tv_mov_b32_e32 v7, 7\n\ts_endpgm")
    status, out = run(folder, capsys)
    assert status == 1 and "FAILED" in out and "NOT JUDGED" not in out
