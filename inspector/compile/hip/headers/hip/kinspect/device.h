// Coordinates, barriers, fences, votes, shuffles, integer intrinsics and atomics of device code.
#pragma once
#pragma clang system_header
#include <hip/kinspect/define.h>
#include <hip/hip_vector_types.h>
#include <hip/kinspect/math.h>

// The ABI's implicit arguments start with the number of workgroups in each dimension.
#define __kinspect_groups(i) \
  (((const __attribute__((address_space(4))) unsigned*)__builtin_amdgcn_implicitarg_ptr())[i])
#define __kinspect_coordinate(name, __kX, __kY, __kZ) \
  struct __kinspect_##name { \
    __declspec(property(get = get_x)) unsigned x; \
    __declspec(property(get = get_y)) unsigned y; \
    __declspec(property(get = get_z)) unsigned z; \
    __device__ inline __attribute__((always_inline, nodebug)) unsigned get_x() const { return __kX; } \
    __device__ inline __attribute__((always_inline, nodebug)) unsigned get_y() const { return __kY; } \
    __device__ inline __attribute__((always_inline, nodebug)) unsigned get_z() const { return __kZ; } \
    __device__ inline __attribute__((always_inline, nodebug)) operator dim3() const { return dim3(__kX, __kY, __kZ); } \
    __device__ inline __attribute__((always_inline, nodebug)) operator uint3() const { return uint3(__kX, __kY, __kZ); } \
  }; \
  static constexpr __device__ __kinspect_##name name{};
__kinspect_coordinate(threadIdx, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z())
__kinspect_coordinate(blockIdx, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z())
__kinspect_coordinate(blockDim, __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(), __builtin_amdgcn_workgroup_size_z())
__kinspect_coordinate(gridDim, __kinspect_groups(0), __kinspect_groups(1), __kinspect_groups(2))
#undef __kinspect_coordinate
#define hipThreadIdx_x (threadIdx.x)
#define hipThreadIdx_y (threadIdx.y)
#define hipThreadIdx_z (threadIdx.z)
#define hipBlockIdx_x (blockIdx.x)
#define hipBlockIdx_y (blockIdx.y)
#define hipBlockIdx_z (blockIdx.z)
#define hipBlockDim_x (blockDim.x)
#define hipBlockDim_y (blockDim.y)
#define hipBlockDim_z (blockDim.z)
#define hipGridDim_x (gridDim.x)
#define hipGridDim_y (gridDim.y)
#define hipGridDim_z (gridDim.z)

// Fences and barriers.
__kinspect_d void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
__kinspect_d void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
__kinspect_d void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }
__kinspect_d void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
__kinspect_d void __syncwarp(unsigned long long = ~0ull) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
__kinspect_w void __nanosleep(unsigned) { __builtin_amdgcn_s_sleep(1); }

// Lanes, votes and shuffles.
__kinspect_d unsigned __lane_id() {
#if __kinspect_wave == 32
  return __builtin_amdgcn_mbcnt_lo(~0u, 0u);
#else
  return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
#endif
}
__kinspect_w unsigned long long __lanemask_lt() { return (1ull << __lane_id()) - 1; }
__kinspect_d unsigned long long __ballot(int p) {
#if __kinspect_wave == 32
  return __builtin_amdgcn_ballot_w32(p != 0);
#else
  return __builtin_amdgcn_ballot_w64(p != 0);
#endif
}
__kinspect_w unsigned long long __ballot64(int p) { return __ballot(p); }
__kinspect_d unsigned long long __activemask() { return __ballot(1); }
__kinspect_d int __any(int p) { return __ballot(p) != 0; }
__kinspect_d int __all(int p) { return __ballot(!p) == 0; }
template <class __kM> __kinspect_d unsigned long long __ballot_sync(__kM m, int p) { return __ballot(p) & (unsigned long long)m; }
template <class __kM> __kinspect_d int __any_sync(__kM m, int p) { return __ballot_sync(m, p) != 0; }
template <class __kM> __kinspect_d int __all_sync(__kM m, int p) { return __ballot_sync(m, !p) == 0; }

template <class __kT> __kinspect_d __kT __kinspect_permute(int lane, __kT v) {
  constexpr int n = (sizeof(__kT) + 3) / 4;
  int w[n] = {};
  __builtin_memcpy(w, &v, sizeof(__kT));
#pragma unroll
  for (int i = 0; i < n; ++i) w[i] = __builtin_amdgcn_ds_bpermute(lane << 2, w[i]);
  __builtin_memcpy(&v, w, sizeof(__kT));
  return v;
}
template <class __kT> __kinspect_d __kT __shfl(__kT v, int from, int width = warpSize) {
  int self = (int)__lane_id();
  return __kinspect_permute((from & (width - 1)) | (self & -width), v);
}
template <class __kT> __kinspect_d __kT __shfl_up(__kT v, unsigned by, int width = warpSize) {
  int self = (int)__lane_id(), from = self - (int)by;
  return __kinspect_permute(from < (self & -width) ? self : from, v);
}
template <class __kT> __kinspect_d __kT __shfl_down(__kT v, unsigned by, int width = warpSize) {
  int self = (int)__lane_id(), from = self + (int)by;
  return __kinspect_permute((self & (width - 1)) + (int)by >= width ? self : from, v);
}
template <class __kT> __kinspect_d __kT __shfl_xor(__kT v, int mask, int width = warpSize) {
  int self = (int)__lane_id(), from = self ^ mask;
  return __kinspect_permute(from >= ((self + width) & -width) ? self : from, v);
}
#define __kinspect_sync(name, __kA) \
  template <class __kM, class __kT> __kinspect_d __kT name##_sync(__kM, __kT v, __kA a, int width = warpSize) { return name(v, a, width); }
__kinspect_sync(__shfl, int) __kinspect_sync(__shfl_up, unsigned) __kinspect_sync(__shfl_down, unsigned) __kinspect_sync(__shfl_xor, int)
#undef __kinspect_sync
template <class __kT> __kinspect_d bool __kinspect_same_bits(__kT a, __kT b) {
  typedef typename std::conditional<sizeof(__kT) == 8, unsigned long long, unsigned>::type __kW;
  __kW x = 0, y = 0;
  __builtin_memcpy(&x, &a, sizeof(__kT)); __builtin_memcpy(&y, &b, sizeof(__kT));
  return x == y;
}
template <class __kM, class __kT> __kinspect_d unsigned long long __match_any_sync(__kM m, __kT v) {
  unsigned long long left = (unsigned long long)m & __activemask(), mine = 0;
  while (left) {
    int lane = __builtin_ctzll(left);
    unsigned long long same = __ballot(__kinspect_same_bits(v, __shfl(v, lane))) & left;
    if (same >> __lane_id() & 1) mine = same;
    left &= ~same;
  }
  return mine;
}
template <class __kM, class __kT> __kinspect_d unsigned long long __match_all_sync(__kM m, __kT v, int* all) {
  unsigned long long in = (unsigned long long)m & __activemask();
  __kT first = __shfl(v, __builtin_ctzll(in));
  *all = (__ballot(first == v) & in) == in;
  return *all ? in : 0;
}
#define __kinspect_reduce_sync(name, e) \
  template <class __kM, class __kT> __kinspect_d __kT __reduce_##name##_sync(__kM, __kT a) { \
    for (int i = warpSize / 2; i; i >>= 1) { __kT b = __shfl_xor(a, i); a = (e); } \
    return a; \
  }
__kinspect_reduce_sync(add, a + b) __kinspect_reduce_sync(min, b < a ? b : a) __kinspect_reduce_sync(max, a < b ? b : a)
__kinspect_reduce_sync(and, a & b) __kinspect_reduce_sync(or, a | b) __kinspect_reduce_sync(xor, a ^ b)
#undef __kinspect_reduce_sync

// Integers and bits.
__kinspect_d int __popc(unsigned x) { return __builtin_popcount(x); }
__kinspect_d int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
__kinspect_d int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
__kinspect_d int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
__kinspect_d int __ffs(unsigned x) { return __builtin_ffs((int)x); }
__kinspect_d int __ffs(int x) { return __builtin_ffs(x); }
__kinspect_d int __ffsll(unsigned long long x) { return __builtin_ffsll((long long)x); }
__kinspect_d int __ffsll(unsigned long x) { return __builtin_ffsll((long long)x); }
__kinspect_d int __ffsll(long long x) { return __builtin_ffsll(x); }
__kinspect_d unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
__kinspect_d unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
__kinspect_w unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  return __builtin_amdgcn_perm(y, x, (s & 7u) | (s & 0x70u) << 4 | (s & 0x700u) << 8 | (s & 0x7000u) << 12);
}
__kinspect_w unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) { n &= 31; return (unsigned)((((unsigned long long)hi << 32 | lo) << n) >> 32); }
__kinspect_w unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) { return __builtin_amdgcn_alignbit(hi, lo, n & 31); }
__kinspect_w unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned n) { return n >= 32 ? lo : __funnelshift_l(lo, hi, n); }
__kinspect_w unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned n) { return n >= 32 ? hi : __funnelshift_r(lo, hi, n); }
__kinspect_d int __mul24(int x, int y) { return ((x << 8) >> 8) * ((y << 8) >> 8); }
__kinspect_d unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffffu) * (y & 0xffffffu); }
__kinspect_w int mul24(int x, int y) { return __mul24(x, y); }
__kinspect_w int mad24(int x, int y, int z) { return __mul24(x, y) + z; }
__kinspect_d int __mulhi(int x, int y) { return (int)(((long long)x * y) >> 32); }
__kinspect_d unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x * y) >> 32); }
__kinspect_d long long __mul64hi(long long x, long long y) { return (long long)(((__int128)x * y) >> 64); }
__kinspect_d unsigned long long __umul64hi(unsigned long long x, unsigned long long y) { return (unsigned long long)(((unsigned __int128)x * y) >> 64); }
__kinspect_d int __hadd(int x, int y) { return (int)(((long long)x + y) >> 1); }
__kinspect_d int __rhadd(int x, int y) { return (int)(((long long)x + y + 1) >> 1); }
__kinspect_d unsigned __uhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y) >> 1); }
__kinspect_d unsigned __urhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y + 1) >> 1); }
__kinspect_d unsigned __sad(int x, int y, unsigned z) { return (x > y ? (unsigned)x - (unsigned)y : (unsigned)y - (unsigned)x) + z; }
__kinspect_d unsigned __usad(unsigned x, unsigned y, unsigned z) { return (x > y ? x - y : y - x) + z; }
__kinspect_w unsigned __bfe(unsigned x, unsigned offset, unsigned width) { return __builtin_amdgcn_ubfe(x, offset, width); }
__kinspect_d unsigned __bitinsert_u32(unsigned x, unsigned y, unsigned offset, unsigned width) {
  unsigned mask = (width &= 31) ? ((1u << width) - 1) << (offset & 31) : 0;
  return (x & ~mask) | ((y << (offset & 31)) & mask);
}
__kinspect_d unsigned __bitextract_u32(unsigned x, unsigned offset, unsigned width) { return __builtin_amdgcn_ubfe(x, offset, width); }
__kinspect_w int __kinspect_dot4(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += (signed char)(a >> i) * (signed char)(b >> i);
  return c;
}
__kinspect_w int __dp4a(int a, int b, int c) {
#if __has_builtin(__builtin_amdgcn_sudot4) && (defined(__GFX11__) || defined(__GFX12__))
  return __builtin_amdgcn_sudot4(true, a, true, b, c, false);
#elif __has_builtin(__builtin_amdgcn_sdot4) && (defined(__GFX9__) && !defined(__gfx900__) || defined(__GFX10__))
  return __builtin_amdgcn_sdot4(a, b, c, false);
#else
  return __kinspect_dot4(a, b, c);
#endif
}
__kinspect_w unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
#if __has_builtin(__builtin_amdgcn_udot4) && !defined(__gfx900__)
  return __builtin_amdgcn_udot4(a, b, c, false);
#else
  for (int i = 0; i < 32; i += 8) c += (a >> i & 255u) * (b >> i & 255u);
  return c;
#endif
}
// Its arguments are converted by a class: any function of the code's own is a better match.
struct __kinspect_u { unsigned v; template <class __kT, __kinspect_int(__kT)> __kinspect_m __kinspect_u(__kT x) : v((unsigned)x) {} };
#define __kinspect_simd(name, __kT, e) \
  __kinspect_d unsigned name(__kinspect_u p, __kinspect_u q) { \
    constexpr int n = 8 * sizeof(__kT); unsigned r = 0, x = p.v, y = q.v; \
    for (int i = 0; i < 32; i += n) { \
      __kT a = (__kT)(x >> i), b = (__kT)(y >> i); \
      r |= (unsigned)(((1ull << n) - 1) & (unsigned long long)(e)) << i; \
    } \
    return r; \
  }
#define __kinspect_clip(v, lo, hi) ((v) < (lo) ? (lo) : (v) > (hi) ? (hi) : (v))
__kinspect_simd(__vadd4, signed char, a + b) __kinspect_simd(__vsub4, signed char, a - b)
__kinspect_simd(__vadd2, short, a + b) __kinspect_simd(__vsub2, short, a - b)
__kinspect_simd(__vaddss4, signed char, __kinspect_clip(a + b, -128, 127)) __kinspect_simd(__vsubss4, signed char, __kinspect_clip(a - b, -128, 127))
__kinspect_simd(__vcmpeq4, unsigned char, a == b ? 255 : 0) __kinspect_simd(__vcmpne4, unsigned char, a != b ? 255 : 0)
__kinspect_simd(__vcmpgtu4, unsigned char, a > b ? 255 : 0) __kinspect_simd(__vmaxs4, signed char, a > b ? a : b)
__kinspect_simd(__vmins4, signed char, a < b ? a : b) __kinspect_simd(__vmaxu4, unsigned char, a > b ? a : b) __kinspect_simd(__vminu4, unsigned char, a < b ? a : b)
#undef __kinspect_simd

// Clocks, cached and streaming accesses.
__kinspect_d long long clock64() { return (long long)__builtin_readcyclecounter(); }
__kinspect_d long long __clock64() { return clock64(); }
__kinspect_d long long __clock() { return clock64(); }
__kinspect_d long long wall_clock64() {
#if __has_builtin(__builtin_readsteadycounter)
  return (long long)__builtin_readsteadycounter();
#elif defined(__GFX9__)
  return (long long)__builtin_amdgcn_s_memrealtime();
#else
  return clock64();
#endif
}
template <int __kN> struct __kinspect_word { typedef unsigned type __attribute__((ext_vector_type(__kN / 4))); };
template <> struct __kinspect_word<1> { typedef unsigned char type; };
template <> struct __kinspect_word<2> { typedef unsigned short type; };
template <> struct __kinspect_word<4> { typedef unsigned type; };
template <class __kT> __kinspect_d __kT __kinspect_stream_load(const __kT* p) {
  typedef typename __kinspect_word<sizeof(__kT)>::type __kW;
  __kW w = __builtin_nontemporal_load((const __kW*)p);
  __kT v; __builtin_memcpy(&v, &w, sizeof(__kT)); return v;
}
template <class __kT> __kinspect_d void __kinspect_stream_store(__kT* p, __kT v) {
  typedef typename __kinspect_word<sizeof(__kT)>::type __kW;
  __kW w; __builtin_memcpy(&w, &v, sizeof(__kT));
  __builtin_nontemporal_store(w, (__kW*)p);
}
template <class __kT> struct __kinspect_same { typedef __kT type; };
template <class __kT> __kinspect_d __kT __ldg(const __kT* p) { return *p; }
#define __kinspect_ld(name, e) template <class __kT> __kinspect_d __kT name(const __kT* p) { return e; }
#define __kinspect_st(name, e) template <class __kT> __kinspect_d void name(__kT* p, typename __kinspect_same<__kT>::type v) { e; }
__kinspect_ld(__ldca, *p) __kinspect_ld(__ldcg, *p) __kinspect_ld(__ldcs, __kinspect_stream_load(p))
__kinspect_ld(__ldlu, __kinspect_stream_load(p)) __kinspect_ld(__ldcv, *(const volatile __kT*)p)
__kinspect_st(__stwb, *p = v) __kinspect_st(__stcg, *p = v) __kinspect_st(__stwt, *p = v) __kinspect_st(__stcs, __kinspect_stream_store(p, v))
#undef __kinspect_ld
#undef __kinspect_st
__kinspect_w bool __isGlobal(const void* p) { return !__builtin_amdgcn_is_shared((const __attribute__((address_space(0))) void*)p); }
__kinspect_w bool __isShared(const void* p) { return __builtin_amdgcn_is_shared((const __attribute__((address_space(0))) void*)p); }
__kinspect_w size_t __cvta_generic_to_shared(const void* p) { return (size_t)(__attribute__((address_space(3))) const void*)p; }

// Atomics: relaxed, of agent scope (_system, _block: of theirs). As with hipcc, float additions may be loops of compare and
// swap unless -munsafe-fp-atomics is given; unsafeAtomicAdd is the instruction where there is one.
#if __has_cpp_attribute(clang::atomic)
#define __kinspect_unsafe [[clang::atomic(no_remote_memory, no_fine_grained_memory, ignore_denormal_mode)]]
#else
#define __kinspect_unsafe
#endif
#define __kinspect_rmw(name, op, __kT, s, __kS) \
  __kinspect_d __kT name##s(__kT* p, __kT v) { return __hip_atomic_##op(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_##__kS); }
#define __kinspect_sub(__kT, s, __kS) \
  __kinspect_d __kT atomicSub##s(__kT* p, __kT v) { return __hip_atomic_fetch_add(p, (__kT)-v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_##__kS); }
#define __kinspect_cas(__kT, s, __kS) \
  __kinspect_d __kT atomicCAS##s(__kT* p, __kT e, __kT v) { \
    __hip_atomic_compare_exchange_strong(p, &e, v, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_##__kS); \
    return e; \
  }
#define __kinspect_bitwise(__kT, s, __kS) \
  __kinspect_rmw(atomicAnd, fetch_and, __kT, s, __kS) __kinspect_rmw(atomicOr, fetch_or, __kT, s, __kS) __kinspect_rmw(atomicXor, fetch_xor, __kT, s, __kS)
#define __kinspect_common(__kT, s, __kS) \
  __kinspect_rmw(atomicExch, exchange, __kT, s, __kS) __kinspect_rmw(atomicAdd, fetch_add, __kT, s, __kS) __kinspect_sub(__kT, s, __kS) \
  __kinspect_rmw(atomicMin, fetch_min, __kT, s, __kS) __kinspect_rmw(atomicMax, fetch_max, __kT, s, __kS) __kinspect_cas(__kT, s, __kS)
#define __kinspect_scope(s, __kS, __kL) \
  __kinspect_common(int, s, __kS) __kinspect_common(unsigned, s, __kS) __kinspect_common(unsigned long, s, __kS) \
  __kinspect_common(unsigned long long, s, __kS) __kinspect_common(float, s, __kS) __kinspect_common(double, s, __kS) \
  __kinspect_rmw(atomicMin, fetch_min, long long, s, __kS) __kinspect_rmw(atomicMax, fetch_max, long long, s, __kS) \
  __kinspect_rmw(atomicExch, exchange, long long, s, __kS) __kinspect_cas(long long, s, __kS) __kinspect_cas(unsigned short, s, __kS) \
  __kinspect_bitwise(int, s, __kS) __kinspect_bitwise(unsigned, s, __kS) __kinspect_bitwise(unsigned long, s, __kS) __kinspect_bitwise(unsigned long long, s, __kS) \
  __kinspect_d unsigned atomicInc##s(unsigned* p, unsigned v) { return __builtin_amdgcn_atomic_inc32(p, v, __ATOMIC_RELAXED, __kL); } \
  __kinspect_d unsigned atomicDec##s(unsigned* p, unsigned v) { return __builtin_amdgcn_atomic_dec32(p, v, __ATOMIC_RELAXED, __kL); }
__kinspect_scope(, AGENT, "agent") __kinspect_scope(_system, SYSTEM, "") __kinspect_scope(_block, WORKGROUP, "workgroup")
template <class __kT> __kinspect_d __kT unsafeAtomicAdd(__kT* p, typename __kinspect_same<__kT>::type v) {
  __kT r;
  __kinspect_unsafe { r = __hip_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
  return r;
}
template <class __kT> __kinspect_d __kT unsafeAtomicMax(__kT* p, typename __kinspect_same<__kT>::type v) { return atomicMax(p, v); }
template <class __kT> __kinspect_d __kT unsafeAtomicMin(__kT* p, typename __kinspect_same<__kT>::type v) { return atomicMin(p, v); }
template <class __kT> __kinspect_d __kT safeAtomicAdd(__kT* p, typename __kinspect_same<__kT>::type v) { return atomicAdd(p, v); }
template <class __kT> __kinspect_d void atomicAddNoRet(__kT* p, typename __kinspect_same<__kT>::type v) { unsafeAtomicAdd(p, v); }

// Barriers that reduce a predicate over the workgroup.
__kinspect_d int __syncthreads_count(int p) {
  __shared__ unsigned __kinspect_count;
  bool first = !(threadIdx.x | threadIdx.y | threadIdx.z);
  if (first) __kinspect_count = 0;
  __syncthreads();
  unsigned long long b = __ballot(p);
  if (__lane_id() == (unsigned)__builtin_ctzll(__activemask())) atomicAdd_block(&__kinspect_count, (unsigned)__popcll(b));
  __syncthreads();
  int n = (int)__kinspect_count;
  __syncthreads();
  return n;
}
__kinspect_d int __syncthreads_or(int p) { return __syncthreads_count(p) != 0; }
__kinspect_d int __syncthreads_and(int p) { return __syncthreads_count(!p) == 0; }
