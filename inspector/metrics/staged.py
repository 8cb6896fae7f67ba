"""The figures of `staging.py`, computed from a TTGIR module.

Facts about Triton's passes stand in `metrics/product_trips.py`, `ttgir/conversions.py` and
`ttgir/plain_accesses.py`. The second half sorts the operands of dots that are read from LDS by less
than 32 bits per lane by the reasons for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from ..model import Layout, Scalar, SourceLoc, TtgirModule, TtgirOp, TtgirType
from ..ttgir.axes.analysis import analyze
from ..ttgir.axes.graph import ValueGraph, functions
from ..ttgir.axes.widths import Layouts, Tile, limits_of, needed_values, tile_of
from ..ttgir.conversions import (
    Conversion,
    Movements,
    before_stores,
    dots_behind,
    follows_dot,
    in_dot_loops,
    layout_name,
    movements,
    tile_bytes,
)
from ..ttgir.flow import DataFlow, distinct_program_axes, flow_of, program_axes, rests_on_loads
from ..ttgir.lowered import MATRIX_LAYOUTS, element_bits
from ..ttgir.plain_accesses import plain_accesses
from ..ttgir.queries import DOTS, LOCAL_LOAD
from .entries import Unknown
from .mix import NARROW_BITS
from .options import option
from .product_trips import Staging, staging
from .subject import Subject, op_line
from .triton_loads import Cause, cause

_UNPIPELINED: Mapping[Cause, tuple[str, str]] = {
    Cause.WHILE: (
        "Triton pipelines only `for` loops, and this is a `while`",
        "Write the loop as `for … in tl.range(…)`.",
    ),
    Cause.CONDITIONAL: (
        "the load or its dot is under an `if` in the loop",
        "Move load and dot out of the `if`: mask the load, or split the loop.",
    ),
    Cause.NARROW: (
        "it moves fewer than 32 bits per lane, which Triton does not pipeline",
        "Make the load at least 32 bits wide, along a provably contiguous dimension.",
    ),
}

# Triton 3.9's amd/compiler.py, is_async_copy_enabled: on by default for these. Other targets copy
# 32 bits per lane at most (gfx942's global_load_lds_dword, CDNA3 ISA), which Triton does not use.
DIRECT_TO_LDS: Mapping[str, tuple[int, ...]] = {
    # target -> bits per lane that one copy can move (CDNA4 ISA, global_load_lds_*; gfx1250: LLVM's
    # global_load_async_to_lds_*, where Triton takes 32 bits and more)
    "gfx950": (32, 96, 128),
    "gfx1250": (32, 64, 128),
}


class StagingFacts(Struct, frozen=True):
    """The figures of `staging.SPECS`."""

    unpipelined: Mapping[str, Scalar]
    converts: Mapping[str, Scalar]
    products: Mapping[str, Scalar]
    epilogue: Mapping[str, Scalar]
    plain: Mapping[str, Scalar]
    narrow_operands: Mapping[str, Scalar]
    direct: Mapping[str, Scalar] | Unknown


def facts(subject: Subject, module: TtgirModule) -> StagingFacts:
    """The figures of a module made for an AMD target."""
    flow = flow_of(module)
    moves, staged = movements(flow), staging(flow)
    converts, products = _converts(flow, moves)
    arch = subject.machine.arch if subject.machine is not None else "an unknown target"
    return StagingFacts(
        unpipelined=_unpipelined(subject, flow, staged),
        converts=converts,
        products=products,
        epilogue=_epilogue(flow, moves),
        plain=_unbuffered(flow),
        narrow_operands=narrow_operands(flow, staged),
        direct=_missed_copies(subject, staged, DIRECT_TO_LDS[arch])
        if arch in DIRECT_TO_LDS
        else Unknown(f"Triton does not copy memory straight to LDS on {arch}"),
    )


def _unpipelined(subject: Subject, flow: DataFlow, staged: Staging) -> dict[str, Scalar]:
    """Loads that are multiplied in the iteration that loads them."""
    # A loop may ask for no pipelining itself: tl.range(..., num_stages=1).
    loads = [op for op in staged.unpipelined if (flow.loop_stages(op) or 2) > 1]
    stages = (flow.loop_stages(loads[0]) if loads else None) or option(subject, "num_stages")
    example, load_cause = loads[0] if loads else None, None
    arch = subject.machine.arch if subject.machine is not None else ""
    dots = {op.index: [way.dot for way in staged.ways if way.load is op] for op in loads}
    causes = ((op, cause(flow, op, dots[op.index], arch)) for op in loads)
    example, load_cause = next((pair for pair in causes if pair[1] is not None), (example, None))
    return {
        "loads": len(loads),
        "of": len(staged.in_loop),
        "at": op_line(example),
        "stages": stages,
        "cause": None if load_cause is None else load_cause.value,
        "reason": _UNPIPELINED[load_cause][0] if load_cause is not None else None,
        "fix": _UNPIPELINED[load_cause][1] if load_cause is not None else None,
    }


def _converts(flow: DataFlow, moves: Movements) -> tuple[dict[str, Scalar], dict[str, Scalar]]:
    """Conversions in the loop whose conversions move most through LDS; those between dots."""
    loops: dict[int | None, list[Conversion]] = {}
    for conversion in in_dot_loops(flow, moves):
        loops.setdefault(flow.loop[conversion.op.index], []).append(conversion)
    through, of = max(
        (
            ([one for one in conversions if one.movement == "lds"], len(conversions))
            for conversions in loops.values()
        ),
        key=lambda pair: (_bytes(one.source for one in pair[0]) or 0, len(pair[0]), pair[1]),
        default=([], 0),
    )
    products = [one for one in through if _is_between_dots(flow, one)]
    return {"of": of, **_moved(through)}, _moved(products)


def _moved(conversions: Sequence[Conversion]) -> dict[str, Scalar]:
    """The figures of conversions; the largest one is named."""
    worst = max(conversions, key=lambda one: tile_bytes(one.source) or 0, default=None)
    return {
        "lds": len(conversions),
        "at": op_line(worst.op) if worst else None,
        "before": layout_name(worst.source.layout) if worst else None,
        "after": layout_name(worst.target.layout) if worst else None,
        "bytes": _bytes(one.source for one in conversions),
    }


def _is_between_dots(flow: DataFlow, conversion: Conversion) -> bool:
    """Whether a dot's result is converted for another dot, in a way that layouts can avoid."""
    source, target = conversion.source.layout, conversion.target.layout
    if source is None or target is None or source.kind not in MATRIX_LAYOUTS:
        return False
    parent, waves = target.parent, _waves(source)
    # A second operand's rows are the dot's K, all of which each wave needs: they are exchanged with
    # any matrix instruction (tried: with 16x16 ones a loop of 982 instructions became 1,138).
    is_of_all_rows = target.params.get("opIdx") == 1 and waves[-2] != 1
    # Both dots have one layout, in which several waves share a row, the second dot's K. Other
    # matrix instructions leave both layouts as they are (tried: 128 rows, eight waves as [4, 2]
    # with 32x32 and with 16x16).
    is_within_rows = (
        parent is not None
        and (parent.kind, parent.params) == (source.kind, source.params)
        and waves[-1] != 1
    )
    return (
        (target.kind in MATRIX_LAYOUTS or target.kind == "dot_op")
        # Code under an `if` is seldom executed: the epilogue of a persistent loop.
        and conversion.op.parent == flow.loop[conversion.op.index]
        and not is_of_all_rows
        and not is_within_rows
        and not _meets_another(flow, conversion.op, source, parent or target)
    )


def _meets_another(flow: DataFlow, op: TtgirOp, source: Layout, target: Layout) -> bool:
    """Whether one of the two layouts is of a dot in no chain, spread over columns.

    Triton spreads the waves of chained dots (one's result is the first operand of the other, with
    no `if` in between) over rows, as far as there are rows; those of other dots by their shape
    (3.9, AccelerateAMDMatmul, `warpsPerTile`), with any matrix instruction.
    """
    loop = flow.loop[op.index]
    dots = [dot for dot in flow.module.ops if dot.name in DOTS and flow.loop[dot.index] == loop]
    makers = dots_behind(flow, flow.operands[op.index][:1])
    users = [dot for dot in dots if dot.result_types[0].layout == target]
    return any(
        bool(linked_dots)
        and _waves(layout)[-1] != 1
        and not any(follows_dot(flow, flow.operands[dot.index][:1]) for dot in linked_dots)
        for layout, linked_dots in ((source, makers), (target, users))
    )


def _waves(layout: Layout) -> tuple[int, ...]:
    """Waves along each dimension of a tile; of one wave where the layout does not say it."""
    waves = layout.params.get("warpsPerCTA")
    return waves if isinstance(waves, tuple) and len(waves) > 1 else (1, 1)


def _epilogue(flow: DataFlow, moves: Movements) -> dict[str, Scalar]:
    """Conversions of a dot's result before its store."""
    through = [one for one in before_stores(flow) if moves[one.op.index] == "lds"]
    worst = max(
        through,
        key=lambda one: (one.wide, tile_bytes(one.op.result_types[0]) or 0),
        default=None,
    )
    return {
        "lds": len(through),
        "at": op_line(worst.op) if worst else None,
        "bytes": _bytes(one.op.result_types[0] for one in through),
        "wide": worst.wide if worst else None,
    }


def _unbuffered(flow: DataFlow) -> dict[str, Scalar]:
    """Accesses through 64-bit pointers that could be buffer operations."""
    accesses, tiles = plain_accesses(flow)
    hot = [
        access
        for access in accesses
        if (
            flow.in_dot_loop(access.op)
            if flow.dot_loops
            else flow.loop[access.op.index] is not None
        )
    ]
    example = next(iter((*hot, *accesses)), None)
    return {
        "accesses": len(accesses),
        "of": tiles,
        "hot": len(hot),
        "at": op_line(example.op) if example else None,
        "reason": example.reason if example else None,
    }


def _missed_copies(subject: Subject, staged: Staging, widths: Sequence[int]) -> dict[str, Scalar]:
    """Loads that could be copied to LDS directly."""
    loads = staged.through_registers
    reasons = ((op, _why_not_direct(subject, staged, op, widths)) for op in loads)
    explained = next((pair for pair in reasons if pair[1] is not None), None)
    example, reason = explained or (loads[0] if loads else None, None)
    return {
        "loads": len(loads),
        "of": len(staged.in_loop),
        "at": op_line(example),
        "reason": reason,
    }


def _why_not_direct(
    subject: Subject, staged: Staging, load: TtgirOp, widths: Sequence[int]
) -> str | None:
    """The reason that a load is no copy; None where it is unknown."""
    if load in staged.unpipelined:
        stages = option(subject, "num_stages")
        return "the loop is not pipelined" + (f" (num_stages={stages})" if stages else "")
    contiguity = load.attributes.get("contiguity")
    bits = element_bits(load.result_types[0].element) if load.result_types else None
    if isinstance(contiguity, int) and bits and contiguity * bits not in widths:
        return f"a lane reads {contiguity * bits} neighbouring bits, no width that can be copied"
    return None


def _bytes(tiles: Iterable[TtgirType]) -> int | None:
    """Bytes of some tiles; None where the size of one is unknown."""
    sizes = [tile_bytes(tile) for tile in tiles]
    return None if None in sizes else sum(size for size in sizes if size is not None)


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
