"""C += A @ B for a thin A, its K split over workgroups.

Seeded: eight waves for a tile of 16 x 64, of which four at most have work of their own.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def split_k_gemm(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    pid_n = tl.program_id(0)
    pid_k = tl.program_id(1)
    offs_m = tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = pid_k * BLOCK_K + tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, tl.cdiv(K, BLOCK_K * SPLIT_K)):
        a = tl.load(a_ptrs, mask=offs_m[:, None] < M, other=0.0)
        b = tl.load(b_ptrs)
        acc += tl.dot(a, b)
        a_ptrs += BLOCK_K * SPLIT_K
        b_ptrs += BLOCK_K * SPLIT_K * stride_bk
    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :]
    tl.atomic_add(c_ptrs, acc, mask=offs_m[:, None] < M, sem="relaxed")


def main(device="cuda"):
    M, N, K = 16, 8192, 8192
    a = torch.empty((M, K), dtype=torch.bfloat16, device=device)
    b = torch.empty((K, N), dtype=torch.bfloat16, device=device)
    c = torch.zeros((M, N), dtype=torch.float32, device=device)
    SPLIT_K = 4

    def grid(meta):
        return (triton.cdiv(N, meta["BLOCK_N"]), meta["SPLIT_K"])

    split_k_gemm[grid](
        a, b, c, M, N, K, a.stride(0), b.stride(0), c.stride(0),
        BLOCK_M=16, BLOCK_N=64, BLOCK_K=128, SPLIT_K=SPLIT_K, num_warps=8, num_stages=2,
    )  # fmt: skip


if __name__ == "__main__":
    main()
