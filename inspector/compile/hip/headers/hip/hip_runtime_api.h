// HIP's host API, declared so that host code parses; nothing of it is ever linked.
#pragma once
#pragma clang system_header
#include <hip/kinspect/define.h>
#include <hip/hip_vector_types.h>
#include <hip/driver_types.h>

#define __kinspect_f extern "C" __host__ hipError_t
#define __kinspect_t template <class __kT> static inline __host__ hipError_t
#define hipStreamPerThread ((hipStream_t)2)

extern "C" __host__ hipError_t __hipPushCallConfiguration(dim3, dim3, size_t = 0, hipStream_t = 0);
extern "C" __host__ hipError_t __hipPopCallConfiguration(dim3*, dim3*, size_t*, hipStream_t*);
__kinspect_f hipConfigureCall(dim3, dim3, size_t = 0, hipStream_t = 0);
__kinspect_f hipLaunchKernel(const void*, dim3, dim3, void**, size_t = 0, hipStream_t = 0);
__kinspect_f hipLaunchCooperativeKernel(const void*, dim3, dim3, void**, unsigned, hipStream_t);
__kinspect_f hipExtLaunchKernel(const void*, dim3, dim3, void**, size_t, hipStream_t, hipEvent_t, hipEvent_t, int);
template <class __kF> static inline __host__ hipError_t hipLaunchKernel(__kF* f, dim3 g, dim3 b, void** a, size_t s = 0, hipStream_t t = 0) { return hipLaunchKernel((const void*)f, g, b, a, s, t); }
template <class __kF> static inline __host__ hipError_t hipLaunchCooperativeKernel(__kF* f, dim3 g, dim3 b, void** a, unsigned s, hipStream_t t) { return hipLaunchCooperativeKernel((const void*)f, g, b, a, s, t); }
#define __kinspect_launch(k, g, b, s, t, ...) do { k<<<(g), (b), (s), (t)>>>(__VA_ARGS__); } while (0)
#define hipLaunchKernelGGL(k, ...) __kinspect_launch((k), __VA_ARGS__)
#define __kinspect_extlaunch(k, g, b, s, t, e0, e1, fl, ...) do { k<<<(g), (b), (s), (t)>>>(__VA_ARGS__); } while (0)
#define hipExtLaunchKernelGGL(k, ...) __kinspect_extlaunch((k), __VA_ARGS__)

// Errors, devices.
__kinspect_f hipInit(unsigned); __kinspect_f hipGetLastError(); __kinspect_f hipPeekAtLastError(); __kinspect_f hipExtGetLastError();
extern "C" __host__ const char* hipGetErrorString(hipError_t);
extern "C" __host__ const char* hipGetErrorName(hipError_t);
__kinspect_f hipDrvGetErrorString(hipError_t, const char**); __kinspect_f hipDrvGetErrorName(hipError_t, const char**);
__kinspect_f hipDriverGetVersion(int*); __kinspect_f hipRuntimeGetVersion(int*);
__kinspect_f hipDeviceSynchronize(); __kinspect_f hipDeviceReset(); __kinspect_f hipSetDevice(int); __kinspect_f hipGetDevice(int*);
__kinspect_f hipGetDeviceCount(int*); __kinspect_f hipGetDeviceProperties(hipDeviceProp_t*, int); __kinspect_f hipSetDeviceFlags(unsigned);
__kinspect_f hipDeviceGetAttribute(int*, hipDeviceAttribute_t, int); __kinspect_f hipDeviceGet(hipDevice_t*, int);
__kinspect_f hipDeviceGetName(char*, int, hipDevice_t); __kinspect_f hipDeviceTotalMem(size_t*, hipDevice_t);
__kinspect_f hipDeviceComputeCapability(int*, int*, hipDevice_t); __kinspect_f hipDeviceGetPCIBusId(char*, int, int);
__kinspect_f hipDeviceSetCacheConfig(hipFuncCache_t); __kinspect_f hipDeviceGetCacheConfig(hipFuncCache_t*);
__kinspect_f hipDeviceSetSharedMemConfig(hipSharedMemConfig); __kinspect_f hipDeviceGetSharedMemConfig(hipSharedMemConfig*);
__kinspect_f hipDeviceSetLimit(hipLimit_t, size_t); __kinspect_f hipDeviceGetLimit(size_t*, hipLimit_t);
__kinspect_f hipDeviceCanAccessPeer(int*, int, int); __kinspect_f hipDeviceEnablePeerAccess(int, unsigned); __kinspect_f hipDeviceDisablePeerAccess(int);
__kinspect_f hipDeviceGetStreamPriorityRange(int*, int*); __kinspect_f hipChooseDevice(int*, const hipDeviceProp_t*);
__kinspect_f hipDeviceGetDefaultMemPool(hipMemPool_t*, int); __kinspect_f hipDeviceGetMemPool(hipMemPool_t*, int); __kinspect_f hipDeviceSetMemPool(int, hipMemPool_t);
__kinspect_f hipMemPoolSetAttribute(hipMemPool_t, hipMemPoolAttr, void*); __kinspect_f hipMemPoolTrimTo(hipMemPool_t, size_t);
__kinspect_f hipCtxCreate(hipCtx_t*, unsigned, hipDevice_t); __kinspect_f hipCtxDestroy(hipCtx_t); __kinspect_f hipCtxSetCurrent(hipCtx_t);
__kinspect_f hipCtxGetCurrent(hipCtx_t*); __kinspect_f hipCtxSynchronize(); __kinspect_f hipDevicePrimaryCtxRetain(hipCtx_t*, hipDevice_t);
__kinspect_f hipProfilerStart(); __kinspect_f hipProfilerStop();

// Memory.
__kinspect_f hipMalloc(void**, size_t); __kinspect_f hipFree(void*); __kinspect_f hipHostFree(void*); __kinspect_f hipFreeHost(void*);
__kinspect_f hipHostMalloc(void**, size_t, unsigned = 0); __kinspect_f hipHostAlloc(void**, size_t, unsigned = 0); __kinspect_f hipMallocHost(void**, size_t);
__kinspect_f hipMallocManaged(void**, size_t, unsigned = hipMemAttachGlobal); __kinspect_f hipMallocAsync(void**, size_t, hipStream_t);
__kinspect_f hipExtMallocWithFlags(void**, size_t, unsigned); __kinspect_f hipFreeAsync(void*, hipStream_t);
__kinspect_f hipMallocPitch(void**, size_t*, size_t, size_t); __kinspect_f hipMallocArray(hipArray_t*, const hipChannelFormatDesc*, size_t, size_t = 0, unsigned = 0);
__kinspect_f hipFreeArray(hipArray_t); __kinspect_f hipMalloc3D(hipPitchedPtr*, hipExtent);
__kinspect_f hipHostRegister(void*, size_t, unsigned); __kinspect_f hipHostUnregister(void*); __kinspect_f hipHostGetDevicePointer(void**, void*, unsigned);
__kinspect_f hipHostGetFlags(unsigned*, void*); __kinspect_f hipMemGetInfo(size_t*, size_t*); __kinspect_f hipPointerGetAttributes(hipPointerAttribute_t*, const void*);
__kinspect_f hipMemPrefetchAsync(const void*, size_t, int, hipStream_t = 0); __kinspect_f hipMemAdvise(const void*, size_t, hipMemoryAdvise, int);
__kinspect_f hipMemcpy(void*, const void*, size_t, hipMemcpyKind); __kinspect_f hipMemcpyAsync(void*, const void*, size_t, hipMemcpyKind, hipStream_t = 0);
__kinspect_f hipMemcpyWithStream(void*, const void*, size_t, hipMemcpyKind, hipStream_t);
__kinspect_f hipMemcpyHtoD(hipDeviceptr_t, void*, size_t); __kinspect_f hipMemcpyDtoH(void*, hipDeviceptr_t, size_t); __kinspect_f hipMemcpyDtoD(hipDeviceptr_t, hipDeviceptr_t, size_t);
__kinspect_f hipMemcpyHtoDAsync(hipDeviceptr_t, void*, size_t, hipStream_t); __kinspect_f hipMemcpyDtoHAsync(void*, hipDeviceptr_t, size_t, hipStream_t);
__kinspect_f hipMemcpyPeer(void*, int, const void*, int, size_t); __kinspect_f hipMemcpyPeerAsync(void*, int, const void*, int, size_t, hipStream_t = 0);
__kinspect_f hipMemcpy2D(void*, size_t, const void*, size_t, size_t, size_t, hipMemcpyKind);
__kinspect_f hipMemcpy2DAsync(void*, size_t, const void*, size_t, size_t, size_t, hipMemcpyKind, hipStream_t = 0);
__kinspect_f hipMemcpy2DToArray(hipArray_t, size_t, size_t, const void*, size_t, size_t, size_t, hipMemcpyKind);
__kinspect_f hipMemcpy3D(const hipMemcpy3DParms*); __kinspect_f hipMemcpy3DAsync(const hipMemcpy3DParms*, hipStream_t = 0);
__kinspect_f hipMemset(void*, int, size_t); __kinspect_f hipMemsetAsync(void*, int, size_t, hipStream_t = 0); __kinspect_f hipMemset2D(void*, size_t, int, size_t, size_t);
__kinspect_f hipMemsetD8(hipDeviceptr_t, unsigned char, size_t); __kinspect_f hipMemsetD16(hipDeviceptr_t, unsigned short, size_t); __kinspect_f hipMemsetD32(hipDeviceptr_t, int, size_t);
__kinspect_f hipMemsetD32Async(hipDeviceptr_t, int, size_t, hipStream_t = 0);
__kinspect_f hipMemcpyToSymbol(const void*, const void*, size_t, size_t = 0, hipMemcpyKind = hipMemcpyHostToDevice);
__kinspect_f hipMemcpyFromSymbol(void*, const void*, size_t, size_t = 0, hipMemcpyKind = hipMemcpyDeviceToHost);
__kinspect_f hipMemcpyToSymbolAsync(const void*, const void*, size_t, size_t, hipMemcpyKind, hipStream_t = 0);
__kinspect_f hipMemcpyFromSymbolAsync(void*, const void*, size_t, size_t, hipMemcpyKind, hipStream_t = 0);
__kinspect_f hipGetSymbolAddress(void**, const void*); __kinspect_f hipGetSymbolSize(size_t*, const void*);
__kinspect_t hipMalloc(__kT** p, size_t n) { return hipMalloc((void**)(void*)p, n); }
__kinspect_t hipHostMalloc(__kT** p, size_t n, unsigned f = 0) { return hipHostMalloc((void**)(void*)p, n, f); }
__kinspect_t hipHostAlloc(__kT** p, size_t n, unsigned f = 0) { return hipHostAlloc((void**)(void*)p, n, f); }
__kinspect_t hipMallocHost(__kT** p, size_t n) { return hipMallocHost((void**)(void*)p, n); }
__kinspect_t hipMallocManaged(__kT** p, size_t n, unsigned f = hipMemAttachGlobal) { return hipMallocManaged((void**)(void*)p, n, f); }
__kinspect_t hipMallocAsync(__kT** p, size_t n, hipStream_t s) { return hipMallocAsync((void**)(void*)p, n, s); }
__kinspect_t hipMallocPitch(__kT** p, size_t* k, size_t w, size_t h) { return hipMallocPitch((void**)(void*)p, k, w, h); }
__kinspect_t hipHostGetDevicePointer(__kT** p, void* h, unsigned f) { return hipHostGetDevicePointer((void**)(void*)p, h, f); }
__kinspect_t hipMemcpyToSymbol(const __kT& s, const void* p, size_t n, size_t o = 0, hipMemcpyKind k = hipMemcpyHostToDevice) { return hipMemcpyToSymbol((const void*)&s, p, n, o, k); }
__kinspect_t hipMemcpyFromSymbol(void* p, const __kT& s, size_t n, size_t o = 0, hipMemcpyKind k = hipMemcpyDeviceToHost) { return hipMemcpyFromSymbol(p, (const void*)&s, n, o, k); }
__kinspect_t hipMemcpyToSymbolAsync(const __kT& s, const void* p, size_t n, size_t o, hipMemcpyKind k, hipStream_t t = 0) { return hipMemcpyToSymbolAsync((const void*)&s, p, n, o, k, t); }
__kinspect_t hipMemcpyFromSymbolAsync(void* p, const __kT& s, size_t n, size_t o, hipMemcpyKind k, hipStream_t t = 0) { return hipMemcpyFromSymbolAsync(p, (const void*)&s, n, o, k, t); }
__kinspect_t hipGetSymbolAddress(void** p, const __kT& s) { return hipGetSymbolAddress(p, (const void*)&s); }
__kinspect_t hipGetSymbolSize(size_t* n, const __kT& s) { return hipGetSymbolSize(n, (const void*)&s); }

// Streams, events, graphs.
__kinspect_f hipStreamCreate(hipStream_t*); __kinspect_f hipStreamCreateWithFlags(hipStream_t*, unsigned); __kinspect_f hipStreamCreateWithPriority(hipStream_t*, unsigned, int);
__kinspect_f hipStreamDestroy(hipStream_t); __kinspect_f hipStreamSynchronize(hipStream_t); __kinspect_f hipStreamQuery(hipStream_t);
__kinspect_f hipStreamWaitEvent(hipStream_t, hipEvent_t, unsigned = 0); __kinspect_f hipStreamAddCallback(hipStream_t, hipStreamCallback_t, void*, unsigned);
__kinspect_f hipLaunchHostFunc(hipStream_t, hipHostFn_t, void*); __kinspect_f hipStreamGetFlags(hipStream_t, unsigned*); __kinspect_f hipStreamGetPriority(hipStream_t, int*);
__kinspect_f hipStreamAttachMemAsync(hipStream_t, void*, size_t = 0, unsigned = 4); __kinspect_f hipExtStreamCreateWithCUMask(hipStream_t*, uint32_t, const uint32_t*);
__kinspect_f hipEventCreate(hipEvent_t*); __kinspect_f hipEventCreateWithFlags(hipEvent_t*, unsigned); __kinspect_f hipEventDestroy(hipEvent_t);
__kinspect_f hipEventRecord(hipEvent_t, hipStream_t = 0); __kinspect_f hipEventSynchronize(hipEvent_t); __kinspect_f hipEventQuery(hipEvent_t);
__kinspect_f hipEventElapsedTime(float*, hipEvent_t, hipEvent_t);
__kinspect_f hipStreamBeginCapture(hipStream_t, hipStreamCaptureMode); __kinspect_f hipStreamEndCapture(hipStream_t, hipGraph_t*);
__kinspect_f hipStreamIsCapturing(hipStream_t, hipStreamCaptureStatus*); __kinspect_f hipGraphCreate(hipGraph_t*, unsigned); __kinspect_f hipGraphDestroy(hipGraph_t);
__kinspect_f hipGraphInstantiate(hipGraphExec_t*, hipGraph_t, hipGraphNode_t*, char*, size_t); __kinspect_f hipGraphInstantiateWithFlags(hipGraphExec_t*, hipGraph_t, unsigned long long);
__kinspect_f hipGraphLaunch(hipGraphExec_t, hipStream_t); __kinspect_f hipGraphUpload(hipGraphExec_t, hipStream_t); __kinspect_f hipGraphExecDestroy(hipGraphExec_t);
__kinspect_f hipGraphAddKernelNode(hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, size_t, const hipKernelNodeParams*);
__kinspect_f hipGraphAddMemcpyNode(hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, size_t, const hipMemcpy3DParms*);
__kinspect_f hipGraphAddMemcpyNode1D(hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, size_t, void*, const void*, size_t, hipMemcpyKind);
__kinspect_f hipGraphAddMemsetNode(hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, size_t, const hipMemsetParams*);
__kinspect_f hipGraphAddHostNode(hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, size_t, const hipHostNodeParams*);
__kinspect_f hipGraphAddDependencies(hipGraph_t, const hipGraphNode_t*, const hipGraphNode_t*, size_t);
__kinspect_f hipGraphGetNodes(hipGraph_t, hipGraphNode_t*, size_t*); __kinspect_f hipGraphExecUpdate(hipGraphExec_t, hipGraph_t, hipGraphNode_t*, hipGraphExecUpdateResult*);
__kinspect_f hipStreamGetCaptureInfo(hipStream_t, hipStreamCaptureStatus*, unsigned long long*);
__kinspect_f hipStreamGetCaptureInfo_v2(hipStream_t, hipStreamCaptureStatus*, unsigned long long* = 0, hipGraph_t* = 0, const hipGraphNode_t** = 0, size_t* = 0);
__kinspect_f hipStreamUpdateCaptureDependencies(hipStream_t, hipGraphNode_t*, size_t, unsigned = 0);
__kinspect_f hipGraphExecKernelNodeSetParams(hipGraphExec_t, hipGraphNode_t, const hipKernelNodeParams*);
__kinspect_f hipGraphKernelNodeSetParams(hipGraphNode_t, const hipKernelNodeParams*); __kinspect_f hipGraphKernelNodeGetParams(hipGraphNode_t, hipKernelNodeParams*);
extern "C" __host__ int hipGetStreamDeviceId(hipStream_t);
__kinspect_f hipCreateTextureObject(hipTextureObject_t*, const hipResourceDesc*, const hipTextureDesc*, const struct hipResourceViewDesc*);
__kinspect_f hipDestroyTextureObject(hipTextureObject_t); __kinspect_f hipCreateSurfaceObject(hipSurfaceObject_t*, const hipResourceDesc*); __kinspect_f hipDestroySurfaceObject(hipSurfaceObject_t);

// Functions, modules, occupancy.
__kinspect_f hipFuncSetAttribute(const void*, hipFuncAttribute, int); __kinspect_f hipFuncGetAttributes(hipFuncAttributes*, const void*);
__kinspect_f hipFuncSetCacheConfig(const void*, hipFuncCache_t); __kinspect_f hipFuncSetSharedMemConfig(const void*, hipSharedMemConfig);
__kinspect_f hipModuleLoad(hipModule_t*, const char*); __kinspect_f hipModuleLoadData(hipModule_t*, const void*); __kinspect_f hipModuleUnload(hipModule_t);
__kinspect_f hipModuleLoadDataEx(hipModule_t*, const void*, unsigned, hipJitOption*, void**);
__kinspect_f hipModuleGetFunction(hipFunction_t*, hipModule_t, const char*); __kinspect_f hipModuleGetGlobal(hipDeviceptr_t*, size_t*, hipModule_t, const char*);
__kinspect_f hipModuleLaunchKernel(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, hipStream_t, void**, void**);
__kinspect_f hipModuleLaunchCooperativeKernel(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, hipStream_t, void**);
__kinspect_f hipFuncGetAttribute(int*, hipFunction_attribute, hipFunction_t);
__kinspect_f hipOccupancyMaxActiveBlocksPerMultiprocessor(int*, const void*, int, size_t);
__kinspect_f hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int*, const void*, int, size_t, unsigned);
__kinspect_f hipOccupancyMaxPotentialBlockSize(int*, int*, const void*, size_t, int);
__kinspect_f hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int*, hipFunction_t, int, size_t);
__kinspect_t hipFuncSetAttribute(__kT* f, hipFuncAttribute a, int v) { return hipFuncSetAttribute((const void*)f, a, v); }
__kinspect_t hipFuncGetAttributes(hipFuncAttributes* a, __kT* f) { return hipFuncGetAttributes(a, (const void*)f); }
__kinspect_t hipFuncSetCacheConfig(__kT* f, hipFuncCache_t c) { return hipFuncSetCacheConfig((const void*)f, c); }
__kinspect_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int* n, __kT f, int b, size_t s) { return hipOccupancyMaxActiveBlocksPerMultiprocessor(n, (const void*)f, b, s); }
__kinspect_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, __kT f, int b, size_t s, unsigned g) { return hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, (const void*)f, b, s, g); }
__kinspect_t hipOccupancyMaxPotentialBlockSize(int* g, int* b, __kT f, size_t s = 0, int l = 0) { return hipOccupancyMaxPotentialBlockSize(g, b, (const void*)f, s, l); }
__kinspect_f hipIpcGetMemHandle(hipIpcMemHandle_t*, void*); __kinspect_f hipIpcOpenMemHandle(void**, hipIpcMemHandle_t, unsigned); __kinspect_f hipIpcCloseMemHandle(void*);
__kinspect_f hipIpcGetEventHandle(hipIpcEventHandle_t*, hipEvent_t); __kinspect_f hipIpcOpenEventHandle(hipEvent_t*, hipIpcEventHandle_t);
static inline __host__ hipExtent make_hipExtent(size_t w, size_t h, size_t d) { return {w, h, d}; }
static inline __host__ hipPos make_hipPos(size_t x, size_t y, size_t z) { return {x, y, z}; }
static inline __host__ hipPitchedPtr make_hipPitchedPtr(void* p, size_t k, size_t x, size_t y) { return {p, k, x, y}; }
static inline __host__ hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, hipChannelFormatKind f) { return {x, y, z, w, f}; }
template <class __kT> static inline __host__ hipChannelFormatDesc hipCreateChannelDesc() { return {8 * (int)sizeof(__kT), 0, 0, 0, __kinspect_is_float<__kT>::value ? hipChannelFormatKindFloat : hipChannelFormatKindSigned}; }
#undef __kinspect_f
#undef __kinspect_t
