; Matrix instructions and the accumulators' registers of CDNA.
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare <16 x float> @llvm.amdgcn.mfma.f32.32x32x8f16(<4 x half>, <4 x half>, <16 x float>, i32, i32, i32)
define amdgpu_kernel void @m(ptr addrspace(1) %p) "amdgpu-waves-per-eu"="1,1" {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %q = getelementptr <16 x float>, ptr addrspace(1) %p, i32 %t
  %c = load <16 x float>, ptr addrspace(1) %q
  %a = load <4 x half>, ptr addrspace(1) %q
  %d = call <16 x float> @llvm.amdgcn.mfma.f32.32x32x8f16(<4 x half> %a, <4 x half> %a, <16 x float> %c, i32 0, i32 0, i32 0)
  %e = call <16 x float> @llvm.amdgcn.mfma.f32.32x32x8f16(<4 x half> %a, <4 x half> %a, <16 x float> %d, i32 0, i32 0, i32 0)
  store <16 x float> %e, ptr addrspace(1) %q
  ret void
}
