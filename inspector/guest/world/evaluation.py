"""Runs one deferred operator on real CPU tensors, and estimates how long that takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .contents import DeferredWork, KnownOperand, StridedView
from .deferred import Call, map_operands

# Throughput of one CPU core, to an order of magnitude.
ELEMENTS_PER_SECOND, RANDOM_PER_SECOND, PRODUCTS_PER_SECOND = 5e8, 1e8, 5e9

CONVOLUTIONS = frozenset(("convolution", "_convolution"))
ATTENTION = frozenset(("scaled_dot_product_attention", "_scaled_dot_product_attention_math"))
PRODUCTS = frozenset(
    (
        *("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "linear", "matmul", "_int_mm"),
        *("_scaled_mm", *CONVOLUTIONS, *ATTENTION),
    )
)

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


def seconds_of(call: Call) -> float:
    """Estimated CPU seconds of one call, so that one that would take too long is not begun."""
    if call.plan.name in PRODUCTS and call.results:
        return call.results[0].count * _products_per_element(call) / PRODUCTS_PER_SECOND
    tensors = (*call.operands, *call.targets, *call.results)
    counts = [
        operand.count if isinstance(operand, StridedView) else operand.tensor.numel()
        for operand in tensors
    ]
    is_random = torch.Tag.nondeterministic_seeded in call.func.tags
    return max(counts, default=0) / (RANDOM_PER_SECOND if is_random else ELEMENTS_PER_SECOND)


def _products_per_element(call: Call) -> float:
    """Multiplications for each element of the result."""
    sizes = [
        operand.size if isinstance(operand, StridedView) else tuple(operand.tensor.shape)
        for operand in call.operands
    ]
    if len(sizes) > 1 and call.plan.name in CONVOLUTIONS:
        return math.prod(sizes[1][1:])  # the filter: channels times window
    if len(sizes) > 1 and call.plan.name in ATTENTION:
        return 2.0 * sizes[1][-2]  # Q times K, then times V, over the length of the keys
    return max((size[-1] for size in sizes if len(size) > 1), default=1)
