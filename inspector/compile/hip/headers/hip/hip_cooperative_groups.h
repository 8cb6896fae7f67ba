// Cooperative groups: thread blocks, tiles and coalesced threads; grids are declared and their sync is a barrier of the block.
#pragma once
#pragma clang system_header
#include <hip/kinspect/device.h>

namespace cooperative_groups {
#define __kinspect_g __device__ inline __attribute__((always_inline, nodebug))
namespace __kinspect_cg {
__kinspect_d unsigned rank() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
__kinspect_d unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
}
class thread_group {
 protected:
  unsigned kind_, size_, rank_;
  unsigned long long mask_;
 public:
  __kinspect_g thread_group(unsigned k, unsigned s, unsigned r, unsigned long long m = 0) : kind_(k), size_(s), rank_(r), mask_(m) {}
  __kinspect_g unsigned size() const { return size_; }
  __kinspect_g unsigned num_threads() const { return size_; }
  __kinspect_g unsigned thread_rank() const { return rank_; }
  __kinspect_g bool is_valid() const { return true; }
  __kinspect_g void sync() const { if (kind_) __syncwarp(); else __syncthreads(); }
};
class thread_block : public thread_group {
 public:
  __kinspect_g thread_block() : thread_group(0, __kinspect_cg::size(), __kinspect_cg::rank()) {}
  __kinspect_g static void sync() { __syncthreads(); }
  __kinspect_g static unsigned size() { return __kinspect_cg::size(); }
  __kinspect_g static unsigned num_threads() { return __kinspect_cg::size(); }
  __kinspect_g static unsigned thread_rank() { return __kinspect_cg::rank(); }
  __kinspect_g static dim3 group_index() { return blockIdx; }
  __kinspect_g static dim3 thread_index() { return threadIdx; }
  __kinspect_g static dim3 group_dim() { return blockDim; }
  __kinspect_g static dim3 dim_threads() { return blockDim; }
};
class grid_group {
 public:
  __kinspect_g static bool is_valid() { return true; }
  __kinspect_g static void sync() { __threadfence(); __syncthreads(); }
  __kinspect_g static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
  __kinspect_g static unsigned long long block_rank() { return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
  __kinspect_g static unsigned long long size() { return num_blocks() * __kinspect_cg::size(); }
  __kinspect_g static unsigned long long num_threads() { return size(); }
  __kinspect_g static unsigned long long thread_rank() { return block_rank() * __kinspect_cg::size() + __kinspect_cg::rank(); }
  __kinspect_g static dim3 group_dim() { return gridDim; }
  __kinspect_g static dim3 dim_blocks() { return gridDim; }
  __kinspect_g static dim3 block_index() { return blockIdx; }
};
class multi_grid_group : public grid_group {};
// Lanes base ... base + size - 1 of a wave.
template <unsigned __kN> class __kinspect_tile : public thread_group {
 public:
  __kinspect_g __kinspect_tile() : thread_group(1, __kN, __lane_id() & (__kN - 1)) {}
  __kinspect_g static constexpr unsigned size() { return __kN; }
  __kinspect_g static constexpr unsigned num_threads() { return __kN; }
  __kinspect_g static unsigned thread_rank() { return __lane_id() & (__kN - 1); }
  __kinspect_g static unsigned meta_group_rank() { return __kinspect_cg::rank() / __kN; }
  __kinspect_g static unsigned meta_group_size() { return (__kinspect_cg::size() + __kN - 1) / __kN; }
  __kinspect_g static void sync() { __syncwarp(); }
  template <class __kT> __kinspect_g __kT shfl(__kT v, int r) const { return __shfl(v, r, __kN); }
  template <class __kT> __kinspect_g __kT shfl_up(__kT v, unsigned d) const { return __shfl_up(v, d, __kN); }
  template <class __kT> __kinspect_g __kT shfl_down(__kT v, unsigned d) const { return __shfl_down(v, d, __kN); }
  template <class __kT> __kinspect_g __kT shfl_xor(__kT v, unsigned m) const { return __shfl_xor(v, (int)m, __kN); }
  __kinspect_g unsigned long long ballot(int p) const {
    unsigned long long b = __ballot(p) >> (__lane_id() & -__kN);
    return __kN >= 64 ? b : b & ((1ull << (__kN & 63)) - 1);
  }
  __kinspect_g int any(int p) const { return ballot(p) != 0; }
  __kinspect_g int all(int p) const { return ballot(!p) == 0; }
  template <class __kT> __kinspect_g unsigned long long match_any(__kT v) const {
    unsigned base = __lane_id() & -__kN;
    return __match_any_sync((__kN >= 64 ? ~0ull : (1ull << (__kN & 63)) - 1) << base, v) >> base;
  }
};
template <unsigned __kN, class __kP = void> class thread_block_tile : public __kinspect_tile<__kN> {
 public:
  __kinspect_g thread_block_tile() = default;
  __kinspect_g thread_block_tile(const thread_block_tile<__kN, void>&) {}
};
template <unsigned __kN> class thread_block_tile<__kN, void> : public __kinspect_tile<__kN> {
 public:
  __kinspect_g thread_block_tile() = default;
  template <class __kP> __kinspect_g thread_block_tile(const thread_block_tile<__kN, __kP>&) {}
};
class coalesced_group : public thread_group {
 public:
  __kinspect_g coalesced_group(unsigned long long m) : thread_group(1, (unsigned)__popcll(m), (unsigned)__popcll(m & __lanemask_lt()), m) {}
  __kinspect_g int lane(int r) const {
    unsigned long long m = mask_;
    for (int i = 0; i < r; ++i) m &= m - 1;
    return m ? __builtin_ctzll(m) : (int)__lane_id();
  }
  template <class __kT> __kinspect_g __kT shfl(__kT v, int r) const { return __kinspect_permute(lane(r), v); }
  template <class __kT> __kinspect_g __kT shfl_up(__kT v, unsigned d) const { return __kinspect_permute(lane(rank_ < d ? (int)rank_ : (int)(rank_ - d)), v); }
  template <class __kT> __kinspect_g __kT shfl_down(__kT v, unsigned d) const { return __kinspect_permute(lane(rank_ + d < size_ ? (int)(rank_ + d) : (int)rank_), v); }
  __kinspect_g unsigned long long ballot(int p) const {
    unsigned long long b = __ballot(p) & mask_, r = 0;
    int i = 0;
    for (unsigned long long m = mask_; m; m &= m - 1, ++i) r |= (b >> __builtin_ctzll(m) & 1) << i;
    return r;
  }
  __kinspect_g int any(int p) const { return (__ballot(p) & mask_) != 0; }
  __kinspect_g int all(int p) const { return (__ballot(!p) & mask_) == 0; }
};
__kinspect_d thread_block this_thread_block() { return thread_block(); }
__kinspect_d grid_group this_grid() { return grid_group(); }
__kinspect_d multi_grid_group this_multi_grid() { return multi_grid_group(); }
__kinspect_d coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }
template <unsigned __kN, class __kP> __kinspect_d thread_block_tile<__kN, __kP> tiled_partition(const __kP&) { return thread_block_tile<__kN, __kP>(); }
__kinspect_d thread_group tiled_partition(const thread_group&, unsigned n) { return thread_group(1, n, __lane_id() & (n - 1)); }
template <class __kG> __kinspect_d void sync(const __kG& g) { g.sync(); }
template <class __kG> __kinspect_d auto thread_rank(const __kG& g) { return g.thread_rank(); }
template <class __kG> __kinspect_d auto group_size(const __kG& g) { return g.size(); }
template <class __kT> struct plus { __kinspect_g __kT operator()(__kT a, __kT b) const { return a + b; } };
template <class __kT> struct less { __kinspect_g __kT operator()(__kT a, __kT b) const { return b < a ? b : a; } };
template <class __kT> struct greater { __kinspect_g __kT operator()(__kT a, __kT b) const { return a < b ? b : a; } };
template <class __kT> struct bit_and { __kinspect_g __kT operator()(__kT a, __kT b) const { return a & b; } };
template <class __kT> struct bit_or { __kinspect_g __kT operator()(__kT a, __kT b) const { return a | b; } };
template <unsigned __kN, class __kP, class __kT, class __kO> __kinspect_d __kT reduce(const thread_block_tile<__kN, __kP>& t, __kT v, __kO op) {
  for (unsigned m = __kN / 2; m; m >>= 1) v = op(v, t.shfl_xor(v, m));
  return v;
}
template <unsigned __kN, class __kP, class __kT, class __kO> __kinspect_d __kT inclusive_scan(const thread_block_tile<__kN, __kP>& t, __kT v, __kO op) {
  for (unsigned d = 1; d < __kN; d <<= 1) { __kT u = t.shfl_up(v, d); if (t.thread_rank() >= d) v = op(u, v); }
  return v;
}
#undef __kinspect_g
}
