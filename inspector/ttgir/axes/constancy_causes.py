"""Why neighbours of an operation's result are not known to be equal: which operand, or itself."""

from __future__ import annotations

from collections.abc import Mapping

from ...model import TtgirOp
from .blame_walk import BlameWalk, Rule
from .constants import changes_at_multiples
from .facts import Blame


def _of_operands(walk: BlameWalk, op: TtgirOp, dim: int, need: int) -> Blame:
    """In an elementwise operation: the first operand that is not constant."""
    for name in op.operands:
        if walk.facts(name, dim).constancy[dim] < need:
            return walk.constancy(name, dim, need)
    return walk.end(op.results[0])


def _of_comparison(walk: BlameWalk, op: TtgirOp, dim: int, need: int) -> Blame:
    """In a comparison of a range with a bound: why they do not cross at multiples only."""
    a, b = op.operands[:2]
    ranged, bound = (a, b) if walk.facts(b, dim).constancy[dim] >= need else (b, a)
    if not changes_at_multiples(op.attributes.get("predicate"), range_is_left=ranged == a):
        return Blame("predicate", op.results[0], op)
    if walk.facts(ranged, dim).contiguity[dim] < need:
        return walk.contiguity(ranged, dim, need)
    for name in (bound, ranged):
        if walk.facts(name, dim).divisibility[dim] < need:
            return walk.divisibility(name, dim, need)
    return walk.end(op.results[0])


RULES: Mapping[str, Rule] = {
    "arith.andi": _of_operands,
    "arith.cmpi": _of_comparison,
    "arith.ori": _of_operands,
    "arith.select": _of_operands,
}
