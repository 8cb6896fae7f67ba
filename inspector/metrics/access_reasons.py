"""Reasons that an access of global memory or of LDS is narrow, in words, with fixes.

Triton chooses the width of an access from facts that it proves of the addresses (contiguous
elements in a row, the divisor of the first address, neighbours that share a mask) and from the
layout's elements per lane. The smallest of these is the reason (`explain_global`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from msgspec.structs import replace

from ..model import Layout
from ..ttgir.axes.analysis import Axes
from ..ttgir.axes.graph import ValueGraph
from ..ttgir.axes.starts import (
    comes_from_dot,
    comes_from_load,
    loads_behind,
    loads_from,
    tiles_written_to,
)
from ..ttgir.axes.widths import WIDEST_BITS, Tile, WidthLimits, distinct_addresses, fastest, own_run
from ..ttgir.linear import LinearLayout
from ..ttgir.lowered import MATRIX_LAYOUTS
from ..ttgir.matrix import k_dim
from .alignment_reasons import not_aligned
from .contiguity_reasons import explain_contiguity
from .mask_reasons import masked, with_mask
from .narrow_reasons import ALIGNED, Reason, count, is_store

_SWIZZLED = frozenset(("swizzled_shared", "amd_rotating_shared"))
_OF_SIZES = frozenset(("contiguity", "divisibility", "mask"))


def explain_global(tile: Tile, limits: WidthLimits, axes: Axes) -> Reason | None:
    """The reason that an access of global memory moves fewer than 128 bits; None where it could."""
    reason = _limiting_reason(tile, limits, axes)
    if reason is not None and reason.fix:
        return _with_fix_for_generated(reason, axes)
    return reason


def _limiting_reason(tile: Tile, limits: WidthLimits, axes: Axes) -> Reason | None:
    """The reason, with a fix for kernels whose source is the user's."""
    if limits.width >= WIDEST_BITS:
        return None
    if limits.elements >= limits.widest:
        return None if _shares_addresses(tile, axes) else _small_tile(tile, limits)
    need = limits.widest
    contiguity, aligned = limits.contiguity or 1, limits.aligned or 1
    facts = min(contiguity, aligned, need if limits.mask is None else limits.mask)
    if facts > limits.per_thread or facts >= need:
        return short_run(tile, limits, need)
    if facts == limits.per_thread and _is_of_product(tile):
        return short_run(tile, limits, need)  # the instruction, not the facts
    if contiguity == facts:
        fastest_dim = _contiguous_dim(tile, axes, limits.dim)
        if fastest_dim is not None:
            return _wrong_order(tile, limits, fastest_dim)
        return explain_contiguity(tile, limits, axes, need)
    if aligned == facts:
        reason = not_aligned(tile, limits, axes, need)
        return with_mask(reason, tile, limits, axes, need) if limits.mask == facts else reason
    return masked(tile, limits, axes, need)


def _with_fix_for_generated(reason: Reason, axes: Axes) -> Reason:
    """The reason with a fix for compiler-written kernels, whose source is not to be edited.

    Inductor notes divisors of sizes when it writes the kernel: none of dynamic ones, whatever the
    launches pass.
    """
    if not axes.graph.dynamic_sizes or reason.limited_by not in _OF_SIZES:
        return reason
    return replace(
        reason,
        fix="Compile for static sizes with torch.compile(..., dynamic=False), or add"
        f" torch._check(size % {ALIGNED} == 0) for each size in the compiled function.",
    )


# --------------------------------------------------------------------------- layout, order, tile


def _shares_addresses(tile: Tile, axes: Axes) -> bool:
    """Whether elements of the tile are known to have one address."""
    facts = axes.of(tile.addresses or "", len(tile.tensor_type.shape))
    return prod(distinct_addresses(facts, tile.tensor_type.shape)) < prod(tile.tensor_type.shape)


def _small_tile(tile: Tile, limits: WidthLimits) -> Reason:
    """The reason of a tile with too few elements for its lanes, or in this dimension."""
    shape, size = "×".join(map(str, tile.tensor_type.shape)), count(limits.share)
    share = f"{size} of {limits.bits} bits"
    if limits.share == tile.tensor_type.shape[limits.dim]:
        text = f"the {shape} tile has only {share} along dim {limits.dim}"
    else:
        text = f"spread over {limits.lanes} lanes, the {shape} tile gives each only {share}"
    return Reason(
        "dtype" if limits.share * 32 >= WIDEST_BITS else "tile",
        f"{text}; {WIDEST_BITS} bits are {WIDEST_BITS // limits.bits} elements of this type",
        "Enlarge the block along the contiguous dimension, or lower num_warps, until each lane gets"
        f" {WIDEST_BITS // limits.bits} elements.",
    )


def short_run(tile: Tile, limits: WidthLimits, need: int) -> Reason:
    """The reason of addresses that allow more than a lane holds.

    `need`: elements that a lane would move in one access of 128 bits.
    """
    shape = "×".join(map(str, tile.tensor_type.shape))
    if limits.thread_elements < need:
        text = (
            f"a lane holds only {count(limits.thread_elements)} of {limits.bits} bits"
            f" of the {shape} tile: {limits.thread_elements * limits.bits} bits"
        )
        narrow_type = limits.thread_elements * 32 >= WIDEST_BITS  # as many of 32 bits would do
        return Reason(
            "dtype" if narrow_type else "tile",
            text + (f"; 128 bits are {need} elements of this type" if narrow_type else ""),
            "Enlarge the block along the contiguous dimension, or lower num_warps, until each"
            f" lane gets {need} elements.",
        )
    if _is_of_product(tile):
        return Reason(
            "layout",
            f"the matrix instruction leaves each lane {count(limits.per_thread, 'neighbour')} along"
            f" dim {limits.dim}, and the tile is accessed in that layout",
            "In a loop, keep the accumulator in registers and store it once, after the loop.",
        )
    return Reason(
        "layout",
        f"the layout gives a lane {count(limits.per_thread, 'neighbour')} along dim {limits.dim}"
        f" where memory would allow {need}",
        "Enlarge the block along the contiguous dimension, or lower num_warps"
        + ("." if is_store(tile) else ", or load the tile separately."),
    )


def narrow_load(
    tile: Tile, limits: WidthLimits, graph: ValueGraph, loads: Mapping[int, WidthLimits]
) -> Reason | None:
    """The reason of a tile that is written to LDS as narrow as it was loaded; None for others.

    Triton gives a load as many neighbours a lane as the facts of its addresses allow, and what
    is computed from it keeps that layout.

    `loads`: the limits on loads from global memory, by the operation's index.
    """
    if tile.cls != "lds_write":
        return None  # stores to global memory get layouts of their own
    for load in loads_behind(graph, tile.op.operands[0]):
        of_load = loads.get(load.index)
        if of_load is None or load.result_types[0].layout != tile.tensor_type.layout:
            continue
        facts = min(of_load.contiguity or 1, of_load.aligned or 1)
        is_fixed = of_load.dim == limits.dim and facts <= of_load.per_thread == limits.per_thread
        if is_fixed and limits.elements == limits.per_thread < of_load.widest:
            at = f" (line {load.loc.in_user_code.line})" if load.loc is not None else ""
            return Reason(
                "layout",
                f"the load that brings the tile{at} takes {count(facts)} at a time, and a lane"
                " holds the tile as it was loaded",
                "Make that load wider (see its own finding); this access follows.",
            )
    return None


def _is_of_product(tile: Tile) -> bool:
    """Whether a tile has the layout of a matrix instruction's result."""
    return tile.tensor_type.layout is not None and tile.tensor_type.layout.kind in MATRIX_LAYOUTS


def _contiguous_dim(tile: Tile, axes: Axes, dim: int) -> int | None:
    """The dimension along which the addresses are contiguous, where that is not `dim`."""
    facts = axes.of(tile.addresses or "", len(tile.tensor_type.shape))
    if facts.contiguity[dim] > 1:
        return None
    longest = max(range(len(facts.contiguity)), key=lambda d: facts.contiguity[d])
    return longest if facts.contiguity[longest] > 1 else None


def _wrong_order(tile: Tile, limits: WidthLimits, run_dim: int) -> Reason:
    """The reason of memory contiguous along dimension `run_dim`, with elements along another."""
    dim = limits.dim
    if limits.across == run_dim:
        return Reason(
            "layout",
            f"memory is contiguous along dim {run_dim}, where neighbouring lanes lie, but a lane's"
            f" own elements lie side by side along dim {dim}: each moves one element",
            "Store tl.trans of the tile, with addresses and mask transposed too, or swap the"
            " operands of the product: tl.dot(tl.trans(b), tl.trans(a))."
            if is_store(tile)
            else "Load the tile separately, or transposed (tl.trans after the load).",
        )
    return Reason(
        "order",
        f"memory is contiguous along dim {run_dim}, but neighbouring lanes and the elements of a"
        f" lane lie along dim {dim}",
        f"Make dim {run_dim} the fastest of the tile: swap the block's dimensions, or use tl.trans"
        " before the access.",
    )


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
