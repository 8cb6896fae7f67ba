"""Operators on CPU tensors: as a GPU's libraries compute them, or filled in where a CPU cannot."""

from __future__ import annotations

import math
from typing import Any

import torch

from . import tensors
from .operators import Invocation, map_tensors

UNSUPPORTED = (
    *("not implemented for", "Could not run", "not supported", "only supports", "unsupported"),
    *("expected scalar type", "not compiled"),
)
"""Parts of torch's messages about an operator that a CPU cannot compute for the given types."""
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


def computed(operation: Invocation) -> Any:
    """An operator's results.

    Where all kernels are executed, half precision is summed in float32 and rounded once, as GPUs'
    libraries do: else a script's reference would be less exact than the kernel under test.
    """
    if not tensors.ALL_CONTENTS or operation.plan.name not in SUMMING:
        return operation.run()
    half = _half(operation)
    return operation.run() if half is None else _in_float32(operation, half)


def _in_float32(operation: Invocation, half: torch.dtype) -> Any:
    func, name, kwargs = operation.func, operation.plan.name, operation.kwargs
    wide = [map_tensors(value, _widened) for value in operation.args]
    named = {key: map_tensors(value, _widened) for key, value in kwargs.items() if key != "dtype"}
    stays_wide = "float32" in str(kwargs.get("dtype"))
    if name in ("_softmax", "_log_softmax") and len(wide) > 2 and wide[2] is True:
        wide[2], stays_wide = False, True  # half_to_float
    results = func(*wide, **named)
    if stays_wide:
        return results
    if isinstance(results, torch.Tensor):
        return _narrowed(results, kwargs.get("dtype") or half)
    half_count = 1 if name in STATISTICS else len(results)
    narrow = [map_tensors(result, lambda t: _narrowed(t, half)) for result in results[:half_count]]
    return (*narrow, *results[half_count:])


def _half(operation: Invocation) -> torch.dtype | None:
    """The half-precision type among the arguments' tensors; None without one."""
    for value in (*operation.args, *operation.kwargs.values()):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor) and item.dtype in HALVES:
                return item.dtype
    return None


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in HALVES else tensor


def _narrowed(result: torch.Tensor, kind: Any) -> torch.Tensor:
    return result.to(kind) if result.dtype == torch.float32 else result


def filled(shape: torch.Tensor) -> torch.Tensor:
    """A CPU tensor of a meta tensor's shape: of ones for floats, which divide; else of zeros."""
    return _filled(shape, 1 if shape.dtype.is_floating_point else 0)


def unwritten(shape: torch.Tensor) -> torch.Tensor:
    """A CPU tensor of a meta tensor's shape, for memory that nobody has written.

    Where values are real it holds what no right result has: NaN, or the largest integer.
    """
    dtype = shape.dtype
    if not tensors.VALUES_ARE_REAL or not shape.numel():
        return filled(shape)
    if dtype.is_floating_point or dtype.is_complex:
        return _filled(shape, math.nan)
    try:
        return _filled(shape, True if dtype == torch.bool else torch.iinfo(dtype).max)
    except TypeError:  # packed and quantised types
        return filled(shape)


def _filled(shape: torch.Tensor, value: Any) -> torch.Tensor:
    contents = torch.empty_strided(shape.size(), shape.stride(), dtype=shape.dtype, device="cpu")
    try:
        return contents.fill_(value)
    except (NotImplementedError, RuntimeError):  # a type that has no fill: its bits stay arbitrary
        return contents


def is_unsupported(error: Exception) -> bool:
    """Whether the error says that the CPU lacks this operator, not that it was misused."""
    if isinstance(error, NotImplementedError):
        return True
    text = str(error)
    return any(phrase in text for phrase in UNSUPPORTED)
