; Written to meet many kinds of instructions: carries, comparisons, masks, lanes, LDS, atomics,
; half registers, division, divergent and uniform control.
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
declare i32 @llvm.amdgcn.readlane.i32(i32, i32)
declare i32 @llvm.amdgcn.writelane.i32(i32, i32, i32)
declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32, i32, i32, i1)
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
declare void @llvm.amdgcn.s.barrier()
declare float @llvm.exp2.f32(float)
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.maxnum.f32(float, float)
declare i64 @llvm.ctpop.i64(i64)
declare i32 @llvm.fshr.i32(i32, i32, i32)
declare i32 @llvm.amdgcn.raw.ptr.buffer.load.i32(ptr addrspace(8), i32, i32, i32)
declare void @llvm.amdgcn.raw.ptr.buffer.store.i32(i32, ptr addrspace(8), i32, i32, i32)
declare i32 @llvm.amdgcn.raw.ptr.buffer.atomic.add.i32(i32, ptr addrspace(8), i32, i32, i32)
declare <2 x half> @llvm.fma.v2f16(<2 x half>, <2 x half>, <2 x half>)
@lds = internal addrspace(3) global [512 x i32] poison, align 16

define amdgpu_kernel void @memory(ptr addrspace(1) %p, ptr addrspace(8) %r, i32 %n) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %q = getelementptr i32, ptr addrspace(1) %p, i32 %t
  %v = load i32, ptr addrspace(1) %q
  %v4 = load <4 x i32>, ptr addrspace(1) %p, align 16
  %o = atomicrmw add ptr addrspace(1) %q, i32 %v syncscope("agent") monotonic
  %u = atomicrmw umax ptr addrspace(1) %q, i32 %o syncscope("agent") monotonic
  %g = getelementptr [512 x i32], ptr addrspace(3) @lds, i32 0, i32 %t
  store i32 %o, ptr addrspace(3) %g
  call void @llvm.amdgcn.s.barrier()
  %w = load i32, ptr addrspace(3) @lds
  %z = atomicrmw add ptr addrspace(3) %g, i32 %w monotonic
  %y = atomicrmw or ptr addrspace(3) %g, i32 %z monotonic
  %b = call i32 @llvm.amdgcn.raw.ptr.buffer.load.i32(ptr addrspace(8) %r, i32 %t, i32 0, i32 0)
  %c = call i32 @llvm.amdgcn.raw.ptr.buffer.atomic.add.i32(i32 %b, ptr addrspace(8) %r, i32 %t, i32 0, i32 0)
  call void @llvm.amdgcn.raw.ptr.buffer.store.i32(i32 %c, ptr addrspace(8) %r, i32 %t, i32 0, i32 0)
  %x = extractelement <4 x i32> %v4, i32 2
  %s = add i32 %c, %x
  %k = add i32 %s, %y
  store i32 %k, ptr addrspace(1) %q
  %h = getelementptr half, ptr addrspace(1) %p, i32 %t
  %h0 = load half, ptr addrspace(1) %h
  %h1p = getelementptr half, ptr addrspace(1) %h, i32 77
  %h1 = load half, ptr addrspace(1) %h1p
  %i0 = insertelement <2 x half> poison, half %h0, i32 0
  %i1 = insertelement <2 x half> %i0, half %h1, i32 1
  %f = call <2 x half> @llvm.fma.v2f16(<2 x half> %i1, <2 x half> %i1, <2 x half> %i1)
  store <2 x half> %f, ptr addrspace(1) %q
  ret void
}

define amdgpu_kernel void @lanes(ptr addrspace(1) %p, i32 %n) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %q = getelementptr i32, ptr addrspace(1) %p, i32 %t
  %v = load i32, ptr addrspace(1) %q
  %a = call i32 @llvm.amdgcn.ds.bpermute(i32 %t, i32 %v)
  %b = call i32 @llvm.amdgcn.readlane.i32(i32 %a, i32 %n)
  %c = call i32 @llvm.amdgcn.writelane.i32(i32 %b, i32 3, i32 %a)
  %d = call i32 @llvm.amdgcn.update.dpp.i32(i32 %c, i32 %v, i32 273, i32 15, i32 15, i1 false)
  %e = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %d, i32 273, i32 15, i32 15, i1 true)
  %f = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %e)
  %g = add i32 %f, %e
  store i32 %g, ptr addrspace(1) %q
  ret void
}

define amdgpu_kernel void @numbers(ptr addrspace(1) %p, i64 %n, float %k) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %q = getelementptr i64, ptr addrspace(1) %p, i32 %t
  %v = load i64, ptr addrspace(1) %q
  %m = mul i64 %v, %n
  %a = add i64 %m, %v
  %s = sub i64 %a, 12345678901
  %c = call i64 @llvm.ctpop.i64(i64 %s)
  %d = udiv i64 %n, 7
  %e = add i64 %c, %d
  store i64 %e, ptr addrspace(1) %q
  %f = load float, ptr addrspace(1) %q
  %g = fdiv float %f, %k
  %h = call float @llvm.exp2.f32(float %g)
  %i = call float @llvm.fma.f32(float %h, float %f, float %g)
  %j = call float @llvm.maxnum.f32(float %i, float %k)
  %l = fcmp olt float %j, %f
  %o = select i1 %l, float %j, float %h
  %r = bitcast float %o to i32
  %u = lshr i32 %r, %t
  %w = call i32 @llvm.fshr.i32(i32 %u, i32 %r, i32 %t)
  %x = xor i32 %w, -1
  store i32 %x, ptr addrspace(1) %q
  ret void
}

define amdgpu_kernel void @control(ptr addrspace(1) %p, i32 %n, i32 %m) {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %q = getelementptr i32, ptr addrspace(1) %p, i32 %t
  %any = icmp sgt i32 %n, 0
  br i1 %any, label %loop, label %out
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %join ]
  %sum = phi i32 [ %m, %entry ], [ %more, %join ]
  %v = load volatile i32, ptr addrspace(1) %q
  %odd = icmp ult i32 %v, %i
  br i1 %odd, label %then, label %join
then:
  store volatile i32 %i, ptr addrspace(1) %q
  br label %join
join:
  %f = phi i32 [ %v, %loop ], [ 3, %then ]
  %more = add i32 %sum, %f
  %next = add i32 %i, 1
  %done = icmp eq i32 %next, %n
  br i1 %done, label %out, label %loop
out:
  %r = phi i32 [ 0, %entry ], [ %more, %join ]
  %min = call i32 @llvm.umin.i32(i32 %m, i32 %n)
  %sh = shl i32 %min, 3
  %an = and i32 %sh, %m
  %ab = call i32 @llvm.abs.i32(i32 %an, i1 false)
  %x = add i32 %ab, %r
  store i32 %x, ptr addrspace(1) %q
  ret void
}
