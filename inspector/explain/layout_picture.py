"""Pictures of layouts as data: which lane of which wave holds an element, which bank it lies in.

A layout repeats itself, so a picture has two levels. In registers, a *cell* is a block of elements
that one lane holds, and a *tile* the smallest block in which every lane has a cell. All tiles of a
tensor have the same lanes in the same places, but lie in different waves or registers. Both sizes
follow from the bits of a coordinate: those below the first one that changes lane, wave or block
span the cell, and those above the last one that changes the lane select the tile. Layouts are
linear, so these groups of bits act independently. In LDS, a picture has the rows of the fastest
dimension in cells of up to 16 bytes; of rows that lie in the same banks only the first is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod

from msgspec import Struct

from ..model import Layout
from ..ttgir.holders import FIRST, Holder, Holders, holders_of
from ..ttgir.layouts import to_linear
from ..ttgir.linear import log2
from ..ttgir.matrix import order_of
from ..ttgir.shared_layouts import shared_offset

CELL_BYTES = 16
"""The widest access of LDS."""
BANK_BYTES = 4
MOST_ELEMENTS = 1 << 20
"""Elements up to which a tensor is drawn: the limit that Triton sets for its tensors."""


class Cell(Struct, frozen=True):
    """A block of neighbouring elements that one lane holds.

    Args:
        first: coordinates of its first element.
        holder: the block, wave, lane and register that hold the first element.
    """

    first: tuple[int, ...]
    holder: Holder


class TileGrid(Struct, frozen=True):
    """A tensor's tiles, or blocks of tiles that lie in one wave.

    Args:
        cells: the first cell of each block, row by row.
        tiles: how many tiles a block has along rows and columns.
        registers: a lane's register numbers, which count its elements, in the first block.
    """

    cells: tuple[tuple[Cell, ...], ...]
    tiles: tuple[int, int]
    registers: tuple[int, ...]


class RegisterPicture(Struct, frozen=True):
    """How a tensor lies in registers.

    Args:
        shape: of the tensor, in elements.
        lanes, waves, registers: of the layout; `registers` are elements of one lane.
        cell: extent of a cell, in elements.
        tile: extent of a tile, in elements.
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
    cells: tuple[tuple[Cell, ...], ...]
    tiles: tuple[tuple[Cell, ...], ...]
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
        """The tiles, joined to blocks within a wave where there are too many to draw.

        Args:
            most_rows: rows of blocks that may be drawn.
            most_columns: columns of blocks that may be drawn.
        """
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
    """The picture of a tensor; None where the layout is unknown or the tensor too large."""
    linear = to_linear(layout, shape) if prod(shape) <= MOST_ELEMENTS else None
    holders = holders_of(linear) if linear is not None else None
    if linear is None or holders is None:
        return None
    # A vector is drawn as one row.
    steps = holders.steps if len(shape) > 1 else ((), *holders.steps)
    rows, columns = steps[-2], steps[-1]
    leading = steps[:-2]
    cell = _low_bits(rows), _low_bits(columns)
    tile = max(_lane_bits(rows), cell[0]), max(_lane_bits(columns), cell[1])
    plane = holders if len(shape) > 1 else Holders((1, *shape), steps, holders.copies)

    def cells(extent: tuple[int, int], step: tuple[int, int]) -> tuple[tuple[Cell, ...], ...]:
        fixed = (0,) * len(leading)
        return tuple(
            tuple(
                Cell(where, plane.at(where))
                for column in range(0, extent[1], step[1])
                for where in [(*fixed, row, column)]
            )
            for row in range(0, extent[0], step[0])
        )

    in_tile = [row[: log2(size)] for row, size in zip((rows, columns), tile, strict=True)]
    in_cell = [row[: log2(size)] for row, size in zip((rows, columns), cell, strict=True)]
    return RegisterPicture(
        shape=tuple(shape),
        lanes=1 << len(linear.lane),
        waves=1 << len(linear.warp),
        registers=linear.elements_per_thread,
        cell=cell,
        tile=tile,
        cells=cells(tile, cell),
        tiles=cells((1 << len(rows), 1 << len(columns)), tile),
        planes=tuple(_planes(leading)),
        cell_registers=_span(step for steps_of_dim in in_cell for step in steps_of_dim),
        tile_registers=tuple(
            sorted(set(_span(step for steps_of_dim in in_tile for step in steps_of_dim)))
        ),
        copies=holders.copies,
        holders=plane,
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


def _planes(leading: Sequence[Sequence[Holder]]) -> Iterable[tuple[tuple[int, ...], Holder]]:
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


# --------------------------------------------------------------------------- LDS


class LdsRow(Struct, frozen=True):
    """A row of the fastest dimension.

    Args:
        index: its number.
        starts: byte in the buffer at which each cell begins.
    """

    index: int
    starts: tuple[int, ...]


class LdsPicture(Struct, frozen=True):
    """How a buffer lies in LDS.

    Args:
        shape: of one copy, in elements.
        copies: of the buffer, for the stages of a loop.
        bits: of an element.
        fast: the dimension that cells run along; `slow` the one of the rows.
        cell: elements of a cell, contiguous in LDS in every row.
        rows: all of a plane.
        patterns: the rows of which each lies in banks of its own, and the numbers of all rows that
            lie in the same ones.
        banks: of the LDS, of 4 bytes each; None where it is not known.
        planes: leading coordinates, and the byte at which each plane begins; () in two dimensions.
        span: bytes from the first to the last of a copy, padding included.
    """

    shape: tuple[int, ...]
    copies: int
    bits: int
    fast: int
    slow: int | None
    cell: int
    rows: tuple[LdsRow, ...]
    patterns: tuple[tuple[LdsRow, tuple[int, ...]], ...]
    banks: int | None
    planes: tuple[tuple[tuple[int, ...], int], ...]
    span: int

    @property
    def cell_bytes(self) -> int:
        return self.cell * self.bits // 8

    def bank(self, byte: int) -> int | None:
        """The bank of a byte of the buffer, where that begins at bank 0."""
        return byte // BANK_BYTES % self.banks if self.banks is not None else None


def lds_picture(
    layout: Layout, shape: Sequence[int], dims: int, bits: int, banks: int | None
) -> LdsPicture | None:
    """The picture of a buffer.

    Args:
        layout: a shared one.
        shape: of the buffer, in elements, copies included.
        dims: of the layout.
        bits: of an element, 8 or more.
        banks: of the target's LDS.

    Returns:
        None for layouts that are not known.
    """
    inner = tuple(shape[len(shape) - dims :])
    if prod(inner) > MOST_ELEMENTS:
        return None
    offsets: dict[tuple[int, ...], int] = {}
    for where in product(*map(range, inner)):
        offset = shared_offset(layout, inner, where)
        if offset is None:
            return None
        offsets[where] = offset * bits // 8
    order = _order(layout, offsets, inner)
    fast, slow = order[0], order[1] if dims > 1 else None
    size = bits // 8

    def byte(row: int, column: int, leading: Sequence[int] = ()) -> int:
        where = [0] * dims
        where[fast] = column
        if slow is not None:
            where[slow] = row
        for dim, coordinate in zip(order[2:], leading, strict=False):
            where[dim] = coordinate
        return offsets[tuple(where)]

    count = 1 if slow is None else inner[slow]
    cell = 1
    while cell * 2 * size <= CELL_BYTES and inner[fast] % (cell * 2) == 0:
        if any(
            byte(row, column + cell) != byte(row, column) + cell * size
            for row in range(count)
            for column in range(0, inner[fast], cell * 2)
        ):
            break
        cell *= 2
    rows = tuple(
        LdsRow(row, tuple(byte(row, column) for column in range(0, inner[fast], cell)))
        for row in range(count)
    )
    planes = tuple(
        (leading, byte(0, 0, leading))
        for leading in product(*(range(inner[dim]) for dim in order[2:]))
    )
    return LdsPicture(
        shape=inner,
        copies=prod(shape[: len(shape) - dims]),
        bits=bits,
        fast=fast,
        slow=slow,
        cell=cell,
        rows=rows,
        patterns=_patterns(rows, banks),
        banks=banks,
        planes=planes,
        span=max(offsets.values()) + size,
    )


def _order(
    layout: Layout, offsets: dict[tuple[int, ...], int], shape: Sequence[int]
) -> tuple[int, ...]:
    """Dimensions, fastest first: in the layout's order or, if it has none, by their strides."""
    dims = len(shape)
    if "order" in layout.params:
        return order_of(layout, dims)

    def step(dim: int) -> int:
        unit = tuple(int(d == dim) for d in range(dims))
        return offsets.get(unit, 1 << 62)

    return tuple(sorted(range(dims), key=lambda dim: (step(dim), -dim)))


def _patterns(
    rows: Sequence[LdsRow], banks: int | None
) -> tuple[tuple[LdsRow, tuple[int, ...]], ...]:
    """Groups of rows that lie in the same banks: the first row, and the numbers of all.

    Where the number of banks is unknown, only rows at the same addresses make a group.
    """
    groups: dict[tuple[int, ...], list[LdsRow]] = {}
    period = banks * BANK_BYTES if banks is not None else 1 << 62  # bytes across all banks
    for row in rows:
        groups.setdefault(tuple(start % period for start in row.starts), []).append(row)
    return tuple((group[0], tuple(row.index for row in group)) for group in groups.values())
