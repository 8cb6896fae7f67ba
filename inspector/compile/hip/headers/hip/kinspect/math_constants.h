// Mathematical constants by HIP's and CUDA's names.
#pragma once
#define __kinspect_c(name, f, d) \
  static constexpr float HIP_##name##_F = f; static constexpr double HIP_##name = d; \
  static constexpr float CUDART_##name##_F = f; static constexpr double CUDART_##name = d;
__kinspect_c(INF, __builtin_inff(), __builtin_inf()) __kinspect_c(NAN, __builtin_nanf(""), __builtin_nan(""))
__kinspect_c(PI, 3.14159265f, 3.14159265358979323846) __kinspect_c(PIO2, 1.57079633f, 1.57079632679489661923)
__kinspect_c(PIO4, 0.785398163f, 0.78539816339744830962) __kinspect_c(2OPI, 0.636619772f, 0.63661977236758134308)
__kinspect_c(SQRT_TWO, 1.41421356f, 1.41421356237309504880) __kinspect_c(SQRT_HALF, 0.707106781f, 0.70710678118654752440)
__kinspect_c(L2E, 1.44269504f, 1.44269504088896338700) __kinspect_c(LN2, 0.693147181f, 0.69314718055994530942)
__kinspect_c(L2T, 3.32192809f, 3.32192809488736234787) __kinspect_c(LNT, 2.30258509f, 2.30258509299404568402)
__kinspect_c(LG2, 0.301029996f, 0.30102999566398119521) __kinspect_c(LGE, 0.434294482f, 0.43429448190325182765)
__kinspect_c(ZERO, 0.f, 0.) __kinspect_c(ONE, 1.f, 1.) __kinspect_c(MIN_DENORM, 1.40129846e-45f, 4.9406564584124654e-324)
__kinspect_c(MAX_NORMAL, 3.40282347e38f, 1.7976931348623157e308)
#undef __kinspect_c
static constexpr float CUDART_NORM_HUGE_F = 3.40282347e38f;
