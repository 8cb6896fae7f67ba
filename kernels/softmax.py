"""Softmax over the rows of a matrix, online: maximum and sum are found in one pass over the row.

Shapes and layouts
    x and out [rows, cols]; columns contiguous, rows at any stride; any number of columns. A row
    that fits into BLOCK stays in registers; a wider one is walked block by block, twice.
Dtypes
    float32, float16 or bfloat16 in and out; the arithmetic is float32.
Formula
    out[i, j] = exp(x[i, j] − m[i]) / l[i], m[i] = maxⱼ x[i, j], l[i] = Σⱼ exp(x[i, j] − m[i])
    A row that holds only −inf gives NaN, as in PyTorch.

Work: 5 operations per value (maximum, difference, exp, sum, product). Moves 2 elements per value
of x, a read and a write; 3 where the row is wider than BLOCK and misses the cache.

Answers to: softmax.py of ROCm/triton's perf-kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch


@triton.jit
def softmax_kernel(
    x_ptr, out_ptr, stride_x, stride_out, n_cols,
    BLOCK: tl.constexpr, WHOLE_ROW: tl.constexpr,
):  # fmt: skip
    """One program normalises one row. WHOLE_ROW says that n_cols ≤ BLOCK. Grid: (rows,)."""
    row = tl.program_id(0).to(tl.int64)  # row·stride may pass 2³¹
    x_row = x_ptr + row * stride_x
    out_row = out_ptr + row * stride_out
    cols = tl.arange(0, BLOCK)

    if WHOLE_ROW:  # memory is read once: the row waits in registers for its maximum and sum
        in_row = cols < n_cols
        x = tl.load(x_row + cols, mask=in_row, other=float("-inf")).to(tl.float32)
        e = tl.exp(x - tl.max(x, 0))
        y = e * (1.0 / tl.sum(e, 0))  # one division for the row, not one for each value
        tl.store(out_row + cols, y.to(out_ptr.dtype.element_ty), mask=in_row)
    else:
        # First pass: running maximum and running sum. When a later block raises the maximum, the
        # sum so far is rescaled to it, so one pass over the row is enough for both.
        row_max = float("-inf")
        row_sum = 0.0
        for start in range(0, n_cols, BLOCK):
            in_row = start + cols < n_cols
            x = tl.load(x_row + start + cols, mask=in_row, other=float("-inf")).to(tl.float32)
            new_max = tl.maximum(row_max, tl.max(x, 0))
            # Nothing but −inf so far: measure from 0, for −inf − −inf is NaN.
            safe_max = tl.where(new_max == float("-inf"), 0.0, new_max)
            row_sum = row_sum * tl.exp(row_max - safe_max) + tl.sum(tl.exp(x - safe_max), 0)
            row_max = new_max

        # Second pass: the row is read again, most likely from a cache.
        inverse = 1.0 / row_sum
        for start in range(0, n_cols, BLOCK):
            in_row = start + cols < n_cols
            x = tl.load(x_row + start + cols, mask=in_row, other=float("-inf")).to(tl.float32)
            y = tl.exp(x - row_max) * inverse
            tl.store(out_row + start + cols, y.to(out_ptr.dtype.element_ty), mask=in_row)


# 1024 lanes hold 16 values each; a wider row is walked block by block.
MAX_BLOCK = 16384


def default_config(backend: str, cols: int) -> dict[str, Any]:
    """BLOCK and launch options for rows of `cols` values; backend is "hip" or "cuda"."""
    block = min(triton.next_power_of_2(cols), MAX_BLOCK)
    num_warps = 16 if block > 8192 else max(1, min(8, block // 256))
    amd_only = {"waves_per_eu": 0} if backend == "hip" else {}
    return {"BLOCK": block, "num_warps": num_warps, **amd_only}


def launch(x: torch.Tensor, config: dict[str, Any] | None = None) -> torch.Tensor:
    """Softmax over the last axis of a matrix.

    Args:
        x: [rows, cols], columns contiguous.
        config: BLOCK and launch options that replace those of default_config, which takes a
            whole row up to MAX_BLOCK columns.

    Returns:
        A contiguous matrix like x.

    Raises:
        ValueError: x is no matrix, or its columns are not contiguous.
    """
    import torch

    if x.ndim != 2 or (x.stride(1) != 1 and x.shape[1] > 1):
        raise ValueError(
            f"x must be a matrix with contiguous columns, not shape {tuple(x.shape)} with "
            f"strides {x.stride()}"
        )
    rows, cols = x.shape
    backend = "hip" if torch.version.hip else "cuda"
    options = {**default_config(backend, cols), **(config or {})}
    out = torch.empty((rows, cols), dtype=x.dtype, device=x.device)
    whole_row = cols <= options["BLOCK"]
    softmax_kernel[(rows,)](
        x, out, x.stride(0), out.stride(0), cols, WHOLE_ROW=whole_row, **options
    )
    return out


def reference(x: torch.Tensor, config: dict[str, Any] | None = None) -> torch.Tensor:
    """The same softmax in plain PyTorch, in float32; `config` is accepted and ignored."""
    import torch

    return torch.softmax(x.float(), dim=1).to(x.dtype)


def torch_operator(x: torch.Tensor, config: dict[str, Any] | None = None) -> torch.Tensor:
    """PyTorch's own operator for the same job; `config` is accepted and ignored."""
    import torch

    return torch.nn.functional.softmax(x, dim=1)


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference."""
    import torch

    generator = torch.Generator(device=device).manual_seed(2)
    rows, cols = case["rows"], case["cols"]
    x = torch.randn((rows, cols + case.get("padding", 0)), generator=generator, device=device)
    x = (3 * x).to(getattr(torch, case.get("dtype", "float32")))[:, :cols]
    x[:, : case.get("hidden_cols", 0)] = float("-inf")
    return {"x": x, "config": case.get("config")}


def _shape(rows: int, cols: int, dtype: str) -> dict[str, Any]:
    return {"rows": rows, "cols": cols, "dtype": dtype}


_FP32 = {"atol": 1e-7, "rtol": 1e-5}
_FP16 = {"dtype": "float16", "atol": 1e-6, "rtol": 1e-3}

CASES = [
    {"name": "one_value", "rows": 1, "cols": 1, **_FP32},
    {"name": "one_column", "rows": 128, "cols": 1, **_FP32},
    {"name": "one_row", "rows": 1, "cols": 128, **_FP32},
    {"name": "full_block", "rows": 2, "cols": 8192, **_FP32},
    {"name": "ragged", "rows": 23, "cols": 781, **_FP32},
    {"name": "strided_rows", "rows": 7, "cols": 100, "padding": 28, **_FP32},
    {"name": "looped", "rows": 5, "cols": 781, "config": {"BLOCK": 128}, **_FP32},
    {"name": "wider_than_max_block", "rows": 3, "cols": 20000, **_FP32},
    # The first blocks hold nothing but −inf, as a masked score matrix does.
    {
        "name": "hidden_blocks",
        "rows": 4,
        "cols": 300,
        "hidden_cols": 150,
        "config": {"BLOCK": 64},
        **_FP32,
    },
    {"name": "hidden_rows", "rows": 4, "cols": 70, "hidden_cols": 70, **_FP32},
    {"name": "float16", "rows": 9, "cols": 500, **_FP16},
    {
        "name": "float16_looped",
        "rows": 3,
        "cols": 500,
        "padding": 12,
        "config": {"BLOCK": 64},
        **_FP16,
    },
    {"name": "bfloat16", "rows": 9, "cols": 500, "dtype": "bfloat16", "atol": 1e-6, "rtol": 8e-3},
]

BENCH = [
    {
        "name": f"{rows}x{cols}" + ("_fp16" if dtype == "float16" else ""),
        **_shape(rows, cols, dtype),
    }
    for dtype in ("float32", "float16")
    for rows, cols in ((1823, 781), (8192, 1024), (8192, 8192), (4096, 16384), (2048, 32768))
]


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """Operations, and bytes that must move at least, of a CASES or BENCH entry."""
    values = case["rows"] * case["cols"]
    size = 4 if case.get("dtype", "float32") == "float32" else 2
    return {"flop": 5 * values, "bytes": 2 * size * values}


TUNING = {
    "BLOCK": [512, 1024, 2048, 4096, 8192, 16384],
    "num_warps": [1, 2, 4, 8, 16],
    "waves_per_eu": [0, 2],
}


def tuned_constexprs(case: dict[str, Any], point: dict[str, Any]) -> dict[str, Any]:
    """The constexprs of a compile case that follow from a point of TUNING.

    A case that holds its whole row states the block which the row just fits into.
    """
    stated = case["constexprs"]
    fits = stated["BLOCK"] <= point.get("BLOCK", stated["BLOCK"])
    return {"WHOLE_ROW": stated["WHOLE_ROW"] and fits}


def _compile_case(
    name: str, dtype: str, n_cols: str, block: int, num_warps: int, whole_row: bool = True
) -> dict[str, Any]:
    return {
        "name": name,
        "kernel": "softmax_kernel",
        "signature": {
            "x_ptr": f"*{dtype}:16",
            "out_ptr": f"*{dtype}:16",
            "stride_x": n_cols,
            "stride_out": n_cols,
            "n_cols": n_cols,
        },
        "constexprs": {"BLOCK": block, "WHOLE_ROW": whole_row},
        "options": {"num_warps": num_warps},
    }


KINSPECT_CASES = [
    _compile_case("fp32_1024", "fp32", "i32:16", 1024, 4),
    _compile_case("fp16_8192", "fp16", "i32:16", 8192, 8),
    # 781 columns: rows start anywhere, so every access is one element wide.
    _compile_case("fp32_ragged_1024", "fp32", "i32", 1024, 4),
    _compile_case("bf16_16384", "bf16", "i32:16", 16384, 16),
    # A row wider than a block: the loops over its blocks.
    _compile_case("fp32_walked_8192", "fp32", "i32:16", 8192, 8, whole_row=False),
]
