// Types of elements that ROCm's libraries name.
#pragma once
typedef enum hipDataType {
  HIP_R_32F, HIP_R_64F, HIP_R_16F, HIP_R_8I, HIP_C_32F, HIP_C_64F, HIP_C_16F, HIP_C_8I, HIP_R_8U, HIP_C_8U, HIP_R_32I, HIP_C_32I,
  HIP_R_32U, HIP_C_32U, HIP_R_16BF, HIP_C_16BF, HIP_R_8F_E4M3 = 28, HIP_R_8F_E5M2 = 29, HIP_R_8F_E4M3_FNUZ = 1000, HIP_R_8F_E5M2_FNUZ = 1001
} hipDataType;
typedef enum hipLibraryPropertyType { HIP_LIBRARY_MAJOR_VERSION, HIP_LIBRARY_MINOR_VERSION, HIP_LIBRARY_PATCH_LEVEL } hipLibraryPropertyType;
