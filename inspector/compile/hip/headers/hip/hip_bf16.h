// __hip_bfloat16 and __hip_bfloat162 on __bf16; arithmetic is that of float, rounded.
#pragma once
#pragma clang system_header
#include <hip/kinspect/small_float.h>

struct __hip_bfloat16_raw { unsigned short x; };
struct alignas(4) __hip_bfloat162_raw { unsigned short x, y; };
__kinspect_small_type(__hip_bfloat16, __hip_bfloat162, __bf16)
__kinspect_small(__hip_bfloat16, __hip_bfloat162, __bf16, float, __kinspect_f2)

__kinspect_hd float __bfloat162float(__hip_bfloat16 b) { return (float)b.data; }
#define __kinspect_b(m) \
  __kinspect_hd __hip_bfloat16 __float2bfloat16##m(float x) { return __hip_bfloat16((__bf16)x); }
__kinspect_b() __kinspect_b(_rn) __kinspect_b(_rd) __kinspect_b(_ru)
#undef __kinspect_b
__kinspect_hd __hip_bfloat16 __float2bfloat16_rz(float x) { __hip_bfloat16 r; r.__x = (unsigned short)(__builtin_bit_cast(unsigned, x) >> 16); return r; }
__kinspect_hd __hip_bfloat16 __double2bfloat16(double x) { return __hip_bfloat16((float)x); }
__kinspect_hd __hip_bfloat162 __float2bfloat162_rn(float x) { return __hip_bfloat162(__hip_bfloat16(x), __hip_bfloat16(x)); }
__kinspect_hd __hip_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return __hip_bfloat162(__builtin_convertvector((__kinspect_f2){x, y}, __kinspect___hip_bfloat16_v));
}
__kinspect_hd __hip_bfloat162 __float22bfloat162_rn(float2 v) { return __floats2bfloat162_rn(v.x, v.y); }
__kinspect_hd float2 __bfloat1622float2(__hip_bfloat162 v) { return float2((float)v.x.data, (float)v.y.data); }
__kinspect_hd __hip_bfloat162 __bfloat162bfloat162(__hip_bfloat16 b) { return __hip_bfloat162(b, b); }
__kinspect_hd __hip_bfloat162 __halves2bfloat162(__hip_bfloat16 a, __hip_bfloat16 b) { return __hip_bfloat162(a, b); }
__kinspect_chd __hip_bfloat162 make_bfloat162(__hip_bfloat16 a, __hip_bfloat16 b) { return __hip_bfloat162(a, b); }
__kinspect_hd __hip_bfloat16 __low2bfloat16(__hip_bfloat162 v) { return v.x; }
__kinspect_hd __hip_bfloat16 __high2bfloat16(__hip_bfloat162 v) { return v.y; }
__kinspect_hd __hip_bfloat162 __low2bfloat162(__hip_bfloat162 v) { return __hip_bfloat162(v.x, v.x); }
__kinspect_hd __hip_bfloat162 __high2bfloat162(__hip_bfloat162 v) { return __hip_bfloat162(v.y, v.y); }
__kinspect_hd __hip_bfloat162 __lows2bfloat162(__hip_bfloat162 a, __hip_bfloat162 b) { return __hip_bfloat162(a.x, b.x); }
__kinspect_hd __hip_bfloat162 __highs2bfloat162(__hip_bfloat162 a, __hip_bfloat162 b) { return __hip_bfloat162(a.y, b.y); }
__kinspect_hd short __bfloat16_as_short(__hip_bfloat16 b) { return (short)b.__x; }
__kinspect_hd unsigned short __bfloat16_as_ushort(__hip_bfloat16 b) { return b.__x; }
__kinspect_hd __hip_bfloat16 __ushort_as_bfloat16(unsigned short x) { __hip_bfloat16_raw r{x}; return __hip_bfloat16(r); }
__kinspect_hd __hip_bfloat16 __short_as_bfloat16(short x) { return __ushort_as_bfloat16((unsigned short)x); }
#define __kinspect_b(m, __kB) \
  __kinspect_d int __bfloat162int_##m(__hip_bfloat16 b) { return (int)__kB((float)b.data); } \
  __kinspect_d unsigned __bfloat162uint_##m(__hip_bfloat16 b) { return (unsigned)__kB((float)b.data); } \
  __kinspect_d __hip_bfloat16 __int2bfloat16_##m(int x) { return __hip_bfloat16((float)x); } \
  __kinspect_d __hip_bfloat16 __uint2bfloat16_##m(unsigned x) { return __hip_bfloat16((float)x); }
__kinspect_b(rn, __builtin_rintf) __kinspect_b(rz, __builtin_truncf) __kinspect_b(rd, __builtin_floorf) __kinspect_b(ru, __builtin_ceilf)
#undef __kinspect_b
__kinspect_d __hip_bfloat162 unsafeAtomicAdd(__hip_bfloat162* p, __hip_bfloat162 v) {
#if __has_builtin(__builtin_amdgcn_global_atomic_fadd_v2bf16)
  typedef short __kS __attribute__((ext_vector_type(2)));
  typedef __attribute__((address_space(1))) __kS* __kG;
  return __builtin_bit_cast(__hip_bfloat162, __builtin_amdgcn_global_atomic_fadd_v2bf16((__kG)p, __builtin_bit_cast(__kS, v)));
#else
  return atomicAdd(p, v);
#endif
}
