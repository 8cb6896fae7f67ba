"""Flash attention, forward: softmax(scale·Q·Kᵀ)·V without ever storing the Sq × Sk matrix.

Shapes and layouts
    q [B, HQ, Sq, D], k and v [B, HK, Sk, D] in layout "bhsd", or with the two middle axes swapped
    in layout "bshd". Any strides will do so long as the head dimension is contiguous. HQ is a
    multiple of HK: HK = 1 is multi-query, 1 < HK < HQ grouped-query attention.
    out like q; lse [B, HQ, Sq] float32, the natural logarithm of the softmax's denominator.
Dtypes
    float16 or bfloat16 in and out; softmax and accumulators are float32.
Formula
    out = softmax(scale·q·kᵀ) @ v, lse = logsumexp(scale·q·kᵀ), with scale = 1/√D by default.
    Causal attention is aligned at the bottom right: query i sees the keys j ≤ i + Sk − Sq. A query
    that sees no key gives out = 0 and lse = −inf.

D is any number up to 256, padded to a power of two inside the kernel; Sq and Sk are arbitrary.

Work of one forward pass: 4·B·HQ·Sq·Sk·D FLOP; causal, times Sk/(2·Sq) when Sq > Sk, else times
1 − Sq/(2·Sk).

Answers to: flash-attention.py of ROCm/triton's perf-kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

# exp(x) = exp2(x·log2 e): the hardware has exp2, so log2 e is folded into the softmax scale once.
LOG2E = 1.4426950408889634
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def load_rows(ptrs, rows, cols, n_rows, n_cols, MASK_ROWS: tl.constexpr, MASK_COLS: tl.constexpr):
    """Load a tile; out-of-range rows and columns read as 0, and are checked only where needed."""
    if MASK_ROWS and MASK_COLS:
        return tl.load(ptrs, mask=(rows < n_rows) & (cols < n_cols), other=0.0)
    elif MASK_ROWS:
        return tl.load(ptrs, mask=rows < n_rows, other=0.0)
    elif MASK_COLS:
        return tl.load(ptrs, mask=cols < n_cols, other=0.0)
    else:
        return tl.load(ptrs)


@triton.jit
def attend(
    acc, l_i, m_i, q, k_base, v_base, stride_kn, stride_vn,
    start, end, last_key, seqlen_k, qk_scale,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, HEAD_DIM: tl.constexpr,
    IS_CAUSAL: tl.constexpr, MASKED: tl.constexpr, PRE_LOAD_V: tl.constexpr,
):  # fmt: skip
    """Fold the keys [start, end) into the running softmax of one block of queries.

    State: acc [BLOCK_M, BLOCK_D] the unnormalised output, m_i [BLOCK_M] the running maximum of the
    scaled scores (base 2), l_i [BLOCK_M] the running sum of exp2(score − m_i).
    last_key [BLOCK_M] is the last key that each query sees under the causal mask.
    """
    PADDED_D: tl.constexpr = BLOCK_D != HEAD_DIM
    offs_d = tl.arange(0, BLOCK_D)
    for start_n in range(start, end, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        # K is read transposed, [BLOCK_D, BLOCK_N]; V as it lies, [BLOCK_N, BLOCK_D].
        k_ptrs = k_base + offs_d[:, None] + offs_n[None, :] * stride_kn
        v_ptrs = v_base + offs_n[:, None] * stride_vn + offs_d[None, :]
        k = load_rows(
            k_ptrs, offs_n[None, :], offs_d[:, None], seqlen_k, HEAD_DIM, MASKED, PADDED_D
        )
        if PRE_LOAD_V:  # V's latency hides behind the first dot, at the price of its registers
            v = load_rows(
                v_ptrs, offs_n[:, None], offs_d[None, :], seqlen_k, HEAD_DIM, MASKED, PADDED_D
            )
        qk = tl.dot(q, k) * qk_scale
        if MASKED:
            keep = offs_n[None, :] < seqlen_k
            if IS_CAUSAL:
                keep = keep & (offs_n[None, :] <= last_key[:, None])
            qk = tl.where(keep, qk, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        m_ref = m_new
        if MASKED:  # a row that has seen no key yet has m_new = −inf, and −inf − −inf is NaN
            m_ref = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.exp2(qk - m_ref[:, None])
        alpha = tl.exp2(m_i - m_ref)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        if not PRE_LOAD_V:
            v = load_rows(
                v_ptrs, offs_n[:, None], offs_d[None, :], seqlen_k, HEAD_DIM, MASKED, PADDED_D
            )
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_new
    return acc, l_i, m_i


@triton.jit
def flash_attn_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    stride_qb, stride_qh, stride_qm,
    stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn,
    stride_ob, stride_oh, stride_om,
    num_heads_q, num_heads_k, seqlen_q, seqlen_k, qk_scale,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    HEAD_DIM: tl.constexpr, IS_CAUSAL: tl.constexpr, PRE_LOAD_V: tl.constexpr,
):  # fmt: skip
    """One program computes BLOCK_M queries of one head. Grid: (⌈Sq/BLOCK_M⌉, HQ, B)."""
    start_m = tl.program_id(0) * BLOCK_M
    head_q = tl.program_id(1)
    head_k = head_q // (num_heads_q // num_heads_k)
    batch = tl.program_id(2).to(tl.int64)

    # The start of a (batch, head) may lie beyond 2³¹ elements; inside of it 32 bits are enough.
    q_base = q_ptr + batch * stride_qb + head_q.to(tl.int64) * stride_qh
    k_base = k_ptr + batch * stride_kb + head_k.to(tl.int64) * stride_kh
    v_base = v_ptr + batch * stride_vb + head_k.to(tl.int64) * stride_vh
    out_base = out_ptr + batch * stride_ob + head_q.to(tl.int64) * stride_oh
    lse_base = lse_ptr + (batch * num_heads_q + head_q) * seqlen_q

    PADDED_D: tl.constexpr = BLOCK_D != HEAD_DIM
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    last_key = offs_m + seqlen_k - seqlen_q
    q_ptrs = q_base + offs_m[:, None] * stride_qm + offs_d[None, :]
    # Q stays in registers for the whole kernel.
    q = load_rows(q_ptrs, offs_m[:, None], offs_d[None, :], seqlen_q, HEAD_DIM, True, PADDED_D)

    # Keys [0, full_end) are seen by every query of the block and need no mask; [full_end, end) are
    # seen by some of them; nobody sees the rest.
    full_end = seqlen_k
    end = seqlen_k
    if IS_CAUSAL:
        diagonal = start_m + seqlen_k - seqlen_q  # the last key that the block's first query sees
        full_end = tl.minimum(full_end, tl.maximum(diagonal + 1, 0))
        end = tl.minimum(end, tl.maximum(diagonal + BLOCK_M, 0))
    full_end = full_end // BLOCK_N * BLOCK_N

    acc = tl.zeros([BLOCK_M, BLOCK_D], dtype=tl.float32)
    m_i = tl.full([BLOCK_M], float("-inf"), dtype=tl.float32)
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_base, v_base, stride_kn, stride_vn,
        0, full_end, last_key, seqlen_k, qk_scale,
        BLOCK_N, BLOCK_D, HEAD_DIM, IS_CAUSAL, MASKED=False, PRE_LOAD_V=PRE_LOAD_V,
    )  # fmt: skip
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_base, v_base, stride_kn, stride_vn,
        full_end, end, last_key, seqlen_k, qk_scale,
        BLOCK_N, BLOCK_D, HEAD_DIM, IS_CAUSAL, MASKED=True, PRE_LOAD_V=PRE_LOAD_V,
    )  # fmt: skip

    # Without a single key l_i is 0 and m_i −inf: dividing by 1 leaves out = 0, and lse = −inf.
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)
    out = acc / l_safe[:, None]
    lse = (m_i + tl.log2(l_safe)) * LN2
    out_ptrs = out_base + offs_m[:, None] * stride_om + offs_d[None, :]
    in_range = (offs_m[:, None] < seqlen_q) & (offs_d[None, :] < HEAD_DIM)
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=in_range)
    tl.store(lse_base + offs_m, lse, mask=offs_m < seqlen_q)


DEFAULT_CONFIG = {"BLOCK_M": 64, "BLOCK_N": 32, "PRE_LOAD_V": True, "num_warps": 4, "num_stages": 1}


def launch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    layout: str = "bhsd",
    scale: float | None = None,
    config: dict[str, Any] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run the kernel.

    Args:
        q: [B, HQ, Sq, D] ("bhsd") or [B, Sq, HQ, D] ("bshd"), head dimension contiguous.
        k: like q with HK heads and Sk keys.
        v: like k.
        causal: hide the keys j > i + Sk − Sq from query i.
        layout: "bhsd" or "bshd".
        scale: factor on the scores, 1/√D by default.
        config: block sizes and launch options that replace those of DEFAULT_CONFIG.

    Returns:
        out like q, and lse [B, HQ, Sq] in float32 (natural logarithm).

    Raises:
        ValueError: shapes, layout or strides that the kernel does not take.
    """
    import torch

    if layout not in ("bhsd", "bshd"):
        raise ValueError(f'layout must be "bhsd" or "bshd", not {layout!r}')
    out = torch.empty_like(q)
    # Views in the order (batch, head, sequence, feature): a layout is nothing but strides.
    qs, ks, vs, outs = (t if layout == "bhsd" else t.transpose(1, 2) for t in (q, k, v, out))
    batch, heads_q, seqlen_q, dim = qs.shape
    heads_k, seqlen_k = ks.shape[1], ks.shape[2]
    if ks.shape != vs.shape or (ks.shape[0], ks.shape[3]) != (batch, dim):
        raise ValueError(f"q {tuple(qs.shape)}, k {tuple(ks.shape)}, v {tuple(vs.shape)} disagree")
    if heads_q % heads_k:
        raise ValueError(f"{heads_q} query heads are no multiple of {heads_k} key heads")
    if dim > 256:
        raise ValueError(f"head dimension {dim} exceeds 256")
    if any(t.stride(3) != 1 for t in (qs, ks, vs, outs)):
        raise ValueError("the head dimension of q, k and v must be contiguous")

    options = {**DEFAULT_CONFIG, **(config or {})}
    lse = torch.empty((batch, heads_q, seqlen_q), dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(seqlen_q, options["BLOCK_M"]), heads_q, batch)
    flash_attn_kernel[grid](
        qs, ks, vs, outs, lse,
        *qs.stride()[:3], *ks.stride()[:3], *vs.stride()[:3], *outs.stride()[:3],
        heads_q, heads_k, seqlen_q, seqlen_k,
        LOG2E * (dim**-0.5 if scale is None else scale),
        BLOCK_D=max(16, triton.next_power_of_2(dim)),  # a matrix instruction takes at least 16
        HEAD_DIM=dim, IS_CAUSAL=causal, **options,
    )  # fmt: skip
    return out, lse


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    layout: str = "bhsd",
    scale: float | None = None,
    config: dict[str, Any] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same attention in plain PyTorch, in float32; `config` is accepted and ignored."""
    import torch

    qs, ks, vs = (t if layout == "bhsd" else t.transpose(1, 2) for t in (q, k, v))
    qs, ks, vs = qs.float(), ks.float(), vs.float()
    group = qs.shape[1] // ks.shape[1]
    ks, vs = ks.repeat_interleave(group, dim=1), vs.repeat_interleave(group, dim=1)
    scores = qs @ ks.transpose(2, 3) * (qs.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        seqlen_q, seqlen_k = scores.shape[2:]
        i = torch.arange(seqlen_q, device=q.device)[:, None]
        j = torch.arange(seqlen_k, device=q.device)[None, :]
        scores = scores.masked_fill(j > i + seqlen_k - seqlen_q, float("-inf"))
    out = torch.softmax(scores, dim=-1).nan_to_num(0.0) @ vs
    out = out if layout == "bhsd" else out.transpose(1, 2)
    return out.to(q.dtype), torch.logsumexp(scores, dim=-1)


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference."""
    import torch

    generator = torch.Generator(device=device).manual_seed(20)
    layout = case.get("layout", "bhsd")

    def normal(heads: int, seqlen: int) -> torch.Tensor:
        shape = (heads, seqlen) if layout == "bhsd" else (seqlen, heads)
        x = torch.randn((case["B"], *shape, case["D"]), generator=generator, device=device)
        return x.to(getattr(torch, case.get("dtype", "float16")))

    return {
        "q": normal(case["HQ"], case["Sq"]),
        "k": normal(case["HK"], case["Sk"]),
        "v": normal(case["HK"], case["Sk"]),
        "causal": case.get("causal", False),
        "layout": layout,
        "config": case.get("config"),
    }


def _shape(B: int, HQ: int, HK: int, Sq: int, Sk: int, D: int, **more: Any) -> dict[str, Any]:
    return {"B": B, "HQ": HQ, "HK": HK, "Sq": Sq, "Sk": Sk, "D": D, **more}


_TOLERANCE = {"atol": 2e-3, "rtol": 2e-3}

CASES = [
    {"name": "full_blocks", **_shape(2, 2, 2, 128, 64, 32), **_TOLERANCE},
    {"name": "causal", **_shape(1, 2, 2, 128, 128, 64, causal=True), **_TOLERANCE},
    {"name": "bshd", **_shape(2, 2, 2, 70, 100, 32, layout="bshd", causal=True), **_TOLERANCE},
    {"name": "grouped_query", **_shape(1, 6, 2, 64, 96, 32), **_TOLERANCE},
    {"name": "multi_query", **_shape(2, 4, 1, 40, 64, 16, causal=True), **_TOLERANCE},
    {"name": "padded_head_dim", **_shape(1, 2, 2, 65, 70, 40, causal=True), **_TOLERANCE},
    {"name": "head_dim_below_16", **_shape(1, 1, 1, 32, 32, 8), **_TOLERANCE},
    {"name": "head_dim_256", **_shape(1, 1, 1, 64, 96, 256, causal=True), **_TOLERANCE},
    {"name": "one_query", **_shape(1, 2, 1, 1, 77, 64, causal=True), **_TOLERANCE},
    {"name": "one_key", **_shape(1, 2, 1, 33, 1, 32), **_TOLERANCE},
    {"name": "more_keys", **_shape(1, 2, 2, 50, 131, 32, causal=True), **_TOLERANCE},
    # Sq > Sk and causal: the first 90 queries see no key at all.
    {"name": "rows_without_keys", **_shape(1, 2, 2, 130, 40, 32, causal=True), **_TOLERANCE},
    {
        "name": "late_v",
        **_shape(1, 2, 1, 100, 100, 32, causal=True),
        "config": {"BLOCK_M": 32, "BLOCK_N": 64, "PRE_LOAD_V": False},
        **_TOLERANCE,
    },
    {
        "name": "bfloat16",
        **_shape(1, 2, 1, 60, 90, 32, causal=True, dtype="bfloat16"),
        "atol": 1e-2,
        "rtol": 1e-2,
    },
]

BENCH = [
    *(_shape(16384 // s, 16, 16, s, s, 128) for s in (1024, 2048, 4096, 8192, 16384)),
    *(
        _shape(2, 48, 48, sq, sk, 128)
        for sq, sk in ((1024, 1024), (2048, 1024), (4096, 8192), (8192, 4096), (16384, 8192))
    ),
    _shape(8, 16, 16, 1989, 15344, 128),
    _shape(4, 16, 16, 4097, 163, 128),
    _shape(2, 16, 16, 8122, 2159, 128),
    _shape(1, 16, 16, 16281, 7, 128),
    *(
        _shape(2, 48, 48, sq, sk, 128)
        for sq, sk in ((1021, 1020), (2001, 2048), (3996, 9639), (8181, 1021))
    ),
    # The published pair "default" and "tuned" of KINSPECT_CASES was measured on these.
    *(_shape(4, 8, 8, s, s, 256, causal=True) for s in (512, 1024, 2048, 4096)),
]

TUNING = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "PRE_LOAD_V": [False, True],
    "num_warps": [4],
    "num_stages": [1],
    "waves_per_eu": [1, 2, 3],
}


def _compile_case(
    name: str,
    block_m: int,
    block_n: int,
    *,
    head_dim: int,
    causal: bool = False,
    pre_load_v: bool = False,
    dtype: str = "fp16",
    length: str = "i32:16",
    waves_per_eu: int = 2,
    archs: tuple[str, ...] = ("gfx9*",),
) -> dict[str, Any]:
    tensors = {f"{t}_ptr": f"*{dtype}:16" for t in ("q", "k", "v", "out")}
    strides = {
        f"stride_{tensor}{axis}": "i32:16"
        for tensor, axes in (("q", "bhm"), ("k", "bhn"), ("v", "bhn"), ("o", "bhm"))
        for axis in axes
    }
    return {
        "name": name,
        "kernel": "flash_attn_kernel",
        "signature": {
            **tensors,
            "lse_ptr": "*fp32:16",
            **strides,
            "num_heads_q": "i32",
            "num_heads_k": "i32",
            "seqlen_q": length,
            "seqlen_k": length,
            "qk_scale": "fp32",
        },
        "constexprs": {
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            "BLOCK_D": triton.next_power_of_2(head_dim),
            "HEAD_DIM": head_dim,
            "IS_CAUSAL": causal,
            "PRE_LOAD_V": pre_load_v,
        },
        "options": {"num_warps": 4, "num_stages": 1, "waves_per_eu": waves_per_eu},
        "archs": list(archs),
    }


_WAVE32 = ("gfx11*", "gfx12*")

KINSPECT_CASES = [
    # The published pair: the same attention, before and after tuning, 2 to 2.7 times apart.
    _compile_case("d256_causal_128x64", 128, 64, head_dim=256, causal=True),
    _compile_case(
        "d256_causal_64x32_preload_v", 64, 32, head_dim=256, causal=True, pre_load_v=True
    ),
    _compile_case("d128_128x64", 128, 64, head_dim=128),
    _compile_case("d128_causal_bf16_128x64", 128, 64, head_dim=128, causal=True, dtype="bf16"),
    # 96 padded to 128 and lengths of any number: the ragged case.
    _compile_case("d96_ragged_128x32", 128, 32, head_dim=96, length="i32", archs=("gfx94*",)),
    _compile_case("d64_causal_128x64", 128, 64, head_dim=64, causal=True),
    _compile_case(
        "d128_causal_64x32_wave32",
        64,
        32,
        head_dim=128,
        causal=True,
        waves_per_eu=0,
        archs=_WAVE32,
    ),
    _compile_case("d64_64x32_wave32", 64, 32, head_dim=64, waves_per_eu=0, archs=_WAVE32),
]
