// half and half2 on _Float16.
#pragma once
#pragma clang system_header
#include <hip/kinspect/small_float.h>

struct __half_raw { unsigned short x; };
struct alignas(4) __half2_raw { unsigned short x, y; };
__kinspect_small_type(__half, __half2, _Float16)
__kinspect_small(__half, __half2, _Float16, _Float16, __kinspect___half_v)
typedef __half half;
typedef __half2 half2;
typedef __half __fp16_t;

__kinspect_hd float __half2float(__half h) { return (float)h.data; }
#define __kinspect_h(m) \
  __kinspect_hd __half __float2half##m(float x) { return __half((_Float16)x); }
__kinspect_h() __kinspect_h(_rn) __kinspect_h(_rd) __kinspect_h(_ru)
#undef __kinspect_h
__kinspect_d __half __float2half_rz(float x) {
  auto v = __builtin_amdgcn_cvt_pkrtz(x, 0.f);
  return __half((_Float16)v[0]);
}
__kinspect_hd __half __double2half(double x) { return __half((_Float16)x); }
__kinspect_hd __half2 __float2half2_rn(float x) { return __half2((_Float16)x, (_Float16)x); }
__kinspect_hd __half2 __floats2half2_rn(float x, float y) { return __half2((_Float16)x, (_Float16)y); }
__kinspect_hd __half2 __float22half2_rn(float2 v) { return __half2((_Float16)v.x, (_Float16)v.y); }
__kinspect_hd float2 __half22float2(__half2 v) { return float2((float)v.x.data, (float)v.y.data); }
__kinspect_hd __half2 __half2half2(__half h) { return __half2(h, h); }
__kinspect_hd __half2 __halves2half2(__half a, __half b) { return __half2(a, b); }
__kinspect_chd __half2 make_half2(__half a, __half b) { return __half2(a, b); }
__kinspect_hd __half __low2half(__half2 v) { return v.x; }
__kinspect_hd __half __high2half(__half2 v) { return v.y; }
__kinspect_hd __half2 __low2half2(__half2 v) { return __half2(v.x, v.x); }
__kinspect_hd __half2 __high2half2(__half2 v) { return __half2(v.y, v.y); }
__kinspect_hd __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
__kinspect_hd __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }
__kinspect_hd short __half_as_short(__half h) { return (short)h.__x; }
__kinspect_hd unsigned short __half_as_ushort(__half h) { return h.__x; }
__kinspect_hd __half __ushort_as_half(unsigned short x) { __half_raw r{x}; return __half(r); }
__kinspect_hd __half __short_as_half(short x) { return __ushort_as_half((unsigned short)x); }
#define __kinspect_h(m, __kB) \
  __kinspect_d int __half2int_##m(__half h) { return (int)__kB((float)h.data); } \
  __kinspect_d unsigned __half2uint_##m(__half h) { return (unsigned)__kB((float)h.data); } \
  __kinspect_d short __half2short_##m(__half h) { return (short)__kB((float)h.data); } \
  __kinspect_d unsigned short __half2ushort_##m(__half h) { return (unsigned short)__kB((float)h.data); } \
  __kinspect_d long long __half2ll_##m(__half h) { return (long long)__kB((float)h.data); } \
  __kinspect_d __half __int2half_##m(int x) { return __half((_Float16)x); } \
  __kinspect_d __half __uint2half_##m(unsigned x) { return __half((_Float16)x); } \
  __kinspect_d __half __short2half_##m(short x) { return __half((_Float16)x); } \
  __kinspect_d __half __ushort2half_##m(unsigned short x) { return __half((_Float16)x); } \
  __kinspect_d __half __ll2half_##m(long long x) { return __half((_Float16)x); }
__kinspect_h(rn, __builtin_rintf) __kinspect_h(rz, __builtin_truncf) __kinspect_h(rd, __builtin_floorf) __kinspect_h(ru, __builtin_ceilf)
#undef __kinspect_h
__kinspect_hd __half2 __hcmadd(__half2 a, __half2 b, __half2 c) {
  return __half2(a.x * b.x - a.y * b.y + c.x, a.x * b.y + a.y * b.x + c.y);
}
__kinspect_d float amd_mixed_dot(__half2 a, __half2 b, float c, bool = false) {
#if __has_builtin(__builtin_amdgcn_fdot2) && !defined(__gfx900__)
  return __builtin_amdgcn_fdot2(__builtin_bit_cast(_Float16 __attribute__((ext_vector_type(2))), a), __builtin_bit_cast(_Float16 __attribute__((ext_vector_type(2))), b), c, false);
#else
  return (float)a.x * (float)b.x + (float)a.y * (float)b.y + c;
#endif
}
__kinspect_d __half2 unsafeAtomicAdd(__half2* p, __half2 v) {
#if __has_builtin(__builtin_amdgcn_global_atomic_fadd_v2f16)
  typedef __attribute__((address_space(1))) __kinspect___half_v* __kG;
  return __half2(__builtin_amdgcn_global_atomic_fadd_v2f16((__kG)p, v.data));
#else
  return atomicAdd(p, v);
#endif
}
