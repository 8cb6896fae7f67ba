; One access of a wave of 64 lanes in each kernel, and only their addresses differ.
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.text

; LDS: a column of a tile of floats with rows of 32 words.
	.globl	column
	.p2align	8
	.type	column,@function
column:
	v_mul_u32_u24_e32 v1, 0x80, v0
	ds_read_b32 v2, v1
	s_waitcnt lgkmcnt(0)
	s_endpgm

; LDS: the same column of rows that are padded by one word.
	.globl	column_padded
	.p2align	8
	.type	column_padded,@function
column_padded:
	v_mul_u32_u24_e32 v1, 0x84, v0
	ds_read_b32 v2, v1
	s_waitcnt lgkmcnt(0)
	s_endpgm

; Global memory: halves that lie 8 KiB apart.
	.globl	strided
	.p2align	8
	.type	strided,@function
strided:
	s_load_dwordx2 s[2:3], s[0:1], 0x0
	v_lshlrev_b32_e32 v1, 13, v0
	s_waitcnt lgkmcnt(0)
	global_load_ushort v2, v1, s[2:3]
	s_waitcnt vmcnt(0)
	s_endpgm

; Global memory: halves side by side.
	.globl	contiguous
	.p2align	8
	.type	contiguous,@function
contiguous:
	s_load_dwordx2 s[2:3], s[0:1], 0x0
	v_lshlrev_b32_e32 v1, 1, v0
	s_waitcnt lgkmcnt(0)
	global_load_ushort v2, v1, s[2:3]
	s_waitcnt vmcnt(0)
	s_endpgm

	.section	.rodata,"a",@progbits
	.p2align	6
	.amdhsa_kernel column
		.amdhsa_group_segment_fixed_size 8192
		.amdhsa_next_free_vgpr 3
		.amdhsa_next_free_sgpr 4
		.amdhsa_accum_offset 4
	.end_amdhsa_kernel
	.p2align	6
	.amdhsa_kernel column_padded
		.amdhsa_group_segment_fixed_size 8448
		.amdhsa_next_free_vgpr 3
		.amdhsa_next_free_sgpr 4
		.amdhsa_accum_offset 4
	.end_amdhsa_kernel
	.p2align	6
	.amdhsa_kernel strided
		.amdhsa_kernarg_size 8
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_next_free_vgpr 3
		.amdhsa_next_free_sgpr 4
		.amdhsa_accum_offset 4
	.end_amdhsa_kernel
	.p2align	6
	.amdhsa_kernel contiguous
		.amdhsa_kernarg_size 8
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_next_free_vgpr 3
		.amdhsa_next_free_sgpr 4
		.amdhsa_accum_offset 4
	.end_amdhsa_kernel
