"""Scores of one query with the keys of a sequence, which lie in pages in any order.

Seeded: positions are 64-bit integers and the size of a page is known at run time only: each lane
divides 64-bit integers in the loop, for which no GPU has an instruction.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def paged_scores(
    q_ptr, keys_ptr, pages_ptr, out_ptr, length, page_size, stride_page, stride_slot,
    HEAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    offs_d = tl.arange(0, HEAD)
    q = tl.load(q_ptr + head * HEAD + offs_d).to(tl.float32)
    for start in range(0, length, BLOCK):
        positions = start.to(tl.int64) + tl.arange(0, BLOCK)
        pages = tl.load(pages_ptr + positions // page_size)
        rows = pages * stride_page + (positions % page_size) * stride_slot
        keys = tl.load(keys_ptr + rows[:, None] + head * HEAD + offs_d[None, :])
        scores = tl.sum(keys.to(tl.float32) * q[None, :], 1)
        tl.store(out_ptr + head * length + positions, scores)


def main(device="cuda"):
    heads, head, length, page_size = 32, 128, 8192, 16
    q = torch.empty((heads, head), dtype=torch.float16, device=device)
    keys = torch.empty((2048, page_size, heads, head), dtype=torch.float16, device=device)
    pages = torch.zeros((length // page_size,), dtype=torch.int64, device=device)
    out = torch.empty((heads, length), dtype=torch.float32, device=device)
    paged_scores[(heads,)](
        q, keys, pages, out, length, page_size, keys.stride(0), keys.stride(1),
        HEAD=head, BLOCK=64, num_warps=4,
    )  # fmt: skip


if __name__ == "__main__":
    main()
