"""Why accesses are as wide as they are: the TTGIR operations behind them, joined by positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ..model import Access, Layout, MemoryOp, SourceLoc
from ..ttgir.axes.facts import UNBOUNDED
from ..ttgir.axes.flow import Axes, Graph, analyze, functions
from ..ttgir.axes.tiles import WIDEST_BITS, Layouts, Limits, Tile, limits_of, needed_values, tile_of
from ..ttgir.lowered import element_bits
from ..ttgir.queries import LOOPS
from .access_reasons import explain_global
from .lds_reasons import explain_lds
from .reasons import Reason
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
"""So many times wider than its elements lie is an access only if the hardware transposes: two
neighbouring accesses in one instruction are twice as wide."""


def accesses(subject: Subject, memory_ops: Sequence[MemoryOp]) -> tuple[Access, ...]:
    """Every operation of the TTGIR that moves a tile, in file order, with what limits its width.

    Args:
        subject: the kernel; without TTGIR there is nothing to say.
        memory_ops: its machine accesses.
    """
    if subject.ttgir is None:
        return ()
    layouts = Layouts()
    tile_accesses: list[Access] = []
    for graph in _graphs(subject):
        graph.before = subject.ttir_text
        if graph.ops[0].attributes.get("sym_name") == subject.function.name:
            graph.unspecialised = subject.facts.unspecialised
            graph.values = subject.facts.values
        graph.dynamic_sizes = subject.facts.dynamic_sizes
        tiles = [tile for tile in map(tile_of, graph.ops) if tile is not None]
        if not tiles:
            continue
        axes = analyze(graph, needed_values(tiles))
        all_limits = [limits_of(tile, axes, layouts) for tile in tiles]
        became = _machine_ops(tiles, all_limits, _depths(graph), memory_ops)
        tile_accesses += [
            _access(tile, limits, ops, axes, layouts)
            for tile, limits, ops in zip(tiles, all_limits, became, strict=True)
        ]
    return tuple(tile_accesses)


def _graphs(subject: Subject) -> list[Graph]:
    """The kernel's own function and those that are not kernels themselves."""
    graphs = functions(subject.ttgir) if subject.ttgir is not None else []
    named = {graph.ops[0].attributes.get("sym_name") for graph in graphs}
    own = subject.function.name
    if own not in named:
        return graphs
    return [
        graph
        for graph in graphs
        if graph.ops[0].attributes.get("sym_name") == own
        or graph.ops[0].attributes.get("sym_visibility") == "private"
    ]


# --------------------------------------------------------------------------- joining


def _depths(graph: Graph) -> dict[int, int]:
    """Loops around each operation, by its index."""
    depths: dict[int, int] = {}
    for op in graph.ops:
        around = depths.get(op.parent, 0) if op.parent is not None else 0
        depths[op.index] = around + (op.name in LOOPS)
    return depths


def _machine_ops(
    tiles: Sequence[Tile],
    limits: Sequence[Limits | None],
    depths: dict[int, int],
    memory_ops: Iterable[MemoryOp],
) -> list[list[MemoryOp]]:
    """The machine accesses that each tile became: those of its class at its position.

    Copies of one operation (pipelining peels iterations off loops) share a position. The deepest
    copy gets the machine accesses of the deepest loops, and copies that differ in width those of
    their own width.
    """
    at: dict[tuple[str, SourceLoc], list[MemoryOp]] = {}
    for op in memory_ops:
        if op.source is not None:
            at.setdefault((op.cls, op.source), []).append(op)
    groups: dict[tuple[str, SourceLoc], list[int]] = {}
    for k, tile in enumerate(tiles):
        if tile.op.loc is not None:
            groups.setdefault((tile.cls, tile.op.loc), []).append(k)
    became: list[list[MemoryOp]] = [[] for _ in tiles]
    for key, members in groups.items():
        ops = at.get(key, [])
        if not ops:
            continue
        for k in members:
            mine = _at_depth(
                ops, depths[tiles[k].op.index], [depths[tiles[m].op.index] for m in members]
            )
            became[k] = _of_width(mine, limits[k], [limits[m] for m in members])
    return became


def _at_depth(ops: list[MemoryOp], depth: int, depths: Sequence[int]) -> list[MemoryOp]:
    """Those of the machine accesses that a copy at some depth became."""
    levels, machine_depths = sorted(set(depths)), sorted({op.depth for op in ops})
    if len(levels) == 1:
        return ops
    # The compiler unrolls short loops and peels others: levels are matched from the deepest up.
    behind = len(levels) - 1 - levels.index(depth)
    if behind >= len(machine_depths):
        return []
    level = machine_depths[len(machine_depths) - 1 - behind]
    last = depth == levels[0]
    return [op for op in ops if op.depth == level or (last and op.depth < level)]


def _of_width(
    ops: list[MemoryOp], mine: Limits | None, all_limits: Sequence[Limits | None]
) -> list[MemoryOp]:
    if mine is None or len({limits.width for limits in all_limits if limits is not None}) < 2:
        return ops
    exact = [op for op in ops if op.bits == mine.width]
    return exact or ops


# --------------------------------------------------------------------------- putting together


def _access(
    tile: Tile, limits: Limits | None, ops: Sequence[MemoryOp], axes: Axes, layouts: Layouts
) -> Access:
    widths = [op.bits for op in ops if op.bits is not None]
    bits = min(widths, default=None)
    reason = _reason(tile, limits, bits, axes, layouts)
    deepest = max(ops, key=lambda op: op.depth, default=None)
    divisibility = limits.divisibility if limits is not None else None
    return Access(
        op=tile.op.name,
        line=tile.op.line,
        cls=tile.cls,
        source=tile.op.loc,
        dtype=tile.element,
        shape=tile.of.shape,
        layout=_layout(tile),
        lines=tuple(sorted(op.line for op in ops)),
        loop=deepest.loop if deepest is not None else None,
        bits=bits,
        widest=_widest(tile, limits, bits, reason),
        per_thread=limits.per_thread if limits is not None else None,
        contiguity=limits.contiguity if limits is not None else None,
        divisibility=0 if divisibility is not None and divisibility >= UNBOUNDED else divisibility,
        mask=limits.mask if limits is not None else None,
        limited_by=reason.limited_by if reason is not None else None,
        reason=reason.text if reason is not None else "",
        fix=reason.fix if reason is not None else "",
    )


def _widest(
    tile: Tile, limits: Limits | None, bits: int | None, reason: Reason | None
) -> int | None:
    """Bits that one access could move were it not for layout and facts; None if not known."""
    if reason is not None and not reason.is_bounded:
        return None
    if limits is not None and tile.buffer is None:
        most = reason.widest if reason is not None else None
        return max(bits or 0, limits.most * limits.bits if most is None else most)
    whole = _whole(tile)
    if limits is None or whole is None:
        return whole
    return max(bits or 0, min(whole, limits.held * limits.bits))


def _whole(tile: Tile) -> int | None:
    """Bits of the tile, as far as one access can move them."""
    bits = element_bits(tile.element)
    return None if bits is None else min(WIDEST_BITS, max(8, bits) * prod(tile.of.shape))


def _reason(
    tile: Tile,
    limits: Limits | None,
    bits: int | None,
    axes: Axes,
    layouts: Layouts,
) -> Reason | None:
    whole = _whole(tile)
    if limits is None or whole is None or (bits or limits.width) >= whole:
        return None
    if tile.buffer is None:
        return explain_global(tile, limits, axes)
    if bits is not None and bits >= _TRANSPOSING * limits.width:
        return None  # instructions that transpose while they read
    linear = layouts.of(tile.of.layout, tile.of.shape)
    return explain_lds(tile, limits, linear, axes.graph) if linear is not None else None


def _layout(tile: Tile) -> str:
    own = short(tile.of.layout)
    return own if tile.buffer is None else f"{own} / {short(tile.buffer.layout)}"


def short(layout: Layout | None) -> str:
    """A layout in a few words: what bears on the width of accesses."""
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
        words.append(f"of {short(layout.parent)}")
    return " ".join(words)
