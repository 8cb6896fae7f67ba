"""Operands of dots that come from LDS less than 32 bits per lane at a time, and why.

A lane reads neighbours along K. Where K is not the contiguous dimension in LDS each element is read
by itself, and another order in global memory would mend it: unless that order could not be loaded
widely, or nobody gains from writing it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from ..model import Scalar, SourceLoc, TtgirOp
from ..ttgir.axes.flow import Graph, analyze, functions
from ..ttgir.axes.tiles import Layouts, Tile, limits_of, needed_values, tile_of
from ..ttgir.flow import Flow, distinct_program_axes, program_axes, rests_on_loads
from ..ttgir.lowered import element_bits
from ..ttgir.trips import LOCAL_LOAD, Staging
from .mix import NARROW_BITS

KINDS = ("loaded", "twice", "masked", "indexed", "unshared", "apart", "computed")


def narrow_operands(flow: Flow, staged: Staging) -> dict[str, Scalar]:
    """Reads of less than 32 bits per lane in the loops with dots, by what stands behind them.

    Args:
        flow: the module's values.
        staged: the ways of its loaded tiles to the dots.

    Returns:
        kind (`KINDS`) -> machine reads of one iteration of each loop, added up.
    """
    counts: Counter[str] = Counter()
    for op, kind in narrow_reads(flow, staged).items():
        counts[kind] += narrow_accesses(flow.module.ops[op])
    return {kind: counts[kind] for kind in KINDS}


def narrow_reads(flow: Flow, staged: Staging) -> dict[int, str]:
    """Per operation that reads LDS by less than 32 bits, in a loop with dots: its kind.

    A tile that is several of `KINDS` is of the last one that they name.
    """
    loads: dict[int, list[TtgirOp]] = {}  # read of LDS -> where its tile comes from
    dots: dict[int, list[TtgirOp]] = {}  # and where it goes
    # load -> the dots that its tile is for, by place: peeled iterations hold copies of one dot
    products_of: dict[int, set[SourceLoc | int]] = {}
    for way in staged.ways:
        products_of.setdefault(way.load.index, set()).add(way.dot.loc or way.dot.index)
        for _, read in way.trips:
            loads.setdefault(read.index, []).append(way.load)
            dots.setdefault(read.index, []).append(way.dot)
    computed = {op.index for op in staged.computed}
    order = _OtherOrder(flow)
    kinds: dict[int, str] = {}
    for op in flow.module.ops:
        if op.name in LOCAL_LOAD and flow.in_dot_loop(op) and narrow_accesses(op):
            behind = loads.get(op.index, ())
            if op.index in computed:
                kind = "computed"
            elif _is_narrow_by_nature(op, dots.get(op.index, ())):
                kind = "apart"
            elif behind and all(order.is_for_nobody(load) for load in behind):
                kind = "unshared"
            elif any(rests_on_loads(flow, load) for load in behind):
                kind = "indexed"
            elif any(order.is_masked(load) for load in behind):
                kind = "masked"
            elif any(len(products_of[load.index]) > 1 for load in behind):
                kind = "twice"
            else:
                kind = "loaded"
            kinds[op.index] = kind
    return kinds


def narrow_accesses(read: TtgirOp) -> int:
    """Accesses of less than 32 bits per lane that a read of a tile in LDS becomes."""
    tile = tile_of(read)
    limits = None if tile is None else limits_of(tile, None, Layouts())
    return (
        limits.thread_elements // limits.elements
        if limits is not None and limits.width < NARROW_BITS
        else 0
    )


def _is_narrow_by_nature(read: TtgirOp, dots: Sequence[TtgirOp]) -> bool:
    """Whether the dot takes fewer neighbours along K from a lane than 32 bits hold.

    A tile that is widened between LDS and the dot has fewer: of its layout the dot's operand tells.
    """
    bits = element_bits(read.result_types[0].element)
    tile_types = [
        *read.result_types,
        *(tile_type for dot in dots for tile_type in dot.operand_types[:2]),
    ]
    widths = [
        tile_type.layout.params.get("kWidth")
        for tile_type in tile_types
        if tile_type.layout is not None
    ]
    known_widths = [width for width in widths if isinstance(width, int)]
    return bits is not None and bool(known_widths) and min(known_widths) * bits < NARROW_BITS


class _OtherOrder:
    """What would become of loads if their tensors were stored with K contiguous."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def is_masked(self, load: TtgirOp) -> bool:
        """Whether a mask changes along the tile's other dimension, so that it would be loaded by
        less than 32 bits: a size that is not known to be a multiple of 16, most often.
        """
        tile = self._tiles.get(load.index)
        if tile is None or tile.mask is None or len(tile.tensor_type.shape) != 2:
            return False
        graph = next(graph for graph in self._graphs if any(op is tile.op for op in graph.ops))
        axes = analyze(graph, needed_values([tile]))
        limits = limits_of(tile, axes, Layouts())
        if limits is None:
            return False
        other_dim = 1 - limits.dim
        return axes.of(tile.mask, 2).constancy[other_dim] * limits.bits < NARROW_BITS

    def is_for_nobody(self, load: TtgirOp) -> bool:
        """Whether each workgroup reads a part of its own, as far as the addresses tell: to write
        another order costs as much as the kernel reads.
        """
        values = self._flow.operands[load.index]
        addresses = [
            value
            for value, operand_type in zip(values, load.operand_types, strict=False)
            if operand_type.element != "i1"  # a mask
        ]
        return bool(self._axes) and self._axes <= distinct_program_axes(self._flow, addresses)

    @cached_property
    def _axes(self) -> frozenset[str]:
        return program_axes(self._flow.module)

    @cached_property
    def _graphs(self) -> list[Graph]:
        return functions(self._flow.module)

    @cached_property
    def _tiles(self) -> dict[int, Tile]:
        tiles = (tile_of(op) for graph in self._graphs for op in graph.ops)
        return {tile.op.index: tile for tile in tiles if tile is not None}
