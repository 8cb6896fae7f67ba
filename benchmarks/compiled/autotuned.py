"""A product with an epilogue, for which max-autotune has templates."""

import torch


@torch.compile(mode="max-autotune")
def product(a, b):
    return torch.relu(a @ b) + 1


product(
    torch.randn(1024, 1024, device="cuda", dtype=torch.float16),
    torch.randn(1024, 1024, device="cuda", dtype=torch.float16),
)
