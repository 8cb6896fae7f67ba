"""C = A @ dequantised(B), B of 8-bit integers with a scale for each column.

Seeded: num_stages=4, as for GPUs with more LDS: its buffers do not fit into the 64 KiB of a CU.
"""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config(
            {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8},
            num_warps=4,
            num_stages=4,
        ),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def dequant_gemm(
    a_ptr, b_ptr, scale_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    num_m, num_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group = pid // (GROUP_M * num_n)
    size = min(num_m - group * GROUP_M, GROUP_M)
    pid_m = group * GROUP_M + (pid % (GROUP_M * num_n)) % size
    pid_n = (pid % (GROUP_M * num_n)) // size
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs)
        b = tl.load(b_ptrs)
        acc += tl.dot(a, b.to(tl.float16))
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_bk
    scale = tl.load(scale_ptr + offs_n)
    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :]
    tl.store(c_ptrs, (acc * scale[None, :]).to(tl.float16))


def main(device="cuda"):
    M, N, K = 4096, 4096, 4096
    a = torch.empty((M, K), dtype=torch.float16, device=device)
    b = torch.empty((K, N), dtype=torch.int8, device=device)
    scale = torch.empty((N,), dtype=torch.float32, device=device)
    c = torch.empty((M, N), dtype=torch.float16, device=device)

    def grid(meta):
        return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)

    dequant_gemm[grid](a, b, scale, c, M, N, K, a.stride(0), b.stride(0), c.stride(0))


if __name__ == "__main__":
    main()
