"""The kernel of triton-lang #11696 in small: see README.md."""

import torch
import triton
import triton.language as tl


@triton.jit
def k(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + (start + depth)[None, :])
        b = tl.load(b_ptr + (start + depth)[:, None] * N + columns[None, :])
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc)


torch.manual_seed(0)
a = torch.randn(128, 256, device="cuda")
b = torch.randn(256, 128, device="cuda")
c = torch.empty(128, 128, device="cuda")
k[(1, 1)](a, b, c, 128, 128, 256, BM=128, BN=128, BK=64, num_warps=8)
torch.testing.assert_close(c, a @ b, atol=1e-4, rtol=1e-4)
