"""Matrix multiplication in float8 with a scale for each 1×128 of a and each 128×128 of b.

Shapes and layouts
    a [M, K], b [N, K], c [M, N]; a_scale [M, K/128], b_scale [⌈N/128⌉, K/128]. Any strides: the
    published form is column-major a, b and scales (contiguous along M and along N), row-major ones
    (contiguous along K) need no transposition and are faster. c is row-major. M and N are
    multiples of 64 (N = 576 leaves half a scale block at the edge), K is one of 128.
Dtypes
    a and b float8: e4m3fnuz, native on CDNA3 (gfx942), or e4m3fn of the OCP standard, native on
    CDNA4 (gfx950), RDNA4 and NVIDIA's Hopper. The scales are float32 of either sign; the products
    are summed in float32; c is bfloat16, float16 or float32.
Formula
    c[m, n] = Σ_g a_scale[m, g]·b_scale[n // 128, g]·(Σ_k∈g a[m, k]·b[n, k]), g a group of 128 k
    SPLIT_K > 1 shares the groups among that many programs: each writes its part in float32, a
    second kernel adds the parts up in a fixed order, so results do not vary from run to run.

Work: 2·M·N·K operations.

Answers to: the fp8-mm problem of GPU MODE's AMD competition (amd-fp8-gemm.py) and RadeonFlow's
kernel for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

SCALE_BLOCK = 128  # values of k under one scale of a or b, and columns under one scale of b
SCALE_GROUP = tl.constexpr(SCALE_BLOCK)


@triton.jit
def fp8_gemm_kernel(
    a_ptr, b_ptr, out_ptr, a_scale_ptr, b_scale_ptr, M, N, K,
    stride_am, stride_ak, stride_bn, stride_bk, stride_part, stride_om,
    stride_asm, stride_ask, stride_bsn, stride_bsk,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    """One program computes a BLOCK_M × BLOCK_N tile of c, or one part of it: a range of K.

    out is c when SPLIT_K is 1, else the parts [SPLIT_K, M, N], stride_part elements apart.
    BLOCK_K divides 128, so that one step has one scale for each row of a.
    Grid: (⌈M/BLOCK_M⌉·⌈N/BLOCK_N⌉, SPLIT_K).
    """
    # Walk the tiles in groups of GROUP_M rows: programs that run at the same time then share rows
    # of a and b in the L2 cache.
    pid = tl.program_id(0)
    part = tl.program_id(1)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    group_rows = tl.minimum(tiles_m - first_m, GROUP_M)
    pid_m = first_m + pid % (GROUP_M * tiles_n) % group_rows
    pid_n = pid % (GROUP_M * tiles_n) // group_rows

    # Rows and columns beyond the edge wrap around: they read something valid that is never stored.
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    groups = K // SCALE_GROUP
    groups_per_part = tl.cdiv(groups, SPLIT_K)
    first = part * groups_per_part
    last = tl.minimum(first + groups_per_part, groups)

    a_ptrs = a_ptr + offs_m[:, None] * stride_am + (first * SCALE_GROUP + offs_k) * stride_ak
    b_ptrs = b_ptr + (first * SCALE_GROUP + offs_k)[:, None] * stride_bk + offs_n * stride_bn
    a_scale_ptrs = a_scale_ptr + offs_m * stride_asm + first * stride_ask
    if BLOCK_N <= SCALE_GROUP:  # all columns of the tile share one scale: it stays scalar
        b_scale_ptrs = b_scale_ptr + pid_n * BLOCK_N // SCALE_GROUP * stride_bsn
    else:
        b_scale_ptrs = b_scale_ptr + offs_n // SCALE_GROUP * stride_bsn
    b_scale_ptrs += first * stride_bsk

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    STEPS: tl.constexpr = SCALE_GROUP // BLOCK_K
    for step in range((last - first) * STEPS):
        a = tl.load(a_ptrs)
        b = tl.load(b_ptrs)
        group = step // STEPS
        a_scale = tl.load(a_scale_ptrs + group * stride_ask)
        b_scale = tl.load(b_scale_ptrs + group * stride_bsk)
        # The matrix cores know nothing of scales: each step's product is scaled on its own.
        # Hopper adds float8 products up in few bits: after 64 of K the sum goes to float32.
        product = tl.dot(a, b, out_dtype=tl.float32, max_num_imprecise_acc=64)
        if BLOCK_N <= SCALE_GROUP:
            acc += product * (a_scale * b_scale)[:, None]
        else:
            acc += product * a_scale[:, None] * b_scale[None, :]
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk

    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    out_ptrs = out_ptr + part * stride_part.to(tl.int64) + rows[:, None] * stride_om + cols
    in_range = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=in_range)


@triton.jit
def transpose_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    """Write the column-major bytes x [rows, cols] row-major. Grid: (⌈rows/BLOCK⌉, ⌈cols/BLOCK⌉)."""
    offs_r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offs_c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (offs_r[:, None] < rows) & (offs_c[None, :] < cols)
    x = tl.load(x_ptr + offs_r[:, None] + offs_c[None, :] * rows, mask=mask)
    tl.store(out_ptr + offs_r[:, None] * cols + offs_c[None, :], x, mask=mask)


@triton.jit
def add_parts_kernel(parts_ptr, c_ptr, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """Add up parts [PARTS, n], both contiguous, into c [n]. Grid: (⌈n/BLOCK⌉,)."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in tl.static_range(PARTS):
        total += tl.load(parts_ptr + part * n.to(tl.int64) + offsets, mask=mask, other=0.0)
    tl.store(c_ptr + offsets, total.to(c_ptr.dtype.element_ty), mask=mask)


_TILE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 8}

# TRANSPOSE_FIRST copies a column-major a or b to row-major before the product. NVIDIA's matrix
# cores read float8 along K only, and a tile turned inside the hot loop costs more than one copy.
# On AMD, four waves let two workgroups share a CU, so that one computes while the other waits.
CONFIGS = {
    "hip": {
        **_TILE,
        "TRANSPOSE_FIRST": False,
        "num_warps": 4,
        "num_stages": 2,
        "matrix_instr_nonkdim": 16,
    },
    "cuda": {**_TILE, "TRANSPOSE_FIRST": True, "num_warps": 8, "num_stages": 3},
}

# Workgroups of these sizes that run at a time: two on each CU of an MI300X, one on an H200's SM.
_SLOTS = {"hip": 2 * 304, "cuda": 132}
_ADD_PARTS = {"BLOCK": 1024, "num_warps": 4}
_TRANSPOSE = {"BLOCK": 64, "num_warps": 4}


def default_config(backend: str, M: int, N: int, K: int) -> dict[str, Any]:
    """Block sizes and launch options for one shape on "hip" or "cuda".

    K is split, up to eightfold, while all parts of all tiles still run at the same time and each
    part keeps 512 values of K.
    """
    config = CONFIGS[backend]
    tiles = triton.cdiv(M, config["BLOCK_M"]) * triton.cdiv(N, config["BLOCK_N"])
    split_k = 1
    while split_k < 8 and 2 * tiles * split_k <= _SLOTS[backend] and split_k * 1024 <= K:
        split_k *= 2
    return {**config, "SPLIT_K": split_k}


def _check(a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor) -> None:
    import torch

    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1] or a.dtype != b.dtype:
        raise ValueError(
            f"a {tuple(a.shape)} {a.dtype} and b {tuple(b.shape)} {b.dtype} must be [M, K] and "
            "[N, K] of one dtype"
        )
    if a.dtype not in (torch.float8_e4m3fnuz, torch.float8_e4m3fn):
        raise ValueError(f"a and b must be float8_e4m3fnuz or float8_e4m3fn, not {a.dtype}")
    (m, k), n = a.shape, b.shape[0]
    if m % 64 or n % 64 or k % SCALE_BLOCK or not min(m, n, k):
        raise ValueError(f"M {m} and N {n} must be multiples of 64, K {k} one of {SCALE_BLOCK}")
    if max(m * k, n * k, m * n) >= 2**31:
        raise ValueError("a matrix of 2³¹ elements or more is beyond 32-bit offsets")
    groups = k // SCALE_BLOCK
    for name, scale, rows in (
        ("a_scale", a_scale, m),
        ("b_scale", b_scale, triton.cdiv(n, SCALE_BLOCK)),
    ):
        if tuple(scale.shape) != (rows, groups) or scale.dtype != torch.float32:
            raise ValueError(
                f"{name} must be float32 of shape {(rows, groups)}, not {scale.dtype} of shape "
                f"{tuple(scale.shape)}"
            )


def _row_major(x: torch.Tensor) -> torch.Tensor:
    """A column-major matrix copied to row-major; anything else as it is."""
    import torch

    rows, cols = x.shape
    if x.stride() != (1, rows):
        return x
    out = torch.empty((rows, cols), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(rows, _TRANSPOSE["BLOCK"]), triton.cdiv(cols, _TRANSPOSE["BLOCK"]))
    # As plain bytes, which every chip can move.
    transpose_kernel[grid](x.view(torch.int8), out.view(torch.int8), rows, cols, **_TRANSPOSE)
    return out


def launch(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    out_dtype: torch.dtype | None = None,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """Multiply a by the transpose of b, both in blocks with scales.

    Args:
        a: [M, K] float8, any strides.
        b: [N, K], dtype of a, any strides.
        a_scale: [M, K/128] float32, any strides.
        b_scale: [⌈N/128⌉, K/128] float32, any strides.
        out_dtype: dtype of the result, bfloat16 by default.
        config: block sizes and launch options that replace those of default_config.

    Returns:
        The product [M, N], row-major.

    Raises:
        ValueError: shapes, dtypes or options that do not go together.
    """
    import torch

    _check(a, b, a_scale, b_scale)
    (m, k), n = a.shape, b.shape[0]
    backend = "hip" if torch.version.hip else "cuda"
    options = {**default_config(backend, m, n, k), **(config or {})}
    block_n, split_k = options["BLOCK_N"], options["SPLIT_K"]
    if SCALE_BLOCK % options["BLOCK_K"] or (block_n % SCALE_BLOCK and SCALE_BLOCK % block_n):
        raise ValueError(f"BLOCK_K must divide {SCALE_BLOCK}, and BLOCK_N divide it or be divided")

    if options.pop("TRANSPOSE_FIRST"):
        a, b = _row_major(a), _row_major(b)
    c = torch.empty((m, n), dtype=out_dtype or torch.bfloat16, device=a.device)
    parts = c
    if split_k > 1:
        parts = torch.empty((split_k, m, n), dtype=torch.float32, device=a.device)
    grid = (triton.cdiv(m, options["BLOCK_M"]) * triton.cdiv(n, block_n), split_k)
    fp8_gemm_kernel[grid](
        a, b, parts, a_scale, b_scale, m, n, k,
        *a.stride(), *b.stride(), m * n, n, *a_scale.stride(), *b_scale.stride(), **options,
    )  # fmt: skip
    if split_k > 1:
        blocks = triton.cdiv(m * n, _ADD_PARTS["BLOCK"])
        add_parts_kernel[(blocks,)](parts, c, m * n, PARTS=split_k, **_ADD_PARTS)
    return c


def _dequantise(x: torch.Tensor, scale: torch.Tensor, rows_per_scale: int) -> torch.Tensor:
    """Multiply x [R, K] by scale [⌈R/rows_per_scale⌉, K/128], in the dtype of scale."""
    scale = scale.repeat_interleave(SCALE_BLOCK, 1)
    if rows_per_scale > 1:
        scale = scale.repeat_interleave(rows_per_scale, 0)[: x.shape[0]]
    return x.to(scale.dtype) * scale


def reference(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    out_dtype: torch.dtype | None = None,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """The same product in plain PyTorch: scale the matrices first, then multiply in float64.

    `config` is accepted and ignored.
    """
    import torch

    c = _dequantise(a, a_scale.double(), 1) @ _dequantise(b, b_scale.double(), SCALE_BLOCK).T
    return c.to(out_dtype or torch.bfloat16)


def torch_operator(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    out_dtype: torch.dtype | None = None,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """PyTorch's product for the same inputs; `config` is accepted and ignored.

    On Hopper its float8 product with a scale for each 1×128 of both matrices, which wants a and b
    row-major, a_scale column-major and a scale for each row of b: copies into those layouts are
    part of the job. Elsewhere the scaled matrices are multiplied in bfloat16.
    """
    import torch

    out_dtype = out_dtype or torch.bfloat16
    hopper = (
        a.is_cuda
        and not torch.version.hip
        and torch.cuda.get_device_capability(a.device)[0] == 9
        and a.dtype == torch.float8_e4m3fn
    )
    if hopper:
        row_scales = b_scale.T.contiguous().repeat_interleave(SCALE_BLOCK, 1)[:, : b.shape[0]]
        return torch._scaled_mm(
            a.contiguous(),
            b.contiguous().T,
            a_scale.T.contiguous().T,
            row_scales.contiguous(),
            out_dtype=out_dtype,
        )
    scaled_a = _dequantise(a, a_scale, 1).bfloat16()
    scaled_b = _dequantise(b, b_scale, SCALE_BLOCK).bfloat16()
    return (scaled_a @ scaled_b.T).to(out_dtype)


def native_float8(device: str) -> str:
    """The e4m3 kind that the matrix cores of this device know."""
    import torch

    if torch.version.hip and torch.device(device).type == "cuda":
        arch = torch.cuda.get_device_properties(device).gcnArchName
        return "float8_e4m3fnuz" if arch.startswith("gfx94") else "float8_e4m3fn"
    return "float8_e4m3fn"


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference.

    `layout` is "column" or "row" for a and b together, `scale_layout` for the scales (by default
    as published: column-major). The scales are normal around 0, half of them negative.
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(4)
    dtype = getattr(torch, case.get("dtype") or native_float8(device))

    def matrix(rows: int, cols: int, layout: str) -> torch.Tensor:
        if layout == "row":
            return torch.randn((rows, cols), generator=generator, device=device)
        return torch.randn((cols, rows), generator=generator, device=device).T

    m, n, k = case["M"], case["N"], case["K"]
    layout, scale_layout = case.get("layout", "column"), case.get("scale_layout", "column")
    groups = k // SCALE_BLOCK
    inputs: dict[str, Any] = {
        "a": matrix(m, k, layout).to(dtype),
        "b": matrix(n, k, layout).to(dtype),
        # A tenth each: sums over all published K then stay near 1, where atol means something.
        "a_scale": 0.1 * matrix(m, groups, scale_layout),
        "b_scale": 0.1 * matrix(triton.cdiv(n, SCALE_BLOCK), groups, scale_layout),
        "config": case.get("config"),
    }
    if "out_dtype" in case:
        inputs["out_dtype"] = getattr(torch, case["out_dtype"])
    return inputs


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """Operations, and the bytes of a, b, c and the scales, each moved once."""
    m, n, k = case["M"], case["N"], case["K"]
    groups = k // SCALE_BLOCK
    scales = 4 * groups * (m + -(-n // SCALE_BLOCK))
    out = 4 if case.get("out_dtype") == "float32" else 2
    return {"flop": 2 * m * n * k, "bytes": m * k + n * k + out * m * n + scales}


def _shape(M: int, N: int, K: int, **more: Any) -> dict[str, Any]:
    return {"M": M, "N": N, "K": K, **more}


# bfloat16 has 8 bits: neighbours are 2⁻⁷ apart at worst, and a sum may round to either.
_BF16 = {"atol": 1e-3, "rtol": 8e-3, "out_dtype": "bfloat16"}
_FP32 = {"atol": 1e-3, "rtol": 1e-3, "out_dtype": "float32"}
_FNUZ_BF16 = {"dtype": "float8_e4m3fnuz", "needs": "fnuz", **_BF16}
_OCP_BF16 = {"dtype": "float8_e4m3fn", **_BF16}
_OCP_FP32 = {"dtype": "float8_e4m3fn", **_FP32}
_SMALL = {"BLOCK_M": 64, "BLOCK_N": 64}
_WIDE = {"BLOCK_M": 64, "BLOCK_N": 256}

CASES = [
    {"name": "fnuz_column", **_shape(128, 128, 256), **_FNUZ_BF16},
    {"name": "fnuz_row", **_shape(64, 128, 256, layout="row"), **_FNUZ_BF16},
    {"name": "fnuz_partial_block", **_shape(64, 192, 256), **_FNUZ_BF16},
    {"name": "fnuz_fp32", **_shape(64, 64, 384), **_FNUZ_BF16, **_FP32},
    {"name": "ocp_column", **_shape(128, 128, 256), **_OCP_BF16},
    {"name": "ocp_row", **_shape(64, 128, 256, layout="row"), **_OCP_BF16},
    {
        "name": "turned_in_the_loop",
        **_shape(128, 64, 256, config={"TRANSPOSE_FIRST": False}),
        **_OCP_FP32,
    },
    {
        "name": "row_major_scales",
        **_shape(64, 256, 256, layout="row", scale_layout="row"),
        **_OCP_FP32,
    },
    {"name": "one_group", **_shape(64, 64, 128), **_OCP_FP32},
    # 576 = 4.5·128: the last block of b's scales covers 64 columns, and so does the last tile.
    {"name": "n_576", **_shape(64, 576, 128), **_OCP_BF16},
    {"name": "partial_rows", **_shape(192, 64, 128), **_OCP_FP32},
    # Five rows of tiles in groups of two: the last group is short.
    {"name": "grouped", **_shape(320, 128, 128, config={**_SMALL, "GROUP_M": 2}), **_OCP_FP32},
    {"name": "two_tiles_under_a_scale", **_shape(64, 320, 256, config=_SMALL), **_OCP_FP32},
    {"name": "two_scales_in_a_tile", **_shape(64, 320, 256, config=_WIDE), **_OCP_FP32},
    {"name": "half_steps", **_shape(64, 128, 256, config={"BLOCK_K": 64}), **_OCP_FP32},
    # Five groups in two parts, three and two; in four parts of two, nothing is left for the last.
    {"name": "split_k", **_shape(64, 192, 640, config={**_SMALL, "SPLIT_K": 2}), **_OCP_FP32},
    {"name": "idle_part", **_shape(64, 64, 640, config={**_SMALL, "SPLIT_K": 4}), **_OCP_BF16},
]

_BENCH_N = (1536, 3072, 576, 7168, 7168, 4608, 7168, 512, 4096)
_BENCH_K = (7168, 1536, 7168, 256, 2048, 7168, 2304, 7168, 512)

BENCH = [
    {"name": f"{m}x{n}x{k}", **_shape(m, n, k)}
    for m in (1024, 6144)
    for n, k in zip(_BENCH_N, _BENCH_K, strict=True)
]

TUNING = {
    "BLOCK_M": [64, 128, 256],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [64, 128],
    "GROUP_M": [1, 4, 8, 16],
    "SPLIT_K": [1, 2, 4, 8],
    "num_warps": [4, 8],
    "num_stages": [1, 2],
    "waves_per_eu": [0, 1, 2],
    "matrix_instr_nonkdim": [16, 32],
    "kpack": [1, 2],
}


def _compile_case(
    name: str, dtype: str, archs: str, *, layout: str = "column", split_k: int = 1, **options: int
) -> dict[str, Any]:
    """Sizes that are multiples of 16, as all the published ones are; column-major scales."""
    unit, wide = "i32:1", "i32:16"
    a_or_b = (wide, unit) if layout == "row" else (unit, wide)
    options = {**CONFIGS["hip"], **options}
    tile = {block: options.pop(block) for block in _TILE}
    del options["TRANSPOSE_FIRST"]
    return {
        "name": name,
        "kernel": "fp8_gemm_kernel",
        "signature": {
            "a_ptr": f"*{dtype}:16",
            "b_ptr": f"*{dtype}:16",
            "out_ptr": "*bf16:16" if split_k == 1 else "*fp32:16",
            **dict.fromkeys(("a_scale_ptr", "b_scale_ptr"), "*fp32:16"),
            **dict.fromkeys(("M", "N", "K"), wide),
            **dict(zip(("stride_am", "stride_ak"), a_or_b, strict=True)),
            **dict(zip(("stride_bn", "stride_bk"), a_or_b, strict=True)),
            **dict.fromkeys(("stride_part", "stride_om", "stride_ask"), wide),
            **dict.fromkeys(("stride_asm", "stride_bsn"), unit),
            "stride_bsk": "i32",
        },
        "constexprs": {**tile, "SPLIT_K": split_k},
        "options": options,
        "archs": [archs],
    }


# e4m3 in the kind native to each chip: fnuz on CDNA3 alone, OCP on CDNA4 and RDNA4; none on CDNA2.
_CDNA3, _CDNA4, _RDNA4 = "gfx94*", "gfx95*", "gfx12*"

KINSPECT_CASES = [
    _compile_case("fnuz_column_128x128x128", "fp8e4b8", _CDNA3),
    _compile_case("fnuz_row_128x128x128", "fp8e4b8", _CDNA3, layout="row"),
    _compile_case("fnuz_split_k_128x128x128", "fp8e4b8", _CDNA3, split_k=8),
    _compile_case("fnuz_256x128x128", "fp8e4b8", _CDNA3, BLOCK_M=256, num_warps=8),
    _compile_case("ocp_column_128x128x128", "fp8e4nv", _CDNA4),
    _compile_case("ocp_row_128x128x128", "fp8e4nv", _CDNA4, layout="row"),
    # Four waves of 32 lanes are half as many threads, so the tile is smaller as well.
    _compile_case(
        "ocp_wave32_64x64x128", "fp8e4nv", _RDNA4, BLOCK_M=64, BLOCK_N=64, matrix_instr_nonkdim=0
    ),
    {
        "name": "add_8_parts",
        "kernel": "add_parts_kernel",
        "signature": {"parts_ptr": "*fp32:16", "c_ptr": "*bf16:16", "n": "i32:16"},
        "constexprs": {"PARTS": 8, "BLOCK": _ADD_PARTS["BLOCK"]},
        "options": {"num_warps": _ADD_PARTS["num_warps"]},
    },
    {
        "name": "transpose_64x64",
        "kernel": "transpose_kernel",
        "signature": {"x_ptr": "*i8:16", "out_ptr": "*i8:16", "rows": "i32:16", "cols": "i32:16"},
        "constexprs": {"BLOCK": _TRANSPOSE["BLOCK"]},
        "options": {"num_warps": _TRANSPOSE["num_warps"]},
    },
]
