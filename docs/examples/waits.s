; The same sum of products twice: each tile is loaded when it is needed, and one tile ahead.
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.text
	.globl	load_then_use
	.p2align	8
	.type	load_then_use,@function
load_then_use:
	s_load_dwordx2 s[2:3], s[0:1], 0x0
	s_load_dword s4, s[0:1], 0x8
	v_lshlrev_b32_e32 v0, 3, v0
	s_waitcnt lgkmcnt(0)
.Lthen:
	global_load_dwordx2 v[2:3], v0, s[2:3]
	v_add_u32_e32 v0, 0x200, v0
	s_waitcnt vmcnt(0)
	v_mfma_f32_32x32x2_f32 a[0:15], v2, v3, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v2, v3, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v2, v3, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v2, v3, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v2, v3, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v2, v3, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v2, v3, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v2, v3, a[0:15]
	s_add_i32 s4, s4, -1
	s_cmp_lg_u32 s4, 0
	s_cbranch_scc1 .Lthen
	s_endpgm

	.globl	load_ahead
	.p2align	8
	.type	load_ahead,@function
load_ahead:
	s_load_dwordx2 s[2:3], s[0:1], 0x0
	s_load_dword s4, s[0:1], 0x8
	v_lshlrev_b32_e32 v0, 3, v0
	s_waitcnt lgkmcnt(0)
	global_load_dwordx2 v[2:3], v0, s[2:3]
	v_add_u32_e32 v0, 0x200, v0
.Lahead:
	global_load_dwordx2 v[4:5], v0, s[2:3]
	v_add_u32_e32 v0, 0x200, v0
	s_waitcnt vmcnt(1)
	v_mfma_f32_32x32x2_f32 a[0:15], v2, v3, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v2, v3, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v2, v3, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v2, v3, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v2, v3, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v2, v3, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v2, v3, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v2, v3, a[0:15]
	global_load_dwordx2 v[2:3], v0, s[2:3]
	v_add_u32_e32 v0, 0x200, v0
	s_waitcnt vmcnt(1)
	v_mfma_f32_32x32x2_f32 a[0:15], v4, v5, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v4, v5, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v4, v5, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v4, v5, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v4, v5, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v4, v5, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v4, v5, a[0:15]
	v_mfma_f32_32x32x2_f32 a[0:15], v4, v5, a[0:15]
	s_add_i32 s4, s4, -2
	s_cmp_gt_i32 s4, 0
	s_cbranch_scc1 .Lahead
	s_endpgm

	.section	.rodata,"a",@progbits
	.p2align	6
	.amdhsa_kernel load_then_use
		.amdhsa_kernarg_size 12
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_next_free_vgpr 24
		.amdhsa_next_free_sgpr 8
		.amdhsa_accum_offset 8
	.end_amdhsa_kernel
	.p2align	6
	.amdhsa_kernel load_ahead
		.amdhsa_kernarg_size 12
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_next_free_vgpr 24
		.amdhsa_next_free_sgpr 8
		.amdhsa_accum_offset 8
	.end_amdhsa_kernel
