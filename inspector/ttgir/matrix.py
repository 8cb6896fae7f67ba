"""Linear layouts of AMD's matrix instructions: accumulators and operands of MFMA and WMMA.

The position of an element in the registers of a wave is the hardware's: see "Matrix Instruction
Register Usage" in the CDNA3 and CDNA4 ISA guides, the WMMA chapters of the RDNA3 and RDNA4 ones,
and the amd_matrix_instruction_calculator. The order in which Triton tiles instructions over
registers and waves is Triton's own; the tests compare with Triton 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..model import Layout
from .linear import Basis, LayoutBuilder, LinearLayout, is_power_of_two, log2

MFMA_WAVE = 64
"""Lanes of a wave that executes MFMA: CDNA has wave64 only."""

_MFMA_TILES = frozenset(((32, 32), (16, 16), (64, 4), (4, 64)))
_WMMA_LANES = 16  # of the 32 lanes, those side by side along one dimension of the tile


def order_of(layout: Layout, dims: int) -> tuple[int, ...]:
    """The layout's dimensions, fastest first; row-major where it does not state an order."""
    order = layout.params.get("order")
    if isinstance(order, tuple) and sorted(order) == list(range(dims)):
        return order
    return tuple(reversed(range(dims)))


def sizes_of(layout: Layout, name: str, dims: int) -> tuple[int, ...]:
    """A parameter with one power of two per dimension.

    Raises:
        ValueError: it is anything else.
    """
    sizes = layout.params[name]
    if len(sizes) != dims or not all(is_power_of_two(size) for size in sizes):
        raise ValueError(name)
    return tuple(sizes)


def k_dim(layout: Layout, dims: int) -> int:
    """The dimension of a dot operand that the product sums over."""
    return dims - 1 if layout.params["opIdx"] == 0 else dims - 2


def cluster_bases(layout: Layout, dims: int) -> tuple[Basis, ...]:
    """The bases of a cluster's workgroups (gfx1250) in a tensor, in parts of it; () without a
    cluster.

    One vector per bit of the workgroup's number in the cluster. The workgroups that share rows or
    columns of a product hold all of K of its operands.

    Raises:
        ValueError: it is not spelled as by Triton 3.9, or the layout is MFMA's, whose targets have
            no clusters.
    """
    if layout.kind == "slice":
        return ()  # its parent has the cluster
    source = layout.parent if layout.kind == "dot_op" else layout
    params: Mapping[str, Any] = {} if source is None else source.params
    workgroups = params.get("CTAsPerCGA", ())  # Triton before 3.6
    if any(count != 1 for count in workgroups):
        raise ValueError("CTAsPerCGA")
    bases = tuple(tuple(basis) for basis in params.get("CGALayout", ()))
    if any(len(basis) != dims for basis in bases):
        raise ValueError("CGALayout")
    if bases and source is not None and source.kind == "amd_mfma":
        raise ValueError("CGALayout")
    if layout.kind != "dot_op":
        return bases
    k = k_dim(layout, dims)
    return tuple(
        tuple(0 if dim == k else step for dim, step in enumerate(basis)) for basis in bases
    )


def share_of_workgroup(shape: Sequence[int], cluster: Sequence[Basis]) -> tuple[int, ...]:
    """The part of a tensor's shape that one workgroup of a cluster holds."""
    parts = [1] * len(shape)
    for basis in cluster:
        for dim, step in enumerate(basis):
            if step:
                parts[dim] *= 2
    return tuple(max(1, size // count) for size, count in zip(shape, parts, strict=True))


def instruction_shape(layout: Layout) -> tuple[int, int, int | None] | None:
    """(M, N, K) of the matrix instruction of an amd_mfma or amd_wmma layout, in elements.

    K is None where the layout does not state it (Triton before 3.5); None is returned where no
    shape is known. WMMA layouts leave 16x16x16 out.
    """
    shape = layout.params.get("instrShape")
    if shape is None and layout.kind == "amd_wmma":
        return (16, 16, 16)
    if shape is None and isinstance(layout.params.get("nonKDim"), int):
        return (layout.params["nonKDim"], layout.params["nonKDim"], None)
    if not isinstance(shape, tuple) or not all(
        isinstance(size, int) and is_power_of_two(size) for size in shape
    ):
        return None
    if len(shape) == 3:
        return (shape[0], shape[1], shape[2])
    return (shape[0], shape[1], None) if len(shape) == 2 else None


def _tiles_per_wave(layout: Layout, dims: int) -> tuple[int, ...]:
    if "tilesPerWarp" not in layout.params:
        return (1,) * dims
    return sizes_of(layout, "tilesPerWarp", dims)


def _tile_over_waves(
    builder: LayoutBuilder, layout: Layout, shape: Sequence[int], k: int | None
) -> None:
    """Repeats a wave's tile over its registers, then the waves, then registers up to the shape."""
    dims = len(shape)
    tiles = _tiles_per_wave(layout, dims)
    waves = sizes_of(layout, "warpsPerCTA", dims)
    for dim in order_of(layout, dims):
        if dim == k:
            builder.repeat("warp", waves[dim])
            continue
        builder.extend("register", dim, tiles[dim])
        builder.extend("warp", dim, waves[dim])
        builder.cover("register", dim, shape[dim])


def _fp64(layout: Layout) -> bool:
    return layout.params.get("elementBitWidth") == 64


def mfma_to_linear(layout: Layout, shape: tuple[int, ...]) -> LinearLayout | None:
    """The accumulator of MFMA: lanes side by side along one dimension, registers down the other.

    Each lane holds groups of 4 consecutive rows (single rows in FP64), the groups of the lanes
    above standing between them. `isTransposed` exchanges rows and columns.
    """
    dims = len(shape)
    instruction = instruction_shape(layout)
    if dims < 2 or instruction is None or instruction[:2] not in _MFMA_TILES:
        return None
    transposed = layout.params.get("isTransposed") is True
    if instruction[:2] == (64, 4) and not transposed:
        return None
    m, n = dims - 2, dims - 1
    row, column = (n, m) if transposed else (m, n)
    rows, columns = (instruction[1], instruction[0]) if transposed else instruction[:2]
    group = 1 if _fp64(layout) else 4
    builder = LayoutBuilder(dims)
    builder.extend("register", row, group)
    builder.extend("lane", column, columns)
    builder.extend("lane", row, MFMA_WAVE // columns)
    builder.cover("register", row, rows)
    _tile_over_waves(builder, layout, shape, None)
    return builder.fit(shape, order_of(layout, dims), keep_copies=True)


def mfma_operand_to_linear(layout: Layout, shape: tuple[int, ...]) -> LinearLayout | None:
    """An operand of MFMA: `kWidth` neighbours along K per lane, lanes across the other dimension.

    The registers cover all of K before they step to the next tile.
    """
    parent = layout.parent
    dims = len(shape)
    instruction = None if parent is None else instruction_shape(parent)
    if parent is None or dims < 2 or instruction is None or instruction[:2] not in _MFMA_TILES:
        return None
    width = layout.params["kWidth"]
    if not is_power_of_two(width):
        return None
    k = k_dim(layout, dims)
    other_dim = dims - 2 if k == dims - 1 else dims - 1
    lanes = instruction[0] if layout.params["opIdx"] == 0 else instruction[1]
    builder = LayoutBuilder(dims)
    builder.extend("register", k, width)
    builder.extend("lane", other_dim, lanes)
    builder.extend("lane", k, MFMA_WAVE // lanes)
    # The wide side of a 64x4 tile has no lanes left for K: its registers hold the elements that
    # the lanes of the narrow side hold.
    builder.cover("register", k, width * MFMA_WAVE // min(instruction[:2]))
    builder.cover("register", k, shape[k])
    _tile_over_waves(builder, parent, shape, k)
    return builder.fit(shape, _k_first(dims, k), keep_copies=True)


def _k_first(dims: int, k: int) -> tuple[int, ...]:
    return (k, *(dim for dim in reversed(range(dims)) if dim != k))


def _wmma_instruction(layout: Layout) -> tuple[int, int, int] | None:
    instruction = instruction_shape(layout)
    is_known_version = layout.params.get("version", 1) in (1, 2, 3)
    if not is_known_version or instruction is None or instruction[2] is None:
        return None
    return instruction[0], instruction[1], instruction[2]


def _wmma_over_waves(
    builder: LayoutBuilder, layout: Layout, tile: Sequence[int], k: int | None
) -> None:
    """Append `ctaLayout`: register and wave steps in units of instruction tiles."""
    dims = len(tile)
    if "ctaLayout" not in layout.params:  # Triton before 3.5
        waves = sizes_of(layout, "warpsPerCTA", dims)
        for dim in order_of(layout, dims):
            if dim == k:
                builder.repeat("warp", waves[dim])
            else:
                builder.extend("warp", dim, waves[dim])
        return
    spread = layout.params["ctaLayout"]
    for name in ("register", "warp"):
        for basis in spread.get(name, ()):
            if len(basis) != dims or sum(1 for step in basis if step) > 1:
                raise ValueError("ctaLayout")
            scaled = tuple(0 if dim == k else step * tile[dim] for dim, step in enumerate(basis))
            if name == "register" and any(basis) and not any(scaled):
                continue  # the operand does not extend along this step
            builder.bases[name].append(scaled)
            for dim, step in enumerate(scaled):
                if step:
                    builder.size[dim] = max(builder.size[dim], 1 << (log2(step) + 1))


def wmma_to_linear(layout: Layout, shape: tuple[int, ...]) -> LinearLayout | None:
    """The accumulator of WMMA: 16 lanes along one dimension, registers down the other.

    On RDNA3 (version 1) the two halves of the wave hold odd and even rows, later blocks of 8.
    """
    dims = len(shape)
    instruction = _wmma_instruction(layout)
    if instruction is None or dims < 2:
        return None
    transposed = layout.params.get("isTranspose") is True
    m, n = dims - 2, dims - 1
    row, column = (n, m) if transposed else (m, n)
    rows, columns = instruction[0], instruction[1]
    if columns != _WMMA_LANES:
        return None
    builder = LayoutBuilder(dims)
    builder.extend("lane", column, _WMMA_LANES)
    if layout.params.get("version", 1) == 1:
        builder.extend("lane", row, 2)
        builder.extend("register", row, rows // 2)
    else:
        builder.extend("register", row, 8)
        builder.extend("lane", row, 2)
        builder.cover("register", row, rows)
    tile = tuple(builder.size)
    _wmma_over_waves(builder, layout, tile, None)
    return builder.fit(shape, tuple(reversed(range(dims))), keep_copies=True)


def wmma_operand_to_linear(layout: Layout, shape: tuple[int, ...]) -> LinearLayout | None:
    """An operand of WMMA: `kWidth` neighbours along K per lane, 16 lanes across.

    On RDNA3 the upper half of the wave repeats the lower; later it holds the next part of K.
    """
    parent = layout.parent
    dims = len(shape)
    instruction = None if parent is None else _wmma_instruction(parent)
    if parent is None or instruction is None or dims < 2:
        return None
    width = layout.params["kWidth"]
    if not is_power_of_two(width) or instruction[1] != _WMMA_LANES:
        return None
    k = k_dim(layout, dims)
    other_dim = dims - 2 if k == dims - 1 else dims - 1
    transposed = parent.params.get("isTranspose") is True
    # `instrShape` names rows and columns of the instruction: transposed, its rows are N.
    has_rows = (layout.params["opIdx"] == 0) != transposed
    extent = instruction[0] if has_rows else instruction[1]
    builder = LayoutBuilder(dims)
    builder.extend("register", k, width)
    builder.extend("lane", other_dim, _WMMA_LANES)
    if parent.params.get("version", 1) == 1:
        builder.repeat("lane", 2)
    else:
        builder.extend("lane", k, 2)
        builder.cover("register", k, instruction[2])
    builder.cover("register", other_dim, extent)
    tile = tuple(builder.size)
    _wmma_over_waves(builder, parent, tile, k)
    return builder.fit(shape, _k_first(dims, k), keep_copies=True)
