"""Autocast for fake tensors of the GPU.

Torch's C++ casts what it takes for a GPU's tensor, which a fake one is not in a build for CPUs. The
operators and what becomes of them: https://docs.pytorch.org/docs/stable/amp.html, "CUDA Ops that
can autocast".
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet

from ..placement import DEVICE_TYPES

KEY = "AutocastCUDA"
LOWER = (
    *("addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "linalg_multi_dot"),
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d.input"),
    *("conv_transpose3d.input", "convolution", "linear", "matmul", "mm", "mv", "prelu"),
    *("gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell", "scaled_dot_product_attention"),
)
"""Run in the lower precision."""
FULL = (
    *("acos", "asin", "cosh", "sinh", "tan", "erfinv", "exp", "expm1", "log", "log10", "log2"),
    *("log1p", "reciprocal", "rsqrt", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar"),
    *("softplus", "layer_norm", "group_norm", "native_layer_norm", "frobenius_norm.dim"),
    *("nuclear_norm", "nuclear_norm.dim", "cosine_similarity", "poisson_nll_loss"),
    *("cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss", "kl_div"),
    *("l1_loss", "smooth_l1_loss", "huber_loss", "mse_loss", "margin_ranking_loss"),
    *("multilabel_margin_loss", "soft_margin_loss", "triplet_margin_loss", "multi_margin_loss"),
    *("binary_cross_entropy_with_logits", "dist", "pdist", "cdist", "renorm", "logsumexp"),
)
"""Run in float32."""
SUMMED = (
    *("prod", "prod.dim_int", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "sum"),
    "sum.dim_IntList",
)
"""Give float32, and are told so by their `dtype`."""
WIDEST = ("addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "grid_sampler", "scatter_add")
"""Run in the widest type of their operands."""
GPU = (*DEVICE_TYPES, "meta")
_BELOW = DispatchKeySet(getattr(DispatchKey, KEY))


class Casting:
    """Registers the casts; they last as long as this object."""

    def __init__(self) -> None:
        self._library = torch.library.Library("aten", "IMPL")
        self._enabled: bool | None = None

    def install(self) -> None:
        """Takes the place of C++'s casts of the GPU's tensors, which are no others than these."""
        functional = importlib.import_module("torch._subclasses.functional_tensor")
        # AOTAutograd wraps fake tensors once more; to C++ those are on the meta device.
        wrapper: Any = functional.FunctionalTensor
        wrapper._extra_dispatch_keys = wrapper._extra_dispatch_keys.add(getattr(DispatchKey, KEY))
        rules: Mapping[tuple[str, ...], Rule] = {
            LOWER: _lower,
            FULL: _full,
            SUMMED: _summed,
            WIDEST: _widest,
        }
        for names, rule in rules.items():
            for name in names:
                base_name, _, overload = name.partition(".")
                packet = getattr(torch.ops.aten, base_name, None)
                operator = getattr(packet, overload or "default", None)
                if operator is not None:  # of another version of torch
                    kernel = self._kernel(operator, rule)
                    self._library.impl(name, kernel, KEY, allow_override=True)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Follows what is switched on and off inside.

        Torch keeps that in the keys that it excludes, which AOTAutograd sets anew while it traces.
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
        def kernel(*args: Any, **kwargs: Any) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(_BELOW):
                if self._enabled:
                    return rule(operator, args, kwargs)
                return operator(*args, **kwargs)

        return kernel


def _eligible(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.device.type in GPU
        and value.is_floating_point()
        and value.dtype != torch.float64
    )


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, dtype) for item in value)
    return value.to(dtype) if _eligible(value) and value.dtype != dtype else value


def _run(operator: Any, args: Any, kwargs: Any, dtype: torch.dtype | None) -> Any:
    if dtype is not None:
        args = [_cast(value, dtype) for value in args]
        kwargs = {name: _cast(value, dtype) for name, value in kwargs.items()}
    return operator(*args, **kwargs)


Rule = Callable[[Any, Any, Any], Any]


def _lower(operator: Any, args: Any, kwargs: Any) -> Any:
    return _run(operator, args, kwargs, torch.get_autocast_dtype("cuda"))


def _full(operator: Any, args: Any, kwargs: Any) -> Any:
    return _run(operator, args, kwargs, torch.float32)


def _summed(operator: Any, args: Any, kwargs: Any) -> Any:
    stated = any(isinstance(value, torch.dtype) for value in args)
    if _eligible(args[0]) and not stated and kwargs.get("dtype") is None:
        kwargs = {**kwargs, "dtype": torch.float32}
        dtype_position = [argument.name for argument in operator._schema.arguments].index("dtype")
        args = args[:dtype_position]
    return _run(operator, args, kwargs, None)


def _widest(operator: Any, args: Any, kwargs: Any) -> Any:
    types = {value.dtype for value in (*args, *kwargs.values()) if _eligible(value)}
    wide = torch.float32 if torch.float32 in types else next(iter(types), None)
    return _run(operator, args, kwargs, wide)
