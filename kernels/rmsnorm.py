"""RMS normalisation over the rows of a matrix, by persistent programs that keep the weight at hand.

Shapes and layouts
    x and out [rows, cols]; columns contiguous, rows at any stride; weight [cols], contiguous. Any
    number of rows and columns. A row that fits into BLOCK stays in registers, and so does the
    weight, for all rows of a program; a wider row is walked block by block, twice.
Dtypes
    x: float32, float16 or bfloat16, and out like x; weight: any of the three. The arithmetic is
    float32.
Formula
    out[i, j] = x[i, j] · weight[j] / √(meanⱼ(x[i, j]²) + eps), eps = 1e-6 by default.
    The weight may be stored less one ("zero-centred"): then 1 + weight[j] takes its place.

Work: 4 operations per value (square, sum, two products). Moves 2 elements per value of x, a read
and a write; 3 where the row is wider than BLOCK and misses the cache.

Answers to: rmsnorm.py of ROCm/triton's perf-kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch


@triton.jit
def load_weight(weight_ptr, cols, n_cols, ZERO_CENTRED: tl.constexpr):
    """The weights of a block of columns, in float32."""
    weight = tl.load(weight_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    if ZERO_CENTRED:
        weight += 1.0
    return weight


@triton.jit
def rmsnorm_kernel(
    x_ptr, weight_ptr, out_ptr, stride_x, stride_out, n_rows, n_cols, eps,
    BLOCK: tl.constexpr, WHOLE_ROW: tl.constexpr, ZERO_CENTRED: tl.constexpr,
):  # fmt: skip
    """One program normalises every num_programs-th row.

    WHOLE_ROW says that n_cols ≤ BLOCK. Grid: (any number up to n_rows,).
    """
    cols = tl.arange(0, BLOCK)
    if WHOLE_ROW:
        weight = load_weight(weight_ptr, cols, n_cols, ZERO_CENTRED)
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        x_row = x_ptr + tl.cast(row, tl.int64) * stride_x  # row·stride may pass 2³¹
        out_row = out_ptr + tl.cast(row, tl.int64) * stride_out
        if WHOLE_ROW:
            x = tl.load(x_row + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
            inverse = tl.rsqrt(tl.sum(x * x, 0) / n_cols + eps)
            y = x * inverse * weight
            tl.store(out_row + cols, y.to(out_ptr.dtype.element_ty), mask=cols < n_cols)
        else:
            # Each lane sums up its own columns, so that the lanes meet once per row.
            squares = tl.zeros((BLOCK,), dtype=tl.float32)
            for start in range(0, n_cols, BLOCK):
                offsets = start + cols
                x = tl.load(x_row + offsets, mask=offsets < n_cols, other=0.0).to(tl.float32)
                squares += x * x
            inverse = tl.rsqrt(tl.sum(squares, 0) / n_cols + eps)
            for start in range(0, n_cols, BLOCK):
                offsets = start + cols
                x = tl.load(x_row + offsets, mask=offsets < n_cols, other=0.0).to(tl.float32)
                block_weight = load_weight(weight_ptr, offsets, n_cols, ZERO_CENTRED)
                y = (x * inverse * block_weight).to(out_ptr.dtype.element_ty)
                tl.store(out_row + offsets, y, mask=offsets < n_cols)


# A wider row is walked block by block.
MAX_BLOCK = 16384

# Several times what a compute unit holds at once: the programs that finish last are then short.
PROGRAMS_PER_CU = 32


def default_config(backend: str, cols: int) -> dict[str, Any]:
    """BLOCK and launch options for rows of `cols` values; backend is "hip" or "cuda"."""
    block = min(triton.next_power_of_2(cols), MAX_BLOCK)
    lanes = 64 if backend == "hip" else 32
    amd_only = {"waves_per_eu": 0} if backend == "hip" else {}
    # 16 values for each lane, so that row and weight leave registers for several workgroups.
    return {"BLOCK": block, "num_warps": max(1, min(16, block // (16 * lanes))), **amd_only}


def compute_units(device: torch.device) -> int:
    """CUs or SMs of a GPU; 1 for the interpreter."""
    import torch

    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count


def launch(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    zero_centred: bool = False,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """RMS normalisation over the last axis of a matrix.

    Args:
        x: [rows, cols], columns contiguous.
        weight: [cols], contiguous.
        eps: added to the mean square.
        zero_centred: multiply by 1 + weight instead of weight.
        config: BLOCK and launch options that replace those of default_config.

    Returns:
        A contiguous matrix like x.

    Raises:
        ValueError: x is no matrix with contiguous columns, or weight does not fit it.
    """
    import torch

    if x.ndim != 2 or (x.stride(1) != 1 and x.shape[1] > 1):
        raise ValueError(
            f"x must be a matrix with contiguous columns, not shape {tuple(x.shape)} with "
            f"strides {x.stride()}"
        )
    rows, cols = x.shape
    if weight.shape != (cols,) or not weight.is_contiguous():
        raise ValueError(f"weight must be [{cols}] and contiguous, not {tuple(weight.shape)}")
    options = {**default_config("hip" if torch.version.hip else "cuda", cols), **(config or {})}
    out = torch.empty((rows, cols), dtype=x.dtype, device=x.device)
    grid = (min(rows, PROGRAMS_PER_CU * compute_units(x.device)),)
    rmsnorm_kernel[grid](
        x, weight, out, x.stride(0), out.stride(0), rows, cols, eps,
        WHOLE_ROW=cols <= options["BLOCK"], ZERO_CENTRED=zero_centred, **options,
    )  # fmt: skip
    return out


def reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    zero_centred: bool = False,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """The same in plain PyTorch, in float64; `config` is accepted and ignored."""
    import torch

    wide, scale = x.double(), weight.double() + float(zero_centred)
    # ‖x‖² / cols is the mean square.
    mean_square = torch.linalg.vector_norm(wide, dim=1, keepdim=True) ** 2 / x.shape[1]
    return (wide / torch.sqrt(mean_square + eps) * scale).to(x.dtype)


def torch_operator(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    zero_centred: bool = False,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """PyTorch's own operator for the same job; `config` is accepted and ignored."""
    import torch

    scale = weight + 1 if zero_centred else weight
    return torch.nn.functional.rms_norm(x, (x.shape[1],), scale, eps)


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference."""
    import torch

    generator = torch.Generator(device=device).manual_seed(4)
    dtype = getattr(torch, case["dtype"])
    rows, cols = case["rows"], case["cols"]
    x = torch.randn((rows, cols + case.get("padding", 0)), generator=generator, device=device)
    x = (case.get("scale", 2.0) * x).to(dtype)[:, :cols]
    weight = torch.randn(cols, generator=generator, device=device)
    inputs = {
        "x": x,
        "weight": weight.to(getattr(torch, case.get("weight_dtype", case["dtype"]))),
        "zero_centred": case.get("zero_centred", False),
        "config": case.get("config"),
    }
    return {**inputs, "eps": case["eps"]} if "eps" in case else inputs


def _shape(rows: int, cols: int, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    return {"rows": rows, "cols": cols, "dtype": dtype, **more}


_FP32 = {"atol": 1e-6, "rtol": 1e-5}
_FP16 = {"atol": 1e-5, "rtol": 2e-3}
_BF16 = {"atol": 1e-5, "rtol": 8e-3}

CASES = [
    {"name": "one_value", **_shape(1, 1), **_FP32},
    {"name": "one_column", **_shape(50, 1), **_FP32},
    {"name": "one_row", **_shape(1, 128), **_FP32},
    # More rows than programs: each takes several.
    {"name": "persistent", **_shape(41, 64), **_FP32},
    {"name": "ragged", **_shape(23, 781), **_FP32},
    {"name": "strided_rows", **_shape(19, 100, padding=28), **_FP32},
    {"name": "walked", **_shape(20, 781, config={"BLOCK": 128}), **_FP32},
    {"name": "wider_than_max_block", **_shape(3, 20000), **_FP32},
    {"name": "zero_centred", **_shape(9, 200, zero_centred=True), **_FP32},
    {
        "name": "zero_centred_walked",
        **_shape(9, 200, zero_centred=True, config={"BLOCK": 64}),
        **_FP32,
    },
    # Values so small that eps decides, and a row of zeros divided by it alone.
    {"name": "eps_counts", **_shape(5, 90, scale=1e-3), **_FP32},
    {"name": "zeros", **_shape(3, 90, scale=0.0, eps=1e-5), **_FP32},
    {"name": "float16", **_shape(9, 500, "float16"), **_FP16},
    {"name": "float16_walked", **_shape(9, 500, "float16", config={"BLOCK": 64}), **_FP16},
    {"name": "bfloat16", **_shape(9, 300, "bfloat16"), **_BF16},
    {"name": "mixed_weight", **_shape(9, 500, "float16", weight_dtype="float32"), **_FP16},
]

BENCH = [
    {"name": f"{rows}x{cols}_{short}", **_shape(rows, cols, dtype)}
    for dtype, short in (("float16", "fp16"), ("bfloat16", "bf16"), ("float32", "fp32"))
    for rows, cols in ((873, 1245), (8192, 4096), (8192, 8192), (4096, 16384), (2048, 32768))
]


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """Operations, and bytes that must move at least, of a CASES or BENCH entry."""
    values = case["rows"] * case["cols"]
    size = 4 if case["dtype"] == "float32" else 2
    weight_size = 4 if case.get("weight_dtype", case["dtype"]) == "float32" else 2
    return {"flop": 4 * values, "bytes": 2 * size * values + weight_size * case["cols"]}


TUNING = {
    "BLOCK": [512, 1024, 2048, 4096, 8192, 16384],
    "num_warps": [1, 2, 4, 8, 16],
    "waves_per_eu": [0, 2, 4],
}


def tuned_constexprs(case: dict[str, Any], point: dict[str, Any]) -> dict[str, Any]:
    """The constexprs of a compile case that follow from a point of TUNING.

    A case that holds its whole row states the block which the row just fits into.
    """
    stated = case["constexprs"]
    fits = stated["BLOCK"] <= point.get("BLOCK", stated["BLOCK"])
    return {"WHOLE_ROW": stated["WHOLE_ROW"] and fits}


def _compile_case(
    name: str,
    dtype: str,
    n_cols: str,
    block: int,
    num_warps: int,
    whole_row: bool = True,
    zero_centred: bool = False,
) -> dict[str, Any]:
    return {
        "name": name,
        "kernel": "rmsnorm_kernel",
        "signature": {
            "x_ptr": f"*{dtype}:16",
            "weight_ptr": f"*{dtype}:16",
            "out_ptr": f"*{dtype}:16",
            "stride_x": n_cols,
            "stride_out": n_cols,
            "n_rows": "i32",
            "n_cols": n_cols,
            "eps": "fp32",
        },
        "constexprs": {"BLOCK": block, "WHOLE_ROW": whole_row, "ZERO_CENTRED": zero_centred},
        "options": {"num_warps": num_warps, "waves_per_eu": 0},
    }


KINSPECT_CASES = [
    _compile_case("fp16_8192", "fp16", "i32:16", 8192, 8),
    _compile_case("bf16_4096_zero_centred", "bf16", "i32:16", 4096, 4, zero_centred=True),
    _compile_case("fp32_16384", "fp32", "i32:16", 16384, 16),
    # A row wider than a block: the loops over its blocks.
    _compile_case("fp16_walked_16384", "fp16", "i32:16", 16384, 16, whole_row=False),
    # 1245 columns: rows start anywhere, so every access is one element wide.
    _compile_case("fp16_ragged_2048", "fp16", "i32", 2048, 2),
]
