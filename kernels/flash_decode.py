"""Flash decoding: attention of a few queries over a long KV cache, split along the keys; int4 KV.

Shapes and layouts
    q [B, Mq, G, H, D]: Mq queries, and G groups of H = Hq/G heads.
    k and v [B, Mkv, G, H, D]. Multi-query and grouped-query attention store one head of keys per
    group: give it as it is, [B, Mkv, G, 1, D], or expanded to H heads (stride 0).
    out [B, Mq, G, H, D]. The last axis is contiguous, the other strides are free.
Dtypes
    float16 or bfloat16 in and out; k and v may be int4, packed in int32. Softmax, accumulators and
    the parts of a split are float32.
int4 rows
    `groups` (1, 2, 4 or 8) int32, then D/8 int32. The i-th of the first holds two float16: the
    scale in its low half, the shift in its high half; they belong to the i-th stretch of D/groups
    values. The second hold the values, eight in each: value j in the bits 4j … 4j + 3.
    x = value·scale + shift.
Formula
    out = softmax(scale·q·kᵀ) @ v, with scale = 1/√D by default; no causal mask.
    Split-K: program s of a head attends to one stretch of the keys and leaves acc_s, m_s and l_s,
    the sum of p·v and of p with p = exp2(score − m_s). A second kernel adds the parts up:
    out = Σ acc_s·exp2(m_s − m) / Σ l_s·exp2(m_s − m) with m = max m_s.

Mq and Mkv are any numbers, D is a power of two from 16 to 256. The heads that share a key are rows
of one tile, so that every key is loaded once.

Work: 4·B·Hq·Mq·Mkv·D FLOP, but what counts is the bytes of k and v.

The int4 form is an example for reading IR: K passes through LDS twice. Its words are read along a
row but unpacked with one row per lane, a transposition (`transposed` in load_k_int4). The unpacked
values, four times as many bytes, are then in a blocked layout, and must go through LDS to that of
the dot's operand: two bytes at a time, since a lane holds one row (the end of load_k_int4). V
passes once, as words, which are unpacked in the dot's layout.

Answers to: 06-attention-decode of ROCm/triton's perf-kernels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

# exp(x) = exp2(x·log2 e): the hardware has exp2, so log2 e is folded into the softmax scale once.
LOG2E = 1.4426950408889634
PER_WORD = tl.constexpr(8)  # int4 values in an int32


@triton.jit
def half_float(bits):
    """The float16 whose bits are the low half of an int32."""
    return (bits & 0xFFFF).to(tl.uint16).to(tl.float16, bitcast=True)


@triton.jit
def nibble(words, place):
    """The int4 value at bits 4·place … 4·place + 3 of an int32, as float16.

    0x6400 is the float16 1024, whose last bit counts ones: or-ing a value in adds it. That and a
    subtraction, both exact, take fewer instructions than a conversion.
    """
    return half_float(((words >> 4 * place) & 0xF) | 0x6400) - 1024.0


@triton.jit
def load_keys(ptrs, keys, seqlen_k, EVEN_N: tl.constexpr):
    """Load a tile of k or v; keys beyond the end read as 0, and are checked only where needed."""
    if EVEN_N:
        return tl.load(ptrs)
    else:
        return tl.load(ptrs, mask=keys < seqlen_k, other=0)


@triton.jit
def load_k_int4(
    base, keys, stride_n, seqlen_k,
    HEAD_DIM: tl.constexpr, GROUPS: tl.constexpr, EVEN_N: tl.constexpr,
):  # fmt: skip
    """Load and unpack the rows `keys` of an int4 k, transposed: [HEAD_DIM, BLOCK_N] float16."""
    BLOCK_N: tl.constexpr = keys.shape[0]
    keys = keys[None, :]
    rows = base + keys * stride_n
    scales = load_keys(rows + tl.arange(0, GROUPS)[:, None], keys, seqlen_k, EVEN_N)
    offs_w = GROUPS + tl.arange(0, HEAD_DIM // PER_WORD)
    words = load_keys(rows + offs_w[:, None], keys, seqlen_k, EVEN_N)
    # Lanes that lay along a row to read it now lie across the rows: the first pass through LDS.
    transposed = words[:, None, :]
    x = nibble(transposed, tl.arange(0, PER_WORD)[None, :, None])
    x = tl.reshape(x, (GROUPS, HEAD_DIM // GROUPS, BLOCK_N))
    x = x * half_float(scales)[:, None, :] + half_float(scales >> 16)[:, None, :]
    # One row per lane is not how a matrix instruction takes its operand: the second pass.
    return tl.reshape(x, (HEAD_DIM, BLOCK_N))


@triton.jit
def load_v_int4(
    base, keys, stride_n, seqlen_k,
    HEAD_DIM: tl.constexpr, GROUPS: tl.constexpr, EVEN_N: tl.constexpr,
):  # fmt: skip
    """Load and unpack the rows `keys` of an int4 v, as they lie: [BLOCK_N, HEAD_DIM] float16."""
    BLOCK_N: tl.constexpr = keys.shape[0]
    keys = keys[:, None]
    rows = base + keys * stride_n
    scales = load_keys(rows + tl.arange(0, GROUPS)[None, :], keys, seqlen_k, EVEN_N)
    offs_w = GROUPS + tl.arange(0, HEAD_DIM // PER_WORD)
    words = load_keys(rows + offs_w[None, :], keys, seqlen_k, EVEN_N)
    x = nibble(words[:, :, None], tl.arange(0, PER_WORD)[None, None, :])
    x = tl.reshape(x, (BLOCK_N, GROUPS, HEAD_DIM // GROUPS))
    x = x * half_float(scales)[:, :, None] + half_float(scales >> 16)[:, :, None]
    return tl.reshape(x, (BLOCK_N, HEAD_DIM))


@triton.jit
def split_kernel(
    q_ptr, k_ptr, v_ptr, acc_ptr, m_ptr, l_ptr,
    stride_qb, stride_qm, stride_qg, stride_qh,
    stride_kb, stride_kn, stride_kg, stride_kh,
    stride_vb, stride_vn, stride_vg, stride_vh,
    groups, heads_k, heads_per_k, num_rows, seqlen_k, split_len, qk_scale,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr,
    INT4_GROUPS: tl.constexpr, ALIGN: tl.constexpr, EVEN_N: tl.constexpr,
):  # fmt: skip
    """One program: the rows that share one head of keys, over one stretch of the keys.

    A row is a query of one of the heads_per_k heads: num_rows = Mq·heads_per_k of them.
    Parts: acc [B·groups·heads_k, splits, num_rows, HEAD_DIM], m and l without the last axis.
    INT4_GROUPS: scales per int4 row, 0 if k and v are not int4. ALIGN: the strides of k and v count
    this many elements, so that the compiler knows how the rows are aligned.
    EVEN_N says that seqlen_k is a multiple of BLOCK_N, so that no load of keys needs a mask.
    Grid: (B·groups·heads_k, splits, ⌈num_rows/BLOCK_M⌉).
    """
    pid = tl.program_id(0)
    split = tl.program_id(1)
    head_k = (pid % heads_k).to(tl.int64)
    group = (pid // heads_k % groups).to(tl.int64)
    batch = (pid // heads_k // groups).to(tl.int64)
    # The start of a cache may lie beyond 2³¹ elements; inside of it 32 bits are enough.
    k_base = k_ptr + (batch * stride_kb + group * stride_kg + head_k * stride_kh) * ALIGN
    v_base = v_ptr + (batch * stride_vb + group * stride_vg + head_k * stride_vh) * ALIGN

    rows = tl.program_id(2) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, HEAD_DIM)
    row_exists = rows < num_rows
    query = rows // heads_per_k
    head = rows % heads_per_k + head_k.to(tl.int32) * heads_per_k
    q_base = q_ptr + batch * stride_qb + group * stride_qg
    q_ptrs = q_base + (query * stride_qm + head * stride_qh)[:, None] + offs_d[None, :]
    q = tl.load(q_ptrs, mask=row_exists[:, None], other=0.0)

    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    m_i = tl.full([BLOCK_M], float("-inf"), dtype=tl.float32)
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    # The stretches are whole blocks, and only the last may end early: each holds a key at least, so
    # that m_i is finite after its first block.
    start = split * split_len
    end = tl.minimum(start + split_len, seqlen_k)
    for start_n in range(start, end, BLOCK_N):
        keys = start_n + tl.arange(0, BLOCK_N)
        if INT4_GROUPS:
            k = load_k_int4(
                k_base, keys, stride_kn * ALIGN, seqlen_k, HEAD_DIM, INT4_GROUPS, EVEN_N
            ).to(q.dtype)
            v = load_v_int4(
                v_base, keys, stride_vn * ALIGN, seqlen_k, HEAD_DIM, INT4_GROUPS, EVEN_N
            ).to(q.dtype)
        else:
            # K is read transposed, [HEAD_DIM, BLOCK_N]; V as it lies, [BLOCK_N, HEAD_DIM].
            k_ptrs = k_base + keys[None, :] * (stride_kn * ALIGN) + offs_d[:, None]
            v_ptrs = v_base + keys[:, None] * (stride_vn * ALIGN) + offs_d[None, :]
            k = load_keys(k_ptrs, keys[None, :], seqlen_k, EVEN_N)
            v = load_keys(v_ptrs, keys[:, None], seqlen_k, EVEN_N)
        qk = tl.dot(q, k)
        if not EVEN_N:
            qk = tl.where(keys[None, :] < seqlen_k, qk, float("-inf"))
        # The scale is positive, so it may wait for the exponent, where it costs one FMA.
        m_new = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
        p = tl.exp2(qk * qk_scale - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m_i = m_new

    part = (pid.to(tl.int64) * tl.num_programs(1) + split) * num_rows + rows
    tl.store(acc_ptr + part[:, None] * HEAD_DIM + offs_d[None, :], acc, mask=row_exists[:, None])
    tl.store(m_ptr + part, m_i, mask=row_exists)
    tl.store(l_ptr + part, l_i, mask=row_exists)


@triton.jit
def reduce_kernel(
    acc_ptr, m_ptr, l_ptr, out_ptr,
    stride_ob, stride_om, stride_og, stride_oh,
    groups, heads_k, heads_per_k, num_rows, splits,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Add up the parts of one row, BLOCK_D columns of it.

    Grid: (B·groups·heads_k, num_rows, HEAD_DIM/BLOCK_D).
    """
    pid = tl.program_id(0)
    row = tl.program_id(1)
    offs_d = tl.program_id(2) * BLOCK_D + tl.arange(0, BLOCK_D)
    first = pid.to(tl.int64) * splits * num_rows + row

    m_i = tl.full([BLOCK_S], float("-inf"), dtype=tl.float32)
    for start in range(0, splits, BLOCK_S):
        s = start + tl.arange(0, BLOCK_S)
        m = tl.load(m_ptr + first + s * num_rows, mask=s < splits, other=float("-inf"))
        m_i = tl.maximum(m_i, m)
    m_max = tl.max(m_i, 0)

    acc = tl.zeros([BLOCK_S, BLOCK_D], dtype=tl.float32)
    l_i = tl.zeros([BLOCK_S], dtype=tl.float32)
    for start in range(0, splits, BLOCK_S):
        s = start + tl.arange(0, BLOCK_S)
        part = first + s * num_rows
        m = tl.load(m_ptr + part, mask=s < splits, other=float("-inf"))
        weight = tl.exp2(m - m_max)
        l_i += tl.load(l_ptr + part, mask=s < splits, other=0.0) * weight
        acc_ptrs = acc_ptr + part[:, None] * HEAD_DIM + offs_d[None, :]
        acc += tl.load(acc_ptrs, mask=s[:, None] < splits, other=0.0) * weight[:, None]
    out = tl.sum(acc, 0) / tl.sum(l_i, 0)

    batch = (pid // heads_k // groups).to(tl.int64)
    group = pid // heads_k % groups
    head = pid % heads_k * heads_per_k + row % heads_per_k
    query = row // heads_per_k
    out_base = out_ptr + batch * stride_ob + query * stride_om
    out_ptrs = out_base + group * stride_og + head * stride_oh + offs_d
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty))


def default_config(backend: str, *, int4: bool = False) -> dict[str, Any]:
    """Block sizes and launch options for a backend ("hip" or "cuda")."""
    if backend == "cuda":
        return {"BLOCK_M": 16, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3}
    # One wave unpacks all of an int4 tile: 64 keys need more registers than there are.
    tile = {"BLOCK_M": 16, "BLOCK_N": 32 if int4 else 64}
    return {**tile, "num_warps": 1, "num_stages": 1, "waves_per_eu": 0}


def choose_split_k(batch: int, groups: int, heads_k: int, seqlen_k: int) -> int:
    """Stretches to split the keys into: enough programs to fill a GPU, none below 64 keys."""
    split_k = max(seqlen_k, 1024) // max(batch * heads_k, 1)
    while split_k > 0 and seqlen_k / split_k < 64:
        split_k //= 2
    while batch * heads_k * groups * split_k >= 1024:
        split_k //= 2
    return max(1, min(split_k, 512))


def quantise(x: torch.Tensor, groups: int) -> torch.Tensor:
    """Pack the rows of x [..., D] to int4 as the module's docstring says: [..., groups + D/8]."""
    import torch

    stretches = x.float().unflatten(-1, (groups, -1))
    low, high = stretches.amin(-1, keepdim=True), stretches.amax(-1, keepdim=True)
    scale, shift = ((high - low) / 15).half(), low.half()
    step = torch.where(scale > 0, scale.float(), 1.0)
    values = ((stretches - shift.float()) / step).round().clamp(0, 15).to(torch.int32)
    bits = torch.arange(0, 32, 4, dtype=torch.int32, device=x.device)
    words = (values.flatten(-2).unflatten(-1, (-1, 8)) << bits).sum(-1, dtype=torch.int32)
    scales = torch.cat((scale, shift), -1).contiguous().view(torch.int32)
    return torch.cat((scales.flatten(-2), words), -1)


def unpack(x: torch.Tensor, dim: int) -> torch.Tensor:
    """The float32 rows [..., dim] of an int4 tensor."""
    import torch

    groups = x.shape[-1] - dim // 8
    pairs = x[..., :groups].contiguous().view(torch.float16).float().unflatten(-1, (groups, 2))
    values = torch.stack([x[..., groups:] >> 4 * j & 15 for j in range(8)], -1).flatten(-2)
    stretches = values.float().unflatten(-1, (groups, dim // groups))
    return (stretches * pairs[..., :1] + pairs[..., 1:]).flatten(-2)


def check_kv(name: str, x: torch.Tensor, q: torch.Tensor) -> int:
    """The int4 groups of k or v, 0 for floats; ValueError if it does not go with q."""
    import torch

    batch, _, groups, heads, dim = q.shape
    int4_groups = x.shape[-1] - dim // 8 if x.dtype == torch.int32 else 0
    width_fits = int4_groups in (1, 2, 4, 8) if x.dtype == torch.int32 else x.shape[-1] == dim
    if x.ndim != 5 or x.shape[0] != batch or x.shape[2] != groups or not width_fits:
        raise ValueError(f"{name} {tuple(x.shape)} {x.dtype} does not go with q {tuple(q.shape)}")
    if x.shape[3] not in (1, heads) or x.shape[1] == 0:
        raise ValueError(f"{name} has {x.shape[3]} heads for {heads} and {x.shape[1]} keys")
    if dim < 8 * int4_groups:
        raise ValueError(f"{int4_groups} groups of {dim} int4 values are shorter than a word")
    if int4_groups == 0 and x.dtype != q.dtype:
        raise ValueError(f"{name} is {x.dtype}, q {q.dtype}")
    if x.stride(4) != 1:
        raise ValueError(f"the last axis of {name} must be contiguous")
    return int4_groups


def launch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    split_k: int | None = None,
    quantise_groups: int | None = None,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """Run both kernels.

    Args:
        q: [B, Mq, G, H, D], last axis contiguous.
        k: [B, Mkv, G, 1 or H, D], last axis contiguous; int4: int32, groups + D/8 instead of D.
        v: like k.
        scale: positive factor on the scores, 1/√D by default.
        split_k: stretches of the keys; by default choose_split_k's.
        quantise_groups: pack k and v to int4 with that many groups per row first.
        config: block sizes and launch options that replace those of default_config.

    Returns:
        The attention [B, Mq, G, H, D], like q.

    Raises:
        ValueError: shapes, dtypes, strides or options that do not go together.
    """
    import torch

    if quantise_groups is not None:
        k, v = quantise(k, quantise_groups), quantise(v, quantise_groups)
    batch, queries, groups, heads, dim = q.shape
    if dim not in (16, 32, 64, 128, 256):
        raise ValueError(f"head dimension {dim} is no power of two from 16 to 256")
    int4_groups = check_kv("k", k, q)
    if check_kv("v", v, q) != int4_groups or k.shape[:4] != v.shape[:4]:
        raise ValueError(f"k {tuple(k.shape)} and v {tuple(v.shape)} disagree")
    if q.stride(4) != 1:
        raise ValueError("the last axis of q must be contiguous")
    scale = dim**-0.5 if scale is None else scale
    if not scale > 0 or (split_k is not None and split_k < 1):
        raise ValueError(f"scale {scale} and split_k {split_k} must be positive")

    backend = "hip" if torch.version.hip else "cuda"
    options = {**default_config(backend, int4=int4_groups > 0), **(config or {})}
    # An expanded head of keys is one head: its queries become rows of one tile.
    if k.stride(3) == 0 and v.stride(3) == 0:
        k, v = k[:, :, :, :1], v[:, :, :, :1]
    seqlen_k, heads_k = k.shape[1], k.shape[3]
    heads_per_k = heads // heads_k
    num_rows = queries * heads_per_k
    programs = batch * groups * heads_k
    splits = split_k or choose_split_k(batch, groups, heads_k, seqlen_k)
    block_n = options["BLOCK_N"]
    split_len = triton.cdiv(triton.cdiv(seqlen_k, splits), block_n) * block_n
    splits = min(splits, triton.cdiv(seqlen_k, split_len))

    strides = [*k.stride()[:4], *v.stride()[:4]]
    # int4 rows are 17 to 40 words long at D = 128 or 256, and their values start after `groups`
    # words: what these have in common with four words decides how wide a load may be. (The launch
    # itself knows of multiples of 16 only, which is enough for floats.)
    align = math.gcd(4, int4_groups, *strides) if int4_groups else 1
    acc = torch.empty((programs, splits, num_rows, dim), dtype=torch.float32, device=q.device)
    peaks, sums = torch.empty((2, programs, splits, num_rows), dtype=torch.float32, device=q.device)
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    sizes = (groups, heads_k, heads_per_k, num_rows)
    split_kernel[(programs, splits, triton.cdiv(num_rows, options["BLOCK_M"]))](
        q, k, v, acc, peaks, sums,
        *q.stride()[:4], *(stride // align for stride in strides),
        *sizes, seqlen_k, split_len, LOG2E * scale,
        HEAD_DIM=dim, INT4_GROUPS=int4_groups, ALIGN=align, EVEN_N=seqlen_k % block_n == 0,
        **options,
    )  # fmt: skip
    block_d = min(dim, 32)
    reduce_kernel[(programs, num_rows, dim // block_d)](
        acc, peaks, sums, out, *out.stride()[:4], *sizes, splits,
        HEAD_DIM=dim, BLOCK_D=block_d, BLOCK_S=32, num_warps=4,
    )  # fmt: skip
    return out


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    split_k: int | None = None,
    quantise_groups: int | None = None,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """The same attention in plain PyTorch, in float32, of what int4 rows stand for.

    `quantise_groups` is ignored here: the comparison then shows what int4 costs. So are `split_k`
    and `config`, which leave the result as it is.
    """
    import torch

    dim = q.shape[4]
    k, v = (unpack(x, dim) if x.dtype == torch.int32 else x.float() for x in (k, v))
    k, v = (x.expand(*x.shape[:3], q.shape[3], dim) for x in (k, v))
    scores = torch.einsum("bmghd,bnghd->bghmn", q.float(), k)
    p = torch.softmax(scores * (dim**-0.5 if scale is None else scale), dim=-1)
    return torch.einsum("bghmn,bnghd->bmghd", p, v).to(q.dtype)


def torch_operator(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    split_k: int | None = None,
    quantise_groups: int | None = None,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """PyTorch's fused attention; it knows no int4, which is unpacked in front of it."""
    import torch

    heads, dim = q.shape[3:]
    k, v = (unpack(x, dim).to(q.dtype) if x.dtype == torch.int32 else x for x in (k, v))
    if k.stride(3) == 0 and v.stride(3) == 0:
        k, v = k[:, :, :, :1], v[:, :, :, :1]
    out = torch.nn.functional.scaled_dot_product_attention(
        *(x.flatten(2, 3).transpose(1, 2) for x in (q, k, v)),
        scale=scale,
        enable_gqa=k.shape[3] != heads,
    )
    return out.transpose(1, 2).unflatten(2, (-1, heads))


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference.

    `kv_heads`: "one" head of keys per group, the same "expanded", or "own" ones of every head.
    `int4`: groups of packed rows; without it, k and v are floats. `gap`: unused elements per row.
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(8)
    batch, groups, heads, dim = case["B"], case["G"], case["H"], case["D"]
    dtype = getattr(torch, case.get("dtype", "float16"))
    kv_heads = case.get("kv_heads", "expanded")

    def normal(length: int, heads: int) -> torch.Tensor:
        shape = (batch, length, groups, heads, dim + case.get("gap", 0))
        return torch.randn(shape, generator=generator, device=device)[..., :dim].mul(0.5).to(dtype)

    def cache() -> torch.Tensor:
        x = normal(case["Mkv"], heads if kv_heads == "own" else 1)
        x = quantise(x, case["int4"]) if "int4" in case else x
        return x.expand(-1, -1, -1, heads, -1) if kv_heads == "expanded" else x

    options = ("scale", "split_k", "quantise_groups", "config")
    return {
        "q": normal(case["Mq"], heads),
        "k": cache(),
        "v": cache(),
        **{name: case.get(name) for name in options},
    }


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """FLOP of a case, and the least bytes that it moves: q, k, v and out once, no parts."""
    head_dims = case["B"] * case["G"] * case["D"]
    queries = case["Mq"] * case["H"] * head_dims
    kv_heads = case["H"] if case.get("kv_heads") == "own" else 1
    rows = 2 * case["B"] * case["G"] * case["Mkv"] * kv_heads
    row_bytes = 4 * (case["int4"] + case["D"] // 8) if "int4" in case else 2 * case["D"]
    return {"flop": 4 * queries * case["Mkv"], "bytes": 2 * 2 * queries + rows * row_bytes}


def _shape(B: int, Mq: int, Mkv: int, G: int, H: int, D: int, **more: Any) -> dict[str, Any]:
    return {"B": B, "Mq": Mq, "Mkv": Mkv, "G": G, "H": H, "D": D, **more}


_TOLERANCE = {"atol": 1e-3, "rtol": 0.0}

CASES = [
    {"name": "one_query", **_shape(1, 1, 256, 1, 8, 64), **_TOLERANCE},
    {"name": "ragged", **_shape(2, 1, 203, 2, 3, 32), **_TOLERANCE},
    {"name": "one_key", **_shape(2, 1, 1, 1, 3, 32), **_TOLERANCE},
    {"name": "block_and_a_key", **_shape(1, 1, 65, 1, 4, 64), **_TOLERANCE},
    {"name": "one_head_given", **_shape(1, 1, 128, 2, 4, 64, kv_heads="one"), **_TOLERANCE},
    {"name": "own_heads", **_shape(1, 2, 130, 2, 3, 32, kv_heads="own"), **_TOLERANCE},
    # 3 queries of 7 heads: 21 rows, of which the second tile holds five.
    {"name": "many_rows", **_shape(1, 3, 100, 1, 7, 32, split_k=1), **_TOLERANCE},
    {"name": "strided_rows", **_shape(2, 2, 100, 2, 2, 32, gap=8), **_TOLERANCE},
    {"name": "head_dim_16", **_shape(1, 1, 100, 1, 16, 16), **_TOLERANCE},
    {"name": "head_dim_256", **_shape(1, 1, 100, 1, 2, 256), **_TOLERANCE},
    {"name": "scale", **_shape(1, 1, 150, 1, 4, 32, scale=0.7), **_TOLERANCE},
    # 5 blocks for 4 programs: three take two blocks each, and the fourth is not needed.
    {"name": "uneven_split", **_shape(1, 1, 300, 1, 4, 32, split_k=4), **_TOLERANCE},
    # More parts than the reduction adds up at a time.
    {"name": "long_split", **_shape(1, 1, 2210, 1, 4, 16, split_k=64), **_TOLERANCE},
    {
        "name": "small_tiles",
        **_shape(1, 1, 100, 1, 20, 16, config={"BLOCK_M": 32, "BLOCK_N": 32}),
        **_TOLERANCE,
    },
    {"name": "bfloat16", **_shape(1, 1, 300, 1, 4, 32, dtype="bfloat16"), **_TOLERANCE},
    *(
        {"name": f"int4_groups_{n}", **_shape(1, 1, 150, 1, 3, 64, int4=n), **_TOLERANCE}
        for n in (1, 2, 4, 8)
    ),
    {"name": "int4_even", **_shape(2, 1, 128, 1, 2, 128, int4=4, split_k=1), **_TOLERANCE},
    {"name": "int4_one_key", **_shape(1, 1, 1, 1, 4, 32, int4=1), **_TOLERANCE},
    {"name": "int4_own_heads", **_shape(1, 2, 70, 2, 1, 32, int4=2, kv_heads="own"), **_TOLERANCE},
    {"name": "int4_bfloat16", **_shape(1, 1, 70, 1, 4, 32, int4=1, dtype="bfloat16"), **_TOLERANCE},
    {  # int4 against what it was made of
        "name": "int4_rounding",
        **_shape(1, 1, 512, 1, 2, 64, quantise_groups=4, split_k=2),
        "atol": 2.1e-2,
        "rtol": 0.0,
    },
]

_BENCH_SHAPES = [(max(1, 2 ** (16 - i)), 2**i) for i in range(8, 18)]

BENCH = [
    *(
        {"name": f"{b}x{n}_hkv{g}", **_shape(b, 1, n, g, 16 // g, 128)}
        for g in (1, 2)
        for b, n in _BENCH_SHAPES
    ),
    *(
        {"name": f"{b}x{n}_int4_groups{n4}", **_shape(b, 1, n, 1, 16, 128, int4=n4)}
        for n4 in (1, 4)
        for b, n in _BENCH_SHAPES[::3]
    ),
]

TUNING = {
    "BLOCK_M": [16],
    "BLOCK_N": [16, 32, 64, 128],
    "num_warps": [1, 2, 4],
    "num_stages": [1, 2],
    "waves_per_eu": [0, 1, 2, 3],
}


def _split_case(
    name: str,
    archs: tuple[str, ...] = ("gfx9*",),
    *,
    int4_groups: int = 0,
    even_n: bool = True,
    head_dim: int = 128,
    dtype: str = "fp16",
    **config: int,
) -> dict[str, Any]:
    """int4 rows count ALIGN words: as many as groups and row length have in common with four."""
    kv, stride, align = (f"*{dtype}:16", "i32:16", 1)
    if int4_groups:
        kv, stride, align = "*i32:16", "i32", math.gcd(4, int4_groups)
    options = {**default_config("hip", int4=int4_groups > 0), **config}
    tile = {key: options.pop(key) for key in ("BLOCK_M", "BLOCK_N")}
    return {
        "name": name,
        "kernel": "split_kernel",
        "signature": {
            "q_ptr": f"*{dtype}:16",
            "k_ptr": kv,
            "v_ptr": kv,
            "acc_ptr": "*fp32:16",
            "m_ptr": "*fp32:16",
            "l_ptr": "*fp32:16",
            **{f"stride_q{axis}": "i32:16" for axis in "bmgh"},
            **{f"stride_{t}{axis}": stride for t in "kv" for axis in "bngh"},
            "groups": "i32",
            "heads_k": "i32",
            "heads_per_k": "i32",
            "num_rows": "i32",
            "seqlen_k": "i32:16" if even_n else "i32",
            "split_len": "i32:16",
            "qk_scale": "fp32",
        },
        "constexprs": {
            **tile,
            "HEAD_DIM": head_dim,
            "INT4_GROUPS": int4_groups,
            "ALIGN": align,
            "EVEN_N": even_n,
        },
        "options": options,
        "archs": list(archs),
    }


_RDNA = ("gfx11*", "gfx12*")

KINSPECT_CASES = [
    _split_case("fp16"),
    _split_case("bf16_ragged", dtype="bf16", even_n=False),
    # K goes through LDS twice: look for `transposed` and for the last line of load_k_int4.
    _split_case("int4_groups_1", int4_groups=1),
    _split_case("int4_groups_4", int4_groups=4),
    _split_case("int4_groups_8_ragged", ("gfx94*",), int4_groups=8, even_n=False),
    _split_case("int4_groups_4_64_keys", ("gfx94*",), int4_groups=4, BLOCK_N=64),
    _split_case("fp16_wave32", _RDNA, num_warps=4),
    _split_case("int4_groups_4_wave32", _RDNA, int4_groups=4, num_warps=4),
    {
        "name": "reduce",
        "kernel": "reduce_kernel",
        "signature": {
            **dict.fromkeys(("acc_ptr", "m_ptr", "l_ptr"), "*fp32:16"),
            "out_ptr": "*fp16:16",
            **{f"stride_o{axis}": "i32:16" for axis in "bmgh"},
            **dict.fromkeys(("groups", "heads_k", "heads_per_k", "num_rows", "splits"), "i32"),
        },
        "constexprs": {"HEAD_DIM": 128, "BLOCK_D": 32, "BLOCK_S": 32},
        "options": {"num_warps": 4},
        "archs": ["gfx9*", *_RDNA],
    },
]
