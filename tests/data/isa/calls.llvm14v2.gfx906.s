	.text
	.hsa_code_object_version 2,1
	.hsa_code_object_isa 9,0,7,"AMD","AMDGPU"
	.p2align	2                               ; -- Begin function leaf
	.type	leaf,@function
leaf:                                   ; @leaf
; %bb.0:
	s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)
	v_mul_lo_u32 v0, v0, 7
	s_setpc_b64 s[30:31]
.Lfunc_end0:
	.size	leaf, .Lfunc_end0-leaf
                                        ; -- End function
	.section	.AMDGPU.csdata
; Function info:
; codeLenInByte = 16
; NumSgprs: 36
; NumVgprs: 1
; ScratchSize: 0
; MemoryBound: 0
	.text
	.globl	middle                          ; -- Begin function middle
	.p2align	2
	.type	middle,@function
middle:                                 ; @middle
; %bb.0:
	s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)
	s_mov_b32 s8, s33
	s_mov_b32 s33, s32
	v_lshrrev_b32_e64 v1, 6, s33
	s_addk_i32 s32, 0xc00
	v_lshl_add_u32 v1, v0, 2, v1
	s_mov_b64 s[4:5], s[30:31]
	buffer_store_dword v0, v1, s[0:3], 0 offen
	s_waitcnt vmcnt(0)
	s_getpc_b64 s[6:7]
	s_add_u32 s6, s6, leaf@rel32@lo+4
	s_addc_u32 s7, s7, leaf@rel32@hi+12
	s_swappc_b64 s[30:31], s[6:7]
	buffer_load_dword v1, v1, s[0:3], 0 offen glc
	s_waitcnt vmcnt(0)
	s_addk_i32 s32, 0xf400
	s_mov_b32 s33, s8
	v_add_u32_e32 v0, v0, v1
	s_setpc_b64 s[4:5]
.Lfunc_end1:
	.size	middle, .Lfunc_end1-middle
                                        ; -- End function
	.section	.AMDGPU.csdata
; Function info:
; codeLenInByte = 100
; NumSgprs: 38
; NumVgprs: 2
; ScratchSize: 16432
; MemoryBound: 0
	.text
	.globl	factorial                       ; -- Begin function factorial
	.p2align	2
	.type	factorial,@function
factorial:                              ; @factorial
; %bb.0:                                ; %entry
	s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)
	s_or_saveexec_b64 s[4:5], -1
	buffer_store_dword v40, off, s[0:3], s32 offset:4 ; 4-byte Folded Spill
	s_mov_b64 exec, s[4:5]
	v_writelane_b32 v40, s33, 4
	s_mov_b32 s33, s32
	buffer_store_dword v41, off, s[0:3], s33 ; 4-byte Folded Spill
	v_writelane_b32 v40, s34, 0
	v_mov_b32_e32 v41, v0
	v_writelane_b32 v40, s35, 1
	v_cmp_ne_u32_e32 vcc, 0, v41
	v_mov_b32_e32 v0, 1
	s_addk_i32 s32, 0x400
	s_and_saveexec_b64 s[34:35], vcc
	s_cbranch_execz .LBB2_2
; %bb.1:                                ; %again
	s_getpc_b64 s[4:5]
	s_add_u32 s4, s4, factorial@gotpcrel32@lo+4
	s_addc_u32 s5, s5, factorial@gotpcrel32@hi+12
	s_load_dwordx2 s[4:5], s[4:5], 0x0
	v_add_u32_e32 v0, -1, v41
	v_writelane_b32 v40, s30, 2
	v_writelane_b32 v40, s31, 3
	s_waitcnt lgkmcnt(0)
	s_swappc_b64 s[30:31], s[4:5]
	v_mul_lo_u32 v0, v0, v41
	v_readlane_b32 s30, v40, 2
	v_readlane_b32 s31, v40, 3
.LBB2_2:                                ; %UnifiedReturnBlock
	s_or_b64 exec, exec, s[34:35]
	buffer_load_dword v41, off, s[0:3], s33 ; 4-byte Folded Reload
	v_readlane_b32 s35, v40, 1
	v_readlane_b32 s34, v40, 0
	s_addk_i32 s32, 0xfc00
	v_readlane_b32 s33, v40, 4
	s_or_saveexec_b64 s[4:5], -1
	buffer_load_dword v40, off, s[0:3], s32 offset:4 ; 4-byte Folded Reload
	s_mov_b64 exec, s[4:5]
	s_waitcnt vmcnt(0)
	s_setpc_b64 s[30:31]
.Lfunc_end2:
	.size	factorial, .Lfunc_end2-factorial
                                        ; -- End function
	.section	.AMDGPU.csdata
; Function info:
; codeLenInByte = 224
; NumSgprs: 40
; NumVgprs: 42
; ScratchSize: 16400
; MemoryBound: 0
	.text
	.globl	calls_in_loop                   ; -- Begin function calls_in_loop
	.p2align	8
	.type	calls_in_loop,@function
	.amdgpu_hsa_kernel calls_in_loop
calls_in_loop:                          ; @calls_in_loop
	.amd_kernel_code_t
		amd_code_version_major = 1
		amd_code_version_minor = 2
		amd_machine_kind = 1
		amd_machine_version_major = 9
		amd_machine_version_minor = 0
		amd_machine_version_stepping = 6
		kernel_code_entry_byte_offset = 256
		kernel_code_prefetch_byte_size = 0
		granulated_workitem_vgpr_count = 0
		granulated_wavefront_sgpr_count = 4
		priority = 0
		float_mode = 240
		priv = 0
		enable_dx10_clamp = 1
		debug_mode = 0
		enable_ieee_mode = 1
		enable_wgp_mode = 0
		enable_mem_ordered = 0
		enable_fwd_progress = 0
		enable_sgpr_private_segment_wave_byte_offset = 1
		user_sgpr_count = 8
		enable_trap_handler = 0
		enable_sgpr_workgroup_id_x = 1
		enable_sgpr_workgroup_id_y = 0
		enable_sgpr_workgroup_id_z = 0
		enable_sgpr_workgroup_info = 0
		enable_vgpr_workitem_id = 0
		enable_exception_msb = 0
		granulated_lds_size = 0
		enable_exception = 0
		enable_sgpr_private_segment_buffer = 1
		enable_sgpr_dispatch_ptr = 0
		enable_sgpr_queue_ptr = 0
		enable_sgpr_kernarg_segment_ptr = 1
		enable_sgpr_dispatch_id = 0
		enable_sgpr_flat_scratch_init = 1
		enable_sgpr_private_segment_size = 0
		enable_sgpr_grid_workgroup_count_x = 0
		enable_sgpr_grid_workgroup_count_y = 0
		enable_sgpr_grid_workgroup_count_z = 0
		enable_wavefront_size32 = 0
		enable_ordered_append_gds = 0
		private_element_size = 1
		is_ptr64 = 1
		is_dynamic_callstack = 1
		is_debug_enabled = 0
		is_xnack_enabled = 1
		workitem_private_segment_byte_size = 16432
		workgroup_group_segment_byte_size = 0
		gds_segment_byte_size = 0
		kernarg_segment_byte_size = 12
		workgroup_fbarrier_count = 0
		wavefront_sgpr_count = 40
		workitem_vgpr_count = 3
		reserved_vgpr_first = 0
		reserved_vgpr_count = 0
		reserved_sgpr_first = 0
		reserved_sgpr_count = 0
		debug_wavefront_private_segment_offset_sgpr = 0
		debug_private_segment_buffer_sgpr = 0
		kernarg_segment_alignment = 4
		group_segment_alignment = 4
		private_segment_alignment = 4
		wavefront_size = 6
		call_convention = -1
		runtime_loader_kernel_symbol = 0
	.end_amd_kernel_code_t
; %bb.0:                                ; %entry
	s_add_u32 flat_scratch_lo, s6, s9
	s_addc_u32 flat_scratch_hi, s7, 0
	s_add_u32 s0, s0, s9
	s_addc_u32 s1, s1, 0
	s_load_dwordx2 s[10:11], s[4:5], 0x0
	s_load_dword s9, s[4:5], 0x8
	s_getpc_b64 s[4:5]
	s_add_u32 s4, s4, middle@gotpcrel32@lo+4
	s_addc_u32 s5, s5, middle@gotpcrel32@hi+12
	s_load_dwordx2 s[12:13], s[4:5], 0x0
	v_mov_b32_e32 v2, v0
	s_mov_b32 s16, 0
	s_mov_b32 s32, 0
	s_getpc_b64 s[14:15]
	s_add_u32 s14, s14, leaf@rel32@lo+4
	s_addc_u32 s15, s15, leaf@rel32@hi+12
.LBB3_1:                                ; %loop
                                        ; =>This Inner Loop Header: Depth=1
	s_swappc_b64 s[30:31], s[14:15]
	v_mov_b32_e32 v1, 0
	s_swappc_b64 s[30:31], s[12:13]
	s_add_i32 s16, s16, 1
	s_cmp_lt_i32 s16, s9
	s_cbranch_scc1 .LBB3_1
; %bb.2:                                ; %done
	v_lshlrev_b32_e32 v1, 2, v2
	global_store_dword v1, v0, s[10:11]
	s_endpgm
.Lfunc_end3:
	.size	calls_in_loop, .Lfunc_end3-calls_in_loop
                                        ; -- End function
	.section	.AMDGPU.csdata
; Kernel info:
; codeLenInByte = 116
; NumSgprs: 40
; NumVgprs: 3
; ScratchSize: 16432
; MemoryBound: 0
; FloatMode: 240
; IeeeMode: 1
; LDSByteSize: 0 bytes/workgroup (compile time only)
; SGPRBlocks: 4
; VGPRBlocks: 0
; NumSGPRsForWavesPerEU: 40
; NumVGPRsForWavesPerEU: 3
; Occupancy: 10
; WaveLimiterHint : 1
; COMPUTE_PGM_RSRC2:SCRATCH_EN: 1
; COMPUTE_PGM_RSRC2:USER_SGPR: 8
; COMPUTE_PGM_RSRC2:TRAP_HANDLER: 0
; COMPUTE_PGM_RSRC2:TGID_X_EN: 1
; COMPUTE_PGM_RSRC2:TGID_Y_EN: 0
; COMPUTE_PGM_RSRC2:TGID_Z_EN: 0
; COMPUTE_PGM_RSRC2:TIDIG_COMP_CNT: 0
	.text
	.globl	calls_recursive                 ; -- Begin function calls_recursive
	.p2align	8
	.type	calls_recursive,@function
	.amdgpu_hsa_kernel calls_recursive
calls_recursive:                        ; @calls_recursive
	.amd_kernel_code_t
		amd_code_version_major = 1
		amd_code_version_minor = 2
		amd_machine_kind = 1
		amd_machine_version_major = 9
		amd_machine_version_minor = 0
		amd_machine_version_stepping = 6
		kernel_code_entry_byte_offset = 256
		kernel_code_prefetch_byte_size = 0
		granulated_workitem_vgpr_count = 10
		granulated_wavefront_sgpr_count = 5
		priority = 0
		float_mode = 240
		priv = 0
		enable_dx10_clamp = 1
		debug_mode = 0
		enable_ieee_mode = 1
		enable_wgp_mode = 0
		enable_mem_ordered = 0
		enable_fwd_progress = 0
		enable_sgpr_private_segment_wave_byte_offset = 1
		user_sgpr_count = 8
		enable_trap_handler = 0
		enable_sgpr_workgroup_id_x = 1
		enable_sgpr_workgroup_id_y = 0
		enable_sgpr_workgroup_id_z = 0
		enable_sgpr_workgroup_info = 0
		enable_vgpr_workitem_id = 0
		enable_exception_msb = 0
		granulated_lds_size = 0
		enable_exception = 0
		enable_sgpr_private_segment_buffer = 1
		enable_sgpr_dispatch_ptr = 0
		enable_sgpr_queue_ptr = 0
		enable_sgpr_kernarg_segment_ptr = 1
		enable_sgpr_dispatch_id = 0
		enable_sgpr_flat_scratch_init = 1
		enable_sgpr_private_segment_size = 0
		enable_sgpr_grid_workgroup_count_x = 0
		enable_sgpr_grid_workgroup_count_y = 0
		enable_sgpr_grid_workgroup_count_z = 0
		enable_wavefront_size32 = 0
		enable_ordered_append_gds = 0
		private_element_size = 1
		is_ptr64 = 1
		is_dynamic_callstack = 1
		is_debug_enabled = 0
		is_xnack_enabled = 1
		workitem_private_segment_byte_size = 16400
		workgroup_group_segment_byte_size = 0
		gds_segment_byte_size = 0
		kernarg_segment_byte_size = 12
		workgroup_fbarrier_count = 0
		wavefront_sgpr_count = 44
		workitem_vgpr_count = 42
		reserved_vgpr_first = 0
		reserved_vgpr_count = 0
		reserved_sgpr_first = 0
		reserved_sgpr_count = 0
		debug_wavefront_private_segment_offset_sgpr = 0
		debug_private_segment_buffer_sgpr = 0
		kernarg_segment_alignment = 4
		group_segment_alignment = 4
		private_segment_alignment = 4
		wavefront_size = 6
		call_convention = -1
		runtime_loader_kernel_symbol = 0
	.end_amd_kernel_code_t
; %bb.0:
	s_add_u32 flat_scratch_lo, s6, s9
	s_addc_u32 flat_scratch_hi, s7, 0
	s_add_u32 s0, s0, s9
	s_addc_u32 s1, s1, 0
	s_load_dword s10, s[4:5], 0x8
	s_getpc_b64 s[6:7]
	s_add_u32 s6, s6, factorial@gotpcrel32@lo+4
	s_addc_u32 s7, s7, factorial@gotpcrel32@hi+12
	s_load_dwordx2 s[8:9], s[6:7], 0x0
	s_load_dwordx2 s[36:37], s[4:5], 0x0
	s_mov_b32 s32, 0
	v_mov_b32_e32 v41, 0
	s_waitcnt lgkmcnt(0)
	v_mov_b32_e32 v0, s10
	s_swappc_b64 s[30:31], s[8:9]
	global_store_dword v41, v0, s[36:37]
	s_endpgm
.Lfunc_end4:
	.size	calls_recursive, .Lfunc_end4-calls_recursive
                                        ; -- End function
	.section	.AMDGPU.csdata
; Kernel info:
; codeLenInByte = 84
; NumSgprs: 44
; NumVgprs: 42
; ScratchSize: 16400
; MemoryBound: 0
; FloatMode: 240
; IeeeMode: 1
; LDSByteSize: 0 bytes/workgroup (compile time only)
; SGPRBlocks: 5
; VGPRBlocks: 10
; NumSGPRsForWavesPerEU: 44
; NumVGPRsForWavesPerEU: 42
; Occupancy: 5
; WaveLimiterHint : 1
; COMPUTE_PGM_RSRC2:SCRATCH_EN: 1
; COMPUTE_PGM_RSRC2:USER_SGPR: 8
; COMPUTE_PGM_RSRC2:TRAP_HANDLER: 0
; COMPUTE_PGM_RSRC2:TGID_X_EN: 1
; COMPUTE_PGM_RSRC2:TGID_Y_EN: 0
; COMPUTE_PGM_RSRC2:TGID_Z_EN: 0
; COMPUTE_PGM_RSRC2:TIDIG_COMP_CNT: 0
	.text
	.globl	calls_unknown                   ; -- Begin function calls_unknown
	.p2align	8
	.type	calls_unknown,@function
	.amdgpu_hsa_kernel calls_unknown
calls_unknown:                          ; @calls_unknown
	.amd_kernel_code_t
		amd_code_version_major = 1
		amd_code_version_minor = 2
		amd_machine_kind = 1
		amd_machine_version_major = 9
		amd_machine_version_minor = 0
		amd_machine_version_stepping = 6
		kernel_code_entry_byte_offset = 256
		kernel_code_prefetch_byte_size = 0
		granulated_workitem_vgpr_count = 10
		granulated_wavefront_sgpr_count = 5
		priority = 0
		float_mode = 240
		priv = 0
		enable_dx10_clamp = 1
		debug_mode = 0
		enable_ieee_mode = 1
		enable_wgp_mode = 0
		enable_mem_ordered = 0
		enable_fwd_progress = 0
		enable_sgpr_private_segment_wave_byte_offset = 1
		user_sgpr_count = 14
		enable_trap_handler = 0
		enable_sgpr_workgroup_id_x = 1
		enable_sgpr_workgroup_id_y = 1
		enable_sgpr_workgroup_id_z = 1
		enable_sgpr_workgroup_info = 0
		enable_vgpr_workitem_id = 2
		enable_exception_msb = 0
		granulated_lds_size = 0
		enable_exception = 0
		enable_sgpr_private_segment_buffer = 1
		enable_sgpr_dispatch_ptr = 1
		enable_sgpr_queue_ptr = 1
		enable_sgpr_kernarg_segment_ptr = 1
		enable_sgpr_dispatch_id = 1
		enable_sgpr_flat_scratch_init = 1
		enable_sgpr_private_segment_size = 0
		enable_sgpr_grid_workgroup_count_x = 0
		enable_sgpr_grid_workgroup_count_y = 0
		enable_sgpr_grid_workgroup_count_z = 0
		enable_wavefront_size32 = 0
		enable_ordered_append_gds = 0
		private_element_size = 1
		is_ptr64 = 1
		is_dynamic_callstack = 1
		is_debug_enabled = 0
		is_xnack_enabled = 1
		workitem_private_segment_byte_size = 16384
		workgroup_group_segment_byte_size = 0
		gds_segment_byte_size = 0
		kernarg_segment_byte_size = 72
		workgroup_fbarrier_count = 0
		wavefront_sgpr_count = 42
		workitem_vgpr_count = 42
		reserved_vgpr_first = 0
		reserved_vgpr_count = 0
		reserved_sgpr_first = 0
		reserved_sgpr_count = 0
		debug_wavefront_private_segment_offset_sgpr = 0
		debug_private_segment_buffer_sgpr = 0
		kernarg_segment_alignment = 4
		group_segment_alignment = 4
		private_segment_alignment = 4
		wavefront_size = 6
		call_convention = -1
		runtime_loader_kernel_symbol = 0
	.end_amd_kernel_code_t
; %bb.0:
	s_add_u32 flat_scratch_lo, s12, s17
	s_addc_u32 flat_scratch_hi, s13, 0
	s_add_u32 s0, s0, s17
	s_addc_u32 s1, s1, 0
	s_mov_b32 s13, s15
	s_mov_b32 s12, s14
	s_getpc_b64 s[14:15]
	s_add_u32 s14, s14, table@gotpcrel32@lo+4
	s_addc_u32 s15, s15, table@gotpcrel32@hi+12
	s_load_dwordx2 s[14:15], s[14:15], 0x0
	s_nop 0
	s_load_dwordx2 s[34:35], s[8:9], 0x0
	s_load_dword s17, s[8:9], 0x8
	s_waitcnt lgkmcnt(0)
	s_load_dwordx2 s[18:19], s[14:15], 0x0
	s_add_u32 s8, s8, 16
	v_lshlrev_b32_e32 v2, 20, v2
	v_lshlrev_b32_e32 v1, 10, v1
	s_addc_u32 s9, s9, 0
	v_or3_b32 v31, v0, v1, v2
	s_mov_b32 s14, s16
	v_mov_b32_e32 v0, s17
	s_mov_b32 s32, 0
	v_mov_b32_e32 v40, 0
	s_waitcnt lgkmcnt(0)
	s_swappc_b64 s[30:31], s[18:19]
	global_store_dword v40, v0, s[34:35]
	s_endpgm
.Lfunc_end5:
	.size	calls_unknown, .Lfunc_end5-calls_unknown
                                        ; -- End function
	.section	.AMDGPU.csdata
; Kernel info:
; codeLenInByte = 140
; NumSgprs: 42
; NumVgprs: 42
; ScratchSize: 16384
; MemoryBound: 0
; FloatMode: 240
; IeeeMode: 1
; LDSByteSize: 0 bytes/workgroup (compile time only)
; SGPRBlocks: 5
; VGPRBlocks: 10
; NumSGPRsForWavesPerEU: 42
; NumVGPRsForWavesPerEU: 42
; Occupancy: 5
; WaveLimiterHint : 1
; COMPUTE_PGM_RSRC2:SCRATCH_EN: 1
; COMPUTE_PGM_RSRC2:USER_SGPR: 14
; COMPUTE_PGM_RSRC2:TRAP_HANDLER: 0
; COMPUTE_PGM_RSRC2:TGID_X_EN: 1
; COMPUTE_PGM_RSRC2:TGID_Y_EN: 1
; COMPUTE_PGM_RSRC2:TGID_Z_EN: 1
; COMPUTE_PGM_RSRC2:TIDIG_COMP_CNT: 2
	.text
	.globl	nested_loops                    ; -- Begin function nested_loops
	.p2align	8
	.type	nested_loops,@function
	.amdgpu_hsa_kernel nested_loops
nested_loops:                           ; @nested_loops
	.amd_kernel_code_t
		amd_code_version_major = 1
		amd_code_version_minor = 2
		amd_machine_kind = 1
		amd_machine_version_major = 9
		amd_machine_version_minor = 0
		amd_machine_version_stepping = 6
		kernel_code_entry_byte_offset = 256
		kernel_code_prefetch_byte_size = 0
		granulated_workitem_vgpr_count = 21
		granulated_wavefront_sgpr_count = 12
		priority = 0
		float_mode = 240
		priv = 0
		enable_dx10_clamp = 1
		debug_mode = 0
		enable_ieee_mode = 1
		enable_wgp_mode = 0
		enable_mem_ordered = 0
		enable_fwd_progress = 0
		enable_sgpr_private_segment_wave_byte_offset = 0
		user_sgpr_count = 6
		enable_trap_handler = 0
		enable_sgpr_workgroup_id_x = 1
		enable_sgpr_workgroup_id_y = 0
		enable_sgpr_workgroup_id_z = 0
		enable_sgpr_workgroup_info = 0
		enable_vgpr_workitem_id = 0
		enable_exception_msb = 0
		granulated_lds_size = 0
		enable_exception = 0
		enable_sgpr_private_segment_buffer = 1
		enable_sgpr_dispatch_ptr = 0
		enable_sgpr_queue_ptr = 0
		enable_sgpr_kernarg_segment_ptr = 1
		enable_sgpr_dispatch_id = 0
		enable_sgpr_flat_scratch_init = 0
		enable_sgpr_private_segment_size = 0
		enable_sgpr_grid_workgroup_count_x = 0
		enable_sgpr_grid_workgroup_count_y = 0
		enable_sgpr_grid_workgroup_count_z = 0
		enable_wavefront_size32 = 0
		enable_ordered_append_gds = 0
		private_element_size = 1
		is_ptr64 = 1
		is_dynamic_callstack = 0
		is_debug_enabled = 0
		is_xnack_enabled = 1
		workitem_private_segment_byte_size = 0
		workgroup_group_segment_byte_size = 1024
		gds_segment_byte_size = 0
		kernarg_segment_byte_size = 16
		workgroup_fbarrier_count = 0
		wavefront_sgpr_count = 6
		workitem_vgpr_count = 5
		reserved_vgpr_first = 0
		reserved_vgpr_count = 0
		reserved_sgpr_first = 0
		reserved_sgpr_count = 0
		debug_wavefront_private_segment_offset_sgpr = 0
		debug_private_segment_buffer_sgpr = 0
		kernarg_segment_alignment = 4
		group_segment_alignment = 4
		private_segment_alignment = 4
		wavefront_size = 6
		call_convention = -1
		runtime_loader_kernel_symbol = 0
	.end_amd_kernel_code_t
; %bb.0:                                ; %entry
	s_load_dwordx2 s[0:1], s[4:5], 0x0
	s_load_dwordx2 s[2:3], s[4:5], 0x8
	v_lshlrev_b32_e32 v2, 2, v0
	s_mov_b32 s4, 0
	v_mov_b32_e32 v1, 0
	s_branch .LBB6_2
.LBB6_1:                                ; %latch
                                        ;   in Loop: Header=BB6_2 Depth=1
	s_add_i32 s4, s4, 1
	s_waitcnt lgkmcnt(0)
	s_cmp_lt_i32 s4, s2
	; wave barrier
	s_cbranch_scc0 .LBB6_5
.LBB6_2:                                ; %outer
                                        ; =>This Loop Header: Depth=1
                                        ;     Child Loop BB6_4 Depth 2
	s_bitcmp0_b32 s4, 0
	s_cbranch_scc1 .LBB6_1
; %bb.3:                                ; %inner.preheader
                                        ;   in Loop: Header=BB6_2 Depth=1
	s_mov_b32 s5, 0
	v_mov_b32_e32 v3, v2
.LBB6_4:                                ; %inner
                                        ;   Parent Loop BB6_2 Depth=1
                                        ; =>  This Inner Loop Header: Depth=2
	ds_read_b32 v4, v3
	s_add_i32 s5, s5, 1
	v_add_u32_e32 v3, 4, v3
	s_waitcnt lgkmcnt(0)
	s_cmp_lt_i32 s5, s3
	v_add_u32_e32 v1, v1, v4
	s_cbranch_scc1 .LBB6_4
	s_branch .LBB6_1
.LBB6_5:                                ; %done
	v_lshlrev_b32_e32 v0, 2, v0
	global_store_dword v0, v1, s[0:1]
	s_endpgm
.Lfunc_end6:
	.size	nested_loops, .Lfunc_end6-nested_loops
                                        ; -- End function
	.section	.AMDGPU.csdata
; Kernel info:
; codeLenInByte = 116
; NumSgprs: 6
; NumVgprs: 5
; ScratchSize: 0
; MemoryBound: 0
; FloatMode: 240
; IeeeMode: 1
; LDSByteSize: 1024 bytes/workgroup (compile time only)
; SGPRBlocks: 12
; VGPRBlocks: 21
; NumSGPRsForWavesPerEU: 102
; NumVGPRsForWavesPerEU: 85
; Occupancy: 2
; WaveLimiterHint : 1
; COMPUTE_PGM_RSRC2:SCRATCH_EN: 0
; COMPUTE_PGM_RSRC2:USER_SGPR: 6
; COMPUTE_PGM_RSRC2:TRAP_HANDLER: 0
; COMPUTE_PGM_RSRC2:TGID_X_EN: 1
; COMPUTE_PGM_RSRC2:TGID_Y_EN: 0
; COMPUTE_PGM_RSRC2:TGID_Z_EN: 0
; COMPUTE_PGM_RSRC2:TIDIG_COMP_CNT: 0
	.section	".note.GNU-stack"
	.amd_amdgpu_isa "amdgcn-amd-amdhsa--gfx907"
	.amd_amdgpu_hsa_metadata
---
Version:         [ 1, 0 ]
Kernels:
  - Name:            calls_in_loop
    SymbolName:      'calls_in_loop@kd'
    Args:
      - Name:            p
        Size:            8
        Align:           8
        ValueKind:       GlobalBuffer
        AddrSpaceQual:   Global
      - Name:            n
        Size:            4
        Align:           4
        ValueKind:       ByValue
    CodeProps:
      KernargSegmentSize: 12
      GroupSegmentFixedSize: 0
      PrivateSegmentFixedSize: 16432
      KernargSegmentAlign: 8
      WavefrontSize:   64
      NumSGPRs:        40
      NumVGPRs:        3
      MaxFlatWorkGroupSize: 256
      IsDynamicCallStack: true
      IsXNACKEnabled:  true
  - Name:            calls_recursive
    SymbolName:      'calls_recursive@kd'
    Args:
      - Name:            p
        Size:            8
        Align:           8
        ValueKind:       GlobalBuffer
        AddrSpaceQual:   Global
      - Name:            n
        Size:            4
        Align:           4
        ValueKind:       ByValue
    CodeProps:
      KernargSegmentSize: 12
      GroupSegmentFixedSize: 0
      PrivateSegmentFixedSize: 16400
      KernargSegmentAlign: 8
      WavefrontSize:   64
      NumSGPRs:        44
      NumVGPRs:        42
      MaxFlatWorkGroupSize: 256
      IsDynamicCallStack: true
      IsXNACKEnabled:  true
  - Name:            calls_unknown
    SymbolName:      'calls_unknown@kd'
    Args:
      - Name:            p
        Size:            8
        Align:           8
        ValueKind:       GlobalBuffer
        AddrSpaceQual:   Global
      - Name:            n
        Size:            4
        Align:           4
        ValueKind:       ByValue
      - Size:            8
        Align:           8
        ValueKind:       HiddenGlobalOffsetX
      - Size:            8
        Align:           8
        ValueKind:       HiddenGlobalOffsetY
      - Size:            8
        Align:           8
        ValueKind:       HiddenGlobalOffsetZ
      - Size:            8
        Align:           8
        ValueKind:       HiddenNone
        AddrSpaceQual:   Global
      - Size:            8
        Align:           8
        ValueKind:       HiddenNone
        AddrSpaceQual:   Global
      - Size:            8
        Align:           8
        ValueKind:       HiddenNone
        AddrSpaceQual:   Global
      - Size:            8
        Align:           8
        ValueKind:       HiddenMultiGridSyncArg
        AddrSpaceQual:   Global
    CodeProps:
      KernargSegmentSize: 72
      GroupSegmentFixedSize: 0
      PrivateSegmentFixedSize: 16384
      KernargSegmentAlign: 8
      WavefrontSize:   64
      NumSGPRs:        42
      NumVGPRs:        42
      MaxFlatWorkGroupSize: 256
      IsDynamicCallStack: true
      IsXNACKEnabled:  true
  - Name:            nested_loops
    SymbolName:      'nested_loops@kd'
    Args:
      - Name:            p
        Size:            8
        Align:           8
        ValueKind:       GlobalBuffer
        AddrSpaceQual:   Global
      - Name:            n
        Size:            4
        Align:           4
        ValueKind:       ByValue
      - Name:            m
        Size:            4
        Align:           4
        ValueKind:       ByValue
    CodeProps:
      KernargSegmentSize: 16
      GroupSegmentFixedSize: 1024
      PrivateSegmentFixedSize: 0
      KernargSegmentAlign: 8
      WavefrontSize:   64
      NumSGPRs:        6
      NumVGPRs:        5
      MaxFlatWorkGroupSize: 64
      IsXNACKEnabled:  true
...

	.end_amd_amdgpu_hsa_metadata
