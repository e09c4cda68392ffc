"""Which kernel a name means, and what the commands show of one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import coasm
from coasm.__main__ import main
from coasm.errors import UnsupportedError
from coasm.kernels import find_kernel
from coasm.llvm.find import Llvm
from tests.compare.objects import build, source

_Capture = pytest.CaptureFixture[str]

#: Mangled by the Itanium C++ ABI → what a C++ compiler calls it.
_NAMES = {
    "_Z5scaleIfEvPT_i": "void scale<float>(float*, int)",
    "_Z5scaleIdEvPT_i": "void scale<double>(double*, int)",
    "_Z9normalizePf": "normalize(float*)",
    "plain": "plain",
}


@pytest.fixture
def kernels(llvm: Llvm, tmp_path: Path) -> Path:
    bodies = {
        name: f"\tv_mov_b32 v{number}, {number}\n\ts_endpgm" for number, name in enumerate(_NAMES)
    }
    path = tmp_path / "k.co"
    path.write_bytes(build(llvm, source(bodies)).data)
    return path


def test_names(kernels: Path) -> None:
    co = coasm.load(kernels)
    for mangled, demangled in _NAMES.items():
        for name in (mangled, f"{mangled}.kd", demangled):
            assert find_kernel(co, name).name == mangled
    for name, mangled in (
        ("scale<float>", "_Z5scaleIfEvPT_i"),
        ("scale<d", "_Z5scaleIdEvPT_i"),
        ("normalize", "_Z9normalizePf"),
        ("5scaleIf", "_Z5scaleIfEvPT_i"),
        ("lain", "plain"),
    ):
        assert find_kernel(co, name).name == mangled
    for name, said in (
        ("scale", "'scale' is in the names of 2 kernels; give more of one: scale<float>, scale<d"),
        ("", "no kernel ''"),
        ("normalise", "no kernel 'normalise'; did you mean 'normalize'"),
        ("plian", "no kernel 'plian'; did you mean 'plain'"),
        ("zzz", "no kernel 'zzz'; there are _Z5scale"),
    ):
        with pytest.raises(UnsupportedError, match=re.escape(said)):
            find_kernel(co, name)


def test_info_and_disasm_show_one(kernels: Path, tmp_path: Path, capsys: _Capture) -> None:
    assert main(["info", str(kernels), "--kernel", "scale<double>", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["kernels"]
    assert [kernel["name"] for kernel in shown] == ["_Z5scaleIdEvPT_i"]
    assert main(["info", str(kernels), "--kernel", "scale<double>"]) == 0
    assert re.search(r"kernels +1 of 4", capsys.readouterr().out)
    part = tmp_path / "part.s"
    for arguments in ([], ["-o", str(part)]):
        assert main(["disasm", str(kernels), "--kernel", "normalize", *arguments]) == 0
    said = capsys.readouterr().out
    text = part.read_text()
    assert said.startswith(text)
    assert re.findall(r"v_mov_b32\S* v\d+", text) == ["v_mov_b32_e32 v2"]
    for directive in (".amdhsa_kernel _Z9normalizePf", ".symbol:         _Z9normalizePf.kd"):
        assert text.count(directive) == 1
    assert "scale" not in text and "plain" not in text
    # It does not pass for a listing.
    assert main(["asm", str(part)]) == 2
    assert "part.s:5:2: error: this shows one kernel of an object" in capsys.readouterr().err
    assert main(["disasm", str(kernels), "--kernel", "normalize", "-o", str(part)]) == 2
    assert "--force" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ("v_mov_b32_e32 v1, 1\n", "v_mov_b32_e32 v1, 3\n", "text"),
        ("v_mov_b32_e32 v1, 1\n", "v_mov_b32_e32 v1, 1\n\ts_nop 0\n", "text"),
        (".amdhsa_accum_offset 16\n", ".amdhsa_accum_offset 12\n", "descriptors"),
        (".max_flat_workgroup_size: 256\n", ".max_flat_workgroup_size: 512\n", "metadata"),
    ],
)
def test_verify_judges_one(
    old: str, new: str, check: str, kernels: Path, tmp_path: Path, capsys: _Capture
) -> None:
    """An edit of one kernel makes that one different, and no other."""
    text = coasm.disassemble(kernels).text
    at = text.index(old)
    if check != "text":  # the second kernel's
        at = text.index(old, at + 1)
    edited = tmp_path / "new.s"
    edited.write_text(text[:at] + new + text[at + len(old) :])
    for number, name in enumerate(_NAMES):
        status = main(["verify", str(kernels), str(edited), "--kernel", name, "--json"])
        report = json.loads(capsys.readouterr().out)
        verdicts = {key: found["verdict"] for key, found in report["checks"].items()}
        wrong = [key for key, verdict in verdicts.items() if verdict == "different"]
        assert (status, wrong) == ((1, [check]) if number == 1 else (0, [])), name
        assert report["kernel"] == name and report["file_identical"] is None
    assert coasm.verify(kernels, edited, kernel="normalize").equivalent
    assert main(["verify", str(kernels), str(edited), "--kernel", "scale<float>"]) == 0
    said = capsys.readouterr().out
    assert "loaded image" not in said and "calls and reads was not compared" in said


def test_verify_one_that_is_gone(llvm: Llvm, kernels: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.co"
    other.write_bytes(build(llvm, source({"plain": "\tv_mov_b32 v3, 3\n\ts_endpgm"})).data)
    assert main(["verify", str(kernels), str(other), "--kernel", "plain"]) == 0
    assert main(["verify", str(kernels), str(other), "--kernel", "normalize"]) == 1
    assert main(["verify", str(kernels), str(other), "--kernel", "nonsense"]) == 2
