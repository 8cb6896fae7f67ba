// Math for device code: what LLVM lowers for AMD GPUs by itself, the rest as short inline code (or __ocml_* calls).
// Units in the last place (ulp) of the inline code are stated where it stands; it has no path for huge sin/cos arguments.
#pragma once
#pragma clang system_header
#include <hip/kinspect/define.h>

#define __kinspect_inf (__builtin_inff())
#define __kinspect_nan (__builtin_nanf(""))
__kinspect_d float __kinspect_poly(float, float a) { return a; }
__kinspect_d double __kinspect_poly(double, double a) { return a; }
template <class... __kC> __kinspect_d float __kinspect_poly(float x, float a, __kC... c) {
  return __builtin_fmaf(x, __kinspect_poly(x, (float)c...), a);
}
template <class... __kC> __kinspect_d double __kinspect_poly(double x, double a, __kC... c) {
  return __builtin_fma(x, __kinspect_poly(x, (double)c...), a);
}

// Says that a call is of this file's code, which has other instructions than ROCm's.
#if defined(KINSPECT_NAMES_OWN) && !defined(KINSPECT_DEVICE_LIBS)
#define __kinspect_own(name) __attribute__((diagnose_if(1, "kinspect's own " #name, "warning")))
#else
#define __kinspect_own(name)
#endif

// One-argument functions: float and double, NAMEf, and double for integers. OF, OD: which are this file's own code.
#define __kinspect_of1(name, __kF, __kD, __kOF, __kOD) \
  __kOF __kinspect_d float name##f(float x) { return __kF; } \
  __kOF __kinspect_d float name(float x) { return __kF; } \
  __kOD __kinspect_d double name(double x) { return __kD; } \
  template <class __kT, __kinspect_int(__kT)> __kOD __kinspect_d double name(__kT x) { return name((double)x); }
#define __kinspect_math1(name, __kF, __kD) __kinspect_of1(name, __kF, __kD, , )
#define __kinspect_own1(name, f, d) __kinspect_of1(name, f, d, __kinspect_own(name), __kinspect_own(name))
#define __kinspect_builtin1(name) __kinspect_math1(name, __builtin_##name##f(x), __builtin_##name(x))
__kinspect_builtin1(sqrt) __kinspect_builtin1(fabs) __kinspect_builtin1(floor) __kinspect_builtin1(ceil)
__kinspect_builtin1(trunc) __kinspect_builtin1(rint) __kinspect_builtin1(nearbyint) __kinspect_builtin1(round)
__kinspect_builtin1(roundeven)

#ifdef KINSPECT_DEVICE_LIBS
#define __kinspect_ocml1(name, on, a) \
  extern "C" __device__ __attribute__((a)) float __ocml_##on##_f32(float); \
  extern "C" __device__ __attribute__((a)) double __ocml_##on##_f64(double);
#define __kinspect_ocml2(on) \
  extern "C" __device__ __attribute__((const)) float __ocml_##on##_f32(float, float); \
  extern "C" __device__ __attribute__((const)) double __ocml_##on##_f64(double, double);
#define __kinspect_lib1(name, f, d) \
  __kinspect_ocml1(name, name, const) __kinspect_math1(name, __ocml_##name##_f32(x), __ocml_##name##_f64(x))
#define __kinspect_lib1d(name, f, d) \
  extern "C" __device__ __attribute__((const)) double __ocml_##name##_f64(double); \
  __kinspect_math1(name, f, __ocml_##name##_f64(x))
#define __kinspect_body(...)
#else
#define __kinspect_lib1(name, f, d) __kinspect_own1(name, f, d)
#define __kinspect_lib1d(name, f, d) __kinspect_of1(name, f, d, , __kinspect_own(name))
#define __kinspect_body(...) __VA_ARGS__
#endif

// Doubles: exponentials and logarithms, about 2 ulp.
__kinspect_body(
__kinspect_d double __kinspect_exp_r(double r, double n) {
  double p = __kinspect_poly(r, 1., 1., 0.5, 1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040, 1. / 40320,
                             1. / 362880, 1. / 3628800, 1. / 39916800, 1. / 479001600);
  return __builtin_ldexp(p, (int)n);
}
__kinspect_d double __kinspect_exp(double x) {
  double n = __builtin_rint(x * 1.44269504088896338700);
  double r = __builtin_fma(-n, 1.90821492927058770002e-10, __builtin_fma(-n, 6.93147180369123816490e-01, x));
  double y = __kinspect_exp_r(r, n);
  y = x > 709.782712893384 ? (double)__kinspect_inf : y;
  return x < -745.2 ? 0. : y;
}
__kinspect_d double __kinspect_exp2(double x) {
  double n = __builtin_rint(x);
  double y = __kinspect_exp_r((x - n) * 0.693147180559945309, n);
  y = x >= 1024. ? (double)__kinspect_inf : y;
  return x < -1075. ? 0. : y;
}
__kinspect_d double __kinspect_exp10(double x) {
  double n = __builtin_rint(x * 3.32192809488736234787);
  double r = __builtin_fma(-n, -2.8037281277851704e-18, __builtin_fma(-n, 0.30102999566398119521, x));
  double y = __kinspect_exp_r(r * 2.30258509299404568402, n);
  y = x > 308.2547155599167 ? (double)__kinspect_inf : y;
  return x < -323.62 ? 0. : y;
}
// log of a mantissa around 1
__kinspect_d double __kinspect_log_m(double m) {
  double f = (m - 1.) / (m + 1.), s = f * f;
  double p = __kinspect_poly(s, 1. / 3, 1. / 5, 1. / 7, 1. / 9, 1. / 11, 1. / 13, 1. / 15, 1. / 17, 1. / 19, 1. / 21);
  return 2. * __builtin_fma(f * s, p, f);
}
__kinspect_d double __kinspect_log(double x) {
  int e; double m = __builtin_frexp(x, &e);
  bool low = m < 0.70710678118654752440; m = low ? m + m : m; e -= low;
  double y = __builtin_fma((double)e, 6.93147180369123816490e-01,
                           __builtin_fma((double)e, 1.90821492927058770002e-10, __kinspect_log_m(m)));
  y = x == (double)__kinspect_inf ? x : y;
  y = x == 0. ? -(double)__kinspect_inf : y;
  return x < 0. ? (double)__kinspect_nan : y;
})
__kinspect_lib1d(exp, __builtin_expf(x), __kinspect_exp(x))
__kinspect_lib1d(exp2, __builtin_exp2f(x), __kinspect_exp2(x))
__kinspect_lib1d(log, __builtin_logf(x), __kinspect_log(x))
__kinspect_lib1d(log2, __builtin_log2f(x), __kinspect_log(x) * 1.44269504088896338700)
__kinspect_lib1d(log10, __builtin_log10f(x), __kinspect_log(x) * 0.43429448190325182765)
#if __has_builtin(__builtin_exp10f)
__kinspect_lib1d(exp10, __builtin_exp10f(x), __kinspect_exp10(x))
#else
__kinspect_lib1d(exp10, __builtin_exp2f(x * 3.32192809f), __kinspect_exp10(x))
#endif

// sin, cos: float 2 ulp for |x| < 1e5, double 2 ulp for |x| < 1e9; tan 4 ulp.
__kinspect_body(
__kinspect_d float __kinspect_reduce(float x, int* q) {
  float n = __builtin_rintf(x * 0.636619772f);
  *q = (int)n;
  float r = __builtin_fmaf(-n, 1.57079637f, x);
  r = __builtin_fmaf(-n, -4.37113883e-8f, r);
  return __builtin_fmaf(-n, -1.71512489e-15f, r);
}
__kinspect_d double __kinspect_reduce(double x, int* q) {
  double n = __builtin_rint(x * 0.63661977236758134308);
  *q = (int)n;
  double r = __builtin_fma(-n, 1.57079632679489661923, x);
  r = __builtin_fma(-n, 6.12323399573676588613e-17, r);
  return __builtin_fma(-n, -1.49738490485916983e-33, r);
}
__kinspect_d float __kinspect_sin_r(float r) {
  float z = r * r;
  return __builtin_fmaf(r * z, __kinspect_poly(z, -0.166666647f, 0.00833274827f, -0.000195878909f), r);
}
__kinspect_d float __kinspect_cos_r(float r) {
  float z = r * r;
  return __kinspect_poly(z, 1.f, -0.5f, 0.0416666647f, -0.0013888303f, 2.45479421e-5f);
}
__kinspect_d double __kinspect_sin_r(double r) {
  double z = r * r;
  return __builtin_fma(r * z, __kinspect_poly(z, -1. / 6, 0.00833333333333333149, -0.000198412698412650649,
    2.75573192193391665e-6, -2.50521062324475773e-8, 1.60585316189861468e-10, -7.58669711770691798e-13), r);
}
__kinspect_d double __kinspect_cos_r(double r) {
  double z = r * r;
  return __kinspect_poly(z, 1., -0.5, 0.0416666666666666667, -0.00138888888888888879, 0.0000248015873015846464,
    -2.75573192214028244e-7, 2.08767557910804238e-9, -1.14704608876099591e-11, 4.74587190204329154e-14);
}
template <class __kT> __kinspect_d __kT __kinspect_sincos(__kT x, int add) {
  int q; __kT r = __kinspect_reduce(x, &q); q += add;
  __kT s = __kinspect_sin_r(r), c = __kinspect_cos_r(r), y = q & 1 ? c : s;
  return q & 2 ? -y : y;
}
template <class __kT> __kinspect_d __kT __kinspect_tan(__kT x) {
  int q; __kT r = __kinspect_reduce(x, &q);
  __kT s = __kinspect_sin_r(r), c = __kinspect_cos_r(r);
  return q & 1 ? -c / s : s / c;
})
__kinspect_lib1(sin, __kinspect_sincos(x, 0), __kinspect_sincos(x, 0))
__kinspect_lib1(cos, __kinspect_sincos(x, 1), __kinspect_sincos(x, 1))
__kinspect_lib1(tan, __kinspect_tan(x), __kinspect_tan(x))

// Inverse functions: 3 ulp.
__kinspect_body(
__kinspect_d float __kinspect_atan_r(float r) {
  return r * __kinspect_poly(r * r, 0.999999981f, -0.333327857f, 0.199740795f, -0.138484589f, 0.0797618795f);
}
__kinspect_d double __kinspect_atan_r(double r) {
  return r * __kinspect_poly(r * r, 0.999999999999999965, -0.333333333333284367, 0.199999999988547188,
    -0.142857141809449868, 0.111111061791768364, -0.0909077304509280572, 0.0768995307773181261,
    -0.0664023029426420487, 0.0568833019887543225, -0.0434799724509890152, 0.0211346999514978728);
}
__kinspect_d float __kinspect_asin_r(float r) {
  return r * __kinspect_poly(r * r, 0.999999996f, 0.16666782f, 0.0749469669f, 0.0455206356f, 0.0239939997f, 0.0424173738f);
}
__kinspect_d double __kinspect_asin_r(double r) {
  return r * __kinspect_poly(r * r, 1., 0.166666666666667955, 0.074999999999666106, 0.0446428571768632193,
    0.0303819426423271861, 0.0223722161060721464, 0.0173516006253434348, 0.0139808829921710097, 0.0113988504084407558,
    0.0107786751209959925, 0.00371805774832505391, 0.0216680588690563586, -0.0209306583151824497, 0.03257934796692842);
}
template <class __kT> __kinspect_d __kT __kinspect_atan(__kT x) {
  __kT a = fabs(x); bool big = a > __kT(1);
  a = big ? __kT(1) / a : a;
  bool mid = a > __kT(0.41421356237309504880);
  __kT y = __kinspect_atan_r(mid ? (a - __kT(1)) / (a + __kT(1)) : a);
  y = mid ? y + __kT(0.78539816339744830962) : y;
  y = big ? __kT(1.57079632679489661923) - y : y;
  return x < 0 ? -y : y;
}
template <class __kT> __kinspect_d __kT __kinspect_asin(__kT x) {
  __kT a = fabs(x); bool big = a > __kT(0.5);
  __kT y = __kinspect_asin_r(big ? sqrt((__kT(1) - a) * __kT(0.5)) : a);
  y = big ? __kT(1.57079632679489661923) - (y + y) : y;
  return x < 0 ? -y : y;
}
template <class __kT> __kinspect_d __kT __kinspect_acos(__kT x) {
  __kT a = fabs(x); bool big = a > __kT(0.5);
  __kT y = __kinspect_asin_r(big ? sqrt((__kT(1) - a) * __kT(0.5)) : a), b = x < 0 ? __kT(3.14159265358979323846) - (y + y) : y + y;
  return big ? b : __kT(1.57079632679489661923) - (x < 0 ? -y : y);
}
template <class __kT> __kinspect_d __kT __kinspect_atan2(__kT y, __kT x) {
  __kT a = fabs(x), b = fabs(y), lo = b < a ? b : a, hi = b < a ? a : b;
  __kT q = lo == hi ? __kT(lo == 0 ? 0 : 1) : lo / hi;
  __kT r = __kinspect_atan(q);
  r = b > a ? __kT(1.57079632679489661923) - r : r;
  r = __builtin_signbit(x) ? __kT(3.14159265358979323846) - r : r;
  r = x != x || y != y ? __kT(__kinspect_nan) : r;
  return __builtin_signbit(y) ? -r : r;
})
__kinspect_lib1(atan, __kinspect_atan(x), __kinspect_atan(x))
__kinspect_lib1(asin, __kinspect_asin(x), __kinspect_asin(x))
__kinspect_lib1(acos, __kinspect_acos(x), __kinspect_acos(x))

// Hyperbolic functions and erf: float 4 ulp, double 6 ulp; erfc keeps its relative accuracy (float 2e-6, double 1e-14).
__kinspect_body(
__kinspect_d float __kinspect_tanh(float x) {
  float a = __builtin_fabsf(x), z = x * x;
  float s = a * __kinspect_poly(z, 0.999999996f, -0.333332599f, 0.133311141f, -0.0537201077f, 0.0205881915f, -0.00565713518f);
  float l = 1.f - 2.f / (__builtin_expf(a + a) + 1.f);
  return __builtin_copysignf(a < 0.625f ? s : l, x);
}
__kinspect_d double __kinspect_tanh(double x) {
  double a = __builtin_fabs(x), z = x * x;
  double s = a * __kinspect_poly(z, 1., -0.333333333333330806, 0.133333333332928152, -0.0539682539428703202,
    0.0218694877188457067, -0.00886322013425050199, 0.00359194650201305721, -0.00145445091763445516,
    0.000583179240000755818, -0.000217614421564223756, 0.0000566350091591118164);
  double l = 1. - 2. / (exp(a + a) + 1.);
  return __builtin_copysign(a < 0.5 ? s : l, x);
}
template <class __kT> __kinspect_d __kT __kinspect_expm1(__kT x) {
  __kT e = exp(x), y = __kinspect_tanh(x * __kT(0.5)) * (e + __kT(1));
  return fabs(x) > __kT(2) ? e - __kT(1) : y;
}
template <class __kT> __kinspect_d __kT __kinspect_log1p(__kT x) {
  __kT u = __kT(1) + x, y = log(u) * (x / (u - __kT(1)));
  y = u == __kT(1) ? x : y;
  return u == __kT(__kinspect_inf) ? u : y;
}
template <class __kT> __kinspect_d __kT __kinspect_sinh(__kT x) {
  __kT a = fabs(x), h = exp(a * __kT(0.5)), e = __kT(0.5) * h * h, t = __kinspect_expm1(a);
  __kT y = a > __kT(1) ? e - __kT(0.25) / e : __kT(0.5) * (t + t / (t + __kT(1)));
  return x < 0 ? -y : y;
}
template <class __kT> __kinspect_d __kT __kinspect_cosh(__kT x) {
  __kT h = exp(fabs(x) * __kT(0.5)), e = __kT(0.5) * h * h;
  return e + __kT(0.25) / e;
}
template <class __kT> __kinspect_d __kT __kinspect_asinh(__kT x) {
  __kT a = fabs(x), z = a * a;
  __kT y = a > __kT(1e9) ? log(a) + __kT(0.69314718055994530942) : __kinspect_log1p(a + z / (__kT(1) + sqrt(z + __kT(1))));
  return x < 0 ? -y : y;
}
template <class __kT> __kinspect_d __kT __kinspect_acosh(__kT x) {
  __kT t = x - __kT(1);
  return x > __kT(1e9) ? log(x) + __kT(0.69314718055994530942) : __kinspect_log1p(t + sqrt(t * (x + __kT(1))));
}
template <class __kT> __kinspect_d __kT __kinspect_atanh(__kT x) {
  __kT a = fabs(x), y = __kT(0.5) * __kinspect_log1p(__kT(2) * a / (__kT(1) - a));
  return x < 0 ? -y : y;
}
__kinspect_d float __kinspect_erfcx(float t) {
  return t * __kinspect_poly(t, 0.282057643f, 0.283017537f, 0.237074077f, 0.233993876f, -0.12596697f, 0.478536082f,
    -0.74542937f, 0.490080582f, -0.151080233f, 0.0177167707f);
}
__kinspect_d double __kinspect_erfcx(double t) {
  return t * __kinspect_poly(t, 0.282094791774990973, 0.282094791568094397, 0.246832955750882398, 0.176308807334574813,
    0.083756291355207249, -0.00454770052113696868, -0.055229136125201258, -0.0658967576207572083, 0.0748446261525005746,
    -0.338765398518306726, 1.56814856075760289, -4.68346217831699395, 11.330314019659236, -21.9239337248812623,
    32.4040950272331413, -35.967007782137121, 29.8093797728232727, -18.2494547456701371, 8.04419246151698682,
    -2.42317354846108076, 0.447775632068642929, -0.0383667657431363676);
}
__kinspect_d float __kinspect_erf_s(float x) {
  return x * __kinspect_poly(x * x, 1.12837917f, -0.376126267f, 0.112835947f, -0.026854212f, 0.00518908742f,
    -0.000801686429f, 7.87587506e-5f);
}
__kinspect_d double __kinspect_erf_s(double x) {
  return x * __kinspect_poly(x * x, 1.12837916709551257, -0.376126389031837481, 0.112837916709548787,
    -0.0268661706450767932, 0.00522397762481801447, -0.000854832698083378991, 0.000120553311116427109,
    -0.0000149255952668311816, 1.6461000484121368e-6, -1.6350312701054695e-7, 1.46597752740474358e-8,
    -1.13728488566917e-9, 5.9571761477489114e-11);
}
// erfc of x >= 0; exp(-x*x) with the square's rounding error put back
template <class __kT> __kinspect_d __kT __kinspect_erfc_p(__kT x) {
  __kT z = x * x, d = __builtin_elementwise_fma(x, x, -z);
  return x > __kT(28) ? __kT(0) : exp(-z) * (__kT(1) - d) * __kinspect_erfcx(__kT(2) / (__kT(2) + x));
}
__kinspect_d float __kinspect_erf(float x) {
  float a = __builtin_fabsf(x), m = a < 4.f ? a : 4.f;
  float l = 1.f - __builtin_exp2f(__kinspect_poly(m, 0.000461861577f, -1.63058217f, -0.911532311f, -0.15881199f,
    0.0381176419f, -0.00686664597f, 0.000861008517f, -6.64477098e-5f, 2.36191023e-6f));
  float y = a < 1.f ? __kinspect_erf_s(a) : l;
  return __builtin_copysignf(x != x ? x : y, x);
}
__kinspect_d double __kinspect_erf(double x) {
  double a = __builtin_fabs(x), y = a < 1. ? __kinspect_erf_s(a) : 1. - __kinspect_erfc_p(a);
  return __builtin_copysign(y, x);
}
template <class __kT> __kinspect_d __kT __kinspect_erfc(__kT x) {
  __kT a = fabs(x), p = __kinspect_erfc_p(a);
  __kT s = __kT(1) - __kinspect_erf_s(x);
  return a < __kT(0.5) ? s : x < 0 ? __kT(2) - p : p;
})
__kinspect_lib1(tanh, __kinspect_tanh(x), __kinspect_tanh(x))
__kinspect_lib1(expm1, __kinspect_expm1(x), __kinspect_expm1(x))
__kinspect_lib1(log1p, __kinspect_log1p(x), __kinspect_log1p(x))
__kinspect_lib1(sinh, __kinspect_sinh(x), __kinspect_sinh(x))
__kinspect_lib1(cosh, __kinspect_cosh(x), __kinspect_cosh(x))
__kinspect_lib1(asinh, __kinspect_asinh(x), __kinspect_asinh(x))
__kinspect_lib1(acosh, __kinspect_acosh(x), __kinspect_acosh(x))
__kinspect_lib1(atanh, __kinspect_atanh(x), __kinspect_atanh(x))
__kinspect_lib1(erf, __kinspect_erf(x), __kinspect_erf(x))
__kinspect_lib1(erfc, __kinspect_erfc(x), __kinspect_erfc(x))

// pow: relative error about (2 + |y|/2) ulp. cbrt 2 ulp. tgamma, lgamma by Lanczos' series in double: 1e-13.
__kinspect_body(
__kinspect_d float __kinspect_log2_m(float m) { return __builtin_log2f(m); }
__kinspect_d double __kinspect_log2_m(double m) {
  double y = __kinspect_log_m(m) * 1.44269504088896338700;
  y = m == (double)__kinspect_inf ? m : y;
  return m == 0. ? -(double)__kinspect_inf : y;
}
__kinspect_d float __kinspect_exp2_r(float x) { return __builtin_exp2f(x); }
__kinspect_d double __kinspect_exp2_r(double x) { return __kinspect_exp2(x); }
template <class __kT> __kinspect_d __kT __kinspect_pow(__kT x, __kT y) {
  int e; __kT a = fabs(x), m;
  if constexpr (sizeof(__kT) == 4) m = __builtin_frexpf(a, &e); else m = __builtin_frexp(a, &e);
  bool low = m < __kT(0.70710678118654752440); m = low ? m + m : m; e -= low;
  __kT l = __kinspect_log2_m(m), t = y * (l + __kT(e));
  bool in = fabs(t) < __kT(1100);
  __kT n = in ? __builtin_elementwise_rint(t) : __kT(0);
  __kT r = in ? __builtin_elementwise_fma(y, l, __builtin_elementwise_fma(y, __kT(e), -n)) : t;
  __kT p = __kinspect_exp2_r(r);
  if constexpr (sizeof(__kT) == 4) p = __builtin_ldexpf(p, (int)n); else p = __builtin_ldexp(p, (int)n);
  __kT h = y * __kT(0.5);
  bool whole = __builtin_elementwise_trunc(y) == y, odd = whole && __builtin_elementwise_trunc(h) != h;
  p = x < 0 && !whole ? __kT(__kinspect_nan) : p;
  p = __builtin_signbit(x) && odd ? -p : p;
  return x == __kT(1) || y == __kT(0) ? __kT(1) : p;
}
template <class __kT> __kinspect_d __kT __kinspect_hypot(__kT x, __kT y) {
  __kT a = fabs(x), b = fabs(y), hi = a > b ? a : b, lo = a > b ? b : a, q = hi == 0 ? __kT(0) : lo / hi;
  return hi * sqrt(__builtin_elementwise_fma(q, q, __kT(1)));
}
template <class __kT> __kinspect_d __kT __kinspect_cbrt(__kT x) {
  __kT a = fabs(x), y = __kinspect_exp2_r(__kT(log2(a)) * __kT(0.33333333333333333333));
  y = y - (y - a / (y * y)) * __kT(0.33333333333333333333);
  return a == 0 || a == __kT(__kinspect_inf) ? x : x < 0 ? -y : y;
}
__kinspect_d double __kinspect_lanczos(double x) {
  double s = 0.99999999999980993;
  s += 676.5203681218851 / (x + 1.); s += -1259.1392167224028 / (x + 2.); s += 771.32342877765313 / (x + 3.);
  s += -176.61502916214059 / (x + 4.); s += 12.507343278686905 / (x + 5.); s += -0.13857109526572012 / (x + 6.);
  s += 9.9843695780195716e-6 / (x + 7.); s += 1.5056327351493116e-7 / (x + 8.);
  return s;
}
__kinspect_d double __kinspect_tgamma(double x) {
  double a = x < 0.5 ? -x : x - 1., t = a + 7.5, h = __kinspect_pow(t, 0.5 * (a + 0.5));
  double g = 2.5066282746310002 * h * (exp(-t) * h) * __kinspect_lanczos(a);
  return x < 0.5 ? 3.14159265358979323846 / (sin(3.14159265358979323846 * x) * g) : g;
}
__kinspect_d double __kinspect_lgamma(double x) {
  double a = x < 0.5 ? -x : x - 1., t = a + 7.5;
  double g = 0.91893853320467274178 + (a + 0.5) * log(t) - t + log(__kinspect_lanczos(a));
  return x < 0.5 ? log(3.14159265358979323846 / fabs(sin(3.14159265358979323846 * x))) - g : g;
})
__kinspect_lib1(cbrt, __kinspect_cbrt(x), __kinspect_cbrt(x))
__kinspect_lib1(tgamma, (float)__kinspect_tgamma(x), __kinspect_tgamma(x))
__kinspect_lib1(lgamma, (float)__kinspect_lgamma(x), __kinspect_lgamma(x))

// Two-argument functions.
#define __kinspect_of2(name, __kF, __kD, __kO) \
  __kO __kinspect_d float name##f(float x, float y) { return __kF; } \
  __kO __kinspect_d float name(float x, float y) { return __kF; } \
  __kO __kinspect_d double name(double x, double y) { return __kD; } \
  template <class __kT, class __kU, typename std::enable_if<__kinspect_is_num<__kT>::value && __kinspect_is_num<__kU>::value && \
    !(std::is_same<__kT, __kU>::value && __kinspect_is_float<__kT>::value), int>::type = 0> \
  __kO __kinspect_d double name(__kT x, __kU y) { return name((double)x, (double)y); }
#define __kinspect_math2(name, __kF, __kD) __kinspect_of2(name, __kF, __kD, )
#define __kinspect_own2(name, f, d) __kinspect_of2(name, f, d, __kinspect_own(name))
#ifdef KINSPECT_DEVICE_LIBS
#define __kinspect_lib2(name, f, d) \
  __kinspect_ocml2(name) __kinspect_math2(name, __ocml_##name##_f32(x, y), __ocml_##name##_f64(x, y))
#else
#define __kinspect_lib2(name, f, d) __kinspect_own2(name, f, d)
#endif
__kinspect_lib2(pow, __kinspect_pow(x, y), __kinspect_pow(x, y))
__kinspect_lib2(atan2, __kinspect_atan2(x, y), __kinspect_atan2(x, y))
__kinspect_lib2(hypot, __kinspect_hypot(x, y), __kinspect_hypot(x, y))
__kinspect_d float __kinspect_fmod(float x, float y) {
  float a = __builtin_fabsf(x), b = __builtin_fabsf(y), r = __builtin_fmaf(-__builtin_truncf(a / b), b, a);
  r = r < 0.f ? r + b : r; r = r >= b ? r - b : r;
  return __builtin_copysignf(b == __kinspect_inf ? a : r, x);
}
__kinspect_d double __kinspect_fmod(double x, double y) {
  double a = __builtin_fabs(x), b = __builtin_fabs(y), r = __builtin_fma(-__builtin_trunc(a / b), b, a);
  r = r < 0. ? r + b : r; r = r >= b ? r - b : r;
  return __builtin_copysign(b == (double)__kinspect_inf ? a : r, x);
}
// fmod, remainder: exact while the quotient stays below 2^23 (float), 2^52 (double).
__kinspect_own2(fmod, __kinspect_fmod(x, y), __kinspect_fmod(x, y))
__kinspect_own(remquo) __kinspect_d float remquof(float x, float y, int* q) { float n = __builtin_rintf(x / y); *q = (int)n; return __builtin_fmaf(-n, y, x); }
__kinspect_own(remquo) __kinspect_d float remquo(float x, float y, int* q) { return remquof(x, y, q); }
__kinspect_own(remquo) __kinspect_d double remquo(double x, double y, int* q) { double n = __builtin_rint(x / y); *q = (int)n; return __builtin_fma(-n, y, x); }
__kinspect_own2(remainder, __builtin_fmaf(-__builtin_rintf(x / y), y, x), __builtin_fma(-__builtin_rint(x / y), y, x))
__kinspect_math2(fmin, __builtin_fminf(x, y), __builtin_fmin(x, y))
__kinspect_math2(fmax, __builtin_fmaxf(x, y), __builtin_fmax(x, y))
__kinspect_math2(copysign, __builtin_copysignf(x, y), __builtin_copysign(x, y))
__kinspect_math2(fdim, x > y ? x - y : 0.f, x > y ? x - y : 0.)
#define __kinspect_step(__kF, __kI, __kB) \
  __kI i = __builtin_bit_cast(__kI, x); \
  __kI up = i + ((x < y) == (x > 0) ? 1 : -1); \
  __kF r = x == 0 ? __kB(__builtin_bit_cast(__kF, (__kI)1), y) : __builtin_bit_cast(__kF, up); \
  return x == y ? y : x != x || y != y ? __kF(__kinspect_nan) : r;
__kinspect_d float __kinspect_next(float x, float y) { __kinspect_step(float, int, __builtin_copysignf) }
__kinspect_d double __kinspect_next(double x, double y) { __kinspect_step(double, long long, __builtin_copysign) }
__kinspect_math2(nextafter, __kinspect_next(x, y), __kinspect_next(x, y))
template <class = void> __kinspect_own(pow) __kinspect_d float powif(float x, int n) { return powf(x, (float)n); }
template <class = void> __kinspect_own(pow) __kinspect_d double powi(double x, int n) { return pow(x, (double)n); }

__kinspect_d float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
__kinspect_d float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
__kinspect_d double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
#define __kinspect_scale(name, __kI) \
  __kinspect_d float name##f(float x, __kI n) { return __builtin_ldexpf(x, (int)n); } \
  __kinspect_d float name(float x, __kI n) { return __builtin_ldexpf(x, (int)n); } \
  __kinspect_d double name(double x, __kI n) { return __builtin_ldexp(x, (int)n); }
__kinspect_scale(ldexp, int) __kinspect_scale(scalbn, int) __kinspect_scale(scalbln, long)
__kinspect_d float frexpf(float x, int* e) { return __builtin_frexpf(x, e); }
__kinspect_d float frexp(float x, int* e) { return __builtin_frexpf(x, e); }
__kinspect_d double frexp(double x, int* e) { return __builtin_frexp(x, e); }
__kinspect_d float modff(float x, float* i) { *i = __builtin_truncf(x); return __builtin_copysignf(x - *i, x); }
__kinspect_d float modf(float x, float* i) { return modff(x, i); }
__kinspect_d double modf(double x, double* i) { *i = __builtin_trunc(x); return __builtin_copysign(x - *i, x); }
#define __kinspect_whole(name, __kR, __kB) \
  __kinspect_d __kR name##f(float x) { return (__kR)__kB##f(x); } \
  __kinspect_d __kR name(float x) { return (__kR)__kB##f(x); } \
  __kinspect_d __kR name(double x) { return (__kR)__kB(x); }
__kinspect_whole(lrint, long, __builtin_rint) __kinspect_whole(llrint, long long, __builtin_rint)
__kinspect_whole(lround, long, __builtin_round) __kinspect_whole(llround, long long, __builtin_round)
__kinspect_d int ilogbf(float x) { int e; __builtin_frexpf(x, &e); return e - 1; }
__kinspect_d int ilogb(float x) { return ilogbf(x); }
__kinspect_d int ilogb(double x) { int e; __builtin_frexp(x, &e); return e - 1; }
__kinspect_math1(logb, (float)ilogbf(x), (double)ilogb(x))
__kinspect_own(sincos) __kinspect_d void sincosf(float x, float* s, float* c) { *s = sinf(x); *c = cosf(x); }
__kinspect_own(sincos) __kinspect_d void sincos(float x, float* s, float* c) { *s = sinf(x); *c = cosf(x); }
__kinspect_own(sincos) __kinspect_d void sincos(double x, double* s, double* c) { *s = sin(x); *c = cos(x); }
#define __kinspect_isx(name) \
  __kinspect_d bool name(float x) { return __builtin_##name(x); } \
  __kinspect_d bool name(double x) { return __builtin_##name(x); } \
  template <class __kT, __kinspect_int(__kT)> __kinspect_d bool name(__kT x) { return __builtin_##name((double)x); }
#undef isnan
#undef isinf
#undef isfinite
#undef isnormal
#undef signbit
__kinspect_isx(isnan) __kinspect_isx(isinf) __kinspect_isx(isfinite) __kinspect_isx(isnormal) __kinspect_isx(signbit)
__kinspect_d int __isnanf(float x) { return __builtin_isnan(x); }
__kinspect_d int __isnan(double x) { return __builtin_isnan(x); }
__kinspect_d int __isinff(float x) { return __builtin_isinf(x); }
__kinspect_d int __isinf(double x) { return __builtin_isinf(x); }
__kinspect_d int __finitef(float x) { return __builtin_isfinite(x); }
__kinspect_d int __finite(double x) { return __builtin_isfinite(x); }
__kinspect_d int __signbitf(float x) { return __builtin_signbit(x); }
__kinspect_d int abs(int x) { return x < 0 ? -x : x; }
__kinspect_d long abs(long x) { return x < 0 ? -x : x; }
__kinspect_d long long abs(long long x) { return x < 0 ? -x : x; }
__kinspect_d float abs(float x) { return __builtin_fabsf(x); }
__kinspect_d double abs(double x) { return __builtin_fabs(x); }
__kinspect_d long labs(long x) { return x < 0 ? -x : x; }
__kinspect_d long long llabs(long long x) { return x < 0 ? -x : x; }
__kinspect_d double nan(const char*) { return __builtin_nan(""); }
__kinspect_d float nanf(const char*) { return __builtin_nanf(""); }

// What the C++ library has in namespace std too; seen there before its own, host-only, functions.
namespace std {
#define __kinspect_use(name) using ::name; using ::name##f;
__kinspect_use(sqrt) __kinspect_use(fabs) __kinspect_use(floor) __kinspect_use(ceil) __kinspect_use(trunc)
__kinspect_use(rint) __kinspect_use(nearbyint) __kinspect_use(round) __kinspect_use(exp) __kinspect_use(exp2)
__kinspect_use(log) __kinspect_use(log2) __kinspect_use(log10) __kinspect_use(sin) __kinspect_use(cos)
__kinspect_use(tan) __kinspect_use(asin) __kinspect_use(acos) __kinspect_use(atan) __kinspect_use(atan2)
__kinspect_use(sinh) __kinspect_use(cosh) __kinspect_use(tanh) __kinspect_use(asinh) __kinspect_use(acosh)
__kinspect_use(atanh) __kinspect_use(erf) __kinspect_use(erfc) __kinspect_use(tgamma) __kinspect_use(lgamma)
__kinspect_use(pow) __kinspect_use(cbrt) __kinspect_use(hypot) __kinspect_use(expm1) __kinspect_use(log1p)
__kinspect_use(fmod) __kinspect_use(remainder) __kinspect_use(remquo) __kinspect_use(fmin) __kinspect_use(fmax) __kinspect_use(copysign)
__kinspect_use(fdim) __kinspect_use(nextafter) __kinspect_use(fma) __kinspect_use(ldexp) __kinspect_use(scalbn)
__kinspect_use(scalbln) __kinspect_use(frexp) __kinspect_use(modf) __kinspect_use(lrint) __kinspect_use(llrint)
__kinspect_use(lround) __kinspect_use(llround) __kinspect_use(ilogb) __kinspect_use(logb)
#undef __kinspect_use
using ::isnan; using ::isinf; using ::isfinite; using ::isnormal; using ::signbit; using ::abs; using ::labs; using ::llabs;
}

// Placement new, printf and assert in device code: the first works, the others say nothing.
__device__ inline __attribute__((always_inline, nodebug)) void* operator new(size_t, void* p) noexcept { return p; }
__device__ inline __attribute__((always_inline, nodebug)) void* operator new[](size_t, void* p) noexcept { return p; }
__device__ inline __attribute__((always_inline, nodebug)) void operator delete(void*, void*) noexcept {}
__device__ inline __attribute__((always_inline, nodebug)) void operator delete[](void*, void*) noexcept {}
template <class... __kA> __kinspect_d int printf(const char*, __kA...) { return 0; }
namespace std { using ::printf; }
extern "C" __device__ inline __attribute__((always_inline, noreturn)) void __assert_fail(const char*, const char*, unsigned, const char*) { __builtin_trap(); }
__kinspect_d void abort() { __builtin_trap(); }
__kinspect_d long clock() { return (long)__builtin_readcyclecounter(); }
__kinspect_d void __trap() { __builtin_trap(); }
__kinspect_d void* memcpy(void* d, const void* s, size_t n) { return __builtin_memcpy(d, s, n); }
__kinspect_d void* memmove(void* d, const void* s, size_t n) { return __builtin_memmove(d, s, n); }
__kinspect_d void* memset(void* d, int c, size_t n) { return __builtin_memset(d, c, n); }
namespace std { using ::memcpy; using ::memmove; using ::memset; using ::abort; }

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmath>
#include <cstdlib>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>
#include <algorithm>

// Names that the C++ library does not have.
// ROCm's: the instruction, scaled for subnormals; of doubles, refined once (ROCm Device Libraries, rsqrtF.cl, rsqrtD.cl).
__kinspect_d float __kinspect_rsqrt(float x) {
  const bool tiny = x < 0x1p-126f;
  const float root = __builtin_amdgcn_rsqf(tiny ? x * 0x1p24f : x);
  return tiny ? root * 0x1p12f : root;
}
__kinspect_d double __kinspect_rsqrt(double x) {
  const double root = __builtin_amdgcn_rsq(x), error = __builtin_fma(-root * x, root, 1.);
  const double better = __builtin_fma(root * error, __builtin_fma(error, 0.375, 0.5), root);
  return x > 0. && x < __builtin_inf() ? better : root;
}
__kinspect_math1(rsqrt, __kinspect_rsqrt(x), __kinspect_rsqrt(x))
__kinspect_own1(rcbrt, 1.f / cbrtf(x), 1. / cbrt(x))
__kinspect_own1(normcdf, 0.5f * erfcf(x * -0.707106781f), 0.5 * erfc(x * -0.70710678118654752440))
__kinspect_own1(erfcx, expf(x * x) * erfcf(x), exp(x * x) * erfc(x))
__kinspect_d float __kinspect_turn(float x) { return x - 2.f * __builtin_rintf(x * 0.5f); }
__kinspect_d double __kinspect_turn(double x) { return x - 2. * __builtin_rint(x * 0.5); }
__kinspect_own1(sinpi, sinf(__kinspect_turn(x) * 3.14159265f), sin(__kinspect_turn(x) * 3.14159265358979323846))
__kinspect_own1(cospi, cosf(__kinspect_turn(x) * 3.14159265f), cos(__kinspect_turn(x) * 3.14159265358979323846))
__kinspect_own(sincospi) __kinspect_d void sincospif(float x, float* s, float* c) { *s = sinpif(x); *c = cospif(x); }
__kinspect_own(sincospi) __kinspect_d void sincospi(double x, double* s, double* c) { *s = sinpi(x); *c = cospi(x); }
__kinspect_own(rhypot) __kinspect_d float rhypotf(float x, float y) { return 1.f / hypotf(x, y); }
__kinspect_own(rhypot) __kinspect_d double rhypot(double x, double y) { return 1. / hypot(x, y); }
__kinspect_d float norm3df(float x, float y, float z) { return sqrtf(x * x + y * y + z * z); }
__kinspect_d double norm3d(double x, double y, double z) { return sqrt(x * x + y * y + z * z); }
__kinspect_w float rnorm3df(float x, float y, float z) { return rsqrtf(x * x + y * y + z * z); }
__kinspect_d float norm4df(float x, float y, float z, float w) { return sqrtf(x * x + y * y + z * z + w * w); }
__kinspect_w float fdividef(float x, float y) { return x / y; }
__kinspect_w float saturatef(float x) { return __builtin_fminf(__builtin_fmaxf(x, 0.f), 1.f); }
__kinspect_w float __saturatef(float x) { return saturatef(x); }

// min and max of numbers.
#define __kinspect_same(__kT) \
  __kinspect_chd __kT min(__kT a, __kT b) { return b < a ? b : a; } \
  __kinspect_chd __kT max(__kT a, __kT b) { return a < b ? b : a; }
__kinspect_same(int) __kinspect_same(unsigned) __kinspect_same(long) __kinspect_same(unsigned long)
__kinspect_same(long long) __kinspect_same(unsigned long long)
#undef __kinspect_same
__kinspect_hd float min(float a, float b) { return __builtin_fminf(a, b); }
__kinspect_hd float max(float a, float b) { return __builtin_fmaxf(a, b); }
__kinspect_hd double min(double a, double b) { return __builtin_fmin(a, b); }
__kinspect_hd double max(double a, double b) { return __builtin_fmax(a, b); }
#define __kinspect_mixed(name) \
  template <class __kT, class __kU, typename std::enable_if<__kinspect_is_num<__kT>::value && __kinspect_is_num<__kU>::value && \
    !std::is_same<__kT, __kU>::value, int>::type = 0> \
  __kinspect_hd typename std::common_type<__kT, __kU>::type name(__kT a, __kU b) { \
    using __kC = typename std::common_type<__kT, __kU>::type; return name((__kC)a, (__kC)b); \
  }
__kinspect_mixed(min) __kinspect_mixed(max)
#undef __kinspect_mixed
__kinspect_d int umin(unsigned a, unsigned b) { return a < b ? a : b; }
__kinspect_d int umax(unsigned a, unsigned b) { return a < b ? b : a; }

// Fast and explicitly rounded forms. Only rounding to nearest exists; _rd, _ru and _rz of arithmetic round to nearest too.
__kinspect_d float __expf(float x) { return __builtin_amdgcn_exp2f(x * 1.44269504f); }
__kinspect_w float __exp2f(float x) { return __builtin_amdgcn_exp2f(x); }
__kinspect_d float __exp10f(float x) { return __builtin_amdgcn_exp2f(x * 3.32192809f); }
__kinspect_d float __logf(float x) { return __builtin_amdgcn_logf(x) * 0.693147181f; }
__kinspect_d float __log2f(float x) { return __builtin_amdgcn_logf(x); }
__kinspect_d float __log10f(float x) { return __builtin_amdgcn_logf(x) * 0.301029996f; }
__kinspect_d float __sinf(float x) { return __builtin_amdgcn_sinf(__builtin_amdgcn_fractf(x * 0.159154943f)); }
__kinspect_d float __cosf(float x) { return __builtin_amdgcn_cosf(__builtin_amdgcn_fractf(x * 0.159154943f)); }
__kinspect_d float __tanf(float x) { return __sinf(x) * __builtin_amdgcn_rcpf(__cosf(x)); }
__kinspect_w void __sincosf(float x, float* s, float* c) { *s = __sinf(x); *c = __cosf(x); }
__kinspect_d float __powf(float x, float y) { return __builtin_amdgcn_exp2f(y * __builtin_amdgcn_logf(x)); }
__kinspect_w float __tanhf(float x) { return 1.f - 2.f * __builtin_amdgcn_rcpf(__expf(x + x) + 1.f); }
__kinspect_d float __fdividef(float x, float y) { return x * __builtin_amdgcn_rcpf(y); }
__kinspect_d float __frsqrt_rn(float x) { return __builtin_amdgcn_rsqf(x); }
#define __kinspect_round(m) \
  __kinspect_d float __fadd_##m(float x, float y) { _Pragma("clang fp contract(off)") return x + y; } \
  __kinspect_d float __fsub_##m(float x, float y) { _Pragma("clang fp contract(off)") return x - y; } \
  __kinspect_d float __fmul_##m(float x, float y) { _Pragma("clang fp contract(off)") return x * y; } \
  __kinspect_d float __fdiv_##m(float x, float y) { return x / y; } \
  __kinspect_d float __fsqrt_##m(float x) { return __builtin_sqrtf(x); } \
  __kinspect_d float __frcp_##m(float x) { return 1.f / x; } \
  __kinspect_d float __fmaf_##m(float x, float y, float z) { return __builtin_fmaf(x, y, z); } \
  __kinspect_d double __dadd_##m(double x, double y) { _Pragma("clang fp contract(off)") return x + y; } \
  __kinspect_d double __dsub_##m(double x, double y) { _Pragma("clang fp contract(off)") return x - y; } \
  __kinspect_d double __dmul_##m(double x, double y) { _Pragma("clang fp contract(off)") return x * y; } \
  __kinspect_d double __ddiv_##m(double x, double y) { return x / y; } \
  __kinspect_d double __dsqrt_##m(double x) { return __builtin_sqrt(x); } \
  __kinspect_d double __drcp_##m(double x) { return 1. / x; } \
  __kinspect_d double __fma_##m(double x, double y, double z) { return __builtin_fma(x, y, z); } \
  __kinspect_d float __int2float_##m(int x) { return (float)x; } \
  __kinspect_d float __uint2float_##m(unsigned x) { return (float)x; } \
  __kinspect_d float __ll2float_##m(long long x) { return (float)x; } \
  __kinspect_d float __ull2float_##m(unsigned long long x) { return (float)x; } \
  __kinspect_d float __double2float_##m(double x) { return (float)x; } \
  __kinspect_d double __ll2double_##m(long long x) { return (double)x; } \
  __kinspect_d double __ull2double_##m(unsigned long long x) { return (double)x; }
__kinspect_round(rn) __kinspect_round(rd) __kinspect_round(ru) __kinspect_round(rz)
#undef __kinspect_round
#define __kinspect_to(m, __kB) \
  __kinspect_d int __float2int_##m(float x) { return (int)__kB##f(x); } \
  __kinspect_d unsigned __float2uint_##m(float x) { return (unsigned)__kB##f(x); } \
  __kinspect_d long long __float2ll_##m(float x) { return (long long)__kB##f(x); } \
  __kinspect_d unsigned long long __float2ull_##m(float x) { return (unsigned long long)__kB##f(x); } \
  __kinspect_d int __double2int_##m(double x) { return (int)__kB(x); } \
  __kinspect_d unsigned __double2uint_##m(double x) { return (unsigned)__kB(x); } \
  __kinspect_d long long __double2ll_##m(double x) { return (long long)__kB(x); } \
  __kinspect_d unsigned long long __double2ull_##m(double x) { return (unsigned long long)__kB(x); }
__kinspect_to(rn, __builtin_rint) __kinspect_to(rd, __builtin_floor) __kinspect_to(ru, __builtin_ceil) __kinspect_to(rz, __builtin_trunc)
#undef __kinspect_to
__kinspect_d double __int2double_rn(int x) { return (double)x; }
__kinspect_d double __uint2double_rn(unsigned x) { return (double)x; }
#define __kinspect_bits(name, __kR, __kA) __kinspect_d __kR name(__kA x) { return __builtin_bit_cast(__kR, x); }
__kinspect_bits(__float_as_int, int, float) __kinspect_bits(__float_as_uint, unsigned, float)
__kinspect_bits(__int_as_float, float, int) __kinspect_bits(__uint_as_float, float, unsigned)
__kinspect_bits(__double_as_longlong, long long, double) __kinspect_bits(__longlong_as_double, double, long long)
#undef __kinspect_bits
__kinspect_d int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
__kinspect_d int __double2loint(double x) { return (int)__double_as_longlong(x); }
__kinspect_d double __hiloint2double(int hi, int lo) { return __longlong_as_double((long long)(((unsigned long long)(unsigned)hi << 32) | (unsigned)lo)); }
