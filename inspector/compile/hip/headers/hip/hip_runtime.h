// HIP's device and host names for device-side compilation without ROCm.
#pragma once
#pragma clang system_header
#include <hip/kinspect/define.h>
#include <hip/hip_vector_types.h>
#include <hip/kinspect/math.h>
#include <hip/kinspect/device.h>
#include <hip/hip_runtime_api.h>
