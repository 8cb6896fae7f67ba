"""Autocast around a compiled module, with its backward pass, and inside of a function."""

import torch

model = torch.compile(torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU()).cuda())
x = torch.randn(64, 256, device="cuda")
with torch.autocast("cuda", dtype=torch.bfloat16):
    model(x)


@torch.compile
def inside(a, b):
    with torch.autocast("cuda", dtype=torch.float16):
        return torch.relu(a @ b) + 1


inside(x, torch.randn(256, 64, device="cuda"))
