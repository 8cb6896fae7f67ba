"""Chooses the attention that `scaled_dot_product_attention` would use on the claimed GPU.

Torch chooses in C++, which knows of no GPU here. On ROCm flash and memory-efficient
attention are AOTriton's, built for CDNA and, unless TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL is
set, for no RDNA: https://rocm.docs.amd.com, PyTorch compatibility. Everything else is computed by
torch's own operators.

Autocast for fake tensors of the GPU.

Torch's C++ casts the tensors of a GPU, to which a fake one does not belong in a build for CPUs.
Operators and their rules: https://docs.pytorch.org/docs/stable/amp.html, "CUDA Ops that can
autocast".
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet

from ..tensors import DEVICE_TYPES

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


KEY = "AutocastCUDA"
LOWER_PRECISION = (
    *("addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "linalg_multi_dot"),
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d.input"),
    *("conv_transpose3d.input", "convolution", "linear", "matmul", "mm", "mv", "prelu"),
    *("gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell", "scaled_dot_product_attention"),
)
"""Operators that run in the lower precision."""
FLOAT32 = (
    *("acos", "asin", "cosh", "sinh", "tan", "erfinv", "exp", "expm1", "log", "log10", "log2"),
    *("log1p", "reciprocal", "rsqrt", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar"),
    *("softplus", "layer_norm", "group_norm", "native_layer_norm", "frobenius_norm.dim"),
    *("nuclear_norm", "nuclear_norm.dim", "cosine_similarity", "poisson_nll_loss"),
    *("cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss", "kl_div"),
    *("l1_loss", "smooth_l1_loss", "huber_loss", "mse_loss", "margin_ranking_loss"),
    *("multilabel_margin_loss", "soft_margin_loss", "triplet_margin_loss", "multi_margin_loss"),
    *("binary_cross_entropy_with_logits", "dist", "pdist", "cdist", "renorm", "logsumexp"),
)
"""Operators that run in float32."""
FLOAT32_RESULT = (
    *("prod", "prod.dim_int", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "sum"),
    "sum.dim_IntList",
)
"""Operators that return float32, by their argument `dtype`."""
PROMOTED = (
    *("addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "grid_sampler"),
    "scatter_add",
)
"""Operators that run in the widest type of their operands."""
GPU_TYPES = (*DEVICE_TYPES, "meta")
_BELOW = DispatchKeySet(getattr(DispatchKey, KEY))


class GraphAutocast:
    """Registers the casts with torch, for the lifetime of this object."""

    def __init__(self) -> None:
        self._library = torch.library.Library("aten", "IMPL")
        self._enabled: bool | None = None

    def install(self) -> None:
        """Replaces C++'s casts of the GPU's tensors: the fake ones are all that there are."""
        functional = importlib.import_module("torch._subclasses.functional_tensor")
        # AOTAutograd wraps fake tensors once more; to C++ those are on the meta device.
        wrapper: Any = functional.FunctionalTensor
        wrapper._extra_dispatch_keys = wrapper._extra_dispatch_keys.add(getattr(DispatchKey, KEY))
        rules: Mapping[tuple[str, ...], Rule] = {
            LOWER_PRECISION: _lower_precision,
            FLOAT32: _float32,
            FLOAT32_RESULT: _float32_result,
            PROMOTED: _promoted,
        }
        for names, rule in rules.items():
            for name in names:
                base_name, _, overload = name.partition(".")
                packet = getattr(torch.ops.aten, base_name, None)
                operator = getattr(packet, overload or "default", None)
                if operator is not None:  # else it belongs to another version of torch
                    kernel = self._kernel(operator, rule)
                    self._library.impl(name, kernel, KEY, allow_override=True)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Follows the switching of autocast inside.

        Torch stores the state as excluded dispatch keys, which AOTAutograd resets while it traces.
        """
        set_enabled, was_enabled = torch.set_autocast_enabled, self._enabled

        @functools.wraps(set_enabled)
        def switched(*args: Any) -> None:
            set_enabled(*args)
            if len(args) == 1 or args[0] in DEVICE_TYPES:
                self._enabled = bool(args[-1])

        self._enabled = torch.is_autocast_enabled("cuda") if was_enabled is None else was_enabled
        torch.set_autocast_enabled = switched
        try:
            yield
        finally:
            torch.set_autocast_enabled = set_enabled
            self._enabled = was_enabled

    def _kernel(self, operator: Any, rule: Rule) -> Callable[..., Any]:
        """An operator that follows a rule while autocast is on."""

        def kernel(*args: Any, **kwargs: Any) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(_BELOW):
                if self._enabled:
                    args, kwargs = rule(operator, args, kwargs)
                return operator(*args, **kwargs)

        return kernel


def _is_castable(value: Any) -> bool:
    """Whether autocast casts a value: a tensor of the GPU with floats of at most 32 bits."""
    return (
        isinstance(value, torch.Tensor)
        and value.device.type in GPU_TYPES
        and value.is_floating_point()
        and value.dtype != torch.float64
    )


def _cast(value: Any, dtype: torch.dtype) -> Any:
    """An argument, or all of them, with the castable tensors in type `dtype`."""
    if isinstance(value, dict):
        return {name: _cast(item, dtype) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, dtype) for item in value)
    return value.to(dtype) if _is_castable(value) and value.dtype != dtype else value


Rule = Callable[[Any, Any, Any], "tuple[Any, Any]"]
"""The arguments as autocast would cast them: (operator, args, kwargs)."""


def _lower_precision(operator: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    dtype = torch.get_autocast_dtype("cuda")
    return _cast(args, dtype), _cast(kwargs, dtype)


def _float32(operator: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    return _cast(args, torch.float32), _cast(kwargs, torch.float32)


def _float32_result(operator: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    stated = any(isinstance(value, torch.dtype) for value in args)
    if _is_castable(args[0]) and not stated and kwargs.get("dtype") is None:
        kwargs = {**kwargs, "dtype": torch.float32}
        dtype_position = [argument.name for argument in operator._schema.arguments].index("dtype")
        args = args[:dtype_position]
    return args, kwargs


def _promoted(operator: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    types = {value.dtype for value in (*args, *kwargs.values()) if _is_castable(value)}
    if not types:
        return args, kwargs
    wide = torch.float32 if torch.float32 in types else next(iter(types))
    return _cast(args, wide), _cast(kwargs, wide)
