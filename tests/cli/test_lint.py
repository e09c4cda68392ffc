"""``coasm lint`` and ``coasm asm --lint``: what they print and return."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

import coasm
from coasm.__main__ import main
from tests.bundle.carriers import HOST, bundle, entry_id
from tests.linter.kernels import listing as wave_listing
from tests.linter.sources import CLEAN, TOO_CLOSE, listing

pytestmark = pytest.mark.usefixtures("llvm")

_Capture = pytest.CaptureFixture[str]


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``broken.s`` in the current directory: one instruction too close behind another."""
    monkeypatch.chdir(tmp_path)
    Path("broken.s").write_text(listing(TOO_CLOSE))
    Path("clean.s").write_text(listing(CLEAN))
    Path("broken.co").write_bytes(coasm.assemble(listing(TOO_CLOSE)).data)
    Path("other.s").write_text(listing("\ts_endpgm", "gfx803"))
    return Path("broken.s")


def test_a_finding_is_one_line(broken: Path, capsys: _Capture) -> None:
    line = broken.read_text().split("\n").index("\tv_mul_f32 v2, v1, v1") + 1
    assert main(["lint", "broken.s"]) == 1
    captured = capsys.readouterr()
    assert re.fullmatch(
        rf"broken\.s:{line}:16: error\[trans\]: .*v1; producer v_rcp_f32_e32 at line {line - 1}, "
        r"has 0 wait states, needs 1; insert s_nop 0 before it\n"
        r" +v_mul_f32 v2, v1, v1\n +\^~\n",
        captured.out,
    )
    assert captured.err == "broken.s: gfx942, 3 instructions: 1 error\n"


def test_of_an_object_the_address_is_the_line(broken: Path, capsys: _Capture) -> None:
    address = coasm.load("broken.co").kernels[0].entry + 4
    assert main(["lint", "broken.co"]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"broken.co:{address:#x}: error[trans]: v_mul_f32_e32 v2, v1, v1: ")
    assert f"v_rcp_f32_e32 v1, v0 at {address - 4:#x}" in out and out.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["clean.s"], 0),
        (["broken.s"], 1),
        (["clean.s", "broken.s", "clean.s"], 1),
        (["other.s"], 2),
        (["broken.s", "other.s"], 2),
        (["missing.s"], 2),
        (["broken.s", "missing.s"], 2),
        (["--list"], 0),
        (["--explain", "trans"], 0),
        (["--explain", "tranz"], 2),
        ([], 2),
        (["--json", "--sarif", "clean.s"], 2),
        (["--kernel", "kk", "clean.s"], 2),
        (["--kernel", "k", "clean.s"], 0),
    ],
)
def test_exit_status(broken: Path, arguments: list[str], status: int) -> None:
    assert main(["lint", *arguments]) == status


def test_advice_counts_only_when_asked_for(broken: Path, capsys: _Capture) -> None:
    dot = (
        "\tv_dot4_i32_i8 v1, v0, v0, v0\n\tv_mfma_f32_4x4x1_16b_f32 v[8:11], v1, v0, 0\n\ts_endpgm"
    )
    Path("dot.s").write_text(listing(dot))
    assert main(["lint", "dot.s"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "" and "clean" in captured.err and "--advice" in captured.err
    assert main(["lint", "--advice", "dot.s"]) == 1
    assert "advice[mfma-dot-write]" in capsys.readouterr().out


def test_what_cannot_be_judged_may_be_allowed(tmp_path: Path, capsys: _Capture) -> None:
    """GFX8 has no rules for waits: that is a note, and the other rules decide."""
    source = tmp_path / "old.s"
    source.write_text(listing("\ts_endpgm", "gfx803"))
    assert main(["lint", str(source)]) == 2
    assert "coasm: error: " in capsys.readouterr().err
    assert main(["lint", "--allow-unjudged", str(source)]) == 0
    said = capsys.readouterr().err
    assert "coasm: note: " in said and "gfx803" in said
    source.write_text(listing("\tv_mov_b32 v200, 0\n\ts_endpgm", "gfx803"))
    assert main(["lint", "--allow-unjudged", str(source)]) == 1
    source.write_text(listing("\tv_nope v0\n\ts_endpgm", "gfx803"))
    assert main(["lint", "--allow-unjudged", str(source)]) == 2


def test_what_waves_of_64_have_on_gfx11_is_not_judged(tmp_path: Path, capsys: _Capture) -> None:
    """GCNHazardRecognizer, fixVALUMaskWriteHazard and fixVALUPartialForwardingHazard."""
    text = wave_listing("s_endpgm", "gfx1100", {".wavefront_size": 64}, wavefront_size32=0)
    source = tmp_path / "wave64.s"
    source.write_text(text)
    assert main(["lint", str(source)]) == 2
    assert "no rules for what waves of 64 have to keep apart on gfx1100" in capsys.readouterr().err


def test_what_cannot_be_judged_is_said(broken: Path, capsys: _Capture) -> None:
    assert main(["lint", "other.s"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("coasm: error: other.s: no rules for wait states and waits")
    assert "gfx803" in captured.err and "everything else was checked" in captured.err
    Path("over.s").write_text(listing("\tv_mov_b32 v200, 0\n\ts_endpgm", "gfx803"))
    assert main(["lint", "over.s"]) == 2
    assert "error[vgpr-range]" in capsys.readouterr().out
    Path("bad.s").write_text(listing("\tv_nope v0\n\ts_endpgm"))
    assert main(["lint", "bad.s", "broken.s"]) == 2
    captured = capsys.readouterr()
    assert re.search(r"bad\.s:\d+:2: error: invalid instruction", captured.err)
    assert "broken.s:" in captured.out  # the others are judged all the same
    assert main(["lint", "missing.s"]) == 2
    assert capsys.readouterr().err == "coasm: error: missing.s: No such file or directory\n"


def test_mistakes_are_answered_with_what_was_meant(broken: Path, capsys: _Capture) -> None:
    assert main(["lint", "--explain", "mfma-surce"]) == 2
    assert "no rule 'mfma-surce'; did you mean 'mfma-source'?" in capsys.readouterr().err
    assert main(["lint", "--advise", "clean.s"]) == 2
    assert "--advice" in capsys.readouterr().err
    Path("two.s").write_text(listing({"alpha": CLEAN, "beta": CLEAN}))
    assert main(["lint", "--kernel", "alhpa", "two.s"]) == 2
    assert "did you mean 'alpha'?" in capsys.readouterr().err


def test_json_and_sarif(broken: Path, capsys: _Capture) -> None:
    assert main(["lint", "--json", "broken.s", "clean.s", "missing.s"]) == 2
    first, second, third = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["status"], second["status"], third["status"]) == ("findings", "clean", "unjudged")
    assert [found["rule"] for found in first["findings"]] == ["trans"]
    assert "missing.s" in third["unjudged"] and third["target"] is None
    assert main(["lint", "--sarif", "broken.s", "clean.s"]) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["trans"]


def test_a_listing_from_standard_input(
    broken: Path, capsys: _Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = io.TextIOWrapper(io.BytesIO(broken.read_bytes()))
    monkeypatch.setattr("sys.stdin", data)
    assert main(["lint", "-"]) == 1
    assert re.match(r"<stdin>:\d+:16: error\[trans\]", capsys.readouterr().out)


def test_an_object_inside_of_a_bundle(broken: Path, capsys: _Capture) -> None:
    data = Path("broken.co").read_bytes()
    Path("lib.hipfb").write_bytes(bundle([HOST, (entry_id("gfx942"), data)]))
    assert main(["lint", "lib.hipfb:gfx942"]) == 1
    assert capsys.readouterr().out.startswith("lib.hipfb:gfx942:0x")
    assert main(["lint", "lib.hipfb"]) == 1  # each object in it
    assert capsys.readouterr().out.startswith("lib.hipfb:gfx942#1:0x")


def test_a_folder_stands_for_its_objects_and_listings(broken: Path, capsys: _Capture) -> None:
    Path("folder").mkdir()
    for name in ("broken.co", "broken.s", "clean.s"):
        Path(name).rename(f"folder/{name}")
    Path("folder/of_another_machine.s").write_text("\tmovl $1, %eax\n\tret\n")
    assert main(["lint", "folder"]) == 1
    captured = capsys.readouterr()
    assert re.findall(r"^folder/\S+?:", captured.out, re.M) == [
        "folder/broken.co:",
        "folder/broken.s:",
    ]
    assert captured.err.startswith("3 files: 1 clean, 2 with findings, 2 errors")


def test_names_out_of_a_file_are_quoted(broken: Path, capsys: _Capture) -> None:
    comment = "v1, v1 // coasm: allow trans\x1b[31m, tr\x1b[31mans"
    hostile = broken.read_text().replace("v1, v1", comment.replace("allow trans", "allow tranz"))
    Path("hostile\x1b[31m.s").write_text(hostile)
    assert main(["lint", "hostile\x1b[31m.s"]) == 1
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err and "hostile\\x1b[31m.s:" in captured.out


def test_asm_warns_and_keeps_its_exit_status(broken: Path, capsys: _Capture) -> None:
    assert main(["asm", "broken.s", "--lint"]) == 0
    captured = capsys.readouterr()
    assert re.match(r"broken\.s:\d+:16: warning\[trans\]: ", captured.err)
    assert Path("broken.rebuilt.co").read_bytes() == Path("broken.co").read_bytes()
    assert main(["asm", "broken.s", "--lint", "--json"]) == 0
    assert [found["rule"] for found in json.loads(capsys.readouterr().out)["lint"]] == ["trans"]
    assert main(["asm", "broken.s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lint"] is None
    assert main(["asm", "other.s", "--lint"]) == 0
    assert "warning: no rules for wait" in capsys.readouterr().err
