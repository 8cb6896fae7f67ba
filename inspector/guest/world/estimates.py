"""Rough CPU time of a deferred operator, so that one that would take too long is not begun."""

from __future__ import annotations

import math

import torch

from .deferred import Call, StridedView

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


def seconds_of(call: Call) -> float:
    """Estimated seconds of one call."""
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
