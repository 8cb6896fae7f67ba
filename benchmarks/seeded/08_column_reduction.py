"""Sums of the columns of a matrix, each workgroup those of a few columns.

Seeded: 16 waves for a tile of 16 x 16: of 1024 lanes 768 load and add what others do already.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def column_sums(x_ptr, out_ptr, M, stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    offs_m = tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    x_ptrs = x_ptr + offs_m[:, None] * stride + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, M, BLOCK_M):
        acc += tl.load(x_ptrs)
        x_ptrs += BLOCK_M * stride
    tl.store(out_ptr + offs_n, tl.sum(acc, 0))


def main(device="cuda"):
    M, N = 16384, 16384
    x = torch.empty((M, N), dtype=torch.float32, device=device)
    out = torch.empty((N,), dtype=torch.float32, device=device)
    BLOCK_N = 16
    column_sums[(triton.cdiv(N, BLOCK_N),)](
        x, out, M, x.stride(0), BLOCK_M=16, BLOCK_N=BLOCK_N, num_warps=16
    )


if __name__ == "__main__":
    main()
