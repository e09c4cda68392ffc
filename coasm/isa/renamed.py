"""Instructions that have another name on another target, and what takes the place of those that it
lacks: gfx90a, gfx942, gfx950.

Sources: LLVM 22 (which takes the older names of MFMAs for gfx942, too, and encodes them as the new
ones; tests/port compares the two), the CDNA2, CDNA3 and CDNA4 ISA guides, and for caches LLVM,
*User Guide for AMDGPU Backend*, "Memory Model gfx90a" and "gfx942".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from coasm.isa.table import expanded, opcode

__all__ = ["ADVICE", "CACHES", "renamed", "substitute"]

#: gfx90a's name → that of gfx942 and gfx950.
_NEWER = {
    "v_mfma_f32_32x32x1f32": "v_mfma_f32_32x32x1_2b_f32",
    "v_mfma_f32_16x16x1f32": "v_mfma_f32_16x16x1_4b_f32",
    "v_mfma_f32_4x4x1f32": "v_mfma_f32_4x4x1_16b_f32",
    "v_mfma_f32_32x32x2f32": "v_mfma_f32_32x32x2_f32",
    "v_mfma_f32_16x16x4f32": "v_mfma_f32_16x16x4_f32",
    "v_mfma_f32_32x32x4f16": "v_mfma_f32_32x32x4_2b_f16",
    "v_mfma_f32_16x16x4f16": "v_mfma_f32_16x16x4_4b_f16",
    "v_mfma_f32_4x4x4f16": "v_mfma_f32_4x4x4_16b_f16",
    "v_mfma_f32_32x32x8f16": "v_mfma_f32_32x32x8_f16",
    "v_mfma_f32_16x16x16f16": "v_mfma_f32_16x16x16_f16",
    "v_mfma_f32_32x32x4bf16_1k": "v_mfma_f32_32x32x4_2b_bf16",
    "v_mfma_f32_16x16x4bf16_1k": "v_mfma_f32_16x16x4_4b_bf16",
    "v_mfma_f32_4x4x4bf16_1k": "v_mfma_f32_4x4x4_16b_bf16",
    "v_mfma_f32_32x32x8bf16_1k": "v_mfma_f32_32x32x8_bf16",
    "v_mfma_f32_16x16x16bf16_1k": "v_mfma_f32_16x16x16_bf16",
    "v_mfma_i32_32x32x4i8": "v_mfma_i32_32x32x4_2b_i8",
    "v_mfma_i32_16x16x4i8": "v_mfma_i32_16x16x4_4b_i8",
    "v_mfma_i32_4x4x4i8": "v_mfma_i32_4x4x4_16b_i8",
    "v_mfma_f64_16x16x4f64": "v_mfma_f64_16x16x4_f64",
    "v_mfma_f64_4x4x4f64": "v_mfma_f64_4x4x4_4b_f64",
}
_OLDER = {new: old for old, new in _NEWER.items()}

#: What the bits of a vector memory instruction are called before gfx942, and on it.
CACHES: Mapping[str, str] = {"glc": "sc0", "slc": "nt", "scc": "sc1"}


def renamed(mnemonic: str, instructions: str) -> str:
    """What a mnemonic, without its encoding suffix, is called on an instruction set."""
    if opcode(mnemonic, instructions) is not None:
        return mnemonic
    other = _NEWER.get(mnemonic) or _OLDER.get(mnemonic)
    return other if other is not None and opcode(other, instructions) is not None else mnemonic


#: Names (with braces, as in the rows) → what takes their place where they are missing.
ADVICE = (
    (
        "v_mfma_f32_{16x16x8,32x32x4}_xf32",
        "there is no XF32: v_mfma_f32_16x16x4_f32 and v_mfma_f32_32x32x2_f32 multiply all bits of "
        "F32, at a fraction of the rate; or split each number into a sum of BF16s, whose products "
        "v_mfma_f32_16x16x16_bf16 adds; both round otherwise",
    ),
    (
        "v_mfma_f32_16x16x32_{f16,bf16}",
        "v_mfma_f32_16x16x16_f16 or _bf16 twice, of the low and of the high half of A's and B's "
        "registers: the same products, added in another order",
    ),
    (
        "v_mfma_f32_32x32x16_{f16,bf16}",
        "v_mfma_f32_32x32x8_f16 or _bf16 twice, of the low and of the high half of A's and B's "
        "registers: the same products, added in another order",
    ),
    (
        "v_mfma_i32_16x16x64_i8 v_mfma_i32_32x32x32_i8",
        "v_mfma_i32_16x16x32_i8 or v_mfma_i32_32x32x16_i8 twice, of the low and of the high half "
        "of A's and B's registers",
    ),
    (
        "v_mfma_i32_16x16x32_i8 v_mfma_i32_32x32x16_i8",
        "v_mfma_i32_16x16x16i8 or v_mfma_i32_32x32x8i8 twice, of the low and of the high register "
        "of A's and B's pairs",
    ),
    (
        "v_mfma_i32_{16x16x16i8,32x32x8i8}",
        "v_mfma_i32_16x16x32_i8 or v_mfma_i32_32x32x16_i8, which take two of them at once",
    ),
    (
        "v_mfma_f32_{32x32x2,16x16x2,4x4x2,32x32x4,16x16x8}bf16",
        "the BF16 MFMA of twice the K (v_mfma_f32_32x32x4_2b_bf16 and the like), which takes two "
        "of them at once, in registers of twice the size",
    ),
    (
        "v_mfma_f32_{16x16x128,32x32x64}_f8f6f4 v_mfma_scale_f32_{16x16x128,32x32x64}_f8f6f4",
        "nothing of the kind: FP8 has v_mfma_f32_16x16x32_fp8_fp8 with a quarter of the K (and "
        "numbers in FNUZ), FP6 and FP4 have to become F16 or BF16 first, and scales are "
        "multiplications",
    ),
    (
        "v_smfmac_f32_{16x16x64,32x32x32}_{f16,bf16} v_smfmac_i32_{16x16x128,32x32x64}_i8"
        " v_smfmac_f32_{16x16x128,32x32x64}_{bf8,fp8}_{bf8,fp8}",
        "the SMFMAC of half the K twice; its index has another layout and has to be made again",
    ),
    (
        "v_smfmac_f32_{16x16x32,32x32x16}_{f16,bf16} v_smfmac_i32_{16x16x64,32x32x32}_i8"
        " v_smfmac_f32_{16x16x64,32x32x32}_{bf8,fp8}_{bf8,fp8}",
        "there is no structured sparsity: the dense MFMA, of an A with its zeros",
    ),
    (
        "v_mfma_f32_{16x16x32,32x32x16}_{bf8,fp8}_{bf8,fp8}",
        "there is no FP8: the F16 MFMA, of numbers that are converted first",
    ),
    (
        "v_cvt_f32_{bf8,fp8} v_cvt_pk_f32_{bf8,fp8} v_cvt_pk_{bf8,fp8}_f32 v_cvt_sr_{bf8,fp8}_f32",
        "there is no FP8: integer instructions on its bits, or a table",
    ),
    (
        "v_cvt_scalef32_{f16,f32}_{bf8,fp8} v_cvt_scalef32_pk_{bf16,f16,f32}_{bf8,fp8,fp4}"
        " v_cvt_scalef32_pk_{bf8,fp8,fp4}_{bf16,f16,f32}"
        " v_cvt_scalef32_sr_{bf8,fp8}_{bf16,f16,f32} v_cvt_scalef32_sr_pk_fp4_{bf16,f16,f32}"
        " v_cvt_scalef32_pk32_{bf16,f16,f32}_{bf6,fp6} v_cvt_scalef32_pk32_{bf6,fp6}_{bf16,f16}"
        " v_cvt_scalef32_sr_pk32_{bf6,fp6}_{bf16,f16,f32} v_cvt_scalef32_2xpk16_{bf6,fp6}_f32",
        "nothing of the kind: FP8 has v_cvt_pk_f32_fp8 and v_cvt_pk_fp8_f32 (in FNUZ, unscaled) "
        "with a multiplication, FP6 and FP4 have integer instructions on their bits",
    ),
    (
        "ds_read_b64_tr_{b16,b4,b8} ds_read_b96_tr_b6",
        "an LDS read that does not transpose, with v_perm_b32 behind it, or another layout in LDS",
    ),
    (
        "global_load_lds_dwordx{3,4}",
        "global_load_lds_dword three or four times (its lanes are 4 bytes apart in LDS, not 16), "
        "or global_load_dwordx4 and ds_write_b128",
    ),
    (
        "global_load_lds_{dword,sbyte,sshort,ubyte,ushort}"
        " scratch_load_lds_{dword,sbyte,sshort,ubyte,ushort}",
        "buffer_load_dword and the like with lds, or a load and an LDS write",
    ),
    (
        "buffer_atomic_pk_add_bf16 global_atomic_pk_add_bf16 flat_atomic_pk_add_{bf16,f16}"
        " flat_atomic_add_f32",
        "the global atomic, where there is one (global_atomic_pk_add_bf16 on gfx942, "
        "global_atomic_pk_add_f16 and global_atomic_add_f32 on gfx90a), else a loop around a "
        "compare-and-swap",
    ),
    ("ds_pk_add_{bf16,f16} ds_pk_add_rtn_{bf16,f16}", "a loop around ds_cmpst_rtn_b32"),
    ("v_bitop3_{b16,b32}", "v_and_b32, v_or_b32, v_xor_b32, v_and_or_b32 and the like"),
    (
        "v_permlane16_swap_b32 v_permlane32_swap_b32",
        "ds_bpermute_b32, or v_mov_b32 with DPP and a select",
    ),
    ("v_cvt_f32_bf16", "v_lshlrev_b32 by 16, or v_and_b32 with 0xffff0000"),
    (
        "v_cvt_pk_bf16_f32",
        "integer instructions: add 0x7fff and the lowest bit that is kept, take the upper halves "
        "(v_perm_b32), and see to NaNs",
    ),
    ("v_cvt_pk_f16_f32", "v_cvt_f16_f32 twice and v_pack_b32_f16"),
    ("v_cvt_sr_{bf16,f16}_f32", "integer instructions: add the random bits, cut the rest off"),
    ("v_prng_b32", "a shift register of integer instructions"),
    ("v_dot2_f32_bf16 v_dot2c_f32_bf16", "v_lshlrev_b32 and v_and_b32, then v_fma_f32 twice"),
    (
        "v_maximum3_f32 v_minimum3_f32 v_pk_maximum3_f16 v_pk_minimum3_f16",
        "v_max3_f32 and the like, which take the number where the other one is a NaN",
    ),
    ("v_ashr_pk_{i8,u8}_i32", "v_ashrrev_i32, v_med3_i32 and v_perm_b32"),
    ("v_fmaak_f32 v_fmamk_f32", "v_fma_f32, with the constant in a register"),
    ("v_lshl_add_u64", "v_lshlrev_b64, v_add_co_u32 and v_addc_co_u32"),
    ("v_mov_b64", "v_mov_b32 twice, or v_pk_mov_b32"),
    (
        "v_mac_f32 v_mad_f32 v_mad_legacy_f32 v_madak_f32 v_madmk_f32",
        "v_mul_f32 and v_add_f32, which round twice as it does (v_fma_f32 rounds once); it takes "
        "subnormal numbers for zero whatever MODE says",
    ),
    ("buffer_wbinvl1 buffer_wbinvl1_vol buffer_invl2", "buffer_inv with the scope (sc0, sc1)"),
    ("buffer_inv", "buffer_wbinvl1_vol, and buffer_invl2 for what other agents wrote"),
    ("buffer_store_lds_dword", "ds_read_b32 and buffer_store_dword"),
    (
        "image_atomic_{add,and,cmpswap,dec,inc,or,smax,smin,sub,swap,umax,umin,xor}"
        " image_{get_resinfo,load,load_mip,load_mip_pck,load_mip_pck_sgn,load_pck,load_pck_sgn}"
        " image_{sample,store,store_mip,store_mip_pck,store_pck}",
        "there are no images: buffer instructions, with the address worked out",
    ),
)


@cache
def _advice() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for names, text in ADVICE:
        for pattern in names.split():
            for name in expanded(pattern):
                found.setdefault(name, []).append(text)
    return found


def substitute(mnemonic: str) -> Iterator[str]:
    """What takes the place of an instruction where a target lacks it."""
    yield from _advice().get(mnemonic, ())
