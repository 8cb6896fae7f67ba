"""Pictures of layouts for a terminal: numbers say everything, colours only repeat them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TextIO

from msgspec import Struct

from ..explain import layout_view
from ..explain.layout_values import LaidOutValue, LayoutDrawing, alike
from ..explain.lds_picture import LdsPicture
from ..explain.register_picture import LaneCell, RegisterPicture
from ..explain.view import plural
from ..present.paper import Line, Paper, paper_for
from ..ttgir.holders import Holder

WIDTH = 80
MOST_ROWS = 64
_SWATCHES = (
    "bright_cyan", "bright_yellow", "bright_green", "bright_magenta", "bright_blue", "bright_red",
    "white", "cyan",
)  # fmt: skip
_GAP = 1
_MOST_TILES = 16, 8
"""Rows and columns of tiles; more are put together where they lie in one wave."""
_TALL = 8
"""Rows of cells that are drawn one by one; more of them become one where their lanes follow."""


def write_list(
    values: Sequence[LaidOutValue], title: str, stream: TextIO, *, ttgir_lines: bool,
    color: bool | None = None, lds_map: Sequence[str] = (),
) -> None:  # fmt: skip
    """Writes the values that have a layout, those of one layout together, then the map of LDS."""
    paper = paper_for(stream, color)
    paper.print(Line(title, "bold"))
    by_layout: dict[str, list[LaidOutValue]] = {}
    for value in values:
        by_layout.setdefault(value.layout.text, []).append(value)
    for of_layout in by_layout.values():
        paper.print(Line())
        layout = of_layout[0].layout
        _print_layout(paper, layout_view.alias_of(layout), layout_view.described(layout))
        rows = [_listed(group, ttgir_lines) for group in alike(of_layout)]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        for row in rows:
            cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
            line = Line("  ")
            line.append(cells[0], "bold")
            line.append("  ".join(["", *cells[1:]]))
            paper.print(line)
    if lds_map:
        paper.print(Line())
        paper.print(Line(lds_map[0], "bold"))
    for text in lds_map[1:]:
        paper.print(Line(text))


def _listed(group: Sequence[LaidOutValue], ttgir_lines: bool) -> tuple[str, ...]:
    first = group[0]
    name = first.name if len(group) == 1 else f"{first.name} and {len(group) - 1} more"
    position = f"line {first.op.line}" if ttgir_lines else first.place or f"TTGIR:{first.op.line}"
    return name, first.shape_text, first.op.name, position


def write(drawn: Sequence[LayoutDrawing], stream: TextIO, *, color: bool | None = None) -> None:
    """Writes pictures, one after the other."""
    paper = paper_for(stream, color)
    for number, item in enumerate(drawn):
        if number:
            paper.print(Line())
        head = Line(item.title, "bold")
        if len(item.title) + 2 + len(item.origin) <= min(paper.width, WIDTH):
            head.append(f"  {item.origin}")
            paper.print(head)
        else:
            paper.print(head)
            paper.print(Line(f"  {item.origin}"))
        _print_layout(paper, item.alias, item.described)
        paper.print(Line())
        if isinstance(item.picture, RegisterPicture):
            _print_registers(paper, item.picture)
        elif isinstance(item.picture, LdsPicture):
            _print_lds(paper, item.picture)
        else:
            paper.print(Line(layout_view.UNKNOWN_LAYOUT))


def _print_layout(paper: Paper, alias: str, described: Sequence[str]) -> None:
    """Prints a layout's parameters, none of which is broken over lines."""
    # Parameters stay in one piece: their blanks are put back behind the wrapping.
    text = "  ".join(
        word.replace("],[", "], [") if len(word) > WIDTH // 2 else word.replace(" ", "\0")
        for word in described
    )
    head = f"{alias}  " if alias else ""
    width = min(paper.width, WIDTH)
    lines = textwrap.wrap(
        head + text, width, subsequent_indent=" " * max(len(head), 2), break_long_words=False,
        break_on_hyphens=False, drop_whitespace=True,
    )  # fmt: skip
    for line in lines:
        paper.print(Line(line.replace("\0", " "), "dim"))


def _print_sentence(paper: Paper, text: str) -> None:
    for line in textwrap.wrap(text, min(paper.width, WIDTH), break_on_hyphens=False):
        paper.print(Line(line))


def _print_registers(paper: Paper, picture: RegisterPicture) -> None:
    """Prints the tile of a wave, the tiles of the workgroup, and the planes."""
    _print_sentence(paper, layout_view.holders_text(picture))
    paper.print(Line())
    labels = layout_view.cell_labels(cell for row in picture.cells for cell in row)
    _print_sentence(paper, layout_view.tile_title(picture, labels))
    group = max(1, picture.lanes // len(_SWATCHES))
    _print_cells(
        paper,
        picture.cells,
        labels.of,
        lambda cell: cell.holder.lane // group,
        runs=not labels.waves and not labels.registers and not labels.blocks,
    )
    if len(picture.tiles) * len(picture.tiles[0]) > 1:
        paper.print(Line())
        grid = picture.grouped(*_MOST_TILES)
        _print_sentence(paper, layout_view.tiles_title(picture, grid))
        _print_cells(
            paper,
            grid.cells,
            lambda holder: layout_view.tile_label(picture, grid, holder),
            lambda cell: cell.holder.warp,
            runs=False,
        )
    if len(picture.planes) > 1:
        paper.print(Line())
        _print_sentence(paper, layout_view.PLANES)
        for where, holder in picture.planes[1 : MOST_ROWS + 1]:
            paper.print(Line(f"  {layout_view.plane_label(where, holder)}"))
        _print_omitted(paper, len(picture.planes) - 1 - MOST_ROWS, "plane")


def _print_omitted(paper: Paper, count: int, word: str) -> None:
    if count > 0:
        paper.print(Line(f"  … {plural(count, word)} more: --format svg or html draws all", "dim"))


def _print_cells(
    paper: Paper,
    cells: Sequence[Sequence[LaneCell]],
    label: Callable[[Holder], str],
    swatch: Callable[[LaneCell], int],
    *,
    runs: bool,
) -> None:
    """Prints cells by rows, coordinates at the top and on the left."""
    margin = len(str(cells[-1][0].first[-2])) if len(cells[0][0].first) > 1 else 1
    available = min(paper.width, WIDTH) - margin - 4
    lanes = [[cell.holder.lane for cell in row] for row in cells]
    across = _merged(lanes, available) if runs else 1
    down = _merged(list(zip(*lanes, strict=True)), _TALL, height=1) if runs and across == 1 else 1
    if down > 1:
        _print_sentence(paper, f"({down} cells one below the other are drawn as one)")
    if across > 1:
        _print_sentence(paper, f"({across} cells side by side are drawn as one)")
    count = max(across, down)  # one of them is 1

    def text(cell: LaneCell) -> str:
        first = cell.holder.lane
        return f"{first}–{first + count - 1}" if count > 1 else label(cell.holder)

    rows = [
        _GridRow(
            [(text(cell), swatch(cell)) for cell in row[::across]],
            f"{row[0].first[-2]:>{margin}}",
        )
        for row in cells[::down]
    ]
    heads = [str(cell.first[-1]) for cell in cells[0][::across]]
    _print_rows(paper, " " * margin, heads, rows, available)


def _merged(lines: Sequence[Sequence[int]], available: int, height: int = 0) -> int:
    """How many cells of a line to merge, so that it fits; 1 if their lanes do not follow."""
    count = len(lines[0])
    widest = len(str(max(max(line) for line in lines)))
    merged = 1
    while count // merged > 1:
        label = widest if merged == 1 else 2 * widest + 1
        if (height or label + _GAP) * (count // merged) <= available:
            break
        merged *= 2
        if any(
            line[index] != line[index - 1] + 1
            for line in lines
            for index in range(count)
            if index % merged
        ):
            return 1
    return merged


def _print_lds(paper: Paper, picture: LdsPicture) -> None:
    """Prints the rows of a buffer with the bank of each cell."""
    for sentence in layout_view.buffer_titles(picture):
        _print_sentence(paper, sentence)
    heads = [str(column * picture.cell) for column in range(len(picture.rows[0].starts))]
    numbers = [layout_view.row_numbers(rows) for _, rows in picture.patterns]
    margin = max(3, *map(len, numbers))
    bytes_width = max(4, len(str(picture.patterns[-1][0].starts[0])))
    group = max(1, (picture.banks or len(_SWATCHES)) // len(_SWATCHES))

    def cell(byte: int) -> tuple[str, int]:
        bank = picture.bank(byte)
        return str(byte if bank is None else bank), (bank or 0) // group

    rows = [
        _GridRow(
            [cell(byte) for byte in row.starts],
            f"{number:>{margin}}",
            [f" {byte:>{bytes_width}}" for byte in row.starts],
        )
        for number, (row, _) in zip(numbers, picture.patterns, strict=True)
    ]
    available = min(paper.width, WIDTH) - margin - bytes_width - 6
    corner = f"{'row':>{margin}} {'byte':>{bytes_width}}"
    _print_rows(paper, corner, heads, rows, available, spaced=True)
    _print_sentence(paper, layout_view.buffer_planes(picture))


class _GridRow(Struct, frozen=True):
    """A row of a grid."""

    cells: Sequence[tuple[str, int]]
    label: str
    starts: Sequence[str] = ()


def _print_rows(
    paper: Paper,
    corner: str,
    heads: Sequence[str],
    rows: Sequence[_GridRow],
    available: int,
    *,
    spaced: bool = False,
) -> None:
    """Prints a grid in as many parts, one below the other, as the width asks for."""
    width = max(map(len, [*heads, *(text for row in rows for text, _ in row.cells)])) + _GAP
    columns_per_part = max(1, available // width)
    for start in range(0, len(heads), columns_per_part):
        part = slice(start, start + columns_per_part)
        if spaced:
            paper.print(Line())
        head = Line(f"  {corner}  ", "dim" if corner.strip() else "")
        head.append("".join(f"{text:>{width}}" for text in heads[part]), "dim")
        paper.print(head)
        for row in rows[:MOST_ROWS]:
            begin = row.starts[start] if row.starts else ""
            line = Line(f"  {row.label}{begin} ", "dim")
            line.append("│")
            for text, color in row.cells[part]:
                swatch = _SWATCHES[color % len(_SWATCHES)]
                line.append(f"{text:>{width}}", f"black on {swatch}")
            paper.print(line)
        _print_omitted(paper, len(rows) - MOST_ROWS, "row")
