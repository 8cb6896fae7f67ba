"""Plots figures over runs in braille dots, sized to the pane, with one run marked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, field
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from ....inspector.explain.plot import MARKS, Chart, Series
from .history_queries import number

_COLOURS = ("$primary", "$warning", "$success", "$secondary", "$error", "$foreground")
"""Colours of the series, in the order of `MARKS`."""
_DOTS: Mapping[tuple[int, int], int] = MappingProxyType(
    {
        (0, 0): 0x01,
        (0, 1): 0x02,
        (0, 2): 0x04,
        (0, 3): 0x40,
        (1, 0): 0x08,
        (1, 1): 0x10,
        (1, 2): 0x20,
        (1, 3): 0x80,
    }
)
"""Place of a dot in a braille character -> its bit."""
_BRAILLE = 0x2800
_TICKS = 5
"""Ticks that the vertical axis has about."""
_LEAST_SIZE = (12, 3)
"""Columns and rows below which lines of text replace the plot."""
_MOST_LABEL = 18
"""Columns that a run's label may take."""


class Scale(Struct, frozen=True):
    """The vertical axis: round ends that enclose all values, and the ticks' values."""

    low: float
    high: float
    ticks: tuple[float, ...]


def drawn(chart: Chart) -> tuple[Series, ...]:
    """The series to draw, in the chart's order: as many as there are `MARKS`, the most changed."""
    with_values = [series for series in chart.series if series.known]
    most_changed = sorted(with_values, key=lambda series: -series.change)[: len(MARKS)]
    return tuple(series for series in with_values if any(series is m for m in most_changed))


def scale_of(values: Sequence[float]) -> Scale:
    """The axis for these values; it starts at zero unless the least is over half the greatest."""
    low, high = min(values), max(values)
    if 0 <= low < 0.5 * high:
        low = 0.0
    if low == high:
        low, high = (low - 1, high + 1) if low else (0.0, 1.0)
    rough = (high - low) / (_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough * 0.999)
    if all(value == int(value) for value in values):
        step = max(step, 1.0)  # whole numbers, as of registers, get no ticks between them
    first, last = math.floor(low / step), math.ceil(high / step)
    ticks = tuple(round(n * step, 12) for n in range(first, last + 1))
    return Scale(ticks[0], ticks[-1], ticks)


def course(series: Series, unit: str) -> str:
    """A series' first and last value: `96 → 128 registers (+33.3 %)`."""
    values = series.known
    first, last = values[0], values[-1]
    if first == last:
        return f"{number(last)} {unit}".rstrip()
    share = f" ({(last - first) / abs(first) * 100:+.1f} %)" if first else ""
    return f"{number(first)} → {number(last)} {unit}".rstrip() + share


class _Canvas(Struct):
    """The plot's cells.

    Attributes:
        cells: (column, row) -> character and its colour.
        dots: (column, row) -> the bits of the braille dots set there.
    """

    width: int
    height: int
    cells: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    dots: dict[tuple[int, int], int] = field(default_factory=dict)

    def dot(self, x: int, y: int, colour: str) -> None:
        """Sets a dot. A character holds 2 × 4 dots and keeps the colour of the first."""
        cell = x // 2, y // 4
        bits = self.dots.get(cell, 0)
        self.dots[cell] = bits | _DOTS[x % 2, y % 4]
        old = self.cells.get(cell)
        shade = old[1] if old is not None and bits else colour
        self.cells[cell] = (chr(_BRAILLE + self.dots[cell]), shade)

    def line(self, start: tuple[int, int], end: tuple[int, int], colour: str) -> None:
        steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
        for n in range(steps + 1):
            share = n / steps
            x = round(start[0] + share * (end[0] - start[0]))
            y = round(start[1] + share * (end[1] - start[1]))
            self.dot(x, y, colour)

    def row(self, y: int) -> Iterator[tuple[str, str]]:
        """A row as (text, colour), with neighbours of one colour joined."""
        text, colour = "", ""
        for x in range(self.width):
            char, shade = self.cells.get((x, y), (" ", ""))
            if shade != colour and text:
                yield text, colour
                text = ""
            text, colour = text + char, shade
        if text:
            yield text, colour


class RunPlot(Widget):
    """Draws a `Chart`."""

    DEFAULT_CSS = """
    RunPlot { height: 1fr; min-height: 3; padding: 0 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._chart: Chart | None = None
        self._sentence = ""
        self._run: int | None = None

    def show(self, chart: Chart | None, sentence: str = "") -> None:
        self._chart, self._sentence = chart, sentence
        self.refresh()

    def point_at(self, run: int | None) -> None:
        if run != self._run:
            self._run = run
            self.refresh()

    def render(self) -> Content:
        size = self.content_size
        if self._chart is None or not drawn(self._chart):
            return Content.styled(self._sentence, "$foreground 60%")
        return picture(self._chart, size, self._run)


def picture(chart: Chart, size: Size, run: int | None = None) -> Content:
    """The chart with its axes, or its series as text where there is too little room."""
    series = drawn(chart)
    scale = scale_of([value for curve in series for value in curve.known])
    labels = [number(tick) for tick in scale.ticks]
    margin = max(map(len, labels))
    width, height = size.width - margin - 2, size.height - 2
    if width < _LEAST_SIZE[0] or height < _LEAST_SIZE[1]:
        return Content("\n".join(course(curve, chart.unit) for curve in series))
    canvas = _Canvas(width, height)
    _draw_series(canvas, chart, series, scale, run)
    ticks = {
        _row(tick, scale, height): label for tick, label in zip(scale.ticks, labels, strict=True)
    }
    parts: list[tuple[str, str]] = []
    for y in range(height):
        label = ticks.get(y, "")
        parts.append((f"{label:>{margin}} {'┤' if label else '│'}", "$foreground 60%"))
        parts += canvas.row(y)
        parts.append(("\n", ""))
    parts.append((f"{'':{margin}} └{'─' * width}\n", "$foreground 60%"))
    parts.append((f"{'':{margin}}  {_run_labels(chart, width, run)}", "$foreground 70%"))
    return Content.assemble(*(part for part in parts if part[0]))


def legend(chart: Chart, run: int | None = None) -> Content:
    """A line for each series: its mark, name, first and last value, and value in the marked run."""
    series = drawn(chart)
    marked = next((n for n, tick in enumerate(chart.runs) if tick.run == run), None)
    name_width = max((len(curve.name) for curve in series), default=0)
    parts: list[tuple[str, str]] = []
    for mark, colour, curve in zip(MARKS, _COLOURS, series, strict=False):
        parts += [(f"{mark} ", f"bold {colour}"), (f"{curve.name:<{name_width}}  ", colour)]
        parts.append((course(curve, chart.unit), ""))
        if marked is not None:
            value = number(curve.values[marked])
            parts.append((f"   run {chart.runs[marked].run}: {value}", "$foreground 60%"))
        parts.append(("\n", ""))
    undrawn = sum(bool(curve.known) for curve in chart.series) - len(series)
    if undrawn:
        parts.append(
            (f"and {undrawn} more that changed less: t narrows the target", "$foreground 60%")
        )
    return Content.assemble(*parts).rstrip()


def _draw_series(
    canvas: _Canvas, chart: Chart, series: Sequence[Series], scale: Scale, run: int | None
) -> None:
    runs = len(chart.runs)
    for n, tick in enumerate(chart.runs):
        if tick.run == run:
            x = _column(n, runs, canvas.width)
            for y in range(canvas.height):
                canvas.cells[x, y] = ("┊", "$accent")
    coloured = list(zip(MARKS, _COLOURS, series, strict=False))
    for _, colour, curve in coloured:
        for (left, left_value), (right, right_value) in _neighbours(curve.values):
            start = _dot(left, left_value, runs, scale, canvas)
            end = _dot(right, right_value, runs, scale, canvas)
            canvas.line(start, end, colour)
    # Draw the marks over all lines, and the first series last, so that its marks stay visible.
    for mark, colour, curve in reversed(coloured):
        for n, value in enumerate(curve.values):
            if value is not None:
                place = _column(n, runs, canvas.width), _row(value, scale, canvas.height)
                canvas.cells[place] = (mark, f"bold {colour}")


def _neighbours(
    values: Iterable[float | None],
) -> Iterator[tuple[tuple[int, float], tuple[int, float]]]:
    """(run's index, value) of each two successive runs that both have a value."""
    previous: tuple[int, float] | None = None
    for n, value in enumerate(values):
        if value is None:
            previous = None
            continue
        if previous is not None:
            yield previous, (n, value)
        previous = (n, value)


def _column(n: int, runs: int, width: int) -> int:
    return round(n * (width - 1) / (runs - 1)) if runs > 1 else width // 2


def _row(value: float, scale: Scale, height: int) -> int:
    return round((scale.high - value) / (scale.high - scale.low) * (height - 1))


def _dot(n: int, value: float, runs: int, scale: Scale, canvas: _Canvas) -> tuple[int, int]:
    x = 2 * _column(n, runs, canvas.width)
    y = (scale.high - value) / (scale.high - scale.low) * (canvas.height - 1)
    return x, min(round(4 * y + 1), 4 * canvas.height - 1)


def _run_labels(chart: Chart, width: int, run: int | None) -> str:
    """As many run labels as fit, each under its run; the marked run and the ends come first."""
    line = [" "] * width
    runs = len(chart.runs)
    marked = [n for n, tick in enumerate(chart.runs) if tick.run == run]
    for n in dict.fromkeys((*marked, 0, runs - 1, *range(runs))):
        text = " ".join(chart.runs[n].label.split())[: min(_MOST_LABEL, width)]
        start = min(max(_column(n, runs, width) - len(text) // 2, 0), width - len(text))
        room = line[max(start - 2, 0) : start + len(text) + 2]
        if text and all(char == " " for char in room):
            line[start : start + len(text)] = text
    return "".join(line).rstrip()
