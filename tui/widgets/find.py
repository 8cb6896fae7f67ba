"""Occurrences that a view marks: the matches of a search, or a register's uses.

The line in which words are typed that are looked for in texts beside one another.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from msgspec import Struct
from textual.widgets import Input

from .code import CodeView, Hit
from .filter_line import FilterLine

_SPECIAL = re.compile(r"[\\.*+?\[\]()|^$]")


class Occurrences(Struct, frozen=True):
    """Lines with something that is marked.

    Attributes:
        what: names the marked thing, for messages.
        lines: the lines, ascending.
        hits: line -> the marked columns; called only for lines that are drawn.
    """

    what: str
    lines: Sequence[int]
    hits: Callable[[int], Sequence[Hit]]


class Search:
    """Searches a text for words, again with each letter typed.

    Words that are nowhere in the text count as a regular expression if they are one: assembly is
    full of brackets and dots, which users mean as they stand. Case counts where there is a capital.

    Args:
        lines: the text as it is drawn.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        # Lowered as one text, which takes a third of the time that it takes line by line.
        self._lowered: Sequence[str] = "\n".join(lines).lower().split("\n") if lines else ()

    def find(self, words: str) -> Occurrences:
        lines = self._lowered if words == words.lower() else self.lines
        pattern = None
        found = [number for number, line in enumerate(lines) if words in line]
        if not found and (pattern := regular(words)) is not None:
            found = [number for number, line in enumerate(lines) if pattern.search(line)]
        marked = pattern or re.compile(re.escape(words))

        def hits(line: int) -> list[Hit]:
            return [match.span() for match in marked.finditer(lines[line]) if match[0]]

        return Occurrences(f"“{words}”", found, hits)


def regular(words: str) -> re.Pattern[str] | None:
    """Words as a regular expression; None where they are none, or have nothing of one."""
    if _SPECIAL.search(words) is None:
        return None
    try:
        return re.compile(words)
    except (re.error, OverflowError):
        return None


def step(lines: Sequence[int], line: int, direction: int) -> int | None:
    """The next or previous of some lines, wrapping around at the ends; None if there are none."""
    if not lines:
        return None
    index = bisect_right(lines, line) if direction > 0 else bisect_left(lines, line) - 1
    return lines[index % len(lines)]


def place(lines: Sequence[int], line: int) -> str:
    """The position of a line among some lines: `3 of 7`."""
    return f"{bisect_left(lines, line) + 1} of {len(lines)}"


class Trail:
    """Steps from a line, such as a wait, through the lines linked to it, and back."""

    def __init__(self) -> None:
        self._stops: tuple[int, ...] = ()
        self._relations: tuple[str, ...] = ()  # what each stop is to the first
        self._index = 0

    @property
    def stops(self) -> tuple[int, ...]:
        return self._stops

    def is_at(self, line: int) -> bool:
        return bool(self._stops) and self._stops[self._index] == line

    def next(self, line: int, targets: Sequence[tuple[int, str]]) -> int | None:
        """The line to go to next; None if there is none."""
        if self.is_at(line):
            self._index = (self._index + 1) % len(self._stops)
            return self._stops[self._index]
        by_line: dict[int, str] = {}
        for target, relation in targets:
            if target != line:
                by_line.setdefault(target, relation)
        if not by_line:
            self._stops = ()
            return None
        self._stops, self._index = (line, *by_line), 1
        self._relations = ("", *by_line.values())
        return self._stops[1]

    @property
    def relation(self) -> str:
        """What the present stop is to the first."""
        return self._relations[self._index]

    @property
    def place(self) -> str:
        if self._index == 0:
            return "back where it began"
        return f"{self._index} of {len(self._stops) - 1}"


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
