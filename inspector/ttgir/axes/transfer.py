"""The facts of an operation's result by those of its operands: one function per operation.

Division and remainder assume that the dividend is not negative, as Triton does of offsets. Results
of operations that are not in the table are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd, prod

from ...model import TtgirOp
from ..lowered import pointee_bytes
from .constants import fold
from .facts import (
    UNBOUNDED,
    AxisFacts,
    everywhere,
    meet,
    nothing,
    of_constant,
    power_of_two_in,
    product,
    settled,
    shared_divisibility,
)

_Rule = Callable[[TtgirOp, Sequence[AxisFacts]], "AxisFacts | None"]

HINTS = ("tt.contiguity", "tt.divisibility", "tt.constancy")


def facts_after(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """The facts of an operation's first result.

    Args:
        op: the operation; its hints (`tl.multiple_of`, ...) override what follows from operands.
        operands: the facts of its operands, in order.
    """
    shape = op.result_types[0].shape
    rule = RULES.get(op.name)
    facts = None
    constant = fold(op, operands)
    if constant is not None:
        facts = of_constant(constant, shape)
    elif rule is not None:
        try:
            facts = rule(op, operands)
        except (IndexError, ValueError):
            facts = None  # operands of different ranks, e.g. of an edited file
    if facts is None or len(facts.contiguity) != max(1, len(shape)):
        facts = nothing(len(shape))
    if any(name in op.attributes for name in HINTS):
        facts = _hinted(op, facts)
    return facts


def _hinted(op: TtgirOp, facts: AxisFacts) -> AxisFacts:
    rank = len(facts.contiguity)
    derived = (facts.contiguity, facts.divisibility, facts.constancy)
    contiguity, divisibility, constancy = (
        _hint(op.attributes.get(name), values, rank)
        for name, values in zip(HINTS, derived, strict=True)
    )
    return settled(contiguity, divisibility, constancy, facts.constant)


def _hint(hint: object, derived: tuple[int, ...], rank: int) -> tuple[int, ...]:
    if isinstance(hint, int) and hint > 0:
        return (hint,) * rank
    if isinstance(hint, tuple) and len(hint) == rank:
        return tuple(n if isinstance(n, int) and n > 0 else 1 for n in hint)
    return derived


def _constancy(a: AxisFacts, b: AxisFacts) -> list[int]:
    return [gcd(x, y) for x, y in zip(a.constancy, b.constancy, strict=True)]


def _is_sub(op: TtgirOp) -> bool:
    return op.name == "arith.subi"


def _add(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """Sums and differences, pointers plus offsets included."""
    a, b = operands[0], operands[1]
    scale = pointee_bytes(op.operand_types[0]) if op.name == "tt.addptr" else 1
    contiguity, divisibility = [], []
    for d in range(len(a.contiguity)):
        ca, cb = a.contiguity[d], b.contiguity[d]
        run = gcd(ca, b.constancy[d])
        if not _is_sub(op):  # x - (y, y+1, ...) falls
            run = max(run, gcd(a.constancy[d], cb))
        da, db = a.divisibility[d], product(b.divisibility[d], scale)
        if ca > 1 and cb > 1:
            cancels = _is_sub(op) and ca == cb  # the differences within a group cancel out
            divisor = gcd(da, db) if cancels else gcd(da, db, 2)
        elif ca > 1 or cb > 1:
            divisor = gcd(da, db, product(run, scale))
        else:
            divisor = gcd(da, db)
        contiguity.append(run)
        divisibility.append(divisor)
    return settled(contiguity, divisibility, _constancy(a, b))


def _mul(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    a, b = operands[0], operands[1]
    if b.constant == 1:
        return _same_numbers(a, b)
    if a.constant == 1:
        return _same_numbers(b, a)
    divisibility = [
        product(_element_divisor(a, d), _element_divisor(b, d)) for d in range(len(a.contiguity))
    ]  # of every element: multiples of x, x+1, ... are not contiguous
    return settled((1,) * len(divisibility), divisibility, _constancy(a, b))


def _same_numbers(a: AxisFacts, neutral: AxisFacts) -> AxisFacts:
    return settled(a.contiguity, a.divisibility, _constancy(a, neutral))


def _element_divisor(a: AxisFacts, d: int) -> int:
    """A divisor of every element, as far as one dimension tells."""
    return a.divisibility[d] if a.contiguity[d] == 1 else 1


def _shape(op: TtgirOp) -> tuple[int, ...]:
    return op.result_types[0].shape


def _steps(a: AxisFacts, b: AxisFacts, shape: Sequence[int], d: int) -> int | None:
    """The elements between two multiples of a divisor in a range; None if unknown."""
    if not shape or a.contiguity[d] != shape[d] or b.constancy[d] != shape[d]:
        return None
    return gcd(a.contiguity[d], a.divisibility[d], b.divisibility[d])


def _div(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    a, b = operands[0], operands[1]
    shape = _shape(op)
    constancy = _constancy(a, b)
    if b.constant == 1:
        return settled(a.contiguity, a.divisibility, constancy)
    divisibility = []
    for d in range(len(a.contiguity)):
        constancy[d] = max(constancy[d], _steps(a, b, shape, d) or 1)
        divisibility.append(_quotient(_element_divisor(a, d), b.constant))
    return settled((1,) * len(constancy), divisibility, constancy)


def _quotient(divisibility: int, divisor: int | None) -> int:
    size = abs(divisor) if divisor else 0
    return (
        divisibility // size if size and not size & (size - 1) and divisibility % size == 0 else 1
    )


def _rem(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    a, b = operands[0], operands[1]
    shape = _shape(op)
    contiguity, divisibility = [], []
    for d in range(len(a.contiguity)):
        run = _steps(a, b, shape, d) or 1
        divisor = gcd(a.divisibility[d], b.divisibility[d]) if b.constancy[d] > 1 else 1
        if a.contiguity[d] > run:
            divisor = gcd(divisor, run)
        contiguity.append(run)
        divisibility.append(divisor)
    return settled(contiguity, divisibility, _constancy(a, b))


def _bits(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    all_ones = (1,) * len(operands[0].contiguity)
    return AxisFacts(all_ones, all_ones, tuple(_constancy(operands[0], operands[1])))


def _shift_left(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    a, b = operands[0], operands[1]
    if b.constant == 0:
        return _same_numbers(a, b)
    factor = 1 << b.constant if b.constant is not None and 0 <= b.constant < 62 else 1
    divisibility = [product(_element_divisor(a, d), factor) for d in range(len(a.contiguity))]
    return settled((1,) * len(divisibility), divisibility, _constancy(a, b))


def _shift_right(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    a, b = operands[0], operands[1]
    if b.constant == 0:
        return _same_numbers(a, b)
    divisor = 1 << b.constant if b.constant is not None and 0 <= b.constant < 62 else None
    divisibility = [_quotient(_element_divisor(a, d), divisor) for d in range(len(a.contiguity))]
    return settled((1,) * len(divisibility), divisibility, _constancy(a, b))


def _meet_operands(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    return meet(operands[0], operands[1])


_ABOVE = frozenset(("sgt", "ugt", "sle", "ule"))
_BELOW = frozenset(("slt", "ult", "sge", "uge"))


def _compare(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts | None:
    """Comparisons, whose results are constant in groups."""
    a, b = operands[0], operands[1]
    shape = _shape(op)
    if not shape:
        return None
    constancy = _constancy(a, b)
    predicate = op.attributes.get("predicate")
    for d, size in enumerate(shape):
        # A range crosses a bound only at a common multiple.
        if predicate in _ABOVE and a.constancy[d] == size:
            run = gcd(b.contiguity[d], a.divisibility[d], b.divisibility[d])
        elif predicate in _BELOW and b.constancy[d] == size:
            run = gcd(a.contiguity[d], a.divisibility[d], b.divisibility[d])
        else:
            continue
        constancy[d] = max(constancy[d], run)
    all_ones = (1,) * len(shape)
    return AxisFacts(all_ones, all_ones, tuple(constancy))


def _select(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """A select between two values."""
    condition, a, b = operands[0], operands[1], operands[2]
    if condition.constant is not None:
        return a if condition.constant else b
    if not op.operand_types[0].shape:
        return meet(a, b)
    contiguity, divisibility, constancy = [], [], []
    for d in range(len(a.contiguity)):
        run = gcd(a.contiguity[d], b.contiguity[d], condition.constancy[d])
        same_groups = a.contiguity[d] == run and b.contiguity[d] == run
        divisor = shared_divisibility(a, b, d)
        contiguity.append(run)
        divisibility.append(divisor if same_groups else gcd(divisor, run))
        constancy.append(gcd(a.constancy[d], b.constancy[d], condition.constancy[d]))
    return settled(contiguity, divisibility, constancy)


def _first_operand(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    return operands[0]


def _range(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts | None:
    start, end = op.attributes.get("start"), op.attributes.get("end")
    if not isinstance(start, int) or not isinstance(end, int):
        return None
    return AxisFacts((end - start,), (power_of_two_in(start),), (1,))


def _splat(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    shape = _shape(op)
    source = operands[0]
    rank = len(shape)
    return AxisFacts((1,) * rank, (source.divisibility[0],) * rank, shape, source.constant)


def _expand(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts | None:
    """A tensor with a new dimension of extent 1."""
    axis, source = op.attributes.get("axis"), operands[0]
    if not isinstance(axis, int) or not 0 <= axis <= len(source.contiguity):
        return None
    if source.constant is not None:
        return of_constant(source.constant, _shape(op))
    # A group along the new dimension is one element: its divisor must divide every element.
    divisor = min(_element_divisor(source, d) for d in range(len(source.contiguity)))

    def with_new(values: tuple[int, ...], inserted: int) -> tuple[int, ...]:
        return (*values[:axis], inserted, *values[axis:])

    return settled(
        with_new(source.contiguity, 1),
        with_new(source.divisibility, divisor),
        with_new(source.constancy, 1),
    )


def _broadcast(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts | None:
    source, old, new = operands[0], op.operand_types[0].shape, _shape(op)
    if len(old) != len(new) or len(source.contiguity) != len(new):
        return None
    stretched = [was == 1 for was in old]
    return settled(
        [1 if s else c for s, c in zip(stretched, source.contiguity, strict=True)],
        source.divisibility,
        [n if s else c for s, n, c in zip(stretched, new, source.constancy, strict=True)],
        source.constant,
    )


def _transpose(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts | None:
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
    """A reshape that keeps the order of the elements."""
    a, old, new = operands[0], op.operand_types[0].shape, _shape(op)
    if op.attributes.get("allow_reorder") or len(a.contiguity) != len(old):
        return None
    if a.constant is not None:
        return of_constant(a.constant, new)
    element_divisor = everywhere(a.contiguity, a.divisibility)
    strides = [prod(old[d + 1 :]) for d in range(len(old))]
    contiguity, divisibility, constancy = (
        [1] * len(new),
        [element_divisor] * len(new),
        [1] * len(new),
    )
    for d, size in enumerate(new):
        stride = prod(new[d + 1 :])
        for o, start in enumerate(strides):
            if not start <= stride < start * old[o]:
                continue
            if start == stride and a.contiguity[o] > 1:
                contiguity[d] = run = min(a.contiguity[o], size)
                divisor = a.divisibility[o]
                divisibility[d] = max(
                    element_divisor, divisor if run == a.contiguity[o] else gcd(divisor, run)
                )
            constancy[d] = max(1, min(size, start * a.constancy[o] // stride))
    return settled(contiguity, divisibility, constancy)


def _loaded(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """A load: equal addresses and mask bits give equal values."""
    all_ones = (1,) * len(operands[0].contiguity)
    masked = len(operands) > 1 and len(operands[1].constancy) == len(all_ones)
    constancy = _constancy(operands[0], operands[1]) if masked else operands[0].constancy
    return AxisFacts(all_ones, all_ones, tuple(constancy))


def _bitcast(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    a = operands[0]
    if op.operand_types[0].kind != "ptr" and "ptr" not in op.operand_types[0].element:
        return a
    source_bytes = pointee_bytes(op.operand_types[0])
    if source_bytes == pointee_bytes(op.result_types[0]):
        return a
    divisibility = [
        by if run == 1 else gcd(by, source_bytes)
        for by, run in zip(a.divisibility, a.contiguity, strict=True)
    ]
    return settled((1,) * len(divisibility), divisibility, a.constancy, a.constant)


def _poison(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """A value that is never accessed: any fact holds."""
    every = (UNBOUNDED,) * max(1, len(_shape(op)))
    return AxisFacts(every, every, every)


RULES: Mapping[str, _Rule] = {
    "arith.addi": _add,
    "arith.andi": _bits,
    "arith.cmpi": _compare,
    "arith.divsi": _div,
    "arith.divui": _div,
    "arith.extsi": _first_operand,
    "arith.extui": _first_operand,
    "arith.index_cast": _first_operand,
    "arith.maxsi": _meet_operands,
    "arith.maxui": _meet_operands,
    "arith.minsi": _meet_operands,
    "arith.minui": _meet_operands,
    "arith.muli": _mul,
    "arith.ori": _bits,
    "arith.remsi": _rem,
    "arith.remui": _rem,
    "arith.select": _select,
    "arith.shli": _shift_left,
    "arith.shrsi": _shift_right,
    "arith.shrui": _shift_right,
    "arith.subi": _add,
    "arith.trunci": _first_operand,
    "arith.xori": _bits,
    "tt.addptr": _add,
    "tt.bitcast": _bitcast,
    "tt.broadcast": _broadcast,
    "tt.expand_dims": _expand,
    "tt.load": _loaded,
    "tt.make_range": _range,
    "tt.reshape": _reshape,
    "tt.splat": _splat,
    "tt.trans": _transpose,
    "ttg.convert_layout": _first_operand,
    "triton_gpu.convert_layout": _first_operand,
    "ub.poison": _poison,
}
