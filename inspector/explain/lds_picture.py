"""Pictures of buffers in LDS as data: the byte, and so the bank, at which each cell begins.

A picture has the rows of the fastest dimension in cells of up to 16 bytes; of rows that lie in the
same banks only the first is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod

from msgspec import Struct

from ..model import Layout
from ..ttgir.matrix import order_of
from ..ttgir.shared_layouts import shared_offset
from .register_picture import MOST_ELEMENTS

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
