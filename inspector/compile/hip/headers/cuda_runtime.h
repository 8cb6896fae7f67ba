// CUDA's runtime by HIP's names. __CUDACC__ is defined, __CUDA_ARCH__ is not: code that asks for it takes its general paths.
#pragma once
#pragma clang system_header
#include <hip/kinspect/cuda_names.h>
#include <hip/hip_complex.h>
#ifndef __CUDACC__
#define __CUDACC__ 1
#endif
