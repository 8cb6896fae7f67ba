"""The TTGIR operations behind memory accesses, with the reasons for the accesses' widths.

Operations of the TTGIR are matched with machine accesses by class and position;
`access_reasons.py` names the limits on the width of these, in global memory and in LDS.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from ..model import Access, Layout, MemoryOp, SourceLoc
from ..ttgir.axes.analysis import Axes, analyze
from ..ttgir.axes.facts import UNBOUNDED
from ..ttgir.axes.graph import ValueGraph, functions
from ..ttgir.axes.widths import (
    WIDEST_BITS,
    Layouts,
    Tile,
    WidthLimits,
    limits_of,
    needed_values,
    tile_of,
)
from ..ttgir.lowered import element_bits
from ..ttgir.queries import LOOPS
from .access_reasons import explain_global, explain_lds, narrow_load
from .narrow_reasons import Reason
from .subject import Subject

_LAYOUT_PARAMS = (
    "opIdx",
    "kWidth",
    "sizePerThread",
    "instrShape",
    "isTransposed",
    "vec",
    "perPhase",
    "maxPhase",
    "order",
)

_TRANSPOSING = 4
"""An LDS access this much wider than the run of elements in LDS transposes while it reads.

An instruction of two neighbouring accesses (ds_read2) is only twice as wide.
"""


def accesses(subject: Subject, memory_ops: Sequence[MemoryOp]) -> tuple[Access, ...]:
    """The operations of the TTGIR that move tiles, in file order, with the limits on their width.

    Args:
        subject: the kernel; without TTGIR there are none.
        memory_ops: its machine accesses.
    """
    if subject.ttgir is None:
        return ()
    layouts = Layouts()
    tile_accesses: list[Access] = []
    for graph in _graphs(subject):
        graph.ttir = subject.ttir_text
        if graph.ops[0].attributes.get("sym_name") == subject.function.name:
            graph.unspecialised = subject.facts.unspecialised
            graph.values = subject.facts.values
        graph.dynamic_sizes = subject.facts.dynamic_sizes
        tiles = [tile for tile in map(tile_of, graph.ops) if tile is not None]
        if not tiles:
            continue
        axes = analyze(graph, needed_values(tiles))
        all_limits = [limits_of(tile, axes, layouts) for tile in tiles]
        loads = {
            tile.op.index: limits
            for tile, limits in zip(tiles, all_limits, strict=True)
            if tile.cls == "global_load" and limits is not None
        }
        matches = machine_accesses(graph, tiles, all_limits, memory_ops)
        tile_accesses += [
            _access(tile, limits, ops, axes, layouts, loads)
            for tile, limits, ops in zip(tiles, all_limits, matches, strict=True)
        ]
    return tuple(tile_accesses)


def _graphs(subject: Subject) -> list[ValueGraph]:
    """The kernel's function and private ones that it may call; all functions if its name is
    missing.
    """
    graphs = functions(subject.ttgir) if subject.ttgir is not None else []
    kernel_name = subject.function.name
    attributes = [graph.ops[0].attributes for graph in graphs]
    if all(stated.get("sym_name") != kernel_name for stated in attributes):
        return graphs
    return [
        graph
        for graph, stated in zip(graphs, attributes, strict=True)
        if stated.get("sym_name") == kernel_name or stated.get("sym_visibility") == "private"
    ]


def _access(
    tile: Tile,
    limits: WidthLimits | None,
    ops: Sequence[MemoryOp],
    axes: Axes,
    layouts: Layouts,
    loads: Mapping[int, WidthLimits],
) -> Access:
    """The report's entry of one operation; `loads` by index, with the limits on each."""
    widths = [op.bits for op in ops if op.bits is not None]
    bits = min(widths, default=None)
    reason = _reason(tile, limits, bits, axes, layouts)
    if reason is not None and limits is not None:
        reason = narrow_load(tile, limits, axes.graph, loads) or reason
    deepest = max(ops, key=lambda op: op.depth, default=None)
    divisibility = limits.divisibility if limits is not None else None
    is_zero = divisibility is not None and divisibility >= UNBOUNDED
    return Access(
        op=tile.op.name,
        line=tile.op.line,
        cls=tile.cls,
        source=tile.op.loc,
        dtype=tile.element,
        shape=tile.tensor_type.shape,
        layout=_layout(tile),
        lines=tuple(sorted(op.line for op in ops)),
        loop=deepest.loop if deepest is not None else None,
        bits=bits,
        widest=_widest(tile, limits, bits, reason),
        per_thread=limits.per_thread if limits is not None else None,
        contiguity=limits.contiguity if limits is not None else None,
        divisibility=0 if is_zero else divisibility,
        mask=limits.mask if limits is not None else None,
        limited_by=reason.limited_by if reason is not None else None,
        reason=reason.text if reason is not None else "",
        fix=reason.fix if reason is not None else "",
    )


def _widest(
    tile: Tile, limits: WidthLimits | None, bits: int | None, reason: Reason | None
) -> int | None:
    """Bits that one access could move without the limits of layout and facts; None if unknown."""
    if reason is not None and not reason.is_bounded:
        return None
    tile_bits = _tile_bits(tile)
    if limits is None:
        return tile_bits
    if tile.buffer is None:
        after_fix = reason.widest if reason is not None else None
        return max(bits or 0, limits.widest * limits.bits if after_fix is None else after_fix)
    return (
        None
        if tile_bits is None
        else max(bits or 0, min(tile_bits, limits.thread_elements * limits.bits))
    )


def _tile_bits(tile: Tile) -> int | None:
    """Bits of the tile, as far as one access can move them; None for an unknown element type."""
    bits = element_bits(tile.element)
    return None if bits is None else min(WIDEST_BITS, max(8, bits) * prod(tile.tensor_type.shape))


def _reason(
    tile: Tile,
    limits: WidthLimits | None,
    bits: int | None,
    axes: Axes,
    layouts: Layouts,
) -> Reason | None:
    """The reason that an access is narrower than its tile; None where it is not, or unknown."""
    tile_bits = _tile_bits(tile)
    if limits is None or tile_bits is None or (bits or limits.width) >= tile_bits:
        return None
    if tile.buffer is None:
        return explain_global(tile, limits, axes)
    if bits is not None and bits >= _TRANSPOSING * limits.width:
        return None  # instructions that transpose while they read
    linear = layouts.of(tile.tensor_type.layout, tile.tensor_type.shape)
    return explain_lds(tile, limits, linear, axes.graph) if linear is not None else None


def _layout(tile: Tile) -> str:
    """The layout in registers, and that of the LDS buffer where there is one."""
    in_registers = _layout_words(tile.tensor_type.layout)
    if tile.buffer is None:
        return in_registers
    return f"{in_registers} / {_layout_words(tile.buffer.layout)}"


def _layout_words(layout: Layout | None) -> str:
    """A layout's kind and the parameters that decide the width of accesses."""
    if layout is None:
        return ""
    words = [layout.kind]
    for name in _LAYOUT_PARAMS:
        value = layout.params.get(name)
        if value is True:
            words.append(name)
        elif isinstance(value, tuple):
            words.append(f"{name}=[{','.join(map(str, value))}]")
        elif isinstance(value, int) and not isinstance(value, bool):
            words.append(f"{name}={value}")
    if layout.kind == "slice":
        words.append(f"dim={layout.params.get('dim')}")
    if layout.parent is not None:
        words.append(f"of {_layout_words(layout.parent)}")
    return " ".join(words)


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
