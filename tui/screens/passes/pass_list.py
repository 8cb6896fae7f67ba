"""The list of passes: numbers, names, layout conversions, changes, stages and sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from ...widgets.bars import Piece
from ...widgets.table import Table
from ...widgets.table_rows import ColumnHead, TableRow
from .timeline import LEVELS, Timeline, bytes_of, name_of

_STAGE_STYLES: Mapping[str, str] = {"ttir": "mark", "ttgir": "group", "llir": "star"}


class PassList(Table):
    """The list of passes, which never scrolls sideways: the right key goes to the diff."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l,enter", "open", "Diff", show=False),
        Binding("left,h", "nothing", show=False),
    ]

    def action_nothing(self) -> None:
        """Does nothing, since there is no pane left of the list."""

    def show_passes(
        self, timeline: Timeline, listed: Sequence[int], mark: int | None, cursor: int
    ) -> None:
        """Shows passes; what changed nothing is dim.

        Args:
            timeline: the dump.
            listed: the passes to list.
            mark: the marked pass.
            cursor: the row to put the cursor on.
        """
        most = max((c.added + c.removed for c in timeline.changes.values()), default=1)
        changes = {n: _change(timeline, n, most) for n in listed}
        width = max((sum(len(text) for text, _ in cell) for cell in changes.values()), default=0)
        conversions = {n: "{}→{}".format(*c) for n in listed if (c := timeline.conversions(n))}
        columns: dict[str, ColumnHead] = {
            "conversions": ColumnHead("conversions", "converts", 8, right=True),
            "lines": ColumnHead("lines", "lines", max(5, width), right=True),
            "stage": ColumnHead("stage", "stage", 5),
            "size": ColumnHead("size", "size before", 11, right=True),
        }
        if not conversions:
            del columns["conversions"]

        def draw(row: int) -> TableRow:
            n = listed[row]
            compiler_pass = timeline.passes[n]
            stage = compiler_pass.stage
            sign = "●" if compiler_pass.changed else " "
            sign = "◆" if n == mark else "▸" if n in timeline.events else sign
            dim = "" if compiler_pass.changed else "dim"
            cells: dict[str, tuple[Piece, ...]] = {
                "conversions": ((conversions.get(n, ""), "warning"),),
                "lines": changes[n],
                "stage": ((stage, _STAGE_STYLES.get(stage, "")),),
                "size": ((bytes_of(compiler_pass.size), "dim"),),
            }
            first = ((f"{n:>4} ", "dim"), (f"{sign} ", "star"), (name_of(compiler_pass), dim))
            return TableRow(first, tuple(cells[name] for name in columns))

        heads = (ColumnHead("pass", "       pass", 0), *columns.values())
        self.show(heads, len(listed), draw, cursor=cursor, empty="no pass has these words")


def _change(timeline: Timeline, index: int, most: int) -> tuple[Piece, ...]:
    """The lines that a pass changed, with a bar; "?" or "changed" where they are not known."""
    change = timeline.changes.get(index)
    if change is not None:
        # Passes differ by orders of magnitude: the bar is logarithmic.
        lines = change.added + change.removed
        level = math.ceil(8 * math.log1p(lines) / math.log1p(max(most, 1)))
        bar = LEVELS[max(1, min(level, 8))]
        return (
            (f"+{change.added} ", "better"),
            (f"−{change.removed} ", "worse"),
            (bar, "error"),
        )
    if timeline.is_last(index):
        return (("?", "dim"),)
    return (("changed" if timeline.passes[index].changed else "", "dim"),)
