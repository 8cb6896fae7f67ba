"""Pictures of layouts as panels, the same in every format: sentences, grids, labels, tool tips."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..model import Layout
from ..ttgir.layouts import Holder
from .layout_pictures import BANK_BYTES, LaneCell, LdsPicture, LdsRow, RegisterPicture, TileGrid
from .view import plural

_PLANES = "That is the plane of the leading coordinates 0; the others differ by:"
UNKNOWN_LAYOUT = "a picture of this layout is not known"
_SWATCHES = 8
"""Colours of a terminal that cells of a grid share."""
_MOST_PLANES = 8
"""Planes of a buffer whose first byte is named."""


class Square(Struct, frozen=True):
    """A cell: its text, the number that its colour stands for, and its tool tip."""

    text: str
    number: int
    tip: str


class Grid(Struct, frozen=True):
    """Cells with a number beside each row and above each column.

    Args:
        count: of the numbers that colours stand for.
        starts: the byte of LDS at which each cell begins; empty for registers.
        is_run: whether cells show nothing but their number: those in sequence may be drawn as one.
        across: how many of the numbers a colour stands for.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    squares: tuple[tuple[Square, ...], ...]
    count: int
    across: int = 1
    starts: tuple[tuple[int, ...], ...] = ()
    is_run: bool = False


class Panel(Struct, frozen=True):
    """Sentences, a grid or lines, how many rows or planes are left out, and a sentence."""

    sentences: tuple[str, ...]
    grid: Grid | None = None
    lines: tuple[str, ...] = ()
    left: int = 0
    ending: str = ""

    @property
    def more(self) -> str:
        """What is left out; "" where nothing is."""
        return f"… {plural(self.left, 'row' if self.grid else 'plane')} more" if self.left else ""


def panels(
    picture: RegisterPicture | LdsPicture | None, most_rows: int, most_tiles: tuple[int, int]
) -> Iterator[Panel]:
    """The panels of a picture with at most so many rows of LDS, and rows and columns of tiles."""
    if picture is None:
        yield Panel((UNKNOWN_LAYOUT,))
    elif isinstance(picture, RegisterPicture):
        yield from _register_panels(picture, most_rows, most_tiles)
    else:
        yield _lds_panel(picture, most_rows)


def _register_panels(
    picture: RegisterPicture, most_rows: int, most_tiles: tuple[int, int]
) -> Iterator[Panel]:
    yield Panel((holders_text(picture),))
    labels = cell_labels(cell for row in picture.cells for cell in row)
    lanes = max(1, picture.lanes // _SWATCHES)
    is_run = not labels.waves and not labels.registers and not labels.blocks
    grid = _grid(
        picture.cells,
        lambda cell: Square(labels.of(cell.holder), cell.holder.lane, cell_tip(picture, cell)),
        picture.lanes,
    )
    yield Panel((tile_title(picture, labels),), replace(grid, across=lanes, is_run=is_run))
    if len(picture.tiles) * len(picture.tiles[0]) > 1:
        tiles = picture.grouped(*most_tiles)

        def square(cell: LaneCell) -> Square:
            label = tile_label(picture, tiles, cell.holder)
            return Square(label, cell.holder.warp, tile_tip(picture, tiles, cell))

        yield Panel((tiles_title(picture, tiles),), _grid(tiles.cells, square, picture.waves))
    if others := picture.planes[1:]:
        lines = tuple(plane_label(where, holder) for where, holder in others[:most_rows])
        yield Panel((_PLANES,), lines=lines, left=max(0, len(others) - most_rows))


def _grid(
    cells: Sequence[Sequence[LaneCell]], square: Callable[[LaneCell], Square], count: int
) -> Grid:
    has_rows = len(cells[0][0].first) > 1
    return Grid(
        tuple(str(row[0].first[-2]) if has_rows else "0" for row in cells),
        tuple(str(cell.first[-1]) for cell in cells[0]),
        tuple(tuple(map(square, row)) for row in cells),
        count,
    )


def _lds_panel(picture: LdsPicture, most_rows: int) -> Panel:
    drawn = picture.patterns[:most_rows]

    def square(row: LdsRow, column: int) -> Square:
        byte = row.starts[column]
        bank = picture.bank(byte)
        tip = byte_tip(picture, row, column)
        return Square(str(byte if bank is None else bank), bank or 0, tip)

    columns = range(len(picture.rows[0].starts))
    grid = Grid(
        tuple(row_numbers(rows) for _, rows in drawn),
        tuple(str(column * picture.cell) for column in columns),
        tuple(tuple(square(row, column) for column in columns) for row, _ in drawn),
        picture.banks or 1,
        max(1, (picture.banks or _SWATCHES) // _SWATCHES),
        tuple(row.starts for row, _ in drawn),
    )
    left = len(picture.patterns) - len(drawn)
    return Panel(tuple(buffer_titles(picture)), grid, left=left, ending=buffer_planes(picture))


def alias_of(layout: Layout) -> str:
    """The name that the TTGIR gives a layout, `#blocked1`; empty where it has none."""
    return f"#{layout.alias.lstrip('#')}" if layout.alias else ""


def described(layout: Layout) -> list[str]:
    """A layout's kind, then each of its parameters: `blocked`, `order [1,0]`."""
    parts = [layout.kind]
    parts += [f"{name} {_parameter(value)}" for name, value in layout.params.items()]
    if layout.parent is not None:
        first, *others = described(layout.parent)
        parts += [f"of {first}", *others]
    return parts


def _parameter(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{','.join(map(_parameter, value))}]"
    if isinstance(value, Mapping):
        return " ".join(f"{name} {_parameter(part)}" for name, part in value.items())
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as ranges: `0–7`, `0–3,8–11`; only the first two of more: `0,4,…`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(first) if first == last else f"{first}–{last}" for first, last in runs]
    return ",".join(texts) if len(texts) < 3 else f"{texts[0]},{texts[1]},…"


def times(count: int) -> str:
    """`once`, `twice`, `8 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def holders_text(picture: RegisterPicture) -> str:
    """How many waves, lanes and elements there are, and how often each element is held."""
    text = (
        f"{plural(picture.waves, 'wave')} × {picture.lanes} lanes × "
        f"{plural(picture.registers, 'element')} (r0–{picture.registers - 1})"
    )
    if picture.registers == 1:
        text = f"{plural(picture.waves, 'wave')} × {picture.lanes} lanes × 1 element (r0)"
    replication = f"each element is held {times(picture.times)}"
    return f"{text}; {replication}{_copies(picture.copies)}"


def _copies(copies: Sequence[Holder]) -> str:
    """Which other lanes, waves or registers hold each element; "" where there are none."""
    if not copies:
        return ""
    lanes = [copy for copy in copies if (copy.block, copy.warp, copy.register) == (0, 0, 0)]
    waves = [copy for copy in copies if (copy.block, copy.lane, copy.register) == (0, 0, 0)]
    registers = [copy for copy in copies if (copy.block, copy.warp, copy.lane) == (0, 0, 0)]
    parts = []
    for group, word, numbers in (
        (lanes, "lanes", [copy.lane for copy in lanes]),
        (waves, "waves", [copy.warp for copy in waves]),
        (registers, "elements of a lane", [copy.register for copy in registers]),
    ):
        if group:
            distances = ", ".join(f"+{number}" for number in numbers)
            parts.append(f"by {1 << len(group)} {word} ({distances})")
    other = len(copies) - len(lanes) - len(waves) - len(registers)
    if other:
        parts.append(f"and {1 << other} times across lanes, waves and workgroups")
    return f" — {', '.join(parts)}; the lowest is named"


class CellLabels(Struct, frozen=True):
    """How the cells of a tile are labelled: always by lane, and by what else differs."""

    waves: bool
    registers: bool
    blocks: bool

    def of(self, holder: Holder) -> str:
        """A cell's label: `12`, `12r4`, `w1:12`."""
        text = f"{holder.lane}"
        if self.waves:
            text = f"w{holder.warp}:{text}"
        if self.blocks:
            text = f"b{holder.block}:{text}"
        return f"{text}r{holder.register}" if self.registers else text

    @property
    def legend(self) -> str:
        """A label's parts, in words."""
        names = "lane"
        if self.waves:
            names = "wave (w) and lane"
        if self.blocks:
            names = f"workgroup (b), {names}"
        if self.registers:
            names += ", and after r its first element of that lane"
        return names


def cell_labels(cells: Iterable[LaneCell]) -> CellLabels:
    """The labels that tell the cells of a tile apart."""
    holders = [cell.holder for cell in cells]
    return CellLabels(
        len({holder.warp for holder in holders}) > 1,
        len({holder.register for holder in holders}) > 1,
        len({holder.block for holder in holders}) > 1,
    )


def extent(sizes: Sequence[int]) -> str:
    """Sizes as `8×64`."""
    return "×".join(map(str, sizes))


def tile_title(picture: RegisterPicture, labels: CellLabels) -> str:
    """The title of a tile's picture."""
    rows, columns = picture.cell
    size = f"{extent(picture.tile if len(picture.shape) > 1 else picture.tile[1:])} elements"
    is_one_tile = len(picture.tiles) * len(picture.tiles[0]) == 1
    lead = f"The tensor is one tile of {size}" if is_one_tile else f"A tile of {size}"
    count = rows * columns
    cell = f"{rows}×{columns} elements" if count > 1 else "one element"
    if count > 1 and not labels.registers:
        cell += f" (r{ranges(picture.cell_registers)})"
    return f"{lead}; a cell is {cell} of one lane; it shows the {labels.legend}"


def tiles_title(picture: RegisterPicture, grid: TileGrid) -> str:
    """The title of the picture of the tensor in tiles."""
    count = extent((len(picture.tiles), len(picture.tiles[0])))
    if len(picture.shape) == 1:
        count = str(len(picture.tiles[0]))
    each = len(picture.tile_registers)
    title = f"The tensor is {count} such tiles: the same lanes of wave w"
    if prod(grid.tiles) > 1:
        elements = plural(each, "element")
        return f"{title}, each with {elements} of r; {extent(grid.tiles)} tiles are drawn as one"
    elements = f"{each} elements from r on" if _is_run(picture.tile_registers) else "elements r"
    return f"{title}, with their {'element r' if each == 1 else elements}"


def _is_run(numbers: Sequence[int]) -> bool:
    return tuple(numbers) == tuple(range(len(numbers)))


def tile_label(picture: RegisterPicture, grid: TileGrid, first: Holder) -> str:
    """`w0 r8`, `w0 r0–31`: who holds a tile, or several, whose first element lies in `first`."""
    registers = sorted(number ^ first.register for number in grid.registers)
    single = prod(grid.tiles) == 1 and _is_run(grid.registers)
    text = f"w{first.warp} r{registers[0] if single else ranges(registers)}"
    return f"b{first.block} {text}" if picture.is_in_cluster else text


def plane_label(where: Sequence[int], holder: Holder) -> str:
    """A plane's coordinates, and how far its holders are from those of the plane that is drawn."""
    parts = [
        f"{name}{number}"
        for name, number in (
            ("workgroup +", holder.block),
            ("wave +", holder.warp),
            ("lane +", holder.lane),
            ("r+", holder.register),
        )
        if number
    ]
    return f"[{','.join(map(str, where))}]: {', '.join(parts) or 'as drawn'}"


def _coordinates(first: Sequence[int], sizes: Sequence[int]) -> str:
    """Rows and columns of a block, `rows 4–7, column 3`; of a vector `elements 4–7`."""
    parts = []
    for name, start, size in zip(("row", "column"), first, sizes, strict=True):
        plural_s = "s" if size > 1 else ""
        parts.append(f"{name}{plural_s} {ranges(range(start, start + size))}")
    return ", ".join(parts)


def cell_tip(picture: RegisterPicture, cell: LaneCell) -> str:
    """The wave, lane and registers that hold a cell of the first tile."""
    registers = sorted(number ^ cell.holder.register for number in picture.cell_registers)
    return (
        f"{_coordinates(cell.first[-2:], picture.cell)}: wave {cell.holder.warp}, "
        f"lane {cell.holder.lane}, r{ranges(registers)}"
    )


def tile_tip(picture: RegisterPicture, grid: TileGrid, cell: LaneCell) -> str:
    """The wave and registers that hold a tile, or a block of tiles."""
    sizes = [size * count for size, count in zip(picture.tile, grid.tiles, strict=True)]
    registers = sorted(number ^ cell.holder.register for number in grid.registers)
    where = _coordinates(cell.first[-2:], sizes)
    return f"{where}: wave {cell.holder.warp}, r{ranges(registers)}"


def buffer_titles(picture: LdsPicture) -> list[str]:
    """Returns sentences on a buffer: its size, what a cell shows, and which rows are drawn."""
    padding = picture.span - prod(picture.shape) * picture.bits // 8
    size = f"{extent(picture.shape)} elements of {picture.bits} bits, {picture.span:,} bytes of LDS"
    if padding:
        size += f", of them {padding:,} of padding"
    if picture.copies > 1:
        size += f"; {picture.copies} copies, one after the other"
    sentences = [size, _cell_sentence(picture)]
    drawn = len(picture.patterns)
    if drawn < len(picture.rows):
        sentences.append(f"Rows in the same banks are drawn once: {drawn} of {len(picture.rows)}.")
    return sentences


def _cell_sentence(picture: LdsPicture) -> str:
    """Says what a cell of a buffer is, and what the number in it counts."""
    cell = f"{plural(picture.cell, 'element')} along dim {picture.fast}, {picture.cell_bytes} bytes"
    row = "" if picture.slow is None else f"; a row is one index of dim {picture.slow}"
    if picture.banks is None:
        return f"A cell is {cell}: the byte where it begins{row}."
    across = -(-picture.cell_bytes // BANK_BYTES)
    first = f", the first of {across}" if across > 1 else ""
    return (
        f"A cell is {cell}: the bank of {picture.banks} where it begins{first}{row}. Banks count"
        " from where the buffer begins."
    )


def row_numbers(rows: Sequence[int]) -> str:
    """`0,17,34,51`, `0,8,…,56`."""
    if len(rows) <= 4:
        return ",".join(map(str, rows))
    return f"{rows[0]},{rows[1]},…,{rows[-1]}"


def buffer_planes(picture: LdsPicture) -> str:
    """The bytes at which the planes of leading dimensions begin; "" where there is only one."""
    if len(picture.planes) < 2:
        return ""
    places = ", ".join(
        f"[{','.join(map(str, where))}] {start:,}" for where, start in picture.planes[:_MOST_PLANES]
    )
    more = ", …" if len(picture.planes) > _MOST_PLANES else ""
    return f"Planes of the other dimensions begin at byte: {places}{more}"


def byte_tip(picture: LdsPicture, row: LdsRow, cell_index: int) -> str:
    """The elements, bytes and banks of a row's cell."""
    start = row.starts[cell_index]
    end = start + picture.cell_bytes - 1
    columns = ranges(range(cell_index * picture.cell, (cell_index + 1) * picture.cell))
    text = f"dim {picture.fast} {columns}: bytes {start:,}–{end:,}"
    if picture.slow is not None:
        text = f"dim {picture.slow} {row.index}, {text}"
    first, last = picture.bank(start), picture.bank(end)
    if first is None:
        return text
    return f"{text}, bank {first}" if first == last else f"{text}, banks {first}–{last}"
