"""Operands of dots that are read from LDS by less than 32 bits per lane, and the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from ..model import Scalar, SourceLoc, TtgirOp
from ..ttgir.axes.analysis import analyze
from ..ttgir.axes.graph import ValueGraph, functions
from ..ttgir.axes.tiles import Tile, needed_values, tile_of
from ..ttgir.axes.widths import Layouts, limits_of
from ..ttgir.flow import DataFlow, distinct_program_axes, program_axes, rests_on_loads
from ..ttgir.lowered import element_bits
from ..ttgir.queries import LOCAL_LOAD
from ..ttgir.trips import Staging
from .mix import NARROW_BITS

KINDS = ("loaded", "twice", "masked", "indexed", "unshared", "apart", "computed")


def narrow_operands(flow: DataFlow, staged: Staging) -> dict[str, Scalar]:
    """Reads of less than 32 bits per lane in the loops with dots, by their kind.

    `staged`: the ways of its loaded tiles to the dots.

    Returns:
        kind (`KINDS`) -> machine reads of one iteration of each loop, added up.
    """
    counts: Counter[str] = Counter()
    for op, kind in narrow_reads(flow, staged).items():
        counts[kind] += narrow_accesses(flow.module.ops[op])
    return {kind: counts[kind] for kind in KINDS}


def narrow_reads(flow: DataFlow, staged: Staging) -> dict[int, str]:
    """Index of each operation that reads LDS by less than 32 bits in a loop with dots -> its kind.

    A tile of several `KINDS` has the last one of that list.
    """
    loads: dict[int, list[TtgirOp]] = {}  # read of LDS -> the loads of its tile
    dots: dict[int, list[TtgirOp]] = {}  # read of LDS -> the dots of its tile
    # load -> the dots of its tile, by position: peeled iterations have copies of one dot
    products_of: dict[int, set[SourceLoc | int]] = {}
    for way in staged.ways:
        products_of.setdefault(way.load.index, set()).add(way.dot.loc or way.dot.index)
        for _, lds_read in way.trips:
            loads.setdefault(lds_read.index, []).append(way.load)
            dots.setdefault(lds_read.index, []).append(way.dot)
    computed = {op.index for op in staged.computed} | _read_across(staged)
    order = _OtherOrder(flow)
    kinds: dict[int, str] = {}
    for op in flow.module.ops:
        if op.name in LOCAL_LOAD and flow.in_dot_loop(op) and narrow_accesses(op):
            tile_loads = loads.get(op.index, ())
            if op.index in computed:
                read_kind = "computed"
            elif _is_narrow_by_nature(op, dots.get(op.index, ())):
                read_kind = "apart"
            elif tile_loads and all(order.is_unshared(load) for load in tile_loads):
                read_kind = "unshared"
            elif any(rests_on_loads(flow, load) for load in tile_loads):
                read_kind = "indexed"
            elif any(order.is_masked(load) for load in tile_loads):
                read_kind = "masked"
            elif any(len(products_of[load.index]) > 1 for load in tile_loads):
                read_kind = "twice"
            else:
                read_kind = "loaded"
            kinds[op.index] = read_kind
    return kinds


def _read_across(staged: Staging) -> set[int]:
    """Reads of tiles with K contiguous in LDS that pass it once more on their way to a dot."""
    reads: set[int] = set()
    for way in staged.ways:
        for _, lds_read in way.trips[:-1]:
            in_lds = lds_read.operand_types[0].layout
            at_dot = way.trips[-1][1].result_types[0].layout
            if in_lds is None or at_dot is None:
                continue
            order, operand = in_lds.params.get("order"), at_dot.params.get("opIdx")
            if (
                isinstance(order, tuple)
                and isinstance(operand, int)
                and order[:1] == (1 - operand,)
            ):
                reads.add(lds_read.index)
    return reads


def narrow_accesses(op: TtgirOp) -> int:
    """The number of accesses of less than 32 bits per lane that a read of an LDS tile becomes."""
    tile = tile_of(op)
    limits = None if tile is None else limits_of(tile, None, Layouts())
    return (
        limits.thread_elements // limits.elements
        if limits is not None and limits.width < NARROW_BITS
        else 0
    )


def _is_narrow_by_nature(op: TtgirOp, dots: Sequence[TtgirOp]) -> bool:
    """Whether a dot takes fewer neighbours along K from a lane than fill 32 bits."""
    bits = element_bits(op.result_types[0].element)
    tile_types = [
        *op.result_types,
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
    """The loads of tensors that were stored with K contiguous instead."""

    def __init__(self, flow: DataFlow) -> None:
        self._flow = flow

    def is_masked(self, load: TtgirOp) -> bool:
        """Whether a mask changes along the tile's other dimension, which would split loads below 32
        bits.

        Mostly by a size that is not known to be a multiple of 16.
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

    def is_unshared(self, load: TtgirOp) -> bool:
        """Whether each workgroup reads a part of its own, as far as the addresses tell."""
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
    def _graphs(self) -> list[ValueGraph]:
        return functions(self._flow.module)

    @cached_property
    def _tiles(self) -> dict[int, Tile]:
        tiles = (tile_of(op) for graph in self._graphs for op in graph.ops)
        return {tile.op.index: tile for tile in tiles if tile is not None}
