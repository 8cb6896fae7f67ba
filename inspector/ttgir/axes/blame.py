"""The argument or operation at which a value lost contiguity, divisibility or constancy.

Walks back from a value along the operands that lack the fact, to the operation or argument where it
could first have held. Runs on demand: the analysis itself records no causes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from ...model import TtgirOp
from ..lowered import pointee_bytes
from ..opforms import FUNCTIONS
from .analysis import Axes, loaded_tile
from .cause import Blame, Kind
from .facts import AxisFacts
from .graph import SPREADS, dimension_before

_MOST_STEPS = 200
_LONGEST_SHIFT = 31
_OF_ALL_NEIGHBOURS: frozenset[Kind] = frozenset(
    ("divided", "factor", "repeated", "reversed", "shared")
)
"""Causes that state the distance of neighbours, or that they are equal."""
# Comparisons of a range with a bound that change at multiples if the bound is a multiple, for a
# range on the left and on the right.
_BEFORE_MULTIPLES = frozenset(("slt", "ult", "sge", "uge"))
_AFTER_MULTIPLES = frozenset(("sgt", "ugt", "sle", "ule"))


def not_contiguous(axes: Axes, value: str, dim: int, need: int) -> Blame:
    """The cause that fewer than `need` neighbours along a dimension are adjacent in memory."""
    blame = _BlameWalk(axes).contiguity(value, dim, need)
    if blame.kind not in ("constant", "value"):
        return blame
    load = loaded_tile(axes, blame.value)
    return blame if load is None else Blame("loaded", load.results[0], load)


def not_divisible(axes: Axes, value: str, dim: int, need: int) -> Blame:
    """The cause that the first of the neighbours is not known to be a multiple of `need`."""
    return _BlameWalk(axes).divisibility(value, dim, need)


def not_constant(axes: Axes, value: str, dim: int, need: int) -> Blame:
    """The cause that fewer than `need` neighbours along a dimension are known to be equal."""
    return _BlameWalk(axes).constancy(value, dim, need)


def is_argument(axes: Axes, value: str) -> bool:
    """Whether a value is an argument of the function."""
    argument = axes.graph.carried.get(value)
    return argument is not None and argument.owner.name in FUNCTIONS


class _BlameWalk:
    """A walk back that begins at `contiguity`, `divisibility` or `constancy`; the rules
    are below.
    """

    __slots__ = ("axes", "visited")

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self.visited: set[str] = set()

    def _facts(self, name: str, dim: int) -> AxisFacts:
        return self.axes.of(name, dim + 1)

    def _end(self, name: str) -> Blame:
        """The cause that is the value itself."""
        if is_argument(self.axes, name):
            return Blame("argument", name)
        op = self.axes.graph.producers.get(name)
        if op is None:
            return Blame("value", name)
        constant = self.axes.of(name).constant
        if constant is not None:
            return Blame("constant", name, op, constant)
        return Blame(_KINDS.get(op.name.rpartition(".")[2], "value"), name, op)

    def _next(self, name: str) -> TtgirOp | None:
        """The operation to continue with; None where the walk ends."""
        if name in self.visited or len(self.visited) > _MOST_STEPS:
            return None
        self.visited.add(name)
        return self.axes.graph.producers.get(name)

    def _source(self, name: str, lacks: Callable[[str], bool]) -> str | None:
        """A source of a carried or merged value that lacks the fact.

        Constants come last: the computation in a loop says more than its initial value.
        """
        graph = self.axes.graph
        argument = graph.carried.get(name)
        sources = argument.sources if argument is not None else graph.merged.get(name, ())
        lacking = [s for s in sources if s not in self.visited and lacks(s)]
        return min(lacking, key=lambda s: self.axes.of(s).constant is not None, default=None)

    def contiguity(self, name: str, dim: int, need: int) -> Blame:
        """The cause of a value's lack of contiguity."""
        source = self._source(name, lambda s: self._facts(s, dim).contiguity[dim] < need)
        op = self._next(name)
        if source is not None:
            self.visited.add(name)
            cause = self.contiguity(source, dim, need)
            if cause.kind in _OF_ALL_NEIGHBOURS and not self.moves_as_one(name, dim):
                return Blame("value", name, op)
            return cause
        if op is None or name in self.axes.graph.merged:
            return self._end(name)
        through = dimension_before(op, dim)
        if through is not None:
            inner = op.operands[0]
            if op.operand_types[0].shape and through >= 0:
                if op.name == "tt.broadcast" and op.operand_types[0].shape[dim] == 1:
                    return Blame("repeated", inner, op)
                return self.contiguity(inner, through, need)
            return Blame("repeated", inner, op)
        rule = _CONTIGUITY.get(op.name)
        return self._end(name) if rule is None else rule(self, op, dim, need)

    def moves_as_one(self, name: str, dim: int) -> bool:
        """Whether a loop only adds uniform amounts to a carried value."""
        argument = self.axes.graph.carried.get(name)
        if argument is None or argument.owner.name != "scf.for" or not argument.sources:
            return False
        op = self.axes.graph.producers.get(argument.sources[-1])
        if op is None or op.name not in ("arith.addi", "tt.addptr") or name not in op.operands:
            return False
        return any(self.is_uniform(op, n, dim) for n in op.operands[:2] if n != name)

    def sum_contiguity(self, op: TtgirOp, dim: int, need: int) -> Blame:
        """The cause in a sum: the operand that is neither constant nor contiguous."""
        for name in op.operands[:2]:
            facts = self._facts(name, dim)
            if facts.contiguity[dim] < need and facts.constancy[dim] < need:
                other_operands = [n for n in op.operands[:2] if n != name]
                is_only = all(self.is_uniform(op, operand, dim) for operand in other_operands)
                return self.of_operand(op, name, dim, need, is_only=is_only)
        moving = [n for n in op.operands[:2] if not self.is_uniform(op, n, dim)]
        if not moving:
            return Blame("repeated", op.results[0], op)
        if all(self._facts(n, dim).constancy[dim] >= need for n in moving):
            is_only = len(moving) == 1  # neighbours are equal in groups
            return self.of_operand(op, moving[0], dim, need, is_only=is_only)
        if op.name == "arith.subi" and moving == [op.operands[1]]:
            return Blame("reversed", op.results[0], op)
        return self._end(op.results[0])

    def of_operand(
        self, op: TtgirOp, name: str, dim: int, need: int, *, is_only: bool = False
    ) -> Blame:
        """An operand's cause, if it applies to the operation's result as well.

        A distance of neighbours, or their equality, applies only where the operand is the only one
        that changes from neighbour to neighbour.
        """
        cause = self.contiguity(name, dim, need)
        if cause.kind in _OF_ALL_NEIGHBOURS and not is_only:
            return Blame("value", op.results[0], op)
        return cause

    def is_uniform(self, op: TtgirOp, name: str, dim: int) -> bool:
        """Whether an operand of an elementwise operation is the same along an entire dimension."""
        shape = op.result_types[0].shape
        return not shape or self._facts(name, dim).constancy[dim] >= shape[dim]

    def product_contiguity(self, op: TtgirOp, dim: int, need: int) -> Blame:
        """The cause in a product: the factor common to all neighbours and not known to be 1."""
        a, b = op.operands[:2]
        for moving, factor in ((a, b), (b, a)):
            facts, steps = self._facts(factor, dim), self._facts(moving, dim)
            if facts.constancy[dim] >= need and steps.constancy[dim] < facts.constancy[dim]:
                if facts.constant == 1:
                    return self.contiguity(moving, dim, need)
                if steps.contiguity[dim] < need:
                    cause = self.contiguity(moving, dim, need)
                    if cause.kind in ("shared", "reversed"):
                        return replace(cause, factor=self.scalar(factor))
                    if cause.kind in ("divided", "loaded") or facts.constant is not None:
                        return cause  # a factor of 1 would not help
                    if cause.kind == "factor":
                        return replace(self.factor(factor), factor=cause.value)
                return self.factor(factor)
        return self._end(op.results[0])

    def factor(self, name: str) -> Blame:
        """The cause that is a factor, by its scalar."""
        name = self.scalar(name)
        constant = self.axes.of(name).constant
        return Blame("factor", name, self.axes.graph.producers.get(name), constant)

    def scalar(self, name: str) -> str:
        """The value that a tensor of equal elements was spread from."""
        op = self.axes.graph.producers.get(name)
        while op is not None and op.name.rpartition(".")[2] in SPREADS:
            name = op.operands[0]
            op = self.axes.graph.producers.get(name)
        return name

    def wrapped(self, op: TtgirOp, dim: int, need: int) -> Blame:
        """The cause in a remainder or quotient: the range, its start, or where it wraps around."""
        a, b = op.operands[:2]
        ranged, divisor = self._facts(a, dim), self._facts(b, dim)
        if ranged.contiguity[dim] < need and divisor.constant != 1:
            return self.of_operand(op, a, dim, need)
        if "div" in op.name:
            result = self._facts(op.results[0], dim)
            is_shared = divisor.constant is not None or result.constancy[dim] > 1
            return Blame("shared" if is_shared else "divided", self.scalar(b), op, divisor.constant)
        if divisor.constancy[dim] >= need and divisor.divisibility[dim] < need:
            return Blame("wrap", self.scalar(b), op, divisor.constant)
        if ranged.divisibility[dim] < need:
            return self.divisibility(a, dim, need)
        return self._end(op.results[0])

    def shifted(self, op: TtgirOp, dim: int, need: int) -> Blame:
        """The cause in a shift, which divides or multiplies."""
        a, b = op.operands[:2]
        amount = self._facts(b, dim).constant
        if amount is None or not 0 < amount < _LONGEST_SHIFT:
            return self._end(op.results[0])
        if self._facts(a, dim).contiguity[dim] < need:
            return self.of_operand(op, a, dim, need)
        kind: Kind = "factor" if op.name == "arith.shli" else "shared"
        return Blame(kind, self.scalar(b), op, 1 << amount)

    def cleared(self, op: TtgirOp, dim: int, need: int) -> Blame:
        """The cause in a mask of the lowest bits, which gives groups of neighbours one value."""
        a, b = op.operands[:2]
        mask = self._facts(b, dim).constant
        if mask is None or mask >= -1 or -mask & (-mask - 1):
            return self._end(op.results[0])
        if self._facts(a, dim).contiguity[dim] < need:
            return self.of_operand(op, a, dim, need)
        return Blame("shared", self.scalar(b), op, -mask, factor=self.scalar(b))

    def choice(self, op: TtgirOp, dim: int, need: int) -> Blame:
        """The cause in a minimum, maximum or select: the first choice that is not contiguous."""
        choices_start = 1 if op.name == "arith.select" else 0
        for name in op.operands[choices_start:]:
            if self._facts(name, dim).contiguity[dim] < need:
                return self.of_operand(op, name, dim, need)
        return self._end(op.results[0])

    def divisibility(self, name: str, dim: int, need: int) -> Blame:
        """The cause of a value's lack of divisibility."""

        def lacks(s: str) -> bool:
            return self._facts(s, dim).divisibility[dim] < need

        source = self._source(name, lacks)
        op = self._next(name)
        if source is not None:
            self.visited.add(name)
            return self.divisibility(source, dim, need)
        if op is None or name in self.axes.graph.merged:
            return self._end(name)
        through = dimension_before(op, dim)
        if through is not None:
            return self.divisibility(op.operands[0], max(0, through), need)
        rule = _DIVISIBILITY.get(op.name)
        return self._end(name) if rule is None else rule(self, op, dim, need)

    def sum_divisibility(self, op: TtgirOp, dim: int, need: int) -> Blame:
        """The cause in a sum: a constant that is no multiple, else the least divisible operand."""
        scale = pointee_bytes(op.operand_types[0]) if op.name == "tt.addptr" else 1
        lacking: list[tuple[int, str, int]] = []
        for k, name in enumerate(op.operands[:2]):
            operand_scale = scale if k else 1
            divisibility = self._facts(name, dim).divisibility[dim] * operand_scale
            if divisibility < need:
                lacking.append((divisibility, name, max(1, need // operand_scale)))
        lacking.sort(key=lambda operand: operand[0])
        causes: list[Blame] = []
        for _, name, operand_need in lacking:
            constant = self.axes.of(name).constant
            if constant is not None:
                return Blame("shift", name, op, constant)
            causes.append(self.divisibility(name, dim, operand_need))
        if causes:  # beside an added constant nothing else helps
            return next((cause for cause in causes if cause.kind == "shift"), causes[0])
        # The sum's runs are shorter than needed, for the same cause as its multiples.
        for name in op.operands[:2]:
            if 1 < self._facts(name, dim).contiguity[dim] < need:
                return self.contiguity(name, dim, need)
        return self._end(op.results[0])

    def product_divisibility(self, op: TtgirOp, dim: int, need: int) -> Blame:
        """The cause in a product: the less divisible factor, less what the other contributes."""
        a, b = op.operands[:2]
        facts_of = {name: self._facts(name, dim) for name in (a, b)}
        divisibilities = {
            name: facts.divisibility[dim] if facts.contiguity[dim] == 1 else 1
            for name, facts in facts_of.items()
        }
        # Arguments and constants are easier to change than computed factors.
        movable = [n for n in (a, b) if self._facts(n, dim).constant is None]
        stated = [n for n in movable if is_argument(self.axes, self.scalar(n))]
        numbers = [n for n in (a, b) if n not in movable and self._facts(n, dim).constant != 1]
        candidates = stated or numbers or movable or [a]
        worst = min(candidates, key=lambda n: divisibilities[n])
        other_divisibility = min(divisibilities[b if worst == a else a], need)
        return self.divisibility(worst, dim, max(1, need // max(1, other_divisibility)))

    def constancy(self, name: str, dim: int, need: int) -> Blame:
        """The cause of a value's lack of constancy."""
        source = self._source(name, lambda s: self._facts(s, dim).constancy[dim] < need)
        op = self._next(name)
        if source is not None:
            self.visited.add(name)
            return self.constancy(source, dim, need)
        if op is None or name in self.axes.graph.merged:
            return self._end(name)
        through = dimension_before(op, dim)
        if through is not None and through >= 0:
            return self.constancy(op.operands[0], through, need)
        rule = _CONSTANCY.get(op.name)
        return self._end(name) if rule is None else rule(self, op, dim, need)

    def bits_constancy(self, op: TtgirOp, dim: int, need: int) -> Blame:
        """The cause in an elementwise operation: the first operand that is not constant."""
        for name in op.operands:
            if self._facts(name, dim).constancy[dim] < need:
                return self.constancy(name, dim, need)
        return self._end(op.results[0])

    def comparison(self, op: TtgirOp, dim: int, need: int) -> Blame:
        """The cause in a comparison of a range with a bound: why they do not cross at multiples."""
        a, b = op.operands[:2]
        ranged, bound = (a, b) if self._facts(b, dim).constancy[dim] >= need else (b, a)
        steps = _BEFORE_MULTIPLES if ranged == a else _AFTER_MULTIPLES
        if op.attributes.get("predicate") not in steps:
            return Blame("predicate", op.results[0], op)
        if self._facts(ranged, dim).contiguity[dim] < need:
            return self.contiguity(ranged, dim, need)
        for name in (bound, ranged):
            if self._facts(name, dim).divisibility[dim] < need:
                return self.divisibility(name, dim, need)
        return self._end(op.results[0])


_KINDS: Mapping[str, Kind] = {
    "load": "loaded",
    "buffer_load": "loaded",
    "get_program_id": "program",
    "make_range": "range",
}
_Rule = Callable[[_BlameWalk, TtgirOp, int, int], Blame]

_CONTIGUITY: Mapping[str, _Rule] = {
    "arith.addi": _BlameWalk.sum_contiguity,
    "arith.andi": _BlameWalk.cleared,
    "arith.divsi": _BlameWalk.wrapped,
    "arith.divui": _BlameWalk.wrapped,
    "arith.maxsi": _BlameWalk.choice,
    "arith.minsi": _BlameWalk.choice,
    "arith.muli": _BlameWalk.product_contiguity,
    "arith.remsi": _BlameWalk.wrapped,
    "arith.remui": _BlameWalk.wrapped,
    "arith.select": _BlameWalk.choice,
    "arith.shli": _BlameWalk.shifted,
    "arith.shrsi": _BlameWalk.shifted,
    "arith.shrui": _BlameWalk.shifted,
    "arith.subi": _BlameWalk.sum_contiguity,
    "tt.addptr": _BlameWalk.sum_contiguity,
}
_DIVISIBILITY: Mapping[str, _Rule] = {
    "arith.addi": _BlameWalk.sum_divisibility,
    "arith.muli": _BlameWalk.product_divisibility,
    "arith.subi": _BlameWalk.sum_divisibility,
    "tt.addptr": _BlameWalk.sum_divisibility,
}
_CONSTANCY: Mapping[str, _Rule] = {
    "arith.andi": _BlameWalk.bits_constancy,
    "arith.cmpi": _BlameWalk.comparison,
    "arith.ori": _BlameWalk.bits_constancy,
    "arith.select": _BlameWalk.bits_constancy,
}
