"""Why the result of an operation is not known to be a multiple: which operand, or itself."""

from __future__ import annotations

from collections.abc import Mapping

from ...model import TtgirOp
from ..lowered import pointee_bytes
from .analysis import is_argument
from .blame_walk import BlameWalk, Rule
from .blamed import Blame
from .pointwise_rules import element_divisor

_SUMS = frozenset(("arith.addi", "arith.subi", "arith.extsi", "arith.extui", "arith.trunci"))
_MOST_SUMMANDS = 20


def _of_sum(walk: BlameWalk, op: TtgirOp, dim: int, need: int) -> Blame:
    """In a sum: a constant that is no multiple, else the least divisible operand."""
    scale = pointee_bytes(op.operand_types[0]) if op.name == "tt.addptr" else 1
    lacking: list[tuple[int, str, int]] = []  # divisibility, operand, what it would need
    for name, operand_scale in zip(op.operands[:2], (1, scale), strict=False):
        divisibility = walk.facts(name, dim).divisibility[dim] * operand_scale
        if divisibility < need:
            lacking.append((divisibility, name, max(1, need // operand_scale)))
    lacking.sort(key=lambda operand: operand[0])
    causes: list[Blame] = []
    for _, name, operand_need in lacking:
        constant = walk.axes.of(name).constant
        if constant is not None:
            return Blame("shift", name, op, constant)
        causes.append(walk.divisibility(name, dim, operand_need))
    if causes:  # beside an added constant nothing else helps
        return next((cause for cause in causes if cause.kind == "shift"), causes[0])
    # The sum's runs are shorter than needed, for the same cause as its multiples.
    for name in op.operands[:2]:
        if 1 < walk.facts(name, dim).contiguity[dim] < need:
            return walk.contiguity(name, dim, need)
    return walk.end(op.results[0])


def _of_product(walk: BlameWalk, op: TtgirOp, dim: int, need: int) -> Blame:
    """In a product: the less divisible factor, less what the other contributes."""
    a, b = op.operands[:2]
    divisors = {name: element_divisor(walk.facts(name, dim), dim) for name in (a, b)}
    constants = {name: walk.facts(name, dim).constant for name in (a, b)}
    unknown = [name for name in (a, b) if constants[name] is None]
    arguments = [name for name in unknown if is_argument(walk.axes, walk.scalar(name))]
    numbers = [name for name in (a, b) if constants[name] not in (None, 1)]
    if not arguments and not numbers and len(unknown) > 1:
        unknown = [name for name in unknown if not _counts(walk, name, need)] or unknown
    worst = min(arguments or numbers or unknown or [a], key=lambda name: divisors[name])
    other_divisor = min(divisors[b if worst == a else a], need)
    return walk.divisibility(worst, dim, max(1, need // max(1, other_divisor)))


def _counts(walk: BlameWalk, name: str, need: int) -> bool:
    """Whether a value counts elements, or iterations by no multiples of `need`, or adds to that."""
    graph = walk.axes.graph
    pending, visited = [name], set[str]()
    while pending and len(visited) < _MOST_SUMMANDS:
        value = walk.scalar(pending.pop())
        if value in visited:
            continue
        visited.add(value)
        argument = graph.carried.get(value)
        if argument is not None:
            loop = argument.owner
            if loop.name == "scf.for" and argument.index == 0:
                return walk.axes.of(loop.operands[2]).divisibility[0] < need
            continue
        op = graph.producers.get(value)
        if op is not None and op.name == "tt.make_range":
            return True
        if op is not None and op.name in _SUMS:
            pending.extend(op.operands)
    return False


RULES: Mapping[str, Rule] = {
    "arith.addi": _of_sum,
    "arith.muli": _of_product,
    "arith.subi": _of_sum,
    "tt.addptr": _of_sum,
}
