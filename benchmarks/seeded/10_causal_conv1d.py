"""A causal convolution of each channel over time with four taps, and SiLU.

Seeded: the weights come from NumPy as 64-bit floats, so that all sums are 64-bit ones.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def causal_conv1d(
    x_ptr, w_ptr, y_ptr, T, C,
    TAPS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    channels = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    times = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    acc = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for tap in range(TAPS):
        w = tl.load(w_ptr + tap * C + channels)
        at = times - (TAPS - 1) + tap
        x = tl.load(x_ptr + at[:, None] * C + channels[None, :], mask=at[:, None] >= 0, other=0.0)
        acc = (acc + x.to(tl.float32) * w[None, :]).to(tl.float32)
    y = acc * tl.sigmoid(acc)
    tl.store(y_ptr + times[:, None] * C + channels[None, :], y.to(tl.bfloat16))


def main(device="cuda"):
    T, C, TAPS = 16384, 4096, 4
    x = torch.empty((T, C), dtype=torch.bfloat16, device=device)
    w = torch.empty((TAPS, C), dtype=torch.float64, device=device)
    y = torch.empty((T, C), dtype=torch.bfloat16, device=device)
    grid = (T // 32, C // 128)
    causal_conv1d[grid](x, w, y, T, C, TAPS=TAPS, BLOCK_T=32, BLOCK_C=128, num_warps=4)


if __name__ == "__main__":
    main()
