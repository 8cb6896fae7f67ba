"""The line in which words are typed that are looked for in texts beside one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.widgets import Input

from .code import CodeView
from .filter_line import FilterLine
from .find import Search, place, step


class FindLine(FilterLine):
    """Marks what is typed in some views while it is typed; it is visible while it has words."""

    def __init__(self, views: Callable[[], Sequence[CodeView]], *, id: str | None = None) -> None:
        super().__init__("words, or a regular expression, in this text", "", id=id)
        self._views = views

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.mark()
        view = self._current
        lines = self._lines()
        if lines and view.cursor not in lines:
            view.move_to(step(lines, view.cursor, 1) or lines[0], centre=True)

    def mark(self) -> None:
        """Marks the matches, as after one of the views shows another text."""
        for view in self._views():
            view.mark(Search(view.shown.lines).find(self.value).hits if self.value else {})

    def step(self, direction: int) -> None:
        """Goes to the next (1) or previous (-1) match, round the ends."""
        lines, view = self._lines(), self._current
        target = step(lines, view.cursor, direction)
        if target is not None:
            view.move_to(target, centre=True)
        found = place(lines, target) if target is not None else "nowhere in this text"
        self.app.notify(f"“{self.value}”: {found}", timeout=2, markup=False)

    def step_or(self, direction: int, otherwise: Callable[[int], None]) -> None:
        """Goes to the next or previous match; without a search does something else."""
        if self.value:
            self.step(direction)
        else:
            otherwise(direction)

    @property
    def _current(self) -> CodeView:
        views = self._views()
        return next((view for view in views if view.has_focus), views[0])

    def _lines(self) -> Sequence[int]:
        if not self.value:
            return ()
        texts = (view.shown.lines for view in self._views())
        return sorted({n for lines in texts for n in Search(lines).find(self.value).lines})

    def action_keep(self) -> None:
        self.set_class(bool(self.value), "-shown")
        self._current.focus()
