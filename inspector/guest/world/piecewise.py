"""Deferred operators computed piece by piece: reductions whose operand need not fit into memory.

A chain of elementwise operators that ends in a reduction to one element is computed for
`PIECE_ELEMENTS` elements at a time. It begins with generators: operators whose elements do not
depend on one another (`zeros`, `rand`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from .contents import KnownOperand, OutputMarker, StridedView
from .deferred import Call
from .evaluation import Storages, as_predicted, call_with, value_of
from .operator_plans import LIKE, OVERWRITING

PIECE_ELEMENTS = 1 << 22
"""Elements of a piece. Each piece has its own seed, so random numbers do not depend on how many
pieces are computed."""

GENERATORS = LIKE | {"zeros", "ones", "full", "rand", "randn", "randint"}
"""Operators whose elements do not depend on one another."""
ELEMENTWISE = frozenset(("_to_copy", "clone", "copy_", "isnan", "isinf", "nan_to_num"))
"""Elementwise operators besides those that torch tags as pointwise."""
REDUCTIONS = frozenset(("sum", "mean", "max", "min", "amax", "amin", "any", "all", "count_nonzero"))

Piece = Callable[[Storages, int, int], torch.Tensor]
"""Computes the elements from a first index up to a last one (exclusive), in the order of memory."""


@dataclass
class Chain:
    """The calls and operands that an operand in pieces is computed from.

    Args:
        scalars: operands of a single element, which must be computed before.
        calls: the calls that are run for each piece.
    """

    scalars: list[StridedView] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)


def reduced_operand(call: Call) -> StridedView | None:
    """The operand, longer than a piece, that a call reduces to one element; else None."""
    if call.plan.name not in REDUCTIONS or call.targets or len(call.operands) != 1:
        return None
    if len(call.results) != 1 or call.results[0].count != 1:
        return None
    operand = call.operands[0]
    return operand if isinstance(operand, StridedView) and operand.count > PIECE_ELEMENTS else None


def pieces_of(part: StridedView, chain: Chain) -> Piece | None:
    """A function that computes pieces of an operand; None where that is impossible.

    Args:
        part: the operand.
        chain: the calls and scalars that it is computed from are added to it.
    """
    if part.source is None or not part.is_whole:
        return None
    call = part.source.call
    if not isinstance(call, Call) or call.storages is not None:
        return None
    chain.calls.append(call)
    if is_generator(call):
        return functools.partial(_generate, call, part)
    if not (call.plan.pointwise or call.plan.name in ELEMENTWISE):
        return None
    operand_pieces: dict[int, Piece] = {}
    for operand in (*call.operands, *call.targets):
        operand_piece = _operand_pieces(operand, part, chain)
        if operand_piece is None:
            return None
        operand_pieces[id(operand)] = operand_piece

    def piece(storages: Storages, first: int, stop: int) -> torch.Tensor:
        def tensor_for(operand: Any) -> torch.Tensor:
            if isinstance(operand, OutputMarker):
                target = call.targets[operand.index]
                return operand_pieces[id(target)](storages, first, stop).clone()
            return operand_pieces[id(operand)](storages, first, stop)

        result: torch.Tensor = call_with(call, tensor_for)
        return result

    return piece


def _operand_pieces(
    operand: KnownOperand | StridedView, like: StridedView, chain: Chain
) -> Piece | None:
    """A function that computes pieces of an elementwise call's operand; None if impossible."""
    size = operand.size if isinstance(operand, StridedView) else tuple(operand.tensor.shape)
    if isinstance(operand, KnownOperand):
        if operand.tensor.numel() == 1:
            return lambda storages, first, stop: operand.value().reshape(size[:1])
        if size == like.size and operand.tensor.is_contiguous():
            return lambda storages, first, stop: operand.value().reshape(-1)[first:stop]
        return None
    if operand.source is None:  # the call overwrites all of it
        return lambda storages, first, stop: torch.empty(stop - first, dtype=operand.dtype)
    if operand.count == 1:
        chain.scalars.append(operand)
        return lambda storages, first, stop: value_of(operand, storages).reshape(size[:1])
    return pieces_of(operand, chain) if size == like.size else None


def reduce_in_pieces(call: Call, piece: Piece, storages: Storages) -> torch.Tensor:
    """The result of a reduction, from the partial results of all pieces."""
    operand, name = call.operands[0], call.plan.name
    assert isinstance(operand, StridedView)
    result = call.results[0]
    partial = []
    for first in range(0, operand.count, PIECE_ELEMENTS):
        elements = piece(storages, first, min(first + PIECE_ELEMENTS, operand.count))
        if name in ("sum", "mean"):
            wide = torch.float64 if result.dtype.is_floating_point else None
            partial.append(elements.sum(dtype=wide))
        elif name == "count_nonzero":
            partial.append(elements.count_nonzero())
        else:
            partial.append(getattr(elements, name)())
    joined = torch.stack(partial)
    total = joined.sum() if name in ("sum", "mean", "count_nonzero") else getattr(joined, name)()
    if name == "mean":
        total = total / operand.count
    return as_predicted(total.to(result.dtype).reshape(result.size), result)


def is_generator(call: Call) -> bool:
    """Whether a call's elements can be computed independently of one another."""
    if call.plan.name in GENERATORS:
        return len(call.results) == 1 and len(call.operands) <= 1
    overwritten = [
        target
        for target in call.targets
        if isinstance(target, StridedView) and target.source is None
    ]
    return call.plan.name in OVERWRITING and not call.operands and len(overwritten) == 1


def generated(call: Call, storages: Storages) -> torch.Tensor:
    """The result, flat, of a call for which `is_generator` holds."""
    target = (call.targets or call.results)[0]
    assert isinstance(target, StridedView)
    elements = torch.empty(target.nbytes // target.dtype.itemsize, dtype=target.dtype)
    for first in range(0, elements.numel(), PIECE_ELEMENTS):
        stop = min(first + PIECE_ELEMENTS, elements.numel())
        elements[first:stop] = _generate(call, target, storages, first, stop)
    return elements


def _generate(
    call: Call, part: StridedView, storages: Storages, start: int, stop: int
) -> torch.Tensor:
    """The elements `start` to `stop` (exclusive) of a call for which `is_generator` holds."""
    torch.manual_seed(seed_of(call, start))
    shaped = torch.empty(stop - start, dtype=part.dtype)
    if call.plan.name in OVERWRITING or call.operands:
        elements: torch.Tensor = call_with(call, lambda operand: shaped)
        return elements
    args = [[stop - start] if isinstance(value, (list, tuple)) else value for value in call.args]
    result: torch.Tensor = call.func(*args, **call.kwargs)
    return result


def seed_of(call: Call, first: int) -> int:
    """The seed of the random numbers of a call's piece that begins at an element."""
    return (call.seed << 32) + (call.number << 12) + first // PIECE_ELEMENTS
