"""Triton kernels that exchange data through LDS, one workgroup a launch or a few (`mutations`)."""

import triton
import triton.language as tl


@triton.jit
def gemm(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    rm, rn, rk = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + k + rk[None, :])
        y = tl.load(b + (k + rk)[:, None] * N + rn[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr, SHARED: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row // SHARED * n + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def transpose(x, out, n, BLOCK: tl.constexpr):
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    tile = tl.load(x + i * n + j)
    tl.store(out + i * n + j, tl.trans(tile))


@triton.jit
def scan(x, out, n, BLOCK: tl.constexpr, SHARED: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.cumsum(tl.load(x + row * BLOCK + i), 0)
    tl.store(out + row // SHARED * BLOCK + i, total)


@triton.jit
def tiles(a, b, c, K, M: tl.constexpr, N: tl.constexpr, SHARED: tl.constexpr):
    row, rm, rn, rk = tl.program_id(0), tl.arange(0, M), tl.arange(0, N), tl.arange(0, 32)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, 32):
        x = tl.load(a + (row * M + rm[:, None]) * K + k + rk[None, :])
        y = tl.load(b + (k + rk)[:, None] * N + rn[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + (row // SHARED * M + rm[:, None]) * N + rn[None, :], acc)


@triton.jit
def attention(q, k, v, out, n, BLOCK: tl.constexpr, D: tl.constexpr):
    i, j, d = tl.arange(0, BLOCK), tl.arange(0, BLOCK), tl.arange(0, D)
    qs = tl.load(q + i[:, None] * D + d[None, :])
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, D), tl.float32)
    for start in range(0, n, BLOCK):
        ks = tl.load(k + (start + j)[:, None] * D + d[None, :])
        s = tl.dot(qs, tl.trans(ks)) * 0.125
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        scale = tl.exp(top - new)
        total = total * scale + tl.sum(p, 1)
        vs = tl.load(v + (start + j)[:, None] * D + d[None, :])
        acc = acc * scale[:, None] + tl.dot(p.to(vs.dtype), vs)
        top = new
    tl.store(out + i[:, None] * D + d[None, :], acc / total[:, None])
