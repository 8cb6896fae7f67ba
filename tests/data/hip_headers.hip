// What kernels use of HIP's headers, each kernel for a test against NumPy.
#include <cmath>
#include <cstdio>
#include <vector>

#include <hip/hip_bf16.h>
#include <hip/hip_cooperative_groups.h>
#include <hip/hip_fp16.h>
#include <hip/hip_fp8.h>
#include <hip/hip_runtime.h>

__global__ void mathematics(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  float results[] = {expf(v), logf(fabsf(v)), tanhf(v), erff(v), std::sqrt(fabsf(v)),
                     powf(fabsf(v), 1.5f), sinf(v), rsqrtf(fabsf(v)), fmaxf(v, 0.25f), floorf(v)};
  for (int k = 0; k < 10; ++k) out[k * n + i] = results[k];
}

__global__ void waves(const float* x, float* sums, unsigned* votes, float* neighbours) {
  int i = threadIdx.x;
  float sum = x[i];
  for (int d = warpSize / 2; d > 0; d /= 2) sum += __shfl_down(sum, d);
  if (i % warpSize == 0) sums[i / warpSize] = sum;
  neighbours[i] = __shfl_xor(x[i], 1);
  votes[i] = __popcll(__ballot(x[i] > 0));
}

__global__ void shared_sum(const float* x, float* out) {
  __shared__ float part[256];
  auto block = cooperative_groups::this_thread_block();
  part[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  block.sync();
  for (int d = 128; d > 0; d /= 2) {
    if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, part[0]);
}

__global__ void small_floats(const float* x, __half* half, __hip_bfloat16* bf16, unsigned char* fp8, float* back) {
  int i = threadIdx.x;
  half[i] = __float2half(x[i]);
  bf16[i] = __float2bfloat16(x[i]);
  __hip_fp8_e4m3_fnuz small(x[i]);
  fp8[i] = small.__x;
  back[i] = float(small) + __half2float(half[i]) + __bfloat162float(bf16[i]);
}

template <int Width>
__global__ void __launch_bounds__(256) vectors(const float4* x, float4* y) {
  int i = blockIdx.x * Width + threadIdx.x;
  float4 v = x[i];
  y[i] = make_float4(v.w, v.z, v.y, v.x) + v * 2.0f;
}

int main() {
  std::vector<float> host(256);
  float *x, *y;
  hipMalloc(&x, 1024);
  hipMalloc((void**)&y, 1024);
  hipMemcpy(x, host.data(), 1024, hipMemcpyHostToDevice);
  vectors<64><<<dim3(1), dim3(64), 0, 0>>>((float4*)x, (float4*)y);
  hipLaunchKernelGGL(mathematics, dim3(1), dim3(256), 0, 0, x, y, 256);
  if (hipDeviceSynchronize() != hipSuccess) printf("%s\n", hipGetErrorString(hipGetLastError()));
  return hipFree(x) == hipSuccess ? 0 : 1;
}
