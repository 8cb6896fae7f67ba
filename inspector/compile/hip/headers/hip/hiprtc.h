// hipRTC's API, declared so that host code parses.
#pragma once
#pragma clang system_header
#include <hip/hip_runtime.h>
typedef enum hiprtcResult { HIPRTC_SUCCESS, HIPRTC_ERROR_OUT_OF_MEMORY, HIPRTC_ERROR_PROGRAM_CREATION_FAILURE, HIPRTC_ERROR_INVALID_INPUT, HIPRTC_ERROR_INVALID_PROGRAM, HIPRTC_ERROR_INVALID_OPTION, HIPRTC_ERROR_COMPILATION } hiprtcResult;
typedef struct _hiprtcProgram* hiprtcProgram;
extern "C" __host__ const char* hiprtcGetErrorString(hiprtcResult);
#define __kinspect_f extern "C" __host__ hiprtcResult
__kinspect_f hiprtcVersion(int*, int*); __kinspect_f hiprtcCreateProgram(hiprtcProgram*, const char*, const char*, int, const char**, const char**);
__kinspect_f hiprtcDestroyProgram(hiprtcProgram*); __kinspect_f hiprtcCompileProgram(hiprtcProgram, int, const char**);
__kinspect_f hiprtcGetCodeSize(hiprtcProgram, size_t*); __kinspect_f hiprtcGetCode(hiprtcProgram, char*);
__kinspect_f hiprtcGetProgramLogSize(hiprtcProgram, size_t*); __kinspect_f hiprtcGetProgramLog(hiprtcProgram, char*);
__kinspect_f hiprtcAddNameExpression(hiprtcProgram, const char*); __kinspect_f hiprtcGetLoweredName(hiprtcProgram, const char*, const char**);
#undef __kinspect_f
