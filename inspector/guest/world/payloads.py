"""The tensors in operators' arguments and results: their payloads, shapes and assumed truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from . import tensors as device_tensors
from .operator_plans import Invocation, OperatorPlan, Truth
from .tensors import DeviceTensor

UNSUPPORTED = (
    "not implemented for",
    "Could not run",
    "not supported",
    "only supports",
    "unsupported",
    "expected scalar type",
    "not compiled",
)
"""Parts of torch's messages about an operator that a CPU cannot compute for the given types."""


def map_arguments(operation: Invocation, change: Callable[[torch.Tensor], Any]) -> Invocation:
    """Applies `change` to the tensors among a call's arguments, lists of tensors included."""
    return operation.with_arguments(
        tuple([map_tensors(value, change) for value in operation.args]),
        {name: map_tensors(value, change) for name, value in operation.kwargs.items()},
    )


def map_tensors(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """Applies `change` to a tensor, or to the tensors in a list, tuple or dict."""
    if isinstance(value, torch.Tensor):
        return change(value)
    kind = type(value)
    if kind is list:
        return [map_tensors(inner, change) for inner in value]
    if isinstance(value, tuple):
        changed = [map_tensors(inner, change) for inner in value]
        return tuple(changed) if kind is tuple else _rebuilt(kind, changed)
    if kind is dict:
        return {key: map_tensors(inner, change) for key, inner in value.items()}
    return value


def _rebuilt(kind: type, values: list[Any]) -> Any:
    """A tuple of class `kind` with these values."""
    if kind is torch.Size:
        return torch.Size(values)
    # Named tuples take their fields one by one, torch's return types take one sequence.
    return kind(*values) if hasattr(kind, "_fields") else kind(values)


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in a value, lists and tuples searched."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from tensors(inner)


def payload(tensor: torch.Tensor) -> torch.Tensor:
    """The payload of a device tensor; any other tensor itself."""
    return tensor._payload if isinstance(tensor, DeviceTensor) else tensor


def shape_alone(tensor: torch.Tensor) -> torch.Tensor:
    """A meta tensor of the same shape, strides and type."""
    if tensor.is_meta:
        return tensor
    if tensor.layout != torch.strided:
        return tensor.to("meta")
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")


def filled(shape: torch.Tensor) -> torch.Tensor:
    """A CPU tensor of a meta tensor's shape: of ones for floats, which divide; else of zeros."""
    contents = torch.empty_strided(shape.size(), shape.stride(), dtype=shape.dtype, device="cpu")
    try:
        return contents.fill_(1) if shape.dtype.is_floating_point else contents.zero_()
    except (NotImplementedError, RuntimeError):  # a type that has no fill: its bits stay arbitrary
        return contents


def unwritten(shape: torch.Tensor) -> torch.Tensor:
    """A CPU tensor of a meta tensor's shape, for memory that nobody has written.

    Where values are real it holds what no right result has: NaN, or the largest integer.
    """
    contents = filled(shape)
    if not device_tensors.VALUES_ARE_REAL or not contents.numel():
        return contents
    dtype = contents.dtype
    try:
        if dtype.is_floating_point or dtype.is_complex:
            return contents.fill_(math.nan)
        return contents.fill_(True if dtype == torch.bool else torch.iinfo(dtype).max)
    except (NotImplementedError, RuntimeError, TypeError):  # e.g. packed and quantised types
        return contents


def is_surely_small(operation: Invocation) -> bool:
    """Whether a result is small for certain; False where only its shape can tell."""
    if operation.plan.takes_sizes:
        return False
    if operation.plan.pointwise:
        return _broadcast_size(operation.args) <= device_tensors.FLOAT_LIMIT
    bound = 1
    for tensor in tensors(operation.args):
        bound *= max(1, tensor.numel())
        if bound > device_tensors.FLOAT_LIMIT:
            return False
    return True


def _broadcast_size(args: Sequence[Any]) -> int:
    """Elements of the arguments' broadcast shape."""
    extents: list[int] = []
    size = 1
    for tensor in tensors(args):
        shape = tensor.shape
        missing = len(shape) - len(extents)
        if missing > 0:
            extents = [1] * missing + extents
        for i, extent in enumerate(reversed(shape), 1):
            if extents[-i] == 1:
                extents[-i] = extent
    for extent in extents:
        size *= extent
    return size


def is_unsupported(error: Exception) -> bool:
    """Whether the error says that the CPU lacks this operator, not that it was misused."""
    if isinstance(error, NotImplementedError):
        return True
    text = str(error)
    return any(phrase in text for phrase in UNSUPPORTED)


def first_line(error: Exception) -> str:
    """An error's first line, shortened."""
    return (str(error).splitlines() or [type(error).__name__])[0][:160]


def first_shape(value: Any) -> str:
    """The shape of the first tensor in a value, in words."""
    tensor = next(tensors(value), None)
    return "?" if tensor is None else "x".join(map(str, tensor.shape)) or "1"


def truth_of(plan: OperatorPlan, operands: Sequence[DeviceTensor]) -> bool | None:
    """The assumed value of an operator's unknown result (see `Truth`); None without one."""
    if plan.truth is Truth.NONE:
        return None
    if plan.truth in (Truth.AGREE, Truth.DISAGREE):
        if any(t.dtype.is_floating_point for t in operands):
            return plan.truth is Truth.AGREE
        return None
    truth = next((t._memory.truth for t in operands if t._memory.truth is not None), None)
    return (not truth) if plan.truth is Truth.INVERT and truth is not None else truth
