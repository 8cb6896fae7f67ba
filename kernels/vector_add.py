"""Vector addition: the smallest complete kernel, bound by memory alone.

Shapes and layouts
    x, y and out [n], contiguous, any n below 2³¹.
Dtypes
    Any number type, the same for all three.
Formula
    out[i] = x[i] + y[i]

Work: n additions; moves 3·n elements.

Answers to: Triton's tutorial 01-vector-add.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch


@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program adds BLOCK neighbours. Grid: (⌈n/BLOCK⌉,)."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n  # the last block may reach past the end
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


CONFIGS = {
    "hip": {"BLOCK": 1024, "num_warps": 4},
    "cuda": {"BLOCK": 1024, "num_warps": 4},
}


def launch(x: torch.Tensor, y: torch.Tensor, config: dict[str, Any] | None = None) -> torch.Tensor:
    """Add two vectors.

    Args:
        x: [n], contiguous.
        y: like x.
        config: block size and launch options that replace those of CONFIGS.

    Returns:
        The sum, like x.

    Raises:
        ValueError: x and y differ in shape or dtype, or are not contiguous.
    """
    import torch

    if x.shape != y.shape or x.dtype != y.dtype:
        raise ValueError(
            f"x {tuple(x.shape)} {x.dtype} and y {tuple(y.shape)} {y.dtype} must agree"
        )
    if not (x.is_contiguous() and y.is_contiguous()):
        raise ValueError("x and y must be contiguous")
    options = {**CONFIGS["hip" if torch.version.hip else "cuda"], **(config or {})}
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), options["BLOCK"]),)
    vector_add_kernel[grid](x, y, out, x.numel(), **options)
    return out


def reference(
    x: torch.Tensor, y: torch.Tensor, config: dict[str, Any] | None = None
) -> torch.Tensor:
    """The same sum in plain PyTorch; `config` is accepted and ignored."""
    return x + y


def torch_operator(
    x: torch.Tensor, y: torch.Tensor, config: dict[str, Any] | None = None
) -> torch.Tensor:
    """PyTorch's own operator for the same job; `config` is accepted and ignored."""
    import torch

    return torch.add(x, y)


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference."""
    import torch

    generator = torch.Generator(device=device).manual_seed(1)
    dtype = getattr(torch, case.get("dtype", "float32"))

    def vector() -> torch.Tensor:
        if dtype.is_floating_point:
            return torch.randn(case["n"], generator=generator, device=device).to(dtype)
        return torch.randint(-50, 50, (case["n"],), generator=generator, device=device).to(dtype)

    return {"x": vector(), "y": vector(), "config": case.get("config")}


# One addition is rounded the same way everywhere: the results must be equal bit for bit.
CASES = [
    {"name": "one_element", "n": 1, "atol": 0.0, "rtol": 0.0},
    {"name": "one_block", "n": 1024, "atol": 0.0, "rtol": 0.0},
    {"name": "ragged", "n": 3077, "atol": 0.0, "rtol": 0.0},
    {"name": "float16", "n": 2000, "dtype": "float16", "atol": 0.0, "rtol": 0.0},
    {"name": "bfloat16", "n": 2000, "dtype": "bfloat16", "atol": 0.0, "rtol": 0.0},
    {"name": "int32", "n": 2000, "dtype": "int32", "atol": 0.0, "rtol": 0.0},
    {"name": "small_block", "n": 100, "config": {"BLOCK": 32}, "atol": 0.0, "rtol": 0.0},
]

BENCH = [{"name": f"2^{i}", "n": 2**i} for i in range(12, 28)]


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """Additions, and bytes that must move at least, of a CASES or BENCH entry."""
    dtype = case.get("dtype", "float32")
    size = 2 if dtype in ("float16", "bfloat16") else 4
    return {"flop": case["n"], "bytes": 3 * size * case["n"]}


TUNING = {"BLOCK": [256, 512, 1024, 2048, 4096, 8192], "num_warps": [1, 2, 4, 8]}


def _compile_case(name: str, dtype: str, n: str, block: int, num_warps: int) -> dict[str, Any]:
    return {
        "name": name,
        "kernel": "vector_add_kernel",
        "signature": {**dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), f"*{dtype}:16"), "n": n},
        "constexprs": {"BLOCK": block},
        "options": {"num_warps": num_warps},
    }


KINSPECT_CASES = [
    _compile_case("fp32_1024", "fp32", "i32:16", 1024, 4),
    _compile_case("bf16_8192", "bf16", "i32:16", 8192, 8),
    # n is not known to be a multiple of 16: the mask breaks the wide accesses up.
    _compile_case("fp16_ragged_2048", "fp16", "i32", 2048, 4),
]
