// Types and enumerations of HIP's host API.
#pragma once
#pragma clang system_header
#include <hip/kinspect/define.h>

typedef enum hipError_t {
  hipSuccess = 0, hipErrorInvalidValue = 1, hipErrorOutOfMemory = 2, hipErrorMemoryAllocation = 2, hipErrorNotInitialized = 3,
  hipErrorInitializationError = 3, hipErrorDeinitialized = 4, hipErrorProfilerDisabled = 5, hipErrorInvalidConfiguration = 9,
  hipErrorInvalidPitchValue = 12, hipErrorInvalidSymbol = 13, hipErrorInvalidDevicePointer = 17, hipErrorInvalidMemcpyDirection = 21,
  hipErrorInsufficientDriver = 35, hipErrorMissingConfiguration = 52, hipErrorPriorLaunchFailure = 53, hipErrorInvalidDeviceFunction = 98,
  hipErrorNoDevice = 100, hipErrorInvalidDevice = 101, hipErrorInvalidImage = 200, hipErrorInvalidContext = 201, hipErrorMapFailed = 205, hipErrorMapBufferObjectFailed = 205,
  hipErrorNoBinaryForGpu = 209, hipErrorECCNotCorrectable = 214, hipErrorUnsupportedLimit = 215, hipErrorPeerAccessUnsupported = 217,
  hipErrorInvalidKernelFile = 218, hipErrorInvalidSource = 300, hipErrorFileNotFound = 301, hipErrorSharedObjectSymbolNotFound = 302, hipErrorSharedObjectInitFailed = 303,
  hipErrorOperatingSystem = 304, hipErrorInvalidHandle = 400, hipErrorInvalidResourceHandle = 400, hipErrorIllegalState = 401,
  hipErrorNotFound = 500, hipErrorNotReady = 600, hipErrorIllegalAddress = 700, hipErrorLaunchOutOfResources = 701,
  hipErrorLaunchTimeOut = 702, hipErrorPeerAccessAlreadyEnabled = 704, hipErrorPeerAccessNotEnabled = 705, hipErrorSetOnActiveProcess = 708,
  hipErrorContextIsDestroyed = 709, hipErrorAssert = 710, hipErrorHostMemoryAlreadyRegistered = 712, hipErrorHostMemoryNotRegistered = 713,
  hipErrorLaunchFailure = 719, hipErrorCooperativeLaunchTooLarge = 720, hipErrorNotSupported = 801, hipErrorStreamCaptureUnsupported = 900,
  hipErrorStreamCaptureInvalidated = 901, hipErrorGraphExecUpdateFailure = 910, hipErrorUnknown = 999, hipErrorRuntimeMemory = 1052,
  hipErrorRuntimeOther = 1053, hipErrorTbd
} hipError_t;
typedef enum hipMemcpyKind { hipMemcpyHostToHost, hipMemcpyHostToDevice, hipMemcpyDeviceToHost, hipMemcpyDeviceToDevice, hipMemcpyDefault, hipMemcpyDeviceToDeviceNoCU = 1024 } hipMemcpyKind;
typedef enum hipFuncCache_t { hipFuncCachePreferNone, hipFuncCachePreferShared, hipFuncCachePreferL1, hipFuncCachePreferEqual } hipFuncCache_t;
typedef enum hipSharedMemConfig { hipSharedMemBankSizeDefault, hipSharedMemBankSizeFourByte, hipSharedMemBankSizeEightByte } hipSharedMemConfig;
typedef enum hipFuncAttribute { hipFuncAttributeMaxDynamicSharedMemorySize = 8, hipFuncAttributePreferredSharedMemoryCarveout = 9, hipFuncAttributeMax } hipFuncAttribute;
typedef enum hipFunction_attribute { HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, HIP_FUNC_ATTRIBUTE_NUM_REGS, HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 } hipFunction_attribute;
typedef enum hipLimit_t { hipLimitStackSize, hipLimitPrintfFifoSize, hipLimitMallocHeapSize } hipLimit_t;
typedef enum hipMemoryAdvise { hipMemAdviseSetReadMostly = 1, hipMemAdviseUnsetReadMostly, hipMemAdviseSetPreferredLocation, hipMemAdviseUnsetPreferredLocation, hipMemAdviseSetAccessedBy, hipMemAdviseUnsetAccessedBy, hipMemAdviseSetCoarseGrain = 100, hipMemAdviseUnsetCoarseGrain } hipMemoryAdvise;
typedef enum hipMemoryType { hipMemoryTypeUnregistered, hipMemoryTypeHost, hipMemoryTypeDevice, hipMemoryTypeManaged, hipMemoryTypeArray = 10, hipMemoryTypeUnified } hipMemoryType;
typedef enum hipStreamCaptureMode { hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal, hipStreamCaptureModeRelaxed } hipStreamCaptureMode;
typedef enum hipStreamCaptureStatus { hipStreamCaptureStatusNone, hipStreamCaptureStatusActive, hipStreamCaptureStatusInvalidated } hipStreamCaptureStatus;
typedef enum hipStreamUpdateCaptureDependenciesFlags { hipStreamAddCaptureDependencies, hipStreamSetCaptureDependencies } hipStreamUpdateCaptureDependenciesFlags;
typedef enum hipGraphExecUpdateResult { hipGraphExecUpdateSuccess, hipGraphExecUpdateError } hipGraphExecUpdateResult;
typedef enum hipChannelFormatKind { hipChannelFormatKindSigned, hipChannelFormatKindUnsigned, hipChannelFormatKindFloat, hipChannelFormatKindNone } hipChannelFormatKind;
typedef enum hipResourceType { hipResourceTypeArray, hipResourceTypeMipmappedArray, hipResourceTypeLinear, hipResourceTypePitch2D } hipResourceType;
typedef enum hipTextureAddressMode { hipAddressModeWrap, hipAddressModeClamp, hipAddressModeMirror, hipAddressModeBorder } hipTextureAddressMode;
typedef enum hipTextureFilterMode { hipFilterModePoint, hipFilterModeLinear } hipTextureFilterMode;
typedef enum hipTextureReadMode { hipReadModeElementType, hipReadModeNormalizedFloat } hipTextureReadMode;
typedef enum hipComputeMode { hipComputeModeDefault, hipComputeModeExclusive, hipComputeModeProhibited, hipComputeModeExclusiveProcess } hipComputeMode;
typedef enum hipMemPoolAttr { hipMemPoolReuseFollowEventDependencies = 1, hipMemPoolAttrReleaseThreshold = 4, hipMemPoolAttrReservedMemCurrent, hipMemPoolAttrReservedMemHigh, hipMemPoolAttrUsedMemCurrent, hipMemPoolAttrUsedMemHigh } hipMemPoolAttr;
typedef enum hipJitOption { HIPRTC_JIT_MAX_REGISTERS, HIPRTC_JIT_OPTIMIZATION_LEVEL } hipJitOption;
typedef enum hipDeviceAttribute_t {
  hipDeviceAttributeEccEnabled, hipDeviceAttributeCanMapHostMemory, hipDeviceAttributeClockRate, hipDeviceAttributeComputeCapabilityMajor,
  hipDeviceAttributeComputeCapabilityMinor, hipDeviceAttributeComputeMode, hipDeviceAttributeConcurrentKernels, hipDeviceAttributeConcurrentManagedAccess,
  hipDeviceAttributeCooperativeLaunch, hipDeviceAttributeGlobalMemoryBusWidth, hipDeviceAttributeIntegrated, hipDeviceAttributeImageSupport, hipDeviceAttributeIsMultiGpuBoard,
  hipDeviceAttributeL2CacheSize, hipDeviceAttributeManagedMemory, hipDeviceAttributeMaxBlocksPerMultiProcessor, hipDeviceAttributeMaxBlockDimX,
  hipDeviceAttributeMaxBlockDimY, hipDeviceAttributeMaxBlockDimZ, hipDeviceAttributeMaxGridDimX, hipDeviceAttributeMaxGridDimY, hipDeviceAttributeMaxGridDimZ,
  hipDeviceAttributeMaxRegistersPerBlock, hipDeviceAttributeMaxRegistersPerMultiprocessor, hipDeviceAttributeMaxSharedMemoryPerBlock,
  hipDeviceAttributeSharedMemPerBlockOptin, hipDeviceAttributeMaxSharedMemoryPerMultiprocessor, hipDeviceAttributeMaxThreadsPerBlock,
  hipDeviceAttributeMaxThreadsPerMultiProcessor, hipDeviceAttributeMemoryClockRate, hipDeviceAttributeMemoryPoolsSupported, hipDeviceAttributeMultiprocessorCount,
  hipDeviceAttributePageableMemoryAccess, hipDeviceAttributePciBusId, hipDeviceAttributePciDeviceId, hipDeviceAttributeTotalConstantMemory,
  hipDeviceAttributeUnifiedAddressing, hipDeviceAttributeWarpSize, hipDeviceAttributeWallClockRate, hipDeviceAttributeDirectManagedMemAccessFromHost
} hipDeviceAttribute_t;
#define hipMemAttachGlobal 1
#define hipMemAttachHost 2
#define hipMemAttachSingle 4
#define hipEventDefault 0
#define hipEventBlockingSync 1
#define hipEventDisableTiming 2
#define hipEventInterprocess 4
#define hipEventReleaseToDevice 0x40000000
#define hipStreamDefault 0
#define hipStreamNonBlocking 1
#define hipHostMallocDefault 0
#define hipHostMallocPortable 1
#define hipHostMallocMapped 2
#define hipHostMallocWriteCombined 4
#define hipHostMallocCoherent 0x40000000
#define hipHostMallocNumaUser 0x20000000
#define hipHostMallocNonCoherent (0x80000000)
#define hipHostRegisterDefault 0
#define hipHostRegisterPortable 1
#define hipHostRegisterMapped 2
#define hipHostAllocDefault 0
#define hipHostAllocPortable 1
#define hipHostAllocMapped 2
#define hipHostAllocWriteCombined 4
#define hipDeviceScheduleAuto 0
#define hipDeviceScheduleSpin 1
#define hipDeviceScheduleYield 2
#define hipDeviceScheduleBlockingSync 4
#define hipDeviceMapHost 8
#define hipDeviceMallocDefault 0
#define hipDeviceMallocFinegrained 1
#define hipDeviceMallocUncached 3
#define hipIpcMemLazyEnablePeerAccess 1
#define hipArrayDefault 0
#define hipCpuDeviceId (-1)
#define hipInvalidDeviceId (-2)

typedef struct ihipStream_t* hipStream_t; typedef struct ihipEvent_t* hipEvent_t; typedef struct ihipModule_t* hipModule_t;
typedef struct ihipModuleSymbol_t* hipFunction_t; typedef struct ihipGraph* hipGraph_t; typedef struct hipGraphExec* hipGraphExec_t;
typedef struct hipGraphNode* hipGraphNode_t; typedef struct ihipCtx_t* hipCtx_t; typedef struct ihipMemPoolHandle_t* hipMemPool_t;
typedef struct hipArray* hipArray_t; typedef unsigned long long hipTextureObject_t; typedef unsigned long long hipSurfaceObject_t;
typedef int hipDevice_t; typedef void* hipDeviceptr_t;
typedef void (*hipStreamCallback_t)(hipStream_t, hipError_t, void*); typedef void (*hipHostFn_t)(void*);
typedef struct hipUUID { char bytes[16]; } hipUUID;
typedef struct hipIpcMemHandle_t { char reserved[64]; } hipIpcMemHandle_t; typedef struct hipIpcEventHandle_t { char reserved[64]; } hipIpcEventHandle_t;
typedef struct hipExtent { size_t width, height, depth; } hipExtent;
typedef struct hipPos { size_t x, y, z; } hipPos;
typedef struct hipPitchedPtr { void* ptr; size_t pitch, xsize, ysize; } hipPitchedPtr;
typedef struct hipChannelFormatDesc { int x, y, z, w; hipChannelFormatKind f; } hipChannelFormatDesc;
typedef struct hipResourceDesc {
  hipResourceType resType;
  union {
    struct { hipArray_t array; } array;
    struct { void* devPtr; hipChannelFormatDesc desc; size_t sizeInBytes; } linear;
    struct { void* devPtr; hipChannelFormatDesc desc; size_t width, height, pitchInBytes; } pitch2D;
  } res;
} hipResourceDesc;
typedef struct hipTextureDesc { hipTextureAddressMode addressMode[3]; hipTextureFilterMode filterMode; hipTextureReadMode readMode; int sRGB; float borderColor[4]; int normalizedCoords; unsigned maxAnisotropy; } hipTextureDesc;
typedef struct hipMemcpy3DParms { hipArray_t srcArray; hipPos srcPos; hipPitchedPtr srcPtr; hipArray_t dstArray; hipPos dstPos; hipPitchedPtr dstPtr; hipExtent extent; hipMemcpyKind kind; } hipMemcpy3DParms;
typedef struct hipMemsetParams { void* dst; unsigned elementSize; size_t height, pitch; unsigned value; size_t width; } hipMemsetParams;
typedef struct hipHostNodeParams { hipHostFn_t fn; void* userData; } hipHostNodeParams;
typedef struct hipPointerAttribute_t { hipMemoryType type; int device; void *devicePointer, *hostPointer; int isManaged; unsigned allocationFlags; } hipPointerAttribute_t;
typedef struct hipFuncAttributes { int binaryVersion, cacheModeCA; size_t constSizeBytes, localSizeBytes; int maxDynamicSharedSizeBytes, maxThreadsPerBlock, numRegs, preferredShmemCarveout, ptxVersion; size_t sharedSizeBytes; } hipFuncAttributes;
typedef struct hipDeviceArch_t { unsigned hasGlobalInt32Atomics : 1, hasSharedInt32Atomics : 1, hasDoubles : 1, hasWarpVote : 1, hasWarpBallot : 1, hasWarpShuffle : 1, has3dGrid : 1; } hipDeviceArch_t;
typedef struct hipDeviceProp_t {
  char name[256]; hipUUID uuid; char luid[8]; unsigned luidDeviceNodeMask; size_t totalGlobalMem, sharedMemPerBlock; int regsPerBlock, warpSize; size_t memPitch;
  int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate; size_t totalConstMem; int major, minor; size_t textureAlignment, texturePitchAlignment;
  int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode, maxTexture1D, maxTexture2D[2], maxTexture3D[3];
  int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount, unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize;
  int persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported; size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported, singleToDoublePrecisionPerfRatio, pageableMemoryAccess;
  int concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem, cooperativeLaunch, cooperativeMultiDeviceLaunch; size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize; size_t reservedSharedMemPerBlock;
  int memoryPoolsSupported; char gcnArchName[256]; size_t maxSharedMemoryPerMultiProcessor; int clockInstructionRate, gcnArch, isLargeBar, asicRevision; hipDeviceArch_t arch;
} hipDeviceProp_t;
#include <hip/hip_vector_types.h>
typedef struct hipKernelNodeParams { dim3 blockDim; void** extra; void* func; dim3 gridDim; void** kernelParams; unsigned sharedMemBytes; } hipKernelNodeParams;
#define HIP_LAUNCH_PARAM_BUFFER_POINTER ((void*)1)
#define HIP_LAUNCH_PARAM_BUFFER_SIZE ((void*)2)
#define HIP_LAUNCH_PARAM_END ((void*)3)
