"""The list of passes: numbers, names, layout conversions, changes and, if there is room, sizes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from msgspec import Struct
from textual.binding import Binding, BindingType

from ....inspector.compile.passes import STAGES
from ...widgets.code import Cell, Span, Text
from ...widgets.filtered_list import RowList
from .timeline import LEVELS, Timeline, bytes_of, name_of

_STAGE_STYLES: Mapping[str, str] = {"ttir": "keyword", "ttgir": "name", "llir": "literal"}
_STAGE_WIDTH = max(map(len, STAGES)) + 2
_NUMBER_WIDTH = 7  # of the pass's number and its sign
_SIZE_WIDTH, _NAME_WIDTH = 12, 36


class PassList(RowList):
    """The list of passes, which never scrolls sideways: the right key goes to the diff."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l,enter", "open", "Diff", show=False),
        Binding("left,h", "nothing", show=False),
    ]

    def action_nothing(self) -> None:
        """Does nothing, since there is no pane left of the list."""


def list_text(
    timeline: Timeline, listed: Sequence[int], width: int, mark: int | None
) -> tuple[str, Text]:
    """The heading of the list, and the passes as lines.

    A line has number, sign, name, the `convert_layout` operations before and after a pass that
    changes their number, the change and, if there is room, the module's size.
    """
    largest_change = max((c.added + c.removed for c in timeline.changes.values()), default=1)
    deltas = {n: _delta(timeline, n, largest_change) for n in listed}
    delta_width = max((len(text) for text in deltas.values()), default=0)
    longest = max((len(name_of(timeline.passes[n])) for n in listed), default=0)
    conversions = {n: "{}→{}".format(*c) for n in listed if (c := timeline.conversions(n))}
    conversions_width = max((len(text) + 1 for text in conversions.values()), default=0)
    fixed = _STAGE_WIDTH + _NUMBER_WIDTH + 1 + conversions_width + delta_width + 1
    # Names have precedence over sizes, which the timeline shows, too.
    sized = width - fixed - _SIZE_WIDTH >= min(_NAME_WIDTH, longest)
    room = max(8, width - fixed - (_SIZE_WIDTH if sized else 0))
    columns = _Columns(room, conversions_width, delta_width, sized)
    lines = _PassLines(timeline, listed, mark, timeline.events, deltas, conversions, columns)
    text = Text([lines.text(n) for n in listed], lines.spans, lines.gutter, _STAGE_WIDTH)
    return columns.heading(), text


class _Columns(Struct, frozen=True):
    """The widths of the columns, in cells; 0 for one that is left out.

    Attributes:
        conversions: of the `convert_layout` operations, with a blank before them.
    """

    name: int
    conversions: int
    delta: int
    sized: bool

    def heading(self) -> str:
        # The titles of narrow columns take of the room of those on their left.
        name = f"{'pass':<{_NUMBER_WIDTH + self.name}}"
        title = "convert_layout" if self.conversions else ""
        left = f"{name[: len(name) + self.conversions - len(title)]}{title}"
        size = f"{'size before':>{_SIZE_WIDTH}}" if self.sized else ""
        return f"{'stage':<{_STAGE_WIDTH}}{left} {'lines':>{self.delta}}{size}"


class _PassLines(Struct, frozen=True):
    """The lines of the list.

    Attributes:
        deltas: pass -> its change as text.
        conversions: pass -> the `convert_layout` operations before and after it, as text.
    """

    timeline: Timeline
    listed: Sequence[int]
    mark: int | None
    events: Collection[int]
    deltas: Mapping[int, str]
    conversions: Mapping[int, str]
    columns: _Columns

    def text(self, n: int) -> str:
        compiler_pass = self.timeline.passes[n]
        sign = "●" if compiler_pass.changed else " "
        sign = "◆" if n == self.mark else "▸" if n in self.events else sign
        columns = self.columns
        name = _cut_start(name_of(compiler_pass), columns.name)
        conversions = f"{self.conversions.get(n, ''):>{columns.conversions}}"
        size = f"{bytes_of(compiler_pass.size):>{_SIZE_WIDTH}}" if columns.sized else ""
        delta = f"{self.deltas[n]:>{columns.delta}}"
        return f"{n:>4} {sign} {name:<{columns.name}}{conversions} {delta}{size}"

    def spans(self, line: int) -> Sequence[Span]:
        """The colours of a line; those of a pass without changes are dim."""
        if line >= len(self.listed):
            return ()
        compiler_pass = self.timeline.passes[self.listed[line]]
        name_end = _NUMBER_WIDTH + self.columns.name
        start = name_end + self.columns.conversions + 1  # of the change
        end = start + self.columns.delta
        if not compiler_pass.changed:
            return [(0, end + _SIZE_WIDTH, "dim")]
        coloured: list[Span] = [(0, 4, "number"), (5, 6, "literal"), (name_end, start, "warning")]
        change = self.timeline.changes.get(compiler_pass.index)
        if change is not None:
            plus = end - len(self.deltas[compiler_pass.index])
            minus = plus + len(f"+{change.added} ")
            bar = minus + len(f"−{change.removed}")
            coloured += [(plus, minus, "added"), (minus, bar, "removed"), (bar, end, "heat")]
        return [*coloured, (end, end + _SIZE_WIDTH, "comment")]

    def gutter(self, line: int) -> Sequence[Cell]:
        """The stage of a line's pass, named on the first line of each stage."""
        if line >= len(self.listed):
            return ((" " * _STAGE_WIDTH, "number"),)
        passes = self.timeline.passes
        stage = passes[self.listed[line]].stage
        previous_stage = passes[self.listed[line - 1]].stage if line else ""
        name = stage if stage != previous_stage else ""
        return ((f"{name:<{_STAGE_WIDTH - 2}}▐ ", _STAGE_STYLES.get(stage, "other")),)


def _delta(timeline: Timeline, index: int, largest_change: int) -> str:
    """The lines that a pass changed, with a bar; "?" or "changed" where they are not known."""
    change = timeline.changes.get(index)
    if change is not None:
        lines = change.added + change.removed
        # Passes differ by orders of magnitude: the bar is logarithmic.
        level = math.ceil(8 * math.log1p(lines) / math.log1p(max(largest_change, 1)))
        return f"{change} {LEVELS[max(1, min(level, 8))]}"
    if timeline.is_last(index):
        return "?"
    return "changed" if timeline.passes[index].changed else ""


def _cut_start(name: str, room: int) -> str:
    """A pass's name cut at its start, which is the dialect, to `room` cells."""
    return name if len(name) <= room else "…" + name[len(name) - room + 1 :]
