// The commonest names of the CUDA driver's API for those of HIP's.
#pragma once
#pragma clang system_header
#include <cuda_runtime.h>
typedef hipError_t CUresult; typedef hipDevice_t CUdevice; typedef hipCtx_t CUcontext; typedef hipModule_t CUmodule;
typedef hipFunction_t CUfunction; typedef hipStream_t CUstream; typedef hipEvent_t CUevent; typedef hipDeviceptr_t CUdeviceptr;
#define CUDA_SUCCESS hipSuccess
#define cuInit hipInit
#define cuDeviceGet hipDeviceGet
#define cuDeviceGetCount hipGetDeviceCount
#define cuDeviceGetName hipDeviceGetName
#define cuDeviceGetAttribute hipDeviceGetAttribute
#define cuCtxCreate hipCtxCreate
#define cuCtxDestroy hipCtxDestroy
#define cuCtxSetCurrent hipCtxSetCurrent
#define cuCtxSynchronize hipCtxSynchronize
#define cuModuleLoad hipModuleLoad
#define cuModuleLoadData hipModuleLoadData
#define cuModuleUnload hipModuleUnload
#define cuModuleGetFunction hipModuleGetFunction
#define cuModuleGetGlobal hipModuleGetGlobal
#define cuLaunchKernel hipModuleLaunchKernel
#define cuMemAlloc hipMalloc
#define cuMemFree hipFree
#define cuMemcpyHtoD hipMemcpyHtoD
#define cuMemcpyDtoH hipMemcpyDtoH
#define cuMemcpyDtoD hipMemcpyDtoD
#define cuStreamCreate hipStreamCreateWithFlags
#define cuStreamSynchronize hipStreamSynchronize
#define cuEventCreate hipEventCreateWithFlags
#define cuEventRecord hipEventRecord
#define cuEventElapsedTime hipEventElapsedTime
#define cuGetErrorString hipDrvGetErrorString
#define cuGetErrorName hipDrvGetErrorName
