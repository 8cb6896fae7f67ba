// CUDA's runtime by HIP's names. __CUDACC__ is defined, __CUDA_ARCH__ is not: code that asks for it takes its general paths.
#pragma once
#pragma clang system_header
#include <hip/kinspect/cuda_names.h>
#include <hip/hip_complex.h>
#ifndef __CUDACC__
#define __CUDACC__ 1
#endif
// Guards of CUDA's own headers, by which code asks whether they were included.
#define __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_API_H__
#define __DRIVER_TYPES_H__
