"""Why the result of an operation is not contiguous: which operand, or the operation itself."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from ...model import TtgirOp
from .blame_walk import BlameWalk, Rule
from .blamed import Blame, Kind

_LONGEST_SHIFT = 31
_MOST_SUMMANDS = 20


def _of_sum(walk: BlameWalk, op: TtgirOp, dim: int, need: int) -> Blame:
    """In a sum: the operand that is neither constant nor contiguous."""
    for name in op.operands[:2]:
        facts = walk.facts(name, dim)
        if facts.contiguity[dim] < need and facts.constancy[dim] < need:
            other_operands = [n for n in op.operands[:2] if n != name]
            is_only = all(walk.is_uniform(op, operand, dim) for operand in other_operands)
            cause = walk.contiguity_through(op, name, dim, need, is_only=is_only)
            if cause.kind == "value" and cause.op is op:
                return _of_divided(walk, op, need) or cause
            return cause
    moving = [n for n in op.operands[:2] if not walk.is_uniform(op, n, dim)]
    if not moving:
        return Blame("repeated", op.results[0], op)
    if all(walk.facts(n, dim).constancy[dim] >= need for n in moving):
        is_only = len(moving) == 1  # neighbours are equal in groups
        return walk.contiguity_through(op, moving[0], dim, need, is_only=is_only)
    if op.name == "arith.subi" and moving == [op.operands[1]]:
        return Blame("reversed", op.results[0], op)
    return walk.end(op.results[0])


def _of_divided(walk: BlameWalk, op: TtgirOp, need: int) -> Blame | None:
    """In a sum of the quotient, perhaps multiplied, and the remainder of one division: its
    divisor.
    """
    producers = walk.axes.graph.producers
    quotients, remainders = set[str](), list[TtgirOp]()
    pending, visited = list(op.operands[:2]), set[str]()
    while pending and len(visited) < _MOST_SUMMANDS:
        name = walk.scalar(pending.pop())
        made = producers.get(name)
        if made is None or name in visited:
            continue
        visited.add(name)
        if made.name in ("arith.divsi", "arith.divui"):
            quotients.add(walk.scalar(made.operands[1]))
        elif made.name in ("arith.remsi", "arith.remui"):
            remainders.append(made)
            pending.append(made.operands[0])  # (i // width) % height
        elif made.name in ("arith.addi", "arith.muli"):
            pending.extend(made.operands)
    for made in remainders:
        divisor = walk.scalar(made.operands[1])
        facts = walk.axes.of(divisor)
        if divisor in quotients and facts.constant is None and facts.divisibility[0] < need:
            return Blame("wrap", divisor, made, None)
    return None


def _of_product(walk: BlameWalk, op: TtgirOp, dim: int, need: int) -> Blame:
    """In a product: the factor common to all neighbours and not known to be 1."""
    a, b = op.operands[:2]
    for moving, factor in ((a, b), (b, a)):
        factor_equal = walk.facts(factor, dim).constancy[dim]
        if factor_equal >= need and walk.facts(moving, dim).constancy[dim] < factor_equal:
            return _of_multiples(walk, moving, factor, dim, need)
    return walk.end(op.results[0])


def _of_multiples(walk: BlameWalk, moving: str, factor: str, dim: int, need: int) -> Blame:
    """In a product of a factor common to all neighbours with what changes between them."""
    constant = walk.facts(factor, dim).constant
    if constant == 1:
        return walk.contiguity(moving, dim, need)
    if walk.facts(moving, dim).contiguity[dim] >= need:
        return _factor(walk, factor)
    cause = walk.contiguity(moving, dim, need)
    if cause.kind in ("shared", "reversed"):
        return replace(cause, factor=walk.scalar(factor))
    if cause.kind in ("divided", "loaded") or constant is not None:
        return cause  # a factor of 1 would not help
    blame = _factor(walk, factor)
    return replace(blame, factor=cause.value) if cause.kind == "factor" else blame


def _factor(walk: BlameWalk, name: str) -> Blame:
    """The cause that is a factor, by its scalar."""
    name = walk.scalar(name)
    constant = walk.axes.of(name).constant
    return Blame("factor", name, walk.axes.graph.producers.get(name), constant)


def _of_wrapped(walk: BlameWalk, op: TtgirOp, dim: int, need: int) -> Blame:
    """In a remainder or quotient: the range, its start, or where it wraps around."""
    a, b = op.operands[:2]
    ranged, divisor = walk.facts(a, dim), walk.facts(b, dim)
    if ranged.contiguity[dim] < need and divisor.constant != 1:
        return walk.contiguity_through(op, a, dim, need)
    if "div" in op.name:
        result = walk.facts(op.results[0], dim)
        is_shared = divisor.constant is not None or result.constancy[dim] > 1
        return Blame("shared" if is_shared else "divided", walk.scalar(b), op, divisor.constant)
    if divisor.constancy[dim] >= need and divisor.divisibility[dim] < need:
        return Blame("wrap", walk.scalar(b), op, divisor.constant)
    if ranged.divisibility[dim] < need:
        return walk.divisibility(a, dim, need)
    return walk.end(op.results[0])


def _of_shift(walk: BlameWalk, op: TtgirOp, dim: int, need: int) -> Blame:
    """In a shift, which divides or multiplies."""
    a, b = op.operands[:2]
    amount = walk.facts(b, dim).constant
    if amount is None or not 0 < amount < _LONGEST_SHIFT:
        return walk.end(op.results[0])
    if walk.facts(a, dim).contiguity[dim] < need:
        return walk.contiguity_through(op, a, dim, need)
    kind: Kind = "factor" if op.name == "arith.shli" else "shared"
    return Blame(kind, walk.scalar(b), op, 1 << amount)


def _of_mask(walk: BlameWalk, op: TtgirOp, dim: int, need: int) -> Blame:
    """In a mask that clears the lowest bits, which gives groups of neighbours one value."""
    a, b = op.operands[:2]
    group = _cleared_range(walk.facts(b, dim).constant)
    if group is None:
        return walk.end(op.results[0])
    if walk.facts(a, dim).contiguity[dim] < need:
        return walk.contiguity_through(op, a, dim, need)
    return Blame("shared", walk.scalar(b), op, group, factor=walk.scalar(b))


def _cleared_range(mask: int | None) -> int | None:
    """How many consecutive numbers a mask makes equal: 2**n, if it clears the n lowest bits only.

    Such a mask is -2**n in two's complement. None for other masks, for -1, which clears nothing,
    and where the mask is not known.
    """
    if mask is None or mask >= -1:
        return None
    is_power_of_two = not -mask & (-mask - 1)
    return -mask if is_power_of_two else None


def _of_choice(walk: BlameWalk, op: TtgirOp, dim: int, need: int) -> Blame:
    """In a minimum, maximum or select: the first choice that is not contiguous."""
    choices_start = 1 if op.name == "arith.select" else 0
    for name in op.operands[choices_start:]:
        if walk.facts(name, dim).contiguity[dim] < need:
            return walk.contiguity_through(op, name, dim, need)
    return walk.end(op.results[0])


RULES: Mapping[str, Rule] = {
    "arith.addi": _of_sum,
    "arith.andi": _of_mask,
    "arith.divsi": _of_wrapped,
    "arith.divui": _of_wrapped,
    "arith.maxsi": _of_choice,
    "arith.minsi": _of_choice,
    "arith.muli": _of_product,
    "arith.remsi": _of_wrapped,
    "arith.remui": _of_wrapped,
    "arith.select": _of_choice,
    "arith.shli": _of_shift,
    "arith.shrsi": _of_shift,
    "arith.shrui": _of_shift,
    "arith.subi": _of_sum,
    "tt.addptr": _of_sum,
}
