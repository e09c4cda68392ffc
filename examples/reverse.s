// result[i] = input[255 - i] for 256 work-items, four waves that exchange their numbers in LDS.
//
//     coasm run --spec examples/reverse.yaml --race

	.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
	.amdhsa_code_object_version 6

	.text
	.globl	reverse
	.protected	reverse
	.p2align	8
	.type	reverse,@function
reverse:
	s_load_dwordx4	s[4:7], s[0:1], 0x0        // result, input
	v_lshlrev_b32	v1, 2, v0                  // 4 * i
	v_sub_u32	v2, 0x3fc, v1              // 4 * (255 - i)
	s_waitcnt	lgkmcnt(0)
	global_load_dword	v3, v1, s[6:7]
	s_waitcnt	vmcnt(0)
	ds_write_b32	v1, v3
	s_waitcnt	lgkmcnt(0)
	s_barrier
	ds_read_b32	v4, v2
	s_waitcnt	lgkmcnt(0)
	global_store_dword	v1, v4, s[4:5]
	s_endpgm
.Lreverse_end:
	.size	reverse, .Lreverse_end-reverse

	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel reverse
		.amdhsa_group_segment_fixed_size 1024
		.amdhsa_kernarg_size 16
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_next_free_vgpr 5
		.amdhsa_next_free_sgpr 8
		.amdhsa_accum_offset 8
	.end_amdhsa_kernel

	.amdgpu_metadata
---
amdhsa.version: [ 1, 2 ]
amdhsa.target: amdgcn-amd-amdhsa--gfx950
amdhsa.kernels:
  - .name: reverse
    .symbol: reverse.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 1024
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 14
    .vgpr_count: 5
    .max_flat_workgroup_size: 256
    .reqd_workgroup_size: [ 256, 1, 1 ]
    .args:
      - { .name: result, .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global }
      - { .name: input, .size: 8, .offset: 8, .value_kind: global_buffer, .address_space: global, .is_const: true }
...
	.end_amdgpu_metadata
