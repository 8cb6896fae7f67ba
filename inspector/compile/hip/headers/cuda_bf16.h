// CUDA bfloat16 types: those of HIP.
#pragma once
#pragma clang system_header
#include <cuda_runtime.h>
#include <hip/hip_bf16.h>
typedef __hip_bfloat16 __nv_bfloat16; typedef __hip_bfloat162 __nv_bfloat162;
typedef __hip_bfloat16 nv_bfloat16; typedef __hip_bfloat162 nv_bfloat162;
typedef __hip_bfloat16_raw __nv_bfloat16_raw; typedef __hip_bfloat162_raw __nv_bfloat162_raw;
