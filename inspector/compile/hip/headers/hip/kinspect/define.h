// Attributes, dim3 and the numbers that depend on the target, for HIP code compiled without ROCm.
#pragma once
#pragma clang system_header
#include <stddef.h>
#include <stdint.h>
#include <limits.h>
#include <type_traits>

#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1
#endif
#ifndef __HIP_PLATFORM_HCC__
#define __HIP_PLATFORM_HCC__ 1
#endif
#ifndef __HIPCC__
#define __HIPCC__ 1
#endif
#ifndef HIP_VERSION
#define HIP_VERSION_MAJOR 6
#define HIP_VERSION_MINOR 4
#define HIP_VERSION_PATCH 0
#define HIP_VERSION (HIP_VERSION_MAJOR * 10000000 + HIP_VERSION_MINOR * 100000 + HIP_VERSION_PATCH)
#endif

#define HIP_INCLUDE_HIP_AMD_DETAIL_HOST_DEFINES_H
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __hip_pinned__
#define __grid_constant__
#define HIP_DYNAMIC_SHARED(type, var) extern __shared__ type var[];
#define HIP_DYNAMIC_SHARED_ATTRIBUTE
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_SYMBOL(x) x
#define __HOST_DEVICE__ __host__ __device__
#define __hip_builtin_inline __forceinline__

#define __kinspect_bounds1(t) __attribute__((amdgpu_flat_work_group_size(1, t)))
#define __kinspect_bounds2(t, w) __attribute__((amdgpu_flat_work_group_size(1, t), amdgpu_waves_per_eu(w)))
#define __kinspect_bounds3(t, w, c) __kinspect_bounds2(t, w)
#define __kinspect_pick(a, b, c, name, ...) name
#define __launch_bounds__(...) \
  __kinspect_pick(__VA_ARGS__, __kinspect_bounds3, __kinspect_bounds2, __kinspect_bounds1, )(__VA_ARGS__)

#define __kinspect_d static __device__ inline __attribute__((always_inline, nodebug))
// For names that HIP itself lacks: code that defines them is preferred to a template.
#define __kinspect_w template <class = void> __kinspect_d
#define __kinspect_hd static __host__ __device__ inline __attribute__((always_inline, nodebug))
#define __kinspect_whd template <class = void> __kinspect_hd
#define __kinspect_chd static __host__ __device__ constexpr inline __attribute__((always_inline, nodebug))
#define __kinspect_m __host__ __device__ inline __attribute__((always_inline, nodebug))
// Not std::is_arithmetic: libraries specialise it for types that these overloads would already have asked it about.
template <class __kT> struct __kinspect_is_int { static constexpr bool value = __is_integral(__kT); };
template <class __kT> struct __kinspect_is_float { static constexpr bool value = __is_floating_point(__kT); };
template <class __kT> struct __kinspect_is_num { static constexpr bool value = __is_integral(__kT) || __is_floating_point(__kT); };
#define __kinspect_int(__kT) typename std::enable_if<__kinspect_is_int<__kT>::value, int>::type = 0
#define __kinspect_num(__kT) typename std::enable_if<__kinspect_is_num<__kT>::value, int>::type = 0

#if defined(__AMDGCN_WAVEFRONT_SIZE__)
#define __kinspect_wave __AMDGCN_WAVEFRONT_SIZE__
#elif defined(__AMDGCN__) && !defined(__GFX7__) && !defined(__GFX8__) && !defined(__GFX9__)
#define __kinspect_wave 32
#else
#define __kinspect_wave 64
#endif
static constexpr int warpSize = __kinspect_wave;
#define HIP_WARP_SIZE __kinspect_wave

#ifdef __HIP_DEVICE_COMPILE__
#define __HIP_ARCH_HAS_GLOBAL_INT32_ATOMICS__ 1
#define __HIP_ARCH_HAS_GLOBAL_INT64_ATOMICS__ 1
#define __HIP_ARCH_HAS_SHARED_INT32_ATOMICS__ 1
#define __HIP_ARCH_HAS_SHARED_INT64_ATOMICS__ 1
#define __HIP_ARCH_HAS_FLOAT_ATOMIC_ADD__ 1
#define __HIP_ARCH_HAS_DOUBLES__ 1
#define __HIP_ARCH_HAS_WARP_VOTE__ 1
#define __HIP_ARCH_HAS_WARP_BALLOT__ 1
#define __HIP_ARCH_HAS_WARP_SHUFFLE__ 1
#define __HIP_ARCH_HAS_THREAD_FENCE_SYSTEM__ 1
#define __HIP_ARCH_HAS_SYNC_THREAD_EXT__ 0
#define __HIP_ARCH_HAS_3DGRID__ 1
#endif
