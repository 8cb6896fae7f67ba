"""Runs one deferred operator on real CPU tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .deferred import Call, DeferredWork, KnownOperand, StridedView, map_operands

Storages = dict[DeferredWork, "list[Any]"]
"""Work -> the storages that it produced, one for each result or written argument."""


def value_of(operand: KnownOperand | StridedView, storages: Storages) -> torch.Tensor:
    """The tensor that an operand stands for; uninitialised if the call overwrites all of it.

    Raises:
        UnknownError: the operand has been overwritten since the call was deferred.
    """
    if isinstance(operand, KnownOperand):
        return operand.value()
    source = operand.source
    if source is None:
        return operand.of(torch.empty(operand.nbytes, dtype=torch.uint8).untyped_storage())
    own = source.call.storages
    return operand.of((own if own is not None else storages[source.call])[source.index])


def call_with(call: Call, tensor_for: Callable[[Any], torch.Tensor]) -> Any:
    """Calls a deferred operator and returns its results.

    Args:
        call: the operator with its arguments.
        tensor_for: returns the tensor for an operand or an `OutputMarker` among the arguments.
    """
    args = [map_operands(value, tensor_for) for value in call.args]
    kwargs = {name: map_operands(value, tensor_for) for name, value in call.kwargs.items()}
    return call.func(*args, **kwargs)


def as_predicted(result: torch.Tensor, predicted: StridedView) -> torch.Tensor:
    """A result in the memory layout that the operator's meta kernel predicted."""
    has_layout = (
        tuple(result.stride()) == predicted.stride and result.storage_offset() == predicted.offset
    )
    if has_layout and result.untyped_storage().size() == predicted.nbytes:
        return result
    storage = torch.empty(predicted.nbytes, dtype=torch.uint8).untyped_storage()
    return predicted.of(storage).copy_(result)
