"""Other operators for the same inputs, which a kernel is timed beside.

`torch` is the kernel file's own `torch_operator`. `ck` is Composable Kernel through aiter, where
aiter is importable and has an operator that takes this kernel's inputs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

_ATTENTION_INPUTS = frozenset({"q", "k", "v", "causal", "layout", "scale", "config"})


class NoOperatorError(Exception):
    """There is no operator to compare with; the message says why."""


def operator_of(name: str, module: Any, inputs: Mapping[str, Any]) -> Callable[[], Any]:
    """A call of the other operator on these inputs.

    Raises:
        NoOperatorError: there is none.
    """
    if name == "torch":
        operator = getattr(module, "torch_operator", None)
        if operator is None:
            raise NoOperatorError("torch has no operator for this kernel: nothing to compare with")
        return lambda: operator(**inputs)
    if name == "ck":
        return _operator_of_ck(inputs)
    raise NoOperatorError(f"{name!r} is nothing to compare with; there are torch and ck")


def _operator_of_ck(inputs: Mapping[str, Any]) -> Callable[[], Any]:
    try:
        aiter: Any = importlib.import_module("aiter")
    except Exception as error:  # it compiles on import, and fails in many ways without ROCm
        raise NoOperatorError(
            f"aiter is not importable ({type(error).__name__}): the comparison with CK is left out"
        ) from None
    input_names = {
        name for name, value in inputs.items() if value is not None and value is not False
    }
    if {"q", "k", "v"} <= input_names <= _ATTENTION_INPUTS and hasattr(aiter, "flash_attn_func"):
        return _attention_of_ck(aiter, inputs)
    if {"a", "b", "a_scale", "b_scale"} <= input_names and hasattr(
        aiter, "gemm_a8w8_blockscale_ck"
    ):
        return _scaled_gemm_of_ck(aiter, inputs)
    raise NoOperatorError("aiter has no CK operator for these inputs: the comparison is left out")


def _attention_of_ck(aiter: Any, inputs: Mapping[str, Any]) -> Callable[[], Any]:
    """A call of `flash_attn_func`, which takes [batch, sequence, heads, features]."""
    layout = inputs.get("layout", "bhsd")
    if layout not in ("bhsd", "bshd"):
        raise NoOperatorError(f"the comparison with CK takes no layout {layout}")
    q, k, v = (inputs[name] if layout == "bshd" else inputs[name].transpose(1, 2) for name in "qkv")
    options = {"softmax_scale": inputs.get("scale"), "causal": bool(inputs.get("causal"))}

    def call() -> Any:
        out = aiter.flash_attn_func(q, k, v, **options)
        out = out[0] if isinstance(out, (tuple, list)) else out
        return out if layout == "bshd" else out.transpose(1, 2)

    return call


def _scaled_gemm_of_ck(aiter: Any, inputs: Mapping[str, Any]) -> Callable[[], Any]:
    import torch

    a, b = inputs["a"], inputs["b"]

    def call() -> Any:
        out = torch.empty((a.shape[0], b.shape[0]), dtype=torch.bfloat16, device=a.device)
        result = aiter.gemm_a8w8_blockscale_ck(a, b, inputs["a_scale"], inputs["b_scale"], out)
        return out if result is None else result

    return call
