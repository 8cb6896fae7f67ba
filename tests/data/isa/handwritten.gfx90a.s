/* hand-written in the manner of Tensile:
   symbols for registers, macros, .rept, .if */
.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"
.set vgprValuC, 0
.set vgprAddr, vgprValuC+16
.set sgprLoop, 20
.set sgprBase, sgprLoop+4
.set UNROLL, 4
.macro MAC dst:req a b=vgprAddr
  v_fma_f32 v[vgprValuC+\dst], v[\a], v[\b+1], v[vgprValuC+\dst]
.endm
.macro WAIT n
  .if \n > 2
    s_waitcnt vmcnt(\n)
  .elseif \n == 2
    s_waitcnt lgkmcnt(\n)
  .else
    s_waitcnt 0
  .endif
.endm
.macro LOOP_BODY n
label_inner_\@:
  MAC \n, vgprAddr+\n
  WAIT \n
  s_cbranch_scc0 label_inner_\@
.endm
.text
.globl tensile
.p2align 8
.type tensile,@function
tensile:
  s_load_dwordx4 s[sgprBase:sgprBase+3], s[0:1], 0x0 // kernel arguments
  s_mov_b32 s[sgprLoop], UNROLL*2
label_LoopBegin:
.rept UNROLL
  MAC 0, vgprAddr+2
.endr
.irp i, 1, 2, 3
  v_mov_b32 v[vgprAddr+\i], \i
.endr
.irpc d, 012
  global_load_dword v\d, v[vgprAddr:vgprAddr+1], off offset:\d*4
.endr
  LOOP_BODY 1
  LOOP_BODY 2
  LOOP_BODY n=3
.ifdef UNDEFINED_THING
  s_bogus_not_there
.endif
.ifndef UNDEFINED_THING
  s_sub_u32 s[sgprLoop], s[sgprLoop], 1 /* count */
.endif
.set sgprLoop, UNROLL+18
  s_cmp_eq_u32 s[sgprLoop], 0
  s_cbranch_scc0 label_LoopBegin // loop
  s_endpgm
label_never:
.size tensile, .-tensile
.section .rodata,"a",@progbits
.amdhsa_kernel tensile
  .amdhsa_next_free_vgpr vgprAddr+4
  .amdhsa_next_free_sgpr sgprBase+UNROLL
  .amdhsa_accum_offset ((vgprAddr+4)/4)*4
  .amdhsa_group_segment_fixed_size 1<<12
.end_amdhsa_kernel
