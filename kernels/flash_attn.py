"""Flash attention, forward: softmax(scale·Q·Kᵀ)·V without ever storing the Sq × Sk matrix.

Shapes and layouts
    q [B, HQ, Sq, D], k and v [B, HK, Sk, D] in layout "bhsd", or with the two middle axes swapped
    in layout "bshd". Any strides will do so long as the head dimension is contiguous. HQ is a
    multiple of HK: HK = 1 is multi-query, 1 < HK < HQ grouped-query attention.
    Layout "thd" packs sequences of different lengths one behind the other: q [ΣSq, HQ, D], k and v
    [ΣSk, HK, D]; sequence b has the rows cu_seqlens[b] … cu_seqlens[b+1] − 1 (int32 [B+1]).
    out like q; lse [B, HQ, Sq] float32, the natural logarithm of the softmax's denominator (in
    "thd" Sq is that of the longest sequence, and rows beyond a sequence's end hold −inf).
Dtypes
    float16 or bfloat16 in and out (float32 works, without matrix cores on most GPUs); softmax and
    accumulators are float32. int8 in three modes, with one float32 scale per head (x ≈ x_int8 ·
    descale, descale = amax/127):
    q, k, v              int8 Q·Kᵀ; P·V in the output's dtype
    q, k, v and p        int8 Q·Kᵀ; p is cut down to trunc(127·p), int8 P·V
    k, v                 both become q's dtype before they are multiplied
    A descale is a factor of a whole product of matrices, so it is applied to the product.
Formula
    out = softmax(s) @ v, lse = logsumexp(s), s = scale·q·kᵀ + alibi + bias; scale is 1/√D.
    Causal attention is aligned at the bottom right: query i sees the keys j ≤ i + Sk − Sq. A query
    that sees no key gives out = 0 and lse = −inf.
    alibi[b, h, i, j] = −slopes[b, h]·|i + Sk − Sq − j|; bias [1, HQ, Sq, Sk] of any float dtype.
Grid
    One program per BLOCK_M queries of a head; or persistent: as many programs as the GPU holds,
    which take every n-th tile ("fixed") or the next one of an atomic counter ("dynamic").

D is any number up to 256, padded to a power of two inside the kernel; Sq and Sk are arbitrary.

Work of one forward pass: 4·B·HQ·Sq·Sk·D FLOP; causal, times Sk/(2·Sq) when Sq > Sk, else times
1 − Sq/(2·Sk).

Answers to: flash-attention.py of ROCm/triton's perf-kernels.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

# exp(x) = exp2(x·log2 e): the hardware has exp2, so log2 e is folded into the softmax scale once.
LOG2E = tl.constexpr(1.4426950408889634)
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
    start, end, offs_m, last_key, seqlen_q, seqlen_k, qk_scale,
    slope, bias_rows, stride_bias_n,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, HEAD_DIM: tl.constexpr,
    IS_CAUSAL: tl.constexpr, MASKED: tl.constexpr, PRE_LOAD_V: tl.constexpr,
    P_INT8: tl.constexpr, DTYPE: tl.constexpr,
):  # fmt: skip
    """Fold the keys [start, end) into the running softmax of one block of queries.

    State: acc [BLOCK_M, BLOCK_D] the unnormalised output, m_i [BLOCK_M] the running maximum of the
    scaled scores (base 2), l_i [BLOCK_M] the running sum of exp2(score − m_i).
    last_key [BLOCK_M] is the last key that each query sees under the causal mask: the position in
    the keys' order of the query itself. slope (ALiBi, base 2) and bias_rows [BLOCK_M, 1], pointers
    at the rows of the bias, may be None.
    """
    PADDED_D: tl.constexpr = BLOCK_D != HEAD_DIM
    # Whether a row may have seen no key so far: a bias may hide keys as well.
    MAY_BE_EMPTY: tl.constexpr = MASKED or (bias_rows is not None)
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
        qk = tl.dot(q, k.to(q.dtype), input_precision="ieee").to(tl.float32) * qk_scale
        if slope is not None:
            qk -= slope * tl.abs(last_key.to(tl.float32)[:, None] - offs_n.to(tl.float32)[None, :])
        if bias_rows is not None:
            bias_ptrs = bias_rows + offs_n[None, :] * stride_bias_n
            bias = load_rows(
                bias_ptrs, offs_m[:, None], offs_n[None, :], seqlen_q, seqlen_k, True, MASKED
            )
            qk += bias.to(tl.float32) * LOG2E
        if MASKED:
            keep = offs_n[None, :] < seqlen_k
            if IS_CAUSAL:
                keep = keep & (offs_n[None, :] <= last_key[:, None])
            qk = tl.where(keep, qk, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        m_ref = m_new
        if MAY_BE_EMPTY:  # a row that has seen no key yet has m_new = −inf, and −inf − −inf is NaN
            m_ref = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.exp2(qk - m_ref[:, None])
        alpha = tl.exp2(m_i - m_ref)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        if not PRE_LOAD_V:
            v = load_rows(
                v_ptrs, offs_n[:, None], offs_d[None, :], seqlen_k, HEAD_DIM, MASKED, PADDED_D
            )
        if P_INT8:
            acc += tl.dot((p * 127).to(tl.int8), v).to(tl.float32)
        else:
            acc = tl.dot(p.to(DTYPE), v.to(DTYPE), acc, input_precision="ieee")
        m_i = m_new
    return acc, l_i, m_i


@triton.jit
def attend_tile(
    block, head_q, batch,
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    stride_qb, stride_qh, stride_qm,
    stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn,
    stride_ob, stride_oh, stride_om,
    num_heads_q, num_heads_k, seqlen_q, seqlen_k, qk_scale,
    cu_seqlens_q_ptr, cu_seqlens_k_ptr, slopes_ptr,
    bias_ptr, stride_bias_h, stride_bias_m, stride_bias_n,
    q_descale_ptr, k_descale_ptr, v_descale_ptr, p_descale_ptr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    HEAD_DIM: tl.constexpr, IS_CAUSAL: tl.constexpr, PRE_LOAD_V: tl.constexpr,
):  # fmt: skip
    """Compute BLOCK_M queries of one head: those of number block·BLOCK_M and on."""
    start_m = block * BLOCK_M
    head_k = head_q // (num_heads_q // num_heads_k)
    batch = batch.to(tl.int64)

    # The start of a (batch, head) may lie beyond 2³¹ elements; inside of it 32 bits are enough.
    q_base = q_ptr + batch * stride_qb + head_q.to(tl.int64) * stride_qh
    k_base = k_ptr + batch * stride_kb + head_k.to(tl.int64) * stride_kh
    v_base = v_ptr + batch * stride_vb + head_k.to(tl.int64) * stride_vh
    out_base = out_ptr + batch * stride_ob + head_q.to(tl.int64) * stride_oh
    lse_base = lse_ptr + (batch * num_heads_q + head_q) * seqlen_q
    if cu_seqlens_q_ptr is not None:
        first_q = tl.load(cu_seqlens_q_ptr + batch)
        first_k = tl.load(cu_seqlens_k_ptr + batch)
        seqlen_q = tl.load(cu_seqlens_q_ptr + batch + 1) - first_q
        seqlen_k = tl.load(cu_seqlens_k_ptr + batch + 1) - first_k
        q_base += first_q.to(tl.int64) * stride_qm
        k_base += first_k.to(tl.int64) * stride_kn
        v_base += first_k.to(tl.int64) * stride_vn
        out_base += first_q.to(tl.int64) * stride_om
        # The grid is made for the longest sequence: beyond the end of this one, look at no key.
        seqlen_k = tl.where(start_m < seqlen_q, seqlen_k, 0)

    PADDED_D: tl.constexpr = BLOCK_D != HEAD_DIM
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    last_key = offs_m + seqlen_k - seqlen_q
    q_ptrs = q_base + offs_m[:, None] * stride_qm + offs_d[None, :]
    # Q stays in registers for the whole kernel.
    q = load_rows(q_ptrs, offs_m[:, None], offs_d[None, :], seqlen_q, HEAD_DIM, True, PADDED_D)

    slope = slopes_ptr
    if slopes_ptr is not None:
        slope = tl.load(slopes_ptr + batch * num_heads_q + head_q) * LOG2E
    bias_rows = bias_ptr
    if bias_ptr is not None:
        bias_base = bias_ptr + head_q.to(tl.int64) * stride_bias_h
        bias_base += block.to(tl.int64) * BLOCK_M * stride_bias_m
        bias_rows = bias_base + tl.arange(0, BLOCK_M)[:, None] * stride_bias_m
    if q_descale_ptr is not None:
        qk_scale *= tl.load(q_descale_ptr + head_q)
    if k_descale_ptr is not None:
        qk_scale *= tl.load(k_descale_ptr + head_k)

    # Keys [0, full_end) are seen by every query of the block and need no mask; [full_end, end) are
    # seen by some of them; nobody sees the rest.
    full_end = seqlen_k
    end = seqlen_k
    if IS_CAUSAL:
        diagonal = start_m + seqlen_k - seqlen_q  # the last key that the block's first query sees
        full_end = tl.minimum(full_end, tl.maximum(diagonal + 1, 0))
        end = tl.minimum(end, tl.maximum(diagonal + BLOCK_M, 0))
    full_end = full_end // BLOCK_N * BLOCK_N

    DTYPE: tl.constexpr = out_ptr.dtype.element_ty
    P_INT8: tl.constexpr = p_descale_ptr is not None
    acc = tl.zeros([BLOCK_M, BLOCK_D], dtype=tl.float32)
    m_i = tl.full([BLOCK_M], float("-inf"), dtype=tl.float32)
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_base, v_base, stride_kn, stride_vn,
        0, full_end, offs_m, last_key, seqlen_q, seqlen_k, qk_scale,
        slope, bias_rows, stride_bias_n, BLOCK_N, BLOCK_D, HEAD_DIM, IS_CAUSAL,
        MASKED=False, PRE_LOAD_V=PRE_LOAD_V, P_INT8=P_INT8, DTYPE=DTYPE,
    )  # fmt: skip
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_base, v_base, stride_kn, stride_vn,
        full_end, end, offs_m, last_key, seqlen_q, seqlen_k, qk_scale,
        slope, bias_rows, stride_bias_n, BLOCK_N, BLOCK_D, HEAD_DIM, IS_CAUSAL,
        MASKED=True, PRE_LOAD_V=PRE_LOAD_V, P_INT8=P_INT8, DTYPE=DTYPE,
    )  # fmt: skip

    # Without a single key l_i is 0 and m_i −inf: dividing by 1 leaves out = 0, and lse = −inf.
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)
    out = acc / l_safe[:, None]
    if v_descale_ptr is not None:
        out *= tl.load(v_descale_ptr + head_k)
    if p_descale_ptr is not None:
        out *= tl.load(p_descale_ptr + head_q)
    lse = (m_i + tl.log2(l_safe)) * LN2
    out_ptrs = out_base + offs_m[:, None] * stride_om + offs_d[None, :]
    in_range = (offs_m[:, None] < seqlen_q) & (offs_d[None, :] < HEAD_DIM)
    tl.store(out_ptrs, out.to(DTYPE), mask=in_range)
    tl.store(lse_base + offs_m, lse, mask=offs_m < seqlen_q)


@triton.jit
def flash_attn_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    stride_qb, stride_qh, stride_qm,
    stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn,
    stride_ob, stride_oh, stride_om,
    num_heads_q, num_heads_k, seqlen_q, seqlen_k, qk_scale,
    cu_seqlens_q_ptr, cu_seqlens_k_ptr, slopes_ptr,
    bias_ptr, stride_bias_h, stride_bias_m, stride_bias_n,
    q_descale_ptr, k_descale_ptr, v_descale_ptr, p_descale_ptr,
    num_batches, counter_ptr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    HEAD_DIM: tl.constexpr, IS_CAUSAL: tl.constexpr, PRE_LOAD_V: tl.constexpr,
    PERSISTENT: tl.constexpr,
):  # fmt: skip
    """Compute tiles of BLOCK_M queries of one head.

    Everything from cu_seqlens_q_ptr to counter_ptr is None where it is not used: cu_seqlens in a
    dense layout, slopes without ALiBi, bias, the descales outside of int8, the last two unless
    PERSISTENT. seqlen_q and seqlen_k are those of the longest sequence when there are cu_seqlens.
    counter_ptr points at an int32 zero; with None the tiles are dealt out in turn.
    Grid: (⌈Sq/BLOCK_M⌉, HQ, B); persistent: any number of programs.
    """
    if PERSISTENT:
        num_blocks = tl.cdiv(seqlen_q, BLOCK_M)
        num_tiles = num_blocks * num_heads_q * num_batches
        tile = tl.program_id(0) if counter_ptr is None else tl.atomic_add(counter_ptr, 1)
        while tile < num_tiles:
            # Neighbours share a head's keys in the L2 cache. The last block of a head comes first:
            # under a causal mask it is the longest.
            block = num_blocks - 1 - tile % num_blocks
            head_q = tile // num_blocks % num_heads_q
            attend_tile(
                block, head_q, tile // (num_blocks * num_heads_q),
                q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
                stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn,
                stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_om,
                num_heads_q, num_heads_k, seqlen_q, seqlen_k, qk_scale,
                cu_seqlens_q_ptr, cu_seqlens_k_ptr, slopes_ptr,
                bias_ptr, stride_bias_h, stride_bias_m, stride_bias_n,
                q_descale_ptr, k_descale_ptr, v_descale_ptr, p_descale_ptr,
                BLOCK_M, BLOCK_N, BLOCK_D, HEAD_DIM, IS_CAUSAL, PRE_LOAD_V,
            )  # fmt: skip
            if counter_ptr is None:
                tile += tl.num_programs(0)
            else:
                tile = tl.atomic_add(counter_ptr, 1)
    else:
        attend_tile(
            tl.program_id(0), tl.program_id(1), tl.program_id(2),
            q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
            stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn,
            stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_om,
            num_heads_q, num_heads_k, seqlen_q, seqlen_k, qk_scale,
            cu_seqlens_q_ptr, cu_seqlens_k_ptr, slopes_ptr,
            bias_ptr, stride_bias_h, stride_bias_m, stride_bias_n,
            q_descale_ptr, k_descale_ptr, v_descale_ptr, p_descale_ptr,
            BLOCK_M, BLOCK_N, BLOCK_D, HEAD_DIM, IS_CAUSAL, PRE_LOAD_V,
        )  # fmt: skip


def default_config(
    backend: str,
    head_dim: int,
    *,
    causal: bool = False,
    plain: bool = True,
    itemsize: int = 2,
    queries: int | None = None,
) -> dict[str, Any]:
    """Block sizes and launch options for "hip" (CDNA) or "cuda".

    plain: neither ALiBi nor bias nor int8, which take registers of their own.
    itemsize: bytes of an element of q.
    queries: of one head in one sequence, where they are known.
    GRID_CU_MULTIP is the number of programs per compute unit of a persistent launch.
    """
    wide, small = head_dim > 128, head_dim <= 64
    if itemsize == 4:  # twice the registers and shared memory
        tile = {"BLOCK_M": 64, "BLOCK_N": 32, "PRE_LOAD_V": False}
        return {**tile, "num_warps": 4, "num_stages": 1, "GRID_CU_MULTIP": 1}
    if backend == "hip":
        tile = {"BLOCK_M": 64 if wide else 128, "BLOCK_N": 64 if plain and not wide else 32}
        options = {"num_warps": 4, "num_stages": 1, "waves_per_eu": 2, "GRID_CU_MULTIP": 2}
        return {**tile, "PRE_LOAD_V": wide, **options}
    # K and V of each stage lie in shared memory. Measured on an H200: short sequences want many
    # small blocks, wide heads cannot afford more, long ones repay the largest that fit.
    few_queries = queries is not None and queries <= 2048
    if plain and (wide or (few_queries and not small)):
        block_m, block_n, num_warps, num_stages = 64, 64, 4, 3
    elif small or not plain:
        block_m, block_n = 128, 64
        num_warps, num_stages = (4, 3) if small else (8, 2)
    else:
        block_m, block_n, num_warps, num_stages = 128, 128, 8, 3
    return {
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "PRE_LOAD_V": False,
        "num_warps": num_warps,
        "num_stages": num_stages,
        "GRID_CU_MULTIP": 2 if num_warps == 4 else 1,
    }


def launch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    causal: bool = False, layout: str = "bhsd", scale: float | None = None,
    cu_seqlens_q: torch.Tensor | None = None, cu_seqlens_k: torch.Tensor | None = None,
    seqlens: Sequence[tuple[int, int]] | None = None,
    alibi_slopes: torch.Tensor | None = None, bias: torch.Tensor | None = None,
    q_descale: torch.Tensor | None = None, k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None, p_descale: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    persistent: str | None = None, config: dict[str, Any] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Run the kernel.

    Args:
        q: [B, HQ, Sq, D] ("bhsd"), [B, Sq, HQ, D] ("bshd") or [ΣSq, HQ, D] ("thd"), head dimension
            contiguous.
        k: like q with HK heads and Sk keys.
        v: like k.
        causal: hide the keys j > i + Sk − Sq from query i.
        layout: "bhsd", "bshd" or "thd".
        scale: factor on the scores, 1/√D by default.
        cu_seqlens_q: int32 [B + 1], where each sequence starts and the last ends; "thd" only.
        cu_seqlens_k: like cu_seqlens_q for the keys.
        seqlens: the same as (queries, keys) of each sequence on the host: where the caller knows
            them, nothing has to be read back from the GPU.
        alibi_slopes: float32 [B, HQ].
        bias: [1, HQ, Sq, Sk], added to the scaled scores; not with "thd".
        q_descale: float32 [HQ] when q is int8.
        k_descale: float32 [HK] when k is int8.
        v_descale: float32 [HK] when v is int8.
        p_descale: float32 [HQ], 1/127 each: quantise the probabilities too; q, k and v are int8.
        out_dtype: of the result: q's by default, float16 when q is int8.
        persistent: None, "fixed" or "dynamic".
        config: block sizes and launch options that replace those of default_config.

    Returns:
        out like q, and lse [B, HQ, Sq] in float32 (natural logarithm).

    Raises:
        ValueError: shapes, layout, dtypes or strides that the kernel does not take.
    """
    import torch

    if layout not in ("bhsd", "bshd", "thd"):
        raise ValueError(f'layout must be "bhsd", "bshd" or "thd", not {layout!r}')
    if persistent not in (None, "fixed", "dynamic"):
        raise ValueError(f'persistent must be None, "fixed" or "dynamic", not {persistent!r}')
    _check_quantised(q, k, v, q_descale, k_descale, v_descale, p_descale)
    out_dtype = out_dtype or (q.dtype if q.is_floating_point() else torch.float16)
    out = torch.empty_like(q, dtype=out_dtype)

    # Views in the order (batch, head, sequence, feature): a layout is nothing but strides, and in
    # "thd", where cu_seqlens tells the sequences apart, the stride of the batch is 0.
    if any((t is not None) != (layout == "thd") for t in (cu_seqlens_q, cu_seqlens_k)):
        raise ValueError('cu_seqlens_q and cu_seqlens_k go with layout "thd", and only with it')
    if cu_seqlens_q is not None and cu_seqlens_k is not None:
        int32 = cu_seqlens_q.dtype == cu_seqlens_k.dtype == torch.int32
        if not int32 or cu_seqlens_q.shape != cu_seqlens_k.shape:
            raise ValueError("cu_seqlens_q and cu_seqlens_k must be int32 and of one length")
        batches = len(cu_seqlens_q) - 1
        qs, ks, vs, outs = (t.transpose(0, 1).expand(batches, -1, -1, -1) for t in (q, k, v, out))
        seqlen_q = max(n for n, _ in seqlens or _lengths(cu_seqlens_q, cu_seqlens_k))
    else:
        qs, ks, vs, outs = (t if layout == "bhsd" else t.transpose(1, 2) for t in (q, k, v, out))
        seqlen_q = qs.shape[2]
    batch, heads_q, _, dim = qs.shape
    heads_k, seqlen_k = ks.shape[1], ks.shape[2]
    if ks.shape != vs.shape or (ks.shape[0], ks.shape[3]) != (batch, dim):
        raise ValueError(f"q {tuple(qs.shape)}, k {tuple(ks.shape)}, v {tuple(vs.shape)} disagree")
    if heads_q % heads_k:
        raise ValueError(f"{heads_q} query heads are no multiple of {heads_k} key heads")
    if dim > 256:
        raise ValueError(f"head dimension {dim} exceeds 256")
    if any(t.stride(3) != 1 for t in (qs, ks, vs, outs)):
        raise ValueError("the head dimension of q, k and v must be contiguous")
    if alibi_slopes is not None and alibi_slopes.shape != (batch, heads_q):
        raise ValueError(f"alibi_slopes must be [{batch}, {heads_q}]")
    if bias is not None and (layout == "thd" or bias.shape != (1, heads_q, seqlen_q, seqlen_k)):
        raise ValueError(f"bias must be [1, {heads_q}, {seqlen_q}, {seqlen_k}], and not with thd")

    backend = "hip" if torch.version.hip else "cuda"
    plain = alibi_slopes is None and bias is None and k_descale is None
    form = {"causal": causal, "plain": plain, "itemsize": q.itemsize, "queries": seqlen_q}
    defaults = default_config(backend, dim, **form)
    options = {**defaults, **(config or {})}
    programs_per_cu = options.pop("GRID_CU_MULTIP")
    blocks = triton.cdiv(seqlen_q, options["BLOCK_M"])
    grid: tuple[int, ...] = (blocks, heads_q, batch)
    counter = None
    if persistent:
        grid = (min(blocks * heads_q * batch, programs_per_cu * _compute_units(q.device)),)
        if persistent == "dynamic":
            counter = torch.zeros(1, dtype=torch.int32, device=q.device)

    lse = torch.empty((batch, heads_q, seqlen_q), dtype=torch.float32, device=q.device)
    if layout == "thd":
        lse.fill_(float("-inf"))
    # A matrix instruction takes 16 features at least, 32 when they are int8.
    least = 32 if q.dtype == torch.int8 else 16
    flash_attn_kernel[grid](
        qs, ks, vs, outs, lse,
        *qs.stride()[:3], *ks.stride()[:3], *vs.stride()[:3], *outs.stride()[:3],
        heads_q, heads_k, seqlen_q, seqlen_k,
        LOG2E.value * (dim**-0.5 if scale is None else scale),
        cu_seqlens_q, cu_seqlens_k, alibi_slopes,
        bias, *((None, None, None) if bias is None else bias.stride()[1:]),
        q_descale, k_descale, v_descale, p_descale,
        batch if persistent else None, counter,
        BLOCK_D=max(least, triton.next_power_of_2(dim)),
        HEAD_DIM=dim, IS_CAUSAL=causal, PERSISTENT=bool(persistent), **options,
    )  # fmt: skip
    return out, lse


def _check_quantised(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *descales: torch.Tensor | None
) -> None:
    """Raise ValueError unless dtypes and descales (of q, k, v and p) are one of the four modes."""
    import torch

    is_int8 = tuple(t.dtype == torch.int8 for t in (q, k, v))
    given = tuple(d is not None for d in descales)
    none, kv, qkv = (False, False, False), (False, True, True), (True, True, True)
    if is_int8 not in (none, kv, qkv):
        raise ValueError("int8 are q, k and v, or k and v, or none of them")
    if given[:3] != is_int8 or (given[3] and is_int8 != qkv):
        raise ValueError("each int8 tensor has a descale, and p has one only with int8 q, k and v")
    if is_int8 == none and not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"q, k and v differ: {q.dtype}, {k.dtype}, {v.dtype}")


def _compute_units(device: torch.device) -> int:
    import torch

    if device.type == "cpu":
        return 3  # the interpreter: few enough that each program takes several tiles
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def quantise(x: torch.Tensor, layout: str = "bhsd") -> tuple[torch.Tensor, torch.Tensor]:
    """Return x in int8 and its descale [heads]: the scale of a head is 127/amax."""
    import torch

    head_axis = 1 if layout == "bhsd" else x.ndim - 2
    others = [axis for axis in range(x.ndim) if axis != head_axis]
    descale = x.float().abs().amax(others, keepdim=True).clamp(min=1e-12) / 127
    return torch.round(x.float() / descale).clamp(-127, 127).to(torch.int8), descale.flatten()


def dequantise(x: torch.Tensor, descale: torch.Tensor | None, layout: str) -> torch.Tensor:
    """Return x as float32, times its head's descale."""
    if descale is None:
        return x.float()
    return x.float() * descale.view((-1, 1, 1) if layout == "bhsd" else (-1, 1))


def reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    causal: bool = False, layout: str = "bhsd", scale: float | None = None,
    cu_seqlens_q: torch.Tensor | None = None, cu_seqlens_k: torch.Tensor | None = None,
    seqlens: Sequence[tuple[int, int]] | None = None,
    alibi_slopes: torch.Tensor | None = None, bias: torch.Tensor | None = None,
    q_descale: torch.Tensor | None = None, k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None, p_descale: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None, **ignored: Any,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The same attention in plain PyTorch, in float32, over dequantised q, k and v.

    Where p is quantised it is so against the row's maximum, in the kernel against the maximum up to
    then: the two round differently. `persistent` and `config` are ignored.
    """
    import torch

    out_dtype = out_dtype or (q.dtype if q.is_floating_point() else torch.float16)
    device = q.device
    q = dequantise(q, q_descale, layout)
    k, v = dequantise(k, k_descale, layout), dequantise(v, v_descale, layout)
    if cu_seqlens_q is not None and cu_seqlens_k is not None:
        seqlens = seqlens or _lengths(cu_seqlens_q, cu_seqlens_k)
    sequences = _sequences(q, k, v, layout, seqlens)
    longest = max(q.shape[1] for q, _, _ in sequences)
    heads_q = sequences[0][0].shape[0]
    lse = torch.full((len(sequences), heads_q, longest), float("-inf"), device=device)
    outs = []
    for b, (q, k, v) in enumerate(sequences):
        seqlen_q, seqlen_k, out = q.shape[1], k.shape[1], torch.empty_like(q)
        # As many heads at a time as have 2²⁸ scores, 1 GiB.
        step = max(1, 2**28 // max(1, seqlen_q * seqlen_k))
        for first in range(0, heads_q, step):
            heads = torch.arange(first, min(first + step, heads_q), device=device)
            kv_heads = heads // (heads_q // k.shape[0])
            scores = q[heads] @ k[kv_heads].mT * (q.shape[2] ** -0.5 if scale is None else scale)
            slopes = None if alibi_slopes is None else alibi_slopes[b, heads]
            scores = _add_terms(scores, causal, slopes, None if bias is None else bias[0, heads])
            lse[b, heads, :seqlen_q] = torch.logsumexp(scores, dim=-1)
            p = torch.softmax(scores, dim=-1).nan_to_num(0.0)
            if p_descale is not None:
                largest = p.amax(-1, keepdim=True).clamp(min=1e-38)
                p = (p / largest * 127).trunc() * p_descale[heads, None, None] * largest
            out[heads] = p @ v[kv_heads]
        outs.append(out.to(out_dtype))
    if layout == "thd":
        return torch.cat(outs, dim=1).transpose(0, 1), lse
    return torch.stack(outs) if layout == "bhsd" else torch.stack(outs).transpose(1, 2), lse


def _lengths(cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor) -> list[tuple[int, int]]:
    """Read the queries and keys of each sequence back."""
    return list(zip(cu_seqlens_q.diff().tolist(), cu_seqlens_k.diff().tolist(), strict=True))


def _sequences(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layout: str,
    seqlens: Sequence[tuple[int, int]] | None,
) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:  # fmt: skip
    """Views q [HQ, Sq, D], k and v [HK, Sk, D] of each sequence of the batch."""
    if seqlens is None:
        views = (t if layout == "bhsd" else t.transpose(1, 2) for t in (q, k, v))
        return list(zip(*views, strict=True))
    queries, keys = ([pair[axis] for pair in seqlens] for axis in (0, 1))
    parts = (t.transpose(0, 1).split(n, dim=1) for t, n in ((q, queries), (k, keys), (v, keys)))
    return list(zip(*parts, strict=True))


def _add_terms(
    scores: torch.Tensor, causal: bool, slopes: torch.Tensor | None, bias: torch.Tensor | None
) -> torch.Tensor:
    """Add ALiBi (slopes [...]), a bias and the causal mask to scores [..., Sq, Sk]."""
    import torch

    seqlen_q, seqlen_k = scores.shape[-2:]
    i = torch.arange(seqlen_q, device=scores.device)[:, None] + seqlen_k - seqlen_q
    j = torch.arange(seqlen_k, device=scores.device)[None, :]
    if slopes is not None:
        scores = scores - slopes[..., None, None] * (i - j).abs()
    if bias is not None:
        scores = scores + bias.float()
    return scores.masked_fill(j > i, float("-inf")) if causal else scores


def torch_operator(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    causal: bool = False, layout: str = "bhsd", scale: float | None = None,
    cu_seqlens_q: torch.Tensor | None = None, cu_seqlens_k: torch.Tensor | None = None,
    seqlens: Sequence[tuple[int, int]] | None = None,
    alibi_slopes: torch.Tensor | None = None, bias: torch.Tensor | None = None,
    q_descale: torch.Tensor | None = None, k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None, p_descale: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None, **ignored: Any,
) -> torch.Tensor:  # fmt: skip
    """Do the same job by scaled_dot_product_attention; the output alone.

    It knows neither int8 nor ALiBi nor packed sequences: int8 is dequantised first, ALiBi becomes
    a mask of Sq × Sk, and packed sequences are attended to one by one.
    """
    import torch
    from torch.nn import functional
    from torch.nn.attention.bias import causal_lower_right

    out_dtype = out_dtype or (q.dtype if q.is_floating_point() else torch.float16)
    if k_descale is not None:
        q, k, v = (
            dequantise(x, descale, layout).to(out_dtype)
            for x, descale in ((q, q_descale), (k, k_descale), (v, v_descale))
        )

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: Any) -> torch.Tensor:
        (heads_q, seqlen_q), (heads_k, seqlen_k) = q.shape[1:3], k.shape[1:3]
        mask: Any = None
        if alibi_slopes is not None or bias is not None:
            mask = q.new_zeros((q.shape[0], heads_q, seqlen_q, seqlen_k), dtype=torch.float32)
            slopes = None if alibi_slopes is None else alibi_slopes[batch]
            mask = _add_terms(mask, causal, slopes, bias).to(q.dtype)
        elif causal and seqlen_q != seqlen_k:  # is_causal would be aligned at the top left
            mask = causal_lower_right(seqlen_q, seqlen_k)
        return functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal and mask is None, scale=scale,
            enable_gqa=heads_q != heads_k,
        )  # fmt: skip

    if cu_seqlens_q is not None and cu_seqlens_k is not None:
        sequences = _sequences(q, k, v, layout, seqlens or _lengths(cu_seqlens_q, cu_seqlens_k))
        outs = [
            attention(q[None], k[None], v[None], slice(b, b + 1))[0]
            for b, (q, k, v) in enumerate(sequences)
        ]
        return torch.cat(outs, dim=1).transpose(0, 1)
    if layout == "bhsd":
        return attention(q, k, v, slice(None))
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    return attention(q, k, v, slice(None)).transpose(1, 2)


def sequence_lengths(case: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Queries and keys of each sequence of a case.

    In layout "thd" Sq and Sk are the room for the whole batch: each sequence has Sq/B queries and
    Sk/B keys when `equal_seqlens` is set, else any number from 1 up to that. `seqlens` gives
    (queries, keys) of each sequence outright.
    """
    batch = case["B"]
    if case.get("layout") != "thd":
        return [case["Sq"]] * batch, [case["Sk"]] * batch
    if "seqlens" in case:
        return [q for q, _ in case["seqlens"]], [k for _, k in case["seqlens"]]
    most_q, most_k = max(1, case["Sq"] // batch), max(1, case["Sk"] // batch)
    if case.get("equal_seqlens"):
        return [most_q] * batch, [most_k] * batch
    draw = random.Random(20)
    pairs = [(draw.randint(1, most_q), draw.randint(1, most_k)) for _ in range(batch)]
    return [q for q, _ in pairs], [k for _, k in pairs]


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference.

    Beside the shape a case may name causal, layout, scale, dtype, persistent, alibi, bias, int8
    ("qkv", "qkvp" or "kv"), config, and what sequence_lengths reads. `hidden_keys`: so many keys at
    the front have a bias of −inf.
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(20)
    layout = case.get("layout", "bhsd")
    dtype = getattr(torch, case.get("dtype", "float16"))
    lengths_q, lengths_k = sequence_lengths(case)

    def normal(heads: int, lengths: list[int]) -> torch.Tensor:
        shape: tuple[int, ...] = (len(lengths), heads, lengths[0], case["D"])
        if layout == "bshd":
            shape = (len(lengths), lengths[0], heads, case["D"])
        elif layout == "thd":
            shape = (sum(lengths), heads, case["D"])
        return torch.randn(shape, generator=generator, device=device).to(dtype)

    def starts(lengths: list[int]) -> torch.Tensor:
        ends = [sum(lengths[:n]) for n in range(len(lengths) + 1)]
        return torch.tensor(ends, dtype=torch.int32, device=device)

    inputs: dict[str, Any] = {
        "q": normal(case["HQ"], lengths_q),
        "k": normal(case["HK"], lengths_k),
        "v": normal(case["HK"], lengths_k),
        "causal": case.get("causal", False),
        "layout": layout,
        "scale": case.get("scale"),
        "persistent": case.get("persistent"),
        "config": case.get("config"),
    }
    if layout == "thd":
        inputs |= {"cu_seqlens_q": starts(lengths_q), "cu_seqlens_k": starts(lengths_k)}
        inputs["seqlens"] = list(zip(lengths_q, lengths_k, strict=True))
    if case.get("alibi"):
        slopes = torch.rand((case["B"], case["HQ"]), generator=generator, device=device)
        inputs["alibi_slopes"] = slopes
    if case.get("bias"):
        shape = (1, case["HQ"], case["Sq"], case["Sk"])
        bias = torch.randn(shape, generator=generator, device=device).to(dtype)
        bias[..., : case.get("hidden_keys", 0)] = float("-inf")
        inputs["bias"] = bias
    if case.get("int8"):
        inputs["out_dtype"] = dtype
        for name in case["int8"].removesuffix("p"):
            inputs[name], inputs[f"{name}_descale"] = quantise(inputs[name], layout)
        if case["int8"].endswith("p"):
            inputs["p_descale"] = torch.full((case["HQ"],), 1 / 127, device=device)
    return inputs


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """Useful operations, and the bytes of reading and writing everything once."""
    wide = 4 if case.get("dtype") == "float32" else 2
    mode = case.get("int8") or ""
    q_bytes, kv_bytes = (1 if name in mode else wide for name in "qk")
    hq, hk, d = case["HQ"], case["HK"], case["D"]
    flop, moved = 0.0, 0
    for sq, sk in zip(*sequence_lengths(case), strict=True):
        share = 1.0
        if case.get("causal"):
            share = sk / (2 * sq) if sq > sk else 1 - sq / (2 * sk)
        flop += 4 * hq * sq * sk * d * share
        moved += hq * sq * (d * (q_bytes + wide) + 4) + 2 * hk * sk * d * kv_bytes
    if case.get("bias"):
        moved += hq * case["Sq"] * case["Sk"] * wide
    return {"flop": round(flop), "bytes": moved}


def _shape(B: int, HQ: int, HK: int, Sq: int, Sk: int, D: int, **more: Any) -> dict[str, Any]:
    return {"B": B, "HQ": HQ, "HK": HK, "Sq": Sq, "Sk": Sk, "D": D, **more}


def _case(name: str, *shape: int, tolerance: float = 2e-3, **more: Any) -> dict[str, Any]:
    """Blocks small enough that small shapes have several, of them some masked and some not."""
    config = {"BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 4, **more.pop("config", {})}
    limits = {"atol": tolerance, "rtol": tolerance}
    return {"name": name, **_shape(*shape), **more, "config": config, **limits}


_LATE_V = {"BLOCK_M": 32, "BLOCK_N": 64, "PRE_LOAD_V": False}
_EARLY_V = {"PRE_LOAD_V": True}
_RAGGED = ((70, 33), (1, 90), (40, 100), (64, 5))

CASES = [
    _case("full_blocks", 2, 2, 2, 128, 64, 32, config=_EARLY_V),
    {**_case("default_config", 1, 2, 2, 150, 300, 64, causal=True), "config": None},
    _case("causal", 1, 2, 2, 128, 128, 64, causal=True, config=_EARLY_V),
    _case("bshd", 2, 2, 2, 70, 100, 32, layout="bshd", causal=True),
    _case("grouped_query", 1, 6, 2, 64, 96, 32),
    _case("multi_query", 2, 4, 1, 40, 64, 16, causal=True),
    _case("padded_head_dim", 1, 2, 2, 65, 70, 40, causal=True),
    _case("head_dim_below_16", 1, 1, 1, 32, 32, 8),
    _case("head_dim_256", 1, 1, 1, 64, 96, 256, causal=True),
    _case("one_query", 1, 2, 1, 1, 77, 64, causal=True),
    _case("one_key", 1, 2, 1, 33, 1, 32),
    _case("more_keys", 1, 2, 2, 50, 131, 32, causal=True),
    # Sq > Sk and causal: the first 90 queries see no key at all.
    _case("rows_without_keys", 1, 2, 2, 130, 40, 32, causal=True),
    _case("late_v", 1, 2, 1, 100, 100, 32, causal=True, config=_LATE_V),
    _case("bfloat16", 1, 2, 1, 60, 90, 32, causal=True, dtype="bfloat16", tolerance=1e-2),
    _case("float32", 1, 2, 1, 60, 90, 32, causal=True, dtype="float32", tolerance=1e-4),
    _case("varlen", 4, 2, 1, 0, 0, 32, layout="thd", seqlens=_RAGGED),
    _case("varlen_causal", 4, 2, 2, 0, 0, 32, layout="thd", seqlens=_RAGGED, causal=True),
    _case("varlen_drawn", 2, 2, 1, 200, 240, 40, layout="thd", causal=True, alibi=True),
    _case("alibi", 2, 2, 2, 70, 100, 32, alibi=True),
    _case("alibi_causal", 1, 4, 2, 100, 70, 32, alibi=True, causal=True),
    _case("bias", 2, 2, 1, 70, 100, 32, bias=True),
    # The first two blocks of keys are hidden from everybody.
    _case("bias_hides_blocks", 1, 2, 2, 70, 100, 32, bias=True, hidden_keys=64),
    _case("bias_causal_bshd", 1, 2, 2, 60, 90, 40, bias=True, causal=True, layout="bshd"),
    _case("persistent_fixed", 2, 2, 1, 150, 90, 32, persistent="fixed", causal=True),
    _case("persistent_dynamic", 2, 2, 1, 150, 90, 32, persistent="dynamic", causal=True),
    _case(
        "persistent_varlen", 4, 2, 1, 0, 0, 32,
        layout="thd", seqlens=_RAGGED, persistent="dynamic", causal=True,
    ),
    _case("int8_qkv", 2, 2, 1, 50, 70, 32, int8="qkv", causal=True),
    _case("int8_qkv_bshd", 1, 2, 1, 70, 100, 40, int8="qkv", layout="bshd"),
    # A flat softmax: where few of many keys count, cutting p down costs most of the tolerance.
    _case(
        "int8_qkvp", 1, 2, 1, 40, 150, 32, int8="qkvp", causal=True, scale=0.05, tolerance=2e-2
    ),
    _case(
        "int8_qkvp_varlen", 4, 2, 1, 0, 0, 32,
        layout="thd", seqlens=_RAGGED, int8="qkvp", config={"BLOCK_N": 128}, tolerance=1e-2,
    ),
    _case("int8_kv", 1, 4, 2, 50, 70, 32, int8="kv", causal=True),
    _case("int8_kv_bf16", 1, 2, 2, 70, 100, 16, int8="kv", dtype="bfloat16", tolerance=1e-2),
]  # fmt: skip


def _bench(*shape: int, suffix: str = "", **more: Any) -> dict[str, Any]:
    b, hq, hk, sq, sk, d = shape
    return {"name": f"{b}x{hq}x{hk}_{sq}x{sk}_d{d}{suffix}", **_shape(*shape), **more}


BENCH = [
    *(_bench(16384 // s, 16, 16, s, s, 128) for s in (1024, 2048, 4096, 8192, 16384)),
    *(
        _bench(2, 48, 48, sq, sk, 128)
        for sq, sk in ((1024, 1024), (2048, 1024), (4096, 8192), (8192, 4096), (16384, 8192))
    ),
    _bench(8, 16, 16, 1989, 15344, 128),
    _bench(4, 16, 16, 4097, 163, 128),
    _bench(2, 16, 16, 8122, 2159, 128),
    _bench(1, 16, 16, 16281, 7, 128),
    *(
        _bench(2, 48, 48, sq, sk, 128)
        for sq, sk in ((1021, 1020), (2001, 2048), (3996, 9639), (8181, 1021))
    ),
    *(
        _bench(b, hq, hk, s, s, 128, suffix="_varlen", layout="thd")
        for b, hq, hk, s in (
            (2, 16, 4, 1024), (8, 16, 2, 2048), (4, 16, 8, 4096), (2, 16, 4, 8192),
            (2, 16, 8, 16384), (2, 48, 12, 1024), (2, 48, 24, 2048), (2, 48, 8, 4096),
            (2, 48, 4, 8192), (2, 48, 2, 16384), (2, 64, 32, 1024), (4, 64, 16, 2048),
            (4, 64, 8, 4096), (4, 64, 32, 8192), (4, 128, 16, 16384),
        )
    ),
    # The published pair "default" and "tuned" of KINSPECT_CASES was measured on these.
    *(_bench(4, 8, 8, s, s, 256, suffix="_causal", causal=True) for s in (512, 1024, 2048, 4096)),
]  # fmt: skip

TUNING = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "PRE_LOAD_V": [False, True],
    "num_warps": [4],
    "num_stages": [1],
    "waves_per_eu": [1, 2, 3],
}


def _compile_case(
    name: str, block_m: int, block_n: int, *, head_dim: int, causal: bool = False,
    pre_load_v: bool = False, dtype: str = "fp16", length: str = "i32:16", waves_per_eu: int = 2,
    archs: tuple[str, ...] = ("gfx9*",), int8: str = "", persistent: bool = False,
    used: dict[str, str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """`int8` as in make_inputs; `used` gives the types of optional arguments that are not None."""
    types = {t: "i8" if t in int8 else dtype for t in ("q", "k", "v")} | {"out": dtype}
    strides = {
        f"stride_{tensor}{axis}": "i32:16"
        for tensor, axes in (("q", "bhm"), ("k", "bhn"), ("v", "bhn"), ("o", "bhm"))
        for axis in axes
    }
    optional = {**(used or {}), **{f"{t}_descale_ptr": "*fp32:16" for t in int8}}
    optional |= {"num_batches": "i32"} if persistent else {}
    return {
        "name": name,
        "kernel": "flash_attn_kernel",
        "signature": {
            **{f"{t}_ptr": f"*{type_}:16" for t, type_ in types.items()},
            "lse_ptr": "*fp32:16",
            **strides,
            **dict.fromkeys(("num_heads_q", "num_heads_k"), "i32"),
            **dict.fromkeys(("seqlen_q", "seqlen_k"), length),
            "qk_scale": "fp32",
            **optional,
        },
        "constexprs": {
            **{name: None for name in _OPTIONAL if name not in optional},
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            "BLOCK_D": triton.next_power_of_2(head_dim),
            "HEAD_DIM": head_dim,
            "IS_CAUSAL": causal,
            "PRE_LOAD_V": pre_load_v,
            "PERSISTENT": persistent,
        },
        "options": {"num_warps": 4, "num_stages": 1, "waves_per_eu": waves_per_eu},
        "archs": list(archs),
    }


_OPTIONAL = (
    *("cu_seqlens_q_ptr", "cu_seqlens_k_ptr", "slopes_ptr"),
    *("bias_ptr", "stride_bias_h", "stride_bias_m", "stride_bias_n"),
    *("q_descale_ptr", "k_descale_ptr", "v_descale_ptr", "p_descale_ptr"),
    *("num_batches", "counter_ptr"),
)
_VARLEN = dict.fromkeys(("cu_seqlens_q_ptr", "cu_seqlens_k_ptr"), "*i32:16")
_BIAS = {"bias_ptr": "*fp16:16", "stride_bias_n": "i32:1"} | dict.fromkeys(
    ("stride_bias_h", "stride_bias_m"), "i32:16"
)
_CDNA3 = ("gfx94*",)
_WAVE32 = ("gfx11*", "gfx12*")

KINSPECT_CASES = [
    # default_config("hip", 128)
    _compile_case("d128_128x64", 128, 64, head_dim=128),
    # The published pair: the same attention, before and after tuning, 2 to 2.7 times apart.
    _compile_case("d256_causal_128x64", 128, 64, head_dim=256, causal=True),
    _compile_case(
        "d256_causal_64x32_preload_v", 64, 32, head_dim=256, causal=True, pre_load_v=True
    ),
    _compile_case("d128_causal_bf16_128x64", 128, 64, head_dim=128, causal=True, dtype="bf16"),
    # 96 padded to 128 and lengths of any number: the ragged case.
    _compile_case("d96_ragged_128x32", 128, 32, head_dim=96, length="i32", archs=_CDNA3),
    _compile_case("d64_causal_128x64", 128, 64, head_dim=64, causal=True),
    _compile_case(
        "d128_varlen_causal_128x64", 128, 64, head_dim=128, causal=True, length="i32",
        archs=_CDNA3, used=_VARLEN,
    ),
    _compile_case(
        "d128_alibi_128x32", 128, 32, head_dim=128, archs=_CDNA3, used={"slopes_ptr": "*fp32:16"}
    ),
    _compile_case("d128_bias_128x32", 128, 32, head_dim=128, archs=_CDNA3, used=_BIAS),
    _compile_case(
        "d128_causal_fixed_128x64", 128, 64, head_dim=128, causal=True, persistent=True,
        archs=_CDNA3,
    ),
    _compile_case(
        "d128_causal_dynamic_128x64", 128, 64, head_dim=128, causal=True, persistent=True,
        archs=_CDNA3, used={"counter_ptr": "*i32:16"},
    ),
    _compile_case("d128_int8_qkv_128x32", 128, 32, head_dim=128, int8="qkv"),
    _compile_case("d128_int8_qkvp_128x32", 128, 32, head_dim=128, int8="qkvp"),
    _compile_case("d128_int8_kv_128x32", 128, 32, head_dim=128, int8="kv", archs=_CDNA3),
    _compile_case(
        "d128_causal_64x32_wave32", 64, 32, head_dim=128, causal=True, waves_per_eu=0,
        archs=_WAVE32,
    ),
    _compile_case("d64_64x32_wave32", 64, 32, head_dim=64, waves_per_eu=0, archs=_WAVE32),
]  # fmt: skip
