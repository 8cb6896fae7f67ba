"""Matrix multiplication of a few rows: multiply and sum, without the matrix cores.

Shapes and layouts
    a [M, K] with M ≤ 8, b [K, N], bias [N] or none, c [M, N]; a and b with any strides. Fastest
    with both contiguous along K: a row-major and b column-major, the weights of a linear layer.
Dtypes
    a, b and c: float16, bfloat16 or float32, all the same; bias any of them. Sums are float32.
Formula
    c = a @ b + bias
Two forms
    multiply and sum   the products a[:, :, None]·b are formed one by one and summed over K. Each
                       lane sums what it loaded; the lanes meet once, after the loop.
    dot                a is padded to the 16 rows of a matrix instruction and handed to tl.dot.
    With so few rows all the time goes into reading b, once. The padded rows cost nothing but
    registers and LDS, which is what the first form is there to show beside the second.

Work: 2·M·N·K operations; bound by memory, since b's K·N elements are used M times each.

Answers to: multreduce_matmul_kernel of ROCm/triton's perf-kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

MAX_ROWS = 8


@triton.jit
def multreduce_kernel(
    a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, LANE_K: tl.constexpr,
    EVEN_K: tl.constexpr, USE_DOT: tl.constexpr,
):  # fmt: skip
    """One program computes BLOCK_N columns of c, in all its M ≤ BLOCK_M rows.

    bias_ptr is None where there is no bias. LANE_K elements along K are loaded at once by a lane,
    and summed in its registers. EVEN_K says that K is a multiple of BLOCK_K.
    Grid: (⌈N/BLOCK_N⌉,).
    """
    # Rows and columns beyond the edge wrap around: they read something valid that is never stored.
    rows = tl.arange(0, BLOCK_M)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_m = rows % M
    offs_n = cols % N
    offs_k = tl.arange(0, BLOCK_K)

    if USE_DOT:
        a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
        b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
        c = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            if EVEN_K:
                a = tl.load(a_ptrs)
                b = tl.load(b_ptrs)
            else:
                a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k, other=0.0)
                b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k, other=0.0)
            c = tl.dot(a, b, c, input_precision="ieee")
            a_ptrs += BLOCK_K * stride_ak
            b_ptrs += BLOCK_K * stride_bk
    else:
        # Both tiles are loaded as the cubes [M, 1, K] and [1, N, K] that they are multiplied as:
        # expanded from matrices, they would have to change lanes through LDS in every iteration.
        cube_k = offs_k[None, None, :]
        a_ptrs = a_ptr + offs_m[:, None, None] * stride_am + cube_k * stride_ak
        b_ptrs = b_ptr + offs_n[None, :, None] * stride_bn + cube_k * stride_bk
        LANES: tl.constexpr = BLOCK_K // LANE_K
        sums = tl.zeros((BLOCK_M, BLOCK_N, LANES), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            if EVEN_K:
                a = tl.load(a_ptrs)
                b = tl.load(b_ptrs)
            else:
                a = tl.load(a_ptrs, mask=cube_k < K - k, other=0.0)
                b = tl.load(b_ptrs, mask=cube_k < K - k, other=0.0)
            products = a.to(tl.float32) * b.to(tl.float32)
            sums += tl.sum(tl.reshape(products, (BLOCK_M, BLOCK_N, LANES, LANE_K)), axis=3)
            a_ptrs += BLOCK_K * stride_ak
            b_ptrs += BLOCK_K * stride_bk
        c = tl.sum(sums, axis=2)

    if bias_ptr is not None:
        c += tl.load(bias_ptr + offs_n).to(tl.float32)[None, :]
    c_ptrs = c_ptr + rows[:, None] * stride_cm + cols[None, :] * stride_cn
    in_range = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptrs, c.to(c_ptr.dtype.element_ty), mask=in_range)


# For one row of 2-byte elements: BLOCK_K is LANE_K elements for each lane of the workgroup.
CONFIGS = {
    "hip": {
        "BLOCK_M": 1, "BLOCK_N": 8, "BLOCK_K": 2048, "LANE_K": 8, "num_warps": 4, "num_stages": 1,
        "waves_per_eu": 0,
    },
    "cuda": {
        "BLOCK_M": 1, "BLOCK_N": 8, "BLOCK_K": 1024, "LANE_K": 8, "num_warps": 4, "num_stages": 1,
    },
}  # fmt: skip


def default_config(
    backend: str,
    *,
    M: int,
    K: int,
    itemsize: int = 2,
    aligned: bool = True,
    use_dot: bool = False,
    wave_size: int | None = None,
) -> dict[str, Any]:
    """Block sizes and launch options.

    Args:
        backend: "hip" or "cuda".
        M: rows of a.
        K: columns of a.
        itemsize: bytes of an element of a and b.
        aligned: a and b are contiguous along K, and K and the other strides multiples of 16.
        use_dot: the form with tl.dot.
        wave_size: lanes of a wave, by default 64 for hip and 32 for cuda.
    """
    config = dict(CONFIGS[backend])
    if use_dot:
        block = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 512 // itemsize, "LANE_K": 1}
        return {**config, **block, "num_stages": 2 if backend == "hip" else 4}
    block_m = triton.next_power_of_2(M)
    if not aligned:
        return {**config, "BLOCK_M": block_m, "BLOCK_N": 32, "BLOCK_K": 64, "LANE_K": 1}
    lane_k = 16 // itemsize
    wave_k = (wave_size or (64 if backend == "hip" else 32)) * lane_k
    num_warps = max(1, min(4, triton.next_power_of_2(K) // wave_k))
    return {
        **config,
        "BLOCK_M": block_m,
        "BLOCK_N": 8 if block_m <= 2 else 4,
        "BLOCK_K": wave_k * num_warps,
        "LANE_K": lane_k,
        "num_warps": num_warps,
    }


def device_config(a: torch.Tensor, b: torch.Tensor, use_dot: bool) -> dict[str, Any]:
    """default_config for two matrices where they lie."""
    import torch

    steps = [a.shape[1], b.stride(1), *([a.stride(0)] if a.shape[0] > 1 else [])]
    contiguous = a.stride(1) == b.stride(0) == 1
    known: dict[str, Any] = {
        "itemsize": a.itemsize,
        # Triton learns of a number only whether it is a multiple of 16.
        "aligned": contiguous and all(step % 16 == 0 for step in steps),
    }
    if a.device.type == "cuda":
        known["wave_size"] = torch.cuda.get_device_properties(a.device).warp_size
    backend = "hip" if torch.version.hip else "cuda"
    return default_config(backend, M=a.shape[0], K=a.shape[1], use_dot=use_dot, **known)


def launch(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None = None,
    use_dot: bool = False,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """Multiply a few rows with a matrix.

    Args:
        a: [M, K], M ≤ 8, any strides.
        b: [K, N], any strides, dtype of a.
        bias: [N], contiguous, added to every row; or None.
        use_dot: multiply on the matrix cores.
        config: block sizes and launch options that replace the defaults.

    Returns:
        The result [M, N], row-major, dtype of a.

    Raises:
        ValueError: shapes or dtypes that do not go together, or too many rows.
    """
    import torch

    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(
            f"a {tuple(a.shape)} {a.dtype} and b {tuple(b.shape)} {b.dtype} have no product"
        )
    (m, k), n = a.shape, b.shape[1]
    if not a.is_floating_point() or a.itemsize not in (2, 4):
        raise ValueError(f"{a.dtype} is none of float16, bfloat16 and float32")
    if not 1 <= m <= MAX_ROWS:
        raise ValueError(f"{m} rows: this kernel is for 1 to {MAX_ROWS}")
    if bias is not None and (bias.shape != (n,) or not bias.is_contiguous()):
        raise ValueError(f"bias must be contiguous with {n} elements, not {tuple(bias.shape)}")
    if k * n >= 2**31:
        raise ValueError("a matrix of 2³¹ elements or more is beyond 32-bit offsets")

    options = {**device_config(a, b, use_dot), **(config or {})}
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    multreduce_kernel[(triton.cdiv(n, options["BLOCK_N"]),)](
        a, b, bias, c, m, n, k, *a.stride(), *b.stride(), *c.stride(),
        EVEN_K=k % options["BLOCK_K"] == 0, USE_DOT=use_dot, **options,
    )  # fmt: skip
    return c


def reference(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None = None,
    use_dot: bool = False,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """The same in plain PyTorch, in float64; `use_dot` and `config` are accepted and ignored."""
    c = a.double() @ b.double()
    return (c if bias is None else c + bias.double()).to(a.dtype)


def torch_operator(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None = None,
    use_dot: bool = False,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """torch.matmul, or torch.addmm with a bias."""
    import torch

    return torch.matmul(a, b) if bias is None else torch.addmm(bias, a, b)


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference.

    `layout` names a's and b's in BLAS letters: T row-major, N column-major. Sums of more than 1000
    products are scaled to the size of one, lest the rounding of the accumulator count as error.
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(8)
    dtype = getattr(torch, case.get("dtype", "float16"))

    def normal(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device).mul_(scale).to(dtype)

    M, N, K = case["M"], case["N"], case["K"]
    scale = K**-0.5 if K > 1000 else 1.0
    layout_a, layout_b = case.get("layout", "TN")
    return {
        "a": normal(M, K) if layout_a == "T" else normal(K, M).T,
        "b": normal(K, N, scale=scale) if layout_b == "T" else normal(N, K, scale=scale).T,
        "bias": normal(N) if case.get("bias") else None,
        "use_dot": case.get("use_dot", False),
        "config": case.get("config"),
    }


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """Operations, and bytes when everything moves once, of a CASES or BENCH entry."""
    M, N, K = case["M"], case["N"], case["K"]
    elements = M * K + K * N + M * N + (N if case.get("bias") else 0)
    size = 4 if case.get("dtype") == "float32" else 2
    return {"flop": 2 * M * N * K, "bytes": elements * size}


def _shape(M: int, N: int, K: int, **more: Any) -> dict[str, Any]:
    return {"M": M, "N": N, "K": K, **more}


_FP16 = {"atol": 5e-3, "rtol": 2e-3}
_BF16 = {"dtype": "bfloat16", "atol": 5e-3, "rtol": 1e-2}
_FP32 = {"dtype": "float32", "atol": 1e-4, "rtol": 1e-5}

CASES = [
    {"name": "one_row", **_shape(1, 64, 2048), **_FP16},
    {"name": "two_rows", **_shape(2, 64, 1024), **_FP16},
    {"name": "three_rows", **_shape(3, 33, 640, bias=True), **_FP16},
    {"name": "eight_rows", **_shape(8, 40, 1040, bias=True), **_FP16},
    {"name": "published_small", **_shape(1, 23, 31), **_FP16},
    {"name": "published_small_bias", **_shape(1, 23, 128, bias=True), **_FP16},
    {"name": "unaligned", **_shape(2, 70, 333, bias=True), **_FP16},
    {"name": "one_element", **_shape(1, 1, 1, bias=True), **_FP16},
    {"name": "tt", **_shape(4, 50, 100, layout="TT"), **_FP16},
    {"name": "nt", **_shape(4, 50, 100, layout="NT"), **_FP16},
    {"name": "nn", **_shape(4, 50, 100, layout="NN"), **_FP16},
    {"name": "bf16", **_shape(2, 48, 520, bias=True), **_BF16},
    {"name": "fp32", **_shape(5, 37, 516, bias=True), **_FP32},
    {"name": "dot_one_row", **_shape(1, 64, 512, use_dot=True), **_FP16},
    {"name": "dot_ragged", **_shape(7, 45, 300, use_dot=True, bias=True), **_FP16},
    {"name": "dot_tt", **_shape(4, 50, 100, use_dot=True, layout="TT"), **_FP16},
    {"name": "dot_bf16", **_shape(2, 48, 260, use_dot=True), **_BF16},
    {"name": "dot_fp32", **_shape(8, 40, 130, use_dot=True), **_FP32},
]

_SHAPES = [
    (1, 8192, 28672),
    (1, 6144, 6144),
    (1, 4096, 4096),
    (2, 16384, 16384),
    (1, 4096, 3078),
    (1, 23, 31),
    (1, 23, 128),
]

BENCH = [
    *({"name": f"{m}x{n}x{k}", **_shape(m, n, k)} for m, n, k in _SHAPES),
    *({"name": f"{m}x{n}x{k}_dot", **_shape(m, n, k, use_dot=True)} for m, n, k in _SHAPES),
]

TUNING = {
    "BLOCK_N": [1, 2, 4, 8, 16],
    "BLOCK_K": [512, 1024, 2048, 4096],
    "LANE_K": [4, 8],
    "num_warps": [1, 2, 4, 8],
    "waves_per_eu": [0, 2, 4],
}


def _compile_case(
    name: str,
    tile: tuple[int, int, int, int],
    *,
    dtype: str = "fp16",
    rows: int = 1,
    bias: bool = False,
    even_k: bool = True,
    aligned: bool = True,
    use_dot: bool = False,
    num_warps: int = 4,
    archs: tuple[str, ...] = ("gfx9*",),
) -> dict[str, Any]:
    """Cases with b column-major; `tile` is BLOCK_M, BLOCK_N, BLOCK_K and LANE_K."""
    step = "i32:16" if aligned else "i32"
    blocks = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "LANE_K")
    return {
        "name": name,
        "kernel": "multreduce_kernel",
        "signature": {
            "a_ptr": f"*{dtype}:16",
            "b_ptr": f"*{dtype}:16",
            **({"bias_ptr": f"*{dtype}:16"} if bias else {}),
            "c_ptr": f"*{dtype}:16",
            "M": "i32:1" if rows == 1 else "i32",
            "N": "i32:16",
            "K": step,
            "stride_am": step,
            "stride_ak": "i32:1",
            "stride_bk": "i32:1",
            "stride_bn": step,
            "stride_cm": "i32:16",
            "stride_cn": "i32:1",
        },
        "constexprs": {
            **({} if bias else {"bias_ptr": None}),
            **dict(zip(blocks, tile, strict=True)),
            "EVEN_K": even_k,
            "USE_DOT": use_dot,
        },
        "options": {
            "num_warps": num_warps,
            "num_stages": 2 if use_dot else 1,
            "waves_per_eu": 0,
        },
        "archs": list(archs),
    }


_WAVE32 = ("gfx11*", "gfx12*")

KINSPECT_CASES = [
    _compile_case("fp16_1x8x2048", (1, 8, 2048, 8)),
    _compile_case("fp16_2rows_8x2048", (2, 8, 2048, 8), rows=2),
    _compile_case("fp16_8rows_4x2048", (8, 4, 2048, 8), rows=8, bias=True),
    _compile_case("bf16_short_k_1x8x2048", (1, 8, 2048, 8), dtype="bf16", even_k=False, bias=True),
    _compile_case("fp32_1x8x1024", (1, 8, 1024, 4), dtype="fp32"),
    # No column of b starts at a multiple of anything, so that every load is one element wide.
    _compile_case("fp16_unaligned_1x32x64", (1, 32, 64, 1), even_k=False, aligned=False),
    _compile_case("fp16_dot_16x16x256", (16, 16, 256, 1), rows=8, use_dot=True),
    _compile_case("fp16_wave32_1x8x1024", (1, 8, 1024, 8), archs=_WAVE32),
    _compile_case("fp16_dot_wave32_16x16x128", (16, 16, 128, 1), use_dot=True, archs=_WAVE32),
]
