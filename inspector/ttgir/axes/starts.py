"""What is added to a run of addresses as a whole and leaves the place where it begins unaligned.

Where neighbours are not known to be contiguous, the facts of the sum say nothing of the alignment
that the run would have: it rests on the parts that are the same for all neighbours.
"""

from __future__ import annotations

from .blame import not_divisible
from .cause import Blame
from .flow import Axes
from .reshaping import dimension_before
from .transfer import pointee_bytes

_DEEPEST = 32
_SUMS = frozenset(("arith.addi", "arith.subi", "tt.addptr"))


def unaligned_start(axes: Axes, value: str, dim: int, need: int) -> Blame | None:
    """Why runs along a dimension do not begin at a multiple; None where nothing is seen.

    Args:
        axes: the facts.
        value: a tensor of offsets or pointers.
        dim: the dimension of the run.
        need: what the start is to be a multiple of; bytes for pointers, elements for offsets.
    """
    return _start(axes, value, dim, need, set())


def shift_of(axes: Axes, value: str, depth: int = 0) -> int:
    """What numbers add to a tensor of offsets or pointers, in elements.

    Args:
        axes: the facts.
        value: the tensor; what is added before it is scaled is not looked at.
        depth: of the operations that were followed.
    """
    number = axes.of(value).constant
    if number is not None:
        return int(number)
    op = axes.graph.made.get(value)
    if op is None or not op.operands or depth > _DEEPEST:
        return 0
    if op.name in _SUMS:
        first, second = (shift_of(axes, operand, depth + 1) for operand in op.operands[:2])
        return first - second if op.name == "arith.subi" else first + second
    if dimension_before(op, 0) is None:
        return 0
    return shift_of(axes, op.operands[0], depth + 1)


def _start(axes: Axes, name: str, dim: int, need: int, visited: set[str]) -> Blame | None:
    if name in visited:
        return None
    visited.add(name)
    graph = axes.graph
    argument = graph.carried.get(name)
    sources = argument.sources if argument is not None else graph.merged.get(name, ())
    op = graph.made.get(name)
    if sources:
        return _first(axes, [(source, need) for source in sources], dim, visited)
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
    needs = (need, max(1, need // scale))
    shape = op.result_types[0].shape
    if not shape:
        return _uniform(axes, name, need)
    parts = list(zip(op.operands[:2], needs, strict=True))
    for part, part_need in parts:
        if axes.of(part, dim + 1).constancy[dim] >= shape[dim]:
            blame = _uniform(axes, part, part_need)
            if blame is not None:
                return blame
    moving = [p for p in parts if axes.of(p[0], dim + 1).constancy[dim] < shape[dim]]
    return _first(axes, moving, dim, visited)


def _first(axes: Axes, values: list[tuple[str, int]], dim: int, visited: set[str]) -> Blame | None:
    for name, need in values:
        blame = _start(axes, name, dim, need, visited)
        if blame is not None:
            return blame
    return None


def _uniform(axes: Axes, name: str, need: int) -> Blame | None:
    """Of a value that is the same for all neighbours; numbers are left out.

    `arange(0, 64) + 1` and `63 - arange(0, 64)` differ in what a number does to the start.
    """
    facts = axes.of(name)
    if facts.constant is not None or facts.divisibility[0] >= need:
        return None
    return not_divisible(axes, name, 0, need)
