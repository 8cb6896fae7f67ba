"""A mixture-of-experts layer with router, shared experts and auxiliary losses, and its suite.

Operations, each a value of `op`
    matmul            [R, N]  rows sorted by group, a[r] @ b[group of r]: a [R, K], b [G, K, N],
                              offsets [G + 1] int32, the first row of each group and R
    silu              like x  x·sigmoid(x), times `up` where that is given
    softmax           like x  over the rows of a matrix
    logsumexp         [R]     over the rows of a matrix, float32
    mean              float32 over all elements of a matrix (dim None), its columns (0) or rows (1)
    transpose         [C, R]  of a matrix [R, C]
    gather_rows       [I, C]  x[index], x [R, C], index [I]
    scatter_add_rows  [R, C]  base[index[i]] += weights[i]·values[i], float32, by atomic additions;
                              an index may occur many times
    layer             (output like x, aux [2] float32)
Dtypes
    float16, bfloat16 or float32 in; sums are float32. The router's logits and probabilities stay
    float32; rows between two matrices are rounded to x's dtype.
Formula of the layer, for tokens x [T, d] (any leading axes), E experts with matrices W0, W1 [d, f]
and W2 [f, d], router Wg [E, d]
    logits = x·Wgᵀ, probs = softmax(logits)
    expert(x) = (silu(x·W0)·(x·W1))·W2
    output = Σ_e in top-k(probs) probs_e·expert_e(x) + shared expert(x); probs not renormalised
    aux[0] = z_coef·mean(logsumexp(logits)²)
    aux[1] = balance_coef·E·Σ_e mean(probs_e)·(share of the T·top_k choices that fell on e)
    The shared experts are one expert of width f·(their number).

Work: 6·T·d·f·(top_k + shared experts) + 2·T·d·E operations. The atomic sums' order, and so the
last bits of the output, vary from run to run.

Answers to: amd-moe.py, gpumode's amd-mixture-of-experts problem, and RadeonFlow's MoE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch


@triton.jit
def grouped_matmul_kernel(
    a_ptr, b_ptr, out_ptr, offsets_ptr, N, K,
    stride_am, stride_be, stride_bk, stride_bn, stride_om,
    GROUPS: tl.constexpr, GROUPS_PADDED: tl.constexpr, EVEN_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """One program computes BLOCK_M rows of one group by BLOCK_N columns.

    The tiles of rows are counted on the device, so the host need not know how large a group is:
    it launches for as many as there can be, and the programs left over stop at once.
    Grid: (at least Σ ⌈rows of a group/BLOCK_M⌉·⌈N/BLOCK_N⌉,).
    """
    groups = tl.arange(0, GROUPS_PADDED)
    starts = tl.load(offsets_ptr + groups, mask=groups < GROUPS, other=0)
    ends = tl.load(offsets_ptr + groups + 1, mask=groups < GROUPS, other=0)
    tiles = tl.cdiv(ends - starts, BLOCK_M)
    last_tiles = tl.cumsum(tiles, 0)
    tiles_m = tl.sum(tiles, 0)

    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    if pid >= tiles_m * tiles_n:
        return
    # Blocks of GROUP_M rows of tiles, column by column: neighbours share b in the L2 cache.
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    block_rows = tl.minimum(tiles_m - first_m, GROUP_M)
    tile_m = first_m + pid % (GROUP_M * tiles_n) % block_rows
    tile_n = pid % (GROUP_M * tiles_n) // block_rows

    group = tl.sum((last_tiles <= tile_m).to(tl.int32), 0)
    is_group = groups == group
    tile_in_group = tile_m - tl.sum(tl.where(is_group, last_tiles - tiles, 0), 0)
    start = tl.sum(tl.where(is_group, starts, 0), 0)
    end = tl.sum(tl.where(is_group, ends, 0), 0)

    rows = start + tile_in_group * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    # Rows and columns beyond the edge read something valid that is never stored.
    offs_m = tl.where(rows < end, rows, start)
    offs_n = cols % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :]
    b_base = b_ptr + group.to(tl.int64) * stride_be  # all groups together may pass 2³¹ elements
    b_ptrs = b_base + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        if EVEN_K:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k, other=0.0)
            b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_bk

    out_ptrs = out_ptr + rows[:, None] * stride_om + cols[None, :]
    in_range = (rows[:, None] < end) & (cols[None, :] < N)
    tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=in_range)


@triton.jit
def silu_kernel(x_ptr, up_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """SiLU of x, times up unless up_ptr is None. Grid: (⌈n/BLOCK⌉,)."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    offs = tl.arange(0, BLOCK)
    mask = start + offs < n
    x = tl.load(x_ptr + start + offs, mask=mask, other=0.0).to(tl.float32)
    y = x * tl.sigmoid(x)
    if up_ptr is not None:
        y *= tl.load(up_ptr + start + offs, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + start + offs, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def row_statistics(x_ptr, rows, n_rows, n_cols, stride_x, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Maximum and Σ exp(x − maximum) of each row, in one pass, COLS columns at a time."""
    cols = tl.arange(0, COLS)
    row_max = tl.full((ROWS,), float("-inf"), tl.float32)
    row_sum = tl.zeros((ROWS,), tl.float32)
    for start in range(0, n_cols, COLS):
        mask = (rows[:, None] < n_rows) & (start + cols[None, :] < n_cols)
        x_ptrs = x_ptr + rows[:, None].to(tl.int64) * stride_x + start + cols[None, :]
        x = tl.load(x_ptrs, mask=mask, other=float("-inf")).to(tl.float32)
        new_max = tl.maximum(row_max, tl.max(x, 1))
        # Nothing but −inf so far: measure from 0, for −inf − −inf is NaN.
        safe_max = tl.where(new_max == float("-inf"), 0.0, new_max)
        row_sum = row_sum * tl.exp(row_max - safe_max) + tl.sum(tl.exp(x - safe_max[:, None]), 1)
        row_max = new_max
    return row_max, row_sum


@triton.jit
def softmax_kernel(
    x_ptr, out_ptr, n_rows, n_cols, stride_x, ROWS: tl.constexpr, COLS: tl.constexpr
):
    """One program normalises ROWS rows of x into the contiguous out. Grid: (⌈n_rows/ROWS⌉,)."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row_max, row_sum = row_statistics(x_ptr, rows, n_rows, n_cols, stride_x, ROWS, COLS)
    inverse = 1.0 / row_sum  # a division takes eleven instructions, of every element
    cols = tl.arange(0, COLS)
    for start in range(0, n_cols, COLS):
        mask = (rows[:, None] < n_rows) & (start + cols[None, :] < n_cols)
        x_ptrs = x_ptr + rows[:, None].to(tl.int64) * stride_x + start + cols[None, :]
        x = tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)
        y = tl.exp(x - row_max[:, None]) * inverse[:, None]
        out_ptrs = out_ptr + rows[:, None].to(tl.int64) * n_cols + start + cols[None, :]
        tl.store(out_ptrs, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def logsumexp_kernel(
    x_ptr, out_ptr, n_rows, n_cols, stride_x, ROWS: tl.constexpr, COLS: tl.constexpr
):
    """One program reduces ROWS rows; out [n_rows] float32. Grid: (⌈n_rows/ROWS⌉,)."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row_max, row_sum = row_statistics(x_ptr, rows, n_rows, n_cols, stride_x, ROWS, COLS)
    tl.store(out_ptr + rows, row_max + tl.log(row_sum), mask=rows < n_rows)


@triton.jit
def mean_kernel(
    x_ptr, out_ptr, n_kept, n_summed, stride_kept, stride_summed,
    KEPT: tl.constexpr, SUMMED: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """out[i] = mean over j of x[i·stride_kept + j·stride_summed].

    PARTS programs share the sum over j and add their parts to a zeroed out atomically.
    Grid: (⌈n_kept/KEPT⌉, PARTS).
    """
    kept = tl.program_id(0) * KEPT + tl.arange(0, KEPT)
    summed = tl.program_id(1) * SUMMED + tl.arange(0, SUMMED)
    acc = tl.zeros((KEPT, SUMMED), tl.float32)
    for start in range(0, n_summed, SUMMED * PARTS):
        mask = (kept[:, None] < n_kept) & (start + summed[None, :] < n_summed)
        x_ptrs = x_ptr + kept[:, None] * stride_kept + (start + summed[None, :]) * stride_summed
        acc += tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(acc, 1) / n_summed
    if PARTS == 1:
        tl.store(out_ptr + kept, mean, mask=kept < n_kept)
    else:
        tl.atomic_add(out_ptr + kept, mean, mask=kept < n_kept, sem="relaxed")


@triton.jit
def transpose_kernel(
    x_ptr, out_ptr, n_rows, n_cols, stride_x, ROWS: tl.constexpr, COLS: tl.constexpr
):
    """One program moves a tile; both sides are contiguous. Grid: (⌈n_rows/ROWS⌉, ⌈n_cols/COLS⌉)."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    in_x = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + rows[:, None] * stride_x + cols[None, :], mask=in_x)
    in_out = (cols[:, None] < n_cols) & (rows[None, :] < n_rows)
    tl.store(out_ptr + cols[:, None] * n_rows + rows[None, :], tl.trans(x), mask=in_out)


@triton.jit
def gather_rows_kernel(
    x_ptr, index_ptr, out_ptr, n_rows, n_cols, stride_x, ROWS: tl.constexpr, COLS: tl.constexpr
):
    """One program copies a tile of the rows in index. Grid: (⌈n_rows/ROWS⌉, ⌈n_cols/COLS⌉)."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    source = tl.load(index_ptr + rows, mask=rows < n_rows, other=0).to(tl.int32)
    x = tl.load(x_ptr + source[:, None] * stride_x + cols[None, :], mask=mask)
    tl.store(out_ptr + rows[:, None] * n_cols + cols[None, :], x, mask=mask)


@triton.jit
def scatter_add_rows_kernel(
    values_ptr, index_ptr, weights_ptr, out_ptr, n_rows, n_cols, stride_values,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """One program adds a tile of values, times weights unless None, to the rows in index of out.

    out is contiguous float32. Grid: (⌈n_rows/ROWS⌉, ⌈n_cols/COLS⌉).
    """
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    target = tl.load(index_ptr + rows, mask=rows < n_rows, other=0).to(tl.int32)
    value_ptrs = values_ptr + rows[:, None] * stride_values + cols[None, :]
    values = tl.load(value_ptrs, mask=mask, other=0.0).to(tl.float32)
    if weights_ptr is not None:
        values *= tl.load(weights_ptr + rows, mask=rows < n_rows, other=0.0)[:, None]
    out_ptrs = out_ptr + target[:, None] * n_cols + cols[None, :]
    tl.atomic_add(out_ptrs, values, mask=mask, sem="relaxed")


# --------------------------------------------------------------------------- launching


def default_config(backend: str, op: str, **shape: int) -> dict[str, Any]:
    """Block sizes and launch options.

    Args:
        backend: "hip" or "cuda".
        op: an operation other than "layer".
        shape: for matmul rows, the average number of rows of a group, N and bits, the width of an
            element; for softmax and logsumexp cols; for mean kept and summed, and contiguous, the
            axis that lies contiguous, 0 the kept one.
    """
    if op == "matmul":
        depth = 64 if shape["bits"] <= 16 else 32
        if shape["N"] <= 64:  # a router: few columns, so that small tiles must fill the machine
            tile = (32, max(16, triton.next_power_of_2(shape["N"])), 2 * depth)
        elif shape["rows"] <= 64:
            tile = (64, 128, depth)
        else:
            wide = backend == "cuda" and shape["rows"] > 160 and depth == 64
            tile = (128, 256 if wide else 128, depth)
        config = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
        config |= {"GROUP_M": 8, "num_warps": 8 if tile[0] == 128 else 4}
        if backend == "hip":
            options = {"num_stages": 2, "waves_per_eu": 0, "matrix_instr_nonkdim": 16, "kpack": 1}
            return {**config, **options}
        return {**config, "num_stages": 3}
    if op in ("softmax", "logsumexp"):
        cols = min(triton.next_power_of_2(shape["cols"]), 4096)
        return {
            "ROWS": max(1, 1024 // cols),
            "COLS": cols,
            "num_warps": max(1, min(8, cols // 256)),
        }
    if op == "mean":
        block = (128, 32) if shape["contiguous"] == 0 else (4, 1024)
        kept = min(block[0], triton.next_power_of_2(shape["kept"]))
        summed = min(block[0] * block[1] // kept, triton.next_power_of_2(shape["summed"]))
        most = triton.cdiv(shape["summed"], summed)
        parts = min(most, max(1, 1024 // triton.cdiv(shape["kept"], kept)))
        return {"KEPT": kept, "SUMMED": summed, "PARTS": parts, "num_warps": 4}
    return {
        "silu": {"BLOCK": 2048, "num_warps": 4},
        "transpose": {"ROWS": 64, "COLS": 64, "num_warps": 4},
        "gather_rows": {"ROWS": 4, "COLS": 1024, "num_warps": 4},
        "scatter_add_rows": {"ROWS": 4, "COLS": 1024, "num_warps": 4},
    }[op]


def _options(op: str, config: dict[str, Any] | None, **shape: int) -> dict[str, Any]:
    import torch

    backend = "hip" if torch.version.hip else "cuda"
    return default_config(backend, op, **shape) | (config or {})


def _check_matrix(name: str, x: torch.Tensor) -> None:
    if x.ndim != 2 or (x.stride(1) != 1 and x.shape[1] > 1):
        raise ValueError(
            f"{name} must be a matrix with contiguous rows, not shape {tuple(x.shape)} with "
            f"strides {x.stride()}"
        )
    if x.shape[0] * x.stride(0) >= 2**31:
        raise ValueError(f"{name}: 2³¹ elements or more are beyond 32-bit offsets")


def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    offsets: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """Grouped product [R, N]; without offsets b is one matrix [K, N] for all rows."""
    import torch

    _check_matrix("a", a)
    b = b if b.ndim == 3 else b[None]
    if b.ndim != 3 or a.shape[1] != b.shape[1] or a.dtype != b.dtype:
        raise ValueError(f"a {tuple(a.shape)} {a.dtype}, b {tuple(b.shape)} {b.dtype}: no product")
    (rows, k), (groups, _, n) = a.shape, b.shape
    if offsets is None and groups == 1:
        offsets = torch.arange(2, dtype=torch.int32, device=a.device) * rows
    if offsets is None or offsets.shape != (groups + 1,):
        raise ValueError(f"offsets must be [{groups + 1}], one more than there are groups")
    if max(rows * n, k * n) >= 2**31:
        raise ValueError("a matrix of 2³¹ elements or more is beyond 32-bit offsets")
    options = _options("matmul", config, rows=rows // groups, N=n, bits=8 * a.itemsize)
    block_m = options["BLOCK_M"]
    tiles_m = (rows + min(groups, rows) * (block_m - 1)) // block_m  # as many as there can be
    out = torch.empty((rows, n), dtype=out_dtype or a.dtype, device=a.device)
    grouped_matmul_kernel[(tiles_m * triton.cdiv(n, options["BLOCK_N"]),)](
        a, b, out, offsets.int(), n, k, a.stride(0), *b.stride(), n,
        GROUPS=groups, GROUPS_PADDED=max(2, triton.next_power_of_2(groups)),
        EVEN_K=k % options["BLOCK_K"] == 0, **options,
    )  # fmt: skip
    return out


def silu(
    x: torch.Tensor, up: torch.Tensor | None = None, config: dict[str, Any] | None = None
) -> torch.Tensor:
    """SiLU of x, times up if given; both contiguous, of one shape and any number of axes."""
    import torch

    if up is not None and (up.shape != x.shape or not up.is_contiguous()):
        raise ValueError("up must be contiguous and have x's shape")
    if not x.is_contiguous():
        raise ValueError("x must be contiguous")
    options = _options("silu", config)
    out = torch.empty_like(x)
    silu_kernel[(triton.cdiv(x.numel(), options["BLOCK"]),)](x, up, out, x.numel(), **options)
    return out


def softmax(x: torch.Tensor, config: dict[str, Any] | None = None) -> torch.Tensor:
    """Softmax over each row of a matrix."""
    import torch

    _check_matrix("x", x)
    options = _options("softmax", config, cols=x.shape[1])
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(x.shape[0], options["ROWS"]),)
    softmax_kernel[grid](x, out, *x.shape, x.stride(0), **options)
    return out


def logsumexp(x: torch.Tensor, config: dict[str, Any] | None = None) -> torch.Tensor:
    """The logarithm of Σ exp over each row of a matrix, in float32."""
    import torch

    _check_matrix("x", x)
    options = _options("logsumexp", config, cols=x.shape[1])
    out = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(x.shape[0], options["ROWS"]),)
    logsumexp_kernel[grid](x, out, *x.shape, x.stride(0), **options)
    return out


def mean(
    x: torch.Tensor, dim: int | None = None, config: dict[str, Any] | None = None
) -> torch.Tensor:
    """Mean in float32 of all elements (dim None), of each column (0) or of each row (1)."""
    import torch

    _check_matrix("x", x)
    if dim not in (None, 0, 1):
        raise ValueError(f"dim must be None, 0 or 1, not {dim}")
    if dim is None and not x.is_contiguous():
        raise ValueError("the mean of all elements needs a contiguous x")
    view = x.reshape(1, -1) if dim is None else x.T if dim == 0 else x
    kept, summed = view.shape
    options = _options("mean", config, kept=kept, summed=summed, contiguous=0 if dim == 0 else 1)
    allocate = torch.empty if options["PARTS"] == 1 else torch.zeros
    out = allocate(kept, dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(kept, options["KEPT"]), options["PARTS"])
    mean_kernel[grid](view, out, kept, summed, *view.stride(), **options)
    return out[0] if dim is None else out


def transpose(x: torch.Tensor, config: dict[str, Any] | None = None) -> torch.Tensor:
    """The transposed matrix, laid out anew."""
    import torch

    _check_matrix("x", x)
    options = _options("transpose", config)
    out = torch.empty((x.shape[1], x.shape[0]), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(x.shape[0], options["ROWS"]), triton.cdiv(x.shape[1], options["COLS"]))
    transpose_kernel[grid](x, out, *x.shape, x.stride(0), **options)
    return out


def gather_rows(
    x: torch.Tensor, index: torch.Tensor, config: dict[str, Any] | None = None
) -> torch.Tensor:
    """x[index] for a matrix and integers below its number of rows."""
    import torch

    _check_matrix("x", x)
    rows, cols = index.numel(), x.shape[1]
    if index.ndim != 1 or not index.is_contiguous() or rows * cols >= 2**31:
        raise ValueError("index must be contiguous and one-dimensional, the result below 2³¹")
    options = _options("gather_rows", config)
    out = torch.empty((rows, cols), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(rows, options["ROWS"]), triton.cdiv(cols, options["COLS"]))
    gather_rows_kernel[grid](x, index, out, rows, cols, x.stride(0), **options)
    return out


def scatter_add_rows(
    values: torch.Tensor,
    index: torch.Tensor,
    base: torch.Tensor,
    weights: torch.Tensor | None = None,
    in_place: bool = False,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """The float32 base, or a copy of it, with weights[i]·values[i] added to each row index[i]."""
    import torch

    _check_matrix("values", values)
    if base.dtype != torch.float32 or not base.is_contiguous() or base.ndim != 2:
        raise ValueError("base must be a contiguous float32 matrix")
    if base.shape[1] != values.shape[1] or base.numel() >= 2**31:
        raise ValueError("base must be as wide as values and below 2³¹ elements")
    if index.shape != values.shape[:1] or (weights is not None and weights.shape != index.shape):
        raise ValueError("index and weights must have one entry for each row of values")
    options = _options("scatter_add_rows", config)
    out = base if in_place else base.clone()
    rows, cols = values.shape
    grid = (triton.cdiv(rows, options["ROWS"]), triton.cdiv(cols, options["COLS"]))
    scatter_add_rows_kernel[grid](
        values, index, weights, out, rows, cols, values.stride(0), **options
    )
    return out


def layer(
    x: torch.Tensor,
    router: torch.Tensor,
    gate: torch.Tensor,
    up: torch.Tensor,
    down: torch.Tensor,
    top_k: int,
    shared_gate: torch.Tensor | None = None,
    shared_up: torch.Tensor | None = None,
    shared_down: torch.Tensor | None = None,
    z_coef: float = 1e-3,
    balance_coef: float = 1e-2,
    config: dict[str, Any] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The whole layer.

    Args:
        x: [..., d], contiguous.
        router: Wg [E, d].
        gate: W0 [E, d, f].
        up: W1 [E, d, f].
        down: W2 [E, f, d].
        top_k: experts per token.
        shared_gate: W0 [d, f·shared experts] of the shared experts, if there are any.
        shared_up: their W1, like W0.
        shared_down: their W2 [f·shared experts, d].
        z_coef: factor of the z-loss.
        balance_coef: factor of the load-balancing loss.
        config: options that replace those of the experts' products.

    Returns:
        output like x, and aux [2] float32: z-loss, load-balancing loss.
    """
    import torch

    experts, d = router.shape
    if x.shape[-1] != d or gate.shape != up.shape or gate.shape[:2] != (experts, d):
        raise ValueError("x [..., d], router [E, d], gate and up [E, d, f] disagree")
    if not 1 <= top_k <= experts:
        raise ValueError(f"top_k must be in [1, {experts}], not {top_k}")
    tokens = x.reshape(-1, d)
    logits = matmul(tokens, transpose(router), out_dtype=torch.float32)
    probs = softmax(logits)
    weights, choice = torch.topk(probs, top_k, dim=1)

    # Sort the T·top_k choices by expert: each expert then has a run of rows of its own.
    chosen, order = torch.sort(choice.flatten(), stable=True)
    ids = torch.arange(experts + 1, device=x.device)
    offsets = torch.searchsorted(chosen, ids)
    token_of = order // top_k

    def expert_rows(rows: torch.Tensor, w0: Any, w1: Any, w2: Any, **how: Any) -> torch.Tensor:
        first = {"offsets": how.get("offsets"), "config": config}
        hidden = silu(matmul(rows, w0, **first), matmul(rows, w1, **first))
        return matmul(hidden, w2, **how, config=config)

    if shared_gate is None:
        out = torch.zeros(tokens.shape, dtype=torch.float32, device=x.device)
    else:
        shared = (shared_gate, shared_up, shared_down)
        out = expert_rows(tokens, *shared, out_dtype=torch.float32)
    rows = expert_rows(gather_rows(tokens, token_of), gate, up, down, offsets=offsets)
    scatter_add_rows(rows, token_of, out, weights.flatten()[order], in_place=True)

    z = logsumexp(logits)
    z_loss = z_coef * mean((z * z)[None])
    share = offsets.diff() / chosen.numel()
    balance_loss = balance_coef * experts * (mean(probs, dim=0) * share).sum()
    return out.to(x.dtype).view(x.shape), torch.stack((z_loss, balance_loss))


OPERATIONS: dict[str, Callable[..., Any]] = {
    "matmul": matmul,
    "silu": silu,
    "softmax": softmax,
    "logsumexp": logsumexp,
    "mean": mean,
    "transpose": transpose,
    "gather_rows": gather_rows,
    "scatter_add_rows": scatter_add_rows,
    "layer": layer,
}


def launch(op: str = "layer", **inputs: Any) -> Any:
    """Run one operation; its function of the same name tells its arguments and result.

    Raises:
        ValueError: there is no such operation, or its arguments do not go together.
    """
    if op not in OPERATIONS:
        raise ValueError(f"op must be one of {', '.join(OPERATIONS)}, not {op!r}")
    return OPERATIONS[op](**inputs)


# --------------------------------------------------------------------------- plain PyTorch


def _reference_matmul(a: Any, b: Any, offsets: Any = None, out_dtype: Any = None) -> Any:
    """In float64, every row times every group's matrix, then the choice."""
    import torch

    b = b if b.ndim == 3 else b[None]
    row = torch.arange(a.shape[0], device=a.device)[:, None]
    out = torch.zeros((a.shape[0], b.shape[2]), dtype=torch.float64, device=a.device)
    for group in range(b.shape[0]):
        product = a.double() @ b[group].double()
        if offsets is not None:
            product.masked_fill_((row < offsets[group]) | (row >= offsets[group + 1]), 0.0)
        out += product
    return out.to(out_dtype or a.dtype)


def _reference_layer(
    x: Any, router: Any, gate: Any, up: Any, down: Any, top_k: int, shared_gate: Any = None,
    shared_up: Any = None, shared_down: Any = None, z_coef: float = 1e-3,
    balance_coef: float = 1e-2,
) -> Any:  # fmt: skip
    """In float32, every token through every expert, weighed by a probability that may be 0."""
    import torch

    tokens = x.reshape(-1, x.shape[-1])
    logits = tokens.double() @ router.double().T  # so that a near tie falls as it must
    probs = torch.softmax(logits, 1).float()
    values, choice = probs.topk(top_k, dim=1)
    weights = torch.zeros_like(probs).scatter(1, choice, values)
    tokens = tokens.float()

    def expert(w0: Any, w1: Any, w2: Any) -> Any:
        gated = tokens @ w0.float()
        return (gated * torch.sigmoid(gated) * (tokens @ w1.float())) @ w2.float()

    has_shared = shared_gate is not None
    out = expert(shared_gate, shared_up, shared_down) if has_shared else torch.zeros_like(tokens)
    for e in range(router.shape[0]):
        out += weights[:, e, None] * expert(gate[e], up[e], down[e])
    z_loss = z_coef * logits.exp().sum(1).log().square().mean()
    share = torch.zeros_like(probs).scatter(1, choice, 1.0).mean(0) / top_k
    balance_loss = balance_coef * router.shape[0] * (probs.mean(0) * share).sum()
    return out.to(x.dtype).view(x.shape), torch.stack((z_loss.float(), balance_loss))


def reference(op: str = "layer", config: dict[str, Any] | None = None, **inputs: Any) -> Any:
    """The same in plain PyTorch, in float32 or float64; `config` is accepted and ignored."""
    import torch

    def silu(x: Any, up: Any = None) -> Any:
        y = x.double() / (1.0 + torch.exp(-x.double()))
        return (y if up is None else y * up.double()).to(x.dtype)

    def scatter_add_rows(values: Any, index: Any, base: Any, weights: Any = None) -> Any:
        factors = 1.0 if weights is None else weights[:, None].double()
        return base.double().index_add(0, index, values.double() * factors).float()

    references: dict[str, Callable[..., Any]] = {
        "matmul": _reference_matmul,
        "silu": silu,
        "softmax": lambda x: torch.softmax(x.double(), 1).to(x.dtype),
        "logsumexp": lambda x: torch.logsumexp(x.double(), 1).float(),
        "mean": lambda x, dim: x.double().mean(dim=(0, 1) if dim is None else dim).float(),
        "transpose": lambda x: x.T,
        "gather_rows": lambda x, index: x[index],
        "scatter_add_rows": scatter_add_rows,
        "layer": _reference_layer,
    }
    return references[op](**inputs)


def _torch_matmul(a: Any, b: Any, offsets: Any) -> Any:
    """One torch.matmul per group: the sizes of the groups are brought to the host."""
    import torch

    sizes = offsets.diff().tolist()
    return torch.cat([rows @ b[group] for group, rows in enumerate(a.split(sizes))])


def _torch_layer(
    x: Any, router: Any, gate: Any, up: Any, down: Any, top_k: int, shared_gate: Any = None,
    shared_up: Any = None, shared_down: Any = None, z_coef: float = 1e-3,
    balance_coef: float = 1e-2,
) -> Any:  # fmt: skip
    """One expert after another, over the tokens that chose it."""
    import torch

    tokens = x.reshape(-1, x.shape[-1])
    logits = (tokens @ router.T).float()
    probs = torch.softmax(logits, 1)
    weights, choice = probs.topk(top_k, dim=1)

    def expert(rows: Any, w0: Any, w1: Any, w2: Any) -> Any:
        return (torch.nn.functional.silu(rows @ w0) * (rows @ w1)) @ w2

    out = torch.zeros_like(tokens)
    if shared_gate is not None:
        out = expert(tokens, shared_gate, shared_up, shared_down)
    counts = choice.flatten().bincount(minlength=router.shape[0])
    order = choice.flatten().argsort()
    for e, slots in enumerate(order.split(counts.tolist())):
        rows = expert(tokens[slots // top_k], gate[e], up[e], down[e])
        rows *= weights.flatten()[slots, None].to(rows.dtype)
        out.index_add_(0, slots // top_k, rows)
    z_loss = z_coef * logits.logsumexp(1).square().mean()
    share = counts / choice.numel()
    balance_loss = balance_coef * router.shape[0] * (probs.mean(0) * share).sum()
    return out.view(x.shape), torch.stack((z_loss, balance_loss))


def torch_operator(op: str = "layer", config: dict[str, Any] | None = None, **inputs: Any) -> Any:
    """PyTorch's own operators for the same job; `config` is accepted and ignored."""
    import torch

    def silu(x: Any, up: Any = None) -> Any:
        y = torch.nn.functional.silu(x)
        return y if up is None else y * up

    def scatter_add_rows(values: Any, index: Any, base: Any, weights: Any = None) -> Any:
        values = values.float() if weights is None else values * weights[:, None]
        return base.index_add(0, index, values)

    operators: dict[str, Callable[..., Any]] = {
        "matmul": _torch_matmul,
        "silu": silu,
        "softmax": lambda x: torch.softmax(x, 1),
        "logsumexp": lambda x: torch.logsumexp(x, 1).float(),
        "mean": lambda x, dim: x.mean(dim=(0, 1) if dim is None else dim, dtype=torch.float32),
        "transpose": lambda x: x.T.contiguous(),
        "gather_rows": lambda x, index: x.index_select(0, index),
        "scatter_add_rows": scatter_add_rows,
        "layer": _torch_layer,
    }
    return operators[op](**inputs)


# --------------------------------------------------------------------------- cases


def _part_near_ties(x: torch.Tensor, router: torch.Tensor, top_k: int) -> None:
    """Overwrites tokens whose last expert chosen and first one left out are all but equal.

    Which of the two a token goes to is then a matter of rounding, and either answer right.
    """
    if top_k >= router.shape[0]:
        return
    tokens = x.view(-1, x.shape[-1])
    best = (tokens.double() @ router.double().T).topk(top_k + 1, dim=-1).values
    clear = best[:, top_k - 1] - best[:, top_k] > 1e-3
    tokens.copy_(tokens.where(clear[:, None], tokens[clear.int().argmax()]))


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference."""
    import torch

    generator = torch.Generator(device=device).manual_seed(9371)
    dtype = getattr(torch, case.get("dtype", "float16"))

    def normal(*shape: int, size: float = 1.0) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=dtype).mul_(size)

    def integers(below: int, n: int) -> torch.Tensor:
        return torch.randint(below, (n,), generator=generator, device=device)

    op = case["op"]
    inputs: dict[str, Any] = {"op": op, "config": case.get("config")}
    if op == "layer":  # the weights' sizes are those of gpumode's problem
        d, f, experts = case["d"], case["f"], case["E"]
        inputs["x"] = normal(case["B"], case["S"], d)
        inputs["router"] = normal(experts, d, size=d**-0.5)
        inputs |= {key: case[key] for key in ("top_k", "z_coef", "balance_coef") if key in case}
        _part_near_ties(inputs["x"], inputs["router"], case["top_k"])
        wide = f * case.get("shared", 1)
        for prefix, lead, width in (("", (experts,), f), ("shared_", (), wide)):
            if width:
                inputs[prefix + "gate"] = normal(*lead, d, width, size=width**-0.5)
                inputs[prefix + "up"] = normal(*lead, d, width, size=width**-0.5)
                inputs[prefix + "down"] = normal(*lead, width, d, size=d**-0.5)
        return inputs
    rows = case["rows"]
    if op == "matmul":
        groups, k = case["groups"], case["K"]
        inputs |= {"a": normal(rows, k), "b": normal(groups, k, case["N"], size=k**-0.5)}
        bounds = torch.arange(groups + 1, device=device)
        # Groups of any size, unless all rows fall on the one that "only" names.
        group_of = integers(groups, rows).sort().values
        if "only" in case:
            group_of = torch.full_like(group_of, case["only"])
        inputs["offsets"] = torch.searchsorted(group_of, bounds).int()
        return inputs
    cols = case["cols"]
    x = normal(rows, cols + case.get("padding", 0))[:, :cols]
    if op == "scatter_add_rows":
        into = case["into"]
        inputs |= {"values": x, "index": integers(into, rows)}
        inputs["base"] = torch.ones((into, cols), device=device)
        if case.get("weighted"):
            inputs["weights"] = torch.rand(rows, generator=generator, device=device)
        return inputs
    x[:, : case.get("hidden_cols", 0)] = float("-inf")
    inputs["x"] = x
    if case.get("gated"):
        inputs["up"] = normal(rows, cols)
    if op == "mean":
        inputs["dim"] = case.get("dim")
    if op == "gather_rows":
        inputs["index"] = integers(rows, case["taken"])
    return inputs


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """Operations of the matrix products, and the least bytes to move, of a CASES or BENCH entry."""
    op, size = case["op"], 4 if case.get("dtype") == "float32" else 2
    if op == "layer":
        tokens, d, f, experts = case["B"] * case["S"], case["d"], case["f"], case["E"]
        shared = case.get("shared", 1)
        flop = 6 * tokens * d * f * (case["top_k"] + shared) + 2 * tokens * d * experts
        weights = 3 * d * f * (min(experts, tokens * case["top_k"]) + shared) + experts * d
        return {"flop": flop, "bytes": size * (weights + 2 * tokens * d)}
    rows = case["rows"]
    if op == "matmul":
        n, k, groups = case["N"], case["K"], min(case["groups"], rows)
        return {"flop": 2 * rows * k * n, "bytes": size * (rows * k + groups * k * n + rows * n)}
    cols, taken = case["cols"], case.get("taken", 0)
    matrix = size * rows * cols
    moved = {
        "silu": matrix * (3 if case.get("gated") else 2),
        "softmax": 2 * matrix,
        "transpose": 2 * matrix,
        "logsumexp": matrix + 4 * rows,
        "mean": matrix + 4 * {None: 1, 0: cols, 1: rows}[case.get("dim")],
        "gather_rows": size * (min(rows, taken) + taken) * cols + 8 * taken,
        "scatter_add_rows": matrix + 8 * rows + 2 * 4 * case.get("into", 0) * cols,
    }
    return {"flop": None, "bytes": moved[op]}


def _case(op: str, suffix: str, tolerance: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": f"{op}_{suffix}" if suffix else op, "op": op, **more, **tolerance}


def _layer(B: int, S: int, d: int, f: int, E: int, top_k: int, **more: Any) -> dict[str, Any]:
    return {"B": B, "S": S, "d": d, "f": f, "E": E, "top_k": top_k, **more}


_EXACT = {"atol": 0.0, "rtol": 0.0}
_FP16 = {"atol": 1e-3, "rtol": 1e-3}
_BF16 = {"dtype": "bfloat16", "atol": 1e-2, "rtol": 1e-2}
_FP32 = {"dtype": "float32", "atol": 1e-5, "rtol": 1e-5}
_SUMS = {"atol": 1e-6, "rtol": 1e-5}  # float32 results of float16 values
_LAYER = {"atol": 1e-2, "rtol": 1e-2}
_TIGHT = {"dtype": "float32", "atol": 1e-4, "rtol": 1e-4}
_SMALL_TILES = {"BLOCK_M": 16, "BLOCK_N": 16, "GROUP_M": 3}

CASES = [
    _case("matmul", "", _FP16, groups=3, rows=70, K=64, N=80),
    _case("matmul", "one_group", _FP16, groups=1, rows=40, K=64, N=32),
    _case("matmul", "ragged", _FP16, groups=5, rows=77, K=71, N=93),
    _case("matmul", "empty_groups", _FP16, groups=4, rows=37, K=64, N=80, only=2),
    _case("matmul", "one_row", _FP16, groups=4, rows=1, K=64, N=80),
    # Seven rows of tiles in blocks of three: the last is short.
    _case("matmul", "small_tiles", _FP16, groups=3, rows=70, K=64, N=80, config=_SMALL_TILES),
    _case("matmul", "bf16", _BF16, groups=3, rows=70, K=64, N=80),
    _case("matmul", "fp32", _FP32, groups=3, rows=70, K=50, N=80),
    _case("silu", "", _FP16, rows=30, cols=100),
    _case("silu", "gated", _FP16, rows=30, cols=100, gated=True),
    _case("silu", "one_value", _FP32, rows=1, cols=1),
    _case("silu", "bf16", _BF16, rows=30, cols=100, gated=True),
    _case("softmax", "", _FP32, rows=37, cols=32),
    _case("softmax", "ragged", _FP32, rows=5, cols=781, padding=3),
    _case("softmax", "looped", _FP32, rows=5, cols=781, config={"COLS": 128}),
    _case("softmax", "hidden", _FP32, rows=4, cols=300, hidden_cols=150, config={"COLS": 64}),
    _case("softmax", "fp16", _FP16, rows=9, cols=100),
    _case("logsumexp", "", _FP32, rows=37, cols=32),
    _case("logsumexp", "one_value", _FP32, rows=1, cols=1),
    _case("logsumexp", "looped", _SUMS, rows=5, cols=781, config={"COLS": 128}),
    _case("logsumexp", "hidden", _FP32, rows=4, cols=300, hidden_cols=150, config={"COLS": 64}),
    _case("mean", "all", _FP32, rows=37, cols=93),
    _case("mean", "columns", _FP32, rows=300, cols=20, dim=0),
    _case("mean", "rows", _FP32, rows=11, cols=2100, dim=1, padding=5),
    _case("mean", "one_part", _SUMS, rows=5, cols=300, dim=1, config={"PARTS": 1}),
    _case("mean", "one_value", _FP32, rows=1, cols=1),
    _case("transpose", "", _EXACT, rows=70, cols=93),
    _case("transpose", "padded", _EXACT, rows=8, cols=130, padding=2),
    _case("gather_rows", "", _EXACT, rows=13, cols=70, taken=41),
    _case("gather_rows", "wide", _EXACT, rows=3, cols=1100, taken=5, padding=4),
    _case("scatter_add_rows", "", _SUMS, rows=41, cols=70, into=6),
    _case("scatter_add_rows", "weighted", _SUMS, rows=30, cols=1100, into=40, weighted=True),
    _case("layer", "", _LAYER, **_layer(2, 16, 64, 48, 8, 4)),
    _case("layer", "all_experts", _LAYER, **_layer(1, 24, 64, 32, 4, 4)),
    _case("layer", "ragged", _LAYER, **_layer(1, 19, 70, 41, 5, 2, shared=2)),
    _case("layer", "no_shared", _LAYER, **_layer(1, 16, 64, 32, 8, 1, shared=0)),
    _case("layer", "one_token", _LAYER, **_layer(1, 1, 64, 32, 8, 4)),
    # Results small enough for three roundings to bfloat16 on the way.
    _case("layer", "bf16", _LAYER, **_layer(1, 24, 64, 48, 8, 2, shared=0, dtype="bfloat16")),
    # Coefficients of 1, that the losses be seen.
    _case("layer", "losses", _TIGHT, **_layer(1, 24, 64, 48, 8, 3), z_coef=1.0, balance_coef=1.0),
]

_ROUTER = {"rows": 8192, "cols": 32, "dtype": "float32"}
_HIDDEN = {"rows": 8192, "cols": 7168}

BENCH = [
    # gpumode's benchmarks, then its tests: experts x batch x sequence.
    *(
        _case("layer", f"{e}x{b}x{s}", {}, **_layer(b, s, 7168, 2048, e, 4))
        for e, b, s in (
            *((32, 1, 2048), (32, 2, 4096), (32, 1, 8192)),
            *((4, 1, 512), (8, 2, 512), (8, 1, 8192)),
        )
    ),
    # The suite, in the sizes that it has in the layer of 8192 tokens.
    _case("matmul", "up", {}, rows=32768, groups=32, K=7168, N=2048),
    _case("matmul", "down", {}, rows=32768, groups=32, K=2048, N=7168),
    _case("matmul", "router", {}, rows=8192, groups=1, K=7168, N=32),
    _case("silu", "gated", {}, rows=32768, cols=2048, gated=True),
    _case("softmax", "router", {}, **_ROUTER),
    _case("softmax", "hidden", {}, **_HIDDEN),
    _case("logsumexp", "router", {}, **_ROUTER),
    _case("logsumexp", "hidden", {}, **_HIDDEN),
    _case("mean", "all", {}, **_HIDDEN),
    _case("mean", "columns", {}, **_HIDDEN, dim=0),
    _case("mean", "rows", {}, **_HIDDEN, dim=1),
    _case("transpose", "hidden", {}, **_HIDDEN),
    _case("gather_rows", "", {}, **_HIDDEN, taken=32768),
    _case("scatter_add_rows", "", {}, rows=32768, cols=7168, into=8192, weighted=True),
]

# Of grouped_matmul_kernel, where the layer's time goes.
TUNING = {
    "BLOCK_M": [32, 64, 128, 256],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "GROUP_M": [1, 4, 8],
    "num_warps": [4, 8],
    "num_stages": [1, 2],
    "waves_per_eu": [0, 2],
    "matrix_instr_nonkdim": [16, 32],
    "kpack": [1, 2],
}


def _compile_case(
    name: str, kernel: str, pointers: str, sizes: str, archs: tuple[str, ...],
    config: dict[str, Any], **constexprs: Any,
) -> dict[str, Any]:  # fmt: skip
    """`pointers` "name:dtype …", - for None; `sizes` "name …", multiples of 16 unless name:type."""
    types = dict(pointer.split(":") for pointer in pointers.split())
    signature = {f"{name}_ptr": f"*{dtype}:16" for name, dtype in types.items() if dtype != "-"}
    for size in sizes.split():
        key, _, type_ = size.partition(":")
        signature[key] = type_ or "i32:16"
    options = {"num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim", "kpack"}
    return {
        "name": name,
        "kernel": kernel,
        "signature": signature,
        "constexprs": {
            **{f"{name}_ptr": None for name, dtype in types.items() if dtype == "-"},
            **{key: value for key, value in config.items() if key not in options},
            **constexprs,
        },
        "options": {key: value for key, value in config.items() if key in options},
        "archs": list(archs),
    }


def _matmul_case(
    name: str, dtype: str, archs: tuple[str, ...], *, rows: int = 1024, N: int = 2048,
    out: str = "", groups: int = 32, even_k: bool = True, **replaced: int,
) -> dict[str, Any]:  # fmt: skip
    """The default of `launch` on AMD for such a product, but for what `replaced` replaces."""
    bits = 32 if dtype == "fp32" else 16
    config = default_config("hip", "matmul", rows=rows, N=N, bits=bits) | replaced
    pointers = f"a:{dtype} b:{dtype} out:{out or dtype} offsets:i32"
    sizes = f"N K{'' if even_k else ':i32'} stride_am stride_be stride_bk stride_bn:i32:1 stride_om"
    padded = max(2, triton.next_power_of_2(groups))
    constexprs = {"GROUPS": groups, "GROUPS_PADDED": padded, "EVEN_K": even_k}
    kernel = "grouped_matmul_kernel"
    return _compile_case(name, kernel, pointers, sizes, archs, config, **constexprs)


def _suite_case(name: str, op: str, pointers: str, sizes: str, **shape: int) -> dict[str, Any]:
    config = default_config("hip", op, **shape)
    return _compile_case(name, f"{op}_kernel", pointers, sizes, _CDNA + _RDNA, config)


_CDNA = ("gfx90a", "gfx94*", "gfx95*")
_RDNA = ("gfx11*", "gfx12*")
# RDNA's wave of 32 lanes has one matrix instruction, 16x16, and no AGPRs: smaller tiles.
_WAVE32: dict[str, Any] = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
_WAVE32 |= {"num_warps": 4, "matrix_instr_nonkdim": 0}
_MATRIX = "n_rows n_cols stride_x"
_KEPT_LIES = "n_kept n_summed stride_kept:i32:1 stride_summed"
_SUMMED_LIES = "n_kept n_summed stride_kept stride_summed:i32:1"
_SCATTERED = "values:fp16 index:i64 weights:fp32 out:fp32"
_MEAN = {"kept": 8192, "summed": 7168}

KINSPECT_CASES = [
    _matmul_case("matmul_fp16_128x128x64", "fp16", _CDNA),
    _matmul_case("matmul_bf16_128x128x64", "bf16", _CDNA),
    _matmul_case("matmul_fp32_128x128x32", "fp32", _CDNA),
    _matmul_case("matmul_few_rows_64x128x64", "fp16", _CDNA, rows=64),
    _matmul_case("matmul_router_32x32x128", "fp16", _CDNA, N=32, out="fp32", groups=1),
    _matmul_case("matmul_ragged_k_128x128x64", "fp16", ("gfx94*",), even_k=False),
    _matmul_case("matmul_wave32_64x64x32", "fp16", _RDNA, **_WAVE32),
    _matmul_case("matmul_bf16_wave32_64x64x32", "bf16", _RDNA, **_WAVE32),
    _suite_case("silu", "silu", "x:fp16 up:- out:fp16", "n"),
    _suite_case("silu_gated", "silu", "x:fp16 up:fp16 out:fp16", "n"),
    _suite_case("softmax_router", "softmax", "x:fp32 out:fp32", _MATRIX, cols=32),
    _suite_case("softmax_hidden", "softmax", "x:fp16 out:fp16", _MATRIX, cols=7168),
    _suite_case("logsumexp_router", "logsumexp", "x:fp32 out:fp32", _MATRIX, cols=32),
    _suite_case("mean_columns", "mean", "x:fp16 out:fp32", _KEPT_LIES, contiguous=0, **_MEAN),
    _suite_case("mean_rows", "mean", "x:fp16 out:fp32", _SUMMED_LIES, contiguous=1, **_MEAN),
    _suite_case("transpose", "transpose", "x:fp16 out:fp16", _MATRIX),
    _suite_case("gather_rows", "gather_rows", "x:fp16 index:i64 out:fp16", _MATRIX),
    _suite_case("scatter_add", "scatter_add_rows", _SCATTERED, "n_rows n_cols stride_values"),
]
