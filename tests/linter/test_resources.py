"""Resource rules: kernels whose limits are plain to see, LLVM's own count of registers, real ones.

The limits are those of LLVM's *User Guide for AMDGPU Backend*, "Kernel Descriptor": VGPRs in
granules of 8 on gfx90a and later CDNA, 4 on gfx906, 8 on wave32; SGPRs in granules of 8.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coasm.codeobject import load
from coasm.linter.declarations import check_declarations
from coasm.linter.findings import ADVICE, ERROR, Finding
from coasm.linter.resources import check_entries, check_resources
from coasm.llvm import Llvm
from tests.edits import compile_fixture
from tests.linter.kernels import build, ended, listing, program_of, said


def findings(
    llvm: Llvm, body: str, target: str = "gfx942", metadata: Any = None, **given: Any
) -> list[Finding]:
    text = listing(body, target, metadata, **given)
    return check_resources(program_of(llvm, text, target))


# --- registers -----------------------------------------------------------------------------

REGISTERS = [
    ("gfx942", "v_mov_b32 v31, 0", {}, None),
    ("gfx942", "v_mov_b32 v32, 0", {}, ("vgpr-range", ERROR, "v32")),
    ("gfx942", "v_mov_b32 v31, 0", {"next_free_vgpr": 25, "accum_offset": 28}, None),
    ("gfx942", "global_load_dwordx4 v[30:33], v[0:1], off", {}, ("vgpr-range", ERROR, "v33")),
    # AGPRs start at accum_offset; without any, the VGPRs may take what they would.
    ("gfx942", "v_accvgpr_write_b32 a7, 0", {"next_free_vgpr": 40}, None),
    ("gfx942", "v_accvgpr_write_b32 a8, 0", {"next_free_vgpr": 40}, ("agpr-range", ERROR, "a8")),
    ("gfx942", "v_mov_b32 v39, 0", {"next_free_vgpr": 40}, None),
    (
        "gfx942",
        "v_mov_b32 v32, 0\n\tv_accvgpr_write_b32 a0, 0",
        {"next_free_vgpr": 40},
        ("vgpr-range", ERROR, "v32"),
    ),
    # gfx908 has as many AGPRs as VGPRs.
    ("gfx908", "v_accvgpr_write_b32 a31, v0", {}, None),
    ("gfx908", "v_accvgpr_write_b32 a32, v0", {}, ("agpr-range", ERROR, "a32")),
    ("gfx906", "v_mov_b32 v11, 0", {"next_free_vgpr": 9}, None),  # a granule of 4
    ("gfx906", "v_mov_b32 v12, 0", {"next_free_vgpr": 9}, ("vgpr-range", ERROR, "v12")),
    # gfx1100 declares in granules of 8 and allocates in granules of 24.
    ("gfx1100", "v_mov_b32 v15, 0", {"next_free_vgpr": 16}, None),
    ("gfx1100", "v_mov_b32 v16, 0", {"next_free_vgpr": 16}, ("vgpr-range", ADVICE, "v16")),
    ("gfx1100", "v_mov_b32 v24, 0", {"next_free_vgpr": 16}, ("vgpr-range", ERROR, "v24")),
    # The upper half of v3 is no v131.
    ("gfx1100", "v_mov_b16 v3.h, 0", {"next_free_vgpr": 8}, None),
]
# 12 and the 4 with XNACK_MASK and VCC make 16.
SIXTEEN = {"next_free_sgpr": 12, "reserve_vcc": 0, "reserve_flat_scratch": 0}
SGPRS = [
    ("gfx906", "s_mov_b32 s15, 0", SIXTEEN, None),
    (
        "gfx906",
        "s_mov_b32 s16, 0",
        SIXTEEN,
        ("sgpr-range", ERROR, "s16"),
    ),
    ("gfx1030", "s_mov_b32 s105, 0", {}, None),  # every wave has them all
]


@pytest.mark.parametrize(("target", "body", "given", "expected"), REGISTERS + SGPRS)
def test_registers(
    target: str,
    body: str,
    given: dict[str, int],
    expected: tuple[str, str, str] | None,
    llvm: Llvm,
) -> None:
    found = findings(llvm, ended(f"\t{body}"), target, **given)
    if expected is None:
        assert found == []
        return
    (finding,) = found
    assert (finding.rule, finding.level) == expected[:2] and finding.kernel == "k"
    assert finding.what.startswith(f"{expected[2]} is used")
    assert finding.place.text.startswith(body.split("\n")[0].split()[0])


@pytest.mark.parametrize("target", ["gfx900", "gfx1030", "gfx1201"])
@pytest.mark.parametrize("registers", ["v7", "v[8:11]", "v96", "v[253:255]"])
def test_as_many_registers_as_llvm_counts(target: str, registers: str, llvm: Llvm) -> None:
    # LLVM's assembler keeps one more than the highest VGPR in a symbol.
    load_name = {"v[8:11]": "dwordx4", "v[253:255]": "dwordx3"}.get(registers, "dword")
    body = ended(f"\tglobal_load_{load_name} {registers}, v[0:1], off")
    for less in (0, 1):
        count = f"((.amdgcn.next_free_vgpr+7)/8*8-{8 * less})"
        if registers == "v7" and less:
            continue  # a kernel has at least one granule
        text = listing(body, target, next_free_vgpr=count)
        found = check_declarations(program_of(llvm, text, target))
        assert [f.rule for f in found] == ["vgpr-range"] * less


def test_code_behind_a_call_counts_and_other_kernels_do_not(llvm: Llvm) -> None:
    body = "\ts_getpc_b64 s[4:5]\n\ts_swappc_b64 s[30:31], s[4:5]\n\tv_mov_b32 v40, 0\n\ts_endpgm"
    assert said(findings(llvm, body)) == [("vgpr-range", ERROR)]
    beyond = "\ts_endpgm\n\t.globl f\n\t.type f,@function\nf:\n\tv_mov_b32 v40, 0\n\ts_endpgm"
    assert findings(llvm, beyond) == []


# --- LDS -----------------------------------------------------------------------------------

LDS = [
    ("ds_read_b64 v[0:1], v0 offset:56", None),
    ("ds_read_b64 v[0:1], v0 offset:60", 67),
    ("ds_write_b8 v0, v0 offset:63", None),
    ("ds_write_b8 v0, v0 offset:64", 64),
    ("ds_read2_b32 v[0:1], v0 offset0:3 offset1:15", None),
    ("ds_read2_b32 v[0:1], v0 offset0:16 offset1:1", 67),
    ("ds_read2st64_b32 v[0:1], v0 offset1:1", 259),
    ("ds_add_u32 v0, v0 offset:60", None),
    ("ds_add_u64 v0, v[0:1] offset:60", 67),
    ("ds_swizzle_b32 v0, v0 offset:0xffff", None),  # a pattern
    ("ds_bpermute_b32 v0, v0, v0 offset:512", None),  # no memory
]


@pytest.mark.parametrize(("body", "last"), LDS)
def test_lds(body: str, last: int | None, llvm: Llvm) -> None:
    found = findings(llvm, ended(f"\t{body}"), group_segment_fixed_size=64)
    assert said(found) == ([] if last is None else [("lds-range", ADVICE)])
    assert all(f.what.startswith(f"LDS byte {last} is used") for f in found)


def test_lds_that_a_launch_adds_and_more_than_there_is(llvm: Llvm) -> None:
    body = ended("\tds_read_b64 v[0:1], v0 offset:60")
    arguments = {".args": "[{.offset: 0, .size: 4, .value_kind: dynamic_shared_pointer}]"}
    assert findings(llvm, body, metadata=arguments, group_segment_fixed_size=64) == []
    # 64 KiB on gfx942, 160 KiB on gfx950 (CDNA4 ISA guide, "Local data share").
    for target, expected in (("gfx942", [("lds-range", ERROR)]), ("gfx950", [])):
        assert said(findings(llvm, body, target, group_segment_fixed_size=65540)) == expected


# --- kernel arguments ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("s_load_dwordx2 s[4:5], s[0:1], 0x8", []),
        ("s_load_dwordx4 s[4:7], s[0:1], 0x8", [("kernarg-range", ADVICE)]),
        ("s_load_dword s4, s[0:1], 0x10", [("kernarg-range", ERROR)]),
        ("s_load_dword s4, s[0:1], -4", [("kernarg-range", ERROR)]),
        ("s_add_u32 s0, s0, 16\n\ts_addc_u32 s1, s1, 0\n\ts_load_dword s4, s[0:1], -4", []),
    ],
)
def test_kernel_arguments(body: str, expected: list[tuple[str, str]], llvm: Llvm) -> None:
    assert said(findings(llvm, ended(f"\t{body}"))) == expected


# --- initial registers ---------------------------------------------------------------------

Y = {"system_sgpr_workgroup_id_y": 1}
INITIAL: list[tuple[str, str, dict[str, int], list[str]]] = [
    # s[0:1] the kernarg pointer, s2 workgroup ID x, which is on by default.
    ("gfx942", "s_add_u32 s5, s2, s0", {}, []),
    ("gfx942", "s_mov_b32 s5, s3", {}, ["s3 error"]),
    ("gfx942", "s_mov_b32 s5, s3\n\ts_mov_b32 s5, s3", {}, ["s3 error"]),
    ("gfx942", "s_mov_b32 s5, s3", Y, []),
    # The upper half is not read, or only copied, or half of an integer; or it is used.
    ("gfx942", "v_pk_mul_f32 v[6:7], v[2:3], s[2:3] op_sel_hi:[1,0]", {}, []),
    ("gfx942", "v_pk_mul_f32 v[6:7], v[2:3], s[2:3]", {}, ["s3 error"]),
    ("gfx942", "v_pk_mov_b32 v[6:7], s[2:3], s[2:3]", {}, []),
    ("gfx942", "v_mov_b64 v[6:7], s[2:3]", {}, ["s3 advice"]),
    ("gfx942", "v_writelane_b32 v6, s3, 0", {}, ["s3 advice"]),
    ("gfx942", "s_lshl_b64 s[4:5], s[2:3], 4", {}, ["s3 advice"]),
    ("gfx942", "s_load_dword s4, s[2:3], 0x0\n\ts_waitcnt lgkmcnt(0)", {}, ["s3 error"]),
    ("gfx942", "s_mov_b32 s5, s3", {"user_sgpr_dispatch_ptr": 1}, []),
    ("gfx942", "s_mov_b32 s5, s2", {"user_sgpr_kernarg_segment_ptr": 0}, ["s2 error"]),
    ("gfx942", "s_mov_b32 s5, s4", {"user_sgpr_kernarg_preload_length": 2}, []),
    ("gfx942", "s_mov_b32 s5, s30", {}, ["s30 advice"]),
    ("gfx942", "s_load_dword s4, s[2:3], 0x0", {}, ["s3 error"]),
    ("gfx942", "s_cmp_eq_u32 s4, 0", {}, ["s4 error"]),
    ("gfx942", "buffer_load_dword v1, off, s[4:7], s2", {}, [f"s{n} error" for n in range(4, 8)]),
    ("gfx942", "v_readfirstlane_b32 s4, v0\n\ts_mov_b32 s5, s4", {}, []),
    ("gfx942", "v_add_co_u32 v0, s[4:5], v0, v0\n\ts_mov_b64 s[6:7], s[4:5]", {}, []),
    ("gfx942", "v_cmp_eq_u32 s[4:5], v0, v0\n\ts_mov_b64 s[6:7], s[4:5]", {}, []),
    ("gfx942", "s_xor_b32 s4, s4, s4\n\ts_mov_b32 s5, s4", {}, []),
    ("gfx942", "s_cbranch_scc1 1f\n\ts_mov_b32 s4, 0\n1:\n\ts_mov_b32 s5, s4", {}, []),
    ("gfx942", "1:\n\ts_mov_b32 s5, s4\n\ts_mov_b32 s4, 0\n\ts_cbranch_scc1 1b", {}, []),
    ("gfx942", "s_getpc_b64 s[4:5]\n\ts_swappc_b64 s[30:31], s[4:5]\n\ts_mov_b32 s5, s9", {}, []),
    ("gfx900", "v_mov_b32 v3, v1", {}, ["v1 advice"]),
    ("gfx900", "v_mov_b32 v3, v1", {"system_vgpr_workitem_id": 1}, []),
    ("gfx900", "v_add_u32 v3, v1, v2", {"system_vgpr_workitem_id": 1}, ["v2 advice"]),
    ("gfx942", "v_mov_b32 v3, v1", {"system_vgpr_workitem_id": 1}, ["v1 advice"]),  # packed
    ("gfx900", "v_add_u32 v1, v0, v0\n\tv_mov_b32 v3, v1", {}, []),
    ("gfx1100", "s_mov_b32 s5, s2", {}, []),
    ("gfx1100", "s_sendmsg_rtn_b32 s4, sendmsg(MSG_RTN_GET_DOORBELL)", {}, []),
    ("gfx1200", "s_mov_b32 s5, ttmp9", {}, []),  # workgroup ID x
    ("gfx1200", "s_mov_b32 s5, s2", {}, ["s2 error"]),
    # The wave's scratch offset follows the workgroup IDs.
    ("gfx900", "s_mov_b32 s5, s3", {}, ["s3 error"]),
    ("gfx900", "s_add_u32 s0, s0, s7", {"user_sgpr_private_segment_buffer": 1}, []),
    ("gfx900", "s_add_u32 s0, s0, s8", {"user_sgpr_private_segment_buffer": 1}, ["s8 error"]),
    ("gfx900", "s_mov_b32 s5, s3", {"system_sgpr_private_segment_wavefront_offset": 1}, []),
]


@pytest.mark.parametrize(("target", "body", "given", "expected"), INITIAL)
def test_initial_registers(
    target: str, body: str, given: dict[str, int], expected: list[str], llvm: Llvm
) -> None:
    found = findings(llvm, ended(f"\t{body}"), target, **given)
    assert {finding.rule for finding in found} <= {"user-sgpr"}
    assert [f"{f.what.split()[0]} {f.level}" for f in found] == expected


# --- scratch -------------------------------------------------------------------------------

PRIVATE = {"user_sgpr_private_segment_buffer": 1}  # s[0:3]; the kernarg pointer follows
SIZED = {"private_segment_fixed_size": 16}
OFFSET = {"system_sgpr_private_segment_wavefront_offset": 1}
THROUGH = "s_add_u32 s0, s0, s6\n\ts_addc_u32 s1, s1, 0\n\tbuffer_store_dword v0, off, s[0:3], 0"


@pytest.mark.parametrize(
    ("target", "body", "given", "wrong"),
    [
        ("gfx942", "scratch_load_dword v1, off, s0", {}, True),
        ("gfx942", "scratch_load_dword v1, off, s0", SIZED | {"enable_private_segment": 1}, False),
        ("gfx942", "scratch_load_dword v1, off, s0", SIZED, True),
        (
            "gfx942",
            "scratch_load_dword v1, off, s0",
            {"uses_dynamic_stack": 1, "enable_private_segment": 1},
            False,
        ),
        ("gfx900", THROUGH, PRIVATE, True),
        ("gfx900", THROUGH, PRIVATE | SIZED | OFFSET, False),
        ("gfx900", f"s_load_dwordx4 s[0:3], s[4:5], 0x0\n\t{THROUGH}", PRIVATE, False),
        ("gfx900", THROUGH, {}, False),
    ],
)
def test_scratch(target: str, body: str, given: dict[str, int], wrong: bool, llvm: Llvm) -> None:
    found = findings(llvm, ended(f"\t{body}"), target, **given)
    assert [f for f in said(found) if f[0] == "scratch"] == [("scratch", ERROR)] * wrong


# --- workgroups ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "vgprs", "metadata", "expected"),
    [
        # 512 VGPRs on each of 4 SIMDs: one wave of 64 lanes each, so 256 work-items.
        ("gfx942", 512, {".max_flat_workgroup_size": 256}, []),
        ("gfx942", 512, {".max_flat_workgroup_size": 257}, [("workgroup-registers", ADVICE)]),
        ("gfx942", 512, {".reqd_workgroup_size": [512, 1, 1]}, [("workgroup-registers", ERROR)]),
        ("gfx942", 256, {".reqd_workgroup_size": [64, 8, 1]}, []),
        # The largest workgroup of 1024 has 4 waves on each SIMD: 128 VGPRs.
        ("gfx942", 128, {".max_flat_workgroup_size": 1024}, []),
        ("gfx942", 136, {".max_flat_workgroup_size": 1024}, [("workgroup-registers", ADVICE)]),
        # gfx906: 256 VGPRs on each SIMD.
        ("gfx906", 64, {".max_flat_workgroup_size": 1024}, []),
        ("gfx906", 68, {".max_flat_workgroup_size": 1024}, [("workgroup-registers", ADVICE)]),
    ],
)
def test_workgroups(
    target: str, vgprs: int, metadata: Any, expected: list[tuple[str, str]], llvm: Llvm
) -> None:
    found = findings(llvm, "\ts_endpgm", target, metadata, next_free_vgpr=vgprs)
    assert said(found) == expected


# --- descriptor and metadata ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "level", "what"),
    [
        ({".group_segment_fixed_size": 64}, ERROR, "0 LDS bytes"),
        ({".private_segment_fixed_size": 64}, ERROR, "0 scratch bytes"),
        ({".kernarg_segment_size": 24}, ERROR, "16 kernarg bytes"),
        ({".wavefront_size": 32}, ERROR, "64 lanes"),
        ({".vgpr_count": 33}, ADVICE, "32 VGPRs"),
        ({".sgpr_count": 200}, ADVICE, "SGPRs"),
        ({".vgpr_count": 32, ".wavefront_size": 64}, None, ""),
    ],
)
def test_metadata(metadata: Any, level: str | None, what: str, llvm: Llvm) -> None:
    found = findings(llvm, "\ts_endpgm", metadata=metadata)
    assert said(found) == ([] if level is None else [("metadata", level)])
    assert all(what in finding.what for finding in found)


# --- where flow goes -----------------------------------------------------------------------

CODE_END = "\t.p2alignl 6, 3214868480\n\t.fill 16, 4, 3214868480"  # s_code_end


@pytest.mark.parametrize(
    ("target", "body", "expected"),
    [
        ("gfx942", "\ts_cbranch_scc0 1f\n\ts_endpgm\n1:\n\ts_branch 1b", []),
        ("gfx942", "\ts_nop 0", [("fall-through", ERROR)]),
        ("gfx942", "\ts_cbranch_scc0 1f\n\ts_endpgm\n1:\n\ts_nop 0", [("fall-through", ERROR)]),
        ("gfx942", "\ts_endpgm\n\ts_nop 0", []),  # nothing goes there
        ("gfx942", "\ts_trap 2", []),
        ("gfx942", "\ts_swappc_b64 s[30:31], s[0:1]", []),  # it need not return
        ("gfx1100", "\ts_endpgm\n" + CODE_END, []),
        ("gfx1100", "\ts_nop 0\n" + CODE_END, [("fall-through", ERROR), ("fall-through", ERROR)]),
        # Behind the 4 bytes of the branch: 256 words further, then the middle of 8 bytes.
        ("gfx942", "\ts_cbranch_scc0 256\n\ts_endpgm", [("branch-range", ERROR)]),
        ("gfx942", "\ts_branch 1\n\tv_mov_b32 v0, 0x12345\n\ts_endpgm", [("branch-range", ERROR)]),
        (
            "gfx942",
            "\ts_branch d\n\t.type d,@object\n\t.size d, 4\nd:\n\t.long 1",
            [("branch-range", ERROR)],
        ),
        # Words that LLVM does not know may be code all the same.
        ("gfx942", "\ts_nop 0\n\t.long 0xffffffff", [("fall-through", ADVICE)]),
    ],
)
def test_flow(target: str, body: str, expected: list[tuple[str, str]], llvm: Llvm) -> None:
    assert said(findings(llvm, body, target)) == expected


def test_flow_into_another_kernel(llvm: Llvm) -> None:
    text = listing("\ts_nop 0", next_free_vgpr=8, accum_offset=4)
    second = (
        "\t.text\n\t.globl l\n\t.type l,@function\nl:\n\tv_mov_b32 v31, 0\n\ts_endpgm\n\t.rodata"
    )
    text = text.replace("\t.rodata", second, 1)
    descriptor = text[text.index("\t.amdhsa_kernel") : text.index("\t.amdgpu_metadata")]
    other = descriptor.replace("amdhsa_kernel k", "amdhsa_kernel l").replace("vgpr 8", "vgpr 32")
    text = text.replace("\t.amdgpu_metadata", other + "\t.amdgpu_metadata", 1)
    entry = text[text.index("  - .name: k") : text.index("...\n")]
    text = text.replace("...\n", entry.replace(": k", ": l") + "...\n", 1)
    # What runs into l is k's last instruction, but l's registers are not k's.
    (finding,) = check_resources(program_of(llvm, text, "gfx942"))
    assert (finding.rule, finding.level, finding.kernel) == ("fall-through", ADVICE, "k")
    assert "'l'" in finding.what


def test_an_entry_that_is_no_instruction(llvm: Llvm) -> None:
    co = program_of(llvm, listing("\tv_mov_b32 v0, 0x12345\n\ts_endpgm"), "gfx942").co
    data = bytearray(co.data)
    at = co.data.index(co.kernels[0].descriptor) + 16
    data[at : at + 8] = (int.from_bytes(data[at : at + 8], "little") + 4).to_bytes(8, "little")
    found = check_entries(build(load(bytes(data), name="moved.co"), llvm))
    assert said(found) == [("branch-range", ERROR)]


# --- objects that work ---------------------------------------------------------------------


@pytest.mark.parametrize("target", ["gfx803", "gfx906", "gfx90a", "gfx942", "gfx1030", "gfx1201"])
@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_what_clang_writes_has_no_error(
    target: str, level: str, tmp_path: Path, llvm: Llvm
) -> None:
    path = compile_fixture(llvm, tmp_path, "compiled.cl", target, (level,))
    program = build(load(path), llvm)
    assert program.kernels
    assert [f for f in check_resources(program) if f.level == ERROR] == []
