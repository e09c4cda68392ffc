// sum[i] = left[i] + right[i] for i < count, 64 work-items in a workgroup.
//
//     coasm run --spec examples/vector_add.yaml

	.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
	.amdhsa_code_object_version 6

	.text
	.globl	vector_add
	.protected	vector_add
	.p2align	8
	.type	vector_add,@function
vector_add:
	s_load_dwordx4	s[4:7], s[0:1], 0x0        // sum, left
	s_load_dwordx2	s[8:9], s[0:1], 0x10       // right
	s_load_dword	s10, s[0:1], 0x18          // count
	v_lshl_add_u32	v1, s2, 6, v0              // i = 64 * workgroup + work-item
	s_waitcnt	lgkmcnt(0)
	v_cmp_gt_u32	vcc, s10, v1
	s_and_saveexec_b64	s[12:13], vcc
	s_cbranch_execz	finished
	v_lshlrev_b32	v1, 2, v1
	global_load_dword	v2, v1, s[6:7]
	global_load_dword	v3, v1, s[8:9]
	s_waitcnt	vmcnt(0)
	v_add_f32	v2, v2, v3
	global_store_dword	v1, v2, s[4:5]
finished:
	s_endpgm
.Lvector_add_end:
	.size	vector_add, .Lvector_add_end-vector_add

	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel vector_add
		.amdhsa_kernarg_size 28
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_next_free_vgpr 4
		.amdhsa_next_free_sgpr 14
		.amdhsa_accum_offset 4
	.end_amdhsa_kernel

	.amdgpu_metadata
---
amdhsa.version: [ 1, 2 ]
amdhsa.target: amdgcn-amd-amdhsa--gfx950
amdhsa.kernels:
  - .name: vector_add
    .symbol: vector_add.kd
    .kernarg_segment_size: 28
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 20
    .vgpr_count: 4
    .max_flat_workgroup_size: 64
    .args:
      - { .name: sum, .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global }
      - { .name: left, .size: 8, .offset: 8, .value_kind: global_buffer, .address_space: global, .is_const: true }
      - { .name: right, .size: 8, .offset: 16, .value_kind: global_buffer, .address_space: global, .is_const: true }
      - { .name: count, .size: 4, .offset: 24, .value_kind: by_value }
...
	.end_amdgpu_metadata
