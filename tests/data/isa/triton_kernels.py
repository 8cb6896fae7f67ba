"""Small kernels whose compiled form the ISA tests read; `regenerate.py` compiles them."""

import triton
import triton.language as tl


@triton.jit(noinline=True)
def blend(p, x):
    tl.store(p, x * 2.0 + 1.0)
    return tl.load(p) + x


@triton.jit
def calls(p, n):
    acc = 0.0
    for i in range(n):
        acc = blend(p + i, acc)
    tl.store(p, acc)


@triton.jit
def attend(
    q_ptr, k_ptr, o_ptr, rows, keys, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr
):
    offs_d = tl.arange(0, D)
    for row in range(tl.program_id(0), rows, 4):
        offs_m = row * BLOCK_M + tl.arange(0, BLOCK_M)
        q = tl.load(q_ptr + offs_m[:, None] * D + offs_d[None, :])
        peak = tl.full([BLOCK_M], float("-inf"), tl.float32)
        total = tl.zeros([BLOCK_M], tl.float32)
        acc = tl.zeros([BLOCK_M, D], tl.float32)
        for start in range(0, keys, BLOCK_N):
            offs_n = start + tl.arange(0, BLOCK_N)
            live = offs_n < keys
            k = tl.load(
                k_ptr + offs_n[:, None] * D + offs_d[None, :], mask=live[:, None], other=0.0
            )
            s = tl.where(live[None, :], tl.dot(q, tl.trans(k)), float("-inf"))
            new_peak = tl.maximum(peak, tl.max(s, 1))
            p = tl.exp(s - new_peak[:, None])
            scale = tl.exp(peak - new_peak)
            total = total * scale + tl.sum(p, 1)
            acc = acc * scale[:, None] + tl.dot(p.to(k.dtype), k)
            peak = new_peak
        tl.store(
            o_ptr + offs_m[:, None] * D + offs_d[None, :], (acc / total[:, None]).to(tl.float16)
        )
