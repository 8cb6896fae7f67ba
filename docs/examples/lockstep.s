; Four waves part at a branch, meet again, and exchange numbers through LDS.
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.text
	.globl	lockstep
	.p2align	8
	.type	lockstep,@function
lockstep:
	s_load_dwordx2 s[2:3], s[0:1], 0x0
	v_lshlrev_b32_e32 v1, 2, v0
	v_readfirstlane_b32 s4, v0
	s_cmp_lt_u32 s4, 0x80
	s_cbranch_scc0 .Lsecond
	v_add_u32_e32 v2, 1, v0
	v_lshlrev_b32_e32 v2, 1, v2
	s_branch .Lmeet
.Lsecond:
	v_mul_u32_u24_e32 v2, 3, v0
	v_xor_b32_e32 v2, 5, v2
.Lmeet:
	ds_write_b32 v1, v2
	s_waitcnt lgkmcnt(0)
	s_barrier
	v_xor_b32_e32 v3, 0x80, v1
	ds_read_b32 v4, v3
	v_cmp_gt_u32_e32 vcc, 0xe0, v0
	s_and_saveexec_b64 s[6:7], vcc
	s_waitcnt lgkmcnt(0)
	global_store_dword v1, v4, s[2:3]
	s_endpgm
	.section	.rodata,"a",@progbits
	.p2align	6
	.amdhsa_kernel lockstep
		.amdhsa_group_segment_fixed_size 1024
		.amdhsa_kernarg_size 8
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_next_free_vgpr 5
		.amdhsa_next_free_sgpr 8
		.amdhsa_accum_offset 8
	.end_amdhsa_kernel
