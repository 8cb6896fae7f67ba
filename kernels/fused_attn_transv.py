"""Fused attention, forward, with V stored transposed: the keys lie contiguously in memory.

Shapes and layouts
    q and k [Z, H, N, D], v [Z, H, D, N]; the last axis is contiguous, the other strides are free.
    out [Z, H, N, D]; m [Z, H, N] float32, the base-2 logarithm of the softmax's denominator, which
    is what a backward pass needs.
Dtypes
    float16 or bfloat16 in and out; softmax and accumulators are float32.
Formula
    s = scale·q·kᵀ, out = softmax(s) @ vᵀ, m = log2(Σ exp(s)), with scale = 1/√D by default.
    Causal: query i sees the keys j ≤ i.

N is any number, D a power of two from 16 to 256.

Why V transposed: out = p @ vᵀ sums over the keys. With v as [D, N] each lane of a matrix
instruction finds the keys that it multiplies side by side, so V needs no transposition on its way
through LDS: reads and writes there are as wide as for K.

Work of one forward pass: 4·Z·H·N²·D FLOP, half of it if causal.

Answers to: 06-fused-attention-transV of ROCm/triton's perf-kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

# exp(x) = exp2(x·log2 e): the hardware has exp2, so log2 e is folded into the softmax scale once.
LOG2E = 1.4426950408889634


@triton.jit
def load_keys(ptrs, offs_n, seqlen, MASKED: tl.constexpr):
    """Load a tile of K or V; keys beyond the end read as 0, and are checked only where needed."""
    if MASKED:
        return tl.load(ptrs, mask=offs_n < seqlen, other=0.0)
    else:
        return tl.load(ptrs)


@triton.jit
def attend(
    acc, l_i, m_i, q, k_base, v_base, stride_kn, stride_vd, start, end, offs_m, seqlen, qk_scale,
    BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, IS_CAUSAL: tl.constexpr,
    EVEN_N: tl.constexpr, MASKED: tl.constexpr, PRE_LOAD_V: tl.constexpr,
):  # fmt: skip
    """Fold the keys [start, end) into the running softmax of one block of queries.

    State: acc [BLOCK_M, HEAD_DIM] the unnormalised output, m_i [BLOCK_M] the running maximum of the
    scaled scores (base 2), l_i [BLOCK_M] the running sum of exp2(score − m_i).
    Every query sees key 0, which is in the first block: m_i is finite after it, and stays so.
    """
    MASK_LOADS: tl.constexpr = MASKED and not EVEN_N
    offs_d = tl.arange(0, HEAD_DIM)
    offs_n = tl.arange(0, BLOCK_N)
    # K is read transposed, [HEAD_DIM, BLOCK_N]; so is V, [BLOCK_N, HEAD_DIM].
    k_offsets = offs_d[:, None] + offs_n[None, :] * stride_kn
    v_offsets = offs_n[:, None] + offs_d[None, :] * stride_vd
    for start_n in range(start, end, BLOCK_N):
        # Only the scalar base moves from block to block; the offsets stay as they are.
        keys = start_n + offs_n
        k = load_keys(k_base + start_n * stride_kn + k_offsets, keys[None, :], seqlen, MASK_LOADS)
        if PRE_LOAD_V:  # V's latency hides behind the first dot, at the price of its registers
            v = load_keys(v_base + start_n + v_offsets, keys[:, None], seqlen, MASK_LOADS)
        qk = tl.dot(q, k)
        if MASKED:
            # Causal needs no second check: a query that is stored, i < N, sees no key beyond N.
            keep = keys[None, :] <= offs_m[:, None] if IS_CAUSAL else keys[None, :] < seqlen
            qk = tl.where(keep, qk, float("-inf"))
        # The scale is positive, so it may wait for the exponent, where it costs one FMA.
        m_new = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
        p = tl.exp2(qk * qk_scale - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        if not PRE_LOAD_V:
            v = load_keys(v_base + start_n + v_offsets, keys[:, None], seqlen, MASK_LOADS)
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_new
    return acc, l_i, m_i


@triton.jit
def fused_attn_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, m_ptr,
    stride_qz, stride_qh, stride_qn,
    stride_kz, stride_kh, stride_kn,
    stride_vz, stride_vh, stride_vd,
    stride_oz, stride_oh, stride_on,
    num_heads, seqlen, qk_scale,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr,
    IS_CAUSAL: tl.constexpr, EVEN_N: tl.constexpr, PRE_LOAD_V: tl.constexpr,
):  # fmt: skip
    """One program computes BLOCK_M queries of one head. Grid: (⌈N/BLOCK_M⌉, H, Z).

    EVEN_N says that N is a multiple of BLOCK_N, so that no load of K or V needs a mask.
    """
    block = tl.program_id(0)
    if IS_CAUSAL:  # the last queries see the most keys: start with them, end with short programs
        block = tl.num_programs(0) - 1 - block
    start_m = block * BLOCK_M
    # The start of a head may lie beyond 2³¹ elements; inside of it 32 bits are enough.
    head = tl.program_id(1).to(tl.int64)
    batch = tl.program_id(2).to(tl.int64)
    q_base = q_ptr + batch * stride_qz + head * stride_qh
    k_base = k_ptr + batch * stride_kz + head * stride_kh
    v_base = v_ptr + batch * stride_vz + head * stride_vh
    out_base = out_ptr + batch * stride_oz + head * stride_oh
    m_base = m_ptr + (batch * num_heads + head) * seqlen

    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, HEAD_DIM)
    row_exists = offs_m < seqlen
    # Q stays in registers for the whole kernel.
    q_ptrs = q_base + offs_m[:, None] * stride_qn + offs_d[None, :]
    q = tl.load(q_ptrs, mask=row_exists[:, None], other=0.0)

    # Keys [0, full_end) are seen by every query of the block and need no mask; [full_end, end) are
    # seen by some of them; nobody sees the rest.
    end = seqlen
    full_end = seqlen
    if IS_CAUSAL:
        end = tl.minimum(seqlen, start_m + BLOCK_M)
        full_end = start_m
    full_end = full_end // BLOCK_N * BLOCK_N

    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    m_i = tl.full([BLOCK_M], float("-inf"), dtype=tl.float32)
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_base, v_base, stride_kn, stride_vd,
        0, full_end, offs_m, seqlen, qk_scale,
        BLOCK_N, HEAD_DIM, IS_CAUSAL, EVEN_N, MASKED=False, PRE_LOAD_V=PRE_LOAD_V,
    )  # fmt: skip
    if IS_CAUSAL or not EVEN_N:
        acc, l_i, m_i = attend(
            acc, l_i, m_i, q, k_base, v_base, stride_kn, stride_vd,
            full_end, end, offs_m, seqlen, qk_scale,
            BLOCK_N, HEAD_DIM, IS_CAUSAL, EVEN_N, MASKED=True, PRE_LOAD_V=PRE_LOAD_V,
        )  # fmt: skip

    out = acc / l_i[:, None]
    out_ptrs = out_base + offs_m[:, None] * stride_on + offs_d[None, :]
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=row_exists[:, None])
    tl.store(m_base + offs_m, m_i + tl.log2(l_i), mask=row_exists)


def default_config(backend: str, *, head_dim: int, causal: bool = False) -> dict[str, Any]:
    """Block sizes and launch options for a backend ("hip" or "cuda") and a head dimension."""
    if backend == "hip":
        # Two waves per SIMD leave 256 registers each. At D = 128 a tile of 64 keys takes all of
        # them, and spills in its bfloat16 and causal forms; 32 keys fit every form.
        tile = {
            "BLOCK_M": 128,
            "BLOCK_N": 64 if head_dim < 128 else 32,
            "num_warps": 8 if head_dim > 128 else 4,
        }
        return {**tile, "PRE_LOAD_V": False, "num_stages": 1, "waves_per_eu": 2}
    if head_dim > 128:
        tile = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 2}
    elif head_dim > 64 and causal:  # narrow tiles waste less on the diagonal
        tile = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3}
    elif head_dim > 64:
        tile = {"BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 8, "num_stages": 2}
    else:
        tile = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3}
    return {**tile, "PRE_LOAD_V": False}


def launch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    config: dict[str, Any] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run the kernel.

    Args:
        q: [Z, H, N, D], last axis contiguous.
        k: like q.
        v: [Z, H, D, N], last axis contiguous.
        causal: hide the keys j > i from query i.
        scale: positive factor on the scores, 1/√D by default.
        config: block sizes and launch options that replace those of default_config.

    Returns:
        out [Z, H, N, D] of v's dtype, and m [Z, H, N] in float32.

    Raises:
        ValueError: shapes, dtypes, strides or a scale that the kernel does not take.
    """
    import torch

    z, heads, seqlen, dim = q.shape
    if k.shape != q.shape or v.shape != (z, heads, dim, seqlen):
        raise ValueError(f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)} disagree")
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"q {q.dtype}, k {k.dtype} and v {v.dtype} do not go together")
    if dim not in (16, 32, 64, 128, 256):
        raise ValueError(f"head dimension {dim} is no power of two from 16 to 256")
    if any(t.stride(3) != 1 and t.shape[3] > 1 for t in (q, k, v)):
        raise ValueError("the last axis of q, k and v must be contiguous")
    scale = dim**-0.5 if scale is None else scale
    if not scale > 0:
        raise ValueError(f"scale must be positive, not {scale}")

    backend = "hip" if torch.version.hip else "cuda"
    options = {**default_config(backend, head_dim=dim, causal=causal), **(config or {})}
    out = torch.empty((z, heads, seqlen, dim), dtype=v.dtype, device=q.device)
    m = torch.empty((z, heads, seqlen), dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(seqlen, options["BLOCK_M"]), heads, z)
    fused_attn_kernel[grid](
        q, k, v, out, m,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        heads, seqlen, LOG2E * scale,
        HEAD_DIM=dim, IS_CAUSAL=causal, EVEN_N=seqlen % options["BLOCK_N"] == 0, **options,
    )  # fmt: skip
    return out, m


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    config: dict[str, Any] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same attention in plain PyTorch, in float32; `config` is accepted and ignored.

    Like the published reference it rounds the probabilities to v's dtype before they meet v.
    """
    import torch

    scores = (
        q.float() @ k.float().transpose(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    )
    if causal:
        seen = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~seen, float("-inf"))
    p = torch.softmax(scores, dim=-1).to(v.dtype)
    out = p.float() @ v.float().transpose(2, 3)
    return out.to(v.dtype), torch.logsumexp(scores, dim=-1) * LOG2E


def torch_operator(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """PyTorch's fused attention, which wants V as [Z, H, N, D]: it is transposed here, too."""
    import torch

    v = v.transpose(2, 3).contiguous()
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference.

    `gap`: elements left unused after each row of D or N elements.
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(6)
    gap = case.get("gap", 0)

    def normal(rows: int, cols: int) -> torch.Tensor:
        shape = (case["Z"], case["H"], rows, cols + gap)
        dtype = getattr(torch, case.get("dtype", "float16"))
        return torch.randn(shape, generator=generator, device=device).to(dtype)[..., :cols]

    return {
        "q": normal(case["N"], case["D"]),
        "k": normal(case["N"], case["D"]),
        "v": normal(case["D"], case["N"]),
        "causal": case.get("causal", False),
        "scale": case.get("scale"),
        "config": case.get("config"),
    }


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """FLOP of a case, and the least bytes that it moves: q, k, v, out once, and m."""
    rows = case["Z"] * case["H"] * case["N"]
    flop = 4 * rows * case["N"] * case["D"] // (2 if case.get("causal") else 1)
    size = 4 if case.get("dtype") == "float32" else 2
    return {"flop": flop, "bytes": rows * (4 * case["D"] * size + 4)}


def _shape(Z: int, H: int, N: int, D: int, **more: Any) -> dict[str, Any]:
    return {"Z": Z, "H": H, "N": N, "D": D, **more}


_TOLERANCE = {"atol": 4e-3, "rtol": 0.0}
_SMALL = {"BLOCK_M": 64, "BLOCK_N": 32}

CASES = [
    {"name": "full_blocks", **_shape(2, 2, 128, 64), **_TOLERANCE},
    {"name": "causal", **_shape(1, 2, 256, 64, causal=True), **_TOLERANCE},
    {"name": "ragged", **_shape(1, 2, 203, 32), **_TOLERANCE},
    {"name": "ragged_causal", **_shape(2, 1, 203, 32, causal=True), **_TOLERANCE},
    {"name": "one_query", **_shape(1, 1, 1, 16), **_TOLERANCE},
    {"name": "one_query_causal", **_shape(2, 2, 1, 16, causal=True), **_TOLERANCE},
    {"name": "one_key_beyond", **_shape(1, 2, 65, 16), **_TOLERANCE},
    {"name": "head_dim_128", **_shape(1, 1, 160, 128, causal=True), **_TOLERANCE},
    {"name": "head_dim_256", **_shape(1, 1, 130, 256), **_TOLERANCE},
    {"name": "strided_rows", **_shape(2, 2, 96, 32, causal=True, gap=8), **_TOLERANCE},
    {"name": "scale", **_shape(1, 2, 100, 32, scale=0.5), **_TOLERANCE},
    {
        "name": "early_v",
        **_shape(1, 2, 150, 32, causal=True, config={**_SMALL, "PRE_LOAD_V": True}),
        **_TOLERANCE,
    },
    {  # a block of queries shorter than a block of keys
        "name": "narrow_queries",
        **_shape(1, 2, 150, 32, causal=True, config={"BLOCK_M": 32, "BLOCK_N": 64}),
        **_TOLERANCE,
    },
    {"name": "bfloat16", **_shape(1, 2, 150, 64, dtype="bfloat16"), "atol": 1e-2, "rtol": 0.0},
]

_BENCH_SHAPES = (
    *((16384 // n, 16, n) for n in (1024, 2048, 4096, 8192, 16384)),
    *((4, 48, n) for n in (1024, 2048, 4096, 8192, 16384)),
)

BENCH = [
    {"name": f"{z}x{h}x{n}x128{'_causal' * causal}", **_shape(z, h, n, 128, causal=causal)}
    for causal in (False, True)
    for z, h, n in _BENCH_SHAPES
]

TUNING = {
    "BLOCK_M": [128, 256],
    "BLOCK_N": [32, 64, 128],
    "PRE_LOAD_V": [False, True],
    "num_warps": [4, 8],
    "num_stages": [1],
    "waves_per_eu": [2, 3],
}


def _compile_case(
    name: str,
    block_m: int,
    block_n: int,
    *,
    head_dim: int,
    causal: bool = False,
    pre_load_v: bool = False,
    even_n: bool = True,
    dtype: str = "fp16",
    num_warps: int = 4,
    waves_per_eu: int = 2,
    archs: tuple[str, ...] = ("gfx9*",),
) -> dict[str, Any]:
    """An N that is no multiple of 16 leaves the rows of v, N apart, unaligned."""
    length = "i32:16" if even_n else "i32"
    strides = {f"stride_{t}{axis}": "i32:16" for t in "qko" for axis in "zhn"}
    return {
        "name": name,
        "kernel": "fused_attn_kernel",
        "signature": {
            **{f"{t}_ptr": f"*{dtype}:16" for t in ("q", "k", "v", "out")},
            "m_ptr": "*fp32:16",
            **strides,
            "stride_vz": "i32:16",
            "stride_vh": "i32:16",
            "stride_vd": length,
            "num_heads": "i32",
            "seqlen": length,
            "qk_scale": "fp32",
        },
        "constexprs": {
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            "HEAD_DIM": head_dim,
            "IS_CAUSAL": causal,
            "EVEN_N": even_n,
            "PRE_LOAD_V": pre_load_v,
        },
        "options": {"num_warps": num_warps, "num_stages": 1, "waves_per_eu": waves_per_eu},
        "archs": list(archs),
    }


_WAVE32 = {"waves_per_eu": 0, "archs": ("gfx11*", "gfx12*")}

_GFX94X = ("gfx94*",)

KINSPECT_CASES = [
    _compile_case("d128_128x32", 128, 32, head_dim=128),
    _compile_case("d128_causal_bf16_128x32", 128, 32, head_dim=128, causal=True, dtype="bf16"),
    _compile_case("d128_ragged_128x32", 128, 32, head_dim=128, even_n=False, archs=_GFX94X),
    _compile_case("d64_causal_128x64", 128, 64, head_dim=64, causal=True),
    _compile_case("d256_128x32", 128, 32, head_dim=256, num_warps=8, archs=_GFX94X),
    # The published tuning space: what fits, and what spills.
    _compile_case("d128_128x64", 128, 64, head_dim=128),
    _compile_case("d128_256x64", 256, 64, head_dim=128, num_warps=8, archs=_GFX94X),
    _compile_case("d128_256x128", 256, 128, head_dim=128, num_warps=8, archs=_GFX94X),
    _compile_case(
        "d128_128x128_preload_v_wpe3",
        128,
        128,
        head_dim=128,
        pre_load_v=True,
        waves_per_eu=3,
        archs=_GFX94X,
    ),
    _compile_case("d128_causal_64x32_wave32", 64, 32, head_dim=128, causal=True, **_WAVE32),
]
