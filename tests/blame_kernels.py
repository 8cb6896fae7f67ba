"""A script that several tests compile with two Tritons."""

GEMM = """
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def product(a, b, c, N, K, M: tl.constexpr, BK: tl.constexpr):
        rows = tl.program_id(0) * M + tl.arange(0, M)
        columns = tl.program_id(1) * M + tl.arange(0, M)
        inner = tl.arange(0, BK)
        at_a = a + rows[:, None] * K + inner[None, :]
        at_b = b + inner[:, None] * N + columns[None, :]
        total = tl.zeros((M, M), tl.float32)
        for _ in range(0, K, BK):
            total += tl.dot(tl.load(at_a), tl.load(at_b))
            at_a += BK
            at_b += BK * N
        tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))

    x = torch.empty((4096, 4096), dtype=torch.float16, device="cuda")
    product[(32, 32)](x, x, x, 4096, 4096, 128, 64, num_warps=4)
"""
