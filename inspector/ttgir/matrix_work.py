"""The work of the matrix unit for dots: their extents, and the instructions that cover them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..model import Layout, TtgirOp
from .matrix import (
    MFMA_WAVE,
    cluster_bases,
    instruction_shape,
    share_of_workgroup,
    sizes_of,
)
from .queries import DOTS

_FP4_PER_BYTE = 2
_E2M1 = 4
"""ScaleDotElemType's number of e2m1, which the generic form prints."""
_THIN = 4
"""Rows or columns of the thinnest matrix instructions, v_mfma_*_4x4x4_16b_*."""


class DotTile(Struct, frozen=True):
    """Extents of one dot over the whole workgroup, in elements (not packed bytes)."""

    m: int
    n: int
    k: int
    batch: int = 1


def dot_tile_shapes(op: TtgirOp) -> DotTile | None:
    """M, N, K and batch of a dot, from its operand types; None where they are odd.

    Operands of `tt.dot_scaled` in e2m1 hold two elements per byte along K, or along M or N where
    `lhs_k_pack` or `rhs_k_pack` is false; M and N are taken from the result.
    """
    if op.name not in DOTS or len(op.operand_types) < 3 or len(op.result_types) != 1:
        return None
    a, result = op.operand_types[0].shape, op.result_types[0].shape
    if len(a) != len(result) or len(result) not in (2, 3):
        return None
    k = a[-1]
    packed = op.name == "tt.dot_scaled" and _is_fp4(op, "lhs", "a_elem_type")
    if packed and op.attributes.get("lhs_k_pack", True):
        k *= _FP4_PER_BYTE
    return DotTile(result[-2], result[-1], k, result[0] if len(result) == 3 else 1)


def _is_fp4(op: TtgirOp, custom: str, generic: str) -> bool:
    return op.attributes.get(custom, op.attributes.get(generic)) in ("e2m1", _E2M1)


def mfma_per_dot(op: TtgirOp) -> int | None:
    """Matrix instructions (MFMA or WMMA) that one wave executes for one dot.

    The tile is spread over instructions, each wave's share of them rounded up: a wave whose share
    lies outside the tensor repeats another's work.

    Returns:
        The count; None where the dot does not run on the matrix unit (a blocked layout) or the
        module does not state the instruction's K (Triton before 3.5).
    """
    tile = dot_tile_shapes(op)
    layout = op.result_types[0].layout if tile is not None else None
    if tile is None or layout is None or layout.kind not in ("amd_mfma", "amd_wmma"):
        return None
    extents = instruction_extents(layout)
    if extents is None:
        return None
    m, n, k = extents
    dims = len(op.result_types[0].shape)
    try:
        repeats = _repeats(layout, shares(tile, layout, dims), (1, m, n)[3 - dims :])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return repeats * max(1, covered_k(op, layout, tile.k) // k)


def shares(tile: DotTile, layout: Layout, dims: int) -> tuple[int, ...]:
    """The extents of a dot for one workgroup (of a cluster) along batch (if it has one), M and N.

    Raises:
        ValueError: the layout does not state them.
    """
    shape = (tile.batch, tile.m, tile.n)[3 - dims :]
    return share_of_workgroup(shape, cluster_bases(layout, dims))


def instruction_extents(layout: Layout) -> tuple[int, int, int] | None:
    """The extents M, N and K of one matrix instruction, in elements; None if not stated."""
    instruction = instruction_shape(layout)
    if instruction is None or instruction[2] is None:
        return None
    m, n, k = instruction[0], instruction[1], instruction[2]
    if min(m, n) == _THIN and k == MFMA_WAVE:
        k = _THIN  # 16 blocks of 4x4x4; the layout states K over all of them
    if layout.kind == "amd_wmma" and layout.params.get("isTranspose") is True:
        m, n = n, m  # `instrShape` names the instruction's rows, here N
    return m, n, k


def covered_k(op: TtgirOp, layout: Layout, k: int) -> int:
    """The K extent that the operand registers cover: more than K where K is very small."""
    operand = op.operand_types[0].layout
    width = operand.params.get("kWidth") if operand is not None else None
    instruction = instruction_shape(layout)
    if not isinstance(width, int) or instruction is None:
        return k
    if layout.kind == "amd_mfma":
        return max(k, width * MFMA_WAVE // min(instruction[:2]))
    return k


def _repeats(layout: Layout, shape: tuple[int, ...], tile: tuple[int, ...]) -> int:
    """Instruction tiles per wave over the result's dimensions."""
    waves, tiles = waves_along(layout, len(shape))
    repeats = 1
    for size, tile_size, count, per_wave in zip(shape, tile, waves, tiles, strict=True):
        repeats *= max(1, -(-size // (tile_size * count * per_wave))) * per_wave
    return repeats


def waves_along(layout: Layout, dims: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Waves side by side along each dimension, and the adjacent instructions of each wave.

    Raises:
        KeyError, ValueError: the layout does not state them.
    """
    spread = layout.params.get("ctaLayout")
    if spread is not None:
        return _steps(spread.get("warp", ()), dims), _steps(spread.get("register", ()), dims)
    tiles = (1,) * dims
    if "tilesPerWarp" in layout.params:
        tiles = sizes_of(layout, "tilesPerWarp", dims)
    return sizes_of(layout, "warpsPerCTA", dims), tiles


def _steps(bases: Sequence[Sequence[int]], dims: int) -> tuple[int, ...]:
    """The number of tiles that basis vectors step over along each dimension."""
    tiles = [1] * dims
    for basis in bases:
        for dim, step in enumerate(basis):
            if step:
                tiles[dim] *= 2
    return tuple(tiles)
