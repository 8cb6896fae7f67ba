"""What is written to and read from an LDS buffer, and what a tile was computed from."""

from __future__ import annotations

from collections.abc import Callable

from ...model import TtgirOp
from ..queries import DOTS, LOADS
from .graph import ValueGraph, makers

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
