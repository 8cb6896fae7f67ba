"""Uniform parts of addresses that leave the start of a run unaligned."""

from __future__ import annotations

from ..lowered import pointee_bytes
from .analysis import Axes
from .blame import not_divisible
from .cause import Blame
from .graph import dimension_before

_DEEPEST = 32
_SUMS = frozenset(("arith.addi", "arith.subi", "tt.addptr"))


def unaligned_start(axes: Axes, value: str, dim: int, need: int) -> Blame | None:
    """The cause that runs along a dimension do not begin at a multiple; None where none is seen.

    `value`: a tensor of offsets or pointers; `dim`: the dimension of the run; `need`: the required
    divisor of the start; bytes for pointers, elements for offsets.
    """
    return _start(axes, value, dim, need, set())


def shift_of(axes: Axes, value: str, depth: int = 0) -> int:
    """The sum of the constants added to a tensor of offsets or pointers, in elements.

    `value`: the tensor; constants added before a scaling are not counted; `depth`: number of
    operations followed so far.
    """
    number = axes.of(value).constant
    if number is not None:
        return int(number)
    op = axes.graph.producers.get(value)
    if op is None or not op.operands or depth > _DEEPEST:
        return 0
    if op.name in _SUMS:
        left_shift, right_shift = (
            shift_of(axes, operand, depth + 1) for operand in op.operands[:2]
        )
        return left_shift - right_shift if op.name == "arith.subi" else left_shift + right_shift
    if dimension_before(op, 0) is None:
        return 0
    return shift_of(axes, op.operands[0], depth + 1)


def _start(axes: Axes, name: str, dim: int, need: int, visited: set[str]) -> Blame | None:
    """The cause for the start of a value, followed back through sums and reshapes."""
    if name in visited:
        return None
    visited.add(name)
    graph = axes.graph
    argument = graph.carried.get(name)
    sources = argument.sources if argument is not None else graph.merged.get(name, ())
    op = graph.producers.get(name)
    if sources:
        return _first_cause(axes, [(source, need) for source in sources], dim, visited)
    if op is None or not op.operands:
        return None
    through = dimension_before(op, dim)
    if through is not None:
        source_type = op.operand_types[0]
        if not source_type.shape or through < 0 or source_type.shape[through] == 1:
            return _uniform(axes, op.operands[0], need)
        return _start(axes, op.operands[0], through, need, visited)
    if op.name not in _SUMS:
        return None
    scale = pointee_bytes(op.operand_types[0]) if op.name == "tt.addptr" else 1
    operand_needs = (need, max(1, need // scale))
    shape = op.result_types[0].shape
    if not shape:
        return _uniform(axes, name, need)
    summands = list(zip(op.operands[:2], operand_needs, strict=True))
    for summand, summand_need in summands:
        if axes.of(summand, dim + 1).constancy[dim] >= shape[dim]:
            blame = _uniform(axes, summand, summand_need)
            if blame is not None:
                return blame
    moving = [p for p in summands if axes.of(p[0], dim + 1).constancy[dim] < shape[dim]]
    return _first_cause(axes, moving, dim, visited)


def _first_cause(
    axes: Axes, values: list[tuple[str, int]], dim: int, visited: set[str]
) -> Blame | None:
    for name, need in values:
        blame = _start(axes, name, dim, need, visited)
        if blame is not None:
            return blame
    return None


def _uniform(axes: Axes, name: str, need: int) -> Blame | None:
    """The cause in a value that is the same for all neighbours; constants are left out."""
    facts = axes.of(name)
    if facts.constant is not None or facts.divisibility[0] >= need:
        return None
    return not_divisible(axes, name, 0, need)
