"""Matrix multiplication in every number type that the matrix cores know, and in int32.

Shapes and layouts
    a [M, K], b [K, N], c [M, N], each row-major or column-major: a layout is nothing but strides,
    so a transposed view will do. Any sizes; each matrix below 2³¹ elements.
Dtypes
    a and b           accumulator   c
    float16 bfloat16  float32       float16, bfloat16, float32
    float32           float32       float32
    float8, 4 kinds   float32       float16, bfloat16, float32
    int8              int32         int32, int8, or a float type
    int32             int32         int32
    float8 is e4m3fnuz/e5m2fnuz on CDNA3 (gfx942), e4m3fn/e5m2 of the OCP standard elsewhere: a
    kind that the chip does not know is converted to float16 first, correct but slow.
Formula
    c = activation(scale_a·scale_b·(a @ b)), scales per tensor and for 8-bit inputs only,
    activation none or leaky ReLU (slope 0.01). An int8 result is rounded half away from zero and
    saturated. An int32 c takes neither scales nor an activation.
    SPLIT_K > 1 shares K among that many programs, which add their parts to a zeroed c atomically;
    the sum's order, and so its last bits, vary from run to run.

Work: 2·M·N·K operations.

Answers to: 03-matrix-multiplication-all-types of ROCm/triton's perf-kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch


@triton.jit
def multiply(a, b, acc):
    """Add a @ b to acc for one pair of tiles [BLOCK_M, BLOCK_K] and [BLOCK_K, BLOCK_N]."""
    if a.dtype == tl.int32:  # no matrix core multiplies int32: spread, multiply and sum instead
        return acc + tl.sum(a[:, :, None] * b[None, :, :], axis=1)
    else:
        return tl.dot(a, b, acc, input_precision="ieee", out_dtype=acc.dtype)


@triton.jit
def convert(x, dtype: tl.constexpr):
    """Round to the output type; to int8 half away from zero and saturating."""
    if dtype == tl.int8:
        if x.dtype.is_floating():
            x = tl.where(x < 0, x - 0.5, x + 0.5)
        return tl.minimum(tl.maximum(x, -128), 127).to(tl.int8)
    else:
        return x.to(dtype)


@triton.jit
def gemm_kernel(
    a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, SPLIT_K: tl.constexpr, EVEN_K: tl.constexpr, LEAKY_RELU: tl.constexpr,
):  # fmt: skip
    """One program computes one BLOCK_M × BLOCK_N tile of c, or its part of the tile's K range.

    a_scale_ptr and b_scale_ptr point at one float32 each, or are both None.
    EVEN_K says that K is a multiple of BLOCK_K·SPLIT_K, so that no load needs a mask.
    Grid: (⌈M/BLOCK_M⌉·⌈N/BLOCK_N⌉, SPLIT_K).
    """
    # Walk the tiles in groups of GROUP_M rows, column by column inside a group: programs that run
    # at the same time then share rows of a and columns of b in the L2 cache.
    pid = tl.program_id(0)
    split = tl.program_id(1)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    group_rows = tl.minimum(tiles_m - first_m, GROUP_M)
    pid_m = first_m + pid % (GROUP_M * tiles_n) % group_rows
    pid_n = pid % (GROUP_M * tiles_n) // group_rows

    # Rows and columns beyond the edge wrap around: they read something valid that is never stored.
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = split * BLOCK_K + tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn

    INTEGER: tl.constexpr = a_ptr.dtype.element_ty.is_int()
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32 if INTEGER else tl.float32)
    for k in range(0, K, BLOCK_K * SPLIT_K):
        if EVEN_K:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k, other=0.0)
            b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k, other=0.0)
        acc = multiply(a, b, acc)
        a_ptrs += BLOCK_K * SPLIT_K * stride_ak
        b_ptrs += BLOCK_K * SPLIT_K * stride_bk

    if a_scale_ptr is not None:
        acc = acc.to(tl.float32) * (tl.load(a_scale_ptr) * tl.load(b_scale_ptr))
    if LEAKY_RELU:
        acc = acc.to(tl.float32)
        acc = tl.where(acc < 0, 0.01 * acc, acc)
    c = convert(acc, c_ptr.dtype.element_ty)

    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + rows[:, None] * stride_cm + cols[None, :] * stride_cn
    in_range = (rows[:, None] < M) & (cols[None, :] < N)
    if SPLIT_K == 1:
        tl.store(c_ptrs, c, mask=in_range)
    else:
        tl.atomic_add(c_ptrs, c, mask=in_range, sem="relaxed")


CONFIGS = {
    "hip": {
        "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8, "SPLIT_K": 1,
        "num_warps": 8, "num_stages": 2, "waves_per_eu": 0, "matrix_instr_nonkdim": 16,
    },
    "cuda": {
        "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8, "SPLIT_K": 1,
        "num_warps": 8, "num_stages": 4,
    },
}  # fmt: skip

# BLOCK_M, BLOCK_N, BLOCK_K and num_warps, largest tile first: smaller ones are for results that
# would not make a tile for each CU.
_TILES = {
    "hip": [(128, 128, 64, 8), (64, 64, 64, 4), (64, 64, 32, 4)],
    "cuda": [(128, 256, 64, 8), (128, 128, 64, 4), (64, 128, 64, 4), (64, 64, 64, 4)],
}
# What a value of c costs in a smaller tile of "cuda", which reads a and b more often: measured
# on an H200 in float16.
_COST = {(128, 256): 1.0, (128, 128): 1.15, (64, 128): 1.35, (64, 64): 1.7}


def default_config(
    backend: str,
    *,
    M: int,
    N: int,
    dtype: str = "float16",
    aligned: bool = True,
    num_cus: int | None = None,
    wave_size: int | None = None,
) -> dict[str, Any]:
    """Block sizes and launch options for a result [M, N].

    Args:
        backend: "hip" or "cuda".
        M: rows of c.
        N: columns of c.
        dtype: that of a and b, as torch names it.
        aligned: the strides of a and b are multiples of 16, or 1.
        num_cus: CUs to fill; by default those of an MI300X or an H200.
        wave_size: lanes of a wave; 64 on CDNA.
    """
    config = dict(CONFIGS[backend])
    tiles = _TILES[backend]
    if dtype == "int32":  # the product is a BLOCK_M × BLOCK_K × BLOCK_N cube in registers
        tiles = [(32, 32, 16, 4)]
    elif backend == "hip" and wave_size == 32:  # half the threads, and so the registers
        tiles = [(64, 64, 32, 4)]
        del config["matrix_instr_nonkdim"]
    elif dtype == "float32":
        # CUDA has no matrix instruction for float32: the operands lie in registers.
        tiles = [(128, 128, 32, 8), (64, 64, 32, 4)] if backend == "hip" else [(64, 64, 32, 4)]
    elif backend == "cuda" and not aligned:  # loads of single elements, many values in registers
        tiles = [(128, 128, 32, 8), (64, 64, 32, 4)]
    elif backend == "cuda":
        if dtype == "int8":  # the accumulator of the largest tile leaves no room for 8-bit operands
            tiles = tiles[1:]
        # The last round of tiles often leaves most CUs idle: count rounds, not tiles.
        cus = num_cus or 132

        def cost(tile: tuple[int, int, int, int]) -> float:
            rounds = triton.cdiv(triton.cdiv(M, tile[0]) * triton.cdiv(N, tile[1]), cus)
            return rounds * tile[0] * tile[1] * _COST[tile[:2]]

        tiles = [min(tiles, key=cost)]
    enough = (num_cus or (304 if backend == "hip" else 132)) * 4 // 5
    fits = (t for t in tiles if triton.cdiv(M, t[0]) * triton.cdiv(N, t[1]) >= enough)
    block_m, block_n, block_k, num_warps = next(fits, tiles[-1])
    tile = {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k}
    return {**config, **tile, "num_warps": num_warps}


def device_config(a: torch.Tensor, b: torch.Tensor) -> dict[str, Any]:
    """default_config for two matrices where they lie."""
    import torch

    strides = [x for x in (*a.stride(), *b.stride()) if x != 1]
    known: dict[str, Any] = {
        "dtype": str(a.dtype).removeprefix("torch."),
        # Triton learns of a stride only whether it is a multiple of 16.
        "aligned": all(x % 16 == 0 for x in strides),
    }
    if a.device.type == "cuda":
        device = torch.cuda.get_device_properties(a.device)
        known["num_cus"] = device.multi_processor_count
        known["wave_size"] = device.warp_size
    backend = "hip" if torch.version.hip else "cuda"
    return default_config(backend, M=a.shape[0], N=b.shape[1], **known)


def default_out_dtype(a: torch.Tensor) -> torch.dtype:
    """The result's dtype where the caller names none: wide enough for the sum of a row."""
    import torch

    if a.itemsize > 1:
        return a.dtype
    return torch.float16 if a.is_floating_point() else torch.int32


def launch(
    a: torch.Tensor,
    b: torch.Tensor,
    out_dtype: torch.dtype | None = None,
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
    leaky_relu: bool = False,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """Multiply two matrices.

    Args:
        a: [M, K], any strides.
        b: [K, N], any strides, dtype of a.
        out_dtype: dtype of the result; by default a's, int32 for int8 and float16 for float8.
        scale_a: one float32 on a's device, for 8-bit a and b.
        scale_b: like scale_a; both or none.
        leaky_relu: apply leaky ReLU to the result.
        config: block sizes and launch options that replace the defaults.

    Returns:
        The product [M, N], row-major.

    Raises:
        ValueError: shapes, dtypes or options that do not go together.
    """
    import torch

    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(
            f"a {tuple(a.shape)} {a.dtype} and b {tuple(b.shape)} {b.dtype} have no product"
        )
    if (scale_a is None) != (scale_b is None) or (scale_a is not None and a.itemsize != 1):
        raise ValueError("scales go with 8-bit inputs and come in pairs")
    out_dtype = out_dtype or default_out_dtype(a)
    if out_dtype == torch.int32 and (leaky_relu or scale_a is not None):
        raise ValueError("an int32 result takes neither scales nor leaky ReLU")
    options = {**device_config(a, b), **(config or {})}
    split_k = options["SPLIT_K"]
    if split_k > 1 and (leaky_relu or out_dtype not in (torch.float32, torch.int32)):
        raise ValueError("SPLIT_K > 1 needs a float32 or int32 result and no activation")

    (m, k), n = a.shape, b.shape[1]
    if max(m * k, k * n, m * n) >= 2**31:
        raise ValueError("a matrix of 2³¹ elements or more is beyond 32-bit offsets")
    allocate = torch.empty if split_k == 1 else torch.zeros
    c = allocate((m, n), dtype=out_dtype, device=a.device)
    grid = (triton.cdiv(m, options["BLOCK_M"]) * triton.cdiv(n, options["BLOCK_N"]), split_k)
    gemm_kernel[grid](
        a, b, c, scale_a, scale_b, m, n, k,
        *a.stride(), *b.stride(), *c.stride(),
        EVEN_K=k % (options["BLOCK_K"] * split_k) == 0, LEAKY_RELU=leaky_relu, **options,
    )  # fmt: skip
    return c


def reference(
    a: torch.Tensor,
    b: torch.Tensor,
    out_dtype: torch.dtype | None = None,
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
    leaky_relu: bool = False,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """The same product in plain PyTorch, in float64, which holds integer sums below 2⁵³ exactly.

    `config` is accepted and ignored.
    """
    import torch

    c = a.double() @ b.double()
    if scale_a is not None and scale_b is not None:
        c = c * (scale_a * scale_b)
    if leaky_relu:
        c = torch.nn.functional.leaky_relu(c, 0.01)
    if out_dtype == torch.int8:
        c = (torch.sign(c) * torch.floor(c.abs() + 0.5)).clamp(-128, 127)
    return c.to(out_dtype or default_out_dtype(a))


def torch_operator(
    a: torch.Tensor,
    b: torch.Tensor,
    out_dtype: torch.dtype | None = None,
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
    leaky_relu: bool = False,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """torch.matmul; for 8-bit types what torch has instead, where it fits.

    Raises:
        ValueError: torch has no operator for this job.
    """
    import torch

    if a.dtype == torch.int8 and scale_a is None and out_dtype in (None, torch.int32):
        return torch._int_mm(a, b)
    if a.itemsize == 1 and a.is_floating_point():
        one = torch.ones((), device=a.device)
        scales = {"scale_a": one if scale_a is None else scale_a}
        scales["scale_b"] = one if scale_b is None else scale_b
        c = torch._scaled_mm(a, b, out_dtype=out_dtype or torch.float16, **scales)
    elif a.is_floating_point():
        c = torch.matmul(a, b)
    else:
        raise ValueError(f"torch multiplies no {a.dtype} matrices to {out_dtype} with scales")
    c = c if out_dtype is None else c.to(out_dtype)
    return torch.nn.functional.leaky_relu(c, 0.01) if leaky_relu else c


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference.

    `layout` names a's and b's in BLAS letters: T row-major, N column-major. Sums of more than 1000
    products are scaled to the size of one, lest the rounding of the accumulator count as error.
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(3)
    dtype = getattr(torch, case.get("dtype", "float16"))

    def matrix(rows: int, cols: int, letter: str, scale: float = 1.0) -> torch.Tensor:
        shape = (rows, cols) if letter == "T" else (cols, rows)
        if dtype.is_floating_point:
            x = torch.randn(shape, generator=generator, device=device).mul_(scale).to(dtype)
        else:
            x = torch.randint(-20, 20, shape, generator=generator, device=device).to(dtype)
        return x if letter == "T" else x.T

    layout_a, layout_b = case.get("layout", "TT")
    inputs: dict[str, Any] = {
        "a": matrix(case["M"], case["K"], layout_a),
        "b": matrix(case["K"], case["N"], layout_b, case["K"] ** -0.5 if case["K"] > 1000 else 1.0),
        "leaky_relu": case.get("leaky_relu", False),
        "config": case.get("config"),
    }
    if "out_dtype" in case:
        inputs["out_dtype"] = getattr(torch, case["out_dtype"])
    if "scales" in case:
        for name, value in zip(("scale_a", "scale_b"), case["scales"], strict=True):
            inputs[name] = torch.tensor([value], dtype=torch.float32, device=device)
    return inputs


_ITEMSIZE = {"float32": 4, "int32": 4, "float16": 2, "bfloat16": 2}  # 1 of all others


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """Operations, and bytes when a, b and c each move once, of a CASES or BENCH entry."""
    M, N, K = case["M"], case["N"], case["K"]
    dtype = case.get("dtype", "float16")
    size = _ITEMSIZE.get(dtype, 1)
    default_out = {"int8": "int32"}.get(dtype, "float16") if size == 1 else dtype
    out_size = _ITEMSIZE.get(case.get("out_dtype", default_out), 1)
    return {"flop": 2 * M * N * K, "bytes": (M * K + K * N) * size + M * N * out_size}


def _shape(M: int, N: int, K: int, **more: Any) -> dict[str, Any]:
    return {"M": M, "N": N, "K": K, **more}


_EXACT = {"atol": 0.0, "rtol": 0.0}
_FP16 = {"atol": 5e-3, "rtol": 2e-3}
_FP32 = {"atol": 1e-4, "rtol": 1e-5}
_E4M3FNUZ = {"dtype": "float8_e4m3fnuz", "layout": "TN"}
_FNUZ = {"needs": "fnuz", **_FP16}

CASES = [
    {"name": "fp16", **_shape(128, 128, 128), **_FP16},
    {"name": "fp16_tn", **_shape(64, 128, 64, layout="TN"), **_FP16},
    {"name": "fp16_nt", **_shape(64, 128, 64, layout="NT"), **_FP16},
    {"name": "fp16_nn", **_shape(64, 128, 64, layout="NN"), **_FP16},
    {"name": "fp16_ragged", **_shape(77, 93, 71, layout="TN", leaky_relu=True), **_FP16},
    {"name": "fp16_one_row", **_shape(1, 40, 100), **_FP16},
    {
        "name": "fp16_grouped_tiles",  # five rows of tiles in groups of two: the last is short
        **_shape(80, 48, 32, config={"BLOCK_M": 16, "BLOCK_N": 16, "GROUP_M": 2}),
        **_FP16,
    },
    {"name": "bf16", **_shape(64, 64, 96, dtype="bfloat16"), "atol": 5e-3, "rtol": 1e-2},
    {"name": "fp32", **_shape(64, 96, 50, dtype="float32"), **_FP32},
    {
        "name": "fp32_split_k",
        **_shape(64, 64, 200, dtype="float16", out_dtype="float32", config={"SPLIT_K": 3}),
        **_FP32,
    },
    {"name": "fp8_e4m3fnuz", **_shape(64, 64, 64, scales=(0.5, 0.25), **_E4M3FNUZ), **_FNUZ},
    {"name": "fp8_e5m2fnuz", **_shape(64, 64, 64, dtype="float8_e5m2fnuz"), **_FNUZ},
    {"name": "fp8_e4m3fn", **_shape(64, 64, 70, dtype="float8_e4m3fn"), **_FP16},
    {
        "name": "fp8_e5m2",
        **_shape(64, 64, 64, dtype="float8_e5m2", scales=(2.0, 0.125), leaky_relu=True),
        **_FP16,
    },
    {"name": "int8_to_int32", **_shape(70, 64, 90, dtype="int8", layout="TN"), **_EXACT},
    {
        "name": "int8_split_k",
        **_shape(64, 64, 130, dtype="int8", config={"SPLIT_K": 4}),
        **_EXACT,
    },
    {"name": "int8_saturated", **_shape(64, 64, 64, dtype="int8", out_dtype="int8"), **_EXACT},
    {
        "name": "int8_requantised",  # scales that are powers of two meet exact halves
        **_shape(64, 64, 64, dtype="int8", out_dtype="int8", scales=(0.25, 0.125)),
        **_EXACT,
    },
    {
        "name": "int8_to_fp16",
        **_shape(64, 64, 64, dtype="int8", out_dtype="float16", scales=(0.03, 0.1)),
        **_FP16,
    },
    {"name": "int32", **_shape(40, 50, 70, dtype="int32"), **_EXACT},
    {
        "name": "fp16_large_tiles",
        **_shape(140, 270, 130, config={"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64}),
        **_FP16,
    },
]

_SHAPES = [
    *((1024 * v, 1024 * v, 1024 * v) for v in range(1, 9)),
    (4864, 4096, 8192),
    (9728, 8192, 65536),
    (4864, 8192, 4160),
]

BENCH = [
    *({"name": f"{m}x{n}x{k}", **_shape(m, n, k)} for m, n, k in _SHAPES),
    {"name": "8192x8192x8192_bf16", **_shape(8192, 8192, 8192, dtype="bfloat16")},
    {"name": "8192x8192x8192_int8", **_shape(8192, 8192, 8192, dtype="int8", layout="TN")},
]

TUNING = {
    "BLOCK_M": [16, 32, 64, 128, 256],
    "BLOCK_N": [16, 32, 64, 128, 256],
    "BLOCK_K": [16, 32, 64, 128, 256],
    "GROUP_M": [1, 4, 8, 16, 32],
    "SPLIT_K": [1, 2, 4, 5, 6, 8, 10, 12, 16, 18, 24],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2],
    "waves_per_eu": [0, 2, 3, 4],
    "matrix_instr_nonkdim": [16, 32],
    "kpack": [1, 2],
}


def tuned_constexprs(case: dict[str, Any], point: dict[str, Any]) -> dict[str, Any] | None:
    """The constexprs of a compile case that follow from a point of TUNING; None: no such launch.

    Only float32 and int32 results can be added up by several programs.
    """
    stated = case["constexprs"]
    known = {**stated, **point}
    wide = case["signature"]["c_ptr"].partition(":")[0] in ("*fp32", "*i32")
    if known["SPLIT_K"] > 1 and (not wide or known["LEAKY_RELU"]):
        return None
    # A case that states an even K is one of K = 8192, say: what divides it stays even.
    depth = known["BLOCK_K"] * known["SPLIT_K"]
    return {"EVEN_K": stated["EVEN_K"] and 8192 % depth == 0}


_MATRIX = 4096
"""Rows and columns of the matrices that the cases multiply."""


def _compile_case(
    name: str,
    tile: tuple[int, int, int],
    dtype: str,
    out: str,
    archs: tuple[str, ...],
    *,
    num_warps: int = 8,
    scaled: bool = False,
    leaky_relu: bool = False,
    split_k: int = 1,
    even_k: bool = True,
    **options: int,
) -> dict[str, Any]:
    """Matrices in the TN layout: a row-major, b column-major, both contiguous along K."""
    scales = ("a_scale_ptr", "b_scale_ptr")
    size = _MATRIX if even_k else _MATRIX - 3
    return {
        "name": name,
        "kernel": "gemm_kernel",
        "grid": lambda meta: (
            triton.cdiv(_MATRIX, meta["BLOCK_M"]) * triton.cdiv(_MATRIX, meta["BLOCK_N"]),
            meta["SPLIT_K"],
        ),
        "args": {
            **{f"{matrix}_ptr": [_MATRIX, _MATRIX] for matrix in "abc"},
            **(dict.fromkeys(scales, 1) if scaled else {}),
            **dict.fromkeys(("M", "N", "stride_am", "stride_bn", "stride_cm"), _MATRIX),
            "K": size,
        },
        "signature": {
            "a_ptr": f"*{dtype}:16",
            "b_ptr": f"*{dtype}:16",
            "c_ptr": f"*{out}:16",
            **(dict.fromkeys(scales, "*fp32:16") if scaled else {}),
            "M": "i32:16",
            "N": "i32:16",
            "K": "i32:16" if even_k else "i32",
            "stride_am": "i32:16",
            "stride_ak": "i32:1",
            "stride_bk": "i32:1",
            "stride_bn": "i32:16",
            "stride_cm": "i32:16",
            "stride_cn": "i32:1",
        },
        "constexprs": {
            **({} if scaled else dict.fromkeys(scales)),
            **dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True)),
            "GROUP_M": 8,
            "SPLIT_K": split_k,
            "EVEN_K": even_k,
            "LEAKY_RELU": leaky_relu,
        },
        "options": {"num_warps": num_warps, "num_stages": 2, "waves_per_eu": 0, **options},
        "archs": list(archs),
    }


_CDNA = ("gfx90a", "gfx94*", "gfx95*")
_RDNA = ("gfx11*", "gfx12*")
_TILE = (128, 128, 64)
_WAVE32_TILE = (64, 64, 32)

KINSPECT_CASES = [
    _compile_case("fp16_128x128x64", _TILE, "fp16", "fp16", _CDNA, matrix_instr_nonkdim=16),
    _compile_case("bf16_128x128x64", _TILE, "bf16", "bf16", _CDNA, matrix_instr_nonkdim=16),
    _compile_case("int8_128x128x64", _TILE, "i8", "i32", _CDNA),
    _compile_case(
        "int8_requantised_128x128x64", _TILE, "i8", "i8", _CDNA, scaled=True, leaky_relu=True
    ),
    _compile_case("fp32_128x128x32", (128, 128, 32), "fp32", "fp32", _CDNA),
    _compile_case("fp16_split_k_64x64x64", (64, 64, 64), "fp16", "fp32", _CDNA, split_k=4),
    # K is any number, so that every load is masked.
    _compile_case("fp16_ragged_k_128x128x64", _TILE, "fp16", "fp16", ("gfx94*",), even_k=False),
    _compile_case("fp16_256x256x64", (256, 256, 64), "fp16", "fp16", ("gfx94*",), waves_per_eu=2),
    # fp8 in the two flavours: fnuz is native on CDNA3 alone, OCP on CDNA4 and RDNA4.
    _compile_case("e4m3fnuz_128x128x64", _TILE, "fp8e4b8", "fp16", ("gfx94*",), scaled=True),
    _compile_case("e5m2fnuz_128x128x64", _TILE, "fp8e5b16", "fp16", ("gfx94*",), scaled=True),
    _compile_case("e4m3_128x128x64", _TILE, "fp8e4nv", "fp16", ("gfx95*",), scaled=True),
    _compile_case("e5m2_128x128x64", _TILE, "fp8e5", "fp16", ("gfx95*",), scaled=True),
    _compile_case("int32_32x32x16", (32, 32, 16), "i32", "i32", _CDNA + _RDNA, num_warps=4),
    # Four waves of 32 lanes are half as many threads, so the tiles are smaller as well.
    _compile_case("fp16_wave32_64x64x32", _WAVE32_TILE, "fp16", "fp16", _RDNA, num_warps=4),
    _compile_case("bf16_wave32_64x64x32", _WAVE32_TILE, "bf16", "bf16", _RDNA, num_warps=4),
    _compile_case("int8_wave32_64x64x32", _WAVE32_TILE, "i8", "i32", _RDNA, num_warps=4),
    _compile_case(
        "e4m3_wave32_64x64x32", _WAVE32_TILE, "fp8e4nv", "fp16", ("gfx12*",), num_warps=4
    ),
    _compile_case("e5m2_wave32_64x64x32", _WAVE32_TILE, "fp8e5", "fp16", ("gfx12*",), num_warps=4),
]
