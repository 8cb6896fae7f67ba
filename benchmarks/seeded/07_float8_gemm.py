"""C = A @ B.T of 8-bit floats.

Seeded: kpack is left at 1, so that a lane reads its 8 bytes of an operand from LDS by themselves.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def float8_gemm(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bn, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :]
    b_ptrs = b_ptr + offs_n[None, :] * stride_bn + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs)
        b = tl.load(b_ptrs)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :]
    tl.store(c_ptrs, acc.to(tl.bfloat16))


def main(device="cuda"):
    M, N, K = 8192, 8192, 8192
    a = torch.empty((M, K), dtype=torch.float8_e4m3fnuz, device=device)
    b = torch.empty((N, K), dtype=torch.float8_e4m3fnuz, device=device)
    c = torch.empty((M, N), dtype=torch.bfloat16, device=device)
    BLOCK_M, BLOCK_N = 128, 128
    float8_gemm[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        a, b, c, M, N, K, a.stride(0), b.stride(0), c.stride(0),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=64, num_warps=4, num_stages=2,
        matrix_instr_nonkdim=16, kpack=1,
    )  # fmt: skip


if __name__ == "__main__":
    main()
