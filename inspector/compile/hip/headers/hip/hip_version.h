// Another name of hip/kinspect/define.h.
#pragma once
#include <hip/kinspect/define.h>
