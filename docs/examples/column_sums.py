import torch
import triton
import triton.language as tl


@triton.jit
def column_sums(x, out, rows, stride, BLOCK: tl.constexpr):
    """Adds up one block of columns."""
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(rows):
        total += tl.load(x + columns * stride + row).to(tl.float32)
    tl.store(out + columns, total)


x = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)  # of a transposed matrix
out = torch.empty(4096, device="cuda")
column_sums[(4096 // 256,)](x, out, 4096, 4096, BLOCK=256)
