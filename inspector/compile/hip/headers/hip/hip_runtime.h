// HIP's device and host names for device-side compilation without ROCm.
#pragma clang system_header
#include <hip/kinspect/define.h>
#include <hip/hip_vector_types.h>
#include <hip/kinspect/math.h>
#include <hip/kinspect/device.h>
#include <hip/hip_runtime_api.h>

// Read again when a file that asks for the template includes this after -include has.
#if defined(HIP_TEMPLATE_KERNEL_LAUNCH) && defined(hipLaunchKernelGGL)
#undef hipLaunchKernelGGL
template <class... __kA, class __kF = void (*)(__kA...)> static inline __host__ void hipLaunchKernelGGL(__kF k, dim3 g, dim3 b, unsigned s, hipStream_t t, __kA... a) { k<<<g, b, s, t>>>(a...); }
#endif
