"""The prompt of the kernel page, which asks for words to look for."""

from __future__ import annotations

from ...pages import Page
from ...widgets.find import place
from .marks import PaneMarks
from .panes import Panes


class Prompt:
    """What the prompt asks for, and what is done with what is typed."""

    def __init__(self, page: Page, panes: Panes, marks: PaneMarks) -> None:
        self._page = page
        self._panes = panes
        self._marks = marks
        self._cursor = 0  # the cursor's line when the prompt was opened

    @property
    def _is_open(self) -> bool:
        return self._page.has_class("-asking")

    def ask_words(self) -> None:
        """Asks for words to look for in this text."""
        if self._panes.current.is_missing:
            return
        self._cursor = self._panes.current.code.cursor
        field = self._panes.prompt
        field.placeholder = "search"
        self._panes.show_prompt(True)
        field.value = ""
        field.focus()
        # Prepare the index before the first letter is typed.
        self._page.call_after_refresh(self._marks.index, self._panes.current)

    def changed(self, typed: str) -> None:
        """Shows the first match while the words are typed."""
        if self._is_open:
            pane = self._panes.current
            self._marks.land(pane, self._marks.search(pane, typed, self._cursor))

    def submit(self) -> None:
        """Closes the prompt and stays at the match."""
        pane = self._panes.current
        self._close()
        matches = self._marks.occurrences
        if matches is None:
            return
        count = len(matches.lines)
        position = place(matches.lines, pane.code.cursor) if count else "in no line"
        self._marks.remember(pane, self._cursor)
        self._panes.show_message(f"{matches.what}: {position}   n next, N previous")

    def cancel(self) -> bool:
        """Closes the prompt and goes back to where it was opened; returns whether it was open."""
        if not self._is_open:
            return False
        self._close()
        pane = self._panes.current
        self._marks.land(pane, self._marks.search(pane, "", self._cursor))
        return True

    def _close(self) -> None:
        self._panes.show_prompt(False)
        self._marks.drop_index()
        self._panes.current.target.focus()
