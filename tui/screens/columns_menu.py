"""The menu that shows, hides and moves columns: of the kernels' table, or beside code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from ..key_table import bind
from ..widgets.table import ColumnHead, Table, TableRow
from .dialogue import Dialogue, entitle

_TITLE = 17  # cells for a column's box and title


class ColumnsMenu(Dialogue[list[str]]):
    """The menu; its result is the names of the columns to show, empty for the default ones.

    Args:
        columns: name -> title, and one line on it.
    """

    DEFAULT_CSS = """
    ColumnsMenu > Vertical { width: 84; max-width: 96%; height: 30; padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,C,enter", "close", "Close", show=False, priority=True),
        Binding("space", "show_or_hide", "Show or hide", show=False),
        bind("shift_down", "shift_column(1)", "Further right", show=False),
        bind("shift_up", "shift_column(-1)", "Further left", show=False),
        bind("reset", "default", "Default columns", show=False),
    ]

    def __init__(
        self,
        columns: Mapping[str, tuple[str, str]],
        shown_names: Sequence[str],
        default: Sequence[str],
    ) -> None:
        super().__init__()
        self._columns = columns
        self._default = tuple(default)
        self._shown = list(shown_names)
        self._names = [*shown_names, *(name for name in columns if name not in shown_names)]

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            entitle(box, "Columns", "space shows or hides  J/K moves  R default  enter closes")
            yield Table(id="columns", least_first=_TITLE)

    def on_resize(self) -> None:
        self.call_after_refresh(self._fill, None)

    def _fill(self, cursor: int | None) -> None:
        table = self.query_one(Table)
        about = max(8, table.size.width - _TITLE - 2)  # less a gap and the scrollbar
        heads = (ColumnHead("", "     column", 0), ColumnHead("about", "what it is", about))
        table.show(heads, len(self._names), self._row, cursor=cursor)
        table.focus()

    def _row(self, row: int) -> TableRow:
        title, about = self._columns[self._names[row]]
        checked = self._names[row] in self._shown
        box = (" [x] " if checked else " [ ] ", "good" if checked else "dim")
        return TableRow((box, (title, "name" if checked else "")), (((about, "dim"),),))

    def on_table_opened(self, message: Table.Opened) -> None:
        """Shows or hides the column that was double-clicked."""
        message.stop()
        self.action_show_or_hide()

    def action_show_or_hide(self) -> None:
        """Shows or hides the column under the cursor; the last shown column stays."""
        name = self._names[self.query_one(Table).cursor]
        if name not in self._shown:
            self._shown.append(name)
        elif len(self._shown) > 1:
            self._shown.remove(name)
        self._sort_shown()
        self._fill(None)

    def action_shift_column(self, columns: int) -> None:
        """Moves the column under the cursor to the right (1) or the left (-1)."""
        index = self.query_one(Table).cursor
        new_index = index + columns
        if 0 <= new_index < len(self._names):
            self._names.insert(new_index, self._names.pop(index))
            self._sort_shown()
            self._fill(new_index)

    def action_default(self) -> None:
        default = self._default
        self._shown = list(default)
        self._names = [*default, *(name for name in self._columns if name not in default)]
        self._fill(0)

    def _sort_shown(self) -> None:
        self._shown.sort(key=self._names.index)

    def action_close(self) -> None:
        self.dismiss([] if tuple(self._shown) == self._default else self._shown)
