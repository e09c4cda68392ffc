"""Objects of real libraries: the trip of a sample is exact, and an edit moves what it should.

With ``COASM_HIP_ALL=1`` all 276 are taken (a quarter of an hour of CPU time).
"""

from __future__ import annotations

from pathlib import Path

import pytest

import coasm
from coasm.asm.build import link_object
from coasm.asm.exact import exact_listing
from coasm.llvm import Llvm
from tests.asm.references import check_edit
from tests.wheels import TARGETS, sample

#: Of this many instructions at most one is not taken back as LLVM prints it, and comes out as data:
#: dual instructions (VOPD) of gfx1201 whose registers clang refuses.
ONE_RAW_IN = 400

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("target", TARGETS)
def test_the_trip_is_exact_and_nothing_stays_numeric(target: str, llvm: Llvm) -> None:
    for co in sample(target):
        assert str(co.target) == target
        listing = exact_listing(co, llvm)
        assert listing.raw * ONE_RAW_IN <= listing.instructions, co.name
        assert listing.warnings == (), co.name
        report = coasm.verify(co, link_object(listing.object, llvm))
        assert report.loaded_identical, co.name
        assert not report.data, co.name
        assert set(report.verdicts.values()) == {"identical"}, co.name


@pytest.mark.parametrize("target", TARGETS[::2])
def test_references_and_branches_survive_nops_everywhere(
    target: str, llvm: Llvm, tmp_path: Path
) -> None:
    for co in sample(target):
        path = tmp_path / "original.co"
        path.write_bytes(co.data)
        assert check_edit(llvm, path) >= 24, co.name  # kernels, each with a block at least


def test_the_sample_is_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COASM_HIP_ALL", raising=False)
    names = [co.name for target in TARGETS for co in sample(target)]
    assert len(set(names)) >= 50
    assert len({name.partition(":")[0] for name in names}) == 8
    assert {name.partition(":")[2].partition("#")[0] for name in names} == set(TARGETS)
