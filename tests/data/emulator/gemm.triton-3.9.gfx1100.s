	.amdgcn_target "amdgpu11.00-amd-amdhsa-unknown-gfx1100"
	.amdhsa_code_object_version 5
	.text
	.globl	gemm
	.p2align	8
	.type	gemm,@function
gemm:
.Lfunc_begin0:
	.cfi_sections .debug_frame
	.cfi_startproc
	.cfi_escape 0x0f, 0x04, 0x30, 0x36, 0xe9, 0x02
	.cfi_undefined 16
	s_clause 0x1
	s_load_b32 s4, s[0:1], 0x18
	s_load_b64 s[2:3], s[0:1], 0x0
	v_readfirstlane_b32 s5, v0
	v_and_b32_e32 v49, 31, v0
	v_and_b32_e32 v51, 15, v0
	v_mov_b16_e32 v9.h, 0
	s_and_b32 s7, s5, 0xe0
	s_delay_alu instid0(VALU_DEP_3) | instid1(SALU_CYCLE_1)
	v_or_b32_e32 v25, s7, v49
	s_delay_alu instid0(VALU_DEP_3) | instskip(NEXT) | instid1(VALU_DEP_3)
	v_lshlrev_b32_e32 v4, 3, v51
	v_mov_b16_e32 v9.l, v9.h
	s_delay_alu instid0(VALU_DEP_3) | instskip(SKIP_1) | instid1(VALU_DEP_1)
	v_lshrrev_b32_e32 v1, 4, v25
	s_waitcnt lgkmcnt(0)
	v_mul_lo_u32 v2, v1, s4
	s_cmp_gt_i32 s4, 0
	s_cselect_b32 s6, -1, 0
	s_cmp_lt_i32 s4, 1
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_ashrrev_i32_e32 v3, 31, v2
	v_lshlrev_b64 v[2:3], 1, v[2:3]
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_add_co_u32 v2, vcc_lo, s2, v2
	v_add_co_ci_u32_e64 v3, null, s3, v3, vcc_lo
	s_delay_alu instid0(VALU_DEP_2) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_add_co_u32 v33, vcc_lo, v2, v4
	v_add_co_ci_u32_e64 v34, null, 0, v3, vcc_lo
	s_cbranch_scc1 .LBB0_2
	global_load_d16_b16 v9, v[33:34], off
.LBB0_2:
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s8, 1
	s_cbranch_scc1 .LBB0_4
	global_load_d16_hi_b16 v9, v[33:34], off offset:2
.LBB0_4:
	v_mov_b16_e32 v10.h, 0
	v_lshlrev_b32_e32 v2, 2, v51
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s8, 1
	v_mov_b16_e32 v10.l, v10.h
	s_cbranch_scc1 .LBB0_6
	global_load_d16_b16 v10, v[33:34], off offset:4
.LBB0_6:
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s8, 1
	s_cbranch_scc1 .LBB0_8
	global_load_d16_hi_b16 v10, v[33:34], off offset:6
.LBB0_8:
	v_or_b32_e32 v3, 16, v1
	v_lshlrev_b32_e32 v2, 1, v2
	v_mov_b16_e32 v11.h, 0
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	v_mul_lo_u32 v3, v3, s4
	s_cmp_lg_u32 s8, 1
	v_mov_b16_e32 v11.l, v11.h
	s_delay_alu instid0(VALU_DEP_2) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_ashrrev_i32_e32 v4, 31, v3
	v_lshlrev_b64 v[3:4], 1, v[3:4]
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_add_co_u32 v3, vcc_lo, s2, v3
	v_add_co_ci_u32_e64 v4, null, s3, v4, vcc_lo
	s_delay_alu instid0(VALU_DEP_2) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_add_co_u32 v35, vcc_lo, v3, v2
	v_add_co_ci_u32_e64 v36, null, 0, v4, vcc_lo
	s_cbranch_scc1 .LBB0_10
	global_load_d16_b16 v11, v[35:36], off
.LBB0_10:
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s8, 1
	s_cbranch_scc1 .LBB0_12
	global_load_d16_hi_b16 v11, v[35:36], off offset:2
.LBB0_12:
	v_mov_b16_e32 v12.h, 0
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	s_cmp_lg_u32 s8, 1
	v_mov_b16_e32 v12.l, v12.h
	s_cbranch_scc1 .LBB0_14
	global_load_d16_b16 v12, v[35:36], off offset:4
.LBB0_14:
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s8, 1
	s_cbranch_scc1 .LBB0_16
	global_load_d16_hi_b16 v12, v[35:36], off offset:6
.LBB0_16:
	v_or_b32_e32 v3, 32, v1
	v_mov_b16_e32 v13.h, 0
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1) | instskip(SKIP_2) | instid1(VALU_DEP_2)
	s_cmp_lg_u32 s8, 1
	v_mul_lo_u32 v3, v3, s4
	v_mov_b16_e32 v13.l, v13.h
	v_ashrrev_i32_e32 v4, 31, v3
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_lshlrev_b64 v[3:4], 1, v[3:4]
	v_add_co_u32 v3, vcc_lo, s2, v3
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_2)
	v_add_co_ci_u32_e64 v4, null, s3, v4, vcc_lo
	v_add_co_u32 v37, vcc_lo, v3, v2
	s_delay_alu instid0(VALU_DEP_1)
	v_add_co_ci_u32_e64 v38, null, 0, v4, vcc_lo
	s_cbranch_scc1 .LBB0_18
	global_load_d16_b16 v13, v[37:38], off
.LBB0_18:
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s8, 1
	s_cbranch_scc1 .LBB0_20
	global_load_d16_hi_b16 v13, v[37:38], off offset:2
.LBB0_20:
	v_mov_b16_e32 v14.h, 0
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	s_cmp_lg_u32 s8, 1
	v_mov_b16_e32 v14.l, v14.h
	s_cbranch_scc1 .LBB0_22
	global_load_d16_b16 v14, v[37:38], off offset:4
.LBB0_22:
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s8, 1
	s_cbranch_scc1 .LBB0_24
	global_load_d16_hi_b16 v14, v[37:38], off offset:6
.LBB0_24:
	v_or_b32_e32 v3, 48, v1
	v_mov_b16_e32 v15.h, 0
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1) | instskip(SKIP_2) | instid1(VALU_DEP_2)
	s_cmp_lg_u32 s8, 1
	v_mul_lo_u32 v3, v3, s4
	v_mov_b16_e32 v15.l, v15.h
	v_ashrrev_i32_e32 v4, 31, v3
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_lshlrev_b64 v[3:4], 1, v[3:4]
	v_add_co_u32 v3, vcc_lo, s2, v3
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_2)
	v_add_co_ci_u32_e64 v4, null, s3, v4, vcc_lo
	v_add_co_u32 v39, vcc_lo, v3, v2
	s_delay_alu instid0(VALU_DEP_1)
	v_add_co_ci_u32_e64 v40, null, 0, v4, vcc_lo
	s_cbranch_scc1 .LBB0_26
	global_load_d16_b16 v15, v[39:40], off
.LBB0_26:
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s8, 1
	s_cbranch_scc1 .LBB0_28
	global_load_d16_hi_b16 v15, v[39:40], off offset:2
.LBB0_28:
	v_mov_b16_e32 v16.h, 0
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	s_cmp_lg_u32 s8, 1
	v_mov_b16_e32 v16.l, v16.h
	s_cbranch_scc1 .LBB0_30
	global_load_d16_b16 v16, v[39:40], off offset:4
.LBB0_30:
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s8, 1
	s_cbranch_scc1 .LBB0_32
	global_load_d16_hi_b16 v16, v[39:40], off offset:6
.LBB0_32:
	v_or_b32_e32 v3, 64, v1
	v_mov_b16_e32 v17.h, 0
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1) | instskip(SKIP_2) | instid1(VALU_DEP_2)
	s_cmp_lg_u32 s8, 1
	v_mul_lo_u32 v3, v3, s4
	v_mov_b16_e32 v17.l, v17.h
	v_ashrrev_i32_e32 v4, 31, v3
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_lshlrev_b64 v[3:4], 1, v[3:4]
	v_add_co_u32 v3, vcc_lo, s2, v3
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_2)
	v_add_co_ci_u32_e64 v4, null, s3, v4, vcc_lo
	v_add_co_u32 v41, vcc_lo, v3, v2
	s_delay_alu instid0(VALU_DEP_1)
	v_add_co_ci_u32_e64 v42, null, 0, v4, vcc_lo
	s_cbranch_scc1 .LBB0_34
	global_load_d16_b16 v17, v[41:42], off
.LBB0_34:
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s8, 1
	s_cbranch_scc1 .LBB0_36
	global_load_d16_hi_b16 v17, v[41:42], off offset:2
.LBB0_36:
	v_mov_b16_e32 v18.h, 0
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	s_cmp_lg_u32 s8, 1
	v_mov_b16_e32 v18.l, v18.h
	s_cbranch_scc1 .LBB0_38
	global_load_d16_b16 v18, v[41:42], off offset:4
.LBB0_38:
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s8, 1
	s_cbranch_scc1 .LBB0_40
	global_load_d16_hi_b16 v18, v[41:42], off offset:6
.LBB0_40:
	v_or_b32_e32 v3, 0x50, v1
	v_mov_b16_e32 v19.h, 0
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1) | instskip(SKIP_2) | instid1(VALU_DEP_2)
	s_cmp_lg_u32 s8, 1
	v_mul_lo_u32 v3, v3, s4
	v_mov_b16_e32 v19.l, v19.h
	v_ashrrev_i32_e32 v4, 31, v3
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_lshlrev_b64 v[3:4], 1, v[3:4]
	v_add_co_u32 v3, vcc_lo, s2, v3
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_2)
	v_add_co_ci_u32_e64 v4, null, s3, v4, vcc_lo
	v_add_co_u32 v43, vcc_lo, v3, v2
	s_delay_alu instid0(VALU_DEP_1)
	v_add_co_ci_u32_e64 v44, null, 0, v4, vcc_lo
	s_cbranch_scc1 .LBB0_42
	global_load_d16_b16 v19, v[43:44], off
.LBB0_42:
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s8, 1
	s_cbranch_scc1 .LBB0_44
	global_load_d16_hi_b16 v19, v[43:44], off offset:2
.LBB0_44:
	v_mov_b16_e32 v20.h, 0
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	s_cmp_lg_u32 s8, 1
	v_mov_b16_e32 v20.l, v20.h
	s_cbranch_scc1 .LBB0_46
	global_load_d16_b16 v20, v[43:44], off offset:4
.LBB0_46:
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s8, 1
	s_cbranch_scc1 .LBB0_48
	global_load_d16_hi_b16 v20, v[43:44], off offset:6
.LBB0_48:
	v_or_b32_e32 v3, 0x60, v1
	v_mov_b16_e32 v21.h, 0
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1) | instskip(SKIP_2) | instid1(VALU_DEP_2)
	s_cmp_lg_u32 s8, 1
	v_mul_lo_u32 v3, v3, s4
	v_mov_b16_e32 v21.l, v21.h
	v_ashrrev_i32_e32 v4, 31, v3
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_lshlrev_b64 v[3:4], 1, v[3:4]
	v_add_co_u32 v3, vcc_lo, s2, v3
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_2)
	v_add_co_ci_u32_e64 v4, null, s3, v4, vcc_lo
	v_add_co_u32 v45, vcc_lo, v3, v2
	s_delay_alu instid0(VALU_DEP_1)
	v_add_co_ci_u32_e64 v46, null, 0, v4, vcc_lo
	s_cbranch_scc1 .LBB0_50
	global_load_d16_b16 v21, v[45:46], off
.LBB0_50:
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s8, 1
	s_cbranch_scc1 .LBB0_52
	global_load_d16_hi_b16 v21, v[45:46], off offset:2
.LBB0_52:
	v_mov_b16_e32 v22.h, 0
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	s_cmp_lg_u32 s8, 1
	v_mov_b16_e32 v22.l, v22.h
	s_cbranch_scc1 .LBB0_54
	global_load_d16_b16 v22, v[45:46], off offset:4
.LBB0_54:
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s8, 1
	s_cbranch_scc1 .LBB0_56
	global_load_d16_hi_b16 v22, v[45:46], off offset:6
.LBB0_56:
	v_or_b32_e32 v1, 0x70, v1
	v_mov_b16_e32 v23.h, 0
	s_and_b32 s8, s6, exec_lo
	s_delay_alu instid0(VALU_DEP_2) | instskip(NEXT) | instid1(VALU_DEP_2)
	v_mul_lo_u32 v3, v1, s4
	v_mov_b16_e32 v23.l, v23.h
	s_delay_alu instid0(VALU_DEP_2) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_ashrrev_i32_e32 v4, 31, v3
	v_lshlrev_b64 v[3:4], 1, v[3:4]
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_add_co_u32 v1, vcc_lo, s2, v3
	v_add_co_ci_u32_e64 v3, null, s3, v4, vcc_lo
	s_cselect_b32 s2, 1, 0
	v_add_co_u32 v47, vcc_lo, v1, v2
	s_delay_alu instid0(VALU_DEP_1)
	v_add_co_ci_u32_e64 v48, null, 0, v3, vcc_lo
	s_cmp_lg_u32 s2, 1
	s_cbranch_scc1 .LBB0_58
	global_load_d16_b16 v23, v[47:48], off
.LBB0_58:
	s_and_b32 s2, s6, exec_lo
	s_cselect_b32 s2, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s2, 1
	s_cbranch_scc1 .LBB0_60
	global_load_d16_hi_b16 v23, v[47:48], off offset:2
.LBB0_60:
	v_mov_b16_e32 v24.h, 0
	s_and_b32 s2, s6, exec_lo
	s_cselect_b32 s2, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	s_cmp_lg_u32 s2, 1
	v_mov_b16_e32 v24.l, v24.h
	s_cbranch_scc1 .LBB0_62
	global_load_d16_b16 v24, v[47:48], off offset:4
.LBB0_62:
	s_load_b64 s[2:3], s[0:1], 0x8
	s_and_b32 s8, s6, exec_lo
	s_cselect_b32 s8, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s8, 1
	s_cbranch_scc1 .LBB0_64
	global_load_d16_hi_b16 v24, v[47:48], off offset:6
.LBB0_64:
	v_dual_mov_b32 v1, 0 :: v_dual_and_b32 v26, 7, v0
	v_dual_mov_b32 v6, 0 :: v_dual_and_b32 v27, 0xf8, v25
	s_and_b32 s8, s6, exec_lo
	s_delay_alu instid0(VALU_DEP_2) | instskip(SKIP_2) | instid1(VALU_DEP_2)
	v_dual_mov_b32 v5, 0 :: v_dual_lshlrev_b32 v2, 3, v26
	v_dual_mov_b32 v7, 0 :: v_dual_mov_b32 v8, 0
	s_cselect_b32 s8, 1, 0
	v_lshlrev_b32_e32 v50, 1, v2
	s_cmp_lg_u32 s8, 1
	s_cbranch_scc1 .LBB0_66
	v_lshlrev_b32_e32 v2, 5, v27
	s_waitcnt lgkmcnt(0)
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_add_co_u32 v2, s8, s2, v2
	v_add_co_ci_u32_e64 v3, null, s3, 0, s8
	s_delay_alu instid0(VALU_DEP_2) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_add_co_u32 v2, vcc_lo, v2, v50
	v_add_co_ci_u32_e64 v3, null, 0, v3, vcc_lo
	global_load_b128 v[5:8], v[2:3], off
.LBB0_66:
	s_and_b32 s6, s6, exec_lo
	v_dual_mov_b32 v2, 0 :: v_dual_mov_b32 v3, 0
	v_mov_b32_e32 v4, 0
	s_cselect_b32 s6, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s6, 1
	s_cbranch_scc1 .LBB0_68
	v_lshl_or_b32 v1, v27, 5, 0x80
	s_waitcnt lgkmcnt(0)
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_add_co_u32 v1, s6, s2, v1
	v_add_co_ci_u32_e64 v2, null, s3, 0, s6
	s_delay_alu instid0(VALU_DEP_2) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_add_co_u32 v1, vcc_lo, v1, v50
	v_add_co_ci_u32_e64 v2, null, 0, v2, vcc_lo
	global_load_b128 v[1:4], v[1:2], off
.LBB0_68:
	v_lshlrev_b32_e32 v28, 3, v25
	v_and_b32_e32 v25, 0x70, v25
	v_lshlrev_b32_e32 v52, 4, v26
	v_lshrrev_b32_e32 v27, 1, v27
	s_waitcnt vmcnt(0)
	v_lshrrev_b32_e32 v29, 16, v1
	s_sub_i32 s8, s4, 64
	v_xor_b32_e32 v25, v28, v25
	v_mov_b16_e32 v28.l, v5.l
	v_xor_b32_e32 v27, v27, v52
	v_mov_b16_e32 v28.h, v1.l
	v_lshrrev_b32_e32 v1, 16, v5
	v_add_nc_u32_e32 v55, 0, v25
	v_mov_b16_e32 v1.h, v29.l
	v_lshl_or_b32 v25, v26, 10, v27
	s_mov_b32 s9, 0
	s_cmp_gt_i32 s8, 0
	ds_store_2addr_stride64_b64 v55, v[9:10], v[11:12] offset1:4
	ds_store_2addr_stride64_b64 v55, v[13:14], v[15:16] offset0:8 offset1:12
	ds_store_2addr_stride64_b64 v55, v[17:18], v[19:20] offset0:16 offset1:20
	v_xor_b32_e32 v5, 16, v25
	v_xor_b32_e32 v9, 32, v25
	v_add_nc_u32_e32 v56, 0, v25
	v_xor_b32_e32 v10, 64, v25
	ds_store_2addr_stride64_b64 v55, v[21:22], v[23:24] offset0:24 offset1:28
	v_add_nc_u32_e32 v57, 0, v5
	v_xor_b32_e32 v5, 48, v25
	v_add_nc_u32_e32 v59, 0, v9
	v_lshrrev_b32_e32 v9, 16, v2
	ds_store_b32 v56, v28 offset:16384
	ds_store_b32 v57, v1 offset:16512
	v_mov_b16_e32 v1.l, v6.l
	v_mov_b16_e32 v1.h, v2.l
	v_lshrrev_b32_e32 v2, 16, v6
	v_add_nc_u32_e32 v60, 0, v5
	v_mov_b16_e32 v2.h, v9.l
	v_mov_b16_e32 v5.h, v3.l
	ds_store_b32 v59, v1 offset:16640
	v_xor_b32_e32 v1, 0x50, v25
	v_add_nc_u32_e32 v61, 0, v10
	ds_store_b32 v60, v2 offset:16768
	v_lshrrev_b32_e32 v2, 16, v3
	v_xor_b32_e32 v3, 0x60, v25
	v_add_nc_u32_e32 v62, 0, v1
	v_lshrrev_b32_e32 v1, 16, v7
	v_mov_b16_e32 v5.l, v7.l
	v_mov_b16_e32 v1.h, v2.l
	v_xor_b32_e32 v2, 0x70, v25
	v_add_nc_u32_e32 v63, 0, v3
	v_lshrrev_b32_e32 v3, 16, v4
	ds_store_b32 v61, v5 offset:16896
	v_mov_b16_e32 v5.l, v8.l
	v_mov_b16_e32 v5.h, v4.l
	v_add_nc_u32_e32 v64, 0, v2
	v_lshrrev_b32_e32 v2, 16, v8
	v_mov_b16_e32 v2.h, v3.l
	ds_store_b32 v62, v1 offset:17024
	ds_store_b32 v63, v5 offset:17152
	ds_store_b32 v64, v2 offset:17280
	s_cbranch_scc1 .LBB0_70
	s_and_b32 s6, s5, 32
	s_branch .LBB0_71
.LBB0_70:
	s_mov_b32 s9, -1
.LBB0_71:
	s_load_b64 s[0:1], s[0:1], 0x10
	v_dual_mov_b32 v16, 0 :: v_dual_lshlrev_b32 v53, 7, v51
	s_and_b32 s9, s9, exec_lo
	v_bfe_i32 v58, v0, 3, 1
	v_mul_u32_u24_e32 v54, 0x90, v26
	s_delay_alu instid0(VALU_DEP_3)
	v_mov_b32_e32 v15, v16
	v_mov_b32_e32 v14, v16
	v_mov_b32_e32 v13, v16
	v_mov_b32_e32 v12, v16
	v_mov_b32_e32 v11, v16
	v_mov_b32_e32 v10, v16
	v_mov_b32_e32 v9, v16
	v_mov_b32_e32 v24, v16
	v_mov_b32_e32 v23, v16
	v_mov_b32_e32 v22, v16
	v_mov_b32_e32 v21, v16
	v_mov_b32_e32 v20, v16
	v_mov_b32_e32 v19, v16
	v_mov_b32_e32 v18, v16
	v_mov_b32_e32 v17, v16
	v_mov_b32_e32 v32, v16
	v_mov_b32_e32 v31, v16
	v_mov_b32_e32 v30, v16
	v_mov_b32_e32 v29, v16
	v_mov_b32_e32 v28, v16
	v_mov_b32_e32 v27, v16
	v_mov_b32_e32 v26, v16
	v_mov_b32_e32 v25, v16
	v_mov_b32_e32 v8, v16
	v_mov_b32_e32 v7, v16
	v_mov_b32_e32 v6, v16
	v_mov_b32_e32 v5, v16
	v_mov_b32_e32 v4, v16
	v_mov_b32_e32 v3, v16
	v_mov_b32_e32 v2, v16
	v_mov_b32_e32 v1, v16
	s_cselect_b32 s9, 1, 0
	s_delay_alu instid0(SALU_CYCLE_1)
	s_cmp_lg_u32 s9, 1
	s_cbranch_scc1 .LBB0_74
	s_lshl_b32 s6, s5, 5
	v_dual_mov_b32 v1, 0 :: v_dual_and_b32 v2, 0x410, v58
	s_and_b32 s6, s6, 0x1800
	v_add_lshl_u32 v10, s7, v49, 4
	v_or3_b32 v3, s6, v53, v52
	s_bfe_i32 s6, s5, 0x10005
	s_waitcnt lgkmcnt(0)
	v_add_co_u32 v65, s2, s2, v50
	v_and_or_b32 v2, 0x820, s6, v2
	v_xor_b32_e32 v4, 16, v3
	v_xor_b32_e32 v5, 32, v3
	v_xor_b32_e32 v6, 48, v3
	v_xor_b32_e32 v7, 64, v3
	v_xor_b32_e32 v2, v2, v54
	v_xor_b32_e32 v8, 0x50, v3
	v_xor_b32_e32 v9, 0x60, v3
	v_xor_b32_e32 v11, 0x70, v3
	v_and_b32_e32 v10, 0x1f80, v10
	v_xor_b32_e32 v12, 16, v2
	v_xor_b32_e32 v13, 32, v2
	v_xor_b32_e32 v14, 48, v2
	v_xor_b32_e32 v15, 64, v2
	v_xor_b32_e32 v16, 0x50, v2
	v_xor_b32_e32 v17, 0x60, v2
	v_xor_b32_e32 v18, 0x70, v2
	v_add_co_ci_u32_e64 v66, null, s3, 0, s2
	v_add_nc_u32_e32 v67, 0, v3
	v_add_nc_u32_e32 v68, 0, v4
	v_add_nc_u32_e32 v69, 0, v5
	v_add_nc_u32_e32 v70, 0, v6
	v_add_nc_u32_e32 v71, 0, v7
	v_dual_mov_b32 v25, v1 :: v_dual_add_nc_u32 v72, 0, v8
	v_dual_mov_b32 v26, v1 :: v_dual_add_nc_u32 v73, 0, v9
	v_dual_mov_b32 v27, v1 :: v_dual_add_nc_u32 v74, 0, v11
	v_dual_mov_b32 v28, v1 :: v_dual_add_nc_u32 v75, 0, v2
	v_dual_mov_b32 v29, v1 :: v_dual_add_nc_u32 v76, 0, v12
	v_dual_mov_b32 v30, v1 :: v_dual_add_nc_u32 v77, 0, v13
	v_dual_mov_b32 v31, v1 :: v_dual_add_nc_u32 v78, 0, v14
	v_dual_mov_b32 v32, v1 :: v_dual_add_nc_u32 v79, 0, v15
	v_add_nc_u32_e32 v80, 0, v16
	v_add_nc_u32_e32 v81, 0, v17
	v_dual_mov_b32 v19, v1 :: v_dual_add_nc_u32 v82, 0, v18
	v_mov_b32_e32 v2, v1
	v_mov_b32_e32 v3, v1
	v_dual_mov_b32 v4, v1 :: v_dual_add_nc_u32 v49, 0x1040, v10
	v_mov_b32_e32 v5, v1
	v_mov_b32_e32 v6, v1
	v_mov_b32_e32 v7, v1
	v_mov_b32_e32 v8, v1
	v_mov_b32_e32 v17, v1
	v_mov_b32_e32 v18, v1
	v_mov_b32_e32 v20, v1
	v_mov_b32_e32 v21, v1
	v_mov_b32_e32 v22, v1
	v_mov_b32_e32 v23, v1
	v_mov_b32_e32 v24, v1
	v_mov_b32_e32 v9, v1
	v_mov_b32_e32 v10, v1
	v_mov_b32_e32 v11, v1
	v_mov_b32_e32 v12, v1
	v_mov_b32_e32 v13, v1
	v_mov_b32_e32 v14, v1
	v_mov_b32_e32 v15, v1
	v_mov_b32_e32 v16, v1
	s_and_b32 s6, s5, 32
	s_mov_b32 s2, 0
.LBB0_73:
	s_delay_alu instid0(SALU_CYCLE_1) | instskip(SKIP_2) | instid1(SALU_CYCLE_1)
	s_add_i32 s2, s2, 64
	v_ashrrev_i32_e32 v50, 31, v49
	s_ashr_i32 s3, s2, 31
	s_lshl_b64 s[10:11], s[2:3], 1
	s_cmp_lt_i32 s2, s8
	v_add_co_u32 v83, vcc_lo, v33, s10
	s_delay_alu instid0(VALU_DEP_1) | instskip(SKIP_1) | instid1(VALU_DEP_1)
	v_add_co_ci_u32_e64 v84, null, s11, v34, vcc_lo
	v_add_co_u32 v85, vcc_lo, v35, s10
	v_add_co_ci_u32_e64 v86, null, s11, v36, vcc_lo
	v_add_co_u32 v87, vcc_lo, v37, s10
	s_delay_alu instid0(VALU_DEP_1) | instskip(SKIP_1) | instid1(VALU_DEP_1)
	v_add_co_ci_u32_e64 v88, null, s11, v38, vcc_lo
	v_add_co_u32 v89, vcc_lo, v39, s10
	v_add_co_ci_u32_e64 v90, null, s11, v40, vcc_lo
	v_add_co_u32 v91, vcc_lo, v41, s10
	s_delay_alu instid0(VALU_DEP_1) | instskip(SKIP_1) | instid1(VALU_DEP_1)
	v_add_co_ci_u32_e64 v92, null, s11, v42, vcc_lo
	v_add_co_u32 v93, vcc_lo, v43, s10
	v_add_co_ci_u32_e64 v94, null, s11, v44, vcc_lo
	v_add_co_u32 v95, vcc_lo, v45, s10
	s_delay_alu instid0(VALU_DEP_1) | instskip(SKIP_1) | instid1(VALU_DEP_1)
	v_add_co_ci_u32_e64 v96, null, s11, v46, vcc_lo
	v_add_co_u32 v97, vcc_lo, v47, s10
	v_add_co_ci_u32_e64 v98, null, s11, v48, vcc_lo
	s_clause 0x7
	global_load_b64 v[147:148], v[83:84], off
	global_load_b64 v[149:150], v[85:86], off
	global_load_b64 v[151:152], v[87:88], off
	global_load_b64 v[153:154], v[89:90], off
	global_load_b64 v[155:156], v[91:92], off
	global_load_b64 v[157:158], v[93:94], off
	global_load_b64 v[159:160], v[95:96], off
	global_load_b64 v[161:162], v[97:98], off
	s_waitcnt vmcnt(0)
	s_barrier
	s_waitcnt lgkmcnt(0)
	buffer_gl0_inv
	ds_load_b128 v[83:86], v75 offset:16384
	ds_load_b128 v[87:90], v76 offset:16384
	ds_load_b128 v[91:94], v79 offset:20480
	ds_load_b128 v[103:106], v68
	ds_load_b128 v[95:98], v80 offset:20480
	ds_load_b128 v[99:102], v67
	ds_load_b128 v[107:110], v67 offset:8192
	ds_load_b128 v[111:114], v68 offset:8192
	ds_load_b128 v[115:118], v79 offset:16384
	ds_load_b128 v[119:122], v80 offset:16384
	ds_load_b128 v[123:126], v75 offset:20480
	ds_load_b128 v[127:130], v76 offset:20480
	s_waitcnt lgkmcnt(6)
	v_wmma_f32_16x16x16_f16 v[1:8], v[83:90], v[99:106], v[1:8]
	v_wmma_f32_16x16x16_f16 v[25:32], v[91:98], v[99:106], v[25:32]
	s_waitcnt lgkmcnt(4)
	v_wmma_f32_16x16x16_f16 v[17:24], v[83:90], v[107:114], v[17:24]
	ds_load_b128 v[83:86], v77 offset:16384
	ds_load_b128 v[87:90], v78 offset:16384
	v_wmma_f32_16x16x16_f16 v[9:16], v[91:98], v[107:114], v[9:16]
	ds_load_b128 v[91:94], v81 offset:20480
	ds_load_b128 v[103:106], v70
	ds_load_b128 v[95:98], v82 offset:20480
	ds_load_b128 v[99:102], v69
	ds_load_b128 v[107:110], v69 offset:8192
	ds_load_b128 v[111:114], v70 offset:8192
	ds_load_b128 v[131:134], v77 offset:20480
	ds_load_b128 v[135:138], v78 offset:20480
	ds_load_b128 v[139:142], v81 offset:16384
	ds_load_b128 v[143:146], v82 offset:16384
	s_waitcnt lgkmcnt(6)
	v_wmma_f32_16x16x16_f16 v[25:32], v[91:98], v[99:106], v[25:32]
	s_waitcnt lgkmcnt(4)
	v_wmma_f32_16x16x16_f16 v[9:16], v[91:98], v[107:114], v[9:16]
	v_wmma_f32_16x16x16_f16 v[1:8], v[83:90], v[99:106], v[1:8]
	v_wmma_f32_16x16x16_f16 v[17:24], v[83:90], v[107:114], v[17:24]
	ds_load_b128 v[87:90], v72
	ds_load_b128 v[83:86], v71
	ds_load_b128 v[91:94], v71 offset:8192
	ds_load_b128 v[95:98], v72 offset:8192
	s_waitcnt lgkmcnt(2)
	v_wmma_f32_16x16x16_f16 v[1:8], v[115:122], v[83:90], v[1:8]
	v_wmma_f32_16x16x16_f16 v[25:32], v[123:130], v[83:90], v[25:32]
	v_subrev_nc_u32_e32 v83, 64, v49
	v_lshlrev_b64 v[85:86], 1, v[49:50]
	s_waitcnt lgkmcnt(0)
	v_wmma_f32_16x16x16_f16 v[17:24], v[115:122], v[91:98], v[17:24]
	v_wmma_f32_16x16x16_f16 v[9:16], v[123:130], v[91:98], v[9:16]
	v_add_nc_u32_e32 v49, 0x1000, v49
	v_ashrrev_i32_e32 v84, 31, v83
	v_add_co_u32 v85, vcc_lo, v65, v85
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_3)
	v_add_co_ci_u32_e64 v86, null, v66, v86, vcc_lo
	v_lshlrev_b64 v[83:84], 1, v[83:84]
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)
	v_add_co_u32 v83, vcc_lo, v65, v83
	v_add_co_ci_u32_e64 v84, null, v66, v84, vcc_lo
	s_clause 0x1
	global_load_b128 v[99:102], v[85:86], off
	global_load_b128 v[103:106], v[83:84], off
	ds_load_b128 v[87:90], v74
	ds_load_b128 v[83:86], v73
	ds_load_b128 v[91:94], v73 offset:8192
	ds_load_b128 v[95:98], v74 offset:8192
	s_waitcnt lgkmcnt(2)
	v_wmma_f32_16x16x16_f16 v[1:8], v[139:146], v[83:90], v[1:8]
	v_wmma_f32_16x16x16_f16 v[25:32], v[131:138], v[83:90], v[25:32]
	s_waitcnt lgkmcnt(0)
	v_wmma_f32_16x16x16_f16 v[17:24], v[139:146], v[91:98], v[17:24]
	v_wmma_f32_16x16x16_f16 v[9:16], v[131:138], v[91:98], v[9:16]
	s_waitcnt vmcnt(1)
	v_lshrrev_b32_e32 v83, 16, v99
	v_lshrrev_b32_e32 v85, 16, v100
	v_mov_b16_e32 v50.h, v99.l
	v_lshrrev_b32_e32 v87, 16, v101
	v_lshrrev_b32_e32 v89, 16, v102
	s_waitcnt vmcnt(0)
	v_mov_b16_e32 v50.l, v103.l
	v_lshrrev_b32_e32 v90, 16, v103
	v_mov_b16_e32 v90.h, v83.l
	v_mov_b16_e32 v84.h, v100.l
	v_mov_b16_e32 v84.l, v104.l
	v_lshrrev_b32_e32 v91, 16, v104
	v_mov_b16_e32 v91.h, v85.l
	v_mov_b16_e32 v86.h, v101.l
	v_mov_b16_e32 v86.l, v105.l
	v_lshrrev_b32_e32 v92, 16, v105
	v_lshrrev_b32_e32 v93, 16, v106
	s_barrier
	buffer_gl0_inv
	ds_store_2addr_stride64_b64 v55, v[147:148], v[149:150] offset1:4
	ds_store_2addr_stride64_b64 v55, v[151:152], v[153:154] offset0:8 offset1:12
	ds_store_2addr_stride64_b64 v55, v[155:156], v[157:158] offset0:16 offset1:20
	ds_store_2addr_stride64_b64 v55, v[159:160], v[161:162] offset0:24 offset1:28
	v_mov_b16_e32 v88.h, v102.l
	v_mov_b16_e32 v88.l, v106.l
	v_mov_b16_e32 v92.h, v87.l
	v_mov_b16_e32 v93.h, v89.l
	ds_store_b32 v56, v50 offset:16384
	ds_store_b32 v57, v90 offset:16512
	ds_store_b32 v59, v84 offset:16640
	ds_store_b32 v60, v91 offset:16768
	ds_store_b32 v61, v86 offset:16896
	ds_store_b32 v62, v92 offset:17024
	ds_store_b32 v63, v88 offset:17152
	ds_store_b32 v64, v93 offset:17280
	s_cbranch_scc1 .LBB0_73
.LBB0_74:
	s_add_i32 s4, s4, 63
	s_waitcnt lgkmcnt(0)
	s_and_b32 s2, s5, 0xc0
	s_cmp_lt_i32 s4, 64
	s_barrier
	buffer_gl0_inv
	s_cbranch_scc1 .LBB0_76
	s_cmp_eq_u32 s6, 0
	s_cselect_b32 s3, 0, 0x820
	s_delay_alu instid0(SALU_CYCLE_1) | instskip(SKIP_1) | instid1(SALU_CYCLE_1)
	v_and_or_b32 v33, 0x410, v58, s3
	s_lshl_b32 s3, s2, 5
	v_or3_b32 v49, s3, v53, v52
	s_delay_alu instid0(VALU_DEP_2) | instskip(NEXT) | instid1(VALU_DEP_2)
	v_xor_b32_e32 v33, v33, v54
	v_xad_u32 v50, v49, 16, 0
	v_add_nc_u32_e32 v60, 0, v49
	s_delay_alu instid0(VALU_DEP_3)
	v_xad_u32 v140, 0x70, v33, 0
	v_xad_u32 v141, 0x60, v33, 0
	v_add_nc_u32_e32 v100, 0, v33
	v_xad_u32 v41, 0x50, v33, 0
	v_xad_u32 v61, v33, 48, 0
	v_xad_u32 v68, v33, 32, 0
	v_xad_u32 v52, v33, 64, 0
	v_xad_u32 v92, v33, 16, 0
	ds_load_b128 v[37:40], v140 offset:20480
	ds_load_b128 v[33:36], v141 offset:20480
	ds_load_b128 v[45:48], v41 offset:20480
	ds_load_b128 v[56:59], v41 offset:16384
	ds_load_b128 v[41:44], v52 offset:20480
	ds_load_b128 v[52:55], v52 offset:16384
	ds_load_b128 v[64:67], v61 offset:20480
	ds_load_b128 v[72:75], v61 offset:16384
	ds_load_b128 v[80:83], v50
	ds_load_b128 v[88:91], v50 offset:8192
	ds_load_b128 v[76:79], v60
	ds_load_b128 v[84:87], v60 offset:8192
	ds_load_b128 v[60:63], v68 offset:20480
	ds_load_b128 v[68:71], v68 offset:16384
	ds_load_b128 v[96:99], v92 offset:16384
	ds_load_b128 v[104:107], v92 offset:20480
	v_xad_u32 v50, v49, 48, 0
	ds_load_b128 v[92:95], v100 offset:16384
	ds_load_b128 v[100:103], v100 offset:20480
	v_xad_u32 v116, v49, 32, 0
	ds_load_b128 v[112:115], v50 offset:8192
	ds_load_b128 v[120:123], v50
	ds_load_b128 v[108:111], v116 offset:8192
	ds_load_b128 v[116:119], v116
	v_xad_u32 v124, 0x50, v49, 0
	v_xad_u32 v125, v49, 64, 0
	v_xad_u32 v50, 0x70, v49, 0
	v_xad_u32 v49, 0x60, v49, 0
	ds_load_b128 v[128:131], v124 offset:8192
	ds_load_b128 v[136:139], v124
	ds_load_b128 v[132:135], v125
	ds_load_b128 v[124:127], v125 offset:8192
	ds_load_b128 v[144:147], v140 offset:16384
	ds_load_b128 v[140:143], v141 offset:16384
	ds_load_b128 v[148:151], v49
	ds_load_b128 v[152:155], v50
	ds_load_b128 v[160:163], v50 offset:8192
	ds_load_b128 v[156:159], v49 offset:8192
	s_waitcnt lgkmcnt(21)
	v_wmma_f32_16x16x16_f16 v[25:32], v[41:48], v[76:83], v[25:32]
	s_waitcnt lgkmcnt(20)
	v_wmma_f32_16x16x16_f16 v[9:16], v[41:48], v[84:91], v[9:16]
	s_waitcnt lgkmcnt(15)
	v_wmma_f32_16x16x16_f16 v[1:8], v[92:99], v[76:83], v[1:8]
	v_wmma_f32_16x16x16_f16 v[17:24], v[92:99], v[84:91], v[17:24]
	s_waitcnt lgkmcnt(11)
	v_wmma_f32_16x16x16_f16 v[9:16], v[33:40], v[108:115], v[9:16]
	s_waitcnt lgkmcnt(10)
	v_wmma_f32_16x16x16_f16 v[1:8], v[68:75], v[116:123], v[1:8]
	v_wmma_f32_16x16x16_f16 v[25:32], v[33:40], v[116:123], v[25:32]
	v_wmma_f32_16x16x16_f16 v[17:24], v[68:75], v[108:115], v[17:24]
	s_waitcnt lgkmcnt(6)
	v_wmma_f32_16x16x16_f16 v[9:16], v[100:107], v[124:131], v[9:16]
	v_wmma_f32_16x16x16_f16 v[1:8], v[52:59], v[132:139], v[1:8]
	v_wmma_f32_16x16x16_f16 v[25:32], v[100:107], v[132:139], v[25:32]
	v_wmma_f32_16x16x16_f16 v[17:24], v[52:59], v[124:131], v[17:24]
	s_waitcnt lgkmcnt(0)
	v_wmma_f32_16x16x16_f16 v[9:16], v[60:67], v[156:163], v[9:16]
	v_wmma_f32_16x16x16_f16 v[1:8], v[140:147], v[148:155], v[1:8]
	v_wmma_f32_16x16x16_f16 v[25:32], v[60:67], v[148:155], v[25:32]
	v_wmma_f32_16x16x16_f16 v[17:24], v[140:147], v[156:163], v[17:24]
.LBB0_76:
	s_lshr_b32 s2, s2, 2
	v_lshrrev_b32_e32 v0, 4, v0
	v_or_b32_e32 v35, s2, v51
	s_lshr_b32 s2, s6, 1
	v_mov_b32_e32 v34, 0
	s_delay_alu instid0(VALU_DEP_3) | instskip(NEXT) | instid1(VALU_DEP_3)
	v_and_or_b32 v33, v0, 1, s2
	v_lshlrev_b32_e32 v0, 8, v35
	s_delay_alu instid0(VALU_DEP_2) | instskip(NEXT) | instid1(VALU_DEP_2)
	v_lshlrev_b64 v[33:34], 2, v[33:34]
	v_add_co_u32 v0, s0, s0, v0
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_2)
	v_add_co_ci_u32_e64 v35, null, s1, 0, s0
	v_add_co_u32 v33, vcc_lo, v0, v33
	s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_2)
	v_add_co_ci_u32_e64 v34, null, v35, v34, vcc_lo
	v_add_co_u32 v35, vcc_lo, 0x4000, v33
	s_delay_alu instid0(VALU_DEP_1)
	v_add_co_ci_u32_e64 v36, null, 0, v34, vcc_lo
	s_clause 0x1f
	global_store_b32 v[33:34], v1, off
	global_store_b32 v[33:34], v2, off offset:8
	global_store_b32 v[33:34], v3, off offset:16
	global_store_b32 v[33:34], v4, off offset:24
	global_store_b32 v[33:34], v5, off offset:32
	global_store_b32 v[33:34], v6, off offset:40
	global_store_b32 v[33:34], v7, off offset:48
	global_store_b32 v[33:34], v8, off offset:56
	global_store_b32 v[33:34], v25, off offset:128
	global_store_b32 v[33:34], v26, off offset:136
	global_store_b32 v[33:34], v27, off offset:144
	global_store_b32 v[33:34], v28, off offset:152
	global_store_b32 v[33:34], v29, off offset:160
	global_store_b32 v[33:34], v30, off offset:168
	global_store_b32 v[33:34], v31, off offset:176
	global_store_b32 v[33:34], v32, off offset:184
	global_store_b32 v[35:36], v17, off
	global_store_b32 v[35:36], v18, off offset:8
	global_store_b32 v[35:36], v19, off offset:16
	global_store_b32 v[35:36], v20, off offset:24
	global_store_b32 v[35:36], v21, off offset:32
	global_store_b32 v[35:36], v22, off offset:40
	global_store_b32 v[35:36], v23, off offset:48
	global_store_b32 v[35:36], v24, off offset:56
	global_store_b32 v[35:36], v9, off offset:128
	global_store_b32 v[35:36], v10, off offset:136
	global_store_b32 v[35:36], v11, off offset:144
	global_store_b32 v[35:36], v12, off offset:152
	global_store_b32 v[35:36], v13, off offset:160
	global_store_b32 v[35:36], v14, off offset:168
	global_store_b32 v[35:36], v15, off offset:176
	global_store_b32 v[35:36], v16, off offset:184
	s_nop 0
	s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)
	s_endpgm
.Lfunc_end0:
	.size	gemm, .Lfunc_end0-gemm
	.cfi_endproc
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel gemm
		.amdhsa_group_segment_fixed_size 0
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_kernarg_size 48
		.amdhsa_user_sgpr_count 15
		.amdhsa_user_sgpr_dispatch_ptr 0
		.amdhsa_user_sgpr_queue_ptr 0
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_dispatch_id 0
		.amdhsa_user_sgpr_private_segment_size 0
		.amdhsa_wavefront_size32 1
		.amdhsa_uses_dynamic_stack 0
		.amdhsa_enable_private_segment 0
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_system_sgpr_workgroup_id_y 0
		.amdhsa_system_sgpr_workgroup_id_z 0
		.amdhsa_system_sgpr_workgroup_info 0
		.amdhsa_system_vgpr_workitem_id 0
		.amdhsa_next_free_vgpr 164
		.amdhsa_next_free_sgpr 12
		.amdhsa_reserve_vcc 1
		.amdhsa_float_round_mode_32 0
		.amdhsa_float_round_mode_16_64 0
		.amdhsa_float_denorm_mode_32 3
		.amdhsa_float_denorm_mode_16_64 3
		.amdhsa_dx10_clamp 1
		.amdhsa_ieee_mode 1
		.amdhsa_fp16_overflow 0
		.amdhsa_workgroup_processor_mode 1
		.amdhsa_memory_ordered 1
		.amdhsa_forward_progress 1
		.amdhsa_shared_vgpr_count 0
		.amdhsa_inst_pref_size ((instprefsize(.Lfunc_end0-gemm)<<4)&1008)>>4
		.amdhsa_exception_fp_ieee_invalid_op 0
		.amdhsa_exception_fp_denorm_src 0
		.amdhsa_exception_fp_ieee_div_zero 0
		.amdhsa_exception_fp_ieee_overflow 0
		.amdhsa_exception_fp_ieee_underflow 0
		.amdhsa_exception_fp_ieee_inexact 0
		.amdhsa_exception_int_div_zero 0
	.end_amdhsa_kernel
	.text
	.set .Lgemm.num_vgpr, 164
	.set .Lgemm.num_agpr, 0
	.set .Lgemm.numbered_sgpr, 12
	.set .Lgemm.num_named_barrier, 0
	.set .Lgemm.private_seg_size, 0
	.set .Lgemm.uses_vcc, 1
	.set .Lgemm.uses_flat_scratch, 0
	.set .Lgemm.has_dyn_sized_stack, 0
	.set .Lgemm.has_recursion, 0
	.set .Lgemm.has_indirect_call, 0
	.section	.AMDGPU.csdata,"",@progbits
	.text
	.p2alignl 7, 3214868480
	.fill 96, 4, 3214868480
	.section	.AMDGPU.gpr_maximums,"",@progbits
	.set amdgpu.max_num_vgpr, 0
	.set amdgpu.max_num_agpr, 0
	.set amdgpu.max_num_sgpr, 0
	.set amdgpu.max_num_named_barrier, 0
	.text
	.section	.debug_abbrev,"",@progbits
	.byte	1
	.byte	17
	.byte	0
	.byte	37
	.byte	14
	.byte	19
	.byte	5
	.byte	3
	.byte	14
	.byte	16
	.byte	23
	.byte	27
	.byte	14
	.ascii	"\341\177"
	.byte	25
	.byte	17
	.byte	1
	.byte	18
	.byte	6
	.byte	0
	.byte	0
	.byte	0
	.section	.debug_info,"",@progbits
.Lcu_begin0:
	.long	.Ldebug_info_end0-.Ldebug_info_start0
.Ldebug_info_start0:
	.short	4
	.long	.debug_abbrev
	.byte	8
	.byte	1
	.long	.Linfo_string0
	.short	2
	.long	.Linfo_string1
	.long	.Lline_table_start0
	.long	.Linfo_string2
	.quad	.Lfunc_begin0
	.long	.Lfunc_end0-.Lfunc_begin0
.Ldebug_info_end0:
	.section	.debug_str,"MS",@progbits,1
.Linfo_string0:
	.asciz	"triton"
.Linfo_string1:
	.asciz	"mutations.py"
.Linfo_string2:
	.asciz	"benchmarks"
	.section	".note.GNU-stack","",@progbits
	.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
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
      - .address_space:  global
        .offset:         32
        .size:           8
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         40
        .size:           8
        .value_kind:     global_buffer
    .group_segment_fixed_size: 0
    .kernarg_segment_align: 8
    .kernarg_segment_size: 48
    .max_flat_workgroup_size: 256
    .name:           gemm
    .private_segment_fixed_size: 0
    .sgpr_count:     14
    .sgpr_spill_count: 0
    .symbol:         gemm.kd
    .uniform_work_group_size: 1
    .uses_dynamic_stack: false
    .vgpr_count:     164
    .vgpr_spill_count: 0
    .wavefront_size: 32
    .workgroup_processor_mode: 1
amdhsa.target:   amdgpu11.00-amd-amdhsa-unknown-gfx1100
amdhsa.version:
  - 1
  - 2
...

	.end_amdgpu_metadata
