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
s_load_dword s0, s[8:9], 0x4
s_load_dword s8, s[0:1], 0x4
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


_GFX10_VALU = """
v_nop
v_mov_b32_e32 v0, v8
v_mov_b32_e32 v8, v0
v_mov_b32_e32 v0, s0
v_add_f32_e32 v0, v8, v9
v_add_f32_e32 v8, v0, v9
v_rcp_f32_e32 v0, v8
v_rcp_f32_e32 v8, v0
v_cmp_eq_u32_e32 vcc_lo, v0, v8
v_cmp_eq_u32_e64 s0, v0, v8
v_cmpx_eq_u32_e32 v0, v8
v_cmpx_eq_u32_e64 v0, v8
v_readlane_b32 s0, v0, s1
v_readfirstlane_b32 s0, v0
v_permlane16_b32 v0, v8, s0, s1
v_permlanex16_b32 v8, v0, s0, s1
v_cndmask_b32_e32 v0, v8, v9, vcc_lo
v_cndmask_b32_e64 v8, v0, v9, s0
v_add_co_ci_u32_e32 v0, vcc_lo, v8, v9, vcc_lo
"""
_GFX10_SCALAR = """
s_mov_b32 s0, s9
s_mov_b32 s8, s0
s_mov_b32 m0, s9
s_mov_b32 exec_lo, s8
s_mov_b32 vcc_lo, s8
s_mov_b32 s8, exec_lo
s_mov_b32 null, 0
s_and_saveexec_b32 s0, s8
s_cmp_eq_u32 s0, s1
s_denorm_mode 15
"""
_GFX10_MEMORY = """
s_load_dword s0, s[8:9], 0x4
s_load_dword s8, s[0:1], 0x4
s_buffer_load_dword s8, s[0:3], 0x4
global_load_dword v0, v8, s[0:1]
global_load_dword v8, v[0:1], off
global_store_dword v8, v0, s[0:1]
global_store_dwordx4 v8, v[0:3], s[0:1]
buffer_load_dword v0, v8, s[0:3], s4 offen offset:4
buffer_store_dword v0, v8, s[0:3], 0 offen
flat_load_dword v0, v[8:9]
flat_store_dword v[8:9], v0
scratch_store_dword v8, v0, off
ds_read_b32 v0, v8
ds_write_b32 v8, v0
global_atomic_add v8, v0, s[0:1]
"""
_GFX10_ONLY = """
global_atomic_fmin v8, v0, s[0:1]
buffer_atomic_fmax v0, v8, s[0:3], 0 offen
ds_min_f32 v8, v0
buffer_gl0_inv
"""
_GFX11_ONLY = """
v_permlane64_b32 v0, v8
v_exp_f32_e32 v0, v8
global_atomic_min_f32 v8, v0, s[0:1]
buffer_gl0_inv
v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]
v_wmma_f32_16x16x16_f16 v[24:31], v[0:7], v[16:23], v[24:31]
v_wmma_f32_16x16x16_f16 v[24:31], v[8:15], v[16:23], v[0:7]
"""
_GFX12_ONLY = """
v_exp_f32_e32 v0, v8
v_s_exp_f32 s0, s8
v_wmma_f32_16x16x16_f16 v[0:7], v[8:11], v[16:19], v[0:7]
v_wmma_f32_16x16x16_f16 v[24:31], v[0:3], v[16:19], v[24:31]
v_wmma_f32_16x16x16_f16 v[24:31], v[8:11], v[0:3], v[24:31]
v_wmma_f32_16x16x16_f16 v[24:31], v[8:11], v[16:19], v[0:7]
v_swmmac_f32_16x16x32_f16 v[0:7], v[8:11], v[16:23], v32
v_swmmac_f32_16x16x32_f16 v[24:31], v[8:11], v[16:23], v0
s_getreg_b32 s0, hwreg(HW_REG_WAVE_STATUS)
s_getreg_b32 s0, hwreg(HW_REG_WAVE_MODE)
"""
_GFX1250_ONLY = """
v_exp_f32_e32 v0, v8
v_tanh_f32_e32 v8, v0
v_add_nc_u64_e32 v[0:1], v[8:9], v[10:11]
v_lshl_add_u64 v[8:9], v[0:1], 3, v[10:11]
v_pk_add_bf16 v0, v8, v9
v_wmma_f32_16x16x4_f32 v[0:7], v[8:9], v[16:17], v[0:7]
v_wmma_f32_16x16x4_f32 v[24:31], v[0:1], v[16:17], v[24:31]
v_wmma_f32_16x16x32_f16 v[0:7], v[8:15], v[16:23], v[0:7]
v_wmma_f32_16x16x32_f16 v[24:31], v[0:7], v[16:23], v[24:31]
v_wmma_f32_16x16x32_f16 v[24:31], v[8:15], v[16:23], v[0:7]
v_wmma_bf16_16x16x32_bf16 v[0:3], v[8:15], v[16:23], v[0:3]
v_wmma_f32_16x16x64_fp8_fp8 v[0:7], v[8:15], v[16:23], v[0:7]
v_wmma_f16_16x16x64_bf8_fp8 v[0:3], v[8:15], v[16:23], v[0:3]
v_wmma_f32_16x16x128_fp8_bf8 v[0:7], v[8:23], v[32:47], v[0:7]
v_wmma_i32_16x16x64_iu8 v[0:7], v[8:15], v[16:23], v[0:7]
v_wmma_f32_32x16x128_f4 v[0:15], v[16:31], v[32:39], v[0:15]
v_wmma_f32_16x16x128_f8f6f4 v[0:7], v[8:23], v[32:47], v[0:7]
v_swmmac_f32_16x16x64_f16 v[0:7], v[8:15], v[16:31], v32
v_swmmac_f32_16x16x64_f16 v[24:31], v[8:15], v[40:55], v0
v_swmmac_f32_16x16x128_fp8_fp8 v[0:7], v[8:15], v[16:31], v[32:33]
v_swmmac_i32_16x16x128_iu8 v[0:7], v[8:15], v[16:31], v[32:33]
s_getreg_b32 s0, hwreg(HW_REG_WAVE_MODE)
s_getreg_b32 s0, hwreg(HW_REG_WAVE_STATUS)
s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE), 1
"""
_WAITS_10 = """
s_nop 0
s_mov_b32 s90, s91
s_waitcnt lgkmcnt(0)
s_waitcnt vmcnt(0)
s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)
s_waitcnt_vscnt null, 0x4
s_waitcnt_depctr 0xffe3
s_waitcnt_depctr 0xfffe
s_waitcnt_depctr 0xfff
s_waitcnt_depctr 0xf1ff
s_waitcnt_depctr 0xfffd
v_mov_b32_e32 v200, v201
v_nop
v_cmp_eq_u32_e64 s90, v200, v201
"""


def _lines(*texts: str, but: str = "") -> list[str]:
    lines = [line for text in texts for line in text.strip().splitlines()]
    return [line for line in lines if not but or not line.startswith(tuple(but.split()))]


def _renamed(text: str, names: dict[str, str]) -> str:
    """*text* with the words that GFX11 has for others."""
    for old, new in names.items():
        text = text.replace(old, new)
    return text


_AT_11 = {
    **{"_dwordx4": "_b128", "_dword": "_b32", "ds_read": "ds_load", "ds_write": "ds_store"},
    "global_atomic_add": "global_atomic_add_u32",
}
_AT_12 = {**_AT_11, "0 offen": "null offen", "s_waitcnt_depctr": "s_wait_alu"}
_MEMORY_11, _MEMORY_12 = _renamed(_GFX10_MEMORY, _AT_11), _renamed(_GFX10_MEMORY, _AT_12)
_WAITS_12 = _renamed(_WAITS_10, _AT_12)
_BASE = (_GFX10_VALU, _GFX10_SCALAR)

#: Processor → instructions.
POOLS: dict[str, list[str]] = {
    "gfx900": _lines(_GFX9_VALU, _GFX9_OTHER, but="v_mov_b64"),
    "gfx908": _lines(_GFX9_VALU, _GFX9_OTHER, _MFMA_908, but="v_mov_b64"),
    "gfx90a": _lines(_GFX9_VALU, _GFX9_OTHER, _MFMA_90A, but="v_mov_b64"),
    "gfx1010": _lines(*_BASE, _GFX10_MEMORY, _GFX10_ONLY),
    "gfx1030": _lines(*_BASE, _GFX10_MEMORY, _GFX10_ONLY),
    "gfx1100": _lines(*_BASE, _MEMORY_11, _GFX11_ONLY),
    "gfx1150": _lines(*_BASE, _MEMORY_11, _GFX11_ONLY),
    "gfx1200": _lines(*_BASE, _MEMORY_12, _GFX12_ONLY),
    "gfx1250": _lines(*_BASE, _MEMORY_12, _GFX1250_ONLY),
    "gfx1251": _lines(*_BASE, _MEMORY_12, _GFX1250_ONLY),
}
#: Processor → what may stand between.
CLEARING: dict[str, list[str]] = {
    name: [
        "s_nop 0",
        "s_nop 4",
        "s_mov_b32 s90, s91",
        "v_mov_b32_e32 v200, v201",
        "s_waitcnt vmcnt(0)",
    ]
    for name in ("gfx900", "gfx908", "gfx90a")
}
CLEARING |= {name: _lines(_WAITS_10) for name in ("gfx1010", "gfx1030", "gfx1100", "gfx1150")}
CLEARING |= {name: _lines(_WAITS_12, but="s_waitcnt") for name in ("gfx1200", "gfx1250", "gfx1251")}
