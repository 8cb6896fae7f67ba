; Private arrays: in a kernel, indexed and at fixed places, and behind a pointer in a function.
target datalayout = "A5"
target triple = "amdgcn-amd-amdhsa"

declare i32 @llvm.amdgcn.workitem.id.x()

define float @pick(ptr addrspace(5) %a, i32 %i) noinline {
  %at = getelementptr float, ptr addrspace(5) %a, i32 %i
  %x = load float, ptr addrspace(5) %at, align 4
  ret float %x
}

define amdgpu_kernel void @indexed(ptr addrspace(1) %p, i32 %n) {
entry:
  %a = alloca [40 x float], align 4, addrspace(5)
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  br label %fill
fill:
  %i = phi i32 [ %lane, %entry ], [ %next, %fill ]
  %from = getelementptr float, ptr addrspace(1) %p, i32 %i
  %x = load float, ptr addrspace(1) %from, align 4
  %to = getelementptr [40 x float], ptr addrspace(5) %a, i32 0, i32 %i
  store float %x, ptr addrspace(5) %to, align 4
  %next = add i32 %i, %n
  %more = icmp ult i32 %next, 40
  br i1 %more, label %fill, label %read
read:
  %index = sub i32 39, %lane
  %at = getelementptr [40 x float], ptr addrspace(5) %a, i32 0, i32 %index
  %y = load float, ptr addrspace(5) %at, align 4
  store float %y, ptr addrspace(1) %p, align 4
  ret void
}

define amdgpu_kernel void @passed(ptr addrspace(1) %p, i32 %n) {
  %a = alloca [2 x float], align 4, addrspace(5)
  %x = load float, ptr addrspace(1) %p, align 4
  store float %x, ptr addrspace(5) %a, align 4
  %second = getelementptr float, ptr addrspace(5) %a, i32 1
  store float 1.0, ptr addrspace(5) %second, align 4
  %y = call float @pick(ptr addrspace(5) %a, i32 %n)
  store float %y, ptr addrspace(1) %p, align 4
  ret void
}
