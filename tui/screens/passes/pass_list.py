"""The list of passes: numbers, names, changes and, if there is room, sizes of the module."""

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


def list_text(timeline: Timeline, listed: Sequence[int], width: int, mark: int | None) -> Text:
    """The passes as lines: number, sign, name, change and, if there is room, the module's size.

    Args:
        timeline: the dump.
        listed: the passes to list.
        width: of the view, in cells.
        mark: the marked pass.
    """
    largest_change = max((c.added + c.removed for c in timeline.changes.values()), default=1)
    deltas = {n: _delta(timeline, n, largest_change) for n in listed}
    delta_width = max((len(text) for text in deltas.values()), default=0)
    longest = max((len(name_of(timeline.passes[n])) for n in listed), default=0)
    fixed = _STAGE_WIDTH + _NUMBER_WIDTH + 1 + delta_width + 1
    # Names have precedence over sizes, which the timeline shows, too.
    sized = width - fixed - _SIZE_WIDTH >= min(_NAME_WIDTH, longest)
    room = max(8, width - fixed - (_SIZE_WIDTH if sized else 0))
    lines = _PassLines(timeline, listed, mark, timeline.events, deltas, room, delta_width, sized)
    return Text([lines.text(n) for n in listed], lines.spans, lines.gutter, _STAGE_WIDTH)


class _PassLines(Struct, frozen=True):
    """The lines of the list.

    Attributes:
        timeline: the dump.
        listed: the passes of the lines.
        mark: the marked pass.
        events: passes that changed what is followed.
        deltas: pass -> its change as text.
        room: cells of a name.
        delta_width: cells of a change.
        sized: whether the lines end with the module's size.
    """

    timeline: Timeline
    listed: Sequence[int]
    mark: int | None
    events: Collection[int]
    deltas: Mapping[int, str]
    room: int
    delta_width: int
    sized: bool

    def text(self, n: int) -> str:
        """The line of a pass."""
        compiler_pass = self.timeline.passes[n]
        sign = "●" if compiler_pass.changed else " "
        sign = "◆" if n == self.mark else "▸" if n in self.events else sign
        name = _cut_start(name_of(compiler_pass), self.room)
        size = f"{bytes_of(compiler_pass.size):>{_SIZE_WIDTH}}" if self.sized else ""
        return f"{n:>4} {sign} {name:<{self.room}} {self.deltas[n]:>{self.delta_width}}{size}"

    def spans(self, line: int) -> Sequence[Span]:
        """The colours of a line; those of a pass without changes are dim."""
        if line >= len(self.listed):
            return ()
        compiler_pass = self.timeline.passes[self.listed[line]]
        start = _NUMBER_WIDTH + self.room + 1  # of the change
        end = start + self.delta_width
        if not compiler_pass.changed:
            return [(0, end + _SIZE_WIDTH, "dim")]
        coloured: list[Span] = [(0, 4, "number"), (5, 6, "literal")]
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
