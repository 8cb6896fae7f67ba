// What half and bfloat16 share: a macro that defines a type, its pair and their arithmetic.
// H, H2: the types; R: the native element; C: what computes (R's own arithmetic or float).
#pragma once
#pragma clang system_header
#include <hip/kinspect/device.h>

typedef float __kinspect_f2 __attribute__((ext_vector_type(2)));
__kinspect_hd _Float16 __kinspect_fma(_Float16 a, _Float16 b, _Float16 c) { return __builtin_fmaf16(a, b, c); }
__kinspect_hd float __kinspect_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

#define __kinspect_small_type(__kH, H2, __kR) \
  typedef __kR __kinspect_##__kH##_v __attribute__((ext_vector_type(2))); \
  struct __kH { \
    union { __kR data; unsigned short __x; }; \
    __kH() = default; \
    __kinspect_m constexpr __kH(__kR v) : data(v) {} \
    template <class __kT, __kinspect_num(__kT)> __kinspect_m constexpr __kH(__kT v) : data((__kR)(float)v) {} \
    __kinspect_m constexpr __kH(__kH##_raw r) : __x(r.x) {} \
    __kinspect_m constexpr operator __kR() const { return data; } \
    __kinspect_m constexpr operator float() const { return (float)data; } \
    template <class __kT, typename std::enable_if<__kinspect_is_num<__kT>::value && !std::is_same<__kT, float>::value, int>::type = 0> \
    __kinspect_m constexpr explicit operator __kT() const { return (__kT)(float)data; } \
    __kinspect_m operator __kH##_raw() const { __kH##_raw r; r.x = __x; return r; } \
    __kinspect_m __kH& operator+=(const __kH& b); __kinspect_m __kH& operator-=(const __kH& b); \
    __kinspect_m __kH& operator*=(const __kH& b); __kinspect_m __kH& operator/=(const __kH& b); \
    __kinspect_m __kH& operator++() { return *this += __kH(1.f); } \
    __kinspect_m __kH& operator--() { return *this -= __kH(1.f); } \
    __kinspect_m __kH operator-() const { return __kH((__kR)-data); } \
    __kinspect_m __kH operator+() const { return *this; } \
  }; \
  struct alignas(4) H2 { \
    union { __kinspect_##__kH##_v data; struct { __kH x, y; }; }; \
    H2() = default; \
    __kinspect_m constexpr H2(const __kH& a, const __kH& b) : x(a), y(b) {} \
    __kinspect_m H2(const __kH& a) : x(a), y(a) {} \
    __kinspect_m H2(__kinspect_##__kH##_v v) : data(v) {} \
    __kinspect_m H2(H2##_raw r) : data(__builtin_bit_cast(__kinspect_##__kH##_v, r)) {} \
    __kinspect_m operator H2##_raw() const { return __builtin_bit_cast(H2##_raw, data); } \
    __kinspect_m operator __kinspect_##__kH##_v() const { return data; } \
    __kinspect_m H2 operator-() const { return H2(-x, -y); } \
    __kinspect_m H2& operator+=(const H2& b); __kinspect_m H2& operator-=(const H2& b); \
    __kinspect_m H2& operator*=(const H2& b); __kinspect_m H2& operator/=(const H2& b); \
  };

#define __kinspect_small_op(__kH, H2, __kR, __kC, CV, op, name) \
  __kinspect_hd __kH name(__kH a, __kH b) { return __kH((__kR)((__kC)a.data op (__kC)b.data)); } \
  __kinspect_hd __kH name##_rn(__kH a, __kH b) { return name(a, b); } \
  __kinspect_hd __kH name##_sat(__kH a, __kH b) { return __kinspect_sat(name(a, b)); } \
  __kinspect_hd H2 name##2(H2 a, H2 b) { \
    return H2(__builtin_convertvector(__builtin_convertvector(a.data, CV) op __builtin_convertvector(b.data, CV), __kinspect_##__kH##_v)); \
  } \
  __kinspect_hd H2 name##2_rn(H2 a, H2 b) { return name##2(a, b); } \
  __kinspect_hd H2 name##2_sat(H2 a, H2 b) { return H2(name##_sat(a.x, b.x), name##_sat(a.y, b.y)); } \
  __kinspect_hd __kH operator op(const __kH& a, const __kH& b) { return name(a, b); } \
  __kinspect_hd H2 operator op(const H2& a, const H2& b) { return name##2(a, b); } \
  __kinspect_m __kH& __kH::operator op##=(const __kH& b) { return *this = name(*this, b); } \
  __kinspect_m H2& H2::operator op##=(const H2& b) { return *this = name##2(*this, b); }
#define __kinspect_small_cmp(__kH, H2, op, n) \
  __kinspect_hd bool __h##n(__kH a, __kH b) { return (float)a op (float)b; } \
  __kinspect_hd bool __h##n##u(__kH a, __kH b) { return (float)a op (float)b || a.data != a.data || b.data != b.data; } \
  __kinspect_hd H2 __h##n##2(H2 a, H2 b) { return H2(__kH(a.x.data op b.x.data ? 1.f : 0.f), __kH(a.y.data op b.y.data ? 1.f : 0.f)); } \
  __kinspect_hd bool __hb##n##2(H2 a, H2 b) { return a.x.data op b.x.data && a.y.data op b.y.data; } \
  __kinspect_whd unsigned __h##n##2_mask(H2 a, H2 b) { return (a.x.data op b.x.data ? 0xffffu : 0u) | (a.y.data op b.y.data ? 0xffff0000u : 0u); } \
  __kinspect_hd bool operator op(const __kH& a, const __kH& b) { return a.data op b.data; } \
  __kinspect_hd bool operator op(const H2& a, const H2& b) { return __hb##n##2(a, b); }
#define __kinspect_small_fn(__kH, H2, __kR, name, e) \
  __kinspect_d __kH h##name(__kH h) { float x = (float)h.data; return __kH((__kR)(e)); } \
  __kinspect_d H2 h2##name(H2 v) { return H2(h##name(v.x), h##name(v.y)); }
// An addition by compare and swap on the word that holds it.
#define __kinspect_small_atomic(__kH, H2) \
  __kinspect_d H2 atomicAdd(H2* p, H2 v) { \
    unsigned old = __hip_atomic_load((unsigned*)p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT), seen; \
    do { \
      seen = old; \
      H2 n = __hadd2(__builtin_bit_cast(H2, seen), v); \
      old = atomicCAS((unsigned*)p, seen, __builtin_bit_cast(unsigned, n)); \
    } while (old != seen); \
    return __builtin_bit_cast(H2, old); \
  } \
  __kinspect_d __kH atomicAdd(__kH* p, __kH v) { \
    unsigned *w = (unsigned*)((size_t)p & ~(size_t)3), shift = ((size_t)p & 2) * 8, old = *w, seen; \
    do { \
      seen = old; \
      __kH h; h.__x = (unsigned short)(seen >> shift); \
      __kH n = __hadd(h, v); \
      old = atomicCAS(w, seen, (seen & ~(0xffffu << shift)) | (unsigned)n.__x << shift); \
    } while (old != seen); \
    __kH r; r.__x = (unsigned short)(old >> shift); return r; \
  }

#define __kinspect_small(__kH, H2, __kR, __kC, CV) \
  __kinspect_hd __kH __kinspect_sat(__kH a) { float x = (float)a; return __kH(x > 1.f ? 1.f : x > 0.f ? x : 0.f); } \
  __kinspect_small_op(__kH, H2, __kR, __kC, CV, +, __hadd) __kinspect_small_op(__kH, H2, __kR, __kC, CV, -, __hsub) \
  __kinspect_small_op(__kH, H2, __kR, __kC, CV, *, __hmul) __kinspect_small_op(__kH, H2, __kR, __kC, CV, /, __hdiv) \
  __kinspect_hd H2 __h2div(H2 a, H2 b) { return __hdiv2(a, b); } \
  __kinspect_small_cmp(__kH, H2, ==, eq) __kinspect_small_cmp(__kH, H2, !=, ne) __kinspect_small_cmp(__kH, H2, <, lt) \
  __kinspect_small_cmp(__kH, H2, <=, le) __kinspect_small_cmp(__kH, H2, >, gt) __kinspect_small_cmp(__kH, H2, >=, ge) \
  __kinspect_hd __kH __hfma(__kH a, __kH b, __kH c) { return __kH((__kR)__kinspect_fma((__kC)a.data, (__kC)b.data, (__kC)c.data)); } \
  __kinspect_hd __kH __hfma_sat(__kH a, __kH b, __kH c) { return __kinspect_sat(__hfma(a, b, c)); } \
  __kinspect_whd __kH __hfma_relu(__kH a, __kH b, __kH c) { __kH r = __hfma(a, b, c); return (float)r > 0.f ? r : __kH(0.f); } \
  __kinspect_hd H2 __hfma2(H2 a, H2 b, H2 c) { \
    return H2(__builtin_convertvector(__builtin_elementwise_fma(__builtin_convertvector(a.data, CV), \
      __builtin_convertvector(b.data, CV), __builtin_convertvector(c.data, CV)), __kinspect_##__kH##_v)); \
  } \
  __kinspect_hd __kH __hneg(__kH a) { return -a; } \
  __kinspect_hd H2 __hneg2(H2 a) { return -a; } \
  __kinspect_whd __kH __habs(__kH a) { a.__x &= 0x7fff; return a; } \
  __kinspect_whd H2 __habs2(H2 a) { return H2(__habs(a.x), __habs(a.y)); } \
  __kinspect_hd bool __hisnan(__kH a) { return a.data != a.data; } \
  __kinspect_hd int __hisinf(__kH a) { float x = (float)a; return x == __builtin_inff() ? 1 : x == -__builtin_inff() ? -1 : 0; } \
  __kinspect_hd H2 __hisnan2(H2 a) { return H2(__kH(__hisnan(a.x) ? 1.f : 0.f), __kH(__hisnan(a.y) ? 1.f : 0.f)); } \
  __kinspect_whd __kH __hmin(__kH a, __kH b) { return __kH((__kR)__builtin_fminf((float)a.data, (float)b.data)); } \
  __kinspect_whd __kH __hmax(__kH a, __kH b) { return __kH((__kR)__builtin_fmaxf((float)a.data, (float)b.data)); } \
  __kinspect_whd __kH __hmin_nan(__kH a, __kH b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b); } \
  __kinspect_whd __kH __hmax_nan(__kH a, __kH b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b); } \
  __kinspect_whd H2 __hmin2(H2 a, H2 b) { return H2(__hmin(a.x, b.x), __hmin(a.y, b.y)); } \
  __kinspect_whd H2 __hmax2(H2 a, H2 b) { return H2(__hmax(a.x, b.x), __hmax(a.y, b.y)); } \
  __kinspect_hd float __low2float(H2 a) { return (float)a.x.data; } \
  __kinspect_hd float __high2float(H2 a) { return (float)a.y.data; } \
  __kinspect_hd H2 __lowhigh2highlow(H2 a) { return H2(a.y, a.x); } \
  __kinspect_d __kH __ldg(const __kH* p) { return *p; } \
  __kinspect_d H2 __ldg(const H2* p) { return *p; } \
  __kinspect_small_fn(__kH, H2, __kR, exp, __builtin_amdgcn_exp2f(x * 1.44269504f)) __kinspect_small_fn(__kH, H2, __kR, exp2, __builtin_amdgcn_exp2f(x)) \
  __kinspect_small_fn(__kH, H2, __kR, exp10, __builtin_amdgcn_exp2f(x * 3.32192809f)) __kinspect_small_fn(__kH, H2, __kR, log, __builtin_logf(x)) \
  __kinspect_small_fn(__kH, H2, __kR, log2, __builtin_log2f(x)) __kinspect_small_fn(__kH, H2, __kR, log10, __builtin_log10f(x)) \
  __kinspect_small_fn(__kH, H2, __kR, sin, sinf(x)) __kinspect_small_fn(__kH, H2, __kR, cos, cosf(x)) __kinspect_small_fn(__kH, H2, __kR, tanh, tanhf(x)) \
  __kinspect_small_fn(__kH, H2, __kR, rcp, __builtin_amdgcn_rcpf(x)) __kinspect_small_fn(__kH, H2, __kR, rsqrt, __builtin_amdgcn_rsqf(x)) \
  __kinspect_small_fn(__kH, H2, __kR, sqrt, __builtin_amdgcn_sqrtf(x)) __kinspect_small_fn(__kH, H2, __kR, floor, __builtin_floorf(x)) \
  __kinspect_small_fn(__kH, H2, __kR, ceil, __builtin_ceilf(x)) __kinspect_small_fn(__kH, H2, __kR, trunc, __builtin_truncf(x)) \
  __kinspect_small_fn(__kH, H2, __kR, rint, __builtin_rintf(x)) \
  __kinspect_small_atomic(__kH, H2)
