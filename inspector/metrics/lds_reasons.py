"""Reasons that an access of LDS is narrow, in words, with fixes."""

from __future__ import annotations

from ..model import Layout
from ..ttgir.axes.buffer_traffic import (
    comes_from_dot,
    comes_from_load,
    loads_from,
    tiles_written_to,
)
from ..ttgir.axes.graph import ValueGraph
from ..ttgir.axes.tiles import Tile
from ..ttgir.axes.widths import WIDEST_BITS, WidthLimits, fastest, own_run
from ..ttgir.linear import LinearLayout
from ..ttgir.matrix import k_dim
from .access_reasons import short_run
from .reasons import Reason, count

_SWIZZLED = frozenset(("swizzled_shared", "amd_rotating_shared"))


def explain_lds(
    tile: Tile, limits: WidthLimits, linear: LinearLayout, graph: ValueGraph
) -> Reason | None:
    """The reason that an access of LDS moves fewer than 128 bits; None where it could.

    `limits`: the elements of a lane that lie side by side; `linear`: the layout of the tile in
    registers.
    """
    need = WIDEST_BITS // limits.bits
    if limits.elements >= need:
        return None
    if _is_computed(tile, graph):
        return _computed(tile, limits, linear, graph)
    layout = tile.tensor_type.layout
    if layout is not None and layout.kind == "dot_op" and tile.cls == "lds_read":
        return _operand(tile, limits, layout, linear)
    thread_dim = fastest(linear)  # the one along which a lane holds neighbours
    if limits.thread_elements < need and own_run(linear, limits.dim) == limits.elements:
        return short_run(tile, limits, need)
    if thread_dim != limits.dim and own_run(linear, thread_dim) > limits.elements:
        return _transposed(tile, limits, thread_dim, graph)
    return _short_of_neighbours(tile, limits, own_run(linear, limits.dim))


def _is_computed(tile: Tile, graph: ValueGraph) -> bool:
    """Whether the tile is computed from a dot's result, so that no layout in memory decides its
    own.
    """
    if tile.cls == "lds_write":
        return comes_from_dot(graph, tile.op.operands[0])
    return any(
        comes_from_dot(graph, value) for value in tiles_written_to(graph, tile.op.operands[0])
    )


def _is_loaded(tile: Tile, graph: ValueGraph) -> bool:
    """Whether the tile comes from global memory, whose order is then the tile's."""
    if tile.cls == "lds_write":
        return comes_from_load(graph, tile.op.operands[0])
    return any(
        comes_from_load(graph, value) for value in tiles_written_to(graph, tile.op.operands[0])
    )


def _computed(tile: Tile, limits: WidthLimits, linear: LinearLayout, graph: ValueGraph) -> Reason:
    """A tile on its way from one dot to another, or to an operation in another layout."""
    verb = "written" if tile.cls == "lds_write" else "read"
    text = (
        f"the tile is computed from a dot and exchanged in another layout; it is {verb}"
        f" {count(limits.elements)} at a time"
    )
    run = max(own_run(linear, dim) for dim in range(len(tile.tensor_type.shape)))
    limited_by = "order" if run > limits.elements else "layout"
    dots = [layout for layout in _read_as(tile, graph) if layout.kind == "dot_op"]
    if not any(layout.params.get("opIdx") == 0 for layout in dots):
        return Reason(limited_by, text, "")
    return Reason(limited_by, text, _OWN_ROWS)


def _read_as(tile: Tile, graph: ValueGraph) -> list[Layout]:
    """The layouts in which a tile is read back from LDS."""
    if tile.cls == "lds_read":
        layouts = [tile.tensor_type.layout]
    else:
        stored = tile.op.results or tile.op.operands[1:2]
        reads = loads_from(graph, stored[0]) if stored else []
        layouts = [op.result_types[0].layout for op in reads]
    return [layout for layout in layouts if layout is not None]


# Both dots then give each wave separate rows, and nothing is exchanged (so in 9 of 9 kernels).
# Fewer waves or a larger BLOCK_M spilled in attention with head dim 256.
_OWN_ROWS = (
    "Set matrix_instr_nonkdim=16, with BLOCK_M at least 16 × num_warps (fewer waves or a larger"
    " BLOCK_M can spill)."
)


def _operand(tile: Tile, limits: WidthLimits, layout: Layout, linear: LinearLayout) -> Reason:
    """An operand of a matrix instruction, which takes kWidth neighbours along K."""
    k = k_dim(layout, len(tile.tensor_type.shape))
    width = layout.params.get("kWidth")
    side = "A" if layout.params.get("opIdx") == 0 else "B"
    if limits.dim != k and limits.elements < (width if isinstance(width, int) else 2):
        return Reason(
            "order",
            f"the buffer is laid out along dim {limits.dim}, but the matrix instruction takes"
            f" neighbours along K, dim {k}: operand {side} is read element by element",
            f"Pass {side} contiguous along K, or load it transposed and use tl.trans.",
        )
    if limits.elements == width:
        return Reason(
            "layout",
            f"the matrix instruction takes {count(limits.elements, 'neighbour')} along K per lane"
            f" (kWidth {width})",
            "Set kpack=2 on gfx90a and gfx942, or matrix_instr_nonkdim=16 for a longer K.",
        )
    return _short_of_neighbours(tile, limits, own_run(linear, limits.dim))


def _transposed(tile: Tile, limits: WidthLimits, thread_dim: int, graph: ValueGraph) -> Reason:
    """A tile whose neighbours in a lane lie along another dimension than the buffer's fastest."""
    verb = "written" if tile.cls == "lds_write" else "read"
    return Reason(
        "order",
        f"a lane holds neighbours along dim {thread_dim}, but the buffer is laid out along dim"
        f" {limits.dim}: the tile is {verb} across",
        f"Make dim {limits.dim} contiguous in global memory too."
        if _is_loaded(tile, graph)
        else "",
    )


def _short_of_neighbours(tile: Tile, limits: WidthLimits, run: int) -> Reason:
    """A tile in the right order, of which a lane holds too few neighbours in the buffer."""
    layout = tile.buffer.layout if tile.buffer is not None else None
    vec = layout.params.get("vec") if layout is not None and layout.kind in _SWIZZLED else None
    if isinstance(vec, int) and vec == limits.elements and run > vec:
        return Reason(
            "layout",
            f"the buffer's swizzle moves groups of {count(vec)} (vec {vec}), which cuts the"
            f" {count(run, 'neighbour')} that a lane holds",
            "Set kpack=2 on gfx90a and gfx942, which doubles the groups.",
        )
    return Reason(
        "layout",
        f"a lane holds {count(limits.elements, 'neighbour')} along dim {limits.dim}, the fastest"
        " of the buffer",
        "Enlarge the block along that dimension, or lower num_warps.",
    )
