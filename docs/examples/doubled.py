import torch
import triton
import triton.language as tl


@triton.jit
def doubled(x, out, n, BLOCK: tl.constexpr):
    """Doubles one block of numbers."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out + offsets, 2 * tl.load(x + offsets, mask=inside), mask=inside)


x = torch.arange(1000, device="cuda", dtype=torch.int32)
out = torch.empty_like(x)
doubled[(triton.cdiv(1000, 256),)](x, out, 1000, BLOCK=256)
assert (out == 2 * x).all()
