"""Uniform parts of addresses that leave the start of a run unaligned.

What is written to and read from an LDS buffer, and what a tile was computed from.
"""

from __future__ import annotations

from collections.abc import Callable

from ...model import TtgirOp
from ..lowered import pointee_bytes
from ..queries import DOTS, LOADS
from .analysis import Axes
from .blame import not_divisible
from .blamed import Blame
from .graph import ValueGraph, dimension_before, makers

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


_MOST_VALUES = 2000
"""Values after which a walk back ends; what lies behind them counts as absent."""


def comes_from_dot(graph: ValueGraph, value: str) -> bool:
    """Whether a tile in registers is computed from a dot's result without passing memory.

    The dot may lie in an earlier iteration or a branch; `conversions.follows_dot` leaves those out.
    """
    return _comes_from(graph, value, lambda op: op.name in DOTS)


def comes_from_load(graph: ValueGraph, value: str) -> bool:
    """Whether a tile in registers is computed from one loaded from global memory."""
    return bool(loads_behind(graph, value))


def loads_behind(graph: ValueGraph, value: str) -> list[TtgirOp]:
    """The loads from global memory that a tile in registers is computed from."""
    behind = makers(graph, [value], _is_computation, _MOST_VALUES)
    return [op for op in behind if op.name in LOADS]


def tiles_written_to(graph: ValueGraph, buffer: str) -> list[str]:
    """The tiles in registers, by name, that are written to a buffer or to one that it is a view of.

    Those that allocations are made with come first, then those stored, each in file order.
    """
    allocated = _allocated(graph, buffer)
    initial = [
        op.operands[0]
        for op in graph.ops
        if _short_name(op) == "local_alloc" and op.operands and op.results[0] in allocated
    ]
    stored = [
        op.operands[0]
        for op in graph.ops
        if _short_name(op) == "local_store"
        and len(op.operands) > 1
        and not allocated.isdisjoint(_allocated(graph, op.operands[1]))
    ]
    return initial + stored


def loads_from(graph: ValueGraph, buffer: str) -> list[TtgirOp]:
    """The operations that read a buffer, or a part of it, into registers, in file order."""
    allocated = _allocated(graph, buffer)
    return [
        op
        for op in graph.ops
        if _short_name(op) == "local_load"
        and op.operands
        and not allocated.isdisjoint(_allocated(graph, op.operands[0]))
    ]


def _allocated(graph: ValueGraph, buffer: str) -> set[str]:
    """The allocations, by result, that a buffer may be or be a view of, through loops as well."""
    return {
        op.results[0]
        for op in makers(graph, [buffer], _is_view, _MOST_VALUES)
        if _short_name(op) == "local_alloc"
    }


def _comes_from(graph: ValueGraph, value: str, is_origin: Callable[[TtgirOp], bool]) -> bool:
    """Whether such an operation lies behind a tile, with only computations in between."""
    return any(map(is_origin, makers(graph, [value], _is_computation, _MOST_VALUES)))


def _is_computation(op: TtgirOp) -> bool:
    """Whether an operation computes a tile of registers from tiles of registers."""
    return op.name not in LOADS and op.name not in DOTS and _short_name(op) != "local_load"


def _is_view(op: TtgirOp) -> bool:
    """Whether an operation yields a part or another form of a buffer."""
    return _short_name(op).startswith("memdesc_")


def _short_name(op: TtgirOp) -> str:
    """An operation's name without its dialect, which older Tritons call otherwise."""
    return op.name.rpartition(".")[2]
