// Kernels that fit so many waves on a SIMD: clang has no flag for it.
#ifndef KINSPECT_WAVES_PER_EU_H
#define KINSPECT_WAVES_PER_EU_H
#undef __global__
#define __global__ __attribute__((global, amdgpu_waves_per_eu(KINSPECT_WAVES_PER_EU)))
#endif
