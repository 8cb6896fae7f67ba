// HIP's vector types (char1 ... double4), make_* and their operators.
#pragma once
#pragma clang system_header
#include <hip/kinspect/define.h>

typedef unsigned char uchar;
template <class __kT, unsigned __kN> struct HIP_vector_base;
template <class __kT> struct HIP_vector_base<__kT, 1> {
  typedef __kT Native_vec_ __attribute__((ext_vector_type(1)));
  union { Native_vec_ data; __kT x; };
  HIP_vector_base() = default;
  __kinspect_m constexpr explicit HIP_vector_base(__kT a) : x(a) {}
};
template <class __kT> struct alignas(2 * sizeof(__kT)) HIP_vector_base<__kT, 2> {
  typedef __kT Native_vec_ __attribute__((ext_vector_type(2)));
  union { Native_vec_ data; struct { __kT x, y; }; };
  HIP_vector_base() = default;
  __kinspect_m constexpr explicit HIP_vector_base(__kT a) : x(a), y(a) {}
  __kinspect_m constexpr HIP_vector_base(__kT a, __kT b) : x(a), y(b) {}
};
template <class __kT> struct HIP_vector_base<__kT, 3> {
  __kT x, y, z;
  HIP_vector_base() = default;
  __kinspect_m constexpr explicit HIP_vector_base(__kT a) : x(a), y(a), z(a) {}
  __kinspect_m constexpr HIP_vector_base(__kT a, __kT b, __kT c = __kT()) : x(a), y(b), z(c) {}
};
template <class __kT> struct alignas(4 * sizeof(__kT)) HIP_vector_base<__kT, 4> {
  typedef __kT Native_vec_ __attribute__((ext_vector_type(4)));
  union { Native_vec_ data; struct { __kT x, y, z, w; }; };
  HIP_vector_base() = default;
  __kinspect_m constexpr explicit HIP_vector_base(__kT a) : x(a), y(a), z(a), w(a) {}
  __kinspect_m constexpr HIP_vector_base(__kT a, __kT b, __kT c = __kT(), __kT d = __kT()) : x(a), y(b), z(c), w(d) {}
};

template <class __kT, unsigned __kN> struct HIP_vector_type : HIP_vector_base<__kT, __kN> {
  using __kinspect_base = HIP_vector_base<__kT, __kN>;
  using value_type = __kT;
  HIP_vector_type() = default;
  template <class __kU, typename std::enable_if<std::is_convertible<__kU, __kT>::value, int>::type = 0>
  __kinspect_m constexpr HIP_vector_type(__kU a) : __kinspect_base(static_cast<__kT>(a)) {}
  template <class... __kU, typename std::enable_if<(sizeof...(__kU) > 1 && sizeof...(__kU) <= __kN), int>::type = 0>
  __kinspect_m constexpr HIP_vector_type(__kU... a) : __kinspect_base(static_cast<__kT>(a)...) {}
  __kinspect_m __kT& operator[](size_t i) { return reinterpret_cast<__kT*>(this)[i]; }
  __kinspect_m const __kT& operator[](size_t i) const { return reinterpret_cast<const __kT*>(this)[i]; }
#define __kinspect_op(op) \
  __kinspect_m HIP_vector_type& operator op(const HIP_vector_type& b) { \
    if constexpr (__kN == 3) { this->x op b.x; this->y op b.y; this->z op b.z; } \
    else this->data op b.data; \
    return *this; \
  } \
  template <class __kU, __kinspect_num(__kU)> __kinspect_m HIP_vector_type& operator op(__kU b) { \
    return *this op HIP_vector_type(static_cast<__kT>(b)); \
  }
  __kinspect_op(+=) __kinspect_op(-=) __kinspect_op(*=) __kinspect_op(/=)
  __kinspect_op(%=) __kinspect_op(&=) __kinspect_op(|=) __kinspect_op(^=) __kinspect_op(<<=) __kinspect_op(>>=)
#undef __kinspect_op
  __kinspect_m HIP_vector_type& operator++() noexcept { return *this += HIP_vector_type(__kT(1)); }
  __kinspect_m HIP_vector_type& operator--() noexcept { return *this -= HIP_vector_type(__kT(1)); }
  __kinspect_m HIP_vector_type operator++(int) noexcept { auto t = *this; ++*this; return t; }
  __kinspect_m HIP_vector_type operator--(int) noexcept { auto t = *this; --*this; return t; }
  __kinspect_m HIP_vector_type operator+() const { return *this; }
  __kinspect_m HIP_vector_type operator-() const {
    HIP_vector_type t;
    if constexpr (__kN == 3) { t.x = -this->x; t.y = -this->y; t.z = -this->z; } else t.data = -this->data;
    return t;
  }
  __kinspect_m HIP_vector_type operator~() const {
    HIP_vector_type t;
    if constexpr (__kN == 3) { t.x = ~this->x; t.y = ~this->y; t.z = ~this->z; } else t.data = ~this->data;
    return t;
  }
};
#define __kinspect_op(op) \
  template <class __kT, unsigned __kN> \
  __kinspect_hd HIP_vector_type<__kT, __kN> operator op(HIP_vector_type<__kT, __kN> a, const HIP_vector_type<__kT, __kN>& b) { \
    a op##= b; return a; \
  } \
  template <class __kT, unsigned __kN, class __kU, __kinspect_num(__kU)> \
  __kinspect_hd HIP_vector_type<__kT, __kN> operator op(HIP_vector_type<__kT, __kN> a, __kU b) { \
    a op##= HIP_vector_type<__kT, __kN>(static_cast<__kT>(b)); return a; \
  } \
  template <class __kT, unsigned __kN, class __kU, __kinspect_num(__kU)> \
  __kinspect_hd HIP_vector_type<__kT, __kN> operator op(__kU a, const HIP_vector_type<__kT, __kN>& b) { \
    HIP_vector_type<__kT, __kN> t(static_cast<__kT>(a)); t op##= b; return t; \
  }
__kinspect_op(+) __kinspect_op(-) __kinspect_op(*) __kinspect_op(/) __kinspect_op(%)
__kinspect_op(&) __kinspect_op(|) __kinspect_op(^) __kinspect_op(<<) __kinspect_op(>>)
#undef __kinspect_op
template <class __kT, unsigned __kN>
__kinspect_hd bool operator==(const HIP_vector_type<__kT, __kN>& a, const HIP_vector_type<__kT, __kN>& b) {
  bool r = a.x == b.x;
  if constexpr (__kN > 1) r = r && a.y == b.y;
  if constexpr (__kN > 2) r = r && a.z == b.z;
  if constexpr (__kN > 3) r = r && a.w == b.w;
  return r;
}
template <class __kT, unsigned __kN>
__kinspect_hd bool operator!=(const HIP_vector_type<__kT, __kN>& a, const HIP_vector_type<__kT, __kN>& b) { return !(a == b); }

#define __kinspect_types(name, __kT) \
  typedef HIP_vector_type<__kT, 1> name##1; typedef HIP_vector_type<__kT, 2> name##2; \
  typedef HIP_vector_type<__kT, 3> name##3; typedef HIP_vector_type<__kT, 4> name##4; \
  __kinspect_chd name##1 make_##name##1(__kT x) { return name##1(x); } \
  __kinspect_chd name##2 make_##name##2(__kT x, __kT y) { return name##2(x, y); } \
  __kinspect_chd name##3 make_##name##3(__kT x, __kT y, __kT z) { return name##3(x, y, z); } \
  __kinspect_chd name##4 make_##name##4(__kT x, __kT y, __kT z, __kT w) { return name##4(x, y, z, w); }
__kinspect_types(char, char) __kinspect_types(uchar, unsigned char)
__kinspect_types(short, short) __kinspect_types(ushort, unsigned short)
__kinspect_types(int, int) __kinspect_types(uint, unsigned int)
__kinspect_types(long, long) __kinspect_types(ulong, unsigned long)
__kinspect_types(longlong, long long) __kinspect_types(ulonglong, unsigned long long)
__kinspect_types(float, float) __kinspect_types(double, double)
#undef __kinspect_types

typedef struct dim3 {
  uint32_t x, y, z;
  __kinspect_m constexpr dim3(uint32_t a = 1, uint32_t b = 1, uint32_t c = 1) : x(a), y(b), z(c) {}
  __kinspect_m constexpr dim3(const uint3& v) : x(v.x), y(v.y), z(v.z) {}
  __kinspect_m constexpr operator uint3() const { return uint3(x, y, z); }
} dim3;
