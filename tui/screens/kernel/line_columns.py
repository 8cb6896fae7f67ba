"""The columns of figures beside a text of the kernel page, as they are drawn, and the one by which
lines are hot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from ....inspector.explain.code.line_figures import LineColumn, LineFigures, chosen
from ....inspector.explain.registers_view import pressure_bar
from ....inspector.explain.view import HOT, WARM
from ....inspector.model import KernelReport, RegisterPressure
from ...widgets.code import Cell

WIDTH = 7
"""Cells of a column of shares, the first of them blank, as in all columns."""
_NARROW = 6  # cells of other columns
_REASON = 3
"""Letters of a reason beside a predicted share: the two stand beside a measured one in 16 cells."""
_BAR = 5  # cells of the curve of live registers
_HOT_SIGN = "▾"
_LEAST_SHARE = 0.05  # %; smaller ones are drawn as a dot
_HOT_PART = 50.0
"""Per cent of a text's largest figure from which on one is drawn as hot."""


class GutterColumn(Struct, frozen=True):
    """A column as it is drawn.

    Attributes:
        heading: its title, in all its cells.
        cells: line -> what stands there, in all its cells.
    """

    heading: str
    cells: Callable[[int], list[Cell]]

    @property
    def width(self) -> int:
        return len(self.heading)


def drawn(
    column: LineColumn,
    kind: str,
    report: KernelReport,
    figures: LineFigures | None,
    pressure: RegisterPressure | None,
    *,
    is_heat: bool = False,
) -> GutterColumn:
    sign = _HOT_SIGN if is_heat else " "
    if column.name == "live" and kind == "amdgcn" and pressure is not None:
        return _curve(pressure, sign)
    if column.name == "stall":
        # Imported where something was measured: the first page of a file does not wait for it.
        from ....inspector.profile.placing.line_measures import measure_of

        shares = figures.weights.get(kind, {}) if figures is not None else {}
        title = "sampl%" if measure_of(report.measured_lines) == "samples" else "stall%"
        return GutterColumn(sign + title, lambda line: [share_cell(shares.get(line))])
    if column.name == "predicted":
        return _predicted(column, kind, figures, sign)
    heading = f"{sign}{column.title:>{_NARROW - 1}}"
    if figures is None:
        return GutterColumn(heading, lambda line: [(" " * _NARROW, "number")])
    heat, texts = figures.heat(kind), figures
    largest = max(heat.values(), default=0) or 1

    def cells(line: int) -> list[Cell]:
        text = texts.text(kind, line)
        style = cell_style(100 * heat.get(line, 0) / largest, _HOT_PART) if text else "number"
        return [(f"{text:>{_NARROW}}", style)]

    return GutterColumn(heading, cells)


def _predicted(
    column: LineColumn, kind: str, figures: LineFigures | None, sign: str
) -> GutterColumn:
    """A line's predicted share of the stalls and what it waits for."""
    shares = figures.weights.get(kind, {}) if figures is not None else {}
    reasons = figures.texts.get(kind, {}) if figures is not None else {}

    def cells(line: int) -> list[Cell]:
        share = shares.get(line)
        if share is None or share < _LEAST_SHARE:
            text = "" if share is None else "·"
            return [(f"{text:>{_NARROW - 1}}{'':<{_REASON + 1}}", "dim")]
        number = f"{share:.1f}" if share < 99.95 else "100"
        reason = f" {reasons[line][:_REASON]:<{_REASON}}"
        style = cell_style(share)
        return [(f"{number:>{_NARROW - 1}}", style), (reason, style)]

    return GutterColumn(f"{sign}{column.title:<{_NARROW + _REASON - 1}}", cells)


def _curve(pressure: RegisterPressure, sign: str) -> GutterColumn:
    """The live VGPRs of a line and the registers that they need, against the budgets."""
    counted = zip(pressure.counts, pressure.needs, strict=True)
    live: Mapping[int, tuple[int, int]] = {
        line - 1: (vgprs, need) for (line, vgprs, _), need in counted
    }
    above = pressure.next_level

    def cells(line: int) -> list[Cell]:
        if line not in live:
            return [(" " * (_BAR + 5), "number")]
        vgprs, need = live[line]
        style = "warning" if above is not None and need > above[1] else "number"
        return [(f"{vgprs:>4} ", style), (pressure_bar(need, pressure, _BAR), "loop")]

    return GutterColumn(f"{sign}vgpr{'':<{_BAR}}", cells)


def share_cell(share: float | None) -> Cell:
    """A line's share, %; the hotter, the stronger its colour."""
    if share is None:
        return " " * WIDTH, "number"
    if share < _LEAST_SHARE:
        return f"{'·':>{WIDTH}}", "dim"
    return f"{share:>{WIDTH}.1f}", cell_style(share)


def cell_style(share: float, hot: float = HOT) -> str:
    """The style of a share, in per cent, that is hot from `hot` on and warm from a part of it."""
    share = share * HOT / hot
    if share < _LEAST_SHARE:
        return "dim"
    return "heat" if share >= HOT else "warning" if share >= WARM else "dim"


class LineHeat:
    """The figures of one kernel's lines."""

    def __init__(self, column_names: Callable[[], Sequence[str]]) -> None:
        self._column_names = column_names
        self._report: KernelReport | None = None
        self._figures: Mapping[str, LineFigures] = {}  # by the name of the column
        self._by = ""  # the column by which lines are hot; "" for the first
        # (column, kind of text) -> line -> its place among the hottest
        self._ranks: dict[tuple[str, str], dict[int, int]] = {}

    def take(self, report: KernelReport | None, figures: Mapping[str, LineFigures]) -> None:
        """Takes what is known now: at first the report alone."""
        self._report, self._figures = report, figures
        self._ranks.clear()

    def columns(
        self,
        kind: str,
        report: KernelReport,
        room: tuple[int, int],
        pressure: RegisterPressure | None,
        seen: Sequence[int],
    ) -> list[GutterColumn]:
        """The chosen columns, as they are drawn, as far as they leave the code its width.

        Those that are empty on the screen go first, then the last ones. The one by which lines are
        hot stays, unless it is empty.
        """
        heat = self.of(kind)
        columns: dict[str, GutterColumn] = {}
        filled: list[str] = []
        for column in self._chosen():
            figures = self._figures.get(column.name)
            if figures is not None and not figures.weights.get(kind):
                continue
            is_heat = heat is not None and heat.column is column
            columns[column.name] = drawn(column, kind, report, figures, pressure, is_heat=is_heat)
            if figures is None or any(line in figures.weights[kind] for line in seen):
                filled.append(column.name)
        whole, least = room
        if sum(column.width for column in columns.values()) <= whole:
            return list(columns.values())
        by = heat.column.name if heat is not None else ""
        # A line that is cut even beside one column leaves the others their room.
        left = whole if by not in filled or columns[by].width <= whole else least
        shown: set[str] = set()
        for name in sorted(filled, key=lambda name: name != by):
            if name == by or columns[name].width <= left:
                shown.add(name)
                left -= columns[name].width
        return [columns[name] for name in filled if name in shown]

    def of(self, kind: str) -> LineFigures | None:
        """The figures by which a text's lines are hot: of the column chosen, else of a cost."""
        with_figures = self._with_figures(kind)
        chosen_heat = [one for one in with_figures if one.column.name == self._by]
        costs = [one for one in with_figures if one.column.is_cost]
        return next(iter((*chosen_heat, *costs, *with_figures)), None)

    def figures(self, name: str) -> LineFigures | None:
        """The figures of a column, chosen or not; None where the kernel has none."""
        return self._figures.get(name)

    def next(self, kind: str, by: int) -> LineFigures | None:
        """Makes the next (1) or previous (-1) column the hot one; None without any."""
        with_figures, heat = self._with_figures(kind), self.of(kind)
        if heat is None:
            return None
        heat = with_figures[(with_figures.index(heat) + by) % len(with_figures)]
        self._by = heat.column.name
        return heat

    def ranks(self, kind: str, depth: Callable[[int], int]) -> Mapping[int, int]:
        """A text's lines with heat, the hottest first, and the place of each, from 0."""
        heat = self.of(kind)
        if heat is None:
            return {}
        key = heat.column.name, kind
        if key not in self._ranks:
            self._ranks[key] = {line: n for n, line in enumerate(heat.hottest(kind, depth))}
        return self._ranks[key]

    def _chosen(self) -> tuple[LineColumn, ...]:
        return chosen(self._column_names(), self._report) if self._report is not None else ()

    def _with_figures(self, kind: str) -> list[LineFigures]:
        figures = (self._figures.get(column.name) for column in self._chosen())
        return [
            one for one in figures if one is not None and any(one.weights.get(kind, {}).values())
        ]
