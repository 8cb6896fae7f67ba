// What clang's wrapper for HIP brings of the C++ library, for sources that rest on it.
#pragma once
#pragma clang system_header
#include <algorithm>
#include <chrono>
#include <complex>
#include <new>
#include <string>
