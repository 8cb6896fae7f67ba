"""Half-precision operators as a GPU's libraries compute them: in float32, rounded once.

PyTorch's CPU kernels add some of them up in half precision: as a script's reference they would be
less exact than the kernel under test.
"""

from __future__ import annotations

from typing import Any

import torch

from .operator_plans import Invocation
from .payloads import map_tensors

HALVES = (torch.float16, torch.bfloat16)
SUMMING = frozenset(
    (
        *("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "matmul"),
        *("linear", "convolution", "sum", "mean", "var", "var_mean", "std", "std_mean", "norm"),
        *("linalg_vector_norm", "prod", "cumsum", "logcumsumexp", "logsumexp", "nansum"),
        *("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data"),
        *("native_layer_norm", "native_layer_norm_backward", "native_group_norm"),
        *("native_group_norm_backward", "native_batch_norm", "native_batch_norm_backward"),
        *("_fused_rms_norm", "_fused_rms_norm_backward", "nll_loss_forward", "mse_loss"),
        *("embedding_dense_backward", "index_add", "scatter_add", "gelu", "gelu_backward"),
        *("silu", "silu_backward", "convolution_backward"),
    )
)
"""Operators that sum up, or whose CPU kernels keep intermediate results in half precision."""
STATISTICS = frozenset(("native_layer_norm", "native_group_norm", "_fused_rms_norm"))
"""Operators whose results, except for the first, are float32 on a GPU."""


def applies(operation: Invocation) -> bool:
    """Whether an operator on these arguments is to be computed in float32."""
    return operation.plan.name in SUMMING and _half(operation) is not None


def computed(operation: Invocation) -> Any:
    """An operator's results, computed in float32 and rounded.

    Args:
        operation: the operator on CPU tensors.
    """
    func, name, kwargs = operation.func, operation.plan.name, operation.kwargs
    kind = _half(operation)
    wide = [map_tensors(value, _widened) for value in operation.args]
    named = {key: map_tensors(value, _widened) for key, value in kwargs.items() if key != "dtype"}
    stays_wide = "float32" in str(kwargs.get("dtype"))
    if name in ("_softmax", "_log_softmax") and len(wide) > 2 and wide[2] is True:
        wide[2], stays_wide = False, True  # half_to_float
    results = func(*wide, **named)
    if stays_wide:
        return results
    if isinstance(results, torch.Tensor):
        return _narrowed(results, kwargs.get("dtype") or kind)
    half_count = 1 if name in STATISTICS else len(results)
    return tuple(
        _narrowed(result, kind)
        if index < half_count and isinstance(result, torch.Tensor)
        else result
        for index, result in enumerate(results)
    )


def _half(operation: Invocation) -> torch.dtype | None:
    """The half-precision type among the arguments' tensors; None without one."""
    for value in (*operation.args, *operation.kwargs.values()):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor) and item.dtype in HALVES:
                return item.dtype
    return None


def _widened(value: Any) -> Any:
    halved = isinstance(value, torch.Tensor) and value.dtype in HALVES
    return value.float() if halved else value


def _narrowed(result: torch.Tensor, kind: Any) -> torch.Tensor:
    return result.to(kind) if result.dtype == torch.float32 else result
