"""The original that a listing's head names."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import coasm
from coasm.__main__ import main
from coasm.asm.original import find_original, named_original
from tests.linter.sources import CLEAN, listing

pytestmark = pytest.mark.usefixtures("llvm")


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """``kernel.co`` and, beside it, its listing ``kernel.s``."""
    path = tmp_path / "kernel.co"
    path.write_bytes(coasm.assemble(listing(CLEAN)).data)
    assert main(["disasm", str(path)]) == 0
    return path


def test_a_head_names_file_and_digest(kernel: Path) -> None:
    named = named_original(kernel.with_suffix(".s").read_text())
    assert named == ("kernel.co", hashlib.sha256(kernel.read_bytes()).hexdigest())
    assert named_original("\ts_endpgm\n") is None


def test_the_original_is_beside_the_listing_or_here(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = kernel.with_suffix(".s")
    text = "// mine\n" + source.read_text().replace("s_endpgm", "s_nop 0\n\ts_endpgm")
    found = find_original(text, str(source))
    assert found is not None and found.data == kernel.read_bytes()
    elsewhere = kernel.parent / "work" / "kernel.s"
    assert find_original(text, str(elsewhere)) is None
    monkeypatch.chdir(kernel.parent)
    assert find_original(text, str(elsewhere)) is not None


def test_another_file_of_that_name_is_not_it(kernel: Path) -> None:
    source = kernel.with_suffix(".s")
    text = source.read_text()
    kernel.write_bytes(coasm.assemble(listing("\ts_nop 1\n\ts_endpgm")).data)
    assert find_original(text, str(source)) is None
    kernel.unlink()
    assert find_original(text, str(source)) is None
