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


class Attention:
    """Registers the choice with torch, for the lifetime of this object.

    Args:
        active: returns whether a graph is being compiled; otherwise meta tensors are not a GPU's.
    """

    def __init__(self, arch: str, note: Callable[[str], None], active: Callable[[], bool]) -> None:
        self._is_built = arch.startswith("gfx9") or os.environ.get(EXPERIMENTAL) == "1"
        self._note = note
        self._active = active
        self._library = torch.library.Library("aten", "IMPL")

    def install(self) -> None:
        """Replaces the choice in C++."""
        for key in DISPATCH_KEYS:
            self._library.impl("scaled_dot_product_attention", self._attention, key)

    def _attention(
        self,
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
        """Implements `scaled_dot_product_attention`; see torch's documentation of the arguments."""
        aten = torch.ops.aten
        has_kernels = (
            self._is_built and self._active() and not enable_gqa and _fits_heads(query, key, value)
        )
        backends = torch.backends.cuda
        fits_flash = has_kernels and attn_mask is None and query.dtype in HALVES
        if fits_flash and backends.flash_sdp_enabled():
            self._note_backend("AOTriton's flash attention")
            return aten._scaled_dot_product_flash_attention(
                query, key, value, dropout_p, is_causal, False, scale=scale
            )[0]
        if has_kernels and backends.mem_efficient_sdp_enabled() and query.dtype != torch.float64:
            self._note_backend("AOTriton's memory-efficient attention")
            bias = _bias(attn_mask, query.dtype)
            return aten._scaled_dot_product_efficient_attention(
                query, key, value, bias, query.requires_grad, dropout_p, is_causal, scale=scale
            )[0]
        self._note_backend("torch's own operators")
        options = {"scale": scale, "enable_gqa": enable_gqa}
        return aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, **options
        )[0]

    def _note_backend(self, backend: str) -> None:
        if self._active():
            self._note(
                f"scaled_dot_product_attention is taken for {backend}, as torch chooses by itself"
            )


def _fits_heads(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether AOTriton has kernels for the shape of the heads."""
    have_same_heads = key.shape[-1] == value.shape[-1] == query.shape[-1] and query.dim() == 4
    return bool(have_same_heads and query.shape[-1] <= MAX_HEAD_ELEMENTS)


def _bias(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """A mask as a bias to add to the scores; a mask of truth values becomes zeros and -inf."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask.logical_not(), float("-inf"))
