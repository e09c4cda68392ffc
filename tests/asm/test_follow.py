"""The metadata follows an edited descriptor, and nothing follows in a listing without an edit."""

from __future__ import annotations

from pathlib import Path

import pytest

import coasm
from coasm.asm.follow import FOLLOWS, follow
from coasm.codeobject import load
from coasm.llvm.find import Llvm
from tests.compare.objects import build, source

_BODY = "\tv_nop\n\ts_endpgm"


def _metadata(text: str) -> tuple[dict[str, object], tuple[str, ...]]:
    """The first kernel's map of what a listing assembles to, and what was said."""
    result = coasm.assemble(text, name="k.s")
    return load(result.data).kernels[0].metadata, result.notes


@pytest.mark.parametrize(
    ("target", "directive", "new", "key", "wanted"),
    [
        ("gfx942", "group_segment_fixed_size 0", 81920, ".group_segment_fixed_size", 81920),
        ("gfx942", "private_segment_fixed_size 0", 64, ".private_segment_fixed_size", 64),
        ("gfx942", "kernarg_size 24", 32, ".kernarg_segment_size", 32),
        ("gfx942", "next_free_vgpr 16", 32, ".vgpr_count", 32),
        ("gfx1100", "next_free_vgpr 16", 24, ".vgpr_count", 24),
        # The fixture notes 24 SGPRs; to LLVM those are 18 with VCC, FLAT_SCRATCH and XNACK_MASK.
        ("gfx942", "next_free_sgpr 18", 24, ".sgpr_count", 30),
        ("gfx1100", "wavefront_size32 1", 0, ".wavefront_size", 64),
        ("gfx942", "uses_dynamic_stack 0", 1, ".uses_dynamic_stack", True),
    ],
)
def test_what_follows(
    llvm: Llvm, target: str, directive: str, new: int, key: str, wanted: object
) -> None:
    co = build(llvm, source({"k": _BODY}, target), target)
    text = coasm.disassemble(co).text
    if f".amdhsa_{directive}\n" not in text:  # it has its default, which is not written
        end = "\t.end_amdhsa_kernel"
        text = text.replace(end, f"\t\t.amdhsa_{directive}\n{end}")
    old = load(coasm.assemble(text).data)
    assert old.data == coasm.assemble(text, like=old).data
    before, said = _metadata(text)
    assert said == () and before[key] != wanted
    edited = text.replace(f".amdhsa_{directive}\n", f".amdhsa_{directive.split()[0]} {new}\n")
    after, said = _metadata(edited)
    assert {**before, key: wanted} == after
    spelled = [str(v).lower() if isinstance(v, bool) else v for v in (before[key], wanted)]
    change = f"{key} {spelled[0]} -> {spelled[1]}"
    assert said == (f"metadata of k: {change}, as the descriptor says",)
    # A source that coasm did not write is taken as it stands.
    after, said = _metadata("\n".join(li for li in edited.split("\n") if FOLLOWS not in li))
    assert (after, said) == (before, ())


def test_what_differed_before_stays(llvm: Llvm) -> None:
    """The metadata says 64 bytes of LDS where the descriptor says 0."""
    text = source({"k": _BODY}).replace(
        "group_segment_fixed_size: 0", "group_segment_fixed_size: 64"
    )
    co = build(llvm, text)
    listing = coasm.disassemble(co).text
    remark = " // stays while the descriptor says 0"
    assert f".group_segment_fixed_size: 64{remark}\n" in listing
    result = coasm.assemble(listing, like=co)
    assert result.data == co.data and result.notes == ()
    lds = ".group_segment_fixed_size"
    other = listing.replace("private_segment_fixed_size 0\n", "private_segment_fixed_size 8\n")
    assert _metadata(other)[0][lds] == 64
    edited = listing.replace("group_segment_fixed_size 0\n", "group_segment_fixed_size 128\n")
    assert _metadata(edited)[0][lds] == 128
    assert _metadata(listing.replace(remark, ""))[0][lds] == 0


def test_nothing_follows_without_an_edit(
    fixture_objects: list[tuple[str, Path]], llvm: Llvm
) -> None:
    for _, path in fixture_objects[::15]:
        co = load(str(path))
        if co.code_object_version > 3:
            text = coasm.disassemble(co).text
            assert follow(text, co.target) == (text, ())


def test_nothing_follows_in_real_objects(corpus: list[Path]) -> None:
    smallest = sorted(corpus, key=lambda path: path.stat().st_size)
    for path in (*smallest[:6], *smallest[20:200:30]):
        co = load(str(path))
        text = coasm.disassemble(co).text
        assert FOLLOWS in text and follow(text, co.target) == (text, ())
