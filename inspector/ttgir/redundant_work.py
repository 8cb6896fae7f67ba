"""Redundant work of a workgroup, by TTGIR's layouts.

The work of the matrix unit for dots: their extents, and the instructions that cover them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from msgspec import Struct

from ..model import Layout, TtgirModule, TtgirOp, TtgirType
from .flow import flow_of
from .layouts import type_to_linear
from .linear import rank
from .matrix import MFMA_WAVE, cluster_bases, instruction_shape, share_of_workgroup, sizes_of
from .queries import DOTS


class Cover(Struct, frozen=True):
    """The work of the matrix unit for a dot along one dimension.

    Args:
        name: `M`, `N`, `K` or `batch`.
        needed: elements of the tile.
        covered: elements that all waves' instructions span.
        instruction: elements that one instruction spans.
        waves: waves side by side along it.
        per_wave: elements that one wave's instructions span.
    """

    name: str
    needed: int
    covered: int
    instruction: int
    waves: int
    per_wave: int

    @property
    def times(self) -> float:
        """Computations of each element; 1 where the waves fit."""
        return self.covered / self.needed

    @property
    def blocks(self) -> int:
        """Matrix instructions side by side that the tile needs."""
        return -(-self.needed // self.instruction)

    @property
    def repeats(self) -> float:
        """Executions of each of those instructions; parts beyond the tile are no repetition."""
        return self.covered / (self.blocks * self.instruction)


class DotWork(Struct, frozen=True):
    """One dot on the matrix unit.

    Args:
        tile: its extents.
        instructions: matrix instructions of one wave.
        waves: waves of the workgroup.
        covers: the covers along batch (if it has one), M, N and K.
    """

    tile: DotTile
    instructions: int
    waves: int
    covers: tuple[Cover, ...]

    @property
    def needed(self) -> int:
        """Multiply-accumulates that the product needs of the workgroup."""
        return prod(cover.needed for cover in self.covers)

    @property
    def issued(self) -> int:
        """Multiply-accumulates that the waves' instructions perform."""
        return prod(cover.covered for cover in self.covers)

    @property
    def redundancy(self) -> float:
        """Issued over needed; 1 where nothing is computed twice."""
        return self.issued / self.needed


def dot_work(op: TtgirOp) -> DotWork | None:
    """The work of the matrix unit for a dot.

    None where the dot is not on the matrix unit, or its layout does not state enough.
    """
    tile, count = dot_tile_shapes(op), mfma_per_dot(op)
    if tile is None or count is None:
        return None
    layout = op.result_types[0].layout
    extents = instruction_extents(layout) if layout is not None else None
    if layout is None or extents is None:
        return None
    dims = len(op.result_types[0].shape)
    waves_by_dim, tiles = waves_along(layout, dims)
    rows, columns, depth = extents
    covers = []
    sizes = shares(tile, layout, dims)
    spans = (1, rows, columns)[3 - dims :]
    names = ("batch", "M", "N")[3 - dims :]
    for name, size, span, waves, tiles_per_wave in zip(
        names, sizes, spans, waves_by_dim, tiles, strict=True
    ):
        span_of_waves = span * waves * tiles_per_wave
        covered = -(-size // span_of_waves) * span_of_waves
        covers.append(Cover(name, size, covered, span, waves, covered // waves))
    covered_depth = covered_k(op, layout, tile.k)
    covered_depth = max(covered_depth, depth)
    covers.append(Cover("K", tile.k, covered_depth, depth, 1, covered_depth))
    return DotWork(tile, count, prod(waves_by_dim), tuple(covers))


def fitting_waves(op: TtgirOp, work: DotWork, module: TtgirModule) -> int:
    """The most waves that would all have matrix instructions of their own.

    Triton (3.9, AccelerateAMDMatmul, `warpsPerTile`) spreads the waves of a dot over its rows alone
    where another dot multiplies its result, over its batch alone where it has one, and otherwise
    over rows and columns. Where a module's waves are spread differently, they are counted as they
    are.

    `op`: a dot; `module`: the module it belongs to.
    """
    blocks = {cover.name: cover.blocks for cover in work.covers}
    if "batch" in blocks:
        waves = blocks["batch"]
    elif _leads_chain(op, module):
        waves = blocks["M"]
    else:
        waves = blocks["M"] * blocks["N"]
    if waves < work.waves:
        return waves
    return prod(min(cover.waves, cover.blocks) for cover in work.covers)


def _leads_chain(op: TtgirOp, module: TtgirModule) -> bool:
    """Whether a dot's result becomes another's first operand, not by way of a loop or an `if`."""
    flow = flow_of(module)
    dots = [other for other in module.ops if other.name in DOTS and other is not op]
    ahead = [value for dot in dots for value in flow.operands[dot.index][:1]]
    visited: set[int] = set()
    while ahead:
        value = ahead.pop()
        maker = flow.op(value)
        if maker is op:
            return True
        if maker is not None and value not in visited:
            ahead += flow.operands[maker.index]
        visited.add(value)
    return False


class Copies(Struct, frozen=True):
    """Copies of each element of a tensor in a workgroup.

    Args:
        lanes: lanes of one wave that hold the same element.
        waves: waves that do.
        registers: registers of one lane that do.
    """

    elements: int
    lanes: int
    waves: int
    registers: int

    @property
    def times(self) -> int:
        """Copies of each element in the workgroup."""
        return self.lanes * self.waves * self.registers


def copies(tensor: TtgirType) -> Copies | None:
    """The copies of a tensor's elements; None where its layout is unknown.

    Index bits that do not change the element make copies: first those of registers, then of lanes,
    then of waves.
    """
    linear = type_to_linear(tensor)
    if linear is None:
        return None
    spanned = rank(linear.register)
    free = [len(linear.register) - spanned]
    for bases, inner_bases in (
        (linear.lane, linear.register),
        (linear.warp, (*linear.register, *linear.lane)),
    ):
        total = rank((*inner_bases, *bases))
        free.append(len(bases) - (total - spanned))
        spanned = total
    return Copies(prod(tensor.shape), 1 << free[1], 1 << free[2], 1 << free[0])


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
