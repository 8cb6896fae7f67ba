"""A roofline plot in braille dots: kernels beneath the peak rates of their device.

It uses no plotting library, because importing one would double the time until the page appears.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from textual.events import Click
from textual.message import Message

from .styles import Piece, Plot

_LEAST_SIZE = (26, 7)  # columns and rows below which a sentence replaces the plot
_MARGIN = 7  # columns left of the plot: "100 T ┤"
_PREFIXES = ("", " k", " M", " G", " T", " P", " E")
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # bits of a braille cell, by row
_MOST_ROOFS = 4  # that are drawn
_LABEL = 28  # cells of a point's name
_MOST_NAMES = 60  # points that are named
_PADDING = 0.25  # decades between the frame and the outermost points and roofs


class DeviceRoof(Struct, frozen=True):
    """A device's peak rates: operations per second, and bytes per second of its memory."""

    rate: float
    bandwidth: float


class RooflinePoint(Struct, frozen=True):
    """A kernel: operations per byte, operations per second, and the roof over it if known."""

    name: str
    intensity: float
    rate: float
    roof: DeviceRoof | None = None


class Roofline(Plot):
    """Draws points under their roofs, sized to the widget; one point may be highlighted."""

    PREFIX = "roofline"
    DEFAULT_CSS = """
    Roofline { height: 1fr; width: 1fr; background: $background; }
    Roofline > .roofline--title { color: $foreground; text-style: bold; }
    Roofline > .roofline--axis { color: $foreground 60%; }
    Roofline > .roofline--grid { color: $foreground 20%; }
    Roofline > .roofline--roof { color: $primary; }
    Roofline > .roofline--other-roof { color: $primary 45%; }
    Roofline > .roofline--peak { color: $primary; }
    Roofline > .roofline--point { color: $success; text-style: bold; }
    Roofline > .roofline--label { color: $foreground 65%; }
    Roofline > .roofline--chosen { color: $warning; text-style: bold; }
    Roofline > .roofline--guide { color: $warning 60%; }
    """

    class Picked(Message):
        """A point was clicked."""

        def __init__(self, plot: Roofline, point: int) -> None:
            super().__init__()
            self.plot, self.point = plot, point

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._points: Sequence[RooflinePoint] = ()
        self._chosen: int | None = None
        self._point_cells: dict[tuple[int, int], int] = {}  # (column, row) -> number of its point

    def show(self, points: Sequence[RooflinePoint], chosen: int | None = None) -> None:
        if points is not self._points or chosen != self._chosen:
            self._points, self._chosen = points, chosen
            self.redraw()

    def on_click(self, event: Click) -> None:
        """Posts `Picked` for the nearest point, if it is within three columns or one row."""
        # A cell is about twice as high as it is wide.
        distances = [
            (abs(x - event.x) + 2 * abs(y - event.y), index)
            for (x, y), index in self._point_cells.items()
        ]
        if distances and min(distances)[0] <= 3:
            self.post_message(self.Picked(self, min(distances)[1]))

    def draw(self) -> list[list[Piece]]:
        self._point_cells = {}
        width, height = self.size
        if not self._points:
            return [[("  no kernel's operations and bytes were measured", "axis")]]
        if width < _LEAST_SIZE[0] or height < _LEAST_SIZE[1]:
            return [[(" a larger window shows the roofline", "axis")]]
        picture = _Picture(self._points, self._chosen, width - _MARGIN - 1, height - 3)
        rows = [self._head(width)]
        rows += picture.rows()
        self._point_cells = {
            (x + _MARGIN, y + 1): index for (x, y), index in picture.point_cells.items()
        }
        rows.append([(" " * (_MARGIN - 1) + "└" + "─" * picture.width, "axis")])
        rows.append([(" " * _MARGIN + picture.ticks_across(), "axis")])
        return rows

    def _head(self, width: int) -> list[Piece]:
        """The title, and the figures of the highlighted point."""
        title = " operations/s over operations per byte"
        if self._chosen is None or self._chosen >= len(self._points):
            return [(title, "title")]
        point = self._points[self._chosen]
        figures = f"{amount(point.rate)}op/s at {point.intensity:.3g} op/B"
        room = width - len(figures) - 5
        name = (
            point.name if cell_len(point.name) <= room else set_cell_size(point.name, max(0, room))
        )
        heading = f" ● {name}  {figures}"
        if cell_len(heading) + len(title) + 2 <= width:
            return [(title, "title"), ("  ", ""), (heading, "chosen")]
        return [(heading, "chosen")]


class _Picture:
    """The plot without its frame, cell by cell; both axes are logarithmic.

    Coordinates `x` and `y` of methods are columns and rows, except in `_column` and `_row`, which
    turn decimal logarithms into them.
    """

    def __init__(
        self, points: Sequence[RooflinePoint], chosen: int | None, width: int, height: int
    ) -> None:
        self.width, self.height = width, height
        self.point_cells: dict[tuple[int, int], int] = {}
        self._points, self._chosen = points, chosen
        distinct_roofs = {point.roof: None for point in points if point.roof is not None}
        self._chosen_roof = (
            points[chosen].roof if chosen is not None and chosen < len(points) else None
        )
        roofs = sorted(distinct_roofs, key=lambda roof: (roof != self._chosen_roof, -roof.rate))[
            :_MOST_ROOFS
        ]
        self._roofs = roofs
        xs = [log10(point.intensity) for point in points]
        ys = [log10(point.rate) for point in points]
        xs += [log10(roof.rate / roof.bandwidth) for roof in roofs]
        ys += [log10(roof.rate) for roof in roofs]
        self._x0, self._x1 = _range(xs)
        self._y0, self._y1 = _range(ys)
        self._cells: list[list[Piece]] = [[(" ", "")] * width for _ in range(height)]

    def _column(self, x: float, dots: int = 1) -> int:
        """The column of a logarithm, or its column of dots at `dots` to a cell."""
        return round((x - self._x0) / (self._x1 - self._x0) * (self.width * dots - 1))

    def _row(self, y: float, dots: int = 1) -> int:
        return round((self._y1 - y) / (self._y1 - self._y0) * (self.height * dots - 1))

    def rows(self) -> list[list[Piece]]:
        """Renders all rows, with the axis at the left."""
        ticks = dict(self._ticks_up())
        self._draw_grid(ticks)
        for roof in reversed(self._roofs):
            single = len(self._roofs) == 1 or roof == self._chosen_roof
            self._draw_roof(roof, "roof" if single else "other-roof")
        self._draw_points()
        self._name_roofs()
        self._name_points()
        rows: list[list[Piece]] = []
        for number, line in enumerate(self._cells):
            label = ticks.get(number, "")
            axis = f"{label:>{_MARGIN - 2}} {'┤' if label else '│'}"
            rows.append([(axis, "axis"), *line])
        return rows

    def _draw_grid(self, ticks: dict[int, str]) -> None:
        columns = {self._column(float(power)) for power in _powers(self._x0, self._x1)}
        for y in range(self.height):
            for x in range(self.width):
                if x in columns:
                    self._cells[y][x] = ("┊", "grid")
                elif y in ticks and x % 2 == 0:
                    self._cells[y][x] = ("╌", "grid")

    def _draw_roof(self, roof: DeviceRoof, style: str) -> None:
        """Draws a roof's slope (its bandwidth) and flat part (its rate) as dots."""
        log_rate, slope = log10(roof.rate), log10(roof.bandwidth)
        dots: dict[tuple[int, int], int] = {}
        previous: int | None = None
        for x in range(self.width * 2):
            intensity = self._x0 + x / (self.width * 2 - 1) * (self._x1 - self._x0)
            y = self._row(min(log_rate, intensity + slope), 4)
            # Where the roof is steep, fill the rows between two columns so that it has no gaps.
            for dot_row in range(y, y + 1 if previous is None else max(y + 1, previous)):
                self._dot(dots, x, dot_row)
            previous = y
        for (x, y), bits in dots.items():
            self._cells[y][x] = (chr(0x2800 + bits), style)

    def _name_roofs(self) -> None:
        """Writes rates beside the flat parts, and each bandwidth once, left of its slope."""
        labelled: set[float] = set()
        for roof in self._roofs:
            log_rate, slope = log10(roof.rate), log10(roof.bandwidth)
            label = f"{amount(roof.rate)}op/s"
            row, right = self._row(log_rate), self.width - cell_len(label)
            self._write_at_first_free([(right, row + rows) for rows in (-1, 1, -2, 2)], label)
            if roof.bandwidth in labelled:
                continue
            labelled.add(roof.bandwidth)
            label = f"{amount(roof.bandwidth)}B/s"
            low = max(self._x0, self._y0 - slope)
            positions = []
            for part in (0.5, 0.4, 0.6, 0.3, 0.7):
                x = low + part * (log_rate - slope - low)
                positions.append((self._column(x) - cell_len(label) - 3, self._row(x + slope)))
            self._write_at_first_free(positions, label)

    def _write_at_first_free(self, positions: Sequence[tuple[int, int]], text: str) -> None:
        """Writes a text at the first of these (column, row) places that are free."""
        for x, y in positions:
            if self._is_free(x, y, cell_len(text)):
                self._write(x, y, text, "peak")
                return

    def _dot(self, dots: dict[tuple[int, int], int], x: int, y: int) -> None:
        if 0 <= y < self.height * 4:
            cell = (x // 2, y // 4)
            dots[cell] = dots.get(cell, 0) | _DOTS[y % 4][x % 2]

    def _draw_points(self) -> None:
        order = [n for n in range(len(self._points)) if n != self._chosen]
        if self._chosen is not None and self._chosen < len(self._points):
            order.append(self._chosen)  # over all others
        for n in order:
            point = self._points[n]
            x, y = self._column(log10(point.intensity)), self._row(log10(point.rate))
            x, y = max(0, min(self.width - 1, x)), max(0, min(self.height - 1, y))
            self._cells[y][x] = ("●", "chosen" if n == self._chosen else "point")
            self.point_cells[x, y] = n
        if self._chosen is not None and order:
            self._draw_guide(self._points[order[-1]])

    def _name_points(self) -> None:
        """Writes names beside the points, as far as there is room; the highlighted one first."""
        first = self._chosen if self._chosen is not None else 0
        order = sorted(range(len(self._points)), key=lambda n: n != first)
        for n in order[:_MOST_NAMES]:
            point = self._points[n]
            x, y = self._column(log10(point.intensity)), self._row(log10(point.rate))
            self._name_point(x, y, point.name, "chosen" if n == self._chosen else "label")

    def _draw_guide(self, point: RooflinePoint) -> None:
        """Draws a line from a point up to its roof, which shows how far below it stays."""
        if point.roof is None:
            return
        attainable = min(point.roof.rate, point.intensity * point.roof.bandwidth)
        x, low = self._column(log10(point.intensity)), self._row(log10(point.rate))
        for y in range(max(0, self._row(log10(attainable)) + 1), low):
            if 0 <= x < self.width and self._cells[y][x][1] in ("", "grid"):
                self._cells[y][x] = ("┊", "guide")

    def _name_point(self, x: int, y: int, name: str, style: str) -> None:
        text = name if cell_len(name) <= _LABEL else f"{set_cell_size(name, _LABEL - 1).rstrip()}…"
        size = cell_len(text)
        for row in (y, y + 1, y - 1):
            if self._is_free(x + 2, row, size):
                self._write(x + 2, row, text, style)
                return
            if self._is_free(x - 1 - size, row, size):
                self._write(x - 1 - size, row, text, style)
                return

    def _is_free(self, x: int, y: int, size: int) -> bool:
        """Whether a text of that many cells fits in a place, with a free cell at either end."""
        if not 0 <= y < self.height or x < 0 or x + size > self.width:
            return False
        return all(cell[1] in ("", "grid") for cell in self._cells[y][max(0, x - 1) : x + size + 1])

    def _write(self, x: int, y: int, text: str, style: str) -> None:
        if not 0 <= y < self.height or x < 0 or x + len(text) > self.width:
            return
        for n, letter in enumerate(text):
            if self._cells[y][x + n][1] in ("", "grid"):
                self._cells[y][x + n] = (letter, style)

    def _ticks_up(self) -> Iterator[tuple[int, str]]:
        powers = _powers(self._y0, self._y1)
        step = max(1, ceil(len(powers) / max(1, self.height // 2)))
        for power in powers[::step]:
            yield self._row(float(power)), _power(power)

    def ticks_across(self) -> str:
        """Powers of ten under the axis, as many as there is room for."""
        line = [" "] * self.width
        for power in _powers(self._x0, self._x1):
            text = _power(power)
            centred = self._column(float(power)) - len(text) // 2
            start = max(0, min(centred, self.width - len(text)))
            if all(char == " " for char in line[max(0, start - 1) : start + len(text) + 1]):
                line[start : start + len(text)] = text
        unit = "op/B"
        if all(char == " " for char in line[-len(unit) - 1 :]):
            line[-len(unit) :] = unit
        return "".join(line)


def _range(logarithms: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis for these values: padded, and with at least one power of ten inside."""
    low, high = min(logarithms) - _PADDING, max(logarithms) + _PADDING
    if not _powers(low, high):
        low = float(floor(low))
    return low, max(high, low + 2 * _PADDING)


def _powers(low: float, high: float) -> list[int]:
    """The whole powers of ten between two logarithms."""
    return list(range(ceil(low), floor(high) + 1))


def _power(power: int) -> str:
    """A power of ten as people write it: 100 G, 1 T."""
    index, remainder = divmod(power, 3)
    if 0 <= index < len(_PREFIXES):
        return f"{10**remainder}{_PREFIXES[index]}"
    return f"{10.0**power:g}" if -2 <= power < 0 else f"1e{power}"


def amount(number: float) -> str:
    """A figure with a metric prefix, ready to be followed by its unit: `1.31 P`, `5.3 T`."""
    index = max(0, min(floor(log10(number)) // 3, len(_PREFIXES) - 1)) if number > 0 else 0
    value = number / 1000**index
    text = f"{value:.0f}" if value >= 100 else f"{value:.3g}"
    return f"{text}{_PREFIXES[index] or ' '}"
