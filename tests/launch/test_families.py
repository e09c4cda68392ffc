"""Families of kernels: a folder is all that one takes; which words mean one."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

import coasm
from coasm.__main__ import main
from coasm.errors import LaunchError
from coasm.launch import families
from coasm.launch.family import Option
from tests.docs import ROOT, blocks

#: A folder of families that coasm does not have.
_HERE = Path(__file__).parent / "families"


@pytest.fixture
def adding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with vector_add.s, to be in, where coasm has the family ``adding`` too."""
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(_HERE)])
    for name, face in families.find_families().items():
        monkeypatch.setitem(families.FAMILIES, name, face)
    assert list(families.FAMILIES) == ["f4gemm", "adding"]
    monkeypatch.delitem(sys.modules, "coasm.launch.families.adding")
    shutil.copy(ROOT / "examples" / "vector_add.s", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], line: str) -> tuple[int, str, str]:
    status = main(["run", *line.split()])
    return status, *capsys.readouterr()


def test_a_folder_is_a_command(capsys: pytest.CaptureFixture[str], adding: Path) -> None:
    status, out, _ = run(capsys, "--help")
    assert status == 0 and re.search(
        r"^ +adding +sum\[i\] = left\[i\] \+ right\[i\], f32\.$", out, re.M
    )
    status, out, _ = run(capsys, "adding --help")
    assert status == 0 and "Usage: coasm run adding [OPTIONS] [FILE]" in out
    assert "  coasm run adding vector_add.s -n 250\n" in out
    for option in ("-n ", "--co-dir DIR", "--sweep", "--list", "--backend", "--like", "--json"):
        assert f"\n  {option}" in out
    assert "--spec" not in out and "--splitk" not in out


def test_it_runs_and_is_judged(capsys: pytest.CaptureFixture[str], adding: Path) -> None:
    """By NumPy, whose f32 addition is IEEE 754's."""
    emulated = "--backend emulator"
    status, out, err = run(capsys, f"adding vector_add.s -n 250 {emulated}")
    assert (status, err) == (0, "") and "length    250\nresult    PASSED: every bit\n" in out
    assert "executed  15 of 15 instructions" in out
    assert coasm.run_family("adding", {"n": 3}, backend="emulator").passed
    # On the objects of its folder; --seed, --iters and --json are everyone's.
    status, out, _ = run(capsys, f"adding -n 7 --seed 3 --iters 2 --json {emulated}")
    assert status == 0 and json.loads(out)["passed"] is True
    status, out, _ = run(capsys, f"adding --sweep {emulated}")
    assert status == 0 and "3 of 3 checks passed" in out
    status, out, _ = run(capsys, "adding --list")
    assert (status, out) == (0, "vector_add.s\n")
    text = (adding / "vector_add.s").read_text()
    (adding / "vector_add.s").write_text(text.replace("v_add_f32", "v_sub_f32"))
    status, out, _ = run(capsys, f"adding -n 250 {emulated}")
    assert status == 1 and "result    FAILED" in out and "wrong     250 of 250 elements" in out
    status, out, _ = run(capsys, f"adding --sweep {emulated}")
    assert status == 1 and "0 of 3 checks passed" in out and "n=64: 64 elements wrong" in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("adding", "nothing to run: give -n, or --sweep, or --list"),
        (
            "adding -n 3 --sweep",
            "--sweep and -n do not go together: give -n, or --sweep, or --list",
        ),
        ("adding vector_add.s --sweep", "vector_add.s: an object by itself goes with -n"),
        ("adding -n 0", "Invalid value for '-n': 0 is not in the range x>=1"),
        ("adding -n 3 --splitk 1", "No such option: --splitk"),
        ("adding vector_add.s --spec x.yaml", "No such option: --spec"),
        ("adding -n 3 --backend hip --race", "emulator only"),
        # An object says whose it is where the command does not.
        ("vector_add.s -m 1 -n 16 -k 256", "vector_add.s: a kernel of adding: coasm run adding"),
        ("-m 1 -n 16 -k 256 adding", "adding: a family's name comes first: coasm run adding"),
        ("./adding -m 1 -n 16 -k 256", "./adding: No such file"),
    ],
)
def test_what_is_refused(
    capsys: pytest.CaptureFixture[str], adding: Path, line: str, message: str
) -> None:
    status, out, err = run(capsys, line)
    assert (status, out) == (2, "") and message in " ".join(err.split()), err


def test_a_file_that_is_called_as_a_family(
    capsys: pytest.CaptureFixture[str], adding: Path
) -> None:
    """The first word is the family, whatever there is; the file has a path. A folder is no file."""
    (adding / "f4gemm").mkdir()
    assert run(capsys, "f4gemm -m 1 -n 16 -k 100 --co-dir f4gemm")[2].count("\n") == 1
    text = (adding / "vector_add.s").read_text()
    (adding / "adding").write_text(text.replace("v_add_f32", "v_sub_f32"))
    status, out, err = run(capsys, "adding -n 3 --backend emulator")
    assert status == 0 and "vector_add.s" in out and "not the file (./adding)" in err
    status, out, _ = run(capsys, "adding ./adding -n 3 --backend emulator")
    assert status == 1 and "object    ./adding\n" in out
    shutil.copy(ROOT / "examples" / "vector_add.yaml", adding)
    status, out, _ = run(capsys, "./adding --spec vector_add.yaml --backend emulator")
    assert status == 1 and "object    ./adding\n" in out


def test_a_problem_in_python(adding: Path) -> None:
    for problem, message in (
        ({}, "adding: give -n"),
        ({"n": "3"}, "n is '3'; -n: How many numbers."),
        ({"n": 0}, "n is 0; -n"),
        ({"n": 3, "co_dir": 1}, "co_dir is 1; --co-dir"),
        ({"n": 3, "m": 1}, "adding has no option 'm': n, co_dir"),
    ):
        with pytest.raises(LaunchError, match=re.escape(message)):
            coasm.run_family("adding", problem)
    with pytest.raises(LaunchError, match="no family of kernels 'subtracting'; known are f4gemm"):
        coasm.run_family("subtracting", {})


def test_every_family_keeps_to_the_rules() -> None:
    """Its name is its folder's, and no option is another's, or everyone's."""
    from coasm.cli.run_options import Common

    assert families.UNNAMED in families.FAMILIES
    for name, face in families.FAMILIES.items():
        assert face.name == name and face.problem
        assert not any(option.kind is bool or option.default is not None for option in face.problem)
        names = [option.name for option in (*face.problem, *face.options)]
        taken = {*Common._fields, "file", "spec", "list", "sweep"}
        assert len(names) == len(set(names)) and not taken & set(names)
        assert f"coasm run {name} " in face.description
    assert Option("--co-dir", "").name == "co_dir"


def test_the_old_spelling_is_the_family_without_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Word for word: with a manifest, without, and where nothing is asked for."""
    (tmp_path / "f4gemm.csv").write_text(
        "tile_M,tile_N,splitK,bpreshuffle,knl_name,co_name\n32,128,0,1,k,k.co\n"
    )
    for line in (
        f"--co-dir {tmp_path} --list",
        f"--co-dir {tmp_path} --list --json",
        f"--co-dir {tmp_path} -m 1 -n 32 -k 256 --backend emulator",
        f"--co-dir {tmp_path} -m 1 -n 32",
        f"--co-dir {tmp_path} -m 1 -n 32 -k 256 --bpreshuffle 0 --backend emulator",
        f"--co-dir {tmp_path} --sweep --backend emulator",
        "k.co -m 1 -n 32 -k 256",
    ):
        old, new = run(capsys, line), run(capsys, f"f4gemm {line}")
        assert old == new and old[0] == (0 if "--list" in line else 2)


def test_the_page_shows_that_family() -> None:
    page = ROOT / "docs" / "where-to-touch.md"
    (block,) = (block for block in blocks(page) if block.lines[0].startswith("FAMILY"))
    assert "\n".join(block.lines) in (_HERE / "adding" / "__init__.py").read_text()
