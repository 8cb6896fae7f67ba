"""Redundant work of a workgroup, by TTGIR's layouts."""

from __future__ import annotations

from math import prod

from msgspec import Struct

from ..model import TtgirModule, TtgirOp, TtgirType
from .flow import flow_of
from .layouts import type_to_linear
from .linear import rank
from .matrix_work import (
    DotTile,
    covered_k,
    dot_tile_shapes,
    instruction_extents,
    mfma_per_dot,
    shares,
    waves_along,
)
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
