"""Kernels in which the facts that rules rest on can be counted by hand.

Loaded by path from tests/test_facts_*.py (Triton reads a kernel's source from its file).
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gemm(
    a, b, c, K, stride_am, stride_bk, stride_cm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The plain loop: both operands from memory, pointers carried through the loop."""
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.program_id(1) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    ap = a + om[:, None] * stride_am + ok[None, :]
    bp = b + ok[:, None] * stride_bk + on[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(ap)
        y = tl.load(bp)
        acc = tl.dot(x, y, acc)
        ap += BK
        bp += BK * stride_bk
    cp = c + om[:, None] * stride_cm + on[None, :]
    tl.store(cp, acc.to(c.dtype.element_ty))


@triton.jit
def gemm_indexed(
    a, b, c, idx, K, stride_am, stride_bk, stride_cm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The second operand is gathered: its address is itself loaded in the iteration."""
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.program_id(1) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        rows = tl.load(idx + k + ok)
        x = tl.load(a + om[:, None] * stride_am + (k + ok)[None, :])
        y = tl.load(b + rows[:, None] * stride_bk + on[None, :])
        acc = tl.dot(x, y, acc)
    cp = c + om[:, None] * stride_cm + on[None, :]
    tl.store(cp, acc.to(c.dtype.element_ty))


@triton.jit
def gemm_transposed(
    a, b, c, K, stride_am, stride_bn, stride_cm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The second operand passes through a reshape: joined halves, as packed formats are read."""
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.program_id(1) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    oh = tl.arange(0, BK // 2)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + om[:, None] * stride_am + (k + ok)[None, :])
        packed = tl.load(b + on[:, None] * stride_bn + (k // 2 + oh)[None, :])
        low = (packed & 0xF).to(tl.float16)
        high = (packed >> 4).to(tl.float16)
        y = tl.reshape(tl.join(low, high), (BN, BK))
        acc = tl.dot(x, tl.trans(y), acc)
    cp = c + om[:, None] * stride_cm + on[None, :]
    tl.store(cp, acc.to(c.dtype.element_ty))


@triton.jit
def running(a, c, n, stride, B: tl.constexpr):
    """A short loop of unknown length without a dot, which LLVM unrolls."""
    o = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for i in range(n):
        total = total * 0.5 + tl.load(a + i * stride + o)
    tl.store(c + o, total)


@triton.jit
def gemm_residual(
    a, b, c, K, stride_am, stride_bk, stride_cm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The result is added to what is there, after a prefix sum along the rows."""
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.program_id(1) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + om[:, None] * stride_am + (k + ok)[None, :])
        y = tl.load(b + (k + ok)[:, None] * stride_bk + on[None, :])
        acc = tl.dot(x, y, acc)
    cp = c + om[:, None] * stride_cm + on[None, :]
    tl.store(cp, (tl.cumsum(acc, 1) + tl.load(cp)).to(c.dtype.element_ty))
