// Another name of hip/hip_complex.h.
#pragma once
#include <hip/hip_complex.h>
