"""Which attention `scaled_dot_product_attention` comes to on the claimed GPU.

Torch decides that in C++ by the device, which is none there. On ROCm flash and memory-efficient
attention are AOTriton's, built for CDNA and, unless TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL is
set, for no RDNA: https://rocm.docs.amd.com, PyTorch compatibility. Everything else is computed by
torch's own operators.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

MOST_HEAD = 256
"""Elements of a head that AOTriton's kernels take."""
HALVES = (torch.float16, torch.bfloat16)
EXPERIMENTAL = "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL"
KEYS = ("CUDA", "AutogradCUDA", "AutogradMeta")
"""Of fake tensors, and of what AOTAutograd wraps them in, which C++ takes for meta tensors."""


class Attention:
    """Registers the choice; it lasts as long as this object.

    Args:
        arch: gfx name of the GPU.
        note: takes what was chosen.
        active: whether a graph is being compiled; else meta tensors are what they are.
    """

    def __init__(self, arch: str, note: Callable[[str], None], active: Callable[[], bool]) -> None:
        self._built = arch.startswith("gfx9") or os.environ.get(EXPERIMENTAL) == "1"
        self._note = note
        self._active = active
        self._library = torch.library.Library("aten", "IMPL")

    def install(self) -> None:
        """Takes the place of the choice in C++."""
        for key in KEYS:
            self._library.impl("scaled_dot_product_attention", self._chosen, key)

    def _chosen(
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
        aten = torch.ops.aten
        alike = key.shape[-1] == value.shape[-1] == query.shape[-1] and query.dim() == 4
        built = (
            self._built
            and self._active()
            and alike
            and query.shape[-1] <= MOST_HEAD
            and not enable_gqa
        )
        backends = torch.backends.cuda
        if built and attn_mask is None and query.dtype in HALVES and backends.flash_sdp_enabled():
            self._say("AOTriton's flash attention")
            return aten._scaled_dot_product_flash_attention(
                query, key, value, dropout_p, is_causal, False, scale=scale
            )[0]
        if built and backends.mem_efficient_sdp_enabled() and query.dtype != torch.float64:
            self._say("AOTriton's memory-efficient attention")
            if attn_mask is not None and attn_mask.dtype == torch.bool:
                zeros = torch.zeros_like(attn_mask, dtype=query.dtype)
                attn_mask = zeros.masked_fill(attn_mask.logical_not(), float("-inf"))
            return aten._scaled_dot_product_efficient_attention(
                query, key, value, attn_mask, query.requires_grad, dropout_p, is_causal, scale=scale
            )[0]
        self._say("torch's own operators")
        return aten._scaled_dot_product_attention_math(
            query,
            key,
            value,
            attn_mask,
            dropout_p,
            is_causal,
            scale=scale,
            enable_gqa=enable_gqa,
        )[0]

    def _say(self, backend: str) -> None:
        if self._active():
            self._note(
                f"scaled_dot_product_attention is taken for {backend}, as torch chooses by itself"
            )
