"""Plots figures over runs in braille dots, to the size of the pane, with one run marked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, field
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from ....inspector.explain.plot import MARKS, Chart, Series
from .data import number

COLOURS = ("$primary", "$warning", "$success", "$secondary", "$error", "$foreground")
"""Of the series, in the order of `MARKS`."""
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
_LEAST = (12, 3)
"""Columns and rows below which a plot shows nothing: lines of text replace it."""
_MOST_LABEL = 18
"""Columns of a run's label."""


class Scale(Struct, frozen=True):
    """Round ends of the axis that hold all values, and where its ticks are."""

    low: float
    high: float
    ticks: tuple[float, ...]


def drawn(chart: Chart) -> tuple[Series, ...]:
    """The series that are drawn: those that changed most, in their order."""
    with_values = [series for series in chart.series if series.known]
    chosen = sorted(with_values, key=lambda series: -series.change)[: len(MARKS)]
    return tuple(
        series for series in with_values if any(series is chosen_series for chosen_series in chosen)
    )


def scale_of(values: Sequence[float]) -> Scale:
    """The axis for values: from zero unless they lie far from it."""
    low, high = min(values), max(values)
    if 0 <= low < 0.5 * high:
        low = 0.0
    if low == high:
        low, high = (low - 1, high + 1) if low else (0.0, 1.0)
    rough = (high - low) / (_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough * 0.999)
    if all(value == int(value) for value in values):
        step = max(step, 1.0)  # there is no half a register
    first, last = math.floor(low / step), math.ceil(high / step)
    ticks = tuple(round(n * step, 12) for n in range(first, last + 1))
    return Scale(ticks[0], ticks[-1], ticks)


def course(series: Series, unit: str) -> str:
    """`96 → 128 registers (+33.3 %)`: from its first value to its last."""
    values = series.known
    first, last = values[0], values[-1]
    if first == last:
        return f"{number(last)} {unit}".rstrip()
    share = f" ({(last - first) / abs(first) * 100:+.1f} %)" if first else ""
    return f"{number(first)} → {number(last)} {unit}".rstrip() + share


class _Canvas(Struct):
    """Cells of the plot: a character and its colour."""

    width: int
    height: int
    cells: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    dots: dict[tuple[int, int], int] = field(default_factory=dict)

    def dot(self, x: int, y: int, colour: str) -> None:
        """Sets a dot; a character holds 2 × 4 of them, in the colour that came first."""
        cell = x // 2, y // 4
        bits = self.dots.get(cell, 0)
        self.dots[cell] = bits | _DOTS[x % 2, y % 4]
        old = self.cells.get(cell)
        shade = old[1] if old is not None and bits else colour
        self.cells[cell] = (chr(_BRAILLE + self.dots[cell]), shade)

    def line(self, start: tuple[int, int], end: tuple[int, int], colour: str) -> None:
        """A straight line of dots."""
        steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
        for n in range(steps + 1):
            share = n / steps
            x = round(start[0] + share * (end[0] - start[0]))
            y = round(start[1] + share * (end[1] - start[1]))
            self.dot(x, y, colour)

    def row(self, y: int) -> Iterator[tuple[str, str]]:
        """The pieces of a row, neighbours of one colour joined."""
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
        """Shows a chart, or a sentence in its place."""
        self._chart, self._sentence = chart, sentence
        self.refresh()

    def point_at(self, run: int | None) -> None:
        """Marks a run."""
        if run != self._run:
            self._run = run
            self.refresh()

    def render(self) -> Content:
        """The plot in the size that there is."""
        size = self.content_size
        if self._chart is None or not drawn(self._chart):
            return Content.styled(self._sentence, "$foreground 60%")
        return picture(self._chart, size, self._run)


def picture(chart: Chart, size: Size, run: int | None = None) -> Content:
    """The chart with its axes, or its series as text where there is no room for a plot.

    Args:
        chart: at least one of its series has a value.
        size: of the picture.
        run: the run that is marked by a line.
    """
    series = drawn(chart)
    scale = scale_of([value for curve in series for value in curve.known])
    labels = [number(tick) for tick in scale.ticks]
    margin = max(map(len, labels))
    width, height = size.width - margin - 2, size.height - 2
    if width < _LEAST[0] or height < _LEAST[1]:
        return Content("\n".join(course(curve, chart.unit) for curve in series))
    canvas = _Canvas(width, height)
    _draw(canvas, chart, series, scale, run)
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
    parts.append((f"{'':{margin}}  {_below(chart, width, run)}", "$foreground 70%"))
    return Content.assemble(*(part for part in parts if part[0]))


def legend(chart: Chart, run: int | None = None) -> Content:
    """A line for each series: its mark, its name, its course, its value in the run marked."""
    series = drawn(chart)
    marked = next((n for n, tick in enumerate(chart.runs) if tick.run == run), None)
    names = max((len(curve.name) for curve in series), default=0)
    parts: list[tuple[str, str]] = []
    for mark, colour, curve in zip(MARKS, COLOURS, series, strict=False):
        parts += [(f"{mark} ", f"bold {colour}"), (f"{curve.name:<{names}}  ", colour)]
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


def _draw(
    canvas: _Canvas, chart: Chart, series: Sequence[Series], scale: Scale, run: int | None
) -> None:
    runs = len(chart.runs)
    for n, tick in enumerate(chart.runs):
        if tick.run == run:
            x = _column(n, runs, canvas.width)
            for y in range(canvas.height):
                canvas.cells[x, y] = ("┊", "$accent")
    coloured = list(zip(MARKS, COLOURS, series, strict=False))
    for _, colour, curve in coloured:
        for (a, left_value), (b, right_value) in _neighbours(curve.values):
            start = _dot(a, left_value, runs, scale, canvas)
            end = _dot(b, right_value, runs, scale, canvas)
            canvas.line(start, end, colour)
    # Marks lie above every line; of two at one place the earlier series is seen.
    for mark, colour, curve in reversed(coloured):
        for n, value in enumerate(curve.values):
            if value is not None:
                place = _column(n, runs, canvas.width), _row(value, scale, canvas.height)
                canvas.cells[place] = (mark, f"bold {colour}")


def _neighbours(
    values: Iterable[float | None],
) -> Iterator[tuple[tuple[int, float], tuple[int, float]]]:
    """Pairs of values of runs in a row; a run that lacks it is a gap."""
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


def _below(chart: Chart, width: int, run: int | None) -> str:
    """The runs' labels, each under its run, as many as fit: the marked one and the ends first."""
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
