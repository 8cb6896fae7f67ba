// Cooperative groups, by CUDA's name.
#pragma once
#include <cuda_runtime.h>
#include <hip/hip_cooperative_groups.h>
