// Another name of hip/hip_vector_types.h.
#pragma once
#include <hip/hip_vector_types.h>
