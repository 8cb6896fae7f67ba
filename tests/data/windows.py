"""Attention without maximum and sum, over all keys, with a causal mask and a window."""

import triton
import triton.language as tl


@triton.jit
def attend(
    q, k, v, o, n, far, WINDOW: tl.constexpr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
    AXIS: tl.constexpr, SKIP: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(AXIS) * M
    rows, ds = first + tl.arange(0, M), tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * D + ds[None, :])
    total = tl.zeros((M, D), tl.float32)
    begin, end = 0, n
    if SKIP:
        begin, end = tl.maximum(first - WINDOW, 0) // N * N, tl.minimum(first + M, n)
    for start in tl.range(begin, end, N, num_stages=1):
        columns = start + tl.arange(0, N)
        keys = tl.load(k + columns[None, :] * D + ds[:, None])
        scores = tl.dot(queries, keys)
        behind = rows[:, None] - columns[None, :]
        scores = tl.where((behind >= 0) & (behind < WINDOW), scores, float("-inf"))
        if far is not None:
            scores = tl.where(behind < tl.load(far), scores, float("-inf"))
        values = tl.load(v + columns[:, None] * D + ds[None, :])
        total = tl.dot(tl.exp2(scores).to(tl.float16), values, total)
    tl.store(o + rows[:, None] * D + ds[None, :], total)


def main():
    import torch

    n, m, d = 1024, 64, 64
    q, k, v = (torch.empty((n, d), dtype=torch.float16, device="cuda") for _ in range(3))
    o = torch.empty((n, d), dtype=torch.float32, device="cuda")
    far = torch.empty(1, dtype=torch.int32, device="cuda")
    sizes = {"WINDOW": 128, "M": m, "N": 64, "D": d}
    attend[(n // m,)](q, k, v, o, n, None, **sizes, AXIS=0, SKIP=False)
    attend[(2, n // m)](q, k, v, o, n, None, **sizes, AXIS=1, SKIP=False)
    attend[(n // m,)](q, k, v, o, n, None, **sizes, AXIS=0, SKIP=True)
    attend[(n // m,)](q, k, v, o, n, far, **sizes, AXIS=0, SKIP=False)


if __name__ == "__main__":
    main()
