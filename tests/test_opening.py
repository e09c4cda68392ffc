"""Every command and call takes a code object in a file, in a library, and as a listing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import coasm
from coasm.__main__ import main
from coasm.errors import AssemblyError, CoasmError
from coasm.llvm.find import Llvm
from tests.bundle.carriers import HOST, bundle, device, entry_id
from tests.compare.objects import source

_Capture = pytest.CaptureFixture[str]
_BODY = "v_mov_b32 v1, 0\n\ts_nop 3\n\ts_endpgm"


@pytest.fixture
def ways(llvm: Llvm, tmp_path: Path) -> dict[str, str]:
    """The same object as a file, in a bundle of two and of one, and as a source."""
    head = '\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n\t.amdhsa_code_object_version 5\n'
    text = head + source({"alpha": f"\t{_BODY}"})
    (tmp_path / "k.s").write_text(text)
    data = coasm.assemble(text).data
    (tmp_path / "k.co").write_bytes(data)
    other = device(llvm, "gfx90a", "alpha")
    first = bundle([HOST, (entry_id("gfx942"), data), (entry_id("gfx90a"), other)])
    (tmp_path / "one.hipfb").write_bytes(first)
    second = bundle([HOST, (entry_id("gfx942"), device(llvm, "gfx942", "beta"))])
    (tmp_path / "two.hipfb").write_bytes(first + second)
    return {
        "file": f"{tmp_path}/k.co",
        "target": f"{tmp_path}/one.hipfb:gfx942",
        "number": f"{tmp_path}/two.hipfb:gfx942#1",
        "listing": f"{tmp_path}/k.s",
    }


def test_the_api_takes_each(ways: dict[str, str]) -> None:
    data = Path(ways["file"]).read_bytes()
    listing = Path(ways["listing"])
    for way in (*ways.values(), listing, listing.read_text(), Path(ways["file"])):
        assert coasm.load(way).data == data
        assert coasm.verify(way, data).file_identical
        assert coasm.disassemble(way).instructions == coasm.disassemble(data).instructions
        assert coasm.assemble(listing.read_text(), like=way).data == data
        assert coasm.roundtrip(way).file_identical
        assert coasm.lint(way) == coasm.lint(data) or "listing" in str(way) or way is listing


def test_every_command_takes_each(ways: dict[str, str], tmp_path: Path, capsys: _Capture) -> None:
    instructions = 3

    def said(*arguments: str) -> str:
        assert main(list(arguments)) == 0, (arguments, capsys.readouterr().err)
        return capsys.readouterr().out

    def mix(way: str) -> dict[str, int]:
        (kernel,) = json.loads(said("info", way, "--json"))["kernels"]
        return {name: count for name, count in kernel["instructions"].items() if count}

    for name, way in ways.items():
        assert mix(way) == {"VALU": 1, "wait/barrier": 1, "branch": 1}
        assert json.loads(said("verify", ways["file"], way, "--json"))["file_identical"]
        assert json.loads(said("verify", way, ways["listing"], "--json"))["file_identical"]
        found = json.loads(said("roundtrip", way, "--json"))
        assert (found["status"], found["instructions"]) == ("ok", instructions)
        assert json.loads(said("lint", way, "--json"))["instructions"] == instructions
        out = str(tmp_path / f"{name}.s")
        assert json.loads(said("disasm", way, "-o", out, "--json"))["instructions"] == instructions
        made = json.loads(said("asm", out, "--like", way, "--json"))
        assert made["identical"] is True
        new = tmp_path / f"{name}.hipfb"
        said("embed", str(tmp_path / "one.hipfb"), "-r", f"gfx942={way}", "-o", str(new))
        assert new.read_bytes() == (tmp_path / "one.hipfb").read_bytes()


_BAD = {
    "{0}/none.co": "{0}/none.co: No such file or directory",
    "{0}/two.hipfb": "{0}/two.hipfb: carries 3 code objects (gfx942, gfx90a); name one, for "
    "example {0}/two.hipfb:gfx942",
    "{0}/two.hipfb:gfx942": "{0}/two.hipfb: gfx942 is there 2 times; name one: gfx942#1, gfx942#2",
    "{0}/two.hipfb:gfx1100": "{0}/two.hipfb: no gfx1100 in it; there are gfx942, gfx90a",
    "{0}/two.hipfb:gfx942#7": "{0}/two.hipfb: no gfx942#7 in it; there are gfx942, gfx90a",
    "{0}/k.co:gfx942": "{0}/k.co: carries no code objects, so gfx942 cannot be taken out of it",
    "{0}/bad.s": "{0}/bad.s:9:2: error: invalid instruction",
}


@pytest.mark.parametrize("command", ["info", "verify", "disasm", "roundtrip", "lint", "like"])
def test_what_cannot_be_opened_is_said_alike(
    command: str, ways: dict[str, str], tmp_path: Path, capsys: _Capture
) -> None:
    lines = Path(ways["listing"]).read_text().split("\n")
    assert lines[8].strip() == "s_nop 3"
    lines[8] = "\ts_npo 3"
    (tmp_path / "bad.s").write_text("\n".join(lines))
    for spec, wanted in _BAD.items():
        way = spec.format(tmp_path)
        if way.endswith(".hipfb") and command in ("info", "roundtrip", "lint"):
            continue  # these take all of a library
        arguments = {
            "verify": ["verify", way, ways["file"]],
            "disasm": ["disasm", way, "-o", str(tmp_path / "new.s")],
            "like": ["asm", ways["listing"], "--like", way],
        }.get(command, [command, way])
        assert main(arguments) == 2
        captured = capsys.readouterr()
        message = (captured.err + captured.out).replace(f"error {way}: ", f"error {way}: {way}: ")
        assert wanted.format(tmp_path) in message, message
        assert not (tmp_path / "new.s").exists()
        if command == "verify":
            kind = AssemblyError if way.endswith(".s") else CoasmError
            with pytest.raises(kind) as raised:
                coasm.load(way)
            assert wanted.format(tmp_path) in str(raised.value)
