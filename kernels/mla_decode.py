"""Multi-head latent attention, one decoding step of a whole layer, in the absorbed form.

Shapes and layouts
    x [B, 1, dim], one new token per sequence; H heads, each with a nope part (without position) and
    a rope part (rotated by position); latent vectors of kv_lora values stand for keys and values.
    w_dq [q_lora, dim], w_uq [H·(nope + rope), q_lora], w_dkv [kv_lora + rope, dim],
    w_ukv [H·(nope + v), kv_lora], w_o [dim, H·v]: contiguous weights of torch.nn.Linear.
    kv_cache [B, length, kv_lora + rope], contiguous: latent and un-rotated rope key of each token,
    of which the first `prefill` are filled; the new token is written behind them, in place.
    cos, sin [≥ prefill + 1, rope/2], contiguous: see `rope_table`.
    kv_lora and rope are powers of two, of at least 16 and 32.
Dtypes
    bfloat16 (as published), float16 or float32, the same for all; softmax and accumulators are
    float32.
Formula
    q = x·w_dqᵀ·w_uqᵀ split by head into q_nope and q_rope; c, r = x·w_dkvᵀ → cache row `prefill`.
    scores[h, t] = (q_nope[h]·(W_UK[h]·c[t]) + rot(q_rope[h], prefill)·rot(r[t], t))/√(nope + rope)
    y = concatₕ(softmax(scores[h]) · (W_UV[h]·c)) · w_oᵀ, W_UK and W_UV the parts of w_ukv.
    rot(z, t) turns the pairs (z[i], z[i + rope/2]) by the angle t·θᵢ ("rotate half").
    Absorbed: (q_nope·W_UK)·c[t] instead of q_nope·(W_UK·c[t]), and W_UV after the softmax: all
    heads then share one key row of kv_lora + rope values, whose first kv_lora are the value.

The plain projections are torch.matmul and torch.bmm. The Triton kernels are the cache update, the
attention, which splits the tokens of a sequence among several programs and rotates queries and keys
as it reads them, and the reduction over the splits.

Work: with L = prefill + 1 tokens the attention takes 2·B·H·L·(2·kv_lora + rope) FLOP and reads
B·L·(kv_lora + rope) elements; the projections come on top.

Answers to: the MLA decode kernels of gpumode's amd-mla-decode and of RadeonFlow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

# exp(x) = exp2(x·log2 e): the hardware has exp2, so log2 e is folded into the softmax scale once.
LOG2E = 1.4426950408889634


@triton.jit
def cache_append_kernel(
    new_ptr, cache_ptr, stride_new, stride_cb, stride_cn, row, n_cols,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One program writes the new row of one sequence into the cache. Grid: (B,)."""
    batch = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    value = tl.load(new_ptr + batch * stride_new + cols, mask=cols < n_cols)
    cache_row = cache_ptr + batch * stride_cb + row * stride_cn
    tl.store(cache_row + cols, value, mask=cols < n_cols)


@triton.jit
def load_rotated(base, rows, stride, in_range, cos_ptr, sin_ptr, positions, HALF: tl.constexpr):
    """Load the rope part of some rows, rotate it by their positions, and return its two halves.

    base points at the first rope value of row 0. The rotation is done in float32 and rounded once.
    """
    offs = tl.arange(0, HALF)
    mask = in_range[:, None]
    ptrs = base + rows[:, None] * stride + offs[None, :]
    first = tl.load(ptrs, mask=mask, other=0.0).to(tl.float32)
    second = tl.load(ptrs + HALF, mask=mask, other=0.0).to(tl.float32)
    angles = positions[:, None] * HALF + offs[None, :]
    cos = tl.load(cos_ptr + angles, mask=mask, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptr + angles, mask=mask, other=0.0).to(tl.float32)
    dtype = base.dtype.element_ty
    return (first * cos - second * sin).to(dtype), (second * cos + first * sin).to(dtype)


@triton.jit
def mla_attention_kernel(
    q_ptr, q_rope_ptr, cache_ptr, cos_ptr, sin_ptr, out_ptr, lse_ptr,
    stride_qb, stride_qh, stride_rb, stride_rh, stride_cb, stride_cn,
    stride_ob, stride_os, stride_oh,
    num_heads, kv_len, split_len, qk_scale,
    LATENT: tl.constexpr, ROPE: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr,
    NUM_SPLITS: tl.constexpr, NUM_XCD: tl.constexpr,
):  # fmt: skip
    """One program lets BLOCK_H heads of one sequence attend to one split of its tokens.

    q [B, H, LATENT] is the absorbed query, q_rope [B, H, ROPE] still un-rotated. out
    [B, NUM_SPLITS, H, LATENT] is normalised within the split; lse [B, NUM_SPLITS, H] is the base-2
    logarithm of the split's softmax denominator. No split is empty.
    Grid: (⌈H/BLOCK_H⌉·NUM_SPLITS·B,).
    """
    # Programs are dealt out to the XCDs in turn, each with an L2 of its own. Renumbered so that one
    # XCD's programs are neighbours: the head blocks that read the same tokens then share its L2.
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    xcd = pid % NUM_XCD
    pid = xcd * (programs // NUM_XCD) + tl.minimum(xcd, programs % NUM_XCD) + pid // NUM_XCD
    head_blocks = tl.cdiv(num_heads, BLOCK_H)
    heads = pid % head_blocks * BLOCK_H + tl.arange(0, BLOCK_H)
    split = pid // head_blocks % NUM_SPLITS
    batch = (pid // head_blocks // NUM_SPLITS).to(tl.int64)

    HALF: tl.constexpr = ROPE // 2
    offs_c = tl.arange(0, LATENT)
    real = heads < num_heads
    q_ptrs = q_ptr + batch * stride_qb + heads[:, None] * stride_qh + offs_c[None, :]
    q = tl.load(q_ptrs, mask=real[:, None], other=0.0)
    q_first, q_second = load_rotated(
        q_rope_ptr + batch * stride_rb, heads, stride_rh, real,
        cos_ptr, sin_ptr, heads * 0 + kv_len - 1, HALF,
    )  # fmt: skip
    cache_base = cache_ptr + batch * stride_cb

    acc = tl.zeros((BLOCK_H, LATENT), dtype=tl.float32)
    m_i = tl.full((BLOCK_H,), float("-inf"), dtype=tl.float32)
    l_i = tl.zeros((BLOCK_H,), dtype=tl.float32)
    end = tl.minimum(split * split_len + split_len, kv_len)
    for start in range(split * split_len, end, BLOCK_N):
        tokens = start + tl.arange(0, BLOCK_N)
        seen = tokens < end
        ptrs = cache_base + tokens[:, None] * stride_cn + offs_c[None, :]
        latent = tl.load(ptrs, mask=seen[:, None], other=0.0)  # the key, and the value as well
        k_first, k_second = load_rotated(
            cache_base + LATENT, tokens, stride_cn, seen, cos_ptr, sin_ptr, tokens, HALF
        )
        scores = tl.dot(q, tl.trans(latent))
        scores = tl.dot(q_first, tl.trans(k_first), scores)
        scores = tl.dot(q_second, tl.trans(k_second), scores) * qk_scale
        scores = tl.where(seen[None, :], scores, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(scores, 1))  # finite: a block has at least one token
        p = tl.exp2(scores - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(latent.dtype), latent, acc)
        m_i = m_new

    out_ptrs = out_ptr + batch * stride_ob + split * stride_os + heads[:, None] * stride_oh
    out = (acc / l_i[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptrs + offs_c[None, :], out, mask=real[:, None])
    lse_ptrs = lse_ptr + (batch * NUM_SPLITS + split) * num_heads + heads
    tl.store(lse_ptrs, m_i + tl.log2(l_i), mask=real)


@triton.jit
def mla_reduce_kernel(
    parts_ptr, lse_ptr, out_ptr, stride_pb, stride_ps, stride_ph, stride_ob, stride_oh,
    num_heads, num_splits, LATENT: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """One program merges the splits of one head. Grid: (H, B)."""
    head = tl.program_id(0)
    batch = tl.program_id(1).to(tl.int64)
    splits = tl.arange(0, BLOCK_S)
    offs_c = tl.arange(0, LATENT)
    real = splits < num_splits
    lse_ptrs = lse_ptr + (batch * num_splits + splits) * num_heads + head
    lse = tl.load(lse_ptrs, mask=real, other=float("-inf"))
    weight = tl.exp2(lse - tl.max(lse, 0))
    base = parts_ptr + batch * stride_pb + head * stride_ph
    ptrs = base + splits[:, None] * stride_ps + offs_c[None, :]
    parts = tl.load(ptrs, mask=real[:, None], other=0.0)
    out = tl.sum(parts * weight[:, None], 0) / tl.sum(weight, 0)
    out_row = out_ptr + batch * stride_ob + head * stride_oh
    tl.store(out_row + offs_c, out.to(out_ptr.dtype.element_ty))


# hip: a tile of 32 tokens × 512 values is half of the LDS. cuda: 64 heads fill the rows of Hopper's
# matrix instruction, and two tiles of 64 tokens, beside the queries, nearly all shared memory.
# NUM_SPLITS is for the launcher to choose, unless it is given.
CONFIGS = {
    "hip": {"BLOCK_H": 16, "BLOCK_N": 32, "NUM_XCD": 8, "num_warps": 4, "num_stages": 1},
    "cuda": {"BLOCK_H": 64, "BLOCK_N": 64, "NUM_XCD": 1, "num_warps": 8, "num_stages": 2},
}

MAX_SPLITS = 32


def split_tokens(kv_len: int, splits: int, block_n: int) -> tuple[int, int]:
    """Tokens per split, a multiple of block_n, and the number of splits, none of them empty."""
    length = triton.cdiv(triton.cdiv(kv_len, splits), block_n) * block_n
    return length, triton.cdiv(kv_len, length)


def rope_table(
    length: int, rope: int, dtype: torch.dtype, device: torch.device | str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines [length, rope/2] of position·θᵢ, θᵢ = 10000^(−2i/rope).

    Frequencies, angles and results are rounded to dtype: in bfloat16, as published, so that far
    positions share angles with their neighbours.
    """
    import torch

    half = rope // 2
    theta = 10000.0 ** (-torch.arange(half, device=device, dtype=torch.float32) / half)
    positions = torch.arange(length, device=device).to(dtype)
    angles = (positions[:, None] * theta.to(dtype)[None, :]).float()
    return angles.cos().to(dtype), angles.sin().to(dtype)


def head_sizes(w_uq: Any, w_ukv: Any, w_o: Any, cos: Any, num_heads: int) -> tuple[int, int, int]:
    """nope, rope and v of a head, as the shapes of the weights have it."""
    rope = 2 * cos.shape[1]
    return w_uq.shape[0] // num_heads - rope, rope, w_o.shape[1] // num_heads


def check_shapes(
    x: Any, w_dq: Any, w_uq: Any, w_dkv: Any, w_ukv: Any, w_o: Any,
    kv_cache: Any, cos: Any, sin: Any, num_heads: int, prefill: int,
) -> None:  # fmt: skip
    """Raise ValueError where the shapes do not describe one layer."""
    nope, rope, v = head_sizes(w_uq, w_ukv, w_o, cos, num_heads)
    batch, _, dim = x.shape
    latent = w_dkv.shape[0] - rope
    expected = {
        "x": (x, (batch, 1, dim)),
        "w_dq": (w_dq, (w_uq.shape[1], dim)),
        "w_uq": (w_uq, (num_heads * (nope + rope), w_dq.shape[0])),
        "w_dkv": (w_dkv, (latent + rope, dim)),
        "w_ukv": (w_ukv, (num_heads * (nope + v), latent)),
        "w_o": (w_o, (dim, num_heads * v)),
        "kv_cache": (kv_cache, (batch, kv_cache.shape[1], latent + rope)),
        "sin": (sin, tuple(cos.shape)),
    }
    for name, (tensor, shape) in expected.items():
        if tuple(tensor.shape) != shape:
            raise ValueError(f"{name} is {tuple(tensor.shape)}, and not {shape} like the others")
    if nope <= 0 or latent < 16 or rope < 32 or latent & (latent - 1) or rope & (rope - 1):
        raise ValueError(
            f"kv_lora {latent} and rope {rope} must be powers of two ≥ 16 and ≥ 32, nope > 0"
        )
    if not 0 <= prefill < min(kv_cache.shape[1], cos.shape[0]):
        raise ValueError(f"no room for token {prefill} in the cache or in the rope table")
    if not all(t.is_contiguous() for t in (w_dq, w_uq, w_dkv, w_ukv, w_o, kv_cache, cos, sin)):
        raise ValueError("weights, kv_cache, cos and sin must be contiguous")


def attend(
    q_latent: torch.Tensor, q_rope: torch.Tensor, kv_cache: torch.Tensor, cos: torch.Tensor,
    sin: torch.Tensor, kv_len: int, scale: float, config: dict[str, Any] | None = None,
) -> torch.Tensor:  # fmt: skip
    """Attention of absorbed queries to the first kv_len rows of the cache, by the Triton kernels.

    q_latent [B, H, kv_lora] and q_rope [B, H, rope], not rotated yet, stand at the last of these
    rows; their last axes are contiguous. Returns the weighted mean of the latent rows, like
    q_latent.
    """
    import torch

    batch, heads, latent = q_latent.shape
    options = {**CONFIGS["hip" if torch.version.hip else "cuda"], **(config or {})}
    groups = batch * triton.cdiv(heads, options["BLOCK_H"])
    splits = options.pop("NUM_SPLITS", 0)
    if not splits:  # enough programs for every compute unit, of at least four blocks each
        on_gpu = q_latent.device.type == "cuda"
        properties = torch.cuda.get_device_properties(q_latent.device) if on_gpu else None
        units = properties.multi_processor_count if properties else 1
        longest = triton.cdiv(kv_len, 4 * options["BLOCK_N"])
        splits = max(1, min(2 * units // groups, longest, MAX_SPLITS))
    split_len, splits = split_tokens(kv_len, splits, options["BLOCK_N"])

    # A single split is the result; several are kept in float32 until they are merged.
    dtype = q_latent.dtype if splits == 1 else torch.float32
    parts = torch.empty((batch, splits, heads, latent), dtype=dtype, device=q_latent.device)
    lse = torch.empty((batch, splits, heads), dtype=torch.float32, device=q_latent.device)
    mla_attention_kernel[(groups * splits,)](
        q_latent, q_rope, kv_cache, cos, sin, parts, lse,
        *q_latent.stride()[:2], *q_rope.stride()[:2], *kv_cache.stride()[:2], *parts.stride()[:3],
        heads, kv_len, split_len, scale * LOG2E,
        LATENT=latent, ROPE=q_rope.shape[2], NUM_SPLITS=splits, **options,
    )  # fmt: skip
    if splits == 1:
        return parts[:, 0]
    out = torch.empty((batch, heads, latent), dtype=q_latent.dtype, device=q_latent.device)
    mla_reduce_kernel[(heads, batch)](
        parts, lse, out, *parts.stride()[:3], *out.stride()[:2], heads, splits,
        LATENT=latent, BLOCK_S=triton.next_power_of_2(splits), num_warps=4,
    )  # fmt: skip
    return out


def append(kv_cache: torch.Tensor, row: int, values: torch.Tensor) -> None:
    """Write values [B, kv_lora + rope] into a row of every sequence's cache, by the kernel."""
    cols = values.shape[1]
    cache_append_kernel[(values.shape[0],)](
        values, kv_cache, values.stride(0), *kv_cache.stride()[:2], row, cols,
        BLOCK=triton.next_power_of_2(cols), num_warps=4,
    )  # fmt: skip


def decode_step(
    x: torch.Tensor, w_dq: torch.Tensor, w_uq: torch.Tensor, w_dkv: torch.Tensor,
    w_ukv: torch.Tensor, w_o: torch.Tensor, kv_cache: torch.Tensor, cos: torch.Tensor,
    sin: torch.Tensor, num_heads: int, prefill: int,
    append: Callable[..., None], attend: Callable[..., torch.Tensor],
    config: dict[str, Any] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The absorbed layer around a cache update and an attention, which are passed in."""
    import torch

    nope, rope, v = head_sizes(w_uq, w_ukv, w_o, cos, num_heads)
    tokens = x[:, 0]
    q = (tokens @ w_dq.T @ w_uq.T).unflatten(1, (num_heads, nope + rope))
    append(kv_cache, prefill, tokens @ w_dkv.T)
    up = w_ukv.view(num_heads, nope + v, -1)
    # Batched over heads: [H, B, nope] · [H, nope, kv_lora].
    q_latent = torch.bmm(q[:, :, :nope].transpose(0, 1), up[:, :nope]).transpose(0, 1)
    scale = (nope + rope) ** -0.5
    mean = attend(q_latent, q[:, :, nope:], kv_cache, cos, sin, prefill + 1, scale, config)
    values = torch.bmm(mean.transpose(0, 1), up[:, nope:].transpose(1, 2))
    return (values.transpose(0, 1).flatten(1) @ w_o.T)[:, None], kv_cache


def launch(
    x: torch.Tensor, w_dq: torch.Tensor, w_uq: torch.Tensor, w_dkv: torch.Tensor,
    w_ukv: torch.Tensor, w_o: torch.Tensor, kv_cache: torch.Tensor, cos: torch.Tensor,
    sin: torch.Tensor, num_heads: int, prefill: int, config: dict[str, Any] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """One decoding step; the cache is updated in place.

    Args:
        x: [B, 1, dim], the new tokens.
        w_dq: [q_lora, dim].
        w_uq: [H·(nope + rope), q_lora].
        w_dkv: [kv_lora + rope, dim].
        w_ukv: [H·(nope + v), kv_lora].
        w_o: [dim, H·v].
        kv_cache: [B, length, kv_lora + rope].
        cos: [≥ prefill + 1, rope/2], of `rope_table`.
        sin: like cos.
        num_heads: H.
        prefill: number of tokens in the cache before this step.
        config: block sizes and launch options that replace those of CONFIGS.

    Returns:
        y like x, and kv_cache itself.

    Raises:
        ValueError: shapes that do not describe one layer, or no room in the cache.
    """
    check_shapes(x, w_dq, w_uq, w_dkv, w_ukv, w_o, kv_cache, cos, sin, num_heads, prefill)
    return decode_step(
        x, w_dq, w_uq, w_dkv, w_ukv, w_o, kv_cache, cos, sin, num_heads, prefill,
        append=append, attend=attend, config=config,
    )  # fmt: skip


def rotate_half(z: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """z·cos + (−z₂, z₁)·sin for z = (z₁, z₂), in plain PyTorch."""
    import torch

    first, second = z.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return z * torch.cat((cos, cos), dim=-1) + turned * torch.cat((sin, sin), dim=-1)


def reference(
    x: torch.Tensor, w_dq: torch.Tensor, w_uq: torch.Tensor, w_dkv: torch.Tensor,
    w_ukv: torch.Tensor, w_o: torch.Tensor, kv_cache: torch.Tensor, cos: torch.Tensor,
    sin: torch.Tensor, num_heads: int, prefill: int, config: dict[str, Any] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The same in plain PyTorch, in float32, with keys and values of every head unfolded.

    One sequence at a time, for the unfolded keys are large. kv_cache is left as it is, and a
    changed copy returned; `config` is accepted and ignored.
    """
    import torch

    nope, rope, v = head_sizes(w_uq, w_ukv, w_o, cos, num_heads)
    latent, kv_len = w_dkv.shape[0] - rope, prefill + 1
    cache = kv_cache.clone()
    cache[:, prefill] = (x[:, 0].float() @ w_dkv.float().T).to(cache.dtype)
    q = (x[:, 0].float() @ w_dq.float().T @ w_uq.float().T).unflatten(1, (num_heads, nope + rope))
    table = cos[:kv_len].float(), sin[:kv_len].float()
    q_rope = rotate_half(q[:, :, nope:], table[0][-1], table[1][-1])
    up, down = w_ukv.float(), w_o.float()
    rows = []
    for b in range(x.shape[0]):
        tokens = cache[b, :kv_len].float()
        k_rope = rotate_half(tokens[:, latent:], *table)
        unfolded = (tokens[:, :latent] @ up.T).unflatten(1, (num_heads, nope + v))
        scores = torch.einsum("hd,thd->ht", q[b, :, :nope], unfolded[:, :, :nope])
        scores = (scores + q_rope[b] @ k_rope.T) / (nope + rope) ** 0.5
        mixed = torch.einsum("ht,thd->hd", torch.softmax(scores, dim=1), unfolded[:, :, nope:])
        rows.append(mixed.flatten() @ down.T)
    return torch.stack(rows)[:, None].to(x.dtype), cache


def torch_append(kv_cache: torch.Tensor, row: int, values: torch.Tensor) -> None:
    """`append` by PyTorch's own operators."""
    kv_cache[:, row] = values


def torch_attend(
    q_latent: torch.Tensor, q_rope: torch.Tensor, kv_cache: torch.Tensor, cos: torch.Tensor,
    sin: torch.Tensor, kv_len: int, scale: float, config: dict[str, Any] | None = None,
) -> torch.Tensor:  # fmt: skip
    """`attend` by PyTorch's own operators.

    All heads share one key, so they stand where scaled_dot_product_attention has its queries.
    """
    import torch

    latent, k_rope = kv_cache[:, :kv_len].split((q_latent.shape[2], q_rope.shape[2]), dim=2)
    q_turned = rotate_half(q_rope, cos[kv_len - 1], sin[kv_len - 1])
    k_turned = rotate_half(k_rope, cos[:kv_len], sin[:kv_len])
    query, key = torch.cat((q_latent, q_turned), dim=2), torch.cat((latent, k_turned), dim=2)
    return torch.nn.functional.scaled_dot_product_attention(
        query[:, None], key[:, None], latent[:, None], scale=scale
    )[:, 0]


def torch_operator(**layer: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The absorbed layer by PyTorch's own operators; the arguments are those of `launch`."""
    return decode_step(**layer, append=torch_append, attend=torch_attend)


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference.

    `gain` scales the queries: a larger one makes the softmax more selective. `poison` fills the
    cache behind the tokens, which nobody may read.
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(6)
    dtype = getattr(torch, case["dtype"])
    dim, q_lora, latent, rope = (case[key] for key in ("dim", "q_lora", "kv_lora", "rope"))
    heads, prefill = case["H"], case["prefill"]

    def normal(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=dtype) * scale

    shape = (case["B"], case["length"], latent + rope)
    kv_cache = torch.full(shape, case.get("poison", 0.0), dtype=dtype, device=device)
    kv_cache[:, :prefill] = normal(shape[0], prefill, shape[2])
    cos, sin = rope_table(case["length"], rope, dtype, device)
    return {
        "x": normal(case["B"], 1, dim),
        "w_dq": normal(q_lora, dim, scale=dim**-0.5),
        "w_uq": normal(
            heads * (case["nope"] + rope), q_lora, scale=case.get("gain", 1.0) * q_lora**-0.5
        ),
        "w_dkv": normal(latent + rope, dim, scale=dim**-0.5),
        "w_ukv": normal(heads * (case["nope"] + case["v"]), latent, scale=latent**-0.5),
        "w_o": normal(dim, heads * case["v"], scale=(heads * case["v"]) ** -0.5),
        "kv_cache": kv_cache,
        "cos": cos,
        "sin": sin,
        "num_heads": heads,
        "prefill": prefill,
        "config": case.get("config"),
    }


_SMALL = {"dim": 64, "q_lora": 32, "kv_lora": 64, "nope": 32, "rope": 32, "v": 16, "H": 4}
_LAYER = {"dim": 7168, "q_lora": 1536, "kv_lora": 512, "nope": 128, "rope": 64, "v": 128, "H": 128}


def _shape(B: int, prefill: int, dtype: str = "float16", **more: Any) -> dict[str, Any]:
    return {**_SMALL, "B": B, "prefill": prefill, "dtype": dtype, "length": prefill + 5, **more}


_NAN = {"poison": float("nan")}
_FP16 = {"atol": 4e-3, "rtol": 4e-3}
_BF16 = {"atol": 8e-3, "rtol": 2e-2}

CASES = [
    {"name": "full_blocks", **_shape(2, 63), **_FP16},
    {"name": "ragged", **_shape(2, 70, **_NAN, gain=4.0), **_FP16},
    {"name": "empty_cache", **_shape(3, 0, **_NAN), **_FP16},
    {"name": "last_row", **_shape(1, 32, length=33), **_FP16},
    {"name": "selective", **_shape(2, 100, gain=8.0), **_FP16},
    {"name": "split", **_shape(2, 100, gain=4.0, **_NAN, config={"NUM_SPLITS": 2}), **_FP16},
    # Seven splits of 16 tokens, padded to eight in the reduction; the last holds one token.
    {
        "name": "many_splits",
        **_shape(1, 96, gain=4.0, config={"NUM_SPLITS": 32, "BLOCK_N": 16, "BLOCK_H": 16}),
        **_FP16,
    },
    # 20 heads in blocks of 16: the second block is short.
    {"name": "heads_ragged", **_shape(2, 40, H=20, config={"BLOCK_H": 16}), **_FP16},
    # Program numbers dealt out to 8 XCDs and to 3, none of which divides their number.
    {
        "name": "xcds",
        **_shape(3, 40, H=20, config={"BLOCK_H": 16, "NUM_SPLITS": 2, "NUM_XCD": 8}),
        **_FP16,
    },
    {"name": "xcds_3", **_shape(5, 20, config={"BLOCK_H": 16, "NUM_XCD": 3}), **_FP16},
    {"name": "wide_rope", **_shape(2, 50, rope=64, nope=24, v=40, gain=4.0), **_FP16},
    {"name": "bfloat16", **_shape(2, 90, "bfloat16"), **_BF16},
    {"name": "bfloat16_split", **_shape(2, 90, "bfloat16", config={"NUM_SPLITS": 3}), **_BF16},
    # The layer's own head sizes.
    {
        "name": "published_heads",
        **_shape(1, 128, "bfloat16", length=140),
        **{key: _LAYER[key] for key in ("kv_lora", "nope", "rope", "v")},
        "H": 16,
        **_BF16,
    },
]

BENCH = [
    {"name": f"128x{prefill}", **_LAYER, "B": 128, "prefill": prefill, "dtype": "bfloat16"}
    | {"length": 8192}
    for prefill in (512, 1024, 2048, 4096, 6144)
]


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """Operations, and bytes that must move at least, of a CASES or BENCH entry: the whole layer."""
    keys = ("B", "H", "dim", "q_lora", "kv_lora", "nope", "rope", "v")
    batch, heads, dim, q_lora, latent, nope, rope, v = (case[key] for key in keys)
    kv_len = case["prefill"] + 1
    weights = dim * (q_lora + latent + rope) + q_lora * heads * (nope + rope)
    weights += heads * (nope + v) * latent + heads * v * dim
    attention = heads * kv_len * (2 * latent + rope)
    elements = weights + batch * (kv_len + 1) * (latent + rope) + 2 * batch * dim
    size = 4 if case["dtype"] == "float32" else 2
    return {"flop": 2 * batch * (weights + attention), "bytes": size * elements}


TUNING = {
    "BLOCK_H": [16, 32, 64],
    "BLOCK_N": [16, 32, 64],
    "NUM_XCD": [1, 8],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2],
    "waves_per_eu": [0, 1, 2],
}


def _attention_case(
    name: str, dtype: str, archs: tuple[str, ...], **changes: int
) -> dict[str, Any]:
    tensors = ("q", "q_rope", "cache", "cos", "sin", "out")
    strides = ("qb", "qh", "rb", "rh", "cb", "cn", "ob", "os", "oh")
    given = {**CONFIGS["hip"], **changes}
    options = {key: given.pop(key) for key in ("num_warps", "num_stages")}
    return {
        "name": name,
        "kernel": "mla_attention_kernel",
        "signature": {
            **{f"{tensor}_ptr": f"*{dtype}:16" for tensor in tensors},
            "lse_ptr": "*fp32:16",
            **{f"stride_{stride}": "i32:16" for stride in strides},
            "num_heads": "i32:16",
            "kv_len": "i32",
            "split_len": "i32:16",
            "qk_scale": "fp32",
        },
        "constexprs": {"LATENT": 512, "ROPE": 64, "NUM_SPLITS": 1, **given},
        "options": options,
        "archs": list(archs),
    }


_CDNA = ("gfx90a", "gfx94*", "gfx95*")

KINSPECT_CASES = [
    _attention_case("bf16_16x32", "bf16", _CDNA),
    _attention_case("fp16_16x32", "fp16", _CDNA),
    # Twice the LDS traffic per token, but registers for two workgroups on gfx950 as well.
    _attention_case("bf16_16x16", "bf16", _CDNA, BLOCK_N=16),
    {
        "name": "append_576",
        "kernel": "cache_append_kernel",
        "signature": {
            "new_ptr": "*bf16:16",
            "cache_ptr": "*bf16:16",
            "stride_new": "i32:16",
            "stride_cb": "i32:16",
            "stride_cn": "i32:16",
            "row": "i32",
            "n_cols": "i32:16",
        },
        "constexprs": {"BLOCK": 1024},
        "options": {"num_warps": 4},
    },
    {
        "name": "reduce_8x512",
        "kernel": "mla_reduce_kernel",
        "signature": {
            "parts_ptr": "*fp32:16",
            "lse_ptr": "*fp32:16",
            "out_ptr": "*bf16:16",
            **{f"stride_{stride}": "i32:16" for stride in ("pb", "ps", "ph", "ob", "oh")},
            "num_heads": "i32:16",
            "num_splits": "i32",
        },
        "constexprs": {"LATENT": 512, "BLOCK_S": 8},
        "options": {"num_warps": 4},
    },
]
