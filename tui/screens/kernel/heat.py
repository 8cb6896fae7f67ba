"""The columns of figures beside a kernel's texts, and the one by which lines are hot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....inspector.explain.code.line_figures import LineColumn, LineFigures, chosen
from ....inspector.model import KernelReport, RegisterPressure
from .columns import GutterColumn, drawn


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
