"""Pictures of layouts for a terminal: numbers say everything, colours only repeat them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TextIO

from msgspec.structs import replace

from ..explain import layout_view
from ..explain.layout_values import LaidOutValue, LayoutDrawing, alike
from ..explain.layout_view import Grid, Square
from ..explain.view import plural
from ..present.text import Line, Paper, paper_for

WIDTH = 80
"""Columns of a picture at most."""
MOST_ROWS = 64
"""Rows of a grid that are drawn."""
_SWATCHES = (
    "bright_cyan", "bright_yellow", "bright_green", "bright_magenta", "bright_blue", "bright_red",
    "white", "cyan",
)  # fmt: skip
"""Colours of cells, one for the lanes of each row, over and over."""
_GAP = 1
"""Columns between two cells."""
_FRAME = 4
"""Columns of a row besides its labels and cells: two in front, a blank and a line between."""
_MOST_TILES = 16, 8
"""Rows and columns of tiles; where there are more, those of one wave are drawn as one."""
_TALL = 8
"""Rows of cells; where there are more, those with consecutive lanes are drawn as one."""
_KEPT_BLANK = "\0"
"""A blank at which no line is broken."""


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
        for panel in layout_view.panels(item.picture, MOST_ROWS, _MOST_TILES):
            paper.print(Line())
            _print_sentences(paper, *panel.sentences)
            if panel.grid is not None:
                (_print_lds if panel.grid.starts else _print_registers)(paper, panel.grid)
            for line in panel.lines:
                paper.print(Line(f"  {line}"))
            _print_omitted(paper, panel.more)
            _print_sentences(paper, panel.ending)


def _print_layout(paper: Paper, alias: str, described: Sequence[str]) -> None:
    """Prints a layout's parameters, none of which is broken over lines."""
    # Long ones, lists of bases, may be broken between two of these.
    text = "  ".join(
        word.replace("],[", "], [") if len(word) > WIDTH // 2 else word.replace(" ", _KEPT_BLANK)
        for word in described
    )
    head = f"{alias}  " if alias else ""
    width = min(paper.width, WIDTH)
    lines = textwrap.wrap(
        head + text, width, subsequent_indent=" " * max(len(head), 2), break_long_words=False,
        break_on_hyphens=False, drop_whitespace=True,
    )  # fmt: skip
    for line in lines:
        paper.print(Line(line.replace(_KEPT_BLANK, " "), "dim"))


def _print_sentences(paper: Paper, *texts: str) -> None:
    for text in texts:
        for line in textwrap.wrap(text, min(paper.width, WIDTH), break_on_hyphens=False):
            paper.print(Line(line))


def _print_omitted(paper: Paper, more: str) -> None:
    if more:
        paper.print(Line(f"  {more}: --format svg or html draws all", "dim"))


def _print_registers(paper: Paper, grid: Grid) -> None:
    margin = len(grid.rows[-1])
    available = min(paper.width, WIDTH) - margin - _FRAME
    lanes = [[square.number for square in row] for row in grid.squares]
    digits = len(str(max(map(max, lanes))))
    across = down = 1
    if grid.is_run:
        across = _merged(lanes, lambda cells: _row_width(len(lanes[0]), cells, digits) <= available)
    if grid.is_run and across == 1:
        columns = list(zip(*lanes, strict=True))
        down = _merged(columns, lambda cells: len(lanes) // cells <= _TALL)
    if down > 1:
        _print_sentences(paper, f"({down} cells one below the other are drawn as one)")
    if across > 1:
        _print_sentences(paper, f"({across} cells side by side are drawn as one)")
    count = max(across, down)  # one of them is 1

    def merged(square: Square) -> Square:
        first = square.number
        return replace(square, text=f"{first}–{first + count - 1}") if count > 1 else square

    shown = replace(
        grid,
        rows=grid.rows[::down],
        columns=grid.columns[::across],
        squares=tuple(tuple(map(merged, row[::across])) for row in grid.squares[::down]),
    )
    _print_rows(paper, " " * margin, margin, shown)
    left = len(shown.rows) - MOST_ROWS
    _print_omitted(paper, f"… {plural(left, 'row')} more" if left > 0 else "")


def _row_width(count: int, merged: int, digits: int) -> int:
    """Columns of a row of so many cells, if `merged` of them become one: `0–3`."""
    label = digits if merged == 1 else 2 * digits + 1
    return (label + _GAP) * (count // merged)


def _merged(lines: Sequence[Sequence[int]], fits: Callable[[int], bool]) -> int:
    """How many cells of a line to merge, so that it fits; 1 if their lanes do not follow."""
    count = len(lines[0])
    merged = 1
    while count // merged > 1 and not fits(merged):
        merged *= 2
        if any(
            line[index] != line[index - 1] + 1
            for line in lines
            for index in range(count)
            if index % merged
        ):
            return 1
    return merged


def _print_lds(paper: Paper, grid: Grid) -> None:
    """Prints the rows of a buffer with the bank of each cell, and the byte where a part begins."""
    margin = max(3, *map(len, grid.rows))
    bytes_width = max(4, len(str(grid.starts[-1][0])))
    _print_rows(paper, f"{'row':>{margin}} {'byte':>{bytes_width}}", margin, grid)


def _print_rows(paper: Paper, corner: str, margin: int, grid: Grid) -> None:
    """Prints a grid in as many parts, one below the other, as the width asks for."""
    texts = (square.text for row in grid.squares for square in row)
    width = max(map(len, (*grid.columns, *texts))) + _GAP
    available = min(paper.width, WIDTH) - len(corner) - _FRAME - bool(grid.starts)
    columns_per_part = max(1, available // width)
    for start in range(0, len(grid.columns), columns_per_part):
        part = slice(start, start + columns_per_part)
        if grid.starts:
            paper.print(Line())
        head = Line(f"  {corner}  ", "dim" if corner.strip() else "")
        head.append("".join(f"{text:>{width}}" for text in grid.columns[part]), "dim")
        paper.print(head)
        for number, (label, row) in enumerate(zip(grid.rows, grid.squares, strict=True)):
            if number >= MOST_ROWS:
                break
            byte = grid.starts[number][start] if grid.starts else ""
            line = Line(f"  {label:>{margin}}{byte:>{len(corner) - margin}} ", "dim")
            line.append("│")
            for square in row[part]:
                swatch = _SWATCHES[square.number // grid.across % len(_SWATCHES)]
                line.append(f"{square.text:>{width}}", f"black on {swatch}")
            paper.print(line)
