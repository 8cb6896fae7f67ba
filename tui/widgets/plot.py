"""A falling step function drawn with lines and blocks: where one stands, and the next step.

Drawn by ourselves: a plotting library takes as long to import as the whole page takes to appear.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import ClassVar

from msgspec import Struct
from rich.segment import Segment
from rich.style import Style
from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from .styles import part_style

Point = tuple[float, float]


class Steps(Struct, frozen=True):
    """A step function and what is marked on it.

    Attributes:
        title: what is drawn over what.
        points: (x, y): y holds up to and including x, from just behind the point before.
        top: the largest y of the axis.
        now: where one stands.
        step: the nearest point that is better.
        needs: what must change too for that; "" where nothing must.
        unit: of x, written behind the last tick.
        why: what is said instead where there are no points.
    """

    title: str
    points: Sequence[Point] = ()
    top: float = 1
    now: Point | None = None
    step: Point | None = None
    needs: str = ""
    unit: str = ""
    why: str = ""

    def at(self, x: float) -> float:
        """The value there."""
        return next((y for last, y in self.points if x <= last), 0.0)


class StepPlot(Widget):
    """Draws `Steps` in whatever room there is. A click tells the x under the mouse."""

    DEFAULT_CSS = """
    StepPlot { height: 1fr; width: 1fr; min-height: 3; }
    StepPlot > .plot--title { color: $foreground; text-style: bold; }
    StepPlot > .plot--axis { color: $foreground 40%; }
    StepPlot > .plot--line { color: $primary; }
    StepPlot > .plot--fill { color: $primary 25%; }
    StepPlot > .plot--now { color: $warning; text-style: bold; }
    StepPlot > .plot--guide { color: $warning 60%; }
    StepPlot > .plot--step { color: $success; text-style: bold; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"plot--{name}" for name in ("title", "axis", "line", "fill", "now", "guide", "step")
    }

    class Picked(Message):
        """The mouse points at a place of the plot."""

        def __init__(self, plot: StepPlot, x: float) -> None:
            super().__init__()
            self.plot, self.x = plot, x

        @property
        def control(self) -> StepPlot:
            return self.plot

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._steps = Steps("")
        self._rows: list[list[tuple[str, str]]] | None = None
        self._looks: dict[str, Style] = {}

    def show(self, steps: Steps) -> None:
        """Draws another function."""
        self._steps, self._rows = steps, None
        self.refresh()

    def on_resize(self) -> None:
        """Draws it anew."""
        self._rows = None

    def on_click(self, event: Click) -> None:
        """Tells the x under the mouse."""
        width = self._columns
        if self._steps.points and width > 1 and 0 <= event.x - self._margin < width:
            last = self._steps.points[-1][0]
            self.post_message(self.Picked(self, (event.x - self._margin) / (width - 1) * last))

    @property
    def _margin(self) -> int:
        return len(f"{self._steps.top:g}") + 2

    @property
    def _columns(self) -> int:
        return self.size.width - self._margin - 1

    def render_line(self, y: int) -> Strip:
        """One row."""
        width, base = self.size.width, self.rich_style
        if self._rows is None:
            self._rows = self._drawn()
        if y >= len(self._rows):
            return Strip.blank(width, base)
        segments = [Segment(text, base + self._style(name)) for text, name in self._rows[y]]
        return Strip(segments).adjust_cell_length(width, base)

    def _style(self, name: str) -> Style:
        style = self._looks.get(name)
        if style is None:
            style = part_style(self, f"plot--{name}") if name else Style()
            self._looks[name] = style
        return style

    def notify_style_update(self) -> None:
        """Forgets styles: the theme has changed."""
        self._looks.clear()
        super().notify_style_update()

    def _drawn(self) -> list[list[tuple[str, str]]]:
        steps, height = self._steps, self.size.height - 3  # title, axis, ticks
        rows: list[list[tuple[str, str]]] = [self._head()]
        if not steps.points or height < 2 or self._columns < 8:
            why = steps.why if not steps.points else self._in_words()
            return [*rows, [(f" {why}", "axis")]]
        rows += self._body(height)
        margin = self._margin
        rows.append([(" " * (margin - 1) + "└" + "─" * self._columns, "axis")])
        rows.append([(" " * margin + self._ticks(), "axis")])
        return rows

    def _head(self) -> list[tuple[str, str]]:
        """The title and the figures marked; the figures before the words where room is short."""
        steps = self._steps
        present = f"  ● {steps.now[0]:,g} → {steps.now[1]:g}" if steps.now is not None else ""
        step = needs = ""
        if steps.step is not None:
            needs = f" with {steps.needs}" if steps.needs else ""
            mark = "◇" if needs else "◆"
            step = f"  {mark} ≤ {steps.step[0]:,g} → {steps.step[1]:g}"
        brief = steps.title.partition(" ")[2] or steps.title  # what it is drawn over
        room = self.size.width - 1
        ways = ((steps.title, needs), (brief, needs), (steps.title, ""), (brief, ""))
        fitting = (way for way in ways if sum(map(len, (*way, present, step))) <= room)
        title, needs = next(fitting, ways[-1])
        return [(f" {title}", "title"), (present, "now"), (step + needs, "step")]

    def _in_words(self) -> str:
        """The function without room to draw it."""
        return "  ".join(f"≤{x:g}: {y:g}" for x, y in self._steps.points)

    def _body(self, height: int) -> list[list[tuple[str, str]]]:
        steps, width = self._steps, self._columns
        last = steps.points[-1][0] or 1

        def row(y: float) -> int:
            return round((1 - min(y, steps.top) / steps.top) * (height - 1))

        def column(x: float) -> int:
            return max(0, min(width - 1, round(x / last * (width - 1))))

        at = [row(steps.at(c / (width - 1) * last)) for c in range(width)]
        cells = [[(" ", "")] * width for _ in range(height)]
        for c, level in enumerate(at):
            for r in range(level + 1, height):
                cells[r][c] = ("░", "fill")
            previous = at[c - 1] if c else level
            cells[level][c] = ("─" if previous == level else "╰", "line")
            if previous < level:
                cells[previous][c] = ("╮", "line")
                for r in range(previous + 1, level):
                    cells[r][c] = ("│", "line")
        if steps.step is not None:
            cells[row(steps.step[1])][column(steps.step[0])] = (
                "◇" if steps.needs else "◆",
                "step",
            )
        if steps.now is not None:
            r, c = row(steps.now[1]), column(steps.now[0])
            for below in range(r + 1, height):
                cells[below][c] = ("┊", "guide")
            cells[r][c] = ("●", "now")
        labels = self._labels(height, row)
        rows = []
        for r, line in enumerate(cells):
            axis = f"{labels.get(r, ''):>{self._margin - 2}} {'┤' if r in labels else '│'}"
            runs = groupby(line, key=lambda cell: cell[1])
            pieces = [("".join(text for text, _ in run), name) for name, run in runs]
            rows.append([(axis, "axis"), *pieces])
        return rows

    def _labels(self, height: int, row: object) -> dict[int, str]:
        """Whole numbers beside the rows that they fall on, as many as there is room for."""
        assert callable(row)
        top = int(self._steps.top)
        every = next((n for n in (1, 2, 4, 5, 8) if top / n <= height - 1), max(top, 1))
        return {row(y): str(y) for y in range(0, top + 1, every)}

    def _ticks(self) -> str:
        """Numbers under the axis at quarters, the unit behind the last."""
        width, last = self._columns, self._steps.points[-1][0]
        parts = 4 if width >= 36 else 2
        line = [" "] * width
        for n in sorted(range(parts + 1), key=lambda n: n % parts):  # the ends first
            text = f"{last * n / parts:,.0f}"
            if n == parts:
                text = f"{text} {self._steps.unit}".strip()
            at = round(n / parts * (width - 1)) - (0 if n == 0 else len(text) // 2)
            at = max(0, min(at, width - len(text)))
            if all(c == " " for c in line[max(0, at - 1) : at + len(text) + 1]):
                line[at : at + len(text)] = text
        return "".join(line)
