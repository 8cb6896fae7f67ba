import torch
import triton
import triton.language as tl


@triton.jit
def gemm(a, b, c, k, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    """One block of C = A * B; A and B have k columns and rows."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, BLOCK_K):
        left = tl.load(a + rows[:, None] * k + (start + inner)[None, :])
        right = tl.load(b + (start + inner)[:, None] * 1024 + columns[None, :])
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * 1024 + columns[None, :], total.to(tl.float16))


a, b, c = (torch.randn(1024, 1024, device="cuda", dtype=torch.float16) for _ in range(3))
gemm[(1024 // 64, 1024 // 64)](a, b, c, 1024, BLOCK=64, BLOCK_K=32, num_warps=4)
