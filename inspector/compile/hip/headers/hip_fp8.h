// hip/hip_fp8.h, for code that is built with the folder hip/ as a path of headers.
#pragma once
#include <hip/hip_fp8.h>
