"""Mixture-of-experts matrix multiplication: every token times the matrices of its own experts.

Shapes and layouts
    a [M, K], the tokens; b [E, N, K], one matrix per expert; out [M, top_k, N]. topk_ids
    [M, top_k] names the experts of each token, topk_weights [M, top_k] their weights, if any. a
    and b contiguous along K; any sizes; a, out and one expert's matrix below 2³¹ elements each.
Dtypes
    mode        a              b       accumulator  scales
    plain       f16 bf16 f32   as a    float32      none
    fp8_w8a8    float8         as a    float32      a_scale, one; b_scale [E]
    int8_w8a8   int8           int8    int32        a_scale, one; b_scale [E]
    int8_w8a16  f16 bf16 f32   int8    float32      b_scale [E, N]
    The dtypes choose the mode; float8 is e4m3 or e5m2, fnuz or OCP. Scales and weights are
    float32, out is a float type: a's by default, float16 for 8-bit tokens.
Formula
    out[m, j] = w[m, j]·a_scale·b_scale[e]·(b[e] @ a[m]) with e = topk_ids[m, j]; w is 1 without
    topk_weights. int8_w8a16 has b_scale[e, n] instead, and a_scale 1.

The token slots m·top_k + j are sorted by expert and padded so that each expert's share fills whole
blocks of BLOCK_M: a program then reads the matrix of one expert only. `align` does that; it needs
nothing from the host, and may be done once for many launches.

Work: 2·M·top_k·N·K operations.

Answers to: fused_moe/moe-gemm.py of ROCm/triton's perf-kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch


# Hopper adds float8 products up in fewer bits than float32 has: after so many of K the sum moves to
# a real float32 accumulator. Without it sums over K = 4096 are off in the second digit.
HOPPER_FP8_K = tl.constexpr(32)


@triton.jit
def moe_gemm_kernel(
    a_ptr, b_ptr, out_ptr, a_scale_ptr, b_scale_ptr, topk_weights_ptr,
    sorted_slots_ptr, block_experts_ptr, num_blocks, num_slots, N, K,
    stride_am, stride_be, stride_bn, stride_om,
    TOP_K: tl.constexpr, PER_CHANNEL: tl.constexpr, EVEN_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """One program computes BLOCK_M token slots of one expert by BLOCK_N columns.

    sorted_slots_ptr [num_blocks·BLOCK_M] int32 holds the slots, num_slots standing for padding;
    block_experts_ptr [num_blocks] int32 the expert of each block, −1 for a block left over.
    a_scale_ptr, b_scale_ptr and topk_weights_ptr may be None; PER_CHANNEL says that b_scale is
    [E, N]. EVEN_K says that K is a multiple of BLOCK_K, so that no load needs a mask.
    Grid: (num_blocks·⌈N/BLOCK_N⌉,).
    """
    # Groups of GROUP_M blocks of rows, column by column inside a group: neighbours in time belong
    # to one expert as a rule, and share its columns in the L2 cache.
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    group_rows = tl.minimum(num_blocks - first_m, GROUP_M)
    block_m = first_m + pid % (GROUP_M * tiles_n) % group_rows
    block_n = pid % (GROUP_M * tiles_n) // group_rows

    expert = tl.load(block_experts_ptr + block_m)
    if expert < 0:
        return
    slots = tl.load(sorted_slots_ptr + block_m * BLOCK_M + tl.arange(0, BLOCK_M))
    is_slot = slots < num_slots
    # Padding and columns beyond the edge read something valid that is never stored.
    tokens = tl.where(is_slot, slots, 0) // TOP_K
    cols = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_n = cols % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + tokens[:, None] * stride_am + offs_k[None, :]
    b_base = b_ptr + expert.to(tl.int64) * stride_be  # all experts together may pass 2³¹ elements
    b_ptrs = b_base + offs_k[:, None] + offs_n[None, :] * stride_bn

    INTEGER: tl.constexpr = a_ptr.dtype.element_ty.is_int()
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32 if INTEGER else tl.float32)
    for k in range(0, K, BLOCK_K):
        if EVEN_K:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k, other=0.0)
            b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k, other=0.0)
        # int8 weights meet 16-bit tokens in the tokens' type, which holds every int8 exactly.
        acc = tl.dot(
            a, b.to(a.dtype), acc, input_precision="ieee", out_dtype=acc.dtype,
            max_num_imprecise_acc=HOPPER_FP8_K,
        )  # fmt: skip
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K

    out = acc.to(tl.float32)
    if PER_CHANNEL:
        out *= tl.load(b_scale_ptr + expert * N + offs_n)[None, :]
    elif b_scale_ptr is not None:
        out *= tl.load(a_scale_ptr) * tl.load(b_scale_ptr + expert)
    if topk_weights_ptr is not None:
        out *= tl.load(topk_weights_ptr + slots, mask=is_slot, other=0.0)[:, None]

    out_ptrs = out_ptr + slots[:, None] * stride_om + cols[None, :]
    tl.store(
        out_ptrs, out.to(out_ptr.dtype.element_ty), mask=is_slot[:, None] & (cols[None, :] < N)
    )


class Alignment(NamedTuple):
    """Token slots sorted by expert and padded to whole blocks, as moe_gemm_kernel wants them."""

    block: int
    sorted_slots: torch.Tensor
    block_experts: torch.Tensor


def align(topk_ids: torch.Tensor, num_experts: int, block: int) -> Alignment:
    """Sort the token slots by expert and pad the share of each expert to whole blocks.

    Args:
        topk_ids: [M, top_k], the experts of each token, each in [0, num_experts).
        num_experts: E.
        block: slots per block.

    Returns:
        sorted_slots [blocks·block] int32, M·top_k marking padding, and block_experts [blocks]
        int32, −1 for a block without slots. The number of blocks is the largest that the sizes
        allow: the number really filled is never brought to the host.
    """
    import torch

    num_slots = topk_ids.numel()
    num_blocks = (num_slots + min(num_experts, num_slots) * (block - 1)) // block
    experts, order = torch.sort(topk_ids.flatten(), stable=True)
    ids = torch.arange(num_experts + 1, device=topk_ids.device, dtype=experts.dtype)
    starts = torch.searchsorted(experts, ids)  # of each expert's share among the sorted slots
    blocks_of = (starts.diff() + block - 1) // block
    ends = blocks_of.cumsum(0)  # of each expert's blocks
    shift = (ends - blocks_of) * block - starts[:-1]
    position = torch.arange(num_slots, device=topk_ids.device) + shift[experts.long()]
    sorted_slots = order.new_full((num_blocks * block,), num_slots)
    sorted_slots.scatter_(0, position, order)
    block_ids = torch.arange(num_blocks, device=topk_ids.device)
    block_experts = torch.searchsorted(ends, block_ids, right=True)
    block_experts = torch.where(block_experts < num_experts, block_experts, -1)
    return Alignment(block, sorted_slots.int(), block_experts.int())


def default_config(backend: str, slots_per_expert: float, bits: int) -> dict[str, Any]:
    """Block sizes and launch options, by how many token slots an expert has on average.

    Args:
        backend: "hip" or "cuda".
        slots_per_expert: M·top_k/E.
        bits: width of one token element; a tile of 8-bit elements is twice as deep.
    """
    depth = {32: 0.5, 16: 1, 8: 2}[bits]
    few_slots = slots_per_expert <= 48
    if few_slots:  # bound by reading b: one block for all slots, and many loads in flight
        block_m = 16 if slots_per_expert <= 8 else 32 if slots_per_expert <= 20 else 64
        tile = (block_m, 64, int(128 * depth))
    else:
        tile = (128, 128, int(64 * depth))
    config = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
    config |= {"GROUP_M": 4 if few_slots else 8, "num_warps": 4 if few_slots else 8}
    if backend == "hip":
        options = {"num_stages": 2, "waves_per_eu": 0, "matrix_instr_nonkdim": 16, "kpack": 1}
        return {**config, **options}
    if slots_per_expert > 160 and bits < 32:
        config["BLOCK_N"] = 256
    return {**config, "num_stages": 3}


_FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


def mode_of(a: torch.Tensor, b: torch.Tensor) -> str:
    """The mode that the dtypes choose.

    Raises:
        ValueError: there is none for them.
    """
    import torch

    if a.dtype == b.dtype == torch.int8:
        return "int8_w8a8"
    if a.dtype == b.dtype and str(a.dtype).removeprefix("torch.") in _FLOAT8:
        return "fp8_w8a8"
    if a.dtype in (torch.float16, torch.bfloat16, torch.float32):
        if b.dtype == a.dtype:
            return "plain"
        if b.dtype == torch.int8:
            return "int8_w8a16"
    raise ValueError(f"there is no mode for tokens of {a.dtype} and weights of {b.dtype}")


def _check(a: Any, b: Any, topk_ids: Any, topk_weights: Any, a_scale: Any, b_scale: Any) -> str:
    """The mode, or ValueError for shapes, scales or strides that do not go together."""
    mode = mode_of(a, b)
    if a.ndim != 2 or b.ndim != 3 or a.shape[1] != b.shape[2]:
        raise ValueError(f"a {tuple(a.shape)} and b {tuple(b.shape)} are not [M, K] and [E, N, K]")
    if topk_ids.ndim != 2 or topk_ids.shape[0] != a.shape[0]:
        raise ValueError(f"topk_ids {tuple(topk_ids.shape)} must be [M, top_k], M = {a.shape[0]}")
    if topk_weights is not None and topk_weights.shape != topk_ids.shape:
        raise ValueError("topk_weights and topk_ids must have one shape")
    experts, n, k = b.shape
    expected = {"plain": None, "int8_w8a16": (experts, n)}.get(mode, (experts,))
    if (None if b_scale is None else tuple(b_scale.shape)) != expected:
        raise ValueError(f"{mode} needs b_scale of shape {expected}")
    if (a_scale is None) != (mode in ("plain", "int8_w8a16")):
        raise ValueError("a_scale goes with 8-bit tokens, and only with them")
    if k > 1 and (a.stride(1) != 1 or b.stride(2) != 1):
        raise ValueError("a and b must be contiguous along K")
    if max(a.shape[0] * k, n * k, topk_ids.numel() * n) >= 2**31:
        raise ValueError("2³¹ elements or more are beyond 32-bit offsets")
    return mode


def launch(
    a: torch.Tensor,
    b: torch.Tensor,
    topk_ids: torch.Tensor,
    topk_weights: torch.Tensor | None = None,
    a_scale: torch.Tensor | None = None,
    b_scale: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    alignment: Alignment | None = None,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """Multiply each token by the matrices of its experts.

    Args:
        a: [M, K], contiguous along K.
        b: [E, N, K], contiguous along K.
        topk_ids: [M, top_k] integers below E.
        topk_weights: [M, top_k] float32: weigh the results.
        a_scale: one float32, for 8-bit tokens.
        b_scale: float32, [E] for 8-bit tokens, [E, N] for int8 weights with 16-bit tokens.
        out_dtype: dtype of the result; by default a's, float16 for 8-bit tokens.
        alignment: what `align` gave; used if its block is BLOCK_M, else done anew.
        config: block sizes and launch options that replace the defaults.

    Returns:
        [M, top_k, N], contiguous.

    Raises:
        ValueError: shapes, dtypes or scales that do not go together.
    """
    import torch

    mode = _check(a, b, topk_ids, topk_weights, a_scale, b_scale)
    (m, k), (experts, n, _), top_k = a.shape, b.shape, topk_ids.shape[1]
    num_slots = topk_ids.numel()
    backend = "hip" if torch.version.hip else "cuda"
    options = default_config(backend, num_slots / experts, 8 * a.itemsize) | (config or {})
    if alignment is None or alignment.block != options["BLOCK_M"]:
        alignment = align(topk_ids, experts, options["BLOCK_M"])
    out_dtype = out_dtype or (a.dtype if a.itemsize > 1 else torch.float16)
    out = torch.empty((m, top_k, n), dtype=out_dtype, device=a.device)
    num_blocks = alignment.block_experts.numel()
    moe_gemm_kernel[(num_blocks * triton.cdiv(n, options["BLOCK_N"]),)](
        a, b, out, a_scale,
        None if b_scale is None else b_scale.contiguous(),
        None if topk_weights is None else topk_weights.contiguous(),
        alignment.sorted_slots, alignment.block_experts, num_blocks, num_slots, n, k,
        a.stride(0), b.stride(0), b.stride(1), out.stride(1),
        TOP_K=top_k, PER_CHANNEL=mode == "int8_w8a16", EVEN_K=k % options["BLOCK_K"] == 0,
        **options,
    )  # fmt: skip
    return out


def reference(
    a: torch.Tensor,
    b: torch.Tensor,
    topk_ids: torch.Tensor,
    topk_weights: torch.Tensor | None = None,
    a_scale: torch.Tensor | None = None,
    b_scale: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    alignment: Alignment | None = None,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """The same in plain PyTorch and float64: every token times every expert, then the choice.

    `alignment` and `config` are accepted and ignored.
    """
    import torch

    out = torch.zeros((*topk_ids.shape, b.shape[1]), dtype=torch.float64, device=a.device)
    for expert in range(b.shape[0]):
        product = a.double() @ b[expert].double().T
        if b_scale is not None:
            product *= b_scale[expert]
        for j in range(topk_ids.shape[1]):
            out[:, j] += torch.where(topk_ids[:, j, None] == expert, product, 0.0)
    if a_scale is not None:
        out *= a_scale
    if topk_weights is not None:
        out *= topk_weights[:, :, None]
    return out.to(out_dtype or (a.dtype if a.itemsize > 1 else torch.float16))


def torch_operator(
    a: torch.Tensor,
    b: torch.Tensor,
    topk_ids: torch.Tensor,
    topk_weights: torch.Tensor | None = None,
    a_scale: torch.Tensor | None = None,
    b_scale: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    alignment: Alignment | None = None,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """One torch.matmul per expert over the tokens that chose it; int8 weights are widened first.

    Raises:
        NotImplementedError: torch multiplies no 8-bit tokens in this way.
    """
    import torch

    if a.itemsize == 1:
        raise NotImplementedError("torch has no operator for experts with 8-bit tokens")
    flat = topk_ids.flatten()
    out = torch.empty((flat.numel(), b.shape[1]), dtype=out_dtype or a.dtype, device=a.device)
    for expert in range(b.shape[0]):
        slots = (flat == expert).nonzero().flatten()
        product = a[slots // topk_ids.shape[1]] @ b[expert].to(a.dtype).T
        if b_scale is not None:
            product = product * b_scale[expert]
        if topk_weights is not None:
            product = product * topk_weights.flatten()[slots, None]
        out[slots] = product.to(out.dtype)
    return out.view(*topk_ids.shape, -1)


def _fp8_of_the_device(kind: str) -> str:
    """e4m3 or e5m2 in the flavour that the chip multiplies: fnuz on CDNA3, OCP elsewhere."""
    import torch

    on_amd = torch.version.hip and torch.cuda.is_available()
    if on_amd and torch.cuda.get_device_properties(0).gcnArchName.startswith("gfx94"):
        return f"float8_{kind}fnuz"
    return {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}[kind]


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference.

    `dtype` is that of the 16- or 32-bit side, `fp8` a float8 dtype, or "e4m3" or "e5m2" for the
    device's own flavour. `skewed` sends every token to the last top_k experts.
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(20)
    m, n, k, experts, top_k = (case[key] for key in ("M", "N", "K", "E", "top_k"))
    mode = case.get("mode", "plain")
    dtype = getattr(torch, case.get("dtype", "float16"))
    wide = {"generator": generator, "device": device, "dtype": dtype}

    def eight_bits(*shape: int) -> torch.Tensor:
        if mode.startswith("int8"):
            return torch.randint(
                -127, 128, shape, generator=generator, device=device, dtype=torch.int8
            )
        name = case.get("fp8", "e4m3")
        name = name if name.startswith("float8") else _fp8_of_the_device(name)
        return torch.randn(shape, **wide).to(getattr(torch, name))

    def scales(size: float, *shape: int) -> torch.Tensor:
        return size * (0.5 + torch.rand(shape, generator=generator, device=device))

    a = eight_bits(m, k) if mode.endswith("a8") else torch.randn((m, k), **wide)
    b = torch.randn((experts, n, k), **wide) if mode == "plain" else eight_bits(experts, n, k)
    probs = torch.rand((m, experts), generator=generator, device=device)
    if case.get("skewed"):
        probs = probs.sort(dim=1).values
    topk_weights, topk_ids = torch.topk(probs, top_k, dim=1)
    inputs: dict[str, Any] = {
        "a": a,
        "b": b,
        "topk_ids": topk_ids.int(),
        "topk_weights": topk_weights if case.get("routed_weight") else None,
        "config": case.get("config"),
    }
    # Sizes that bring the products to the order of √K, as those of the plain mode are.
    if mode == "int8_w8a16":
        inputs["b_scale"] = scales(0.01, experts, n)
    elif mode != "plain":
        inputs["a_scale"] = scales(0.02 if mode == "int8_w8a8" else 1.0, 1)
        inputs["b_scale"] = scales(0.01 if mode == "int8_w8a8" else 1.0, experts)
        if mode == "fp8_w8a8" and k > 1000:  # an error of Hopper's float8 sums goes with √K
            inputs["b_scale"] *= k**-0.5
        if dtype != torch.float16:
            inputs["out_dtype"] = dtype
    backend = "hip" if torch.version.hip else "cuda"
    options = default_config(backend, m * top_k / experts, 8 * a.itemsize) | (
        case.get("config") or {}
    )
    inputs["alignment"] = align(inputs["topk_ids"], experts, options["BLOCK_M"])
    return inputs


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """Operations, and the least bytes that must move, of a CASES or BENCH entry.

    All of b is counted, as if every expert were chosen, unless there are fewer slots than experts.
    """
    m, n, k, experts, top_k = (case[key] for key in ("M", "N", "K", "E", "top_k"))
    mode = case.get("mode", "plain")
    wide = 4 if case.get("dtype") == "float32" else 2
    a_size = 1 if mode.endswith("a8") else wide
    b_size = wide if mode == "plain" else 1
    slots = m * top_k
    moved = m * k * a_size + min(experts, slots) * n * k * b_size + slots * n * wide
    return {"flop": 2 * slots * n * k, "bytes": moved}


def _shape(M: int, N: int, K: int, E: int = 8, top_k: int = 2, **more: Any) -> dict[str, Any]:
    return {"M": M, "N": N, "K": K, "E": E, "top_k": top_k, **more}


_FP16 = {"atol": 5e-3, "rtol": 2e-3}
_BF16 = {"dtype": "bfloat16", "atol": 1e-2, "rtol": 1e-2}
_FP32 = {"dtype": "float32", "atol": 1e-4, "rtol": 1e-5}
_W8A8 = {"mode": "int8_w8a8"}
_W8A16 = {"mode": "int8_w8a16"}
_FP8 = {"mode": "fp8_w8a8"}

CASES = [
    {"name": "fp16", **_shape(48, 64, 128, E=4), **_FP16},
    {"name": "fp16_weighted", **_shape(40, 64, 64, E=4, routed_weight=True), **_FP16},
    {"name": "fp16_ragged", **_shape(37, 93, 71, E=5, top_k=3, routed_weight=True), **_FP16},
    {"name": "fp16_one_token", **_shape(1, 70, 128, E=4), **_FP16},
    {"name": "fp16_one_expert", **_shape(16, 64, 128, E=1, top_k=1), **_FP16},
    {"name": "fp16_one_feature", **_shape(16, 64, 1, E=4), **_FP16},
    {"name": "fp16_one_column", **_shape(16, 1, 64, E=4), **_FP16},
    # Six of eight experts without a token: most blocks are left over.
    {"name": "fp16_skewed", **_shape(50, 40, 64, skewed=True, routed_weight=True), **_FP16},
    {"name": "fp16_all_experts", **_shape(20, 32, 64, E=4, top_k=4), **_FP16},
    {
        "name": "fp16_grouped_tiles",  # eight rows of blocks in groups of three: the last is short
        **_shape(60, 96, 64, E=3, config={"BLOCK_M": 16, "BLOCK_N": 16, "GROUP_M": 3}),
        **_FP16,
    },
    {
        "name": "fp16_large_blocks",
        **_shape(150, 80, 96, E=3, routed_weight=True),
        "config": {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64},
        **_FP16,
    },
    {"name": "bf16", **_shape(33, 64, 96, E=4, routed_weight=True), **_BF16},
    {"name": "fp32", **_shape(33, 64, 50, E=4, routed_weight=True), **_FP32},
    *(
        {
            "name": f"fp8_w8a8_{kind.removeprefix('float8_')}",
            **_shape(32, n, k, E=4, routed_weight=weighted),
            **_FP8,
            "fp8": kind,
            **({"needs": "fnuz"} if kind.endswith("fnuz") else {}),
            **_FP16,
        }
        for kind, n, k, weighted in (
            ("float8_e4m3fnuz", 64, 128, False),
            ("float8_e5m2fnuz", 70, 100, True),
            ("float8_e4m3fn", 70, 100, True),
            ("float8_e5m2", 64, 128, False),
        )
    ),
    {"name": "int8_w8a8", **_shape(32, 64, 128, E=4), **_W8A8, **_FP16},
    {"name": "int8_w8a8_ragged", **_shape(37, 93, 71, routed_weight=True), **_W8A8, **_FP16},
    {
        # Rounded nowhere but in the scales: every digit of the int32 sum counts.
        "name": "int8_w8a8_to_fp32",
        **_shape(16, 32, 4096, E=2),
        **_W8A8,
        "dtype": "float32",
        "atol": 1e-6,
        "rtol": 1e-6,
    },
    {"name": "int8_w8a16", **_shape(32, 64, 128, E=4), **_W8A16, **_FP16},
    {"name": "int8_w8a16_ragged", **_shape(37, 93, 71, routed_weight=True), **_W8A16, **_FP16},
    {"name": "int8_w8a16_bf16", **_shape(16, 64, 64, E=4), **_W8A16, **_BF16},
]

_SHAPES = [
    (64, 256, 128),
    (64, 1792, 1024),
    *((m, 7168, 4096) for m in (64, 128, 1024, 4096)),
    *((m, 14336, 4096) for m in (64, 128, 256, 512, 1024, 2048, 4096)),
]

BENCH = [
    *({"name": f"{m}x{n}x{k}", **_shape(m, n, k)} for m, n, k in _SHAPES),
    *(
        {"name": f"{m}x{n}x{k}-{mode}", **_shape(m, n, k), "mode": mode}
        for mode in ("fp8_w8a8", "int8_w8a8", "int8_w8a16")
        for m, n, k in _SHAPES
    ),
]

TUNING = {
    "BLOCK_M": [16, 32, 64, 128, 256],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64, 128, 256],
    "GROUP_M": [1, 4, 8],
    "num_warps": [4, 8],
    "num_stages": [1, 2],
    "waves_per_eu": [0, 2],
    "matrix_instr_nonkdim": [16, 32],
    "kpack": [1, 2],
}


def _compile_case(
    name: str,
    a: str,
    b: str,
    archs: tuple[str, ...],
    *,
    out: str = "fp16",
    slots_per_expert: int = 1024,
    weighted: bool = False,
    even_k: bool = True,
    **replaced: int,
) -> dict[str, Any]:
    """The default of `launch` on AMD for that many slots, but for what `replaced` replaces."""
    bits = {"fp16": 16, "bf16": 16, "fp32": 32}.get(a, 8)
    config = default_config("hip", slots_per_expert, bits) | replaced
    tiles = {key: config.pop(key) for key in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M")}
    pointers = {"a_ptr": a, "b_ptr": b, "out_ptr": out}
    if bits == 8:
        pointers["a_scale_ptr"] = "fp32"
    if b != a or bits == 8:
        pointers["b_scale_ptr"] = "fp32"
    if weighted:
        pointers["topk_weights_ptr"] = "fp32"
    absent = {"a_scale_ptr", "b_scale_ptr", "topk_weights_ptr"} - set(pointers)
    pointers |= {"sorted_slots_ptr": "i32", "block_experts_ptr": "i32"}
    return {
        "name": name,
        "kernel": "moe_gemm_kernel",
        "signature": {
            **{pointer: f"*{dtype}:16" for pointer, dtype in pointers.items()},
            "num_blocks": "i32",
            "num_slots": "i32:16",
            "N": "i32:16",
            "K": "i32:16" if even_k else "i32",
            **dict.fromkeys(("stride_am", "stride_be", "stride_bn", "stride_om"), "i32:16"),
        },
        "constexprs": {
            **dict.fromkeys(sorted(absent)),
            "TOP_K": 2,
            "PER_CHANNEL": b == "i8" and a != "i8",
            "EVEN_K": even_k,
            **tiles,
        },
        "options": config,
        "archs": list(archs),
    }


_CDNA = ("gfx90a", "gfx94*", "gfx95*")
_RDNA = ("gfx11*", "gfx12*")
# RDNA's wave of 32 lanes has one matrix instruction, 16x16, and no AGPRs: smaller tiles.
_WAVE32: dict[str, Any] = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
_WAVE32 |= {"num_warps": 4, "matrix_instr_nonkdim": 0}

KINSPECT_CASES = [
    _compile_case("fp16_128x128x64", "fp16", "fp16", _CDNA),
    _compile_case("bf16_weighted_128x128x64", "bf16", "bf16", _CDNA, out="bf16", weighted=True),
    _compile_case("fp16_few_tokens_32x64x128", "fp16", "fp16", _CDNA, slots_per_expert=16),
    _compile_case("fp16_some_tokens_64x64x128", "fp16", "fp16", _CDNA, slots_per_expert=32),
    # The public script's own choice for many tokens.
    _compile_case("fp16_256x256x64", "fp16", "fp16", ("gfx94*",), BLOCK_M=256, BLOCK_N=256),
    _compile_case("fp16_ragged_k_128x128x64", "fp16", "fp16", ("gfx94*",), even_k=False),
    _compile_case("fp32_128x128x32", "fp32", "fp32", _CDNA, out="fp32"),
    _compile_case("int8_w8a8_128x128x128", "i8", "i8", _CDNA),
    _compile_case("int8_w8a16_128x128x64", "fp16", "i8", _CDNA),
    _compile_case("e4m3fnuz_w8a8_128x128x128", "fp8e4b8", "fp8e4b8", ("gfx94*",)),
    _compile_case("e5m2fnuz_w8a8_128x128x128", "fp8e5b16", "fp8e5b16", ("gfx94*",)),
    _compile_case("e4m3_w8a8_128x128x128", "fp8e4nv", "fp8e4nv", ("gfx95*",)),
    _compile_case("e5m2_w8a8_128x128x128", "fp8e5", "fp8e5", ("gfx95*",)),
    _compile_case("fp16_wave32_64x64x32", "fp16", "fp16", _RDNA, **_WAVE32),
    _compile_case("bf16_wave32_64x64x32", "bf16", "bf16", _RDNA, out="bf16", **_WAVE32),
    _compile_case("int8_w8a8_wave32_64x64x32", "i8", "i8", _RDNA, **_WAVE32),
    _compile_case("int8_w8a16_wave32_64x64x32", "fp16", "i8", _RDNA, **_WAVE32),
    _compile_case("e4m3_w8a8_wave32_64x64x32", "fp8e4nv", "fp8e4nv", ("gfx12*",), **_WAVE32),
]
