"""The facts of tensors that are made, or whose elements are put in another order or shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, prod

from ...model import TtgirOp
from ..queries import range_of
from .facts import (
    UNBOUNDED,
    AxisFacts,
    divisibility_of_every_element,
    of_constant,
    power_of_two_in,
    with_shared_divisor,
)
from .pointwise_rules import Rule, element_divisor, unchanged_operand


def _range(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts | None:
    """A range is one run, which begins with its start."""
    row = range_of(op)
    return None if row is None else AxisFacts((len(row),), (power_of_two_in(row.start),), (1,))


def _splat(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """All elements of a splat are its scalar."""
    shape = op.result_types[0].shape
    scalar = operands[0]
    rank = len(shape)
    return AxisFacts((1,) * rank, (scalar.divisibility[0],) * rank, shape, scalar.constant)


def _expand(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts | None:
    """A new dimension of extent 1: a group along it is a single element.

    Its divisor must thus divide every element.
    """
    axis, source = op.attributes.get("axis"), operands[0]
    if not isinstance(axis, int) or not 0 <= axis <= len(source.contiguity):
        return None
    if source.constant is not None:
        return of_constant(source.constant, op.result_types[0].shape)
    divisor = min(element_divisor(source, d) for d in range(len(source.contiguity)))

    def with_new(values: tuple[int, ...], inserted: int) -> tuple[int, ...]:
        return (*values[:axis], inserted, *values[axis:])

    return with_shared_divisor(
        with_new(source.contiguity, 1),
        with_new(source.divisibility, divisor),
        with_new(source.constancy, 1),
    )


def _broadcast(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts | None:
    """Along dimensions of extent 1 elements are repeated: all equal; the others stay."""
    source, old, new = operands[0], op.operand_types[0].shape, op.result_types[0].shape
    if len(old) != len(new) or len(source.contiguity) != len(new):
        return None
    is_repeated = [extent == 1 for extent in old]
    return with_shared_divisor(
        [1 if r else run for r, run in zip(is_repeated, source.contiguity, strict=True)],
        source.divisibility,
        [
            extent if r else equal
            for r, extent, equal in zip(is_repeated, new, source.constancy, strict=True)
        ],
        source.constant,
    )


def _transpose(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts | None:
    """A transpose takes each dimension's facts along; `order` has the old dimension of each."""
    order, a = op.attributes.get("order"), operands[0]
    if not isinstance(order, tuple) or sorted(order) != list(range(len(a.contiguity))):
        return None
    return AxisFacts(
        tuple(a.contiguity[d] for d in order),
        tuple(a.divisibility[d] for d in order),
        tuple(a.constancy[d] for d in order),
        a.constant,
    )


def _reshape(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts | None:
    """A reshape that keeps the order of the elements, which is row-major.

    Stepping along a new dimension steps along the old one whose strides (elements from one index
    to the next) enclose the new stride. With the same stride, runs and their divisors hold as far
    as the new dimension reaches; with a larger one, each step skips elements of the old dimension,
    and only equal elements stay equal.
    """
    a, old, new = operands[0], op.operand_types[0].shape, op.result_types[0].shape
    if op.attributes.get("allow_reorder") or len(a.contiguity) != len(old):
        return None
    if a.constant is not None:
        return of_constant(a.constant, new)
    of_every_element = divisibility_of_every_element(a.contiguity, a.divisibility)
    contiguity, constancy = [1] * len(new), [1] * len(new)
    divisibility = [of_every_element] * len(new)
    for d, size in enumerate(new):
        stride = prod(new[d + 1 :])
        source = _enclosing(old, stride)
        if source is None:
            continue
        o, old_stride = source
        if old_stride == stride and a.contiguity[o] > 1:
            run = min(a.contiguity[o], size)
            divisor = a.divisibility[o]
            if run < a.contiguity[o]:
                divisor = gcd(divisor, run)  # the shorter runs begin inside the old ones
            contiguity[d] = run
            divisibility[d] = max(of_every_element, divisor)
        constancy[d] = max(1, min(size, old_stride * a.constancy[o] // stride))
    return with_shared_divisor(contiguity, divisibility, constancy)


def _enclosing(shape: Sequence[int], stride: int) -> tuple[int, int] | None:
    """The dimension, and its stride, that a step of `stride` elements moves along; None: too far.

    Dimensions of extent 1 enclose nothing, and no two others enclose the same stride.
    """
    for dim, extent in enumerate(shape):
        own_stride = prod(shape[dim + 1 :])
        if own_stride <= stride < own_stride * extent:
            return dim, own_stride
    return None


def _poison(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """A value that is never accessed: any fact holds."""
    every = (UNBOUNDED,) * max(1, len(op.result_types[0].shape))
    return AxisFacts(every, every, every)


RULES: Mapping[str, Rule] = {
    "tt.broadcast": _broadcast,
    "tt.expand_dims": _expand,
    "tt.make_range": _range,
    "tt.reshape": _reshape,
    "tt.splat": _splat,
    "tt.trans": _transpose,
    "ttg.convert_layout": unchanged_operand,
    "triton_gpu.convert_layout": unchanged_operand,
    "ub.poison": _poison,
}
