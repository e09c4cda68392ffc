"""Registers read and written, worked out by hand from the ISA guides."""

from __future__ import annotations

import subprocess

import pytest

from coasm.errors import UnsupportedError
from coasm.isa import AGPR, EXEC, M0, SCC, VCC, VGPR, access, parse
from coasm.llvm import Llvm

E = {EXEC, EXEC + 1}


def v(*numbers: int) -> set[int]:
    return {VGPR + n for n in numbers}


def a(*numbers: int) -> set[int]:
    return {AGPR + n for n in numbers}


CASES = [
    ("v_add_u32_e32 v1, s2, v3", {2} | v(3) | E, v(1)),
    ("v_fmac_f32_e32 v1, v2, v3", v(1, 2, 3) | E, v(1)),
    ("v_cmp_lt_u32_e32 vcc, v8, v0", v(0, 8) | E, {VCC, VCC + 1}),
    ("v_cmpx_lt_u32_e64 s[2:3], v8, v0", v(0, 8) | E, {2, 3} | E),
    ("v_addc_co_u32_e32 v1, vcc, v2, v3, vcc", v(2, 3) | {VCC, VCC + 1} | E, v(1) | {VCC, VCC + 1}),
    ("v_div_fmas_f32 v0, v1, v2, v3", v(1, 2, 3) | {VCC, VCC + 1} | E, v(0)),
    ("v_mad_u64_u32 v[0:1], s[2:3], v4, v5, v[6:7]", v(4, 5, 6, 7) | E, v(0, 1) | {2, 3}),
    # op_sel chooses what the low lane takes, op_sel_hi (1 where it is not there) the high one.
    ("v_pk_mul_f32 v[6:7], v[2:3], s[6:7] op_sel_hi:[1,0]", v(2, 3) | {6} | E, v(6, 7)),
    ("v_pk_mul_f32 v[6:7], v[2:3], s[6:7]", v(2, 3) | {6, 7} | E, v(6, 7)),
    ("v_pk_add_f32 v[6:7], v[2:3], s[6:7] op_sel:[0,1]", v(2, 3) | {7} | E, v(6, 7)),
    (
        "v_pk_fma_f32 v[6:7], v[2:3], s[6:7], v[8:9] op_sel:[0,0,1] op_sel_hi:[0,1,1]",
        v(2, 9) | {6, 7} | E,
        v(6, 7),
    ),
    # D.lo is a half of the first source, D.hi of the second; op_sel_hi says nothing.
    ("v_pk_mov_b32 v[6:7], v[2:3], v[4:5]", v(2, 4) | E, v(6, 7)),
    ("v_pk_mov_b32 v[6:7], v[2:3], v[4:5] op_sel:[1,0]", v(3, 4) | E, v(6, 7)),
    ("v_pk_mov_b32 v[6:7], v[2:3], v[4:5] op_sel:[0,1] op_sel_hi:[0,0]", v(2, 5) | E, v(6, 7)),
    ("v_permlane16_swap_b32_e32 v1, v2", v(1, 2) | E, v(1, 2)),
    ("v_readfirstlane_b32 s4, v3", v(3) | E, {4}),
    ("v_writelane_b32 v3, s4, s5", v(3) | {4, 5} | E, v(3)),
    (
        "v_mfma_scale_f32_16x16x128_f8f6f4 a[0:3], v[8:11], v[12:15], a[4:7], v20, v21 cbsz:4",
        a(4, 5, 6, 7) | v(8, 9, 10, 11, 12, 13, 14, 15, 20, 21) | E,
        a(0, 1, 2, 3),
    ),
    (
        "v_cvt_f16_f32_sdwa v1, v2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD",
        v(1, 2) | E,
        v(1),
    ),
    ("v_mov_b32_dpp v1, v2 row_shl:1 row_mask:0xf bank_mask:0xf", v(1, 2) | E, v(1)),
    ("s_add_u32 s1, s2, s3", {2, 3}, {1, SCC}),
    ("s_addc_u32 s1, s2, 0", {2, SCC}, {1, SCC}),
    ("s_mul_i32 s1, s2, s3", {2, 3}, {1}),
    ("s_cselect_b32 s1, s2, s3", {2, 3, SCC}, {1}),
    ("s_addk_i32 s1, 0x100", {1}, {1, SCC}),
    ("s_cmp_lt_u32 s1, s2", {1, 2}, {SCC}),
    ("s_and_saveexec_b64 s[0:1], vcc", {VCC, VCC + 1} | E, {0, 1, SCC} | E),
    ("s_cbranch_vccnz 5", {VCC, VCC + 1}, set()),
    ("s_load_dwordx2 s[4:5], s[0:1], 0x10", {0, 1}, {4, 5}),
    ("s_set_gpr_idx_on s92, gpr_idx(SRC0)", {92, M0}, {M0}),
    ("buffer_load_dwordx4 v[0:3], v9, s[4:7], s8 offen", v(9) | {4, 5, 6, 7, 8} | E, v(0, 1, 2, 3)),
    ("buffer_load_dword v9, s[4:7], 0 offen lds", v(9) | {4, 5, 6, 7, M0} | E, set()),
    ("buffer_store_dword v1, v2, s[4:7], 0 offen", v(1, 2) | {4, 5, 6, 7} | E, set()),
    ("buffer_atomic_pk_add_bf16 v1, v2, s[4:7], 0 offen", v(1, 2) | {4, 5, 6, 7} | E, set()),
    ("buffer_atomic_add v1, v2, s[4:7], 0 offen sc0", v(1, 2) | {4, 5, 6, 7} | E, v(1)),
    ("global_atomic_add v0, v1, s[4:5]", v(0, 1) | {4, 5} | E, set()),
    ("global_atomic_add v9, v0, v1, s[4:5] sc0", v(0, 1) | {4, 5} | E, v(9)),
    ("global_load_short_d16_hi v1, v[2:3], off", v(1, 2, 3) | E, v(1)),
    ("global_store_dwordx2 v[0:1], v[2:3], off", v(0, 1, 2, 3) | E, set()),
    ("ds_read2_b32 v[2:3], v1 offset1:16", v(1) | E, v(2, 3)),
    ("ds_write_b64 v1, v[2:3]", v(1, 2, 3) | E, set()),
    ("ds_add_rtn_u32 v0, v1, v2", v(1, 2) | E, v(0)),
    ("ds_add_u32 v1, v2", v(1, 2) | E, set()),
]


@pytest.mark.parametrize(("text", "reads", "writes"), CASES, ids=[c[0].split()[0] for c in CASES])
def test_what_is_read_and_written(text: str, reads: set[int], writes: set[int]) -> None:
    used = access(parse(text), "950")
    assert (used.reads, used.writes) == (reads, writes)


@pytest.mark.parametrize(
    "hint", ["", " th:TH_ATOMIC_NT", " th:TH_ATOMIC_RETURN", " th:TH_ATOMIC_NT_RETURN"]
)
@pytest.mark.parametrize(
    ("name", "operands", "result"),
    [
        ("global_atomic_add_u32", "v2, v3, s[4:5]", "v1, "),
        ("flat_atomic_add_u32", "v[2:3], v4", "v1, "),
        ("buffer_atomic_add_u32", "v1, off, s[4:7], s3", ""),
    ],
)
def test_what_an_atomic_of_gfx12_gives_back(
    name: str, operands: str, result: str, hint: str, llvm: Llvm
) -> None:
    """LLVM's name of the instruction says whether it returns something."""
    returns = hint.endswith("RETURN")
    text = f"{name} {result if returns else ''}{operands}{hint}"
    command = [llvm.mc, "-triple=amdgcn--amdhsa", "-mcpu=gfx1200", "-show-inst"]
    shown = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    assert ("_RTN_" in shown) == returns
    assert access(parse(text), "1200").writes == (v(1) if "_RTN_" in shown else set())


def test_a_cascading_atomic_does_not_say_what_it_gives_back() -> None:
    text = "buffer_atomic_add_u32 v1, off, s[4:7], s3 th:TH_ATOMIC_CASCADE_RT"
    with pytest.raises(UnsupportedError, match="whether this buffer_atomic_add_u32 returns"):
        access(parse(text), "1200")
