"""Loops with and without statements that the front end writes out: see test_code_copies.py."""

import triton
import triton.language as tl


@triton.jit
def written_out(x, y, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for step in range(STEPS):
        for part in tl.static_range(6):
            piece = tl.load(x + (step * 6 + part) * 4096 + at)
            acc += piece * (part + 1)
    tl.store(y + at, acc)


@triton.jit
def product(x, y, K, M: tl.constexpr, BLOCK: tl.constexpr):
    rows, ks = tl.arange(0, M), tl.arange(0, BLOCK)
    acc = tl.zeros((M, M), tl.float32)
    for k in range(0, K, BLOCK):
        tile = tl.load(x + rows[:, None] * K + k + ks[None, :])
        acc += tl.dot(tile, tl.trans(tile))
    tl.store(y + rows[:, None] * M + rows[None, :], acc)


_TYPES = {"x": "*fp32:16", "y": "*fp32:16"}
_SUMS = {
    "kernel": "written_out",
    "signature": _TYPES,
    "constexprs": {"STEPS": 40, "BLOCK": 256},
    "archs": ["gfx942"],
}
KINSPECT_CASES = [
    {**_SUMS, "name": "written_out", "grid": (16,)},
    {**_SUMS, "name": "full", "grid": (304,)},
    {
        "name": "pipelined",
        "kernel": "product",
        "signature": {"x": "*fp16:16", "y": "*fp32:16", "K": "i32:16"},
        "constexprs": {"M": 64, "BLOCK": 64},
        "options": {"num_stages": 3},
        "archs": ["gfx942"],
    },
]
