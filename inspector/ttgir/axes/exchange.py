"""Tiles that a loop computes with one dot and passes to the next one through LDS."""

from __future__ import annotations

from collections.abc import Iterator

from ...model import TtgirOp
from ..queries import DOTS, LOADS
from .graph import ValueGraph, makers

_MOST_STEPS = 2000


def rests_on_dot(graph: ValueGraph, value: str) -> bool:
    """Whether a tile in registers is computed from a dot's result without passing memory."""
    return any(op.name in DOTS for op in makers(graph, [value], _is_computation, _MOST_STEPS))


def rests_on_load(graph: ValueGraph, value: str) -> bool:
    """Whether a tile in registers is computed from one loaded from global memory."""
    return any(op.name in LOADS for op in makers(graph, [value], _is_computation, _MOST_STEPS))


def written_to(graph: ValueGraph, buffer: str) -> list[str]:
    """The tiles in registers that are written to a buffer, or to one that it is a view of."""
    allocated = {op.results[0] for op in _allocations(graph, buffer)}
    tiles = [
        op.operands[0]
        for op in graph.ops
        if _short(op) == "local_alloc" and op.operands and op.results[0] in allocated
    ]
    for op in graph.ops:
        if _short(op) == "local_store" and len(op.operands) > 1:
            roots = {root.results[0] for root in _allocations(graph, op.operands[1])}
            if not roots.isdisjoint(allocated):
                tiles.append(op.operands[0])
    return tiles


def reads_of(graph: ValueGraph, buffer: str) -> list[TtgirOp]:
    """The operations that read a buffer, or a part of it, into registers."""
    allocated = {op.results[0] for op in _allocations(graph, buffer)}
    return [
        op
        for op in graph.ops
        if _short(op) == "local_load"
        and op.operands
        and any(root.results[0] in allocated for root in _allocations(graph, op.operands[0]))
    ]


def _allocations(graph: ValueGraph, buffer: str) -> Iterator[TtgirOp]:
    """Yields the allocations of a buffer, through views and loops."""
    for op in makers(graph, [buffer], _is_view, _MOST_STEPS):
        if _short(op) == "local_alloc":
            yield op


def _is_view(op: TtgirOp) -> bool:
    return _short(op).startswith("memdesc_")


def _short(op: TtgirOp) -> str:
    return op.name.rpartition(".")[2]


def _is_computation(op: TtgirOp) -> bool:
    """Whether an operation computes a tile of registers from tiles of registers."""
    return op.name not in LOADS and op.name not in DOTS and _short(op) != "local_load"
