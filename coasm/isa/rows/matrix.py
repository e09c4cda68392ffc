"""Matrix instructions: MFMA, SMFMAC, WMMA, SWMMAC, moves of AGPRs: see :mod:`coasm.isa.table`."""

__all__ = ["ROWS"]

ROWS = """
[matrix]
908..950: d:T s:T = v_accvgpr_{read,write}_b32
9-4-generic..950: d:T s:T s:T s:T < mode = v_mfma_f64_4x4x4_4b_f64
9-4-generic..950: d:Tx16 s:T s:T s:Tx16 < mode = v_mfma_f32_16x16x1_4b_f32 v_mfma_f32_32x32x2_f32
1100..1150: d:Tx16 s:Tx16 s:Tx16 s:Tx16 = v_wmma_bf16_16x16x16_bf16 v_wmma_f16_16x16x16_f16
9-4-generic..950: d:Tx32 s:T s:T s:Tx32 < mode = v_mfma_f32_32x32x1_2b_f32
9-4-generic..950: d:Tx4 s:T s:T s:Tx4 < mode = v_mfma_f32_16x16x4_f32 v_mfma_f32_4x4x1_16b_f32
    v_mfma_f64_16x16x4_f64
1200..: d:Tx8 s:Tx8 s:Tx8 s:Tx8 = v_wmma_bf16_16x16x16_bf16 v_wmma_f16_16x16x16_f16
908..90a: d:b1024 s:b32 s:b32 s:b1024 < mode = v_mfma_f32_{32x32x1f32,32x32x2bf16}
    v_mfma_i32_32x32x4i8
908..90a: d:b1024 s:b64 s:b64 s:b1024 < mode = v_mfma_f32_32x32x4f16
90a: d:b1024 s:b64 s:b64 s:b1024 < mode = v_mfma_f32_32x32x4bf16_1k
1250: d:b128 s:b256 s:b256 s:b128 = v_wmma_bf16_16x16x32_bf16 v_wmma_f16_16x16x32_f16
    v_wmma_f16_16x16x64_{bf8,fp8}_{bf8,fp8}
1250: d:b128 s:b256 s:b256 s:b256 = v_wmma_bf16f32_16x16x32_bf16
908..90a: d:b128 s:b32 s:b32 s:b128 < mode =
    v_mfma_f32_{4x4x1f32,4x4x2bf16,16x16x4f32,16x16x8bf16} v_mfma_i32_{4x4x4i8,16x16x16i8}
1250: d:b128 s:b512 s:b512 s:b128 = v_wmma_f16_16x16x128_{bf8,fp8}_{bf8,fp8}
908..90a: d:b128 s:b64 s:b64 s:b128 < mode = v_mfma_f32_{4x4x4f16,16x16x16f16}
90a: d:b128 s:b64 s:b64 s:b128 < mode = v_mfma_f32_{4x4x4bf16,16x16x16bf16}_1k
942: d:b128 s:b64 s:b64 s:b128 < mode = v_mfma_f32_16x16x8_xf32
1250: d:b256 s:b256 s:b256 s:b256 = v_wmma_f32_16x16x32_{f16,bf16}
    v_wmma_f32_16x16x64_{bf8,fp8}_{bf8,fp8} v_wmma_i32_16x16x64_iu8
1250: d:b256 s:b512 s:b512 s:b256 = v_wmma_f32_16x16x128_f8f6f4
    v_wmma_f32_16x16x128_{bf8,fp8}_{bf8,fp8}
90a: d:b256 s:b64 s:b64 s:b256 < mode = v_mfma_f64_16x16x4f64
1250: d:b256 s:b64 s:b64 s:b256 = v_wmma_f32_16x16x4_f32
908..90a: d:b512 s:b32 s:b32 s:b512 < mode =
    v_mfma_f32_{16x16x1f32,32x32x2f32,16x16x2bf16,32x32x4bf16} v_mfma_i32_{16x16x4i8,32x32x8i8}
1250: d:b512 s:b512 s:b256 s:b512 = v_wmma_f32_32x16x128_f4
908..90a: d:b512 s:b64 s:b64 s:b512 < mode = v_mfma_f32_{16x16x4f16,32x32x8f16}
90a: d:b512 s:b64 s:b64 s:b512 < mode = v_mfma_f32_{16x16x4bf16,32x32x8bf16}_1k
942: d:b512 s:b64 s:b64 s:b512 < mode = v_mfma_f32_32x32x4_xf32
90a: d:b64 s:b64 s:b64 s:b64 < mode = v_mfma_f64_4x4x4f64
9-4-generic..950: d:f32x16 s:Tx4 s:Tx4 s:f32x16 < mode = v_mfma_f32_16x16x4_4b_{f16,bf16}
    v_mfma_f32_32x32x8_{f16,bf16}
942..950: d:f32x16 s:Tx8 s:Tx8 s:f32x16 < mode = v_mfma_f32_32x32x16_bf8_bf8
    v_mfma_f32_32x32x16_fp8_fp8
950: d:f32x16 s:Tx8 s:Tx8 s:f32x16 < mode = v_mfma_f32_32x32x16_{f16,bf16}
942..950: d:f32x16 s:Ux8 s:Tx8 s:f32x16 < mode = v_mfma_f32_32x32x16_bf8_fp8
    v_mfma_f32_32x32x16_fp8_bf8
950: d:f32x16 s:b256 s:b256 s:f32x16 < mode = v_mfma_f32_32x32x64_f8f6f4
9-4-generic..950: d:f32x32 s:Tx4 s:Tx4 s:f32x32 < mode = v_mfma_f32_32x32x4_2b_{f16,bf16}
9-4-generic..950: d:f32x4 s:Tx4 s:Tx4 s:f32x4 < mode = v_mfma_f32_16x16x16_{f16,bf16}
    v_mfma_f32_4x4x4_16b_{f16,bf16}
942..950: d:f32x4 s:Tx8 s:Tx8 s:f32x4 < mode = v_mfma_f32_16x16x32_bf8_bf8
    v_mfma_f32_16x16x32_fp8_fp8
950: d:f32x4 s:Tx8 s:Tx8 s:f32x4 < mode = v_mfma_f32_16x16x32_{f16,bf16}
942..950: d:f32x4 s:Ux8 s:Tx8 s:f32x4 < mode = v_mfma_f32_16x16x32_bf8_fp8
    v_mfma_f32_16x16x32_fp8_bf8
950: d:f32x4 s:b256 s:b256 s:f32x4 < mode = v_mfma_f32_16x16x128_f8f6f4
1100..1150: d:f32x8 s:Tx16 s:Tx16 s:f32x8 = v_wmma_f32_16x16x16_{f16,bf16}
1200..: d:f32x8 s:Tx8 s:Tx8 s:f32x8 = v_wmma_f32_16x16x16_bf8_bf8 v_wmma_f32_16x16x16_fp8_fp8
    v_wmma_f32_16x16x16_{f16,bf16}
1200..: d:f32x8 s:Ux8 s:Tx8 s:f32x8 = v_wmma_f32_16x16x16_bf8_fp8 v_wmma_f32_16x16x16_fp8_bf8
950: d:i32x16 s:Tx16 s:Tx16 s:i32x16 < mode = v_mfma_i32_32x32x32_i8
9-4-generic..950: d:i32x16 s:Tx4 s:Tx4 s:i32x16 < mode = v_mfma_i32_16x16x4_4b_i8
9-4-generic..950: d:i32x16 s:Tx8 s:Tx8 s:i32x16 < mode = v_mfma_i32_32x32x16_i8
9-4-generic..950: d:i32x32 s:Tx4 s:Tx4 s:i32x32 < mode = v_mfma_i32_32x32x4_2b_i8
950: d:i32x4 s:Tx16 s:Tx16 s:i32x4 < mode = v_mfma_i32_16x16x64_i8
9-4-generic..950: d:i32x4 s:Tx4 s:Tx4 s:i32x4 < mode = v_mfma_i32_4x4x4_16b_i8
9-4-generic..950: d:i32x4 s:Tx8 s:Tx8 s:i32x4 < mode = v_mfma_i32_16x16x32_i8
1100..1150: d:i32x8 s:Tx16 s:Tx16 s:i32x8 = v_wmma_i32_16x16x16_{iu4,iu8}
1200..: d:i32x8 s:Tx16 s:Tx16 s:i32x8 = v_wmma_i32_16x16x32_iu4
1200..: d:i32x8 s:Tx8 s:Tx8 s:i32x8 = v_wmma_i32_16x16x16_{iu4,iu8}
1200..: x:Tx8 s:Tx8 s:Tx16 s:b32 = v_swmmac_bf16_16x16x32_bf16 v_swmmac_f16_16x16x32_f16
1250: x:b128 s:b256 s:b512 s:b32 = v_swmmac_bf16_16x16x64_bf16 v_swmmac_f16_16x16x64_f16
1250: x:b128 s:b256 s:b512 s:b64 = v_swmmac_f16_16x16x128_{bf8,fp8}_{bf8,fp8}
1250: x:b256 s:b256 s:b512 s:b32 = v_swmmac_f32_16x16x64_f16 v_swmmac_{f32,bf16f32}_16x16x64_bf16
1250: x:b256 s:b256 s:b512 s:b64 = v_swmmac_f32_16x16x128_{bf8,fp8}_{bf8,fp8}
    v_swmmac_i32_16x16x128_iu8
950: x:f32x16 s:Tx16 s:Tx32 s:b32 < mode = v_smfmac_f32_32x32x64_bf8_bf8
    v_smfmac_f32_32x32x64_fp8_fp8
9-4-generic..950: x:f32x16 s:Tx4 s:Tx8 s:b32 < mode = v_smfmac_f32_32x32x16_{f16,bf16}
942..950: x:f32x16 s:Tx8 s:Tx16 s:b32 < mode = v_smfmac_f32_32x32x32_bf8_bf8
    v_smfmac_f32_32x32x32_fp8_fp8
950: x:f32x16 s:Tx8 s:Tx16 s:b32 < mode = v_smfmac_f32_32x32x32_{f16,bf16}
950: x:f32x16 s:Ux16 s:Tx32 s:b32 < mode = v_smfmac_f32_32x32x64_bf8_fp8
    v_smfmac_f32_32x32x64_fp8_bf8
942..950: x:f32x16 s:Ux8 s:Tx16 s:b32 < mode = v_smfmac_f32_32x32x32_bf8_fp8
    v_smfmac_f32_32x32x32_fp8_bf8
950: x:f32x4 s:Tx16 s:Tx32 s:b32 < mode = v_smfmac_f32_16x16x128_bf8_bf8
    v_smfmac_f32_16x16x128_fp8_fp8
9-4-generic..950: x:f32x4 s:Tx4 s:Tx8 s:b32 < mode = v_smfmac_f32_16x16x32_{f16,bf16}
942..950: x:f32x4 s:Tx8 s:Tx16 s:b32 < mode = v_smfmac_f32_16x16x64_bf8_bf8
    v_smfmac_f32_16x16x64_fp8_fp8
950: x:f32x4 s:Tx8 s:Tx16 s:b32 < mode = v_smfmac_f32_16x16x64_{f16,bf16}
950: x:f32x4 s:Ux16 s:Tx32 s:b32 < mode = v_smfmac_f32_16x16x128_bf8_fp8
    v_smfmac_f32_16x16x128_fp8_bf8
942..950: x:f32x4 s:Ux8 s:Tx16 s:b32 < mode = v_smfmac_f32_16x16x64_bf8_fp8
    v_smfmac_f32_16x16x64_fp8_bf8
1200..: x:f32x8 s:Tx8 s:Tx16 s:b32 = v_swmmac_f32_16x16x32_bf8_bf8 v_swmmac_f32_16x16x32_fp8_fp8
    v_swmmac_f32_16x16x32_{f16,bf16}
1200..: x:f32x8 s:Ux8 s:Tx16 s:b32 = v_swmmac_f32_16x16x32_bf8_fp8 v_swmmac_f32_16x16x32_fp8_bf8
950: x:i32x16 s:Tx16 s:Tx32 s:b32 < mode = v_smfmac_i32_32x32x64_i8
9-4-generic..950: x:i32x16 s:Tx8 s:Tx16 s:b32 < mode = v_smfmac_i32_32x32x32_i8
950: x:i32x4 s:Tx16 s:Tx32 s:b32 < mode = v_smfmac_i32_16x16x128_i8
9-4-generic..950: x:i32x4 s:Tx8 s:Tx16 s:b32 < mode = v_smfmac_i32_16x16x64_i8
1200..: x:i32x8 s:Tx16 s:Tx32 s:b32 = v_swmmac_i32_16x16x64_iu4
1200..: x:i32x8 s:Tx8 s:Tx16 s:b32 = v_swmmac_i32_16x16x32_{iu4,iu8}
950: d:f32x16 s:b256 s:b256 s:f32x16 s:b32 s:b32 < mode = v_mfma_scale_f32_32x32x64_f8f6f4
950: d:f32x4 s:b256 s:b256 s:f32x4 s:b32 s:b32 < mode = v_mfma_scale_f32_16x16x128_f8f6f4
1250: d:f32x8 s:b512 s:b512 s:f32x8 s:b32 s:b32 = v_wmma_scale_f32_16x16x128_f8f6f4
1250: d:f32x8 s:b512 s:b512 s:f32x8 s:b64 s:b64 = v_wmma_scale16_f32_16x16x128_f8f6f4
1250: d:f32x16 s:b512 s:b256 s:f32x16 s:b32 s:b32 = v_wmma_scale_f32_32x16x128_f4
1250: d:f32x16 s:b512 s:b256 s:f32x16 s:b64 s:b64 = v_wmma_scale16_f32_32x16x128_f4
"""
