"""Files that are there already: overwritten only with --force, unless they are earlier builds."""

from __future__ import annotations

from pathlib import Path

import pytest

import coasm
from coasm.__main__ import main
from coasm.llvm.find import Llvm
from tests.bundle.carriers import HOST, bundle, device, entry_id

_Capture = pytest.CaptureFixture[str]


@pytest.fixture
def listing(llvm: Llvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A listing beside its original, and another object."""
    monkeypatch.chdir(tmp_path)
    Path("k.co").write_bytes(device(llvm, "gfx942", "alpha"))
    Path("other.co").write_bytes(device(llvm, "gfx942", "beta"))
    assert main(["disasm", "k.co"]) == 0
    path = Path("k.s")
    path.write_text(path.read_text().replace("s_nop 0", "s_nop 5"))
    return path


def _refused(capsys: _Capture, arguments: list[str], path: str) -> None:
    """Refused without --force, in one line that names the file, which keeps its bytes."""
    before = Path(path).read_bytes()
    capsys.readouterr()
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"coasm: error: {path}: ") and error.count("\n") == 1
    assert "--force overwrites it" in error
    assert Path(path).read_bytes() == before
    assert main([*arguments, "--force"]) == 0
    assert Path(path).read_bytes() != before


def test_asm(listing: Path, capsys: _Capture) -> None:
    wanted = coasm.assemble(listing.read_text()).data
    Path("notes.txt").write_text("what somebody wrote")
    Path("copy.s").write_text(listing.read_text())
    for path in ("notes.txt", "copy.s", "other.co", "k.co"):  # the last is the original
        _refused(capsys, ["asm", "k.s", "-o", path], path)
        assert Path(path).read_bytes() == wanted
    # An earlier build is replaced, and so is an empty file.
    Path("empty.co").touch()
    for path in ("new.co", "empty.co"):
        assert main(["asm", "k.s", "-o", path]) == 0
        assert main(["asm", "k.s", "-o", path]) == 0
        assert Path(path).read_bytes() == wanted
    Path("k.rebuilt.co").write_bytes(b"no code object")
    _refused(capsys, ["asm", "k.s"], "k.rebuilt.co")


def test_embed(listing: Path, llvm: Llvm, capsys: _Capture) -> None:
    library = bundle([HOST, (entry_id("gfx942"), device(llvm, "gfx942", "alpha"))])
    Path("lib.hipfb").write_bytes(library)
    other = bundle([HOST, (entry_id("gfx90a"), device(llvm, "gfx90a", "alpha"))])
    Path("other.hipfb").write_bytes(other)
    Path("notes.txt").write_text("what somebody wrote")
    arguments = ["embed", "lib.hipfb", "-r", "gfx942=k.s", "-o"]
    for path in ("notes.txt", "other.hipfb", "k.co"):
        _refused(capsys, [*arguments, path], path)
    for _ in range(2):
        assert main([*arguments, "new.hipfb"]) == 0
    assert Path("new.hipfb").read_bytes() == Path("notes.txt").read_bytes()
    assert main([*arguments, "lib.hipfb", "--force"]) == 2  # the input is never overwritten
    assert Path("lib.hipfb").read_bytes() == library


def test_disasm_writes_to_an_empty_file(listing: Path, capsys: _Capture) -> None:
    Path("empty.s").touch()
    assert main(["disasm", "k.co", "-o", "empty.s"]) == 0
    _refused_text = Path("empty.s").read_text()
    assert "s_nop 0" in _refused_text
    assert main(["disasm", "k.co", "-o", "empty.s"]) == 2
