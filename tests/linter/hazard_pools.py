"""Instructions on few registers for each generation: what programs at random are made of.

Between them they make every hazard that LLVM knows of the generation. :data:`CLEARING` are waits
and fillers that stand in between.
"""

from __future__ import annotations

__all__ = ["CLEARING", "POOLS"]

_GFX9_VALU = """
v_mov_b32_e32 v0, v8
v_mov_b32_e32 v8, v0
v_mov_b32_e32 v0, s0
v_mov_b32_e32 v0, m0
v_mov_b64 v[0:1], s[0:1]
v_add_co_u32_e32 v0, vcc, v8, v9
v_addc_co_u32_e32 v8, vcc, v0, v9, vcc
v_cmp_eq_u32_e32 vcc, v0, v8
v_cmp_eq_u32_e64 s[0:1], v0, v8
v_cmpx_eq_u32_e64 s[2:3], v0, v8
v_readlane_b32 s0, v0, s1
v_readfirstlane_b32 s0, v0
v_writelane_b32 v0, s0, s0
v_div_fmas_f32 v8, v9, v10, v11
v_mov_b32_dpp v8, v0 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
v_add_f32_dpp v0, v8, v9 row_shl:1 row_mask:0xf bank_mask:0xf
v_rcp_f32_e32 v0, v8
v_cndmask_b32_e64 v8, v9, v10, s[0:1]
v_add_u32_sdwa v0, v8, v9 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:DWORD
v_fma_f64 v[0:1], v[8:9], v[10:11], v[12:13]
"""
_GFX9_OTHER = """
s_mov_b32 s0, s9
s_mov_b32 m0, s9
s_mov_b64 exec, s[8:9]
s_mov_b64 vcc, s[8:9]
s_setreg_b32 hwreg(HW_REG_MODE), s0
s_setreg_b32 hwreg(HW_REG_TRAPSTS), s0
s_getreg_b32 s0, hwreg(HW_REG_MODE)
s_sendmsg sendmsg(MSG_INTERRUPT)
s_movrels_b32 s8, s0
s_rfe_b64 s[8:9]
s_load_dword s0, s[8:9], 0x0
s_load_dword s8, s[0:1], 0x0
global_load_dword v0, v[8:9], off
global_load_dword v8, v[0:1], off
global_load_dword v8, v9, s[0:1]
global_store_dwordx4 v[8:9], v[0:3], off
global_store_dwordx2 v[8:9], v[0:1], off
buffer_store_dwordx4 v[0:3], v8, s[0:3], 0 offen
buffer_store_dwordx4 v[0:3], v8, s[8:11], s0 offen
buffer_load_dword v0, v8, s[0:3], 0 offen
buffer_load_dword v0, s[8:11], 0 offen lds
flat_load_dword v0, v[8:9]
flat_store_dwordx3 v[8:9], v[0:2]
ds_read_b32 v0, v8
ds_write_b32 v8, v0
ds_read_addtid_b32 v0
"""
_MFMA_908 = """
v_accvgpr_read_b32 v0, a0
v_accvgpr_read_b32 v8, a2
v_accvgpr_write_b32 a0, v0
v_accvgpr_write_b32 a2, v8
v_mfma_f32_4x4x1f32 a[0:3], v0, v1, a[0:3]
v_mfma_f32_4x4x1f32 a[32:35], v8, v9, a[2:5]
v_mfma_f32_4x4x4f16 a[0:3], v[0:1], v[8:9], a[0:3]
v_mfma_f32_4x4x1f32 a[32:35], a0, a1, a[40:43]
v_mfma_f32_16x16x4f32 a[0:3], v8, v9, a[32:35]
v_mfma_f32_16x16x16f16 a[32:35], v[0:1], v[8:9], a[0:3]
v_mfma_f32_32x32x1f32 a[0:31], v8, v9, a[32:63]
v_mfma_i32_32x32x8i8 a[32:47], v8, v9, a[0:15]
"""
_MFMA_90A = """
v_accvgpr_read_b32 v0, a0
v_accvgpr_write_b32 a0, v0
v_accvgpr_mov_b32 a0, a2
v_dot4_i32_i8 v0, v8, v9, v10
v_dot4_i32_i8 v8, v0, v9, v10
v_dot4_i32_i8 v8, v9, v10, v0
v_dot2_f32_f16 v0, v8, v9, v10
v_mfma_f32_4x4x1f32 v[0:3], v8, v9, v[0:3]
v_mfma_f32_4x4x1f32 v[32:35], v8, v9, v[2:5]
v_mfma_f32_4x4x4f16 v[0:3], v[8:9], v[10:11], v[32:35]
v_mfma_f32_16x16x4f32 v[0:3], v8, v9, v[32:35]
v_mfma_f32_16x16x4f32 v[32:35], v0, v8, v[32:35]
v_mfma_f32_16x16x16bf16_1k v[32:35], v[8:9], v[2:3], v[0:3]
v_mfma_f32_32x32x1f32 v[0:31], v40, v41, v[64:95]
v_mfma_i32_32x32x8i8 a[0:15], v8, v9, a[0:15]
v_mfma_f64_4x4x4f64 v[0:1], v[8:9], v[10:11], v[0:1]
v_mfma_f64_4x4x4f64 v[32:33], v[0:1], v[10:11], v[2:3]
v_mfma_f64_16x16x4f64 v[0:7], v[8:9], v[10:11], v[32:39]
v_mfma_f64_16x16x4f64 v[32:39], v[8:9], v[10:11], v[2:9]
"""


def _lines(*texts: str, but: str = "") -> list[str]:
    lines = [line for text in texts for line in text.strip().splitlines()]
    return [line for line in lines if not but or not line.startswith(tuple(but.split()))]


#: Processor → instructions.
POOLS: dict[str, list[str]] = {
    "gfx900": _lines(_GFX9_VALU, _GFX9_OTHER, but="v_mov_b64"),
    "gfx908": _lines(_GFX9_VALU, _GFX9_OTHER, _MFMA_908, but="v_mov_b64"),
    "gfx90a": _lines(_GFX9_VALU, _GFX9_OTHER, _MFMA_90A, but="v_mov_b64"),
}
#: Processor → what may stand between.
CLEARING: dict[str, list[str]] = {
    name: ["s_nop 0", "s_nop 4", "s_mov_b32 s90, s91", "v_mov_b32_e32 v200, v201", "s_waitcnt 0"]
    for name in POOLS
}
