"""Two reductions over rows, fused."""

import torch


@torch.compile
def normalised(x, weight, bias):
    return torch.softmax(torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias), -1)


rows = torch.randn(64, 4096, device="cuda", dtype=torch.bfloat16)
ones = torch.ones(4096, device="cuda", dtype=torch.bfloat16)
normalised(rows, ones, torch.zeros_like(ones))
