// The older hip_bfloat16: 16 bits in `data`, arithmetic of float.
#pragma once
#pragma clang system_header
#include <hip/kinspect/device.h>
#include <ostream>

struct hip_bfloat16 {
  unsigned short data;
  enum truncate_t { truncate };
  hip_bfloat16() = default;
  __kinspect_m explicit constexpr hip_bfloat16(float f) : data(__builtin_bit_cast(unsigned short, (__bf16)f)) {}
  __kinspect_m explicit hip_bfloat16(float f, truncate_t) : data((unsigned short)(__builtin_bit_cast(unsigned, f) >> 16)) {}
  __kinspect_m constexpr operator float() const { return __builtin_bit_cast(float, (unsigned)data << 16); }
  __kinspect_m static hip_bfloat16 round_to_bfloat16(float f) { return hip_bfloat16(f); }
  __kinspect_m hip_bfloat16& operator=(float f) { return *this = hip_bfloat16(f); }
  __kinspect_m explicit operator bool() const { return data & 0x7fff; }
};
#define __kinspect_b(op) \
  __kinspect_hd hip_bfloat16 operator op(hip_bfloat16 a, hip_bfloat16 b) { return hip_bfloat16((float)a op (float)b); } \
  __kinspect_hd hip_bfloat16& operator op##=(hip_bfloat16& a, hip_bfloat16 b) { return a = a op b; }
__kinspect_b(+) __kinspect_b(-) __kinspect_b(*) __kinspect_b(/)
#undef __kinspect_b
__kinspect_hd hip_bfloat16 operator-(hip_bfloat16 a) { a.data ^= 0x8000; return a; }
#define __kinspect_b(op) __kinspect_hd bool operator op(hip_bfloat16 a, hip_bfloat16 b) { return (float)a op (float)b; }
__kinspect_b(==) __kinspect_b(!=) __kinspect_b(<) __kinspect_b(<=) __kinspect_b(>) __kinspect_b(>=)
#undef __kinspect_b
