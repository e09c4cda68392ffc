"""What an edit adds to the findings of its original, and what was not judged.

That an instruction must wait is LLVM's word: what is deleted here is a wait that AMD's own compiler
or LLVM's si-insert-waitcnts and post-RA-hazard-rec put there.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import coasm
from coasm.__main__ import main
from coasm.linter.findings import ADVICE, ERROR
from tests.linter.sources import CLEAN, TOO_CLOSE, listing

pytestmark = pytest.mark.usefixtures("llvm")

#: Advice by itself: LLVM and the ISA guide disagree on how far a carry-in mask must be.
_ADVICE = "\tv_cmp_lt_u32 vcc, v0, 9\n\tv_cndmask_b32 v2, v0, v0, vcc\n"
_LOAD = "\ts_load_dword s4, s[0:1], 0x0\n\ts_waitcnt lgkmcnt(0)\n\ts_add_u32 s5, s4, s4\n"


def _new(new: str, old: str) -> list[tuple[str, str]]:
    found = coasm.lint(listing(new), since=listing(old))
    return [(finding.rule, finding.level) for finding in found]


def test_what_the_original_has_is_not_new() -> None:
    advised = _ADVICE + "\ts_endpgm"
    assert {f.level for f in coasm.lint(listing(advised), advice=True)} == {ADVICE}
    assert _new(advised, advised) == []
    assert _new(TOO_CLOSE, TOO_CLOSE) == []
    assert _new(TOO_CLOSE, CLEAN) == [("trans", ERROR)]
    # Addresses move.
    assert _new("\ts_mov_b32 s9, 0\n" * 9 + TOO_CLOSE, TOO_CLOSE) == []


def test_the_same_again_is_new() -> None:
    ends = "\ts_endpgm"
    for again in (_ADVICE + _ADVICE, _ADVICE + "\ts_mov_b32 s9, 0\n" + _ADVICE):
        assert _new(again + ends, _ADVICE + ends) == [("valu-sgpr-mask", ADVICE)]
    assert _new(_ADVICE + ends, _ADVICE + _ADVICE + ends) == []


def test_a_wait_that_is_deleted_shows() -> None:
    before = _ADVICE + _LOAD + "\ts_endpgm"
    after = before.replace("\ts_waitcnt lgkmcnt(0)\n", "")
    assert _new(after, before) == [("smem-wait", ERROR)]


def test_advice_that_becomes_an_error_is_new() -> None:
    """v_mfma results read by a VALU: witnessed from 2 states on, an error with fewer."""
    text = (
        "\tv_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0\n{}\tv_add_f32 v8, v0, v0\n\ts_endpgm"
    )
    old, new = text.format("\ts_nop 2\n"), text.format("\ts_nop 0\n")
    assert [f.level for f in coasm.lint(listing(old), advice=True)] == [ADVICE]
    assert _new(new, old) == [("mfma-read", ERROR)]
    assert _new(text.format("\ts_nop 1\n"), old) == [("mfma-read", ADVICE)]


def test_a_finding_of_another_kernel_hides_nothing() -> None:
    old = listing({"a": TOO_CLOSE, "b": CLEAN})
    new = listing({"a": CLEAN, "b": TOO_CLOSE})
    assert [f.kernel for f in coasm.lint(new, since=old)] == ["b"]


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``k.co``, its listing ``k.s``, and that with a wait deleted, ``e.s``."""
    monkeypatch.chdir(tmp_path)
    Path("k.co").write_bytes(coasm.assemble(listing(_ADVICE + _LOAD + "\ts_endpgm")).data)
    assert main(["disasm", "k.co"]) == 0
    text = Path("k.s").read_text()
    assert text.count("s_waitcnt") == 1
    Path("e.s").write_text(text.replace("\ts_waitcnt lgkmcnt(0)", "\ts_nop 0"))
    return Path("e.s")


def test_the_head_names_what_to_compare_with(
    edited: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["lint", "k.s"]) == 0
    assert "nothing new, 1 advisory of k.co not shown" in capsys.readouterr().err
    assert main(["lint", "e.s", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["known"] == {"original": "k.co", "errors": 0, "advice": 1}
    assert [f["rule"] for f in report["findings"]] == ["smem-wait"]
    assert main(["lint", "e.s", "--advice"]) == 1
    assert "1 error, 1 advisory" in capsys.readouterr().err
    coasm_built = coasm.assemble(edited.read_text()).data
    Path("e.co").write_bytes(coasm_built)
    assert main(["lint", "e.co", "--since", "k.s"]) == 1
    assert main(["lint", "e.co", "--since", "e.s"]) == 0


def test_the_line_is_shown_with_a_caret(edited: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["lint", "e.s"]) == 1
    first, source, caret = capsys.readouterr().out.splitlines()
    number, line = next(
        (n, line)
        for n, line in enumerate(edited.read_text().split("\n"), 1)
        if "s_add_u32 s5, s4" in line
    )
    column = line.index("s4,") + 1
    assert first.startswith(f"e.s:{number}:{column}: error[smem-wait]: ")
    assert source.strip() == line.strip()
    assert caret.index("^") == source.index("s4,") and caret.strip() == "^~"


_BAD = "\t.long 0xffffffff\n"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("\ts_nop 0\n" + _BAD + "\ts_endpgm", 2),
        (_BAD + "\ts_endpgm", 2),
        ("\ts_branch there\n\ts_endpgm\nthere:\n" + _BAD + "\ts_endpgm", 2),
        ("\ts_setpc_b64 s[0:1]\n" + _BAD + "\ts_endpgm", 2),
        ("\ts_nop 0\n\ts_endpgm\n" + _BAD, 0),
    ],
)
def test_what_cannot_be_decoded_is_not_judged(
    body: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.co"
    path.write_bytes(coasm.assemble(listing(body)).data)
    assert main(["lint", str(path)]) == status
    said = capsys.readouterr()
    assert ("cannot decode" in said.err) == (status == 2)
    assert "symbol" not in said.out and ("clean" in said.err) == (status == 0)


def test_code_behind_a_jump_of_gfx1250_is_not_fallen_into() -> None:
    body = "\ts_set_pc_i64 s[0:1]\n"
    assert coasm.lint(listing(body, "gfx1250", version=6)) == []
    assert [f.rule for f in coasm.lint(listing("\ts_nop 0\n", "gfx1250", version=6))] != []


def test_the_same_scalar_load_twice_gives_the_same() -> None:
    """In any order; where its address changes in between the later one has to win."""
    load = "\ts_load_dword s20, s[0:1], 0x0\n"
    ends = "\ts_waitcnt lgkmcnt(0)\n\ts_endpgm"
    found = coasm.lint(listing(load + load + ends))
    assert [f.rule for f in found if f.rule != "kernarg-range"] == []
    for between in ("\ts_add_u32 s0, s0, 64\n" + load, load.replace("0x0", "0x4")):
        found = coasm.lint(listing(load + between + ends))
        assert [f.rule for f in found if f.rule != "kernarg-range"] == ["smem-wait"]


def test_processes_find_what_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels in shares: v_rcp_f32 needs a wait state in each of them (see TOO_CLOSE)."""
    monkeypatch.setattr("coasm.linter.program._PART", 1)
    monkeypatch.setattr("coasm.linter.lint._LARGE", 1)
    monkeypatch.setattr("coasm.trips.cores", lambda: 2)
    found = coasm.lint(listing({name: TOO_CLOSE for name in "abc"} | {"d": CLEAN}))
    assert [(f.kernel, f.rule) for f in found] == [("a", "trans"), ("b", "trans"), ("c", "trans")]


def test_a_folder_of_originals(
    edited: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files lie where they lay in the original's folder; one that is new is judged by itself."""
    for path in ("old/a", "new/a"):
        (tmp_path / path).mkdir(parents=True)
    before = listing(_ADVICE + _LOAD + "\ts_endpgm")
    after = before.replace("\ts_waitcnt lgkmcnt(0)\n", "")
    assert after != before
    Path("old/a/k.s").write_text(before)
    Path("old/b.s").write_text(listing(TOO_CLOSE))
    Path("new/a/k.s").write_text(after)
    Path("new/b.s").write_text(listing(TOO_CLOSE))
    Path("new/c.s").write_text(before)
    Path("new/of_another_machine.s").write_text("\tmovl $1, %eax\n\tret\n")
    capsys.readouterr()
    assert main(["lint", "new", "--since", "old", "--json"]) == 1
    found = {}
    for line in capsys.readouterr().out.splitlines():
        report = json.loads(line)
        found[report["path"]] = report
    assert {name: [f["rule"] for f in one["findings"]] for name, one in found.items()} == {
        "new/a/k.s": ["smem-wait"],
        "new/b.s": [],
        "new/c.s": [],
    }
    assert found["new/b.s"]["known"] == {"original": "old/b.s", "errors": 1, "advice": 0}
    assert found["new/c.s"]["known"] is None
    (note,) = found["new/c.s"]["notes"]
    assert note["text"] == "old/c.s is not there: judged without an original"
    Path("base").mkdir()
    Path("old").rename("base/new")
    assert main(["lint", "new/b.s", "new/c.s", "--since", "base"]) == 0
    assert main(["lint", "new/b.s", "--since", "base/new"]) == 1  # base/new/new/b.s is not there


def test_the_original_of_a_source_takes_its_options(tmp_path: Path) -> None:
    """A target that only the command line says is that of both."""
    body = "\t.text\nk:\n\tv_rcp_f32 v1, v0\n\tv_mul_f32 v2, v1, v1\n\ts_endpgm\n"
    for name in ("old.s", "new.s"):
        (tmp_path / name).write_text(body)
    old, new = str(tmp_path / "old.s"), str(tmp_path / "new.s")
    assert main(["lint", new, "--target", "gfx942"]) == 1
    assert main(["lint", new, "--target", "gfx942", "--since", old]) == 0


def test_one_original_is_not_that_of_several_files(
    edited: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["lint", "k.s", "e.s", "--since", "k.co"]) == 2
    assert "one file with its original, or folders" in capsys.readouterr().err
