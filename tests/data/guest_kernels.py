"""Kernels for the tests of guest and compiler: a decorated GEMM and a row sum."""

import triton
import triton.language as tl


@triton.jit
def tile(ptr, rows, cols, stride):
    return tl.load(ptr + rows[:, None] * stride + cols[None, :])


@triton.autotune(configs=[triton.Config({"BLOCK_K": 32}, num_warps=4)], key=["K"])
@triton.heuristics({"EVEN": lambda args: args["K"] % args["BLOCK_K"] == 0})
@triton.jit
def gemm(
    a_ptr,
    b_ptr,
    c_ptr,
    K,
    stride_a,
    stride_b,
    stride_bn,
    scale,
    BLOCK: tl.constexpr,
    BLOCK_K: tl.constexpr,
    EVEN: tl.constexpr,
    bias_ptr=None,
):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        acc += tl.dot(tile(a_ptr, rows, ks, stride_a), tile(b_ptr, ks, cols * stride_bn, stride_b))
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + cols)[None, :]
    tl.store(c_ptr + rows[:, None] * stride_a + cols[None, :], (acc * scale).to(tl.float16))


@triton.jit
def row_sum(x_ptr, out_ptr, n, BLOCK: tl.constexpr = 256):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x, 0))


KINSPECT_CASES = [
    {
        "name": "square",
        "kernel": "gemm",
        "signature": {
            "a_ptr": "*fp16:16",
            "b_ptr": "*fp16:16",
            "c_ptr": "*fp16:16",
            "K": "i32:16",
            "stride_a": "i32:16",
            "stride_b": "i32:16",
            "stride_bn": "i32:1",
            "scale": "fp32",
        },
        "constexprs": {"BLOCK": 64, "BLOCK_K": 32, "EVEN": True},
        "options": {"num_warps": 4},
        "grid": [16, 16],
    },
    {
        "name": "ragged",
        "kernel": "row_sum",
        "signature": {"x_ptr": "*fp32", "out_ptr": "*fp32:16", "n": "i32"},
        "small_tensors": False,
        "archs": ["gfx9*"],
    },
]
