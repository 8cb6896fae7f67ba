"""The argument or operation at which a value lost contiguity, divisibility or constancy.

Why neighbours of an operation's result are not known to be equal: which operand, or itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...model import TtgirOp
from . import contiguity_causes, divisibility_causes
from .analysis import Axes, loaded_tile
from .blame_walk import BlameWalk, Rule, Rules
from .blamed import Blame
from .constants import changes_at_multiples


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


_RULES = Rules(contiguity_causes.RULES, divisibility_causes.RULES, RULES)


def not_contiguous(axes: Axes, value: str, dim: int, need: int) -> Blame:
    """The cause that fewer than `need` neighbours along a dimension are adjacent in memory."""
    blame = BlameWalk(axes, _RULES).contiguity(value, dim, need)
    if blame.kind not in ("constant", "value"):
        return blame
    load = loaded_tile(axes, blame.value)
    return blame if load is None else Blame("loaded", load.results[0], load)


def not_divisible(axes: Axes, value: str, dim: int, need: int) -> Blame:
    """The cause that the first of the neighbours is not known to be a multiple of `need`."""
    return BlameWalk(axes, _RULES).divisibility(value, dim, need)


def not_constant(axes: Axes, value: str, dim: int, need: int) -> Blame:
    """The cause that fewer than `need` neighbours along a dimension are known to be equal."""
    return BlameWalk(axes, _RULES).constancy(value, dim, need)
