; Device functions in every way a kernel can reach them: directly, recursively, through a pointer.
; Written in opaque pointers; LLVM 14 needs -opaque-pointers.
target triple = "amdgcn-amd-amdhsa"

@table = external addrspace(1) global ptr
@tile = internal addrspace(3) global [256 x i32] undef, align 4

declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier()

define internal i32 @leaf(i32 %x) noinline {
  %y = mul i32 %x, 7
  ret i32 %y
}

define i32 @middle(i32 %x, ptr addrspace(5) %spare) noinline {
  %slot = alloca [8 x i32], addrspace(5)
  %at = getelementptr [8 x i32], ptr addrspace(5) %slot, i32 0, i32 %x
  store volatile i32 %x, ptr addrspace(5) %at
  %a = call i32 @leaf(i32 %x)
  %b = load volatile i32, ptr addrspace(5) %at
  %c = add i32 %a, %b
  ret i32 %c
}

define i32 @factorial(i32 %x) noinline {
entry:
  %zero = icmp eq i32 %x, 0
  br i1 %zero, label %done, label %again
done:
  ret i32 1
again:
  %less = sub i32 %x, 1
  %rest = call i32 @factorial(i32 %less)
  %product = mul i32 %rest, %x
  ret i32 %product
}

define amdgpu_kernel void @calls_in_loop(ptr addrspace(1) %p, i32 %n) #0 {
entry:
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  br label %loop
loop:
  %i = phi i32 [0, %entry], [%next, %loop]
  %a = phi i32 [%id, %entry], [%v, %loop]
  %u = call i32 @leaf(i32 %a)
  %v = call i32 @middle(i32 %u, ptr addrspace(5) null)
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %done
done:
  %q = getelementptr i32, ptr addrspace(1) %p, i32 %id
  store i32 %v, ptr addrspace(1) %q
  ret void
}

define amdgpu_kernel void @calls_recursive(ptr addrspace(1) %p, i32 %n) #0 {
  %v = call i32 @factorial(i32 %n)
  store i32 %v, ptr addrspace(1) %p
  ret void
}

define amdgpu_kernel void @calls_unknown(ptr addrspace(1) %p, i32 %n) #0 {
  %f = load ptr, ptr addrspace(1) @table
  %v = call i32 %f(i32 %n)
  store i32 %v, ptr addrspace(1) %p
  ret void
}

define amdgpu_kernel void @nested_loops(ptr addrspace(1) %p, i32 %n, i32 %m) #1 {
entry:
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  br label %outer
outer:
  %i = phi i32 [0, %entry], [%i.next, %latch]
  %s = phi i32 [0, %entry], [%s.out, %latch]
  %odd = and i32 %i, 1
  %skip = icmp eq i32 %odd, 0
  br i1 %skip, label %latch, label %inner
inner:
  %j = phi i32 [0, %outer], [%j.next, %inner]
  %t = phi i32 [%s, %outer], [%t.next, %inner]
  %index = add i32 %j, %id
  %at = getelementptr [256 x i32], ptr addrspace(3) @tile, i32 0, i32 %index
  %old = load volatile i32, ptr addrspace(3) %at
  %t.next = add i32 %t, %old
  %j.next = add i32 %j, 1
  %j.more = icmp slt i32 %j.next, %m
  br i1 %j.more, label %inner, label %latch
latch:
  %s.out = phi i32 [%s, %outer], [%t.next, %inner]
  call void @llvm.amdgcn.s.barrier()
  %i.next = add i32 %i, 1
  %i.more = icmp slt i32 %i.next, %n
  br i1 %i.more, label %outer, label %done
done:
  %q = getelementptr i32, ptr addrspace(1) %p, i32 %id
  store i32 %s.out, ptr addrspace(1) %q
  ret void
}

attributes #0 = { "amdgpu-flat-work-group-size"="1,256" }
attributes #1 = { "amdgpu-flat-work-group-size"="64,64" "amdgpu-waves-per-eu"="2,2" }
