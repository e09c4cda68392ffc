"""Tools that are started ahead of their input: none is started that nobody takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coasm.__main__ import main
from coasm.llvm import prefetch, run
from coasm.llvm.find import Llvm
from tests.asm.tools import built
from tests.counting import programs


@pytest.mark.parametrize("target", ["gfx942", "gfx1100", "gfx1250", "gfx10-3-generic"])
@pytest.mark.parametrize("like", [False, True])
def test_asm_starts_one_assembler_and_one_linker(
    llvm: Llvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, like: bool
) -> None:
    """As clang does. In another folder as well, which is then one to include files from.

    And a disassembler for gfx1250, whose text does not tell which registers it names.
    """
    original = tmp_path / "kernel.co"
    original.write_bytes(built(llvm, "v_nop\ns_endpgm", target).data)
    assert main(["disasm", str(original)]) == 0
    monkeypatch.chdir(tmp_path)
    options = ["--like", str(original)] if like else []
    for listing in ("kernel.s", str(tmp_path / "kernel.s")):
        prefetch.end()
        with programs() as started:
            assert main(["asm", listing, "-o", str(tmp_path / "again.co"), *options]) == 0
        assert started.number == 2 + (target == "gfx1250")
        assert not run.waiting and not run.working
        assert (tmp_path / "again.co").read_bytes()[:4] == b"\x7fELF"
    if like:
        assert (tmp_path / "again.co").read_bytes() == original.read_bytes()


def test_one_assembler_where_the_metadata_follows_an_edit(
    llvm: Llvm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    original = tmp_path / "kernel.co"
    original.write_bytes(built(llvm, "v_nop\ns_endpgm").data)
    assert main(["disasm", str(original)]) == 0
    listing = tmp_path / "kernel.s"
    text = listing.read_text()
    directive = ".amdhsa_group_segment_fixed_size "
    at = text.index(directive) + len(directive)
    listing.write_text(f"{text[:at]}4096 //{text[at:]}")
    capsys.readouterr()
    prefetch.end()
    with programs() as started:
        assert main(["asm", str(listing)]) == 0
    assert "4096, as the descriptor says" in capsys.readouterr().err
    assert started.number == 2


def test_what_the_linker_refuses_is_said_of_the_source(
    llvm: Llvm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The linker that was there early is asked again from a file, whose name its message has."""
    original = tmp_path / "kernel.co"
    original.write_bytes(built(llvm, "v_nop\ns_endpgm").data)
    assert main(["disasm", str(original)]) == 0
    listing = tmp_path / "kernel.s"
    code = "s_add_u32 s0, s0, nowhere@rel32@lo+4\n\ts_endpgm"
    listing.write_text(listing.read_text().replace("s_endpgm", code))
    capsys.readouterr()
    assert main(["asm", str(listing)]) == 2
    said = capsys.readouterr().err
    assert "undefined symbol: nowhere" in said and "kernel.s: the linker refused" in said
    assert "/dev/stdin" not in said


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.s")
    done = subprocess.run(
        [sys.executable, "-m", "coasm", "asm", str(tmp_path / "pipe.s")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2 and "not a regular file" in done.stderr
