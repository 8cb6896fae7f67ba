// The commonest names of cuBLAS, so that host code beside a kernel parses; nothing of it is ever linked.
#pragma once
#pragma clang system_header
#include <cuda_runtime.h>
#include <library_types.h>
typedef struct cublasContext* cublasHandle_t;
typedef enum {
  CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_ALLOC_FAILED = 3, CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH, CUBLAS_STATUS_MAPPING_ERROR = 11, CUBLAS_STATUS_EXECUTION_FAILED = 13, CUBLAS_STATUS_INTERNAL_ERROR,
  CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_LICENSE_ERROR
} cublasStatus_t;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C } cublasOperation_t;
typedef enum { CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER } cublasFillMode_t;
typedef enum { CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT } cublasSideMode_t;
typedef enum { CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT } cublasDiagType_t;
typedef enum { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE } cublasPointerMode_t;
typedef enum { CUBLAS_DEFAULT_MATH, CUBLAS_TENSOR_OP_MATH, CUBLAS_PEDANTIC_MATH, CUBLAS_TF32_TENSOR_OP_MATH } cublasMath_t;
typedef enum { CUBLAS_GEMM_DFALT = -1, CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99, CUBLAS_GEMM_DFALT_TENSOR_OP = 99 } cublasGemmAlgo_t;
typedef enum {
  CUBLAS_COMPUTE_16F = 64, CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_16F = 74, CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
  CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_32I = 72
} cublasComputeType_t;
#define __kinspect_blas(name) template <class... __kT> static inline __host__ cublasStatus_t name(__kT...) { return CUBLAS_STATUS_SUCCESS; }
__kinspect_blas(cublasCreate) __kinspect_blas(cublasDestroy) __kinspect_blas(cublasSetStream) __kinspect_blas(cublasSetMathMode)
__kinspect_blas(cublasSetPointerMode) __kinspect_blas(cublasSetWorkspace) __kinspect_blas(cublasGetVersion)
__kinspect_blas(cublasSetMatrix) __kinspect_blas(cublasGetMatrix) __kinspect_blas(cublasSetVector) __kinspect_blas(cublasGetVector)
__kinspect_blas(cublasSgemm) __kinspect_blas(cublasDgemm) __kinspect_blas(cublasHgemm) __kinspect_blas(cublasGemmEx)
__kinspect_blas(cublasSgemmEx) __kinspect_blas(cublasSgemmBatched) __kinspect_blas(cublasGemmBatchedEx)
__kinspect_blas(cublasSgemmStridedBatched) __kinspect_blas(cublasHgemmStridedBatched) __kinspect_blas(cublasGemmStridedBatchedEx)
__kinspect_blas(cublasSgemv) __kinspect_blas(cublasDgemv) __kinspect_blas(cublasSaxpy) __kinspect_blas(cublasDaxpy) __kinspect_blas(cublasSdot)
__kinspect_blas(cublasSscal) __kinspect_blas(cublasSnrm2) __kinspect_blas(cublasSasum) __kinspect_blas(cublasSgeam) __kinspect_blas(cublasScopy)
#undef __kinspect_blas
static inline __host__ const char* cublasGetStatusString(cublasStatus_t) { return ""; }
static inline __host__ const char* cublasGetStatusName(cublasStatus_t) { return ""; }
