; Two kernels and a device function: static LDS, a stack object, a call, inflated registers.
target triple = "amdgcn-amd-amdhsa"
@lds = internal addrspace(3) global [128 x i32] undef
define amdgpu_kernel void @first(ptr addrspace(1) %p, i32 %n) #0 {
  %v = load volatile i32, ptr addrspace(1) %p
  %r = call i32 @callee(i32 %v, i32 %n)
  store volatile i32 %r, ptr addrspace(1) %p
  ret void
}
define amdgpu_kernel void @second(ptr addrspace(1) %p, i32 %n) #1 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %a = getelementptr [128 x i32], ptr addrspace(3) @lds, i32 0, i32 %t
  store volatile i32 %t, ptr addrspace(3) %a
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %i1, %loop ]
  %v = load volatile i32, ptr addrspace(3) %a
  store volatile i32 %v, ptr addrspace(1) %p
  %i1 = add i32 %i, 1
  %c = icmp slt i32 %i1, %n
  br i1 %c, label %loop, label %exit
exit:
  ret void
}
define hidden i32 @callee(i32 %a, i32 %b) #2 {
  %s = alloca [64 x i32], addrspace(5)
  %e = getelementptr [64 x i32], ptr addrspace(5) %s, i32 0, i32 %a
  store volatile i32 %b, ptr addrspace(5) %e
  %v = load volatile i32, ptr addrspace(5) %e
  ret i32 %v
}
declare i32 @llvm.amdgcn.workitem.id.x()
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" }
attributes #1 = { "amdgpu-flat-work-group-size"="128,128" "amdgpu-waves-per-eu"="4,4" }
attributes #2 = { noinline }
