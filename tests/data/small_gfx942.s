; A small kernel by hand: one loop with a wide load, an LDS round trip, an MFMA and a spill.
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.amdhsa_code_object_version 5
	.text
	.globl	small
	.p2align	8
	.type	small,@function
small:
	s_load_dwordx4 s[4:7], s[0:1], 0x0
	s_load_dword s8, s[0:1], 0x10
	v_lshlrev_b32_e32 v0, 4, v0
	v_mov_b32_e32 v20, 0
	s_mov_b32 s9, 0
	s_waitcnt lgkmcnt(0)
.LBB0_1:
	global_load_dwordx4 v[2:5], v0, s[4:5]
	s_waitcnt vmcnt(0)
	ds_write_b128 v0, v[2:5]
	s_waitcnt lgkmcnt(0)
	s_barrier
	ds_read_b64 v[6:7], v0
	scratch_store_dword off, v20, off offset:4 ; 4-byte Folded Spill
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 a[0:15], v[6:7], v[6:7], a[0:15]
	scratch_load_dword v20, off, off offset:4 ; 4-byte Folded Reload
	s_add_i32 s9, s9, 1
	s_cmp_lt_i32 s9, s8
	s_cbranch_scc1 .LBB0_1
	s_nop 15
	v_accvgpr_read_b32 v2, a0
	global_store_dword v0, v2, s[6:7]
	s_endpgm
.Lfunc_end0:
	.size	small, .Lfunc_end0-small
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel small
		.amdhsa_group_segment_fixed_size 4096
		.amdhsa_private_segment_fixed_size 8
		.amdhsa_kernarg_size 20
		.amdhsa_next_free_vgpr 40
		.amdhsa_next_free_sgpr 16
		.amdhsa_accum_offset 24
	.end_amdhsa_kernel
	.text
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     16
    .args:           []
    .group_segment_fixed_size: 4096
    .kernarg_segment_align: 8
    .kernarg_segment_size: 20
    .max_flat_workgroup_size: 256
    .name:           small
    .private_segment_fixed_size: 8
    .sgpr_count:     16
    .sgpr_spill_count: 0
    .symbol:         small.kd
    .vgpr_count:     40
    .vgpr_spill_count: 1
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx942
amdhsa.version:
  - 1
  - 2
...
	.end_amdgpu_metadata
