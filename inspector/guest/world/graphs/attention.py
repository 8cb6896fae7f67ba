"""Chooses the attention that `scaled_dot_product_attention` would use on the claimed GPU.

Torch chooses in C++, which knows of no GPU here. On ROCm flash and memory-efficient
attention are AOTriton's, built for CDNA and, unless TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL is
set, for no RDNA: https://rocm.docs.amd.com, PyTorch compatibility. Everything else is computed by
torch's own operators.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

MAX_HEAD_ELEMENTS = 256
"""Elements of a head up to which AOTriton has kernels."""
HALVES = (torch.float16, torch.bfloat16)
EXPERIMENTAL = "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL"
DISPATCH_KEYS = ("CUDA", "AutogradCUDA", "AutogradMeta")
"""Dispatch keys of fake tensors, and of AOTAutograd's wrappers of them: meta tensors to C++."""


def choose(arch: str, note: Callable[[str], None], active: Callable[[], bool]) -> Any:
    """Replaces the choice in C++ while a graph is compiled: else meta tensors are no GPU's.

    Returns:
        Torch's registration, which ends with its lifetime.
    """
    is_built = arch.startswith("gfx9") or os.environ.get(EXPERIMENTAL) == "1"

    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        aten, backends = torch.ops.aten, torch.backends.cuda
        is_active = active()
        has_kernels = is_built and is_active and not enable_gqa and _fits_heads(query, key, value)
        fits_flash = has_kernels and attn_mask is None and query.dtype in HALVES
        fits_efficient = has_kernels and query.dtype != torch.float64
        inputs = query, key, value
        if fits_flash and backends.flash_sdp_enabled():
            backend = "AOTriton's flash attention"
            results = aten._scaled_dot_product_flash_attention(
                *inputs, dropout_p, is_causal, False, scale=scale
            )
        elif fits_efficient and backends.mem_efficient_sdp_enabled():
            backend = "AOTriton's memory-efficient attention"
            bias = _bias(attn_mask, query.dtype)
            results = aten._scaled_dot_product_efficient_attention(
                *inputs, bias, query.requires_grad, dropout_p, is_causal, scale=scale
            )
        else:
            backend = "torch's own operators"
            options: dict[str, Any] = {"scale": scale, "enable_gqa": enable_gqa}
            results = aten._scaled_dot_product_attention_math(
                *inputs, attn_mask, dropout_p, is_causal, **options
            )
        if is_active:
            note(f"scaled_dot_product_attention is taken for {backend}, as torch chooses by itself")
        return results[0]

    library = torch.library.Library("aten", "IMPL")
    for key in DISPATCH_KEYS:
        library.impl("scaled_dot_product_attention", attention, key)
    return library


def _fits_heads(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether AOTriton has kernels for the shape of the heads."""
    have_same_heads = key.shape[-1] == value.shape[-1] == query.shape[-1] and query.dim() == 4
    return bool(have_same_heads and query.shape[-1] <= MAX_HEAD_ELEMENTS)


def _bias(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """A mask as a bias to add to the scores; a mask of truth values becomes zeros and -inf."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask.logical_not(), float("-inf"))
