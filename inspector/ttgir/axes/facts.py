"""Facts about an integer or pointer value, per dimension, and their meet over two paths.

They are defined as in Triton's own analysis, which decides how wide an access becomes. Along a
dimension a tensor falls into aligned groups of equal length:

contiguity    elements of a group are x, x+1, x+2, ... (pointers: neighbouring elements)
divisibility  divides the first element of each group of `contiguity` (pointers: in bytes)
constancy     elements of a group are all the same

A scalar has one dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from msgspec import Struct

UNBOUNDED = 1 << 62
"""The divisibility of 0."""


class AxisFacts(Struct, frozen=True):
    """The facts of one value.

    Attributes:
        contiguity: per dimension, in elements.
        divisibility: per dimension; bytes for pointers.
        constancy: per dimension, in elements.
        constant: the number that all elements are; None where there is none.
    """

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    constant: int | None = None


def power_of_two_in(value: int) -> int:
    """The largest power of two that divides a number."""
    return value & -value if value else UNBOUNDED


def product(a: int, b: int) -> int:
    """The divisibility of a product, bounded."""
    return min(a * b, UNBOUNDED)


def no_facts(rank: int) -> AxisFacts:
    """The facts of an unknown value."""
    all_ones = (1,) * max(1, rank)
    return AxisFacts(all_ones, all_ones, all_ones)


def of_constant(value: int, shape: Sequence[int]) -> AxisFacts:
    """The facts of a number, or of a tensor full of it."""
    rank = max(1, len(shape))
    return AxisFacts(
        (1,) * rank, (power_of_two_in(value),) * rank, tuple(shape) if shape else (1,), value
    )


def with_shared_divisor(
    contiguity: Sequence[int],
    divisibility: Sequence[int],
    constancy: Sequence[int],
    constant: int | None = None,
) -> AxisFacts:
    """Facts in which a divisor of every element, known from one dimension, counts in all.

    Where groups are single elements, the divisibility is that of every element.
    """
    if len(contiguity) > 1:
        every = divisibility_of_every_element(contiguity, divisibility)
        if every > 1:
            divisibility = [max(divisor, every) for divisor in divisibility]
    return AxisFacts(tuple(contiguity), tuple(divisibility), tuple(constancy), constant)


def divisibility_of_every_element(contiguity: Sequence[int], divisibility: Sequence[int]) -> int:
    """The divisibility of every single element."""
    return max(
        (divisor for length, divisor in zip(contiguity, divisibility, strict=True) if length == 1),
        default=1,
    )


def meet(a: AxisFacts, b: AxisFacts) -> AxisFacts:
    """The facts of a value that is one of two."""
    if a is b:
        return a
    dimensions = range(len(a.contiguity))
    if len(b.contiguity) != len(a.contiguity):
        return no_facts(len(a.contiguity))
    return with_shared_divisor(
        [gcd(a.contiguity[d], b.contiguity[d]) for d in dimensions],
        [shared_divisibility(a, b, d) for d in dimensions],
        [gcd(a.constancy[d], b.constancy[d]) for d in dimensions],
        a.constant if a.constant == b.constant else None,
    )


def shared_divisibility(a: AxisFacts, b: AxisFacts, d: int) -> int:
    """A divisor of the first elements of both values' groups along one dimension.

    Where the groups differ in length, the shorter ones begin inside the longer ones.
    """
    common = gcd(a.divisibility[d], b.divisibility[d])
    if a.contiguity[d] == b.contiguity[d]:
        return common
    return gcd(common, a.contiguity[d], b.contiguity[d])
