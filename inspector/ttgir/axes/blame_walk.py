"""The walk back from a value that lacks a fact to what could first hold it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from ...model import TtgirOp
from .analysis import Axes, is_argument
from .blamed import Blame, Kind
from .facts import AxisFacts
from .graph import SPREADS, dimension_before

_MOST_VALUES = 200
"""Visited values from which on no operation is followed. Values that loops and branches merge are
still followed to their sources, each at most once."""
_OF_ALL_NEIGHBOURS: frozenset[Kind] = frozenset(
    ("divided", "factor", "repeated", "reversed", "shared")
)
"""Causes that state the distance of neighbours, or that they are equal."""
_INTEGER_CASTS = frozenset(("arith.extsi", "arith.extui", "arith.trunci"))
_KINDS_BY_OP: Mapping[str, Kind] = {
    "load": "loaded",
    "buffer_load": "loaded",
    "get_program_id": "program",
    "make_range": "range",
}
"""Operation, without its dialect -> the kind of a cause that it is; `value` for all others."""

Rule = Callable[["BlameWalk", TtgirOp, int, int], Blame]
"""Takes the walk, an operation whose result lacks a fact, the dimension and the elements needed."""


class Rules(Struct, frozen=True):
    """The rules by which operations are followed: name of the operation -> its rule, per fact."""

    contiguity: Mapping[str, Rule]
    divisibility: Mapping[str, Rule]
    constancy: Mapping[str, Rule]


class BlameWalk:
    """One walk back, which begins at `contiguity`, `divisibility` or `constancy`.

    All three take a value's name, the dimension, and the elements (divisibility: the divisor) that
    are needed and not known to be there.

    Attributes:
        axes: the facts of the values, and their origins.
    """

    __slots__ = ("_rules", "_visited", "axes")

    def __init__(self, axes: Axes, rules: Rules) -> None:
        self.axes = axes
        self._rules = rules
        self._visited: set[str] = set()

    def contiguity(self, name: str, dim: int, need: int) -> Blame:
        """The cause of a value's lack of contiguity."""
        source, op = self._step(name, lambda s: self.facts(s, dim).contiguity[dim] < need)
        if source is not None:
            cause = self.contiguity(source, dim, need)
            if cause.kind in _OF_ALL_NEIGHBOURS and not self._moves_uniformly(name, dim):
                return Blame("value", name, op)
            return cause
        if op is None:
            return self.end(name)
        before = dimension_before(op, dim)
        if before is None:
            rule = self._rules.contiguity.get(op.name)
            return self.end(name) if rule is None else rule(self, op, dim, need)
        spread, shape = op.operands[0], op.operand_types[0].shape
        if not shape or before < 0 or (op.name == "tt.broadcast" and shape[dim] == 1):
            return Blame("repeated", spread, op)
        return self.contiguity(spread, before, need)

    def divisibility(self, name: str, dim: int, need: int) -> Blame:
        """The cause of a value's lack of divisibility."""
        source, op = self._step(name, lambda s: self.facts(s, dim).divisibility[dim] < need)
        if source is not None:
            return self.divisibility(source, dim, need)
        if op is None:
            return self.end(name)
        before = dimension_before(op, dim)
        if before is not None:
            return self.divisibility(op.operands[0], max(0, before), need)
        rule = self._rules.divisibility.get(op.name)
        return self.end(name) if rule is None else rule(self, op, dim, need)

    def constancy(self, name: str, dim: int, need: int) -> Blame:
        """The cause of a value's lack of constancy."""
        source, op = self._step(name, lambda s: self.facts(s, dim).constancy[dim] < need)
        if source is not None:
            return self.constancy(source, dim, need)
        if op is None:
            return self.end(name)
        before = dimension_before(op, dim)
        if before is not None and before >= 0:
            return self.constancy(op.operands[0], before, need)
        rule = self._rules.constancy.get(op.name)
        return self.end(name) if rule is None else rule(self, op, dim, need)

    def contiguity_through(
        self, op: TtgirOp, name: str, dim: int, need: int, *, is_only: bool = False
    ) -> Blame:
        """The cause of an operand's lack, if it applies to the operation's result as well.

        A distance of neighbours, or their equality, applies only where the operand is the only one
        that changes from neighbour to neighbour.
        """
        cause = self.contiguity(name, dim, need)
        if cause.kind in _OF_ALL_NEIGHBOURS and not is_only:
            return Blame("value", op.results[0], op)
        return cause

    def end(self, name: str) -> Blame:
        """The cause that is the value itself."""
        if is_argument(self.axes, name):
            return Blame("argument", name)
        op = self.axes.graph.producers.get(name)
        if op is None:
            return Blame("value", name)
        constant = self.axes.of(name).constant
        if constant is not None:
            return Blame("constant", name, op, constant)
        return Blame(_KINDS_BY_OP.get(op.name.rpartition(".")[2], "value"), name, op)

    def facts(self, name: str, dim: int) -> AxisFacts:
        """The facts of a value that has this dimension."""
        return self.axes.of(name, dim + 1)

    def is_uniform(self, op: TtgirOp, name: str, dim: int) -> bool:
        """Whether an operand of an elementwise operation is the same along an entire dimension."""
        shape = op.result_types[0].shape
        return not shape or self.facts(name, dim).constancy[dim] >= shape[dim]

    def scalar(self, name: str) -> str:
        """The value that a tensor of equal elements was spread from."""
        op = self.axes.graph.producers.get(name)
        while op is not None and op.name.rpartition(".")[2] in SPREADS:
            name = op.operands[0]
            op = self.axes.graph.producers.get(name)
        return name

    def _step(self, name: str, lacks: Callable[[str], bool]) -> tuple[str | None, TtgirOp | None]:
        """Visits a value, and returns where to go on from there."""
        graph = self.axes.graph
        source = self._source(name, lacks)
        may_follow = name not in self._visited and len(self._visited) <= _MOST_VALUES
        self._visited.add(name)
        if not may_follow or (source is None and name in graph.merged):
            return source, None
        return source, graph.producers.get(name)

    def _source(self, name: str, lacks: Callable[[str], bool]) -> str | None:
        """A source of a carried or merged value that lacks the fact."""
        graph = self.axes.graph
        argument = graph.carried.get(name)
        sources = argument.sources if argument is not None else graph.merged.get(name, ())
        lacking = [s for s in sources if s not in self._visited and lacks(s)]
        return min(lacking, key=lambda s: self.axes.of(s).constant is not None, default=None)

    def _moves_uniformly(self, name: str, dim: int) -> bool:
        """Whether a loop only adds uniform amounts to a carried value: its neighbours keep their
        distance.
        """
        argument = self.axes.graph.carried.get(name)
        if argument is None or argument.owner.name != "scf.for" or not argument.sources:
            return False
        op = self.axes.graph.producers.get(self._before_casts(argument.sources[-1]))
        if op is None or op.name not in ("arith.addi", "tt.addptr"):
            return False
        others = [n for n in op.operands[:2] if self._before_casts(n) != name]
        return len(others) < len(op.operands[:2]) and any(
            self.is_uniform(op, n, dim) for n in others
        )

    def _before_casts(self, name: str) -> str:
        """The value that a value is, before conversions between integers of different widths."""
        op = self.axes.graph.producers.get(name)
        while op is not None and op.name in _INTEGER_CASTS:
            name = op.operands[0]
            op = self.axes.graph.producers.get(name)
        return name
