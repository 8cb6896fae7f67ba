"""y = x.T, tile by tile, for any strides of x and y.

Seeded: the strides are not specialised, to save compiles for each shape; so that no stride is known
to be 1, nor a multiple of 16, and each element is loaded and stored by itself.
"""

import torch
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["stride_xm", "stride_xn", "stride_yn", "stride_ym"])
def transposed_copy(
    x_ptr, y_ptr, M, N, stride_xm, stride_xn, stride_yn, stride_ym,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    tile = tl.load(x_ptr + offs_m[:, None] * stride_xm + offs_n[None, :] * stride_xn)
    out = y_ptr + offs_n[:, None] * stride_yn + offs_m[None, :] * stride_ym
    tl.store(out, tl.trans(tile))


def main(device="cuda"):
    M, N = 8192, 8192
    x = torch.empty((M, N), dtype=torch.float16, device=device)
    y = torch.empty((N, M), dtype=torch.float16, device=device)
    grid = (M // 64, N // 64)
    transposed_copy[grid](
        x, y, M, N, x.stride(0), x.stride(1), y.stride(0), y.stride(1),
        BLOCK_M=64, BLOCK_N=64, num_warps=4,
    )  # fmt: skip


if __name__ == "__main__":
    main()
