// D[M, N] (f32) = A[M, K] * B[N, K]^T, A and B in MXFP4, on gfx950's scaled matrix instruction.
//
//     coasm run --spec examples/mx_gemm.yaml
//
// One wave makes a 16x16 tile of D; the grid is (N / 16, M / 16), K a multiple of 128. A and B are
// rows of K / 2 bytes (two fp4 numbers in a byte), their scales rows of K / 32 bytes (E8M0).
//
// v_mfma_scale_f32_16x16x128_f8f6f4 with fp4 operands: lane L brings A[L % 16, 32 * (L / 16) + e]
// for e in 0..31 (4 VGPRs), B alike, and the scale of each of these blocks; accumulator g of lane L
// is D[4 * (L / 16) + g, L % 16].

	.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
	.amdhsa_code_object_version 6

	.text
	.globl	mx_gemm
	.protected	mx_gemm
	.p2align	8
	.type	mx_gemm,@function
mx_gemm:
	s_load_dwordx8	s[8:15], s[0:1], 0x0       // D, A, B, A's scales
	s_load_dwordx2	s[16:17], s[0:1], 0x20     // B's scales
	s_load_dwordx2	s[18:19], s[0:1], 0x28     // N, K
	v_and_b32	v1, 15, v0                 // t = L % 16
	v_lshrrev_b32	v2, 4, v0                  // q = L / 16
	v_mov_b32	v16, 0                     // the accumulator
	v_mov_b32	v17, 0
	v_mov_b32	v18, 0
	v_mov_b32	v19, 0
	s_waitcnt	lgkmcnt(0)

	// Byte offsets of this lane's block: row * K / 2 + 16 * q, and row * K / 32 + q for its scale.
	v_lshl_add_u32	v3, s3, 4, v1              // row of A: 16 * workgroup y + t
	v_lshl_add_u32	v4, s2, 4, v1              // row of B: 16 * workgroup x + t
	s_lshr_b32	s20, s19, 1                // K / 2
	s_lshr_b32	s21, s19, 5                // K / 32
	v_mul_lo_u32	v5, v3, s20
	v_mul_lo_u32	v6, v4, s20
	v_mul_lo_u32	v7, v3, s21
	v_mul_lo_u32	v8, v4, s21
	v_lshl_add_u32	v5, v2, 4, v5
	v_lshl_add_u32	v6, v2, 4, v6
	v_add_u32	v7, v7, v2
	v_add_u32	v8, v8, v2
	s_lshr_b32	s22, s19, 7                // steps of 128 along K

step:
	global_load_dwordx4	v[20:23], v5, s[10:11]
	global_load_dwordx4	v[24:27], v6, s[12:13]
	global_load_ubyte	v28, v7, s[14:15]
	global_load_ubyte	v29, v8, s[16:17]
	v_add_u32	v5, 64, v5
	v_add_u32	v6, 64, v6
	v_add_u32	v7, 4, v7
	v_add_u32	v8, 4, v8
	s_waitcnt	vmcnt(0)
	v_mfma_scale_f32_16x16x128_f8f6f4	v[16:19], v[20:23], v[24:27], v[16:19], v28, v29 op_sel_hi:[0,0,0] cbsz:4 blgp:4
	s_sub_u32	s22, s22, 1
	s_cmp_lg_u32	s22, 0
	s_cbranch_scc1	step

	// D[16 * y + 4 * q + g, 16 * x + t]: the row in v9, its byte offset in v10.
	s_lshl_b32	s23, s3, 4
	v_lshl_add_u32	v9, v2, 2, s23
	v_mul_lo_u32	v10, v9, s18
	v_add_lshl_u32	v10, v10, v4, 2
	s_lshl_b32	s24, s18, 2                // bytes of a row of D
	s_nop	7
	s_nop	7
	global_store_dword	v10, v16, s[8:9]
	v_add_u32	v10, s24, v10
	global_store_dword	v10, v17, s[8:9]
	v_add_u32	v10, s24, v10
	global_store_dword	v10, v18, s[8:9]
	v_add_u32	v10, s24, v10
	global_store_dword	v10, v19, s[8:9]
	s_endpgm
.Lmx_gemm_end:
	.size	mx_gemm, .Lmx_gemm_end-mx_gemm

	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel mx_gemm
		.amdhsa_kernarg_size 48
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_system_sgpr_workgroup_id_y 1
		.amdhsa_next_free_vgpr 32
		.amdhsa_next_free_sgpr 26
		.amdhsa_accum_offset 32
	.end_amdhsa_kernel

	.amdgpu_metadata
---
amdhsa.version: [ 1, 2 ]
amdhsa.target: amdgcn-amd-amdhsa--gfx950
amdhsa.kernels:
  - .name: mx_gemm
    .symbol: mx_gemm.kd
    .kernarg_segment_size: 48
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 32
    .vgpr_count: 32
    .max_flat_workgroup_size: 64
    .reqd_workgroup_size: [ 64, 1, 1 ]
    .args:
      - { .name: D, .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global }
      - { .name: A, .size: 8, .offset: 8, .value_kind: global_buffer, .address_space: global, .is_const: true }
      - { .name: B, .size: 8, .offset: 16, .value_kind: global_buffer, .address_space: global, .is_const: true }
      - { .name: A_scale, .size: 8, .offset: 24, .value_kind: global_buffer, .address_space: global, .is_const: true }
      - { .name: B_scale, .size: 8, .offset: 32, .value_kind: global_buffer, .address_space: global, .is_const: true }
      - { .name: N, .size: 4, .offset: 40, .value_kind: by_value }
      - { .name: K, .size: 4, .offset: 44, .value_kind: by_value }
...
	.end_amdgpu_metadata
