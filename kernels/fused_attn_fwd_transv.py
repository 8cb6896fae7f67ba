"""Fused attention for inference: V stored transposed, float8 scores, fixed configurations.

Shapes and layouts
    q and k [Z, H, N, D], v [Z, H, D, N]; the last axis is contiguous, the other strides are free.
    out [Z, H, N, D]. Nothing is kept for a backward pass.
Dtypes
    q and k       v                   out
    float16       float16             float16
    bfloat16      bfloat16            bfloat16
    float8        float16, bfloat16   like v
    float8 is e4m3fnuz on CDNA3 (gfx942), e4m3fn of the OCP standard elsewhere. Softmax and
    accumulators are float32; the probabilities are rounded to v's dtype.
Formula
    out = softmax(scale·q·kᵀ) @ vᵀ, with scale = 1/√D by default.
    Causal: query i sees the keys j ≤ i.

N is any number, D a power of two from 16 to 256.

There is no search for a configuration: `default_config` gives the published one of each form.

Work of one forward pass: 4·Z·H·N²·D FLOP, half of it if causal.

Answers to: 06-fused-attention-fwd-transV of ROCm/triton's perf-kernels.
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
def fused_attn_fwd_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    stride_qz, stride_qh, stride_qn,
    stride_kz, stride_kh, stride_kn,
    stride_vz, stride_vh, stride_vd,
    stride_oz, stride_oh, stride_on,
    seqlen, qk_scale,
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


def published_config(
    *, head_dim: int, causal: bool = False, float8: bool = False
) -> dict[str, Any]:
    """The configuration published for an MI300X, by head dimension and form.

    With Triton 3.9 those for D = 128 spill inside the loop on gfx942: they stand among
    KINSPECT_CASES to be looked at.
    """
    launch_options = {"num_stages": 1, "PRE_LOAD_V": head_dim <= 64 and not causal}
    if head_dim <= 64:
        tile = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "waves_per_eu": 3}
    elif float8:
        tile = {"BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 4, "waves_per_eu": 2}
    else:
        tile = {"BLOCK_M": 256, "BLOCK_N": 128, "num_warps": 8, "waves_per_eu": 2}
    return {**tile, **launch_options}


def default_config(
    backend: str, *, head_dim: int, causal: bool = False, float8: bool = False
) -> dict[str, Any]:
    """Block sizes and launch options for a backend ("hip" or "cuda") and a form of the kernel."""
    if backend == "hip":
        # The published one, with as many keys at a time as fit the registers in every dtype.
        config = published_config(head_dim=head_dim, causal=causal, float8=float8)
        if head_dim <= 64:
            return {**config, "waves_per_eu": 2 if causal else 3}
        if head_dim <= 128:
            return {**config, "BLOCK_N": 64 if float8 else 32}
        return {**config, "BLOCK_M": 128, "BLOCK_N": 32, "num_warps": 8}
    if head_dim > 128:
        tile = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 2}
    elif head_dim > 64:  # the fastest of ten on an H200
        tile = {"BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 8, "num_stages": 3}
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
) -> torch.Tensor:
    """Run the kernel.

    Args:
        q: [Z, H, N, D], last axis contiguous.
        k: like q.
        v: [Z, H, D, N], last axis contiguous; of q's dtype, or 16 bits wide if q is float8.
        causal: hide the keys j > i from query i.
        scale: positive factor on the scores, 1/√D by default.
        config: block sizes and launch options that replace those of default_config.

    Returns:
        The attention [Z, H, N, D], of v's dtype.

    Raises:
        ValueError: shapes, dtypes, strides or a scale that the kernel does not take.
    """
    import torch

    z, heads, seqlen, dim = q.shape
    if k.shape != q.shape or v.shape != (z, heads, dim, seqlen):
        raise ValueError(f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)} disagree")
    float8 = q.dtype.itemsize == 1
    if k.dtype != q.dtype or (v.dtype.itemsize != 2 if float8 else v.dtype != q.dtype):
        raise ValueError(f"q {q.dtype}, k {k.dtype} and v {v.dtype} do not go together")
    if dim not in (16, 32, 64, 128, 256):
        raise ValueError(f"head dimension {dim} is no power of two from 16 to 256")
    if any(t.stride(3) != 1 and t.shape[3] > 1 for t in (q, k, v)):
        raise ValueError("the last axis of q, k and v must be contiguous")
    scale = dim**-0.5 if scale is None else scale
    if not scale > 0:
        raise ValueError(f"scale must be positive, not {scale}")

    backend = "hip" if torch.version.hip else "cuda"
    default = default_config(backend, head_dim=dim, causal=causal, float8=float8)
    options = {**default, **(config or {})}
    out = torch.empty((z, heads, seqlen, dim), dtype=v.dtype, device=q.device)
    grid = (triton.cdiv(seqlen, options["BLOCK_M"]), heads, z)
    fused_attn_fwd_kernel[grid](
        q, k, v, out,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        seqlen, LOG2E * scale,
        HEAD_DIM=dim, IS_CAUSAL=causal, EVEN_N=seqlen % options["BLOCK_N"] == 0, **options,
    )  # fmt: skip
    return out


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
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
    return (p.float() @ v.float().transpose(2, 3)).to(v.dtype)


def torch_operator(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """PyTorch's fused attention, which wants one 16-bit dtype and V as [Z, H, N, D]."""
    import torch

    q, k, v = q.to(v.dtype), k.to(v.dtype), v.transpose(2, 3).contiguous()
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)


def native_float8(device: str) -> str:
    """The name of the e4m3 float8 that a device multiplies: CDNA3 has its own, all others OCP's."""
    import torch

    if torch.version.hip and torch.device(device).type == "cuda":
        arch = torch.cuda.get_device_properties(device).gcnArchName
        return "float8_e4m3fnuz" if arch.startswith("gfx94") else "float8_e4m3fn"
    return "float8_e4m3fn"


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference.

    `dtype`: that of q and k; "float8" is the device's own e4m3. With float8, v is float16.
    `gap`: elements left unused after each row of D or N elements.
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(7)
    name = case.get("dtype", "float16")
    dtype = getattr(torch, native_float8(device) if name == "float8" else name)
    gap = case.get("gap", 0)

    def normal(rows: int, cols: int, dtype: torch.dtype) -> torch.Tensor:
        shape = (case["Z"], case["H"], rows, cols + gap)
        return torch.randn(shape, generator=generator, device=device).to(dtype)[..., :cols]

    return {
        "q": normal(case["N"], case["D"], dtype),
        "k": normal(case["N"], case["D"], dtype),
        "v": normal(case["D"], case["N"], torch.float16 if dtype.itemsize == 1 else dtype),
        "causal": case.get("causal", False),
        "scale": case.get("scale"),
        "config": case.get("config"),
    }


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """FLOP of a case, and the least bytes that it moves: q, k, v and out once."""
    elements = case["Z"] * case["H"] * case["N"] * case["D"]
    flop = 4 * elements * case["N"] // (2 if case.get("causal") else 1)
    narrow = 1 if case.get("dtype", "float16").startswith("float8") else 2
    return {"flop": flop, "bytes": elements * 2 * (narrow + 2)}


def _shape(Z: int, H: int, N: int, D: int, **more: Any) -> dict[str, Any]:
    return {"Z": Z, "H": H, "N": N, "D": D, **more}


# The float8 forms are compared with the attention of the same, already rounded, q and k.
_TOLERANCE = {"atol": 4e-3, "rtol": 3e-3}
_FP8 = {"atol": 1e-2, "rtol": 3e-3}
_FNUZ = {"dtype": "float8_e4m3fnuz", "needs": "fnuz", **_FP8}
_OCP = {"dtype": "float8_e4m3fn", **_FP8}

CASES = [
    {"name": "d64", **_shape(2, 2, 128, 64), **_TOLERANCE},
    {"name": "d64_causal", **_shape(1, 2, 256, 64, causal=True), **_TOLERANCE},
    {"name": "d128", **_shape(1, 1, 256, 128), **_TOLERANCE},
    {"name": "d128_causal_ragged", **_shape(1, 1, 203, 128, causal=True), **_TOLERANCE},
    {"name": "d256_ragged", **_shape(1, 1, 130, 256), **_TOLERANCE},
    {"name": "one_query", **_shape(1, 1, 1, 16), **_TOLERANCE},
    {"name": "one_query_causal", **_shape(2, 2, 1, 16, causal=True), **_TOLERANCE},
    {"name": "one_key_beyond", **_shape(1, 2, 65, 16), **_TOLERANCE},
    {"name": "strided_rows", **_shape(2, 2, 96, 32, causal=True, gap=8), **_TOLERANCE},
    {"name": "scale", **_shape(1, 2, 100, 32, scale=0.5), **_TOLERANCE},
    {
        "name": "early_v",
        **_shape(1, 2, 150, 32, config={"BLOCK_M": 64, "BLOCK_N": 32, "PRE_LOAD_V": True}),
        **_TOLERANCE,
    },
    {  # a block of queries shorter than a block of keys
        "name": "narrow_queries",
        **_shape(1, 2, 150, 32, causal=True, config={"BLOCK_M": 32, "BLOCK_N": 64}),
        **_TOLERANCE,
    },
    {"name": "bfloat16", **_shape(1, 2, 150, 64, dtype="bfloat16"), "atol": 1e-2, "rtol": 3e-3},
    {"name": "fp8_fnuz", **_shape(1, 2, 128, 64), **_FNUZ},
    {"name": "fp8_fnuz_causal_ragged", **_shape(1, 1, 150, 128, causal=True), **_FNUZ},
    {"name": "fp8_ocp", **_shape(1, 1, 256, 128), **_OCP},
    {"name": "fp8_ocp_causal_ragged", **_shape(1, 2, 150, 64, causal=True), **_OCP},
]

_BENCH_SHAPES = (
    *((16384 // n, 16, n) for n in (1024, 2048, 4096, 8192, 16384)),
    *((4, 48, n) for n in (1024, 2048, 4096, 8192, 16384)),
)

BENCH = [
    {"name": f"{z}x{h}x{n}x128{suffix}", **_shape(z, h, n, 128, **more)}
    for suffix, more in (("", {}), ("_causal", {"causal": True}), ("_fp8", {"dtype": "float8"}))
    for z, h, n in _BENCH_SHAPES
]

# Nothing is searched for at run time; these are the values that the fixed configurations take.
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
    config: dict[str, Any],
    *,
    head_dim: int,
    causal: bool = False,
    even_n: bool = True,
    dtype: str = "fp16",
    archs: tuple[str, ...] = ("gfx9*",),
) -> dict[str, Any]:
    """An N that is no multiple of 16 leaves the rows of v, N apart, unaligned."""
    length = "i32:16" if even_n else "i32"
    wide = "fp16" if dtype.startswith("fp8") else dtype
    strides = {f"stride_{t}{axis}": "i32:16" for t in "qko" for axis in "zhn"}
    options = ("num_warps", "num_stages", "waves_per_eu")
    return {
        "name": name,
        "kernel": "fused_attn_fwd_kernel",
        "signature": {
            "q_ptr": f"*{dtype}:16",
            "k_ptr": f"*{dtype}:16",
            "v_ptr": f"*{wide}:16",
            "out_ptr": f"*{wide}:16",
            **strides,
            "stride_vz": "i32:16",
            "stride_vh": "i32:16",
            "stride_vd": length,
            "seqlen": length,
            "qk_scale": "fp32",
        },
        "constexprs": {
            **{key: value for key, value in config.items() if key not in options},
            "HEAD_DIM": head_dim,
            "IS_CAUSAL": causal,
            "EVEN_N": even_n,
        },
        "options": {key: config[key] for key in options},
        "archs": list(archs),
    }


def _default_case(name: str, archs: tuple[str, ...] = ("gfx9*",), **form: Any) -> dict[str, Any]:
    shape = {key: form[key] for key in ("head_dim", "causal") if key in form}
    float8 = form.get("dtype", "").startswith("fp8")
    config = default_config("hip", float8=float8, **shape)
    return _compile_case(name, config, archs=archs, **form)


_GFX94X = ("gfx94*",)
_WAVE32 = {
    "BLOCK_M": 64,
    "BLOCK_N": 32,
    "PRE_LOAD_V": False,
    "num_warps": 4,
    "num_stages": 1,
    "waves_per_eu": 0,
}

KINSPECT_CASES = [
    _default_case("d128", head_dim=128),
    _default_case("d128_causal_bf16", head_dim=128, causal=True, dtype="bf16"),
    _default_case("d128_ragged", _GFX94X, head_dim=128, even_n=False),
    _default_case("d64", head_dim=64),
    _default_case("d64_causal", head_dim=64, causal=True),
    _default_case("d128_fp8", _GFX94X, head_dim=128, dtype="fp8e4b8"),
    _default_case("d128_fp8_causal", _GFX94X, head_dim=128, causal=True, dtype="fp8e4b8"),
    _default_case("d128_fp8_ocp", ("gfx95*",), head_dim=128, dtype="fp8e4nv"),
    # As published, 128 keys at a time: compare with the first and the sixth.
    _compile_case(
        "d128_published_256x128", published_config(head_dim=128), head_dim=128, archs=_GFX94X
    ),
    _compile_case(
        "d128_fp8_published_128x128",
        published_config(head_dim=128, float8=True),
        head_dim=128,
        dtype="fp8e4b8",
        archs=_GFX94X,
    ),
    _compile_case(
        "d128_causal_wave32", _WAVE32, head_dim=128, causal=True, archs=("gfx11*", "gfx12*")
    ),
    _compile_case("d64_fp8_ocp_wave32", _WAVE32, head_dim=64, dtype="fp8e4nv", archs=("gfx12*",)),
]
