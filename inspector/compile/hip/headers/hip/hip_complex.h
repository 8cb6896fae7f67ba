// hipFloatComplex, hipDoubleComplex and their functions.
#pragma once
#pragma clang system_header
#include <hip/kinspect/device.h>

typedef float2 hipFloatComplex;
typedef double2 hipDoubleComplex;
typedef hipFloatComplex hipComplex;
#define __kinspect_complex(__kC, __kT, n, f, sq) \
  __kinspect_hd __kC make_##n(__kT a, __kT b) { return __kC(a, b); } \
  __kinspect_hd __kT hipCreal##f(__kC z) { return z.x; } \
  __kinspect_hd __kT hipCimag##f(__kC z) { return z.y; } \
  __kinspect_hd __kC hipConj##f(__kC z) { return __kC(z.x, -z.y); } \
  __kinspect_hd __kT hipCsqabs##f(__kC z) { return z.x * z.x + z.y * z.y; } \
  __kinspect_hd __kT hipCabs##f(__kC z) { return sq(z.x * z.x + z.y * z.y); } \
  __kinspect_hd __kC hipCadd##f(__kC a, __kC b) { return __kC(a.x + b.x, a.y + b.y); } \
  __kinspect_hd __kC hipCsub##f(__kC a, __kC b) { return __kC(a.x - b.x, a.y - b.y); } \
  __kinspect_hd __kC hipCmul##f(__kC a, __kC b) { return __kC(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); } \
  __kinspect_hd __kC hipCfma##f(__kC a, __kC b, __kC c) { return hipCadd##f(hipCmul##f(a, b), c); } \
  __kinspect_hd __kC hipCdiv##f(__kC a, __kC b) { \
    __kT d = hipCsqabs##f(b); \
    return __kC((a.x * b.x + a.y * b.y) / d, (a.y * b.x - a.x * b.y) / d); \
  }
__kinspect_complex(hipFloatComplex, float, hipFloatComplex, f, __builtin_sqrtf)
__kinspect_complex(hipDoubleComplex, double, hipDoubleComplex, , __builtin_sqrt)
#undef __kinspect_complex
__kinspect_hd hipComplex make_hipComplex(float a, float b) { return hipComplex(a, b); }
__kinspect_hd hipFloatComplex hipComplexDoubleToFloat(hipDoubleComplex z) { return hipFloatComplex((float)z.x, (float)z.y); }
__kinspect_hd hipDoubleComplex hipComplexFloatToDouble(hipFloatComplex z) { return hipDoubleComplex(z.x, z.y); }
