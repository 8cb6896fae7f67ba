// What half and bfloat16 share: a macro that defines a type, its pair and their arithmetic.
// H, H2: the types; R: the native element; C: what computes (R's own arithmetic or float).
#pragma once
#pragma clang system_header
#include <hip/kinspect/device.h>

typedef float __kinspect_f2 __attribute__((ext_vector_type(2)));
__kinspect_hd _Float16 __kinspect_fma(_Float16 a, _Float16 b, _Float16 c) { return __builtin_fmaf16(a, b, c); }
__kinspect_hd float __kinspect_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

#define __kinspect_small_type(H, H2, R) \
  typedef R __kinspect_##H##_v __attribute__((ext_vector_type(2))); \
  struct H { \
    union { R data; unsigned short __x; }; \
    H() = default; \
    __kinspect_m constexpr H(R v) : data(v) {} \
    template <class T, __kinspect_num(T)> __kinspect_m constexpr H(T v) : data((R)(float)v) {} \
    __kinspect_m constexpr H(H##_raw r) : __x(r.x) {} \
    __kinspect_m constexpr operator R() const { return data; } \
    __kinspect_m constexpr operator float() const { return (float)data; } \
    template <class T, typename std::enable_if<__kinspect_is_num<T>::value && !std::is_same<T, float>::value, int>::type = 0> \
    __kinspect_m constexpr explicit operator T() const { return (T)(float)data; } \
    __kinspect_m operator H##_raw() const { H##_raw r; r.x = __x; return r; } \
    __kinspect_m H& operator+=(const H& b); __kinspect_m H& operator-=(const H& b); \
    __kinspect_m H& operator*=(const H& b); __kinspect_m H& operator/=(const H& b); \
    __kinspect_m H& operator++() { return *this += H(1.f); } \
    __kinspect_m H& operator--() { return *this -= H(1.f); } \
    __kinspect_m H operator-() const { return H((R)-data); } \
    __kinspect_m H operator+() const { return *this; } \
  }; \
  struct alignas(4) H2 { \
    union { __kinspect_##H##_v data; struct { H x, y; }; }; \
    H2() = default; \
    __kinspect_m constexpr H2(const H& a, const H& b) : x(a), y(b) {} \
    __kinspect_m H2(const H& a) : x(a), y(a) {} \
    __kinspect_m H2(__kinspect_##H##_v v) : data(v) {} \
    __kinspect_m H2(H2##_raw r) : data(__builtin_bit_cast(__kinspect_##H##_v, r)) {} \
    __kinspect_m operator H2##_raw() const { return __builtin_bit_cast(H2##_raw, data); } \
    __kinspect_m operator __kinspect_##H##_v() const { return data; } \
    __kinspect_m H2 operator-() const { return H2(-x, -y); } \
    __kinspect_m H2& operator+=(const H2& b); __kinspect_m H2& operator-=(const H2& b); \
    __kinspect_m H2& operator*=(const H2& b); __kinspect_m H2& operator/=(const H2& b); \
  };

#define __kinspect_small_op(H, H2, R, C, CV, op, name) \
  __kinspect_hd H name(H a, H b) { return H((R)((C)a.data op (C)b.data)); } \
  __kinspect_hd H name##_rn(H a, H b) { return name(a, b); } \
  __kinspect_hd H name##_sat(H a, H b) { return __kinspect_sat(name(a, b)); } \
  __kinspect_hd H2 name##2(H2 a, H2 b) { \
    return H2(__builtin_convertvector(__builtin_convertvector(a.data, CV) op __builtin_convertvector(b.data, CV), __kinspect_##H##_v)); \
  } \
  __kinspect_hd H2 name##2_rn(H2 a, H2 b) { return name##2(a, b); } \
  __kinspect_hd H2 name##2_sat(H2 a, H2 b) { return H2(name##_sat(a.x, b.x), name##_sat(a.y, b.y)); } \
  __kinspect_hd H operator op(const H& a, const H& b) { return name(a, b); } \
  __kinspect_hd H2 operator op(const H2& a, const H2& b) { return name##2(a, b); } \
  __kinspect_m H& H::operator op##=(const H& b) { return *this = name(*this, b); } \
  __kinspect_m H2& H2::operator op##=(const H2& b) { return *this = name##2(*this, b); }
#define __kinspect_small_cmp(H, H2, op, n) \
  __kinspect_hd bool __h##n(H a, H b) { return (float)a op (float)b; } \
  __kinspect_hd bool __h##n##u(H a, H b) { return (float)a op (float)b || a.data != a.data || b.data != b.data; } \
  __kinspect_hd H2 __h##n##2(H2 a, H2 b) { return H2(H(a.x.data op b.x.data ? 1.f : 0.f), H(a.y.data op b.y.data ? 1.f : 0.f)); } \
  __kinspect_hd bool __hb##n##2(H2 a, H2 b) { return a.x.data op b.x.data && a.y.data op b.y.data; } \
  __kinspect_whd unsigned __h##n##2_mask(H2 a, H2 b) { return (a.x.data op b.x.data ? 0xffffu : 0u) | (a.y.data op b.y.data ? 0xffff0000u : 0u); } \
  __kinspect_hd bool operator op(const H& a, const H& b) { return a.data op b.data; } \
  __kinspect_hd bool operator op(const H2& a, const H2& b) { return __hb##n##2(a, b); }
#define __kinspect_small_fn(H, H2, R, name, e) \
  __kinspect_d H h##name(H h) { float x = (float)h.data; return H((R)(e)); } \
  __kinspect_d H2 h2##name(H2 v) { return H2(h##name(v.x), h##name(v.y)); }
// An addition by compare and swap on the word that holds it.
#define __kinspect_small_atomic(H, H2) \
  __kinspect_d H2 atomicAdd(H2* p, H2 v) { \
    unsigned old = __hip_atomic_load((unsigned*)p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT), seen; \
    do { \
      seen = old; \
      H2 n = __hadd2(__builtin_bit_cast(H2, seen), v); \
      old = atomicCAS((unsigned*)p, seen, __builtin_bit_cast(unsigned, n)); \
    } while (old != seen); \
    return __builtin_bit_cast(H2, old); \
  } \
  __kinspect_d H atomicAdd(H* p, H v) { \
    unsigned *w = (unsigned*)((size_t)p & ~(size_t)3), shift = ((size_t)p & 2) * 8, old = *w, seen; \
    do { \
      seen = old; \
      H h; h.__x = (unsigned short)(seen >> shift); \
      H n = __hadd(h, v); \
      old = atomicCAS(w, seen, (seen & ~(0xffffu << shift)) | (unsigned)n.__x << shift); \
    } while (old != seen); \
    H r; r.__x = (unsigned short)(old >> shift); return r; \
  }

#define __kinspect_small(H, H2, R, C, CV) \
  __kinspect_hd H __kinspect_sat(H a) { float x = (float)a; return H(x > 1.f ? 1.f : x > 0.f ? x : 0.f); } \
  __kinspect_small_op(H, H2, R, C, CV, +, __hadd) __kinspect_small_op(H, H2, R, C, CV, -, __hsub) \
  __kinspect_small_op(H, H2, R, C, CV, *, __hmul) __kinspect_small_op(H, H2, R, C, CV, /, __hdiv) \
  __kinspect_hd H2 __h2div(H2 a, H2 b) { return __hdiv2(a, b); } \
  __kinspect_small_cmp(H, H2, ==, eq) __kinspect_small_cmp(H, H2, !=, ne) __kinspect_small_cmp(H, H2, <, lt) \
  __kinspect_small_cmp(H, H2, <=, le) __kinspect_small_cmp(H, H2, >, gt) __kinspect_small_cmp(H, H2, >=, ge) \
  __kinspect_hd H __hfma(H a, H b, H c) { return H((R)__kinspect_fma((C)a.data, (C)b.data, (C)c.data)); } \
  __kinspect_hd H __hfma_sat(H a, H b, H c) { return __kinspect_sat(__hfma(a, b, c)); } \
  __kinspect_whd H __hfma_relu(H a, H b, H c) { H r = __hfma(a, b, c); return (float)r > 0.f ? r : H(0.f); } \
  __kinspect_hd H2 __hfma2(H2 a, H2 b, H2 c) { \
    return H2(__builtin_convertvector(__builtin_elementwise_fma(__builtin_convertvector(a.data, CV), \
      __builtin_convertvector(b.data, CV), __builtin_convertvector(c.data, CV)), __kinspect_##H##_v)); \
  } \
  __kinspect_hd H __hneg(H a) { return -a; } \
  __kinspect_hd H2 __hneg2(H2 a) { return -a; } \
  __kinspect_whd H __habs(H a) { a.__x &= 0x7fff; return a; } \
  __kinspect_whd H2 __habs2(H2 a) { return H2(__habs(a.x), __habs(a.y)); } \
  __kinspect_hd bool __hisnan(H a) { return a.data != a.data; } \
  __kinspect_hd int __hisinf(H a) { float x = (float)a; return x == __builtin_inff() ? 1 : x == -__builtin_inff() ? -1 : 0; } \
  __kinspect_hd H2 __hisnan2(H2 a) { return H2(H(__hisnan(a.x) ? 1.f : 0.f), H(__hisnan(a.y) ? 1.f : 0.f)); } \
  __kinspect_whd H __hmin(H a, H b) { return H((R)__builtin_fminf((float)a.data, (float)b.data)); } \
  __kinspect_whd H __hmax(H a, H b) { return H((R)__builtin_fmaxf((float)a.data, (float)b.data)); } \
  __kinspect_whd H __hmin_nan(H a, H b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b); } \
  __kinspect_whd H __hmax_nan(H a, H b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b); } \
  __kinspect_whd H2 __hmin2(H2 a, H2 b) { return H2(__hmin(a.x, b.x), __hmin(a.y, b.y)); } \
  __kinspect_whd H2 __hmax2(H2 a, H2 b) { return H2(__hmax(a.x, b.x), __hmax(a.y, b.y)); } \
  __kinspect_hd float __low2float(H2 a) { return (float)a.x.data; } \
  __kinspect_hd float __high2float(H2 a) { return (float)a.y.data; } \
  __kinspect_hd H2 __lowhigh2highlow(H2 a) { return H2(a.y, a.x); } \
  __kinspect_d H __ldg(const H* p) { return *p; } \
  __kinspect_d H2 __ldg(const H2* p) { return *p; } \
  __kinspect_small_fn(H, H2, R, exp, __builtin_amdgcn_exp2f(x * 1.44269504f)) __kinspect_small_fn(H, H2, R, exp2, __builtin_amdgcn_exp2f(x)) \
  __kinspect_small_fn(H, H2, R, exp10, __builtin_amdgcn_exp2f(x * 3.32192809f)) __kinspect_small_fn(H, H2, R, log, __builtin_logf(x)) \
  __kinspect_small_fn(H, H2, R, log2, __builtin_log2f(x)) __kinspect_small_fn(H, H2, R, log10, __builtin_log10f(x)) \
  __kinspect_small_fn(H, H2, R, sin, sinf(x)) __kinspect_small_fn(H, H2, R, cos, cosf(x)) __kinspect_small_fn(H, H2, R, tanh, tanhf(x)) \
  __kinspect_small_fn(H, H2, R, rcp, __builtin_amdgcn_rcpf(x)) __kinspect_small_fn(H, H2, R, rsqrt, __builtin_amdgcn_rsqf(x)) \
  __kinspect_small_fn(H, H2, R, sqrt, __builtin_amdgcn_sqrtf(x)) __kinspect_small_fn(H, H2, R, floor, __builtin_floorf(x)) \
  __kinspect_small_fn(H, H2, R, ceil, __builtin_ceilf(x)) __kinspect_small_fn(H, H2, R, trunc, __builtin_truncf(x)) \
  __kinspect_small_fn(H, H2, R, rint, __builtin_rintf(x)) \
  __kinspect_small_atomic(H, H2)
