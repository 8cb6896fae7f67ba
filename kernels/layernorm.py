"""Layer normalisation over the rows of a matrix, forward and backward, by persistent programs.

Shapes and layouts
    x, dy and the results [rows, cols]; columns contiguous, rows at any stride; weight and bias
    [cols], mean and rstd [rows] float32, contiguous. Any number of rows and columns. A row that
    fits into BLOCK stays in registers; a wider one is walked block by block, twice.
Dtypes
    x: float32, float16 or bfloat16, and out, dy and dx like x; weight and bias, and their
    gradients: any of the three. The arithmetic is float32.
Formula
    forward    x̂ = (x − mean)·rstd, rstd = 1/√(variance + eps), out = x̂·weight + bias
               with mean and (biased) variance of each row; eps = 1e-5 by default.
    backward   g = dy·weight, dx = rstd·(g − mean(g) − x̂·mean(g·x̂)),
               dweight = Σ dy·x̂ and dbias = Σ dy, summed over the rows.
    Every program sums its own rows' part of dweight and dbias; a second kernel adds the parts up,
    always in the same order: no atomics, and the same bits on every run.

Work: 7 operations per value forward, 13 backward. Moves 2 elements per value forward, a read and a
write, and 3 backward (x, dy, dx); more where the row is wider than BLOCK and misses the cache.

Answers to: layernorm.py of ROCm/triton's perf-kernels (its backward is an extra here).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch


@triton.jit
def load_block(row_ptr, cols, n_cols):
    """A block of a row in float32; columns beyond its end read as 0."""
    return tl.load(row_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)


@triton.jit
def layernorm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, mean_ptr, rstd_ptr,
    stride_x, stride_out, n_rows, n_cols, eps,
    BLOCK: tl.constexpr, WHOLE_ROW: tl.constexpr,
):  # fmt: skip
    """One program normalises every num_programs-th row.

    WHOLE_ROW says that n_cols ≤ BLOCK. Grid: (any number up to n_rows,).
    """
    cols = tl.arange(0, BLOCK)
    if WHOLE_ROW:
        weight = load_block(weight_ptr, cols, n_cols)
        bias = load_block(bias_ptr, cols, n_cols)
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        x_row = x_ptr + tl.cast(row, tl.int64) * stride_x  # row·stride may pass 2³¹
        out_row = out_ptr + tl.cast(row, tl.int64) * stride_out
        if WHOLE_ROW:
            x = load_block(x_row, cols, n_cols)
            mean = tl.sum(x, 0) / n_cols
            centred = tl.where(cols < n_cols, x - mean, 0.0)
            rstd = tl.rsqrt(tl.sum(centred * centred, 0) / n_cols + eps)
            y = centred * rstd * weight + bias
            tl.store(out_row + cols, y.to(out_ptr.dtype.element_ty), mask=cols < n_cols)
        else:
            # Mean and sum of squared deviations of the columns so far, merged block by block: exact
            # where the mean is large beside the deviations, unlike Σx² − (Σx)².
            mean = 0.0
            deviations = 0.0
            for start in range(0, n_cols, BLOCK):
                x = load_block(x_row, start + cols, n_cols)
                count = tl.minimum(n_cols - start, BLOCK)
                block_mean = tl.sum(x, 0) / count
                centred = tl.where(start + cols < n_cols, x - block_mean, 0.0)
                delta = block_mean - mean
                share = count / (start + count)
                mean += delta * share
                deviations += tl.sum(centred * centred, 0) + delta * delta * share * start
            rstd = tl.rsqrt(deviations / n_cols + eps)
            for start in range(0, n_cols, BLOCK):
                offsets = start + cols
                normal = (load_block(x_row, offsets, n_cols) - mean) * rstd
                block_weight = load_block(weight_ptr, offsets, n_cols)
                y = normal * block_weight + load_block(bias_ptr, offsets, n_cols)
                tl.store(out_row + offsets, y.to(out_ptr.dtype.element_ty), mask=offsets < n_cols)
        tl.store(mean_ptr + row, mean)
        tl.store(rstd_ptr + row, rstd)


@triton.jit
def layernorm_backward_kernel(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, dweight_parts_ptr, dbias_parts_ptr,
    stride_dy, stride_x, stride_dx, n_rows, n_cols,
    BLOCK: tl.constexpr, WHOLE_ROW: tl.constexpr,
):  # fmt: skip
    """One program differentiates every num_programs-th row, and sums its part of dweight, dbias.

    The parts are [programs, n_cols] float32, contiguous; zero at the start unless WHOLE_ROW.
    Grid: (any number up to n_rows,).
    """
    cols = tl.arange(0, BLOCK)
    dweight_row = dweight_parts_ptr + tl.program_id(0) * n_cols
    dbias_row = dbias_parts_ptr + tl.program_id(0) * n_cols
    if WHOLE_ROW:
        weight = load_block(weight_ptr, cols, n_cols)
        dweight = tl.zeros((BLOCK,), dtype=tl.float32)
        dbias = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        x_row = x_ptr + tl.cast(row, tl.int64) * stride_x
        dy_row = dy_ptr + tl.cast(row, tl.int64) * stride_dy
        dx_row = dx_ptr + tl.cast(row, tl.int64) * stride_dx
        mean = tl.load(mean_ptr + row)
        rstd = tl.load(rstd_ptr + row)
        if WHOLE_ROW:
            # Beyond the row's end dy reads as 0, and so g and all three sums take nothing from it.
            normal = (load_block(x_row, cols, n_cols) - mean) * rstd
            dy = load_block(dy_row, cols, n_cols)
            g = dy * weight
            mean_g = tl.sum(g, 0) / n_cols
            mean_gx = tl.sum(g * normal, 0) / n_cols
            dx = rstd * (g - mean_g - normal * mean_gx)
            tl.store(dx_row + cols, dx.to(dx_ptr.dtype.element_ty), mask=cols < n_cols)
            dweight += dy * normal
            dbias += dy
        else:
            sum_g = tl.zeros((BLOCK,), dtype=tl.float32)
            sum_gx = tl.zeros((BLOCK,), dtype=tl.float32)
            for start in range(0, n_cols, BLOCK):
                offsets = start + cols
                normal = (load_block(x_row, offsets, n_cols) - mean) * rstd
                g = load_block(dy_row, offsets, n_cols) * load_block(weight_ptr, offsets, n_cols)
                sum_g += g
                sum_gx += g * normal
            mean_g = tl.sum(sum_g, 0) / n_cols
            mean_gx = tl.sum(sum_gx, 0) / n_cols
            for start in range(0, n_cols, BLOCK):
                offsets = start + cols
                in_row = offsets < n_cols
                normal = (load_block(x_row, offsets, n_cols) - mean) * rstd
                dy = load_block(dy_row, offsets, n_cols)
                g = dy * load_block(weight_ptr, offsets, n_cols)
                dx = rstd * (g - mean_g - normal * mean_gx)
                tl.store(dx_row + offsets, dx.to(dx_ptr.dtype.element_ty), mask=in_row)
                # Too wide for registers: the parts grow in memory, where no other program looks.
                part = load_block(dweight_row, offsets, n_cols) + dy * normal
                tl.store(dweight_row + offsets, part, mask=in_row)
                part = load_block(dbias_row, offsets, n_cols) + dy
                tl.store(dbias_row + offsets, part, mask=in_row)
            tl.debug_barrier()  # the next row reads what this one stored
    if WHOLE_ROW:
        tl.store(dweight_row + cols, dweight, mask=cols < n_cols)
        tl.store(dbias_row + cols, dbias, mask=cols < n_cols)


@triton.jit
def layernorm_sum_parts_kernel(
    dweight_parts_ptr, dbias_parts_ptr, dweight_ptr, dbias_ptr, n_parts, n_cols,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """One program adds up the parts of BLOCK_COLS columns. Grid: (⌈n_cols/BLOCK_COLS⌉,)."""
    cols = tl.program_id(0) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    dweight = tl.zeros((BLOCK_ROWS, BLOCK_COLS), dtype=tl.float32)
    dbias = tl.zeros((BLOCK_ROWS, BLOCK_COLS), dtype=tl.float32)
    for start in range(0, n_parts, BLOCK_ROWS):
        rows = start + tl.arange(0, BLOCK_ROWS)
        offsets = rows[:, None] * n_cols + cols[None, :]
        mask = (rows[:, None] < n_parts) & (cols[None, :] < n_cols)
        dweight += tl.load(dweight_parts_ptr + offsets, mask=mask, other=0.0)
        dbias += tl.load(dbias_parts_ptr + offsets, mask=mask, other=0.0)
    total = tl.sum(dweight, 0).to(dweight_ptr.dtype.element_ty)
    tl.store(dweight_ptr + cols, total, mask=cols < n_cols)
    total = tl.sum(dbias, 0).to(dbias_ptr.dtype.element_ty)
    tl.store(dbias_ptr + cols, total, mask=cols < n_cols)


# A wider row is walked block by block. Backward holds five values where forward holds three.
MAX_BLOCK = {"forward": 16384, "backward": 8192}

# Forward, several times what a compute unit holds at once: the programs that finish last are then
# short. Backward, about as many warps as fit, for each program leaves a part to be added up.
PROGRAMS_PER_CU = 32
BACKWARD_WARPS_PER_CU = 16
SUM_BLOCK = {"BLOCK_ROWS": 128, "BLOCK_COLS": 32, "num_warps": 8}


def default_config(backend: str, cols: int, direction: str = "forward") -> dict[str, Any]:
    """BLOCK and launch options for rows of `cols` values.

    Args:
        backend: "hip" or "cuda".
        cols: length of a row.
        direction: "forward" or "backward".
    """
    widest = MAX_BLOCK[direction]
    if backend == "cuda" and direction == "backward" and cols <= 2 * widest:
        widest *= 2  # sixteen warps' registers hold a row twice as wide
    block = min(triton.next_power_of_2(cols), widest)
    lanes = 64 if backend == "hip" else 32
    amd_only = {"waves_per_eu": 0} if backend == "hip" else {}
    # 16 values for each lane, so that all that is held leaves registers for several workgroups.
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
    bias: torch.Tensor,
    eps: float = 1e-5,
    dy: torch.Tensor | None = None,
    mean: torch.Tensor | None = None,
    rstd: torch.Tensor | None = None,
    config: dict[str, Any] | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Layer normalisation over the last axis of a matrix, or its backward pass where dy is given.

    Args:
        x: [rows, cols], columns contiguous.
        weight: [cols], contiguous.
        bias: like weight.
        eps: added to the variance.
        dy: gradient of the output, like x: asks for the backward pass.
        mean: [rows] float32, as forward returned it; with dy only.
        rstd: like mean.
        config: BLOCK and launch options that replace those of default_config.

    Returns:
        Forward: out like x, mean and rstd [rows] in float32.
        Backward: dx like x, dweight like weight, dbias like bias.

    Raises:
        ValueError: shapes, strides or arguments that do not go together.
    """
    import torch

    if x.ndim != 2 or (x.stride(1) != 1 and x.shape[1] > 1):
        raise ValueError(
            f"x must be a matrix with contiguous columns, not shape {tuple(x.shape)} with "
            f"strides {x.stride()}"
        )
    rows, cols = x.shape
    if any(t.shape != (cols,) or not t.is_contiguous() for t in (weight, bias)):
        raise ValueError(f"weight and bias must be [{cols}] and contiguous")
    backend = "hip" if torch.version.hip else "cuda"
    out = torch.empty((rows, cols), dtype=x.dtype, device=x.device)
    if dy is None:
        options = {**default_config(backend, cols), **(config or {})}
        mean, rstd = (torch.empty(rows, dtype=torch.float32, device=x.device) for _ in "mr")
        layernorm_kernel[(min(rows, PROGRAMS_PER_CU * compute_units(x.device)),)](
            x, weight, bias, out, mean, rstd, x.stride(0), out.stride(0), rows, cols, eps,
            WHOLE_ROW=cols <= options["BLOCK"], **options,
        )  # fmt: skip
        return out, mean, rstd

    if dy.shape != x.shape or (dy.stride(1) != 1 and cols > 1):
        raise ValueError(f"dy must be like x, {tuple(x.shape)}, not {tuple(dy.shape)}")
    if mean is None or rstd is None or mean.shape != (rows,) or rstd.shape != (rows,):
        raise ValueError(f"the backward pass needs forward's mean and rstd, [{rows}] each")
    options = {**default_config(backend, cols, "backward"), **(config or {})}
    whole_row = cols <= options["BLOCK"]
    per_cu = max(1, BACKWARD_WARPS_PER_CU // options["num_warps"])
    programs = min(rows, per_cu * compute_units(x.device))
    allocate = torch.empty if whole_row else torch.zeros
    parts = allocate((2, programs, cols), dtype=torch.float32, device=x.device)
    layernorm_backward_kernel[(programs,)](
        dy, x, weight, mean, rstd, out, parts[0], parts[1],
        dy.stride(0), x.stride(0), out.stride(0), rows, cols,
        WHOLE_ROW=whole_row, **options,
    )  # fmt: skip
    dweight, dbias = torch.empty_like(weight), torch.empty_like(bias)
    layernorm_sum_parts_kernel[(triton.cdiv(cols, SUM_BLOCK["BLOCK_COLS"]),)](
        parts[0], parts[1], dweight, dbias, programs, cols, **SUM_BLOCK
    )
    return out, dweight, dbias


def reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float = 1e-5,
    dy: torch.Tensor | None = None,
    mean: torch.Tensor | None = None,
    rstd: torch.Tensor | None = None,
    config: dict[str, Any] | None = None,
) -> tuple[torch.Tensor, ...]:
    """The same in plain PyTorch, in float64, backward by autograd.

    `mean`, `rstd` and `config` are accepted and ignored.
    """
    import torch

    with torch.enable_grad():
        given = (x, weight, bias)
        wide = [t.detach().double().requires_grad_() for t in given]
        variance, average = torch.var_mean(wide[0], dim=1, correction=0)
        out = torch.nn.functional.layer_norm(wide[0], (x.shape[1],), wide[1], wide[2], eps)
        if dy is not None:
            gradients = torch.autograd.grad(out, wide, dy.double())
            return tuple(g.to(t.dtype) for g, t in zip(gradients, given, strict=True))
    return out.detach().to(x.dtype), average.detach().float(), (variance + eps).rsqrt().float()


def torch_operator(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float = 1e-5,
    dy: torch.Tensor | None = None,
    mean: torch.Tensor | None = None,
    rstd: torch.Tensor | None = None,
    config: dict[str, Any] | None = None,
) -> Any:
    """PyTorch's own operator for the same job; `config` is accepted and ignored."""
    import torch

    if dy is None or mean is None or rstd is None:
        return torch.nn.functional.layer_norm(x, (x.shape[1],), weight, bias, eps)
    # On the CPU the operator wants mean and rstd in the dtype of the weight.
    stats = [t[:, None] if t.is_cuda else t[:, None].to(weight.dtype) for t in (mean, rstd)]
    return torch.ops.aten.native_layer_norm_backward(
        dy, x, (x.shape[1],), *stats, weight, bias, [True, True, True]
    )


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference."""
    import torch

    generator = torch.Generator(device=device).manual_seed(5)
    dtype = getattr(torch, case["dtype"])
    weight_dtype = getattr(torch, case.get("weight_dtype", case["dtype"]))
    rows, cols = case["rows"], case["cols"]

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device)

    padded = cols + case.get("padding", 0)
    x = (case.get("scale", 2.0) * normal(rows, padded) + case.get("offset", 0.5)).to(dtype)
    inputs = {
        "x": x[:, :cols],
        "weight": normal(cols).to(weight_dtype),
        "bias": normal(cols).to(weight_dtype),
        "eps": case.get("eps", 1e-5),
        "config": case.get("config"),
    }
    if case.get("backward", False):
        variance, mean = torch.var_mean(inputs["x"].float(), dim=1, correction=0)
        rstd = (variance + inputs["eps"]).rsqrt()
        inputs |= {"dy": normal(rows, padded).to(dtype)[:, :cols], "mean": mean, "rstd": rstd}
    return inputs


def _shape(rows: int, cols: int, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    return {"rows": rows, "cols": cols, "dtype": dtype, **more}


_FP32 = {"atol": 1e-5, "rtol": 1e-5}
_FP16 = {"atol": 1e-4, "rtol": 2e-3}
_BF16 = {"atol": 1e-3, "rtol": 8e-3}

# Each shape is run forward and backward.
_SHAPES = [
    # One column has no deviation: rstd is 1/√eps, 316, and magnifies every rounding.
    {"name": "one_value", **_shape(1, 1), "atol": 1e-4, "rtol": 1e-5},
    {"name": "one_column", **_shape(60, 1), "atol": 1e-4, "rtol": 1e-5},
    {"name": "one_row", **_shape(1, 128), **_FP32},
    # More rows than programs: each takes several, and dweight and dbias have several parts.
    {"name": "persistent", **_shape(45, 64), **_FP32},
    {"name": "ragged", **_shape(23, 781), **_FP32},
    {"name": "strided_rows", **_shape(19, 100, padding=28), **_FP32},
    {"name": "walked", **_shape(18, 170, config={"BLOCK": 64}), **_FP32},
    {"name": "float16", **_shape(9, 500, "float16"), **_FP16},
    {"name": "bfloat16", **_shape(9, 500, "bfloat16"), **_BF16},
    {"name": "mixed_weight", **_shape(9, 300, "float16", weight_dtype="float32"), **_FP16},
]

CASES = [
    *_SHAPES,
    # A mean that is large beside the deviations, whole and walked, and eps that decides.
    {"name": "large_mean", **_shape(5, 300, offset=100.0, eps=1e-3), "atol": 3e-5, "rtol": 1e-5},
    {
        "name": "large_mean_walked",
        **_shape(5, 300, offset=100.0, eps=1e-3, config={"BLOCK": 64}),
        "atol": 3e-5,
        "rtol": 1e-5,
    },
    {"name": "eps_counts", **_shape(5, 90, scale=1e-3, offset=0.0), **_FP32},
    {"name": "wider_than_max_block", **_shape(2, 20000), **_FP32},
    *({**case, "name": f"{case['name']}_backward", "backward": True} for case in _SHAPES),
    {"name": "wider_than_max_block_backward", **_shape(2, 8200, backward=True), **_FP32},
]

BENCH = [
    {
        "name": f"{rows}x{cols}_{short}{'_backward' if backward else ''}",
        **_shape(rows, cols, dtype, backward=backward),
        # dweight and dbias are sums over all rows.
        **({"atol": 3e-4, "rtol": 1e-5} if backward and dtype == "float32" else {}),
    }
    for backward in (False, True)
    for dtype, short in (("float16", "fp16"), ("bfloat16", "bf16"), ("float32", "fp32"))
    for rows, cols in ((1823, 781), (8192, 1024), (8192, 4096), (8192, 8192), (4096, 16384))
]


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """Operations, and bytes that must move at least, of a CASES or BENCH entry."""
    rows, cols = case["rows"], case["cols"]
    size = 4 if case["dtype"] == "float32" else 2
    weight_size = 4 if case.get("weight_dtype", case["dtype"]) == "float32" else 2
    operations, tensors, vectors = (13, 3, 3) if case.get("backward", False) else (7, 2, 2)
    moved = tensors * size * rows * cols + vectors * weight_size * cols + 8 * rows
    return {"flop": operations * rows * cols, "bytes": moved}


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
    if "WHOLE_ROW" not in stated:
        return {}
    fits = stated["BLOCK"] <= point.get("BLOCK", stated["BLOCK"])
    return {"WHOLE_ROW": stated["WHOLE_ROW"] and fits}


def _compile_case(
    name: str,
    dtype: str,
    n_cols: str,
    block: int,
    num_warps: int,
    whole_row: bool = True,
    backward: bool = False,
) -> dict[str, Any]:
    tensors = ("dy", "x", "weight", "dx") if backward else ("x", "weight", "bias", "out")
    vectors = ("mean", "rstd", *(("dweight_parts", "dbias_parts") if backward else ()))
    matrices = ("dy", "x", "dx") if backward else ("x", "out")
    return {
        "name": name,
        "kernel": "layernorm_backward_kernel" if backward else "layernorm_kernel",
        "signature": {
            **{f"{tensor}_ptr": f"*{dtype}:16" for tensor in tensors},
            **{f"{vector}_ptr": "*fp32:16" for vector in vectors},
            **{f"stride_{matrix}": n_cols for matrix in matrices},
            "n_rows": "i32",
            "n_cols": n_cols,
            **({} if backward else {"eps": "fp32"}),
        },
        "constexprs": {"BLOCK": block, "WHOLE_ROW": whole_row},
        "options": {"num_warps": num_warps, "waves_per_eu": 0},
    }


KINSPECT_CASES = [
    _compile_case("fp16_8192", "fp16", "i32:16", 8192, 8),
    _compile_case("bf16_4096", "bf16", "i32:16", 4096, 4),
    _compile_case("fp32_16384", "fp32", "i32:16", 16384, 16),
    # A row wider than a block: the loops over its blocks.
    _compile_case("fp16_walked_16384", "fp16", "i32:16", 16384, 16, whole_row=False),
    # 781 columns: rows start anywhere, so every access is one element wide.
    _compile_case("fp16_ragged_1024", "fp16", "i32", 1024, 1),
    _compile_case("fp16_backward_8192", "fp16", "i32:16", 8192, 8, backward=True),
    _compile_case("fp32_backward_4096", "fp32", "i32:16", 4096, 4, backward=True),
    _compile_case(
        "bf16_backward_walked_8192", "bf16", "i32:16", 8192, 8, whole_row=False, backward=True
    ),
    {
        "name": "sum_parts_128x32",
        "kernel": "layernorm_sum_parts_kernel",
        "signature": {
            "dweight_parts_ptr": "*fp32:16",
            "dbias_parts_ptr": "*fp32:16",
            "dweight_ptr": "*fp16:16",
            "dbias_ptr": "*fp16:16",
            "n_parts": "i32",
            "n_cols": "i32:16",
        },
        "constexprs": {k: v for k, v in SUM_BLOCK.items() if k != "num_warps"},
        "options": {"num_warps": SUM_BLOCK["num_warps"]},
    },
]
