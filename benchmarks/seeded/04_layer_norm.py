"""Layer normalisation of wide rows, a block of columns after the other.

Seeded: of a block of 65536 columns each lane has 256, and two running sums for each: spills.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm(
    x_ptr, w_ptr, b_ptr, y_ptr, stride, N, eps,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    x_row = x_ptr + row * stride
    y_row = y_ptr + row * stride
    total = tl.zeros((BLOCK_SIZE,), tl.float32)
    squares = tl.zeros((BLOCK_SIZE,), tl.float32)
    for start in range(0, N, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_row + cols, mask=cols < N, other=0.0).to(tl.float32)
        total += x
        squares += x * x
    mean = tl.sum(total) / N
    rstd = 1.0 / tl.sqrt(tl.sum(squares) / N - mean * mean + eps)
    for start in range(0, N, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = cols < N
        x = tl.load(x_row + cols, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_row + cols, ((x - mean) * rstd * w + b).to(tl.float16), mask=mask)


def main(device="cuda"):
    rows, columns = 2048, 131072
    x = torch.empty((rows, columns), dtype=torch.float16, device=device)
    y = torch.empty((rows, columns), dtype=torch.float16, device=device)
    w = torch.empty((columns,), dtype=torch.float16, device=device)
    b = torch.empty((columns,), dtype=torch.float16, device=device)
    layer_norm[(rows,)](x, w, b, y, x.stride(0), columns, 1e-5, BLOCK_SIZE=65536, num_warps=4)


if __name__ == "__main__":
    main()
