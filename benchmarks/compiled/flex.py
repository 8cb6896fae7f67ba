"""Flex attention with a block mask."""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

flex = torch.compile(flex_attention)


def causal(batch, head, row, column):
    return row >= column


mask = create_block_mask(causal, 1, 1, 1024, 1024, device="cuda")
query = torch.randn(2, 8, 1024, 64, device="cuda", dtype=torch.float16)
flex(query, torch.randn_like(query), torch.randn_like(query), block_mask=mask)
