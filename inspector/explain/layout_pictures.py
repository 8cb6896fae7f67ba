"""Pictures of buffers in LDS as data: the byte, and so the bank, at which each cell begins.

A picture has the rows of the fastest dimension in cells of up to 16 bytes; of rows that lie in the
same banks only the first is drawn.

Pictures of tensors in registers as data: which lane of which wave holds an element.

A layout repeats itself, so a picture has two levels: a *cell* is a block of elements that one lane
holds, and a *tile* the smallest block in which every lane has a cell. All tiles of a
tensor have the same lanes in the same places, but lie in different waves or registers. Both sizes
follow from the bits of a coordinate: those below the first one that changes lane, wave or block
span the cell, and those above the last one that changes the lane select the tile. Layouts are
linear, so these groups of bits act independently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod

from msgspec import Struct

from ..model import Layout
from ..ttgir.layouts import FIRST, Holder, Holders, holders_of, to_linear
from ..ttgir.linear import log2
from ..ttgir.matrix import order_of
from ..ttgir.shared_buffers import shared_offset

CELL_BYTES = 16
"""The widest access of LDS."""
BANK_BYTES = 4


class LdsRow(Struct, frozen=True):
    """A row of the fastest dimension.

    Args:
        starts: byte in the buffer at which each cell begins.
    """

    index: int
    starts: tuple[int, ...]


class LdsPicture(Struct, frozen=True):
    """How a buffer lies in LDS.

    Args:
        shape: of one copy, in elements.
        bits: of an element.
        fast: the dimension that cells run along; `slow` the one of the rows.
        cell: elements of a cell, contiguous in LDS in every row.
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
    """The picture of a buffer; None for layouts that are not known.

    Its shape has the copies, the layout `dims` dimensions; an element has 8 bits or more.
    """
    inner = tuple(shape[len(shape) - dims :])
    starts = _element_starts(layout, inner, bits) if prod(inner) <= MOST_ELEMENTS else None
    if starts is None:
        return None
    plane = _Plane(inner, _order(layout, starts, inner), starts, bits // 8)
    cell = plane.cell_elements()
    rows = tuple(
        LdsRow(row, tuple(plane.start(row, column) for column in range(0, plane.columns, cell)))
        for row in range(plane.rows)
    )
    leading_dims = plane.order[2:]
    planes = tuple(
        (leading, plane.start(0, 0, leading))
        for leading in product(*(range(inner[dim]) for dim in leading_dims))
    )
    return LdsPicture(
        shape=inner,
        copies=prod(shape[: len(shape) - dims]),
        bits=bits,
        fast=plane.order[0],
        slow=plane.order[1] if dims > 1 else None,
        cell=cell,
        rows=rows,
        patterns=_patterns(rows, banks),
        banks=banks,
        planes=planes,
        span=max(starts.values()) + plane.element_bytes,
    )


class _Plane(Struct, frozen=True):
    """The rows and columns of a buffer, in which leading dimensions have one index each.

    Args:
        order: its dimensions: the one that columns count, that of the rows, leading ones.
        starts: coordinates of an element -> its first byte.
        element_bytes: size of an element.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]
    starts: Mapping[tuple[int, ...], int]
    element_bytes: int

    @property
    def rows(self) -> int:
        return self.shape[self.order[1]] if len(self.order) > 1 else 1

    @property
    def columns(self) -> int:
        return self.shape[self.order[0]]

    def start(self, row: int, column: int, leading: Iterable[int] = ()) -> int:
        """Returns the first byte of an element; leading coordinates that are left out are 0."""
        where = [0] * len(self.order)
        for dim, coordinate in zip(self.order, (column, row, *leading), strict=False):
            where[dim] = coordinate
        return self.starts[tuple(where)]

    def cell_elements(self) -> int:
        """Returns the most elements, up to `CELL_BYTES`, that are contiguous all over the plane."""
        count = 1
        while count * 2 * self.element_bytes <= CELL_BYTES and self.columns % (count * 2) == 0:
            if any(
                self.start(row, column + count)
                != self.start(row, column) + count * self.element_bytes
                for row in range(self.rows)
                for column in range(0, self.columns, count * 2)
            ):
                break
            count *= 2
        return count


def _element_starts(
    layout: Layout, shape: tuple[int, ...], bits: int
) -> dict[tuple[int, ...], int] | None:
    """Returns the first byte of each element; None for a layout that is not known."""
    starts: dict[tuple[int, ...], int] = {}
    for where in product(*map(range, shape)):
        offset = shared_offset(layout, shape, where)
        if offset is None:
            return None
        starts[where] = offset * bits // 8
    return starts


def _order(
    layout: Layout, starts: Mapping[tuple[int, ...], int], shape: Sequence[int]
) -> tuple[int, ...]:
    """Dimensions, fastest first: in the layout's order or, if it has none, by their strides."""
    dims = len(shape)
    if "order" in layout.params:
        return order_of(layout, dims)

    def stride(dim: int) -> int:
        unit = tuple(int(d == dim) for d in range(dims))
        return starts.get(unit, 1 << 62)

    return tuple(sorted(range(dims), key=lambda dim: (stride(dim), -dim)))


def _patterns(
    rows: Sequence[LdsRow], banks: int | None
) -> tuple[tuple[LdsRow, tuple[int, ...]], ...]:
    """Groups of rows that lie in the same banks: the first row, and the numbers of all."""
    groups: dict[tuple[int, ...], list[LdsRow]] = {}
    period = banks * BANK_BYTES if banks is not None else 1 << 62  # bytes across all banks
    for row in rows:
        groups.setdefault(tuple(start % period for start in row.starts), []).append(row)
    return tuple((group[0], tuple(row.index for row in group)) for group in groups.values())


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
