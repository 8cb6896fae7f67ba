// hipFloatComplex, hipDoubleComplex and their functions.
#pragma once
#pragma clang system_header
#include <hip/kinspect/device.h>

typedef float2 hipFloatComplex;
typedef double2 hipDoubleComplex;
typedef hipFloatComplex hipComplex;
#define __kinspect_complex(C, T, n, f, sq) \
  __kinspect_hd C make_##n(T a, T b) { return C(a, b); } \
  __kinspect_hd T hipCreal##f(C z) { return z.x; } \
  __kinspect_hd T hipCimag##f(C z) { return z.y; } \
  __kinspect_hd C hipConj##f(C z) { return C(z.x, -z.y); } \
  __kinspect_hd T hipCsqabs##f(C z) { return z.x * z.x + z.y * z.y; } \
  __kinspect_hd T hipCabs##f(C z) { return sq(z.x * z.x + z.y * z.y); } \
  __kinspect_hd C hipCadd##f(C a, C b) { return C(a.x + b.x, a.y + b.y); } \
  __kinspect_hd C hipCsub##f(C a, C b) { return C(a.x - b.x, a.y - b.y); } \
  __kinspect_hd C hipCmul##f(C a, C b) { return C(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); } \
  __kinspect_hd C hipCfma##f(C a, C b, C c) { return hipCadd##f(hipCmul##f(a, b), c); } \
  __kinspect_hd C hipCdiv##f(C a, C b) { \
    T d = hipCsqabs##f(b); \
    return C((a.x * b.x + a.y * b.y) / d, (a.y * b.x - a.x * b.y) / d); \
  }
__kinspect_complex(hipFloatComplex, float, hipFloatComplex, f, __builtin_sqrtf)
__kinspect_complex(hipDoubleComplex, double, hipDoubleComplex, , __builtin_sqrt)
#undef __kinspect_complex
__kinspect_hd hipComplex make_hipComplex(float a, float b) { return hipComplex(a, b); }
__kinspect_hd hipFloatComplex hipComplexDoubleToFloat(hipDoubleComplex z) { return hipFloatComplex((float)z.x, (float)z.y); }
__kinspect_hd hipDoubleComplex hipComplexFloatToDouble(hipFloatComplex z) { return hipDoubleComplex(z.x, z.y); }
