"""Causal attention, forward.

Seeded: waves_per_eu=4 leaves 128 VGPRs to a tile that needs more, and the rest is spilled.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def attention_forward(
    q_ptr, k_ptr, v_ptr, o_ptr, stride_h, stride_n, n_ctx, scale,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD)
    base = head * stride_h
    q = tl.load(q_ptr + base + offs_m[:, None] * stride_n + offs_d[None, :])
    k_ptrs = k_ptr + base + offs_n[None, :] * stride_n + offs_d[:, None]
    v_ptrs = v_ptr + base + offs_n[:, None] * stride_n + offs_d[None, :]
    m_i = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), tl.float32)
    qk_scale = scale * 1.44269504
    for start_n in range(0, (start_m + 1) * BLOCK_M, BLOCK_N):
        k = tl.load(k_ptrs)
        qk = tl.dot(q, k) * qk_scale
        qk = tl.where(offs_m[:, None] >= start_n + offs_n[None, :], qk, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.exp2(qk - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(v_ptrs)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m_i = m_new
        k_ptrs += BLOCK_N * stride_n
        v_ptrs += BLOCK_N * stride_n
    acc = acc / l_i[:, None]
    o_ptrs = o_ptr + base + offs_m[:, None] * stride_n + offs_d[None, :]
    tl.store(o_ptrs, acc.to(o_ptr.dtype.element_ty))


def main(device="cuda"):
    heads, n_ctx, head = 32, 4096, 128
    q, k, v, o = (
        torch.empty((heads, n_ctx, head), dtype=torch.float16, device=device) for _ in range(4)
    )
    BLOCK_M, BLOCK_N = 128, 64
    grid = (triton.cdiv(n_ctx, BLOCK_M), heads)
    attention_forward[grid](
        q, k, v, o, q.stride(0), q.stride(1), n_ctx, head**-0.5,
        HEAD=head, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
        num_warps=4, num_stages=1, waves_per_eu=4,
    )  # fmt: skip


if __name__ == "__main__":
    main()
