"""Compiled code that computes addresses: the trip is exact, and an edit moves what it should."""

from __future__ import annotations

from pathlib import Path

import pytest

import coasm
from coasm.asm.build import link_object
from coasm.asm.exact import exact_listing
from coasm.llvm import Llvm
from tests.asm.references import check_edit, computed
from tests.edits import compile_fixture

_KINDS = [
    (source, target, level, extra)
    for source in ("compiled.cl", "compiled.hip")
    for target, extra in (
        ("gfx90a", ()),
        ("gfx942", ()),
        ("gfx950", ()),
        ("gfx1030", ()),
        ("gfx1100", ()),
        ("gfx1100", ("-mwavefrontsize64",)),
        ("gfx1201", ()),
        ("gfx1250", ()),
    )
    for level in ("-O0", "-O3")
]


@pytest.fixture(params=_KINDS, ids=lambda kind: "-".join((*kind[:3], *kind[3])))
def compiled(request: pytest.FixtureRequest, llvm: Llvm, tmp_path: Path) -> Path:
    source, target, level, extra = request.param
    return compile_fixture(llvm, tmp_path, source, target, (level, *extra))


def test_the_trip_is_exact_and_nothing_stays_numeric(compiled: Path, llvm: Llvm) -> None:
    co = coasm.load(compiled)
    listing = exact_listing(co, llvm)
    assert listing.raw == 0
    assert listing.warnings == ()
    report = coasm.verify(co, link_object(listing.object, llvm))
    assert report.loaded_identical
    assert set(report.verdicts.values()) == {"identical"}


def test_references_survive_nops_everywhere(compiled: Path, llvm: Llvm) -> None:
    assert computed(llvm, compiled)
    assert check_edit(llvm, compiled) >= 3


def test_a_second_entry_leaves_the_sequence_numeric(llvm: Llvm) -> None:
    """What a branch can reach in the middle is no address that could be proven."""
    text = (
        '\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n\t.amdhsa_code_object_version 5\n'
        "\t.text\n\t.globl k\n\t.p2align 8\n\t.type k,@function\nk:\n"
        "\ts_getpc_b64 s[4:5]\nmiddle:\n\ts_add_u32 s4, s4, lit(0x10)\n"
        "\ts_addc_u32 s5, s5, lit(0x0)\n\ts_cbranch_scc1 middle\n\ts_endpgm\n\ts_nop 0\n"
        "\t.amdhsa_kernel k\n\t.amdhsa_next_free_vgpr 4\n\t.amdhsa_next_free_sgpr 8\n"
        "\t.amdhsa_accum_offset 4\n\t.end_amdhsa_kernel\n"
        "\t.amdgpu_metadata\n---\namdhsa.version: [1, 2]\namdhsa.kernels:\n  - .name: k\n"
        "    .symbol: k.kd\n    .kernarg_segment_size: 0\n    .kernarg_segment_align: 8\n"
        "    .group_segment_fixed_size: 0\n    .private_segment_fixed_size: 0\n"
        "    .wavefront_size: 64\n    .sgpr_count: 8\n    .vgpr_count: 4\n"
        "    .max_flat_workgroup_size: 64\n...\n\t.end_amdgpu_metadata\n"
    )
    listing = coasm.disassemble(coasm.assemble(text).data)
    assert len(listing.warnings) == 1
    assert "s_getpc_b64 s[4:5] at .text+0x0" in listing.warnings[0]
    direct = coasm.disassemble(
        coasm.assemble(text.replace("middle:\n", "").replace("scc1 middle", "scc1 k")).data
    )
    assert direct.warnings == ()
