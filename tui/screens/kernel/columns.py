"""The columns of figures beside a text of the kernel page, as they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from ....inspector.explain.code.line_figures import LineColumn, LineFigures
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
        from ....inspector.profile.placing.loop_costs import measure_of

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
