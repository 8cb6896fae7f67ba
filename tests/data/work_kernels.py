"""Loops whose needed work is known by hand: unrolled by LLVM, pipelined, unrolled to the end."""

import triton
import triton.language as tl


@triton.jit
def product(
    a_ptr,
    b_ptr,
    c_ptr,
    BLOCK: tl.constexpr,
    BLOCK_K: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr = "ieee",
):
    rows = tl.arange(0, BLOCK)
    ks = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    a_ptrs = a_ptr + rows[:, None] * DEPTH + ks[None, :]
    b_ptrs = b_ptr + ks[:, None] * BLOCK + rows[None, :]
    for k in range(0, DEPTH, BLOCK_K):
        a, b = tl.load(a_ptrs + k), tl.load(b_ptrs + k * BLOCK)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    tl.store(c_ptr + rows[:, None] * BLOCK + rows[None, :], acc)


@triton.jit
def walked(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        acc += tl.load(x_ptr + start + at) * tl.load(out_ptr + start + at)
    tl.store(out_ptr + at, acc)


@triton.jit
def summed(x_ptr, out_ptr, BLOCK: tl.constexpr, LENGTH: tl.constexpr):
    at = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, LENGTH, BLOCK):
        acc += tl.load(x_ptr + start + at)
    tl.store(out_ptr + at, acc)


@triton.jit
def once(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) + tl.load(y_ptr + at))


def _case(kernel, name, constexprs, element="fp16", **options):
    types = {
        "product": {f"{name}_ptr": f"*{element}:16" for name in "ab"} | {"c_ptr": "*fp32:16"},
        "walked": {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16", "n": "i32:16"},
        "summed": {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16"},
        "once": {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16", "out_ptr": "*fp32:16"},
    }
    return {
        "name": name,
        "kernel": kernel,
        "signature": types[kernel],
        "constexprs": constexprs,
        "options": {"num_warps": 4, **options},
    }


KINSPECT_CASES = [
    _case("product", "twice", {"BLOCK": 64, "BLOCK_K": 32, "DEPTH": 1024}, num_stages=1),
    _case("product", "staged", {"BLOCK": 64, "BLOCK_K": 64, "DEPTH": 1024}, num_stages=2),
    _case("product", "square", {"BLOCK": 128, "BLOCK_K": 32, "DEPTH": 1024}, num_stages=1),
    _case("product", "wide", {"BLOCK": 64, "BLOCK_K": 32, "DEPTH": 1024}, num_warps=8),
    _case(
        "product",
        "split",
        {"BLOCK": 64, "BLOCK_K": 32, "DEPTH": 1024, "PRECISION": "bf16x3"},
        element="fp32",
    ),
    _case("walked", "each", {"BLOCK": 1024}),
    _case("summed", "whole", {"BLOCK": 256, "LENGTH": 1024}),
    _case("once", "no_loop", {"BLOCK": 512}),
    _case("once", "larger", {"BLOCK": 1024}),
]
