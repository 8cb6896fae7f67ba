"""Three steps of training: forward, backward, an optimiser."""

import torch
from torch import nn

layers = nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 10)
model = nn.Sequential(*layers).to("cuda")
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
compiled = torch.compile(model)
for _ in range(3):
    x = torch.randn(128, 256, device="cuda")
    y = torch.randint(0, 10, (128,), device="cuda")
    loss = nn.functional.cross_entropy(compiled(x), y)
    loss.backward()
    optimiser.step()
    optimiser.zero_grad()
