"""The kernel in `triton.gfx90a.hsaco`."""

import triton
import triton.language as tl


@triton.jit
def twice(x):
    return x + x


@triton.jit
def add(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask)
    tl.store(y_ptr + i, twice(x), mask=mask)
