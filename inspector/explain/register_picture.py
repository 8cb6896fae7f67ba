"""Pictures of tensors in registers as data: which lane of which wave holds an element.

A layout repeats itself, so a picture has two levels: a *cell* is a block of elements that one lane
holds, and a *tile* the smallest block in which every lane has a cell. All tiles of a
tensor have the same lanes in the same places, but lie in different waves or registers. Both sizes
follow from the bits of a coordinate: those below the first one that changes lane, wave or block
span the cell, and those above the last one that changes the lane select the tile. Layouts are
linear, so these groups of bits act independently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod

from msgspec import Struct

from ..model import Layout
from ..ttgir.holders import FIRST, Holder, Holders, holders_of
from ..ttgir.layouts import to_linear
from ..ttgir.linear import log2

MOST_ELEMENTS = 1 << 20
"""Elements up to which a tensor is drawn: the limit that Triton sets for its tensors."""


class LaneCell(Struct, frozen=True):
    """A block of neighbouring elements that one lane holds."""

    first: tuple[int, ...]
    holder: Holder


class TileGrid(Struct, frozen=True):
    """A tensor's tiles, or blocks of tiles that lie in one wave.

    Args:
        tiles: how many tiles a block has along rows and columns.
        registers: a lane's register numbers, which count its elements, in the first block.
    """

    cells: tuple[tuple[LaneCell, ...], ...]
    tiles: tuple[int, int]
    registers: tuple[int, ...]


class RegisterPicture(Struct, frozen=True):
    """How a tensor lies in registers.

    Args:
        lanes, waves, registers: of the layout; `registers` are elements of one lane.
        cells: those of the first tile, by rows.
        tiles: the first cell of every tile of a plane, by rows.
        planes: leading coordinates, and what they add to the holder; one of () in two dimensions.
        cell_registers: numbers that the elements of a cell have in their lane, by rows.
        tile_registers: numbers that one lane's elements of a tile have.
        copies: what index bits that do not change the element add to a holder.
    """

    shape: tuple[int, ...]
    lanes: int
    waves: int
    registers: int
    cell: tuple[int, int]
    tile: tuple[int, int]
    cells: tuple[tuple[LaneCell, ...], ...]
    tiles: tuple[tuple[LaneCell, ...], ...]
    planes: tuple[tuple[tuple[int, ...], Holder], ...]
    cell_registers: tuple[int, ...]
    tile_registers: tuple[int, ...]
    copies: tuple[Holder, ...]
    holders: Holders

    @property
    def times(self) -> int:
        """How often each element is held."""
        return 1 << len(self.copies)

    def grouped(self, most_rows: int, most_columns: int) -> TileGrid:
        """The tiles, joined to blocks within a wave where there are more than may be drawn."""
        sizes, registers = [], list(self.tile_registers)
        limits = most_rows, most_columns
        counts = len(self.tiles), len(self.tiles[0])
        for steps, extent, count, room in zip(
            self.holders.steps[-2:], self.tile, counts, limits, strict=True
        ):
            size = 1
            for step in steps[log2(extent) :]:
                if count // size <= room or step.warp or step.block:
                    break
                registers += [number ^ step.register for number in registers]
                size *= 2
            sizes.append(size)
        rows, columns = sizes
        return TileGrid(
            tuple(row[::columns] for row in self.tiles[::rows]),
            (rows, columns),
            tuple(sorted(set(registers))),
        )

    @property
    def is_in_cluster(self) -> bool:
        """Whether tiles lie in several workgroups."""
        return any(step.block for steps in self.holders.steps for step in steps)


def register_picture(layout: Layout, shape: Sequence[int]) -> RegisterPicture | None:
    """Returns the picture of a tensor; None if the layout is unknown or the tensor too large."""
    linear = to_linear(layout, shape) if prod(shape) <= MOST_ELEMENTS else None
    holders = holders_of(linear) if linear is not None else None
    if linear is None or holders is None:
        return None
    # A vector is drawn as one row.
    plane = (
        holders if len(shape) > 1 else Holders((1, *shape), ((), *holders.steps), holders.copies)
    )
    *leading, rows, columns = plane.steps
    cell = _low_bits(rows), _low_bits(columns)
    tile = max(_lane_bits(rows), cell[0]), max(_lane_bits(columns), cell[1])
    cell_steps = (*rows[: log2(cell[0])], *columns[: log2(cell[1])])
    tile_steps = (*rows[: log2(tile[0])], *columns[: log2(tile[1])])
    return RegisterPicture(
        shape=tuple(shape),
        lanes=1 << len(linear.lane),
        waves=1 << len(linear.warp),
        registers=linear.elements_per_thread,
        cell=cell,
        tile=tile,
        cells=_cells(plane, tile, cell),
        tiles=_cells(plane, (1 << len(rows), 1 << len(columns)), tile),
        planes=tuple(_planes(leading)),
        cell_registers=_span(cell_steps),
        tile_registers=tuple(sorted(set(_span(tile_steps)))),
        copies=holders.copies,
        holders=plane,
    )


def _cells(
    plane: Holders, extent: tuple[int, int], step: tuple[int, int]
) -> tuple[tuple[LaneCell, ...], ...]:
    """Returns the cells at every step of the first plane's rows and columns, up to an extent."""
    leading = (0,) * (len(plane.steps) - 2)
    return tuple(
        tuple(
            LaneCell(where, plane.at(where))
            for column in range(0, extent[1], step[1])
            for where in [(*leading, row, column)]
        )
        for row in range(0, extent[0], step[0])
    )


def _low_bits(steps: Sequence[Holder]) -> int:
    """Extent of a cell along a dimension: up to its first bit that changes lane, wave or block."""
    for bit, step in enumerate(steps):
        if (step.block, step.warp, step.lane) != (0, 0, 0):
            return 1 << bit
    return 1 << len(steps)


def _lane_bits(steps: Sequence[Holder]) -> int:
    """Extent of a tile along a dimension: up to its last bit that changes the lane."""
    return max((2 << bit for bit, step in enumerate(steps) if step.lane), default=1)


def _planes(leading: Sequence[Sequence[Holder]]) -> Iterator[tuple[tuple[int, ...], Holder]]:
    """Yields the leading coordinates of each plane, and what they add to a holder."""
    for where in product(*(range(1 << len(steps)) for steps in leading)):
        holder = FIRST
        for coordinate, steps in zip(where, leading, strict=True):
            for bit, step in enumerate(steps):
                if coordinate >> bit & 1:
                    holder ^= step
        yield where, holder


def _span(steps: Iterable[Holder]) -> tuple[int, ...]:
    """The register numbers that combinations (XOR) of the steps reach from 0, ascending."""
    numbers = [0]
    for step in steps:
        numbers += [number ^ step.register for number in numbers]
    return tuple(sorted(numbers))
