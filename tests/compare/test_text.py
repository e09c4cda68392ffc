"""The text check: changes of every class, what moves without changing, and don't-care bits."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from coasm.asm.exact import exact_listing
from coasm.codeobject import CodeObject, load
from coasm.compare import Check, DontCare, verify
from coasm.llvm.find import Llvm
from tests.compare.objects import (
    KERNEL_METADATA,
    build,
    different,
    flipped,
    offset_of,
    patched,
    source,
)
from tests.counting import calls

BASE = """\
s_mov_b32 s4, 0
s_load_dwordx2 s[6:7], s[0:1], 0x8
loop:
v_add_f32 v2, v2, v3
v_mov_b32 v4, 0x12345678
v_mul_f32 v5, 2.0, v4
v_fma_f32 v6, v5, v4, v2
ds_write_b32 v1, v6 offset:16
global_load_dword v7, v[8:9], off offset:64
s_waitcnt vmcnt(0) lgkmcnt(0)
v_mov_b32_dpp v10, v11 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf
s_add_u32 s4, s4, 1
s_cmp_lt_u32 s4, 8
s_cbranch_scc1 loop
s_cbranch_execz done
s_nop 0
done:
s_endpgm
.long 0xdeadbeef, 0xffffffff
"""

# Class: line, its replacement, what LLVM prints for both.
CHANGES = {
    "opcode": ("v_add_f32 v2, v2, v3", "v_sub_f32 v2, v2, v3"),
    "opcode, scalar": ("s_add_u32 s4, s4, 1", "s_sub_u32 s4, s4, 1"),
    "compare": ("s_cmp_lt_u32 s4, 8", "s_cmp_le_u32 s4, 8"),
    "destination VGPR": ("v_add_f32 v2, v2, v3", "v_add_f32 v12, v2, v3"),
    "source VGPR": ("v_add_f32 v2, v2, v3", "v_add_f32 v2, v2, v12"),
    "VGPR for SGPR": ("v_add_f32 v2, v2, v3", "v_add_f32 v2, s3, v3"),
    "AGPR": ("ds_write_b32 v1, v6 offset:16", "ds_write_b32 v1, a6 offset:16"),
    "SGPR pair": ("s_load_dwordx2 s[6:7], s[0:1], 0x8", "s_load_dwordx2 s[8:9], s[0:1], 0x8"),
    "scalar offset": ("s_load_dwordx2 s[6:7], s[0:1], 0x8", "s_load_dwordx2 s[6:7], s[0:1], 0x10"),
    "operands swapped": ("v_fma_f32 v6, v5, v4, v2", "v_fma_f32 v6, v4, v5, v2"),
    "literal": ("v_mov_b32 v4, 0x12345678", "v_mov_b32 v4, 0x12345679"),
    "inline constant": ("v_mul_f32 v5, 2.0, v4", "v_mul_f32 v5, 4.0, v4"),
    "inline constant, scalar": ("s_mov_b32 s4, 0", "s_mov_b32 s4, -1"),
    "modifier neg": ("v_fma_f32 v6, v5, v4, v2", "v_fma_f32 v6, v5, -v4, v2"),
    "modifier abs": ("v_fma_f32 v6, v5, v4, v2", "v_fma_f32 v6, v5, |v4|, v2"),
    "modifier clamp": ("v_fma_f32 v6, v5, v4, v2", "v_fma_f32 v6, v5, v4, v2 clamp"),
    "modifier omod": ("v_fma_f32 v6, v5, v4, v2", "v_fma_f32 v6, v5, v4, v2 mul:2"),
    "LDS offset": ("ds_write_b32 v1, v6 offset:16", "ds_write_b32 v1, v6 offset:20"),
    "memory offset": (
        "global_load_dword v7, v[8:9], off offset:64",
        "global_load_dword v7, v[8:9], off offset:-64",
    ),
    "cache policy": (
        "global_load_dword v7, v[8:9], off offset:64",
        "global_load_dword v7, v[8:9], off offset:64 nt",
    ),
    "width": (
        "global_load_dword v7, v[8:9], off offset:64",
        "global_load_ubyte v7, v[8:9], off offset:64",
    ),
    "DPP control": (
        "v_mov_b32_dpp v10, v11 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf",
        "v_mov_b32_dpp v10, v11 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf",
    ),
    "DPP mask": (
        "v_mov_b32_dpp v10, v11 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf",
        "v_mov_b32_dpp v10, v11 quad_perm:[0,1,2,3] row_mask:0xe bank_mask:0xf",
    ),
    "wait count vmcnt": ("s_waitcnt vmcnt(0) lgkmcnt(0)", "s_waitcnt vmcnt(1) lgkmcnt(0)"),
    "wait count lgkmcnt": ("s_waitcnt vmcnt(0) lgkmcnt(0)", "s_waitcnt vmcnt(0)"),
    "branch condition": ("s_cbranch_execz done", "s_cbranch_vccz done"),
    "nop count": ("s_nop 0", "s_nop 1"),
    "data word": (".long 0xdeadbeef, 0xffffffff", ".long 0xdeadbeee, 0xffffffff"),
    "undecodable word": (".long 0xdeadbeef, 0xffffffff", ".long 0xdeadbeef, 0xfffffffe"),
}


def object_of(llvm: Llvm, body: str, **options: str) -> CodeObject:
    return build(llvm, source({"one": body}, **options))


def rows(check: Check) -> list[tuple[str, str | None, str | None]]:
    """Kind and both texts of every row that is no context."""
    return [
        (r.kind, r.original and r.original.text, r.rebuilt and r.rebuilt.text)
        for hunk in check.hunks
        for r in hunk.rows
        if r.kind != "same"
    ]


def compare(llvm: Llvm, old: str, new: str) -> list[tuple[str, str | None, str | None]]:
    """The differing rows of two bodies whose text, and nothing else, must be different."""
    report = verify(object_of(llvm, old), object_of(llvm, new), llvm)
    assert different(report) == {"text"}
    assert not report.equivalent and not report.loaded_identical and not report.data
    return rows(report.checks["text"])


@pytest.mark.parametrize("name", CHANGES)
def test_one_changed_instruction(llvm: Llvm, name: str) -> None:
    old, new = CHANGES[name]
    assert BASE.count(old) == 1
    found = compare(llvm, BASE, BASE.replace(old, new))
    assert [kind for kind, _, _ in found] == ["changed"]
    _, left, right = found[0]
    assert left is not None and right is not None and left != right
    if not old.startswith(".long"):
        assert left.split()[0].startswith(old.split()[0])
        assert right.split()[0].startswith(new.split()[0])


def test_both_texts_are_as_llvm_prints_them(llvm: Llvm) -> None:
    old, new = CHANGES["literal"]
    assert compare(llvm, BASE, BASE.replace(old, new)) == [
        ("changed", "v_mov_b32_e32 v4, 0x12345678", "v_mov_b32_e32 v4, 0x12345679")
    ]


def test_another_encoding_that_prints_otherwise_is_different(llvm: Llvm) -> None:
    new = BASE.replace("v_add_f32 v2, v2, v3", "v_add_f32_e64 v2, v2, v3")
    assert compare(llvm, BASE, new) == [
        ("changed", "v_add_f32_e32 v2, v2, v3", "v_add_f32_e64 v2, v2, v3")
    ]


def test_branches_that_lead_elsewhere(llvm: Llvm) -> None:
    new = BASE.replace("s_cbranch_scc1 loop", "s_cbranch_scc1 done")
    found = compare(llvm, BASE, new)
    assert [kind for kind, _, _ in found] == ["branch"]
    assert "-> loop at 0x" in str(found[0][1]) and "-> done at 0x" in str(found[0][2])


def test_a_branch_into_the_middle_of_an_instruction(llvm: Llvm) -> None:
    co = object_of(llvm, BASE)
    at = offset_of(co, co.kernels[0].entry) + co.code_sections[0].data.index(b"\x85\xbf") - 2
    words = co.data[at]
    assert co.data[at + 2 : at + 4] == b"\x85\xbf"  # s_cbranch_scc1
    report = verify(co, patched(co, at, bytes([words + 2])), llvm)
    assert different(report) == {"text"}
    assert [kind for kind, _, _ in rows(report.checks["text"])] == ["branch"]


def test_an_inserted_instruction_shifts_nothing(llvm: Llvm) -> None:
    """Both loops are around it: each branch still leads to the same instruction."""
    new = BASE.replace("s_waitcnt vm", "s_nop 5\ns_waitcnt vm")
    assert compare(llvm, BASE, new) == [("inserted", None, "s_nop 5")]
    assert compare(llvm, new, BASE) == [("removed", "s_nop 5", None)]


@pytest.mark.parametrize("line", ["loop:\ns_nop 5", "s_nop 5\nloop:", "done:\ns_nop 5"])
def test_an_instruction_inserted_at_a_branch_target(llvm: Llvm, line: str) -> None:
    label = next(word for word in line.split() if word.endswith(":"))
    new = BASE.replace(label, line)
    assert compare(llvm, BASE, new) == [("inserted", None, "s_nop 5")]


def test_an_instruction_inserted_at_the_entry(llvm: Llvm) -> None:
    assert compare(llvm, BASE, "s_nop 5\n" + BASE) == [("inserted", None, "s_nop 5")]


def test_swapped_instructions(llvm: Llvm) -> None:
    first, second = "v_mov_b32 v4, 0x12345678\n", "v_mul_f32 v5, 2.0, v4\n"
    found = compare(llvm, BASE, BASE.replace(first + second, second + first))
    assert sorted(kind for kind, _, _ in found) in (["inserted", "removed"], ["changed"] * 2)


def test_a_whole_kernel_is_removed_or_added(llvm: Llvm) -> None:
    one = build(llvm, source({"one": BASE}))
    two = build(llvm, source({"one": BASE, "two": "s_nop 3\ns_endpgm"}))
    for a, b, missing in ((one, two, "rebuilt"), (two, one, "original")):
        report = verify(a, b, llvm)
        assert different(report) == {"text", "metadata", "descriptors"}
        assert missing is not None


def test_another_kernel_after_an_insertion_is_untouched(llvm: Llvm) -> None:
    """Its code moves by 256 bytes, its descriptor's entry offset with it."""
    bodies = {
        "one": "s_nop 0\n" * 63 + "s_endpgm",
        "two": "again: s_nop 1\ns_branch again\ns_endpgm",
    }
    longer = {**bodies, "one": "s_nop 7\n" + bodies["one"]}
    report = verify(build(llvm, source(bodies)), build(llvm, source(longer)), llvm)
    assert different(report) == {"text"}
    assert report.verdicts["descriptors"] == "equivalent"
    found = rows(report.checks["text"])
    assert ("inserted", None, "s_nop 7") in found
    assert all(kind == "inserted" for kind, _, _ in found)  # and the padding behind it


def test_context_is_shown_with_addresses(llvm: Llvm) -> None:
    old, new = CHANGES["literal"]
    co = object_of(llvm, BASE)
    report = verify(co, object_of(llvm, BASE.replace(old, new)), llvm)
    (hunk,) = report.checks["text"].hunks
    assert hunk.section == ".text"
    assert [row.kind for row in hunk.rows] == ["same"] * 3 + ["changed"] + ["same"] * 3
    entry = co.kernels[0].entry
    # s_mov 4 bytes, s_load 8, v_add 4, v_mov 8, v_mul 4, v_fma 8
    expected = [entry + n for n in (0, 4, 12, 16, 24, 28, 36)]
    assert [row.original and row.original.address for row in hunk.rows] == expected


def test_label_names_do_not_count(llvm: Llvm) -> None:
    """Other labels, none at all, and their targets as numbers: the bytes stay the same."""
    report = verify(object_of(llvm, BASE), object_of(llvm, BASE.replace("loop", "again")))
    assert report.verdicts["text"] == "identical" and report.equivalent
    assert report.loaded_identical and not report.file_identical
    old, new = CHANGES["literal"]
    changed = BASE.replace(old, new).replace("loop", "again").replace("done", ".Ldone")
    assert [kind for kind, _, _ in compare(llvm, BASE, changed)] == ["changed"]


def test_data_that_is_divided_otherwise(llvm: Llvm) -> None:
    """A symbol after an undecodable word, on one side only, and a change before it."""
    old = "s_nop 0\ns_branch end\n.long 0xffffffff\n{}s_nop 1\ns_nop 2\nend:\ns_endpgm\n"
    found = compare(llvm, old.format(""), old.format("here: ").replace("s_nop 0", "s_nop 4"))
    assert found == [("changed", "s_nop 0", "s_nop 4")]


def test_changed_data_shows_where(llvm: Llvm) -> None:
    words = "s_endpgm\n.type data,@object\ndata:\n.long {}\n.size data, 128\n"
    values = [str(n) for n in range(32)]
    co = object_of(llvm, words.format(", ".join(values)))
    values[20] = "0x77"
    report = verify(co, object_of(llvm, words.format(", ".join(values))), llvm)
    assert different(report) == {"text"}
    ((kind, left, right),) = rows(report.checks["text"])
    assert kind == "changed"
    assert str(left).startswith("data: 14 00 00 00") and str(right).startswith("data: 77 00 00 00")
    (row,) = (r for r in report.checks["text"].hunks[0].rows if r.kind == "changed")
    assert row.original is not None
    assert row.original.address == co.kernels[0].entry + 4 + 80


# --- other code sections


def test_other_code_sections(llvm: Llvm) -> None:
    cold = '\t.section .text_cold,"ax",@progbits\ncold:\n\ts_nop {}\n\ts_endpgm\n'
    text = source({"one": "s_endpgm"})
    plain, one, two = (build(llvm, text + t) for t in ("", cold.format(1), cold.format(2)))
    report = verify(one, two, llvm)
    assert different(report) == {"text"}
    assert report.checks["text"].hunks[0].section == ".text_cold"
    for a, b in ((plain, one), (one, plain)):
        report = verify(a, b, llvm)
        assert "text" in different(report)
        assert [f.place for f in report.checks["text"].findings] == ["section .text_cold"]


# --- code that reaches out at a baked distance


def padded_metadata(target: str, size: int) -> str:
    kernel = KERNEL_METADATA.format(name="one", wave=32 if target.startswith("gfx1") else 64)
    return f"amdhsa.version: [ 1, 2 ]\nnote: {'x' * size}\namdhsa.kernels:\n{kernel}"


GETPC = {
    "gfx803": "s_getpc_b64 s[4:5]",
    "gfx942": "s_getpc_b64 s[4:5]",
    "gfx1030": "s_getpc_b64 s[4:5]",
    "gfx1100": "s_getpc_b64 s[4:5]",
    "gfx1250": "s_get_pc_i64 s[4:5]",
}


@pytest.mark.parametrize("target", GETPC)
def test_equal_code_whose_surroundings_moved(llvm: Llvm, target: str) -> None:
    def pair(body: str) -> tuple[CodeObject, CodeObject]:
        return tuple(  # type: ignore[return-value]
            build(llvm, source({"one": body}, target, metadata=padded_metadata(target, n)), target)
            for n in (1, 200)
        )

    # Without a look at the program counter nothing can be reached that moved: no LLVM is asked.
    report = verify(*pair("s_nop 0\ns_endpgm"))
    assert report.verdicts["text"] == "identical"
    assert report.verdicts["descriptors"] == "equivalent"
    report = verify(*pair(f"{GETPC[target]}\ns_add_u32 s4, s4, 0x100\ns_endpgm"), llvm)
    assert different(report) == {"metadata", "text"}
    (finding,) = report.checks["text"].findings
    assert finding.original == GETPC[target] and "moved" in finding.note


# --- bits that the disassembler ignores


MFMA = (
    "v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[0:3], v20, v21 "
    "op_sel_hi:[0,0,0]"
)


def test_one_ignored_bit(llvm: Llvm) -> None:
    co = build(llvm, source({"one": f"{MFMA}\ns_endpgm"}, "gfx950"), "gfx950")
    at = offset_of(co, co.kernels[0].entry)
    report = verify(co, flipped(co, at + 1, 5), llvm)  # bit 13
    assert report.verdicts["text"] == "equivalent" and report.equivalent
    assert not report.loaded_identical and not report.checks["text"].hunks
    assert report.checks["text"].dont_care == (
        DontCare("v_mfma_scale_f32_16x16x128_f8f6f4", 1, 1, ((13, 1),)),
    )


def test_select_bits_of_scalar_sources_on_gfx1250(llvm: Llvm) -> None:
    """The hardware reads the low dword of an SGPR source for both halves, whatever they say."""
    body = "v_pk_fma_f32 v[0:1], s[4:5], v[2:3], v[6:7] op_sel_hi:[0,1,1]\ns_endpgm"
    co = build(llvm, source({"one": body}, "gfx1250"), "gfx1250")
    at = offset_of(co, co.kernels[0].entry)
    report = verify(co, flipped(co, at + 7, 3), llvm)  # bit 59, op_sel_hi[0]
    assert report.verdicts["text"] == "equivalent"
    (row,) = report.checks["text"].dont_care
    assert (row.mnemonic, row.bits) == ("v_pk_fma_f32", ((59, 1),))
    report = verify(co, flipped(co, at + 7, 4), llvm)  # bit 60, of the VGPR source: it counts
    assert different(report) == {"text"}


def test_bits_that_llvm_wants_set_on_gfx1250(llvm: Llvm) -> None:
    body = "tensor_load_to_lds s[0:3], s[4:11]\ns_endpgm"
    co = build(llvm, source({"one": body}, "gfx1250"), "gfx1250")
    at = offset_of(co, co.kernels[0].entry)
    report = verify(co, patched(co, at, bytes([co.data[at] & ~1])), llvm)
    assert report.verdicts["text"] == "equivalent"
    (row,) = report.checks["text"].dont_care
    assert (row.mnemonic, row.bits) == ("tensor_load_to_lds", ((0, 1),))


# --- real objects


def plain_clang(llvm: Llvm, co: CodeObject, folder: Path) -> CodeObject:
    """What plain clang makes of the listing of *co*: pins are comments to it."""
    listing, out = folder / "a.s", folder / "a.co"
    listing.write_text(exact_listing(co, llvm).text, "utf-8", "surrogateescape")
    subprocess.run(
        [
            *(llvm.clang, "-x", "assembler", "--target=amdgcn-amd-amdhsa"),
            f"-mcpu={co.target}",
            f"-mcode-object-version={co.code_object_version}",
            *(str(listing), "-o", str(out)),
        ],
        check=True,
    )
    return load(out)


def test_f4gemm_after_plain_clang(llvm: Llvm, corpus: list[Path], tmp_path: Path) -> None:
    name = "f4gemm_bf16_per1x32Fp4_BpreShuffle_256x256.co"
    path = next((p for p in corpus if p.name == name), None)
    if path is None:
        pytest.skip(f"COASM_CORPUS={os.environ['COASM_CORPUS']} holds no {name}")
    co = load(path)
    rebuilt = plain_clang(llvm, co, tmp_path)
    report = verify(co, rebuilt, llvm)
    assert report.equivalent and report.verdicts["text"] == "equivalent"
    assert {n for n, v in report.verdicts.items() if v == "identical"} == {
        "header",
        "descriptors",
        "metadata",
    }
    (row,) = report.checks["text"].dont_care
    assert (row.mnemonic, row.bytes) == ("v_mfma_scale_f32_16x16x128_f8f6f4", 508)
    assert [bit for bit, _ in row.bits] == [13, 14]


def test_the_work_of_a_comparison_grows_with_the_kernel(llvm: Llvm) -> None:
    lines = [f"v_add_f32 v{n % 16}, v{n // 16 % 16}, v{n // 7 % 16}" for n in range(30000)]
    edited = ["s_nop 3", *lines[:20000], *lines[20001:], "s_nop 4"]
    co, other = (object_of(llvm, "\n".join([*t, "s_endpgm"])) for t in (lines, edited))
    with calls() as made:
        report = verify(co, other, llvm)
    assert made.number < 100 * 30000  # a square would be 900 million
    assert len(rows(report.checks["text"])) == 3
