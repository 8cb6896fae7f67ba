	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.amdhsa_code_object_version 5
	.text
	.globl	k                               ; -- Begin function k
	.p2align	8
	.type	k,@function
k:                                      ; @k
; %bb.11:
	s_load_dwordx2 s[2:3], s[0:1], 0x0
	s_load_dwordx8 s[4:11], s[0:1], 0x8
	s_load_dwordx4 s[12:15], s[0:1], 0x28
	s_waitcnt lgkmcnt(0)
	s_branch .LBB0_0
	.p2align	8
; %bb.12:
.LBB0_0:
	v_readfirstlane_b32 s15, v0
	s_and_b32 s0, s15, 0x1c0
	v_and_or_b32 v1, v0, 63, s0
	v_and_b32_e32 v49, 15, v0
	s_lshl_b32 s8, s16, 7
	v_lshrrev_b32_e32 v3, 4, v1
	v_lshlrev_b32_e32 v2, 2, v49
	s_lshl_b32 s11, s17, 7
	s_mul_i32 s14, s10, s8
	v_mad_u64_u32 v[32:33], s[0:1], v3, s10, v[2:3]
	v_or_b32_e32 v4, 32, v3
	v_or_b32_e32 v5, 64, v3
	v_or_b32_e32 v6, 0x60, v3
	s_cmp_gt_i32 s10, 0
	v_add_lshl_u32 v3, v32, s14, 2
	s_mov_b64 s[20:21], s[2:3]
	v_bfrev_b32_e32 v33, 1
	s_cselect_b64 vcc, -1, 0
	v_mad_u64_u32 v[34:35], s[0:1], v4, s10, v[2:3]
	v_and_b32_e32 v51, 0x1e0, v1
	v_mad_u64_u32 v[36:37], s[0:1], v5, s10, v[2:3]
	v_mad_u64_u32 v[38:39], s[0:1], v6, s10, v[2:3]
	s_and_b32 s21, s21, 0xffff
	s_mov_b32 s23, 0x27000
	s_mov_b32 s22, 0x7ffffffe
	v_cndmask_b32_e32 v3, v33, v3, vcc
	v_add_lshl_u32 v4, v34, s14, 2
	v_and_b32_e32 v48, 31, v0
	v_lshrrev_b32_e32 v21, 4, v51
	v_cndmask_b32_e32 v12, v33, v4, vcc
	buffer_load_dwordx4 v[4:7], v3, s[20:23], 0 offen
	buffer_load_dwordx4 v[8:11], v12, s[20:23], 0 offen
	v_add_lshl_u32 v3, v36, s14, 2
	v_lshlrev_b32_e32 v20, 2, v48
	v_or_b32_e32 v22, 1, v21
	v_cndmask_b32_e32 v3, v33, v3, vcc
	v_add_lshl_u32 v12, v38, s14, 2
	v_or_b32_e32 v23, 32, v21
	v_or_b32_e32 v24, 33, v21
	v_cndmask_b32_e32 v25, v33, v12, vcc
	buffer_load_dwordx4 v[12:15], v3, s[20:23], 0 offen
	buffer_load_dwordx4 v[16:19], v25, s[20:23], 0 offen
	v_mad_u64_u32 v[42:43], s[0:1], v22, s9, v[20:21]
	v_mad_u64_u32 v[40:41], s[0:1], v21, s9, v[20:21]
	v_mad_u64_u32 v[44:45], s[0:1], v23, s9, v[20:21]
	v_mad_u64_u32 v[46:47], s[0:1], v24, s9, v[20:21]
	v_add_lshl_u32 v20, v42, s11, 2
	v_add_lshl_u32 v3, v40, s11, 2
	v_cndmask_b32_e32 v35, v33, v20, vcc
	v_add_lshl_u32 v20, v44, s11, 2
	s_mov_b64 s[12:13], s[6:7]
	s_and_b32 s5, s5, 0xffff
	s_mov_b32 s6, s22
	s_mov_b32 s7, s23
	v_cndmask_b32_e32 v3, v33, v3, vcc
	v_cndmask_b32_e32 v37, v33, v20, vcc
	buffer_load_dwordx4 v[20:23], v37, s[4:7], 0 offen
	buffer_load_dwordx4 v[24:27], v3, s[4:7], 0 offen
	buffer_load_dwordx4 v[28:31], v35, s[4:7], 0 offen
	v_add_lshl_u32 v3, v46, s11, 2
	v_cndmask_b32_e32 v3, v33, v3, vcc
	buffer_load_dwordx4 v[52:55], v3, s[4:7], 0 offen
	v_lshrrev_b32_e32 v37, 2, v1
	v_lshlrev_b32_e32 v35, 4, v1
	v_and_b32_e32 v37, 60, v37
	v_lshlrev_b32_e32 v3, 4, v0
	v_xor_b32_e32 v35, v37, v35
	v_and_b32_e32 v33, 28, v0
	v_and_b32_e32 v3, 48, v3
	v_add_u32_e32 v43, 0, v35
	v_xor_b32_e32 v37, 4, v35
	v_xor_b32_e32 v39, 8, v35
	v_xor_b32_e32 v35, 12, v35
	v_add_u32_e32 v45, 0, v37
	v_add_u32_e32 v47, 0, v39
	v_add_u32_e32 v50, 0, v35
	v_xor_b32_e32 v3, v3, v33
	s_movk_i32 s0, 0x100
	v_cmp_gt_u32_e32 vcc, s0, v0
	s_movk_i32 s0, 0xff
	v_cmp_lt_u32_e64 s[0:1], s0, v0
	s_waitcnt vmcnt(6)
	ds_write2st64_b32 v43, v4, v8 offset1:32
	ds_write2st64_b32 v45, v5, v9 offset1:32
	ds_write2st64_b32 v47, v6, v10 offset1:32
	ds_write2st64_b32 v50, v7, v11 offset1:32
	s_waitcnt vmcnt(4)
	ds_write2st64_b32 v43, v12, v16 offset0:64 offset1:96
	ds_write2st64_b32 v45, v13, v17 offset0:64 offset1:96
	ds_write2st64_b32 v47, v14, v18 offset0:64 offset1:96
	ds_write2st64_b32 v50, v15, v19 offset0:64 offset1:96
	v_lshrrev_b32_e32 v4, 2, v51
	v_xor_b32_e32 v3, v3, v4
	v_lshl_or_b32 v8, v48, 10, v3
	v_xor_b32_e32 v3, 4, v8
	v_add_u32_e32 v51, 0, v8
	v_add_u32_e32 v3, 0, v3
	v_add_u32_e32 v5, 0x8000, v51
	v_add_u32_e32 v4, 0x8000, v3
	s_waitcnt vmcnt(2)
	ds_write2_b32 v5, v24, v20 offset1:32
	s_waitcnt vmcnt(0)
	ds_write2_b32 v4, v28, v52 offset1:32
	v_xor_b32_e32 v4, 0x104, v8
	v_add_u32_e32 v4, 0, v4
	v_add_u32_e32 v6, 0x8000, v4
	ds_write2_b32 v6, v25, v21 offset1:32
	ds_write2_b32 v5, v29, v53 offset0:64 offset1:96
	v_xor_b32_e32 v5, 0x208, v8
	v_add_u32_e32 v5, 0, v5
	v_add_u32_e32 v6, 0x8000, v5
	ds_write2_b32 v6, v26, v22 offset1:32
	v_xor_b32_e32 v6, 0x20c, v8
	v_add_u32_e32 v6, 0, v6
	v_add_u32_e32 v7, 0x8000, v6
	ds_write2_b32 v7, v30, v54 offset1:32
	v_xor_b32_e32 v7, 0x30c, v8
	v_add_u32_e32 v7, 0, v7
	v_xor_b32_e32 v8, 0x308, v8
	v_add_u32_e32 v9, 0x8000, v7
	v_add_u32_e32 v8, 0, v8
	ds_write2_b32 v9, v27, v23 offset1:32
	v_add_u32_e32 v9, 0x8000, v8
	ds_write2_b32 v9, v31, v55 offset1:32
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_and_saveexec_b64 s[2:3], s[0:1]
	s_cbranch_execz .LBB0_2
; %bb.1:
	s_barrier
.LBB0_2:
	s_or_b64 exec, exec, s[2:3]
	s_and_b32 s2, s15, 0xc0
	v_lshrrev_b32_e32 v9, 3, v0
	s_and_b32 s3, s15, 0x100
	s_sub_i32 s0, s10, 64
	v_and_b32_e32 v33, 4, v9
	s_cmp_lt_i32 s0, 1
	v_bfe_i32 v37, v0, 4, 1
	v_lshl_or_b32 v35, v48, 8, v2
	v_lshrrev_b32_e32 v41, 3, v1
	v_lshl_or_b32 v39, s2, 7, v2
	s_cbranch_scc1 .LBB0_10
; %bb.3:                                ; %.lr.ph
	v_xor_b32_e32 v0, v35, v33
	v_and_b32_e32 v15, 0x1004, v37
	v_lshl_or_b32 v1, s3, 5, v0
	v_and_b32_e32 v0, 28, v41
	v_xor_b32_e32 v15, v39, v15
	v_xor_b32_e32 v0, v15, v0
	v_lshl_or_b32 v15, v49, 8, v0
	v_xor_b32_e32 v2, 8, v1
	v_xor_b32_e32 v9, 16, v1
	v_xor_b32_e32 v10, 24, v1
	v_xor_b32_e32 v11, 32, v1
	v_xor_b32_e32 v12, 40, v1
	v_xor_b32_e32 v13, 48, v1
	v_xor_b32_e32 v14, 56, v1
	v_xor_b32_e32 v16, 8, v15
	v_xor_b32_e32 v17, 16, v15
	v_xor_b32_e32 v18, 24, v15
	v_xor_b32_e32 v19, 32, v15
	v_xor_b32_e32 v20, 40, v15
	v_xor_b32_e32 v21, 48, v15
	v_xor_b32_e32 v22, 56, v15
	v_xor_b32_e32 v30, 0x88, v15
	v_xor_b32_e32 v31, 0x90, v15
	v_xor_b32_e32 v68, 0x98, v15
	v_xor_b32_e32 v69, 0xa0, v15
	v_xor_b32_e32 v70, 0xa8, v15
	v_xor_b32_e32 v71, 0xb0, v15
	v_xor_b32_e32 v72, 0xb8, v15
	v_xor_b32_e32 v23, 0x88, v1
	v_xor_b32_e32 v24, 0x90, v1
	v_xor_b32_e32 v25, 0x98, v1
	v_xor_b32_e32 v26, 0xa0, v1
	v_xor_b32_e32 v27, 0xa8, v1
	v_xor_b32_e32 v28, 0xb0, v1
	v_xor_b32_e32 v29, 0xb8, v1
	v_mov_b32_e32 v0, 0
	v_add_u32_e32 v52, 0, v1
	v_add_u32_e32 v53, 0, v2
	v_add_u32_e32 v54, 0, v9
	v_add_u32_e32 v55, 0, v10
	v_add_u32_e32 v56, 0, v11
	v_add_u32_e32 v57, 0, v12
	v_add_u32_e32 v58, 0, v13
	v_add_u32_e32 v59, 0, v14
	v_add_u32_e32 v60, 0, v15
	v_add_u32_e32 v1, 0, v16
	v_add_u32_e32 v2, 0, v17
	v_add_u32_e32 v9, 0, v18
	v_add_u32_e32 v10, 0, v19
	v_add_u32_e32 v11, 0, v20
	v_add_u32_e32 v12, 0, v21
	v_add_u32_e32 v13, 0, v22
	v_add_u32_e32 v14, 0, v30
	v_add_u32_e32 v15, 0, v31
	v_add_u32_e32 v16, 0, v68
	v_add_u32_e32 v17, 0, v69
	v_add_u32_e32 v18, 0, v70
	v_add_u32_e32 v19, 0, v71
	v_add_u32_e32 v20, 0, v72
	s_mov_b32 s1, 0
	v_add_u32_e32 v61, 0, v23
	v_add_u32_e32 v62, 0, v24
	v_add_u32_e32 v63, 0, v25
	v_add_u32_e32 v64, 0, v26
	v_add_u32_e32 v65, 0, v27
	v_add_u32_e32 v66, 0, v28
	v_add_u32_e32 v67, 0, v29
	s_mov_b32 s6, s22
	s_mov_b32 s7, s23
	v_add_u32_e32 v68, 0x8000, v1
	v_add_u32_e32 v69, 0x8000, v2
	v_add_u32_e32 v70, 0x8000, v9
	v_add_u32_e32 v71, 0x8000, v10
	v_add_u32_e32 v72, 0x8000, v11
	v_add_u32_e32 v73, 0x8000, v12
	v_add_u32_e32 v74, 0x8000, v13
	v_add_u32_e32 v75, 0x8000, v14
	v_add_u32_e32 v76, 0x8000, v15
	v_add_u32_e32 v77, 0x8000, v16
	v_add_u32_e32 v78, 0x8000, v17
	v_add_u32_e32 v79, 0x8000, v18
	v_add_u32_e32 v80, 0x8000, v19
	v_add_u32_e32 v81, 0x8000, v20
	v_add_u32_e32 v82, 0x8000, v3
	v_add_u32_e32 v83, 0x8000, v4
	v_add_u32_e32 v84, 0x8000, v5
	v_add_u32_e32 v85, 0x8000, v6
	v_add_u32_e32 v86, 0x8000, v7
	v_add_u32_e32 v87, 0x8000, v8
	v_mov_b32_e32 v1, v0
	v_mov_b32_e32 v2, v0
	v_mov_b32_e32 v3, v0
	v_mov_b32_e32 v4, v0
	v_mov_b32_e32 v5, v0
	v_mov_b32_e32 v6, v0
	v_mov_b32_e32 v7, v0
	v_mov_b32_e32 v8, v0
	v_mov_b32_e32 v9, v0
	v_mov_b32_e32 v10, v0
	v_mov_b32_e32 v11, v0
	v_mov_b32_e32 v12, v0
	v_mov_b32_e32 v13, v0
	v_mov_b32_e32 v14, v0
	v_mov_b32_e32 v15, v0
	v_mov_b32_e32 v16, v0
	v_mov_b32_e32 v17, v0
	v_mov_b32_e32 v18, v0
	v_mov_b32_e32 v19, v0
	v_mov_b32_e32 v20, v0
	v_mov_b32_e32 v21, v0
	v_mov_b32_e32 v22, v0
	v_mov_b32_e32 v23, v0
	v_mov_b32_e32 v24, v0
	v_mov_b32_e32 v25, v0
	v_mov_b32_e32 v26, v0
	v_mov_b32_e32 v27, v0
	v_mov_b32_e32 v28, v0
	v_mov_b32_e32 v29, v0
	v_mov_b32_e32 v30, v0
	v_mov_b32_e32 v31, v0
	v_add_u32_e32 v88, 0x4000, v52
.LBB0_4:                                ; =>This Inner Loop Header: Depth=1
	v_add_u32_e32 v89, 0x4000, v53
	ds_read2_b32 v[128:129], v89 offset1:16
	ds_read2_b32 v[130:131], v54 offset1:16
	v_add_u32_e32 v89, 0x4000, v54
	ds_read2_b32 v[132:133], v89 offset1:16
	ds_read2_b32 v[134:135], v55 offset1:16
	v_add_u32_e32 v89, 0x4000, v55
	ds_read2_b32 v[136:137], v89 offset1:16
	ds_read2_b32 v[138:139], v56 offset1:16
	v_add_u32_e32 v89, 0x4000, v56
	ds_read2_b32 v[140:141], v89 offset1:16
	ds_read2_b32 v[142:143], v57 offset1:16
	v_add_u32_e32 v89, 0x4000, v57
	ds_read2_b32 v[144:145], v89 offset1:16
	ds_read2_b32 v[146:147], v58 offset1:16
	v_add_u32_e32 v89, 0x4000, v58
	ds_read2_b32 v[148:149], v89 offset1:16
	ds_read2_b32 v[150:151], v59 offset1:16
	v_add_u32_e32 v89, 0x4000, v59
	ds_read2_b32 v[152:153], v89 offset1:16
	v_add_u32_e32 v89, 0x8000, v60
	ds_read2_b32 v[154:155], v89 offset1:16
	ds_read2_b32 v[156:157], v68 offset1:16
	ds_read2_b32 v[158:159], v69 offset1:16
	ds_read2_b32 v[160:161], v70 offset1:16
	ds_read2_b32 v[162:163], v71 offset1:16
	ds_read2_b32 v[164:165], v72 offset1:16
	ds_read2_b32 v[166:167], v73 offset1:16
	ds_read2_b32 v[168:169], v74 offset1:16
	ds_read2_b32 v[122:123], v52 offset1:16
	ds_read2_b32 v[124:125], v88 offset1:16
	ds_read2_b32 v[126:127], v53 offset1:16
	s_add_i32 s1, s1, 64
	s_mul_i32 s16, s1, s9
	s_add_i32 s15, s1, s14
	s_add_i32 s16, s16, s11
	; sched_barrier mask(0x00000000)
	v_add_lshl_u32 v90, s15, v32, 2
	v_add_lshl_u32 v94, s15, v34, 2
	v_add_lshl_u32 v98, s15, v36, 2
	v_add_lshl_u32 v102, s15, v38, 2
	buffer_load_dwordx4 v[90:93], v90, s[20:23], 0 offen
	s_nop 0
	buffer_load_dwordx4 v[94:97], v94, s[20:23], 0 offen
	s_nop 0
	buffer_load_dwordx4 v[98:101], v98, s[20:23], 0 offen
	s_nop 0
	buffer_load_dwordx4 v[102:105], v102, s[20:23], 0 offen
	; sched_barrier mask(0x00000000)
	v_add_u32_e32 v106, 0x4000, v61
	ds_read2_b32 v[176:177], v106 offset1:16
	ds_read2_b32 v[178:179], v62 offset1:16
	v_add_u32_e32 v106, 0x4000, v62
	ds_read2_b32 v[180:181], v106 offset1:16
	ds_read2_b32 v[182:183], v63 offset1:16
	v_add_u32_e32 v106, 0x4000, v63
	ds_read2_b32 v[184:185], v106 offset1:16
	ds_read2_b32 v[186:187], v64 offset1:16
	v_add_u32_e32 v106, 0x4000, v64
	ds_read2_b32 v[188:189], v106 offset1:16
	ds_read2_b32 v[190:191], v65 offset1:16
	v_add_u32_e32 v106, 0x4000, v65
	ds_read2_b32 v[192:193], v106 offset1:16
	ds_read2_b32 v[194:195], v66 offset1:16
	v_add_u32_e32 v106, 0x4000, v66
	ds_read2_b32 v[196:197], v106 offset1:16
	ds_read2_b32 v[198:199], v67 offset1:16
	v_add_u32_e32 v106, 0x4000, v67
	ds_read2_b32 v[200:201], v106 offset1:16
	ds_read2_b32 v[202:203], v89 offset0:32 offset1:48
	ds_read2_b32 v[204:205], v75 offset1:16
	ds_read2_b32 v[206:207], v76 offset1:16
	ds_read2_b32 v[208:209], v77 offset1:16
	ds_read2_b32 v[210:211], v78 offset1:16
	ds_read2_b32 v[212:213], v79 offset1:16
	ds_read2_b32 v[214:215], v80 offset1:16
	ds_read2_b32 v[216:217], v81 offset1:16
	ds_read2_b32 v[170:171], v52 offset0:32 offset1:48
	ds_read2_b32 v[172:173], v88 offset0:32 offset1:48
	ds_read2_b32 v[174:175], v61 offset1:16
	; sched_barrier mask(0x00000000)
	v_add_lshl_u32 v89, s16, v40, 2
	v_add_lshl_u32 v110, s16, v42, 2
	buffer_load_dwordx4 v[106:109], v89, s[4:7], 0 offen
	s_nop 0
	buffer_load_dwordx4 v[110:113], v110, s[4:7], 0 offen
	v_add_lshl_u32 v89, s16, v44, 2
	v_add_lshl_u32 v118, s16, v46, 2
	buffer_load_dwordx4 v[114:117], v89, s[4:7], 0 offen
	s_nop 0
	buffer_load_dwordx4 v[118:121], v118, s[4:7], 0 offen
	s_barrier
	; sched_barrier mask(0x00000000)
	s_waitcnt lgkmcnt(14)
	v_mfma_f32_32x32x2_f32 v[0:15], v154, v122, v[0:15]
	s_setprio 1
	v_mfma_f32_32x32x2_f32 v[16:31], v154, v124, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v156, v126, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v156, v128, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v158, v130, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v158, v132, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v160, v134, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v160, v136, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v162, v138, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v162, v140, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v164, v142, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v164, v144, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v166, v146, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v166, v148, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v168, v150, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v168, v152, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v155, v123, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v155, v125, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v157, v127, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v157, v129, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v159, v131, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v159, v133, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v161, v135, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v161, v137, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v163, v139, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v163, v141, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v165, v143, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v165, v145, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v167, v147, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v167, v149, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v169, v151, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v169, v153, v[16:31]
	s_setprio 0
	s_waitcnt lgkmcnt(0)
	s_barrier
	; sched_barrier mask(0x00000000)
	v_add_u32_e32 v89, 0x8000, v51
	s_waitcnt vmcnt(6)
	ds_write2st64_b32 v43, v90, v94 offset1:32
	s_waitcnt vmcnt(4)
	ds_write2st64_b32 v43, v98, v102 offset0:64 offset1:96
	ds_write2st64_b32 v45, v91, v95 offset1:32
	ds_write2st64_b32 v45, v99, v103 offset0:64 offset1:96
	ds_write2st64_b32 v47, v92, v96 offset1:32
	ds_write2st64_b32 v47, v100, v104 offset0:64 offset1:96
	ds_write2st64_b32 v50, v93, v97 offset1:32
	ds_write2st64_b32 v50, v101, v105 offset0:64 offset1:96
	s_waitcnt vmcnt(1)
	ds_write2_b32 v89, v106, v114 offset1:32
	s_waitcnt vmcnt(0)
	ds_write2_b32 v82, v110, v118 offset1:32
	ds_write2_b32 v83, v107, v115 offset1:32
	ds_write2_b32 v89, v111, v119 offset0:64 offset1:96
	ds_write2_b32 v84, v108, v116 offset1:32
	ds_write2_b32 v85, v112, v120 offset1:32
	ds_write2_b32 v86, v109, v117 offset1:32
	ds_write2_b32 v87, v113, v121 offset1:32
	s_waitcnt lgkmcnt(0)
	s_barrier
	; sched_barrier mask(0x00000000)
	v_mfma_f32_32x32x2_f32 v[0:15], v202, v170, v[0:15]
	s_setprio 1
	v_mfma_f32_32x32x2_f32 v[16:31], v202, v172, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v204, v174, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v204, v176, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v206, v178, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v206, v180, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v208, v182, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v208, v184, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v210, v186, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v210, v188, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v212, v190, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v212, v192, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v214, v194, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v214, v196, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v216, v198, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v216, v200, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v203, v171, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v203, v173, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v205, v175, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v205, v177, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v207, v179, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v207, v181, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v209, v183, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v209, v185, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v211, v187, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v211, v189, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v213, v191, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v213, v193, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v215, v195, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v215, v197, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v217, v199, v[0:15]
	v_mfma_f32_32x32x2_f32 v[16:31], v217, v201, v[16:31]
	s_setprio 0
	s_barrier
	; sched_barrier mask(0x00000000)
	s_cmp_lt_i32 s1, s0
	s_cbranch_scc1 .LBB0_4
; %bb.5:                                ; %._crit_edge
	s_and_saveexec_b64 s[0:1], vcc
	s_cbranch_execz .LBB0_7
.LBB0_6:
	s_barrier
.LBB0_7:
	s_or_b64 exec, exec, s[0:1]
	s_add_i32 s10, s10, 63
	s_cmp_lt_i32 s10, 64
	s_cbranch_scc1 .LBB0_9
; %bb.8:
	v_and_b32_e32 v34, 0x1004, v37
	v_and_b32_e32 v32, 28, v41
	v_xor_b32_e32 v34, v39, v34
	v_xor_b32_e32 v32, v34, v32
	v_lshl_or_b32 v32, v49, 8, v32
	v_add_u32_e32 v34, 0, v32
	v_add_u32_e32 v49, 0x8000, v34
	ds_read2_b32 v[36:37], v49 offset1:16
	v_xor_b32_e32 v34, v35, v33
	v_lshl_or_b32 v66, s3, 5, v34
	v_add_u32_e32 v84, 0, v66
	ds_read2_b32 v[34:35], v84 offset1:16
	v_xad_u32 v85, v66, 8, 0
	ds_read2_b32 v[40:41], v85 offset1:16
	v_xad_u32 v86, v66, 16, 0
	s_waitcnt lgkmcnt(1)
	v_mfma_f32_32x32x2_f32 v[0:15], v36, v34, v[0:15]
	v_xad_u32 v34, v32, 8, 0
	v_add_u32_e32 v68, 0x8000, v34
	ds_read2_b32 v[38:39], v68 offset1:16
	v_xad_u32 v34, v32, 16, 0
	v_add_u32_e32 v69, 0x8000, v34
	ds_read2_b32 v[42:43], v69 offset1:16
	ds_read2_b32 v[44:45], v86 offset1:16
	v_xad_u32 v34, v32, 24, 0
	v_add_u32_e32 v70, 0x8000, v34
	ds_read2_b32 v[46:47], v70 offset1:16
	v_xad_u32 v87, v66, 24, 0
	ds_read2_b32 v[50:51], v87 offset1:16
	v_xad_u32 v34, v32, 32, 0
	v_add_u32_e32 v71, 0x8000, v34
	ds_read2_b32 v[52:53], v71 offset1:16
	s_waitcnt lgkmcnt(5)
	v_mfma_f32_32x32x2_f32 v[0:15], v38, v40, v[0:15]
	v_xad_u32 v88, v66, 32, 0
	ds_read2_b32 v[54:55], v88 offset1:16
	v_xad_u32 v34, v32, 40, 0
	v_add_u32_e32 v72, 0x8000, v34
	ds_read2_b32 v[56:57], v72 offset1:16
	v_xad_u32 v89, v66, 40, 0
	ds_read2_b32 v[58:59], v89 offset1:16
	v_xad_u32 v34, v32, 48, 0
	v_add_u32_e32 v76, 0x8000, v34
	ds_read2_b32 v[60:61], v76 offset1:16
	v_xad_u32 v90, v66, 48, 0
	ds_read2_b32 v[62:63], v90 offset1:16
	v_xad_u32 v32, v32, 56, 0
	v_add_u32_e32 v32, 0x8000, v32
	ds_read2_b32 v[64:65], v32 offset1:16
	s_waitcnt lgkmcnt(9)
	v_mfma_f32_32x32x2_f32 v[0:15], v42, v44, v[0:15]
	v_xad_u32 v91, v66, 56, 0
	ds_read2_b32 v[66:67], v91 offset1:16
	ds_read2_b32 v[72:73], v72 offset0:32 offset1:48
	ds_read2_b32 v[74:75], v89 offset0:32 offset1:48
	ds_read2_b32 v[76:77], v76 offset0:32 offset1:48
	ds_read2_b32 v[78:79], v90 offset0:32 offset1:48
	ds_read2_b32 v[80:81], v32 offset0:32 offset1:48
	ds_read2_b32 v[82:83], v91 offset0:32 offset1:48
	v_add_u32_e32 v32, 0x4000, v84
	s_waitcnt lgkmcnt(14)
	v_mfma_f32_32x32x2_f32 v[0:15], v46, v50, v[0:15]
	s_waitcnt lgkmcnt(12)
	v_mfma_f32_32x32x2_f32 v[0:15], v52, v54, v[0:15]
	s_waitcnt lgkmcnt(10)
	v_mfma_f32_32x32x2_f32 v[0:15], v56, v58, v[0:15]
	s_waitcnt lgkmcnt(8)
	v_mfma_f32_32x32x2_f32 v[0:15], v60, v62, v[0:15]
	s_waitcnt lgkmcnt(6)
	v_mfma_f32_32x32x2_f32 v[0:15], v64, v66, v[0:15]
	v_mfma_f32_32x32x2_f32 v[0:15], v37, v35, v[0:15]
	v_mfma_f32_32x32x2_f32 v[0:15], v39, v41, v[0:15]
	ds_read2_b32 v[34:35], v49 offset0:32 offset1:48
	ds_read2_b32 v[40:41], v84 offset0:32 offset1:48
	v_add_u32_e32 v49, 0x4000, v86
	v_mfma_f32_32x32x2_f32 v[0:15], v43, v45, v[0:15]
	v_mfma_f32_32x32x2_f32 v[0:15], v47, v51, v[0:15]
	ds_read2_b32 v[44:45], v68 offset0:32 offset1:48
	ds_read2_b32 v[50:51], v85 offset0:32 offset1:48
	v_mfma_f32_32x32x2_f32 v[0:15], v53, v55, v[0:15]
	v_mfma_f32_32x32x2_f32 v[0:15], v57, v59, v[0:15]
	ds_read2_b32 v[54:55], v69 offset0:32 offset1:48
	ds_read2_b32 v[58:59], v86 offset0:32 offset1:48
	v_mfma_f32_32x32x2_f32 v[0:15], v61, v63, v[0:15]
	v_mfma_f32_32x32x2_f32 v[0:15], v65, v67, v[0:15]
	ds_read2_b32 v[62:63], v70 offset0:32 offset1:48
	ds_read2_b32 v[66:67], v87 offset0:32 offset1:48
	ds_read2_b32 v[68:69], v71 offset0:32 offset1:48
	ds_read2_b32 v[70:71], v88 offset0:32 offset1:48
	s_waitcnt lgkmcnt(8)
	v_mfma_f32_32x32x2_f32 v[0:15], v34, v40, v[0:15]
	s_waitcnt lgkmcnt(6)
	v_mfma_f32_32x32x2_f32 v[0:15], v44, v50, v[0:15]
	s_waitcnt lgkmcnt(4)
	v_mfma_f32_32x32x2_f32 v[0:15], v54, v58, v[0:15]
	s_waitcnt lgkmcnt(2)
	v_mfma_f32_32x32x2_f32 v[0:15], v62, v66, v[0:15]
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x2_f32 v[0:15], v68, v70, v[0:15]
	v_mfma_f32_32x32x2_f32 v[0:15], v72, v74, v[0:15]
	v_mfma_f32_32x32x2_f32 v[0:15], v76, v78, v[0:15]
	v_mfma_f32_32x32x2_f32 v[0:15], v80, v82, v[0:15]
	v_mfma_f32_32x32x2_f32 v[0:15], v35, v41, v[0:15]
	ds_read2_b32 v[40:41], v32 offset1:16
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x2_f32 v[16:31], v36, v40, v[16:31]
	v_add_u32_e32 v40, 0x4000, v85
	v_mfma_f32_32x32x2_f32 v[0:15], v45, v51, v[0:15]
	ds_read2_b32 v[50:51], v40 offset1:16
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x2_f32 v[16:31], v38, v50, v[16:31]
	v_add_u32_e32 v50, 0x4000, v89
	v_mfma_f32_32x32x2_f32 v[0:15], v55, v59, v[0:15]
	ds_read2_b32 v[58:59], v49 offset1:16
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x2_f32 v[16:31], v42, v58, v[16:31]
	v_add_u32_e32 v42, 0x4000, v87
	v_mfma_f32_32x32x2_f32 v[0:15], v63, v67, v[0:15]
	ds_read2_b32 v[66:67], v42 offset1:16
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x2_f32 v[16:31], v46, v66, v[16:31]
	v_add_u32_e32 v46, 0x4000, v88
	v_mfma_f32_32x32x2_f32 v[0:15], v69, v71, v[0:15]
	ds_read2_b32 v[70:71], v46 offset1:16
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x2_f32 v[16:31], v52, v70, v[16:31]
	v_add_u32_e32 v52, 0x4000, v90
	v_mfma_f32_32x32x2_f32 v[0:15], v73, v75, v[0:15]
	ds_read2_b32 v[74:75], v50 offset1:16
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x2_f32 v[16:31], v56, v74, v[16:31]
	v_add_u32_e32 v56, 0x4000, v91
	v_mfma_f32_32x32x2_f32 v[0:15], v77, v79, v[0:15]
	ds_read2_b32 v[78:79], v52 offset1:16
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x2_f32 v[16:31], v60, v78, v[16:31]
	v_mfma_f32_32x32x2_f32 v[0:15], v81, v83, v[0:15]
	ds_read2_b32 v[82:83], v56 offset1:16
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x2_f32 v[16:31], v64, v82, v[16:31]
	v_mfma_f32_32x32x2_f32 v[16:31], v37, v41, v[16:31]
	ds_read2_b32 v[36:37], v32 offset0:32 offset1:48
	v_mfma_f32_32x32x2_f32 v[16:31], v39, v51, v[16:31]
	ds_read2_b32 v[38:39], v40 offset0:32 offset1:48
	ds_read2_b32 v[40:41], v49 offset0:32 offset1:48
	ds_read2_b32 v[50:51], v50 offset0:32 offset1:48
	v_mfma_f32_32x32x2_f32 v[16:31], v43, v59, v[16:31]
	ds_read2_b32 v[42:43], v42 offset0:32 offset1:48
	v_mfma_f32_32x32x2_f32 v[16:31], v47, v67, v[16:31]
	ds_read2_b32 v[46:47], v46 offset0:32 offset1:48
	v_mfma_f32_32x32x2_f32 v[16:31], v53, v71, v[16:31]
	ds_read2_b32 v[52:53], v52 offset0:32 offset1:48
	v_mfma_f32_32x32x2_f32 v[16:31], v57, v75, v[16:31]
	ds_read2_b32 v[56:57], v56 offset0:32 offset1:48
	v_mfma_f32_32x32x2_f32 v[16:31], v61, v79, v[16:31]
	v_mfma_f32_32x32x2_f32 v[16:31], v65, v83, v[16:31]
	s_waitcnt lgkmcnt(7)
	v_mfma_f32_32x32x2_f32 v[16:31], v34, v36, v[16:31]
	s_waitcnt lgkmcnt(6)
	v_mfma_f32_32x32x2_f32 v[16:31], v44, v38, v[16:31]
	s_waitcnt lgkmcnt(5)
	v_mfma_f32_32x32x2_f32 v[16:31], v54, v40, v[16:31]
	s_waitcnt lgkmcnt(3)
	v_mfma_f32_32x32x2_f32 v[16:31], v62, v42, v[16:31]
	s_waitcnt lgkmcnt(2)
	v_mfma_f32_32x32x2_f32 v[16:31], v68, v46, v[16:31]
	v_mfma_f32_32x32x2_f32 v[16:31], v72, v50, v[16:31]
	s_waitcnt lgkmcnt(1)
	v_mfma_f32_32x32x2_f32 v[16:31], v76, v52, v[16:31]
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x2_f32 v[16:31], v80, v56, v[16:31]
	v_mfma_f32_32x32x2_f32 v[16:31], v35, v37, v[16:31]
	v_mfma_f32_32x32x2_f32 v[16:31], v45, v39, v[16:31]
	v_mfma_f32_32x32x2_f32 v[16:31], v55, v41, v[16:31]
	v_mfma_f32_32x32x2_f32 v[16:31], v63, v43, v[16:31]
	v_mfma_f32_32x32x2_f32 v[16:31], v69, v47, v[16:31]
	v_mfma_f32_32x32x2_f32 v[16:31], v73, v51, v[16:31]
	v_mfma_f32_32x32x2_f32 v[16:31], v77, v53, v[16:31]
	v_mfma_f32_32x32x2_f32 v[16:31], v81, v57, v[16:31]
.LBB0_9:                                ; %._crit_edge4
	s_lshr_b32 s0, s3, 3
	v_or_b32_e32 v32, s0, v48
	s_lshr_b32 s0, s2, 1
	v_or_b32_e32 v33, s0, v33
	s_mul_i32 s0, s9, s8
	v_or_b32_e32 v34, 64, v32
	v_mul_lo_u32 v32, v32, s9
	s_add_i32 s0, s0, s11
	v_add_u32_e32 v32, s0, v32
	v_or_b32_e32 v37, 8, v33
	s_and_b32 s13, s13, 0xffff
	s_mov_b32 s15, 0x27000
	s_mov_b32 s14, 0x7ffffffe
	v_add_lshl_u32 v38, v32, v33, 2
	v_or_b32_e32 v36, 16, v33
	buffer_store_dwordx4 v[0:3], v38, s[12:15], 0 offen
	v_or_b32_e32 v35, 24, v33
	v_mul_lo_u32 v34, v34, s9
	v_add_lshl_u32 v0, v32, v37, 2
	buffer_store_dwordx4 v[4:7], v0, s[12:15], 0 offen
	v_add_lshl_u32 v0, v32, v36, 2
	v_add_u32_e32 v34, s0, v34
	buffer_store_dwordx4 v[8:11], v0, s[12:15], 0 offen
	v_add_lshl_u32 v0, v32, v35, 2
	buffer_store_dwordx4 v[12:15], v0, s[12:15], 0 offen
	v_add_lshl_u32 v0, v34, v33, 2
	buffer_store_dwordx4 v[16:19], v0, s[12:15], 0 offen
	v_add_lshl_u32 v0, v34, v37, 2
	buffer_store_dwordx4 v[20:23], v0, s[12:15], 0 offen
	v_add_lshl_u32 v0, v34, v36, 2
	buffer_store_dwordx4 v[24:27], v0, s[12:15], 0 offen
	v_add_lshl_u32 v0, v34, v35, 2
	buffer_store_dwordx4 v[28:31], v0, s[12:15], 0 offen
	s_endpgm
.LBB0_10:
	v_mov_b32_e32 v31, 0
	v_mov_b32_e32 v30, v31
	v_mov_b32_e32 v29, v31
	v_mov_b32_e32 v28, v31
	v_mov_b32_e32 v27, v31
	v_mov_b32_e32 v26, v31
	v_mov_b32_e32 v25, v31
	v_mov_b32_e32 v24, v31
	v_mov_b32_e32 v23, v31
	v_mov_b32_e32 v22, v31
	v_mov_b32_e32 v21, v31
	v_mov_b32_e32 v20, v31
	v_mov_b32_e32 v19, v31
	v_mov_b32_e32 v18, v31
	v_mov_b32_e32 v17, v31
	v_mov_b32_e32 v16, v31
	v_mov_b32_e32 v15, v31
	v_mov_b32_e32 v14, v31
	v_mov_b32_e32 v13, v31
	v_mov_b32_e32 v12, v31
	v_mov_b32_e32 v11, v31
	v_mov_b32_e32 v10, v31
	v_mov_b32_e32 v9, v31
	v_mov_b32_e32 v8, v31
	v_mov_b32_e32 v7, v31
	v_mov_b32_e32 v6, v31
	v_mov_b32_e32 v5, v31
	v_mov_b32_e32 v4, v31
	v_mov_b32_e32 v3, v31
	v_mov_b32_e32 v2, v31
	v_mov_b32_e32 v1, v31
	v_mov_b32_e32 v0, v31
	s_and_saveexec_b64 s[0:1], vcc
	s_cbranch_execnz .LBB0_6
	s_branch .LBB0_7
.Lfunc_end0:
	.size	k, .Lfunc_end0-k
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel k
		.amdhsa_group_segment_fixed_size 0
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_kernarg_size 56
		.amdhsa_user_sgpr_count 16
		.amdhsa_user_sgpr_dispatch_ptr 0
		.amdhsa_user_sgpr_queue_ptr 0
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_dispatch_id 0
		.amdhsa_user_sgpr_kernarg_preload_length 14
		.amdhsa_user_sgpr_kernarg_preload_offset 0
		.amdhsa_user_sgpr_private_segment_size 0
		.amdhsa_uses_dynamic_stack 0
		.amdhsa_enable_private_segment 0
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_system_sgpr_workgroup_id_y 1
		.amdhsa_system_sgpr_workgroup_id_z 0
		.amdhsa_system_sgpr_workgroup_info 0
		.amdhsa_system_vgpr_workitem_id 0
		.amdhsa_next_free_vgpr 218
		.amdhsa_next_free_sgpr 24
		.amdhsa_accum_offset 220
		.amdhsa_reserve_vcc 1
		.amdhsa_reserve_xnack_mask 1
		.amdhsa_float_round_mode_32 0
		.amdhsa_float_round_mode_16_64 0
		.amdhsa_float_denorm_mode_32 3
		.amdhsa_float_denorm_mode_16_64 3
		.amdhsa_dx10_clamp 1
		.amdhsa_ieee_mode 1
		.amdhsa_fp16_overflow 0
		.amdhsa_tg_split 0
		.amdhsa_exception_fp_ieee_invalid_op 0
		.amdhsa_exception_fp_denorm_src 0
		.amdhsa_exception_fp_ieee_div_zero 0
		.amdhsa_exception_fp_ieee_overflow 0
		.amdhsa_exception_fp_ieee_underflow 0
		.amdhsa_exception_fp_ieee_inexact 0
		.amdhsa_exception_int_div_zero 0
	.end_amdhsa_kernel
	.text
                                        ; -- End function
	.set .Lk.num_vgpr, 218
	.set .Lk.num_agpr, 0
	.set .Lk.numbered_sgpr, 24
	.set .Lk.num_named_barrier, 0
	.set .Lk.private_seg_size, 0
	.set .Lk.uses_vcc, 1
	.set .Lk.uses_flat_scratch, 0
	.set .Lk.has_dyn_sized_stack, 0
	.set .Lk.has_recursion, 0
	.set .Lk.has_indirect_call, 0
	.section	.AMDGPU.csdata,"",@progbits
; Kernel info:
; codeLenInByte = 4792
; TotalNumSgprs: 30
; NumVgprs: 218
; NumAgprs: 0
; TotalNumVgprs: 218
; ScratchSize: 0
; MemoryBound: 0
; FloatMode: 240
; IeeeMode: 1
; LDSByteSize: 0 bytes/workgroup (compile time only)
; SGPRBlocks: 3
; VGPRBlocks: 27
; NumSGPRsForWavesPerEU: 30
; NumVGPRsForWavesPerEU: 218
; AccumOffset: 220
; Occupancy: 2
; WaveLimiterHint : 0
; COMPUTE_PGM_RSRC2:SCRATCH_EN: 0
; COMPUTE_PGM_RSRC2:USER_SGPR: 16
; COMPUTE_PGM_RSRC2:TRAP_HANDLER: 0
; COMPUTE_PGM_RSRC2:TGID_X_EN: 1
; COMPUTE_PGM_RSRC2:TGID_Y_EN: 1
; COMPUTE_PGM_RSRC2:TGID_Z_EN: 0
; COMPUTE_PGM_RSRC2:TIDIG_COMP_CNT: 0
; COMPUTE_PGM_RSRC3_GFX90A:ACCUM_OFFSET: 54
; COMPUTE_PGM_RSRC3_GFX90A:TG_SPLIT: 0
	.text
	.p2alignl 6, 3212836864
	.fill 256, 4, 3212836864
	.section	.AMDGPU.gpr_maximums,"",@progbits
	.set amdgpu.max_num_vgpr, 0
	.set amdgpu.max_num_agpr, 0
	.set amdgpu.max_num_sgpr, 0
	.set amdgpu.max_num_named_barrier, 0
	.text
	.section	".note.GNU-stack","",@progbits
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .address_space:  global
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         8
        .size:           8
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         16
        .size:           8
        .value_kind:     global_buffer
      - .offset:         24
        .size:           4
        .value_kind:     by_value
      - .offset:         28
        .size:           4
        .value_kind:     by_value
      - .offset:         32
        .size:           4
        .value_kind:     by_value
      - .address_space:  global
        .offset:         40
        .size:           8
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         48
        .size:           8
        .value_kind:     global_buffer
    .group_segment_fixed_size: 0
    .kernarg_segment_align: 8
    .kernarg_segment_size: 56
    .max_flat_workgroup_size: 512
    .name:           k
    .private_segment_fixed_size: 0
    .sgpr_count:     30
    .sgpr_spill_count: 0
    .symbol:         k.kd
    .uniform_work_group_size: 1
    .uses_dynamic_stack: false
    .vgpr_count:     218
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx942
amdhsa.version:
  - 1
  - 2
...

	.end_amdgpu_metadata
