"""A new bit of the kernel descriptor is a row in ``descriptor/table.py``: a made-up one.

LLVM knows no directive for it, so a listing holds such a descriptor as data. What is expected
follows from where the bit is: bit 27 of ``compute_pgm_rsrc1``, which gfx942 reserves.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import coasm
from coasm.codeobject import load
from coasm.descriptor import describe, fields_of, table
from coasm.trips import roundtrip_many
from tests.docs import ROOT

_ROW = '    _fixed("made_up_bit", _R1 + 27, since=(9, 4), before=(9, 5)),'
_BYTE, _BIT = 48 + 27 // 8, 1 << 27 % 8


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    row = eval(_ROW.strip().rstrip(","), vars(table))
    monkeypatch.setattr(table, "_TABLE", (*table._TABLE, row))
    fields_of.cache_clear()
    yield
    fields_of.cache_clear()


@pytest.fixture
def objects(fixture_objects: list[tuple[str, Path]], tmp_path: Path) -> tuple[Path, Path]:
    """The fixture, and with the bit set."""
    original = dict(fixture_objects)["vector_add-gfx942-v5"]
    co = load(original.read_bytes())
    data = bytearray(co.elf.data)
    at = data.find(co.kernels[0].descriptor)
    data[at + _BYTE] |= _BIT
    edited = tmp_path / "edited.co"
    edited.write_bytes(data)
    return original, edited


def test_it_is_read_shown_compared_and_kept(made_up: None, objects: tuple[Path, Path]) -> None:
    original, edited = objects
    co = load(edited.read_bytes())
    assert "made_up_bit = 1" in describe(co.kernels[0].descriptor, co.target, zeros=False)
    assert "made_up_bit" in str(coasm.verify(original, edited).to_json())
    (result,) = roundtrip_many([str(edited)], jobs=1)
    assert (result.status, result.file_identical) == ("ok", True)


def test_without_the_row_it_has_no_name(objects: tuple[Path, Path]) -> None:
    co = load(objects[1].read_bytes())
    said = describe(co.kernels[0].descriptor, co.target, zeros=False)
    assert "compute_pgm_rsrc1_reserved_27_31 = 0x1" in said


def test_the_docs_show_this_row() -> None:
    page = (ROOT / "docs/where-to-touch.md").read_text()
    assert _ROW.strip() in page
