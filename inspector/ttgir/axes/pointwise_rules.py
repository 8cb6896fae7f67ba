"""The facts of results that are computed element by element, one function per kind of operation.

In the rules, a run is a group of x, x+1, ... (`contiguity`), equal elements are a group of
`constancy`, and c stands for a value that is constant along the group in question. Division and
remainder assume that the dividend is not negative, as Triton does of offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd

from ...model import TtgirOp
from ..lowered import pointee_bytes
from .constants import changes_at_multiples
from .facts import AxisFacts, meet, product, shared_divisibility, with_shared_divisor

Rule = Callable[[TtgirOp, Sequence[AxisFacts]], "AxisFacts | None"]
"""Takes an operation and its operands' facts; None where nothing is known of the result.

IndexError and ValueError mean that the operands do not fit together, as in an edited file.
"""

_UNBOUNDED_SHIFT = 62
"""Bits of a shift whose factor would reach `facts.UNBOUNDED`."""


def _sum(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """Sums and differences, pointers plus offsets included: x + c has the runs of x.

    c - x has none, as it falls. The first element of a run is divisible by what divides both
    operands there; where only one operand has runs, the result's may begin inside of them.
    """
    a, b = operands[0], operands[1]
    is_difference = op.name == "arith.subi"
    scale = pointee_bytes(op.operand_types[0]) if op.name == "tt.addptr" else 1
    contiguity, divisibility = [], []
    for d in range(len(a.contiguity)):
        a_run, b_run = a.contiguity[d], b.contiguity[d]
        run = gcd(a_run, b.constancy[d])
        if not is_difference:
            run = max(run, gcd(a.constancy[d], b_run))
        divisor = gcd(a.divisibility[d], product(b.divisibility[d], scale))
        if a_run > 1 and b_run > 1:
            # Both grow by 1: the sums grow by 2, and the differences stay as they are.
            cancels = is_difference and a_run == b_run
            divisor = divisor if cancels else gcd(divisor, 2)
        elif a_run > 1 or b_run > 1:
            divisor = gcd(divisor, product(run, scale))
        contiguity.append(run)
        divisibility.append(divisor)
    return with_shared_divisor(contiguity, divisibility, _shared_constancy(a, b))


def _product(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """Products: each element is divisible by the product of what divides each operand's.

    There are no runs, unless a factor is 1: multiples of x, x+1, ... are not contiguous.
    """
    a, b = operands[0], operands[1]
    if b.constant == 1:
        return _unchanged(a, b)
    if a.constant == 1:
        return _unchanged(b, a)
    divisibility = [
        product(element_divisor(a, d), element_divisor(b, d)) for d in range(len(a.contiguity))
    ]
    return with_shared_divisor((1,) * len(divisibility), divisibility, _shared_constancy(a, b))


def _quotient(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """Quotients: x, x+1, ... divided by c are equal between two multiples of c.

    The quotient of multiples of m by c is a multiple of m / c where c is a power of two that
    divides m.
    """
    a, b = operands[0], operands[1]
    constancy = _shared_constancy(a, b)
    if b.constant == 1:
        return with_shared_divisor(a.contiguity, a.divisibility, constancy)
    divisibility = []
    for d in range(len(a.contiguity)):
        between_multiples = _between_multiples(a, b, op.result_types[0].shape, d) or 1
        constancy[d] = max(constancy[d], between_multiples)
        divisibility.append(_divided(element_divisor(a, d), b.constant))
    return with_shared_divisor((1,) * len(constancy), divisibility, constancy)


def _remainder(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """Remainders: x, x+1, ... modulo c are runs between two multiples of c.

    What divides both x and c divides the remainder. Where the result's runs are shorter than
    those of x, they begin inside of them, at multiples of their own length.
    """
    a, b = operands[0], operands[1]
    contiguity, divisibility = [], []
    for d in range(len(a.contiguity)):
        run = _between_multiples(a, b, op.result_types[0].shape, d) or 1
        divisor = gcd(a.divisibility[d], b.divisibility[d]) if b.constancy[d] > 1 else 1
        if a.contiguity[d] > run:
            divisor = gcd(divisor, run)
        contiguity.append(run)
        divisibility.append(divisor)
    return with_shared_divisor(contiguity, divisibility, _shared_constancy(a, b))


def _bitwise(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """Bitwise and, or, xor: equal where both operands are; nothing else is known."""
    return _equal_only(_shared_constancy(operands[0], operands[1]))


def _shift_left(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """Shifts to the left: a product with 2**c, with no runs unless c is 0."""
    a, b = operands[0], operands[1]
    if b.constant == 0:
        return _unchanged(a, b)
    factor = _power_of_shift(b) or 1
    divisibility = [product(element_divisor(a, d), factor) for d in range(len(a.contiguity))]
    return with_shared_divisor((1,) * len(divisibility), divisibility, _shared_constancy(a, b))


def _shift_right(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """Shifts to the right: multiples of m become multiples of m / 2**c.

    Unlike quotients they make no groups of equal elements, as in Triton's analysis.
    """
    a, b = operands[0], operands[1]
    if b.constant == 0:
        return _unchanged(a, b)
    divisor = _power_of_shift(b)
    divisibility = [_divided(element_divisor(a, d), divisor) for d in range(len(a.contiguity))]
    return with_shared_divisor((1,) * len(divisibility), divisibility, _shared_constancy(a, b))


def _extremum(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """Minima and maxima: either operand, so only what holds of both."""
    return meet(operands[0], operands[1])


def _comparison(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts | None:
    """Comparisons: x, x+1, ... against c give equal results between two multiples.

    Where the range and c are multiples of m, the comparison changes at a multiple of m only.
    """
    a, b = operands[0], operands[1]
    shape = op.result_types[0].shape
    if not shape:
        return None
    constancy = _shared_constancy(a, b)
    predicate = op.attributes.get("predicate")
    for d, size in enumerate(shape):
        if changes_at_multiples(predicate, range_is_left=False) and a.constancy[d] == size:
            ranged = b
        elif changes_at_multiples(predicate, range_is_left=True) and b.constancy[d] == size:
            ranged = a
        else:
            continue
        run = gcd(ranged.contiguity[d], a.divisibility[d], b.divisibility[d])
        constancy[d] = max(constancy[d], run)
    return _equal_only(constancy)


def _select(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """Selects: groups in which both values have the fact and the condition is one and the same."""
    condition, a, b = operands[0], operands[1], operands[2]
    if condition.constant is not None:
        return a if condition.constant else b
    if not op.operand_types[0].shape:
        return meet(a, b)
    contiguity, divisibility, constancy = [], [], []
    for d in range(len(a.contiguity)):
        run = gcd(a.contiguity[d], b.contiguity[d], condition.constancy[d])
        keeps_groups = a.contiguity[d] == run and b.contiguity[d] == run
        divisor = shared_divisibility(a, b, d)
        contiguity.append(run)
        divisibility.append(divisor if keeps_groups else gcd(divisor, run))
        constancy.append(gcd(a.constancy[d], b.constancy[d], condition.constancy[d]))
    return with_shared_divisor(contiguity, divisibility, constancy)


def _load(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """Loads: equal addresses and mask bits give equal values; the values are unknown."""
    address = operands[0]
    is_masked = len(operands) > 1 and len(operands[1].constancy) == len(address.contiguity)
    return _equal_only(_shared_constancy(address, operands[1]) if is_masked else address.constancy)


def _bitcast(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """Casts of pointers: to another size of element, neighbours are no longer adjacent.

    Each address of a run is then only a multiple of the old element's size.
    """
    a = operands[0]
    if op.operand_types[0].kind != "ptr" and "ptr" not in op.operand_types[0].element:
        return a
    source_bytes = pointee_bytes(op.operand_types[0])
    if source_bytes == pointee_bytes(op.result_types[0]):
        return a
    divisibility = [
        divisor if run == 1 else gcd(divisor, source_bytes)
        for divisor, run in zip(a.divisibility, a.contiguity, strict=True)
    ]
    return with_shared_divisor((1,) * len(divisibility), divisibility, a.constancy, a.constant)


def unchanged_operand(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """Operations whose result holds the numbers of their first operand, e.g. integer casts."""
    return operands[0]


def element_divisor(a: AxisFacts, d: int) -> int:
    """A divisor of every element, as far as one dimension tells."""
    return a.divisibility[d] if a.contiguity[d] == 1 else 1


def _shared_constancy(a: AxisFacts, b: AxisFacts) -> list[int]:
    """Per dimension, the groups in which the elements of both values are equal."""
    return [gcd(x, y) for x, y in zip(a.constancy, b.constancy, strict=True)]


def _unchanged(a: AxisFacts, neutral: AxisFacts) -> AxisFacts:
    """The facts of a value after an operation with its neutral element."""
    return with_shared_divisor(a.contiguity, a.divisibility, _shared_constancy(a, neutral))


def _equal_only(constancy: Sequence[int]) -> AxisFacts:
    """The facts of a value of which only groups of equal elements are known."""
    all_ones = (1,) * len(constancy)
    return AxisFacts(all_ones, all_ones, tuple(constancy))


def _between_multiples(a: AxisFacts, b: AxisFacts, shape: Sequence[int], d: int) -> int | None:
    """Elements of a range that lie between two multiples of a divisor for certain.

    None unless `a` is one range along the entire dimension and `b` one divisor.
    """
    if not shape or a.contiguity[d] != shape[d] or b.constancy[d] != shape[d]:
        return None
    return gcd(a.contiguity[d], a.divisibility[d], b.divisibility[d])


def _divided(divisibility: int, divisor: int | None) -> int:
    """What divides the quotient of a multiple of `divisibility`; 1 if that is not known."""
    size = abs(divisor) if divisor else 0
    is_power_of_two = size > 0 and not size & (size - 1)
    if is_power_of_two and divisibility % size == 0:
        return divisibility // size
    return 1


def _power_of_shift(amount: AxisFacts) -> int | None:
    """2**c for a shift by c bits; None where it is unknown or too large."""
    bits = amount.constant
    return 1 << bits if bits is not None and 0 <= bits < _UNBOUNDED_SHIFT else None


RULES: Mapping[str, Rule] = {
    "arith.addi": _sum,
    "arith.andi": _bitwise,
    "arith.cmpi": _comparison,
    "arith.divsi": _quotient,
    "arith.divui": _quotient,
    "arith.extsi": unchanged_operand,
    "arith.extui": unchanged_operand,
    "arith.index_cast": unchanged_operand,
    "arith.maxsi": _extremum,
    "arith.maxui": _extremum,
    "arith.minsi": _extremum,
    "arith.minui": _extremum,
    "arith.muli": _product,
    "arith.ori": _bitwise,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.select": _select,
    "arith.shli": _shift_left,
    "arith.shrsi": _shift_right,
    "arith.shrui": _shift_right,
    "arith.subi": _sum,
    "arith.trunci": unchanged_operand,
    "arith.xori": _bitwise,
    "tt.addptr": _sum,
    "tt.bitcast": _bitcast,
    "tt.load": _load,
}
