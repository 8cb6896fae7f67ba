"""A plot of a falling step function, with the current point and the next step marked.

It uses no plotting library, whose import takes as long as the whole page takes to appear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from textual.events import Click
from textual.message import Message

from .styles import Piece, Plot

Point = tuple[float, float]


class StepFunction(Struct, frozen=True):
    """A falling step function with two marked points.

    Attributes:
        title: names both quantities, as in `waves/SIMD over VGPRs`.
        short_title: names what it is drawn over, for narrow plots; "" for none.
        points: (x, y): the value is y from just after the previous point's x up to and including x.
        current: the current point; None if it is unknown.
        step: the nearest better point; None if there is none.
        needs: the other change that this step needs; "" if it needs none.
        unit: of x, written after the last tick.
        message: shown in place of the plot if there are no points.
    """

    title: str
    short_title: str = ""
    points: Sequence[Point] = ()
    max_y: float = 1
    current: Point | None = None
    step: Point | None = None
    needs: str = ""
    unit: str = ""
    message: str = ""

    def value_at(self, x: float) -> float:
        """The value at x; 0 beyond the last point."""
        return next((y for last, y in self.points if x <= last), 0.0)


class StepPlot(Plot):
    """Draws a `StepFunction`; a click reports the x under the mouse."""

    PREFIX = "plot"
    DEFAULT_CSS = """
    StepPlot { height: 1fr; width: 1fr; min-height: 3; }
    StepPlot > .plot--title { color: $foreground; text-style: bold; }
    StepPlot > .plot--axis { color: $foreground 60%; }
    StepPlot > .plot--line { color: $primary; }
    StepPlot > .plot--fill { color: $primary 25%; }
    StepPlot > .plot--now { color: $warning; text-style: bold; }
    StepPlot > .plot--guide { color: $warning 60%; }
    StepPlot > .plot--step { color: $success; text-style: bold; }
    """

    class Picked(Message):
        """The plot was clicked at an x."""

        def __init__(self, plot: StepPlot, x: float) -> None:
            super().__init__()
            self.plot, self.x = plot, x

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._steps = StepFunction("")

    def show(self, steps: StepFunction) -> None:
        self._steps = steps
        self.redraw()

    def on_click(self, event: Click) -> None:
        width = self._columns
        if self._steps.points and width > 1 and 0 <= event.x - self._margin < width:
            last = self._steps.points[-1][0]
            self.post_message(self.Picked(self, (event.x - self._margin) / (width - 1) * last))

    @property
    def _margin(self) -> int:
        return len(f"{self._steps.max_y:g}") + 2

    @property
    def _columns(self) -> int:
        return self.size.width - self._margin - 1

    def draw(self) -> list[list[Piece]]:
        steps, height = self._steps, self.size.height - 3  # title, axis, ticks
        rows: list[list[Piece]] = [self._head()]
        if not steps.points or height < 2 or self._columns < 8:
            message = steps.message if not steps.points else self._in_words()
            return [*rows, [(f" {message}", "axis")]]
        rows += self._body(height)
        margin = self._margin
        rows.append([(" " * (margin - 1) + "└" + "─" * self._columns, "axis")])
        rows.append([(" " * margin + self._ticks(), "axis")])
        return rows

    def _head(self) -> list[Piece]:
        """The title and the marked points; words are left out first if there is little room."""
        steps = self._steps
        current = (
            f"  ● {steps.current[0]:,g} → {steps.current[1]:g}" if steps.current is not None else ""
        )
        step = needs = ""
        if steps.step is not None:
            needs = f" with {steps.needs}" if steps.needs else ""
            mark = "◇" if needs else "◆"
            step = f"  {mark} ≤ {steps.step[0]:,g} → {steps.step[1]:g}"
        short_title = steps.short_title or steps.title
        room = self.size.width - 1
        variants = (
            (steps.title, needs),
            (short_title, needs),
            (steps.title, ""),
            (short_title, ""),
        )
        fitting = (
            variant for variant in variants if sum(map(len, (*variant, current, step))) <= room
        )
        title, needs = next(fitting, variants[-1])
        return [(f" {title}", "title"), (current, "now"), (step + needs, "step")]

    def _in_words(self) -> str:
        """The function's points as text, for plots too small to be drawn."""
        return "  ".join(f"≤{x:g}: {y:g}" for x, y in self._steps.points)

    def _body(self, height: int) -> list[list[Piece]]:
        """The rows of the plot above the x axis, each with its part of the y axis."""
        steps, width = self._steps, self._columns
        last = steps.points[-1][0] or 1

        def row(y: float) -> int:
            return round((1 - min(y, steps.max_y) / steps.max_y) * (height - 1))

        def column(x: float) -> int:
            return max(0, min(width - 1, round(x / last * (width - 1))))

        levels = [row(steps.value_at(c / (width - 1) * last)) for c in range(width)]
        cells = _staircase(levels, height)
        if steps.step is not None:
            cells[row(steps.step[1])][column(steps.step[0])] = ("◇" if steps.needs else "◆", "step")
        if steps.current is not None:
            r, c = row(steps.current[1]), column(steps.current[0])
            for below in range(r + 1, height):
                cells[below][c] = ("┊", "guide")
            cells[r][c] = ("●", "now")
        labels = self._labels(height, row)
        rows = []
        for r, line in enumerate(cells):
            axis = f"{labels.get(r, ''):>{self._margin - 2}} {'┤' if r in labels else '│'}"
            rows.append([(axis, "axis"), *line])
        return rows

    def _labels(self, height: int, row_of: Callable[[float], int]) -> dict[int, str]:
        """Row -> the whole number beside it, for as many numbers as there is room for."""
        max_y = int(self._steps.max_y)
        interval = next((n for n in (1, 2, 4, 5, 8) if max_y / n <= height - 1), max(max_y, 1))
        return {row_of(y): str(y) for y in range(0, max_y + 1, interval)}

    def _ticks(self) -> str:
        """The line of numbers below the axis: at quarters or halves, with the unit at the end."""
        width, last = self._columns, self._steps.points[-1][0]
        parts = 4 if width >= 36 else 2
        line = [" "] * width
        for n in sorted(range(parts + 1), key=lambda n: n % parts):  # the ends first
            text = f"{last * n / parts:,.0f}"
            if n == parts:
                text = f"{text} {self._steps.unit}".strip()
            start = round(n / parts * (width - 1)) - (0 if n == 0 else len(text) // 2)
            start = max(0, min(start, width - len(text)))
            if all(c == " " for c in line[max(0, start - 1) : start + len(text) + 1]):
                line[start : start + len(text)] = text
        return "".join(line)


def _staircase(levels: Sequence[int], height: int) -> list[list[Piece]]:
    """Draws a line through one row of each column, with the area below it filled."""
    cells = [[(" ", "")] * len(levels) for _ in range(height)]
    for c, level in enumerate(levels):
        for r in range(level + 1, height):
            cells[r][c] = ("░", "fill")
        previous = levels[c - 1] if c else level
        cells[level][c] = ("─" if previous == level else "╰", "line")
        if previous < level:
            cells[previous][c] = ("╮", "line")
            for r in range(previous + 1, level):
                cells[r][c] = ("│", "line")
    return cells
