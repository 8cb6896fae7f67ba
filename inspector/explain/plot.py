"""Plots a metric over the runs of the history as text, JSON or SVG.

In the text each series has its own mark, with dots from one mark to the next; a run without the
metric leaves a gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO
from xml.sax.saxutils import escape

from msgspec import Struct

from ..base.printable import one_line
from ..base.streams import dump_json
from .view import plural

MARKS = "●○◆◇▲△"
"""The marks of the series, in order; further series are not drawn."""
WIDTH, HEIGHT = 64, 14
"""The size of the plotting area, in characters."""
_TICKS = 5
_COLOURS = ("#0b62a4", "#c1440e", "#2a7f3f", "#7a3e9d", "#8a6d00", "#4d4d4d")


class Tick(Struct, frozen=True):
    """A run on the x axis: its number, date and label."""

    run: int
    date: str
    label: str


class Series(Struct, frozen=True):
    """A specialisation's value in each run; None where it is unknown."""

    name: str
    values: tuple[float | None, ...]

    @property
    def known(self) -> list[float]:
        return [value for value in self.values if value is not None]

    @property
    def change(self) -> float:
        """The range of the values, as a share of the largest magnitude."""
        values = self.known
        largest = max(map(abs, values), default=0.0)
        return (max(values) - min(values)) / largest if largest else 0.0


class Chart(Struct, frozen=True):
    """A metric of a kernel over runs, the oldest first."""

    kernel: str
    metric: str
    unit: str
    runs: tuple[Tick, ...]
    series: tuple[Series, ...]


def write(chart: Chart, stream: TextIO) -> None:
    """Writes the plot and its legend as text."""
    drawn, omitted = _drawn(chart)
    stream.write(f"{_title(chart)}\n\n")
    low, high, step = _scale([value for series in drawn for value in series.known])
    rows = _canvas(drawn, len(chart.runs), low, high)
    ticks = {_row(value, low, high): _figure(value) for value in _tick_values(low, high, step)}
    margin = max(map(len, ticks.values()))
    for number, row in enumerate(rows):
        label = ticks.get(number, "")
        stream.write(f"{label:>{margin}} {'┤' if label else '│'}{row}".rstrip() + "\n")
    stream.write(f"{'':{margin}} └{'─' * WIDTH}\n")
    stream.write(f"{'':{margin}}  {_run_labels(chart)}\n\n")
    for mark, series in zip(MARKS, drawn, strict=False):
        stream.write(f"  {mark} {series.name}  {_change_text(series, chart.unit)}\n")
    if omitted:
        stream.write(f"  and {omitted} more that changed less; --arch or --case narrows\n")


def write_json(chart: Chart, stream: TextIO) -> None:
    """Writes the values as JSON; null where a run has none."""
    data: dict[str, Any] = {
        "schema_version": 1,
        "kernel": chart.kernel,
        "metric": chart.metric,
        "unit": chart.unit,
        "runs": [{"run": t.run, "date": t.date, "label": t.label} for t in chart.runs],
        "series": [{"name": s.name, "values": list(s.values)} for s in chart.series],
    }
    dump_json(data, stream)


def write_svg(chart: Chart, stream: TextIO) -> None:
    """Writes the plot as SVG, 720 × 360 units, with the values as tool tips."""
    stream.write("\n".join(_svg(chart)) + "\n")


def _drawn(chart: Chart) -> tuple[list[Series], int]:
    """The series that changed most, one for each mark, and the number of the others."""
    measured = [series for series in chart.series if series.known]
    ranked = sorted(measured, key=lambda series: -series.change)
    chosen = set(map(id, ranked[: len(MARKS)]))
    return [series for series in measured if id(series) in chosen], len(measured) - len(chosen)


def _title(chart: Chart) -> str:
    unit = f" ({chart.unit})" if chart.unit else ""
    return one_line(f"{chart.kernel}: {chart.metric}{unit} over {plural(len(chart.runs), 'run')}")


def _change_text(series: Series, unit: str) -> str:
    """A series' first and last value with the change: `96 → 128 registers (+33.3%)`."""
    values = series.known
    first, last = values[0], values[-1]
    text = _figure(last) if first == last else f"{_figure(first)} → {_figure(last)}"
    if first and first != last:
        text += f" {unit} ({(last - first) / abs(first):+.1%})"
        return text.replace("  ", " ")
    return f"{text} {unit}".rstrip()


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"


def _scale(values: Sequence[float]) -> tuple[float, float, float]:
    """The rounded ends of the y axis and the step between ticks: 1, 2 or 5 times a power of 10.

    The axis starts at zero unless the values are far from it, where a small rise would not show.
    """
    low, high = min(values), max(values)
    if low >= 0 and low < 0.5 * high:
        low = 0.0
    if low == high:
        low, high = (low - 1, high + 1) if low else (0.0, 1.0)
    rough = (high - low) / (_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough * 0.999)
    if all(value == int(value) for value in values):
        step = max(step, 1.0)  # whole numbers get no fractional ticks
    return math.floor(low / step) * step, math.ceil(high / step) * step, step


def _tick_values(low: float, high: float, step: float) -> Iterator[float]:
    for n in range(round((high - low) / step) + 1):
        yield round(low + n * step, 12)


def _row(value: float, low: float, high: float) -> int:
    return round((high - value) / (high - low) * (HEIGHT - 1))


def _column(number: int, runs: int) -> int:
    return round(number * (WIDTH - 1) / (runs - 1)) if runs > 1 else WIDTH // 2


def _run_labels(chart: Chart) -> str:
    line = [" "] * WIDTH
    runs = len(chart.runs)
    # The first and last run have precedence.
    for number in dict.fromkeys((0, runs - 1, *range(runs))):
        text = one_line(chart.runs[number].label)[:20]
        start = min(max(_column(number, runs) - len(text) // 2, 0), WIDTH - len(text))
        room = line[max(start - 2, 0) : start + len(text) + 2]
        if text and all(c == " " for c in room):
            line[start : start + len(text)] = text
    return "".join(line).rstrip()


def _canvas(drawn: Sequence[Series], runs: int, low: float, high: float) -> list[str]:
    """The rows of the plotting area, with a mark for each value and dotted lines between them."""
    cells = [[" "] * WIDTH for _ in range(HEIGHT)]
    for series in drawn:
        points = [
            (_column(n, runs), _row(value, low, high))
            for n, value in enumerate(series.values)
            if value is not None
        ]
        neighbours = [
            (_column(n, runs), _column(n + 1, runs))
            for n in range(runs - 1)
            if series.values[n] is not None and series.values[n + 1] is not None
        ]
        rows = dict(points)
        for left, right in neighbours:
            for x in range(left + 1, right):
                share = (x - left) / (right - left)
                y = round(rows[left] + share * (rows[right] - rows[left]))
                if cells[y][x] == " ":
                    cells[y][x] = "·"
    # Marks cover lines, and those of earlier series cover those of later ones.
    for mark, series in reversed(list(zip(MARKS, drawn, strict=False))):
        for n, value in enumerate(series.values):
            if value is not None:
                cells[_row(value, low, high)][_column(n, runs)] = mark
    return ["".join(row) for row in cells]


def _svg(chart: Chart) -> Iterator[str]:
    drawn, omitted = _drawn(chart)
    low, high, step = _scale([value for series in drawn for value in series.known])
    runs = len(chart.runs)
    x0, x1, y0, y1 = 70.0, 700.0, 300.0 - 24 * len(drawn) / 2, 40.0

    def position(number: int, value: float) -> tuple[float, float]:
        x = x0 + (x1 - x0) * (number / (runs - 1) if runs > 1 else 0.5)
        return x, y0 - (y0 - y1) * (value - low) / (high - low)

    yield (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 360" font-family="sans-serif"'
        ' font-size="12">'
    )
    yield f"<title>{escape(_title(chart))}</title>"
    yield f'<text x="{x0:g}" y="20" font-size="14">{escape(_title(chart))}</text>'
    for value in _tick_values(low, high, step):
        y = position(0, value)[1]
        yield f'<path d="M{x0:g} {y:.1f}H{x1:g}" stroke="#ddd"/>'
        yield f'<text x="{x0 - 8:g}" y="{y + 4:.1f}" text-anchor="end">{_figure(value)}</text>'
    for number in dict.fromkeys((0, runs - 1)):
        x = position(number, low)[0]
        label = escape(one_line(chart.runs[number].label))
        yield f'<text x="{x:.1f}" y="{y0 + 18:.1f}" text-anchor="middle">{label}</text>'
    for index, series in enumerate(drawn):
        colour = _COLOURS[index]
        yield from _svg_series(chart, series, colour, position)
        name = escape(one_line(f"{series.name}  {_change_text(series, chart.unit)}"))
        y = y0 + 42 + 16 * index
        yield f'<circle cx="{x0:g}" cy="{y - 4:.1f}" r="4" fill="{colour}"/>'
        yield f'<text x="{x0 + 10:g}" y="{y:.1f}">{name}</text>'
    if omitted:
        yield f'<text x="{x0:g}" y="354" fill="#666">and {omitted} more that changed less</text>'
    yield "</svg>"


def _svg_series(
    chart: Chart, series: Series, colour: str, position: Callable[[int, float], tuple[float, float]]
) -> Iterator[str]:
    """A series as a path with gaps at unknown values, a circle with a tool tip at each value."""
    points = [(n, position(n, v), v) for n, v in enumerate(series.values) if v is not None]
    previous = None
    path = ""
    for n, (x, y), _ in points:
        path += f"{'L' if previous == n - 1 else 'M'}{x:.1f} {y:.1f}"
        previous = n
    yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    for n, (x, y), value in points:
        tooltip = escape(one_line(f"{chart.runs[n].label}: {_figure(value)} {chart.unit}"))
        yield (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}">'
            f"<title>{tooltip}</title></circle>"
        )
