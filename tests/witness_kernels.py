"""Kernels whose results have one right bit pattern, for comparing emulators whole."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x_ptr + at, mask=inside) + tl.load(y_ptr + at, mask=inside)
    tl.store(out_ptr + at, total, mask=inside)


@triton.jit
def convert(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x_ptr + at, mask=inside).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + at, value, mask=inside)


@triton.jit
def divide(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x, y = tl.load(x_ptr + at, mask=inside), tl.load(y_ptr + at, mask=inside, other=1)
    tl.store(out_ptr + at, (x // y) * 1000 + x % y, mask=inside)


@triton.jit
def reduce(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=0)
    tl.store(out_ptr + 2 * row, tl.sum(x, 0))
    tl.store(out_ptr + 2 * row + 1, tl.max(x, 0))


@triton.jit
def scan(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + at, tl.cumsum(x, 0), mask=at < n)


@triton.jit
def sort(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0x7FFFFFFF)
    tl.store(out_ptr + at, tl.sort(x), mask=at < n)


@triton.jit
def transpose(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    rows, cols = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + rows * n + cols)
    tl.store(out_ptr + rows * n + cols, tl.trans(x))


@triton.jit
def gemm(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    rows, cols = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    ks = tl.arange(0, 32)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, n, 32):
        a = tl.load(a_ptr + rows * n + k + ks[None, :])
        b = tl.load(b_ptr + (k + ks)[:, None] * BLOCK + cols)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows * BLOCK + cols, acc)


@triton.jit
def histogram(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x_ptr + at, mask=at < n, other=0), 64)
    tl.atomic_add(out_ptr + tl.arange(0, 64), counts)


@triton.jit
def collatz(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Waves take different numbers of iterations, workgroups too."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=1)
    steps = tl.zeros((BLOCK,), tl.int32)
    while tl.max(x, 0) > 1:
        steps += (x > 1).to(tl.int32)
        following = tl.where(x % 2 == 0, x // 2, 3 * x + 1)
        x = tl.where(x > 1, following, x)
    tl.store(out_ptr + at, steps, mask=at < n)
