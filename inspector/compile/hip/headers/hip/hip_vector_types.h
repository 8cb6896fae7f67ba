// HIP's vector types (char1 ... double4), make_* and their operators.
#pragma once
#pragma clang system_header
#include <hip/kinspect/define.h>

typedef unsigned char uchar;
template <class T, unsigned N> struct HIP_vector_base;
template <class T> struct HIP_vector_base<T, 1> {
  typedef T Native_vec_ __attribute__((ext_vector_type(1)));
  union { Native_vec_ data; T x; };
  HIP_vector_base() = default;
  __kinspect_m constexpr explicit HIP_vector_base(T a) : x(a) {}
};
template <class T> struct alignas(2 * sizeof(T)) HIP_vector_base<T, 2> {
  typedef T Native_vec_ __attribute__((ext_vector_type(2)));
  union { Native_vec_ data; struct { T x, y; }; };
  HIP_vector_base() = default;
  __kinspect_m constexpr explicit HIP_vector_base(T a) : x(a), y(a) {}
  __kinspect_m constexpr HIP_vector_base(T a, T b) : x(a), y(b) {}
};
template <class T> struct HIP_vector_base<T, 3> {
  T x, y, z;
  HIP_vector_base() = default;
  __kinspect_m constexpr explicit HIP_vector_base(T a) : x(a), y(a), z(a) {}
  __kinspect_m constexpr HIP_vector_base(T a, T b, T c = T()) : x(a), y(b), z(c) {}
};
template <class T> struct alignas(4 * sizeof(T)) HIP_vector_base<T, 4> {
  typedef T Native_vec_ __attribute__((ext_vector_type(4)));
  union { Native_vec_ data; struct { T x, y, z, w; }; };
  HIP_vector_base() = default;
  __kinspect_m constexpr explicit HIP_vector_base(T a) : x(a), y(a), z(a), w(a) {}
  __kinspect_m constexpr HIP_vector_base(T a, T b, T c = T(), T d = T()) : x(a), y(b), z(c), w(d) {}
};

template <class T, unsigned N> struct HIP_vector_type : HIP_vector_base<T, N> {
  using __kinspect_base = HIP_vector_base<T, N>;
  using value_type = T;
  HIP_vector_type() = default;
  template <class U, typename std::enable_if<std::is_convertible<U, T>::value, int>::type = 0>
  __kinspect_m constexpr HIP_vector_type(U a) : __kinspect_base(static_cast<T>(a)) {}
  template <class... U, typename std::enable_if<(sizeof...(U) > 1 && sizeof...(U) <= N), int>::type = 0>
  __kinspect_m constexpr HIP_vector_type(U... a) : __kinspect_base(static_cast<T>(a)...) {}
  __kinspect_m T& operator[](size_t i) { return reinterpret_cast<T*>(this)[i]; }
  __kinspect_m const T& operator[](size_t i) const { return reinterpret_cast<const T*>(this)[i]; }
#define __kinspect_op(op) \
  __kinspect_m HIP_vector_type& operator op(const HIP_vector_type& b) { \
    if constexpr (N == 3) { this->x op b.x; this->y op b.y; this->z op b.z; } \
    else this->data op b.data; \
    return *this; \
  } \
  template <class U, __kinspect_num(U)> __kinspect_m HIP_vector_type& operator op(U b) { \
    return *this op HIP_vector_type(static_cast<T>(b)); \
  }
  __kinspect_op(+=) __kinspect_op(-=) __kinspect_op(*=) __kinspect_op(/=)
  __kinspect_op(%=) __kinspect_op(&=) __kinspect_op(|=) __kinspect_op(^=) __kinspect_op(<<=) __kinspect_op(>>=)
#undef __kinspect_op
  __kinspect_m HIP_vector_type& operator++() noexcept { return *this += HIP_vector_type(T(1)); }
  __kinspect_m HIP_vector_type& operator--() noexcept { return *this -= HIP_vector_type(T(1)); }
  __kinspect_m HIP_vector_type operator++(int) noexcept { auto t = *this; ++*this; return t; }
  __kinspect_m HIP_vector_type operator--(int) noexcept { auto t = *this; --*this; return t; }
  __kinspect_m HIP_vector_type operator+() const { return *this; }
  __kinspect_m HIP_vector_type operator-() const {
    HIP_vector_type t;
    if constexpr (N == 3) { t.x = -this->x; t.y = -this->y; t.z = -this->z; } else t.data = -this->data;
    return t;
  }
  __kinspect_m HIP_vector_type operator~() const {
    HIP_vector_type t;
    if constexpr (N == 3) { t.x = ~this->x; t.y = ~this->y; t.z = ~this->z; } else t.data = ~this->data;
    return t;
  }
};
#define __kinspect_op(op) \
  template <class T, unsigned N> \
  __kinspect_hd HIP_vector_type<T, N> operator op(HIP_vector_type<T, N> a, const HIP_vector_type<T, N>& b) { \
    a op##= b; return a; \
  } \
  template <class T, unsigned N, class U, __kinspect_num(U)> \
  __kinspect_hd HIP_vector_type<T, N> operator op(HIP_vector_type<T, N> a, U b) { \
    a op##= HIP_vector_type<T, N>(static_cast<T>(b)); return a; \
  } \
  template <class T, unsigned N, class U, __kinspect_num(U)> \
  __kinspect_hd HIP_vector_type<T, N> operator op(U a, const HIP_vector_type<T, N>& b) { \
    HIP_vector_type<T, N> t(static_cast<T>(a)); t op##= b; return t; \
  }
__kinspect_op(+) __kinspect_op(-) __kinspect_op(*) __kinspect_op(/) __kinspect_op(%)
__kinspect_op(&) __kinspect_op(|) __kinspect_op(^) __kinspect_op(<<) __kinspect_op(>>)
#undef __kinspect_op
template <class T, unsigned N>
__kinspect_hd bool operator==(const HIP_vector_type<T, N>& a, const HIP_vector_type<T, N>& b) {
  bool r = a.x == b.x;
  if constexpr (N > 1) r = r && a.y == b.y;
  if constexpr (N > 2) r = r && a.z == b.z;
  if constexpr (N > 3) r = r && a.w == b.w;
  return r;
}
template <class T, unsigned N>
__kinspect_hd bool operator!=(const HIP_vector_type<T, N>& a, const HIP_vector_type<T, N>& b) { return !(a == b); }

#define __kinspect_types(name, T) \
  typedef HIP_vector_type<T, 1> name##1; typedef HIP_vector_type<T, 2> name##2; \
  typedef HIP_vector_type<T, 3> name##3; typedef HIP_vector_type<T, 4> name##4; \
  __kinspect_chd name##1 make_##name##1(T x) { return name##1(x); } \
  __kinspect_chd name##2 make_##name##2(T x, T y) { return name##2(x, y); } \
  __kinspect_chd name##3 make_##name##3(T x, T y, T z) { return name##3(x, y, z); } \
  __kinspect_chd name##4 make_##name##4(T x, T y, T z, T w) { return name##4(x, y, z, w); }
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
