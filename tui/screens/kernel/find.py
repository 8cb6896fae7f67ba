"""Occurrences that a pane marks: the matches of a search, or a register's uses."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import overload

from msgspec import Struct

from ...widgets.code import Hit


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

    Args:
        lines: the text as it is drawn.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        # Lowered as one text, which takes a third of the time that it takes line by line.
        self._lowered: Sequence[str] = "\n".join(lines).lower().split("\n") if lines else ()
        self._nowhere = ""  # words without a match; longer words that begin with them have none

    def find(self, words: str) -> Occurrences:
        """The lines that hold some words; case counts where they have a capital letter."""
        lines = self._lines(words)
        return Occurrences(
            f"“{words}”", Matches(lines, words), lambda line: _columns(lines[line], words)
        )

    def first(self, words: str, line: int) -> int | None:
        """The first of them from a line on, round the end; the others are not looked for."""
        if self._nowhere and words.startswith(self._nowhere):
            return None
        lines = self._lines(words)
        for numbers in (range(line, len(lines)), range(min(line, len(lines)))):
            for number in numbers:
                if words in lines[number]:
                    return number
        self._nowhere = words
        return None

    def _lines(self, words: str) -> Sequence[str]:
        return self._lowered if words == words.lower() else self.lines


class Matches(Sequence[int]):
    """The lines that hold some words, ascending; they are looked for at the first use.

    Args:
        lines: the text.
        words: the words.
    """

    def __init__(self, lines: Sequence[str], words: str) -> None:
        self._lines = lines
        self._words = words
        self._matching: list[int] | None = None

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> list[int]:
        if self._matching is None:
            words = self._words
            self._matching = [number for number, line in enumerate(self._lines) if words in line]
        return self._matching


def _columns(line: str, words: str) -> list[Hit]:
    hits: list[Hit] = []
    column = line.find(words) if words else -1
    while column >= 0:
        hits.append((column, column + len(words)))
        column = line.find(words, column + len(words))
    return hits


def step(lines: Sequence[int], line: int, direction: int) -> int | None:
    """The next or previous of some lines, wrapping around at the ends; None if there are none.

    Args:
        lines: ascending.
        line: the cursor's line.
        direction: 1 for the next line, -1 for the previous one.
    """
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
        self._index = 0

    @property
    def stops(self) -> tuple[int, ...]:
        """The first line, and then the lines linked to it."""
        return self._stops

    def next(self, line: int, targets: Sequence[int]) -> int | None:
        """The line to go to next; None if there is none.

        Args:
            line: the cursor's line.
            targets: the lines linked to it, to which a new trail leads.
        """
        if self._stops and self._stops[self._index] == line:
            self._index = (self._index + 1) % len(self._stops)
            return self._stops[self._index]
        if not targets:
            self._stops = ()
            return None
        self._stops, self._index = (line, *targets), 1
        return self._stops[1]

    @property
    def place(self) -> str:
        """The position on the trail, in words."""
        if self._index == 0:
            return "back where it began"
        return f"{self._index} of {len(self._stops) - 1}"
