"""``coasm verify`` as it is typed: exit status, both reports, and what reaches a terminal."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from coasm.__main__ import main
from coasm.codeobject import CodeObject, load
from coasm.llvm.find import Llvm
from tests.compare.objects import build, flipped, offset_of, source

BODY = "s_mov_b32 s4, 0\nv_add_f32 v2, v2, v3\ns_nop 0\ns_endpgm"


@pytest.fixture
def files(llvm: Llvm, tmp_path: Path) -> dict[str, str]:
    co = build(llvm, source({"one": BODY}))
    at = offset_of(co, co.kernels[0].descriptor_address)
    made: dict[str, CodeObject | bytes] = {
        "same": co,
        "labels": build(llvm, source({"one": BODY.replace("s_nop", "label: s_nop")})),
        "text": build(llvm, source({"one": BODY.replace("v_add", "v_sub")})),
        "many": build(llvm, source({"one": BODY.replace("s_nop 0", "s_nop 1\n" * 100)})),
        "descriptor": flipped(co, at, 0),
        "nothing": b"",
    }
    paths = {}
    for name, what in made.items():
        path = tmp_path / f"{name}.co"
        path.write_bytes(what if isinstance(what, bytes) else what.data)
        paths[name] = str(path)
    return paths


def test_exit_status(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", files["same"], files["same"]]) == 0
    assert "The two are identical." in capsys.readouterr().out
    assert main(["verify", files["same"], files["labels"]]) == 0
    assert "The two are equivalent." in capsys.readouterr().out
    for name in ("text", "descriptor"):
        assert main(["verify", files["same"], files[name]]) == 1
        assert "The two are different." in capsys.readouterr().out
    for other in (files["nothing"], str(Path(files["same"]).parent), files["same"] + ".none"):
        assert main(["verify", files["same"], other]) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and len(captured.err.splitlines()) == 1


def test_the_report_shows_both_sides(
    files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["verify", files["same"], files["text"]])
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if line.startswith("~")]
    assert re.fullmatch(
        r"~ +0x[0-9a-f]+  v_add_f32_e32 v2, v2, v3 +~ +0x[0-9a-f]+  v_sub_f32_e32 v2, v2, v3", line
    )
    assert re.search(r"^text +different +1 changed$", out, re.M)
    main(["verify", files["same"], files["descriptor"]])
    assert "one.kd: group_segment_fixed_size: 0 -> 1" in capsys.readouterr().out


def test_long_reports_are_cut(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["verify", files["same"], files["many"]])
    short = capsys.readouterr().out
    assert "(--all shows them)" in short and len(short.splitlines()) < 80
    main(["verify", "--all", files["same"], files["many"]])
    long = capsys.readouterr().out
    assert "--all" not in long and len(re.findall(r"s_nop 1", long)) >= 100


def test_json(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", files["same"], files["text"], "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["equivalent"] is False and found["loaded_identical"] is False
    assert {name: check["verdict"] for name, check in found["checks"].items()} == {
        "header": "identical",
        "descriptors": "identical",
        "text": "different",
        "metadata": "identical",
    }
    (row,) = found["checks"]["text"]["instructions"]
    assert row["kind"] == "changed" and row["section"] == ".text"
    assert row["rebuilt"]["text"] == "v_sub_f32_e32 v2, v2, v3"
    assert main(["verify", files["same"], files["same"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file_identical"] is True


def test_a_named_llvm_must_be_there(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["verify", files["same"], files["text"], "--llvm", str(tmp_path / "none")]) == 2
    assert "no such directory" in capsys.readouterr().err


def test_colour_only_on_a_terminal(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    main(["verify", files["same"], files["text"]])
    plain = capsys.readouterr().out
    assert "\x1b" not in plain
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    main(["verify", files["same"], files["text"]])
    assert "\x1b[" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    main(["verify", files["same"], files["text"]])
    assert not re.search(r"\x1b\[[0-9;]*3\dm", capsys.readouterr().out)


def test_names_of_the_file_reach_no_terminal(
    fixture_objects: list[tuple[str, Path]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = dict(fixture_objects)["hostile_names-gfx942-v5"]
    co = load(path)
    kernel = co.kernels[0]
    for name, other in {
        "text": flipped(co, offset_of(co, kernel.entry), 0),
        "metadata": flipped(co, co.data.index(co.metadata_note or b"") + 40, 0),
    }.items():
        changed = tmp_path / f"{name}.co"
        changed.write_bytes(other.data)
        assert main(["verify", "--all", str(path), str(changed)]) in (1, 2)
        captured = capsys.readouterr()
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", captured.out + captured.err)
