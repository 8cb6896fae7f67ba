// Another name of hip/kinspect/math_constants.h.
#pragma once
#include <hip/kinspect/math_constants.h>
