; out[i] = i, one workgroup of 64 work-items: for `kinspect emulate` and `kinspect.emulate_code`.
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.text
	.globl	iota
	.p2align	8
	.type	iota,@function
iota:
	s_load_dwordx2 s[2:3], s[0:1], 0x0
	v_lshlrev_b32_e32 v1, 2, v0
	s_waitcnt lgkmcnt(0)
	global_store_dword v1, v0, s[2:3]
	s_endpgm
	.section	.rodata,"a",@progbits
	.p2align	6
	.amdhsa_kernel iota
		.amdhsa_kernarg_size 8
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_next_free_vgpr 2
		.amdhsa_next_free_sgpr 4
		.amdhsa_accum_offset 4
	.end_amdhsa_kernel
