// FP8 types and conversions: the target's instructions where it has them (of its own FP8 kind), else integer code.
#pragma once
#pragma clang system_header
#include <hip/hip_fp16.h>
#include <hip/hip_bf16.h>

#define HIP_FP8_TYPE_OCP 1
#define HIP_FP8_TYPE_FNUZ 1
typedef unsigned char __hip_fp8_storage_t;
typedef unsigned short __hip_fp8x2_storage_t;
typedef unsigned int __hip_fp8x4_storage_t;
enum __hip_saturation_t { __HIP_NOSAT, __HIP_SATFINITE };
enum __hip_fp8_interpretation_t { __HIP_E4M3, __HIP_E5M2, __HIP_E4M3_FNUZ, __HIP_E5M2_FNUZ };

#if __has_builtin(__builtin_amdgcn_cvt_pk_fp8_f32)
#define __kinspect_fp8 1
#if defined(__gfx942__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx9_4_generic__)
#define __kinspect_fp8_fnuz 1
#else
#define __kinspect_fp8_fnuz 0
#endif
#else
#define __kinspect_fp8 0
#define __kinspect_fp8_fnuz 2
#endif

template <__hip_fp8_interpretation_t __kK> struct __kinspect_fp8_kind {
  static constexpr bool fnuz = __kK == __HIP_E4M3_FNUZ || __kK == __HIP_E5M2_FNUZ, e5 = __kK == __HIP_E5M2 || __kK == __HIP_E5M2_FNUZ;
  static constexpr bool native = __kinspect_fp8 && fnuz == (__kinspect_fp8_fnuz == 1);
  static constexpr int __kM = e5 ? 2 : 3, bias = (e5 ? 15 : 7) + fnuz;
  static constexpr unsigned max = fnuz ? 0x7f : e5 ? 0x7b : 0x7e, nan = fnuz ? 0x80 : 0x7f;
  static constexpr float largest = e5 ? 57344.f : fnuz ? 240.f : 448.f;
};
template <__hip_fp8_interpretation_t __kK> __kinspect_hd unsigned char __kinspect_to_fp8(float x, bool sat) {
  typedef __kinspect_fp8_kind<__kK> k;
  unsigned u = __builtin_bit_cast(unsigned, x), s = u >> 24 & 0x80, a = u & 0x7fffffff;
  float f = __builtin_bit_cast(float, a);
  if (f != f) return (unsigned char)(k::fnuz ? 0x80 : s | 0x7f);
  unsigned c;
  if (f < __builtin_bit_cast(float, (unsigned)(128 - k::bias) << 23))
    c = (unsigned)__builtin_rintf(f * __builtin_bit_cast(float, (unsigned)(126 + k::bias + k::__kM) << 23));
  else
    c = ((a + (1u << (22 - k::__kM)) - 1 + (a >> (23 - k::__kM) & 1)) >> (23 - k::__kM)) - ((unsigned)(127 - k::bias) << k::__kM);
  if (c > k::max) c = sat ? k::max : k::fnuz ? 0x80 : __kK == __HIP_E5M2 ? 0x7c : 0x7f;
  return (unsigned char)(k::fnuz && c == 0 ? 0 : s | c);
}
template <__hip_fp8_interpretation_t __kK> __kinspect_hd float __kinspect_from_fp8(unsigned char x) {
  typedef __kinspect_fp8_kind<__kK> k;
  unsigned s = (x & 0x80u) << 24, e = (x & 0x7fu) >> k::__kM, m = x & ((1u << k::__kM) - 1);
  float f = e ? __builtin_bit_cast(float, (e + 127 - k::bias) << 23 | m << (23 - k::__kM))
              : (float)m * __builtin_bit_cast(float, (unsigned)(128 - k::bias - k::__kM) << 23);
  if (k::fnuz) { if (x == 0x80) f = __builtin_nanf(""); }
  else if (__kK == __HIP_E5M2) { if ((x & 0x7f) > 0x7c) f = __builtin_nanf(""); else if ((x & 0x7f) == 0x7c) f = __builtin_inff(); }
  else if ((x & 0x7f) == 0x7f) f = __builtin_nanf("");
  return __builtin_bit_cast(float, __builtin_bit_cast(unsigned, f) | s);
}
#if __kinspect_fp8
template <__hip_fp8_interpretation_t __kK> __kinspect_d float __kinspect_fp8_clip(float x, bool sat) {
  constexpr float m = __kinspect_fp8_kind<__kK>::largest;
  return !sat || __builtin_isnan(x) ? x : __builtin_amdgcn_fmed3f(x, m, -m);
}
#endif
// One or two values to FP8, one value from it.
template <__hip_fp8_interpretation_t __kK> __kinspect_hd unsigned short __kinspect_to_fp8x2(float x, float y, bool sat) {
#if __kinspect_fp8
  if constexpr (__kinspect_fp8_kind<__kK>::native) {
    x = __kinspect_fp8_clip<__kK>(x, sat); y = __kinspect_fp8_clip<__kK>(y, sat);
    if constexpr (__kinspect_fp8_kind<__kK>::e5) return (unsigned short)__builtin_amdgcn_cvt_pk_bf8_f32(x, y, 0, false);
    else return (unsigned short)__builtin_amdgcn_cvt_pk_fp8_f32(x, y, 0, false);
  } else
#endif
  return (unsigned short)(__kinspect_to_fp8<__kK>(x, sat) | __kinspect_to_fp8<__kK>(y, sat) << 8);
}
template <__hip_fp8_interpretation_t __kK> __kinspect_hd unsigned char __kinspect_to_fp8x1(float x, bool sat) {
  if constexpr (__kinspect_fp8_kind<__kK>::native) return (unsigned char)__kinspect_to_fp8x2<__kK>(x, x, sat);
  else return __kinspect_to_fp8<__kK>(x, sat);
}
template <__hip_fp8_interpretation_t __kK> __kinspect_hd float __kinspect_from_fp8x1(unsigned char x) {
#if __kinspect_fp8
  if constexpr (__kinspect_fp8_kind<__kK>::native) {
    if constexpr (__kinspect_fp8_kind<__kK>::e5) return __builtin_amdgcn_cvt_f32_bf8((int)x, 0);
    else return __builtin_amdgcn_cvt_f32_fp8((int)x, 0);
  } else
#endif
  return __kinspect_from_fp8<__kK>(x);
}
template <__hip_fp8_interpretation_t __kK> __kinspect_hd float2 __kinspect_from_fp8x2(unsigned short x) {
#if __kinspect_fp8
  if constexpr (__kinspect_fp8_kind<__kK>::native) {
    __kinspect_f2 v;
    if constexpr (__kinspect_fp8_kind<__kK>::e5) v = __builtin_amdgcn_cvt_pk_f32_bf8((int)x, false);
    else v = __builtin_amdgcn_cvt_pk_f32_fp8((int)x, false);
    return float2(v[0], v[1]);
  } else
#endif
  return float2(__kinspect_from_fp8<__kK>((unsigned char)x), __kinspect_from_fp8<__kK>((unsigned char)(x >> 8)));
}
#define __kinspect_by_kind(k, f, ...) \
  (k == __HIP_E4M3 ? f<__HIP_E4M3>(__VA_ARGS__) : k == __HIP_E5M2 ? f<__HIP_E5M2>(__VA_ARGS__) \
   : k == __HIP_E4M3_FNUZ ? f<__HIP_E4M3_FNUZ>(__VA_ARGS__) : f<__HIP_E5M2_FNUZ>(__VA_ARGS__))
__kinspect_hd __hip_fp8_storage_t __hip_cvt_float_to_fp8(float x, __hip_saturation_t s, __hip_fp8_interpretation_t k) { return __kinspect_by_kind(k, __kinspect_to_fp8x1, x, s == __HIP_SATFINITE); }
__kinspect_hd __hip_fp8x2_storage_t __hip_cvt_float2_to_fp8x2(float2 v, __hip_saturation_t s, __hip_fp8_interpretation_t k) { return __kinspect_by_kind(k, __kinspect_to_fp8x2, v.x, v.y, s == __HIP_SATFINITE); }
__kinspect_hd __hip_fp8_storage_t __hip_cvt_double_to_fp8(double x, __hip_saturation_t s, __hip_fp8_interpretation_t k) { return __hip_cvt_float_to_fp8((float)x, s, k); }
__kinspect_hd __hip_fp8_storage_t __hip_cvt_halfraw_to_fp8(__half_raw h, __hip_saturation_t s, __hip_fp8_interpretation_t k) { return __hip_cvt_float_to_fp8((float)__half(h), s, k); }
__kinspect_hd __hip_fp8x2_storage_t __hip_cvt_halfraw2_to_fp8x2(__half2_raw h, __hip_saturation_t s, __hip_fp8_interpretation_t k) { return __hip_cvt_float2_to_fp8x2(__half22float2(__half2(h)), s, k); }
__kinspect_hd __hip_fp8_storage_t __hip_cvt_bfloat16raw_to_fp8(__hip_bfloat16_raw h, __hip_saturation_t s, __hip_fp8_interpretation_t k) { return __hip_cvt_float_to_fp8((float)__hip_bfloat16(h), s, k); }
__kinspect_hd __hip_fp8x2_storage_t __hip_cvt_bfloat16raw2_to_fp8x2(__hip_bfloat162_raw h, __hip_saturation_t s, __hip_fp8_interpretation_t k) { return __hip_cvt_float2_to_fp8x2(__bfloat1622float2(__hip_bfloat162(h)), s, k); }
__kinspect_hd __half_raw __hip_cvt_fp8_to_halfraw(__hip_fp8_storage_t x, __hip_fp8_interpretation_t k) { return __half(__kinspect_by_kind(k, __kinspect_from_fp8x1, x)); }
__kinspect_hd __half2_raw __hip_cvt_fp8x2_to_halfraw2(__hip_fp8x2_storage_t x, __hip_fp8_interpretation_t k) { return __float22half2_rn(__kinspect_by_kind(k, __kinspect_from_fp8x2, x)); }

#define __kinspect_fp8_type(name, x2, x4, __kK) \
  struct name { \
    __hip_fp8_storage_t __x; \
    static constexpr __hip_saturation_t __default_saturation = __HIP_SATFINITE; \
    static constexpr __hip_fp8_interpretation_t __default_interpret = __kK; \
    name() = default; \
    template <class __kT, __kinspect_num(__kT)> __kinspect_m explicit name(__kT v) : __x(__kinspect_to_fp8x1<__kK>((float)v, true)) {} \
    __kinspect_m explicit name(__half v) : __x(__kinspect_to_fp8x1<__kK>((float)v, true)) {} \
    __kinspect_m explicit name(__hip_bfloat16 v) : __x(__kinspect_to_fp8x1<__kK>((float)v, true)) {} \
    __kinspect_m operator float() const { return __kinspect_from_fp8x1<__kK>(__x); } \
    __kinspect_m explicit operator __half() const { return __half((float)*this); } \
    __kinspect_m explicit operator __hip_bfloat16() const { return __hip_bfloat16((float)*this); } \
    __kinspect_m explicit operator bool() const { return (float)*this != 0.f; } \
  }; \
  struct x2 { \
    __hip_fp8x2_storage_t __x; \
    x2() = default; \
    __kinspect_m explicit x2(float2 v) : __x(__kinspect_to_fp8x2<__kK>(v.x, v.y, true)) {} \
    __kinspect_m explicit x2(__half2 v) : x2(__half22float2(v)) {} \
    __kinspect_m explicit x2(__hip_bfloat162 v) : x2(__bfloat1622float2(v)) {} \
    __kinspect_m operator float2() const { return __kinspect_from_fp8x2<__kK>(__x); } \
    __kinspect_m explicit operator __half2() const { return __float22half2_rn((float2)*this); } \
  }; \
  struct x4 { \
    __hip_fp8x4_storage_t __x; \
    x4() = default; \
    __kinspect_m explicit x4(float4 v) : __x(__kinspect_to_fp8x2<__kK>(v.x, v.y, true) | (unsigned)__kinspect_to_fp8x2<__kK>(v.z, v.w, true) << 16) {} \
    __kinspect_m operator float4() const { \
      float2 a = __kinspect_from_fp8x2<__kK>((unsigned short)__x), b = __kinspect_from_fp8x2<__kK>((unsigned short)(__x >> 16)); \
      return float4(a.x, a.y, b.x, b.y); \
    } \
  };
__kinspect_fp8_type(__hip_fp8_e4m3, __hip_fp8x2_e4m3, __hip_fp8x4_e4m3, __HIP_E4M3)
__kinspect_fp8_type(__hip_fp8_e5m2, __hip_fp8x2_e5m2, __hip_fp8x4_e5m2, __HIP_E5M2)
__kinspect_fp8_type(__hip_fp8_e4m3_fnuz, __hip_fp8x2_e4m3_fnuz, __hip_fp8x4_e4m3_fnuz, __HIP_E4M3_FNUZ)
__kinspect_fp8_type(__hip_fp8_e5m2_fnuz, __hip_fp8x2_e5m2_fnuz, __hip_fp8x4_e5m2_fnuz, __HIP_E5M2_FNUZ)
#undef __kinspect_fp8_type
