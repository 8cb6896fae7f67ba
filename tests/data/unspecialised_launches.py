"""Launches whose strides Triton cannot see to be 1, or that are not: see test_accesses.py."""

import torch
import triton
import triton.language as tl


@triton.jit
def annotated(x, y, stride: int, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at * stride))


@triton.jit
def plain(x, y, stride, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at * stride))


@triton.jit(do_not_specialize=["stride"])
def forbidden(x, y, stride, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at * stride))


@triton.jit
def rows(x, y, pitch, N: tl.constexpr):
    at = tl.program_id(0) * pitch + tl.arange(0, N)
    tl.store(y + at, tl.load(x + at))


@triton.jit
def bounded_rows(x, y, pitch, N: tl.constexpr):
    at = tl.arange(0, N)
    fits = at // 8 < pitch // 8
    tl.store(y + at, tl.load(x + tl.program_id(0) * pitch + at, mask=fits), mask=fits)


@triton.jit(do_not_specialize=["pitch"])
def forbidden_rows(x, y, pitch, N: tl.constexpr):
    at = tl.program_id(0) * pitch + tl.arange(0, N)
    tl.store(y + at, tl.load(x + at))


@triton.jit(do_not_specialize_on_alignment=["bound"])
def forbidden_bound(x, y, bound, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at, mask=at < bound), mask=at < bound)


@triton.jit
def columns(x, y, pitch: tl.int64, stride: tl.int64, N: tl.constexpr):
    """Each row of the tile is a column of y, whose elements lie stride apart."""
    at = tl.arange(0, N)
    tile = tl.load(x + at[:, None] * N + at[None, :])
    tl.store(y + at[None, :] * pitch + at[:, None] * stride, tile)


x = torch.empty(8192, dtype=torch.float16, device="cuda")
y = torch.empty(8192, dtype=torch.float16, device="cuda")
annotated[(1,)](x, y, 1, 2048)
plain[(1,)](x, y, 1, 2048)
plain[(1,)](x, y, 3, 2048)
plain[(1,)](x, y, 0, 2048)
forbidden[(1,)](x, y, 1, 2048)
rows[(4,)](x, y, 2056, 2048)
rows[(4,)](x, y, 2048, 2048)
bounded_rows[(4,)](x, y, 2052, 2048)
forbidden_rows[(4,)](x, y, 2048, 2048)
forbidden_bound[(1,)](x, y, 2048, 2048)
columns[(4,)](x, y, 64, 1, 64)
