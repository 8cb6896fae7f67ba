"""Matches operations of the TTGIR with machine accesses: by class and position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..model import MemoryOp, SourceLoc
from ..ttgir.axes.graph import ValueGraph
from ..ttgir.axes.tiles import Tile
from ..ttgir.axes.widths import WidthLimits
from ..ttgir.queries import LOOPS

_Key = tuple[str, SourceLoc]
"""(class, position), common to an operation and its machine accesses."""


def machine_accesses(
    graph: ValueGraph,
    tiles: Sequence[Tile],
    limits: Sequence[WidthLimits | None],
    memory_ops: Iterable[MemoryOp],
) -> list[list[MemoryOp]]:
    """The machine accesses of each tile, as far as positions tell.

    `tiles`: its operations that move tiles; `limits`: the limits on the width of each;
    `memory_ops`: the kernel's machine accesses.
    """
    ops_at: dict[_Key, list[MemoryOp]] = {}
    for op in memory_ops:
        if op.source is not None:
            ops_at.setdefault((op.cls, op.source), []).append(op)
    copies_at: dict[_Key, list[int]] = {}  # indices of tiles
    for index, tile in enumerate(tiles):
        if tile.op.loc is not None:
            copies_at.setdefault((tile.cls, tile.op.loc), []).append(index)
    loop_depths = _loop_depths(graph)
    matches: list[list[MemoryOp]] = [[] for _ in tiles]
    for key, copies in copies_at.items():
        depths = [loop_depths[tiles[index].op.index] for index in copies]
        copy_limits = [limits[index] for index in copies]
        for index, depth in zip(copies, depths, strict=True):
            ops = _at_depth(ops_at.get(key, []), depth, depths)
            matches[index] = _of_width(ops, limits[index], copy_limits)
    return matches


def _loop_depths(graph: ValueGraph) -> dict[int, int]:
    """The number of loops around each operation, by its index."""
    depths: dict[int, int] = {}
    for op in graph.ops:
        parent_depth = depths.get(op.parent, 0) if op.parent is not None else 0
        depths[op.index] = parent_depth + (op.name in LOOPS)
    return depths


def _at_depth(ops: list[MemoryOp], depth: int, copy_depths: Sequence[int]) -> list[MemoryOp]:
    """The machine accesses of the copy in `depth` loops."""
    levels, op_levels = sorted(set(copy_depths)), sorted({op.depth for op in ops})
    if len(levels) == 1:
        return ops
    levels_below = len(levels) - 1 - levels.index(depth)
    if levels_below >= len(op_levels):
        return []
    op_level = op_levels[len(op_levels) - 1 - levels_below]
    is_outermost = depth == levels[0]
    return [op for op in ops if op.depth == op_level or (is_outermost and op.depth < op_level)]


def _of_width(
    ops: list[MemoryOp], limits: WidthLimits | None, copy_limits: Sequence[WidthLimits | None]
) -> list[MemoryOp]:
    """The machine accesses of the copy's width, if copies differ in width; all of them if none has
    it.
    """
    widths = {copy.width for copy in copy_limits if copy is not None}
    if limits is None or len(widths) < 2:
        return ops
    return [op for op in ops if op.bits == limits.width] or ops
