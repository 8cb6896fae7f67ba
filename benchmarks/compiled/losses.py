"""A loss inside of the compiled function, with tied weights, under autocast."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1000, 128)
        self.head = nn.Linear(128, 1000, bias=False)
        self.words.weight = self.head.weight

    def forward(self, x, y):
        logits = self.head(self.words(x))
        return nn.functional.cross_entropy(logits.view(-1, 1000), y.view(-1))


model = Model().cuda()
compiled = torch.compile(model)
x = torch.randint(1000, (4, 64), device="cuda")
with torch.autocast("cuda", dtype=torch.bfloat16):
    loss = compiled(x, x)
loss.backward()
