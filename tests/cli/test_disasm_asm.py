"""``coasm disasm``, ``asm`` and ``roundtrip``: what they write, say and return."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from coasm.__main__ import main
from coasm.llvm.find import Llvm
from tests.asm.tools import built, loaded
from tests.compare.objects import build, source

_ROOT = Path(__file__).parent.parent.parent
_Capture = pytest.CaptureFixture[str]


@pytest.fixture
def kernel(llvm: Llvm, tmp_path: Path) -> Path:
    path = tmp_path / "kernel.co"
    path.write_bytes(built(llvm, "v_nop\nloop:\ns_nop 1\ns_branch loop\ns_endpgm").data)
    return path


def _one_error(capsys: _Capture) -> str:
    """What a failed command said: nothing on standard output, one line on standard error."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("coasm: error: ") and captured.err.count("\n") == 1
    return captured.err


def test_there_and_back(kernel: Path, capsys: _Capture) -> None:
    assert main(["disasm", str(kernel)]) == 0
    listing = kernel.with_suffix(".s")
    assert "gfx942, 1 kernel" in capsys.readouterr().out
    text = listing.read_text()
    assert "kernel.co" in text.splitlines()[0] and str(kernel.parent) not in text
    assert main(["asm", str(listing), "--like", str(kernel)]) == 0
    assert "identical to the original" in capsys.readouterr().out
    assert kernel.with_suffix(".rebuilt.co").read_bytes() == kernel.read_bytes()
    # What is built from a listing is replaced, and without --like the loaded image is the same.
    assert main(["asm", str(listing)]) == 0
    rebuilt = kernel.with_suffix(".rebuilt.co").read_bytes()
    assert loaded(rebuilt) == loaded(kernel.read_bytes())
    assert main(["verify", str(kernel), str(kernel.with_suffix(".rebuilt.co"))]) == 0
    assert main(["roundtrip", str(kernel)]) == 0


def test_the_commands_in_the_head_of_a_listing(kernel: Path, llvm: Llvm) -> None:
    """Typed in the listing's folder, each of the two builds it."""
    assert main(["disasm", str(kernel)]) == 0
    text = kernel.with_suffix(".s").read_text()
    own = re.search(r"^//\s+coasm (asm .*)$", text, re.M)
    clang = re.search(r"^//\s+clang (-x assembler .*)$", text, re.M)
    assert own and clang
    for command in (
        [sys.executable, "-m", "coasm", *own[1].split()],
        [llvm.clang, *clang[1].split()],
    ):
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        done = subprocess.run(command, cwd=kernel.parent, env=environment, capture_output=True)
        assert done.returncode == 0, done.stderr
        out = kernel.with_name(command[command.index("-o") + 1])
        assert loaded(out.read_bytes()) == loaded(kernel.read_bytes())
        out.unlink()


def test_standard_output_and_input(kernel: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}

    def run(*arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "coasm", *arguments]
        return subprocess.run(
            command, input=data, capture_output=True, env=environment, cwd=kernel.parent
        )

    listing = run("disasm", "kernel.co", "-o", "-")
    assert listing.returncode == 0 and b"s_branch loop" in listing.stdout
    assert b"gfx942" in listing.stderr  # what it says goes elsewhere
    rebuilt = run("asm", "-", "-o", "-", "--like", "kernel.co", data=listing.stdout)
    assert rebuilt.returncode == 0 and rebuilt.stdout == kernel.read_bytes()
    assert sorted(os.listdir(kernel.parent)) == ["kernel.co"]
    assert run("asm", "-", data=listing.stdout).returncode == 2


def test_the_listing_is_deterministic(kernel: Path, tmp_path: Path) -> None:
    texts = []
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "coasm", "disasm", str(kernel), "-o", "-"]
        environment = {**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONHASHSEED": seed}
        texts.append(subprocess.run(command, env=environment, capture_output=True).stdout)
    assert texts[0] == texts[1] != b""


def test_json(kernel: Path, capsys: _Capture) -> None:
    assert main(["disasm", str(kernel), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["target"], said["code_object_version"]) == ("gfx942", 5)
    assert (said["kernels"], said["raw"], said["pinned"]) == (["k"], 0, 0)
    assert main(["asm", said["output"], "--like", str(kernel), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["identical"] is True and said["warnings"] == []
    assert said["bytes"] == kernel.stat().st_size


def test_an_existing_listing_is_kept(kernel: Path, capsys: _Capture) -> None:
    listing = kernel.with_suffix(".s")
    listing.write_text("edited for weeks")
    assert main(["disasm", str(kernel)]) == 2
    assert "--force" in _one_error(capsys)
    assert listing.read_text() == "edited for weeks"
    assert main(["disasm", str(kernel), "--force"]) == 0
    assert "s_branch loop" in listing.read_text()


def test_a_failure_leaves_the_output_as_it_was(kernel: Path, capsys: _Capture) -> None:
    listing, rebuilt = kernel.with_suffix(".s"), kernel.with_suffix(".rebuilt.co")
    assert main(["disasm", str(kernel)]) == 0
    listing.write_text(listing.read_text().replace("s_nop 1", "s_nope 1"))
    rebuilt.write_bytes(b"as it was")
    capsys.readouterr()
    assert main(["asm", str(listing)]) == 2
    assert re.search(r"kernel\.s:\d+:2: error: invalid instruction", capsys.readouterr().err)
    assert rebuilt.read_bytes() == b"as it was"
    kernel.write_bytes(kernel.read_bytes()[:2000])
    before = listing.read_text()
    assert main(["disasm", str(kernel), "--force"]) == 2
    assert "kernel.co" in _one_error(capsys)
    assert listing.read_text() == before
    assert sorted(os.listdir(kernel.parent)) == ["kernel.co", "kernel.rebuilt.co", "kernel.s"]


def test_outputs_that_cannot_be_written(kernel: Path, capsys: _Capture) -> None:
    assert main(["disasm", str(kernel), "-o", str(kernel), "--force"]) == 2
    assert "overwrite the input" in _one_error(capsys)
    assert main(["disasm", str(kernel), "-o", str(kernel.parent / "no" / "k.s")]) == 2
    assert "no such directory" in _one_error(capsys)
    assert main(["disasm", str(kernel), "-o", str(kernel.parent)]) == 2
    assert "is a directory" in _one_error(capsys)
    assert main(["disasm", str(kernel), "-o", "/dev/full"]) == 2
    assert "/dev/full" in capsys.readouterr().err
    if os.geteuid():
        locked = kernel.parent / "locked"
        locked.mkdir(mode=0o500)
        assert main(["disasm", str(kernel), "-o", str(locked / "k.s")]) == 2
        assert "Permission denied" in _one_error(capsys)


def test_an_output_keeps_its_mode_and_its_link(kernel: Path) -> None:
    real = kernel.parent / "real.s"
    real.write_text("")
    real.chmod(0o640)
    link = kernel.parent / "link.s"
    link.symlink_to(real)
    assert main(["disasm", str(kernel), "-o", str(link), "--force"]) == 0
    assert link.is_symlink() and "s_branch loop" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640


# --- bad input -----------------------------------------------------------------------------


def _patched(path: Path, *changes: tuple[int, bytes]) -> Path:
    data = bytearray(path.read_bytes())
    for at, new in changes:
        data[at : at + len(new)] = new
    path.write_bytes(bytes(data))
    return path


_COMMANDS = (["disasm"], ["info"], ["roundtrip"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ([(8, b"\0")], "code object v2"),
        ([(16, b"\1")], "ET_REL"),
        ([(48, b"\xee")], "unknown gfx target"),
        ([(8, b"\7")], "unknown ABI version 7"),
        ([(60, b"\xff\x7f")], "outside the file"),
    ],
)
@pytest.mark.parametrize("command", _COMMANDS, ids="".join)
def test_bad_objects(
    command: list[str],
    change: list[tuple[int, bytes]],
    message: str,
    kernel: Path,
    capsys: _Capture,
) -> None:
    _patched(kernel, *change)
    assert main([*command, str(kernel)]) == 2
    if command == ["roundtrip"]:
        captured = capsys.readouterr()
        assert message in " ".join(captured.out.split()) and "Traceback" not in captured.err
    else:
        assert message in _one_error(capsys)
    assert os.listdir(kernel.parent) == ["kernel.co"]


@pytest.mark.parametrize("command", _COMMANDS, ids="".join)
def test_no_such_file(command: list[str], tmp_path: Path, capsys: _Capture) -> None:
    assert main([*command, str(tmp_path / "missing\x1b[31m.co")]) == 2
    captured = capsys.readouterr()
    assert "missing\\x1b[31m.co" in captured.err and "\x1b" not in captured.err + captured.out


@pytest.mark.parametrize("command", (["disasm"], ["info"]), ids="".join)
def test_a_directory_is_no_object(command: list[str], tmp_path: Path, capsys: _Capture) -> None:
    assert main([*command, str(tmp_path)]) == 2
    assert re.search(r"directory|not a regular file", _one_error(capsys))


def test_a_target_that_llvm_has_dropped(kernel: Path, llvm: Llvm, capsys: _Capture) -> None:
    """``clang -mcpu=gfx940`` is refused by LLVM 22, so the head has no such command."""
    _patched(kernel, (48, b"\x40"))
    assert main(["disasm", str(kernel)]) == 0
    assert "gfx940" in capsys.readouterr().out
    text = kernel.with_suffix(".s").read_text()
    assert '.amdgcn_target "amdgcn-amd-amdhsa--gfx940' in text
    assert ("\n// clang " in text) == ("gfx940" in llvm.processors)


def test_code_object_v3(kernel: Path, capsys: _Capture) -> None:
    """It is read and inspected; LLVM no longer writes it."""
    _patched(kernel, (8, b"\1"), (48, struct.pack("<I", 0x4C)))
    assert main(["info", str(kernel)]) == 0
    assert "gfx942" in capsys.readouterr().out
    assert main(["verify", str(kernel), str(kernel)]) == 0
    capsys.readouterr()
    assert main(["roundtrip", str(kernel)]) == 2
    assert "v3" in capsys.readouterr().out
    listing = kernel.with_suffix(".s")
    listing.write_text(
        '.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n.amdhsa_code_object_version 3\n'
    )
    assert main(["asm", str(listing)]) == 2
    assert "LLVM does not write code object v3" in _one_error(capsys)


@pytest.mark.parametrize("command", _COMMANDS, ids="".join)
def test_no_metadata(command: list[str], llvm: Llvm, tmp_path: Path, capsys: _Capture) -> None:
    path = tmp_path / "bare.co"
    path.write_bytes(build(llvm, source({"k": "s_endpgm"}, metadata="")).data)
    assert main([*command, str(path)]) == 2
    if command == ["roundtrip"]:
        assert "no AMDGPU metadata note" in " ".join(capsys.readouterr().out.split())
    else:
        assert "bare.co: no AMDGPU metadata note" in _one_error(capsys)


def test_asm_of_an_object_and_of_noise(kernel: Path, capsys: _Capture) -> None:
    assert main(["asm", str(kernel)]) == 2
    assert "a code object, not a listing" in _one_error(capsys)
    noise = kernel.parent / "noise.s"
    noise.write_bytes(bytes(range(256)) * 20)
    assert main(["asm", str(noise)]) == 2
    assert "no .amdgcn_target" in _one_error(capsys)
    assert sorted(os.listdir(kernel.parent)) == ["kernel.co", "noise.s"]


def test_nothing_of_a_name_reaches_the_terminal(
    fixture_objects: list[tuple[str, Path]], tmp_path: Path, capsys: _Capture
) -> None:
    path = dict(fixture_objects).get("hostile_names-gfx942-v5")
    if path is None:
        pytest.skip("this LLVM does not build the object with hostile names")
    listing = tmp_path / "h.s"
    for command in (
        ["disasm", str(path), "-o", str(listing)],
        ["disasm", str(path), "-o", "-"],
        ["asm", str(listing)],
        ["info", str(path)],
        ["roundtrip", str(path)],
        ["verify", str(path), str(tmp_path / "h.rebuilt.co"), "--all"],
    ):
        assert main(command) in (0, 1), command
        captured = capsys.readouterr()
        for character in captured.out + captured.err:
            assert character in "\n\t" or character.isprintable(), (command, repr(character))


# --- roundtrip -----------------------------------------------------------------------------


def test_roundtrip_json(kernel: Path, capsys: _Capture) -> None:
    copy = kernel.with_name("copy.co")
    copy.write_bytes(kernel.read_bytes())
    bad = kernel.with_name("bad.hsaco")
    bad.write_bytes(kernel.read_bytes()[:500])
    assert main(["roundtrip", str(kernel.parent), "--json", "--jobs", "1"]) == 2
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(Path(row["path"]).name for row in rows) == ["bad.hsaco", "copy.co", "kernel.co"]
    for row in rows:
        assert set(row) == {
            *("path", "target", "code_object_version", "kernels", "instructions", "raw", "pinned"),
            *("checks", "loaded_identical", "file_identical", "status", "error", "seconds"),
        }
        assert set(row["checks"]) == {"header", "descriptors", "text", "metadata"}
        if row["path"].endswith("bad.hsaco"):
            assert row["status"] == "error" and "\n" not in row["error"]
        else:
            assert row["status"] == "ok" and row["loaded_identical"] and row["file_identical"]
            assert set(row["checks"].values()) == {"identical"}
            assert (row["kernels"], row["instructions"], row["error"]) == (1, 4, None)


def test_another_target_is_one_error(llvm: Llvm, tmp_path: Path, capsys: _Capture) -> None:
    """Of 40 instructions of gfx950 in a source that says gfx942; each is an error to LLVM."""
    line = "v_mfma_scale_f32_16x16x128_f8f6f4 a[0:3], v[0:7], v[8:15], a[0:3], v16, v17"
    text = source({"k": f"\ts_nop 0\n{40 * f'    {line}{chr(10)}'}\ts_endpgm"}, "gfx942")
    path = tmp_path / "k.s"
    path.write_text(text)
    number = text[: text.index(line)].count("\n") + 1
    assert main(["asm", str(path), "--target", "gfx942"]) == 2
    error = capsys.readouterr().err
    assert error.count("error:") == 2  # coasm's own, and this one
    assert f"k.s:{number}:5: error: gfx942 does not have this instruction, nor 39 more" in error
    assert main(["asm", str(path), "--target", "gfx950"]) == 0


def test_many_errors_are_summed_up(llvm: Llvm, tmp_path: Path, capsys: _Capture) -> None:
    path = tmp_path / "k.s"
    for count, shown in ((10, 10), (25, 3)):
        path.write_text(source({"k": "\n".join(f"\tx_nop {n}" for n in range(count))}, "gfx942"))
        assert main(["asm", str(path), "--target", "gfx942"]) == 2
        error = capsys.readouterr().err
        assert error.count("invalid instruction, did you mean: s_nop, v_nop?\n") == shown + (
            shown == 3
        )
    assert "and 22 more errors: 22 times invalid instruction" in error
