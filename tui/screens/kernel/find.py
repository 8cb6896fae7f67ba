"""What is marked in a pane: the matches of a search, or a register's uses."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import overload

from msgspec import Struct

from ...widgets.code import Hit


class Occurrences(Struct, frozen=True):
    """Lines in which something was found.

    Attributes:
        what: it, in words.
        lines: where, ascending.
        hits: line -> the columns; asked for the lines that are drawn alone.
    """

    what: str
    lines: Sequence[int]
    hits: Callable[[int], Sequence[Hit]]


class Search:
    """Looks for words in a text; each letter typed looks again.

    Args:
        lines: the text as it is drawn.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        # As one text: a third of what it takes line by line.
        self._lowered: Sequence[str] = "\n".join(lines).lower().split("\n") if lines else ()
        self._nowhere = ""  # what was not found: then nothing that begins with it is either

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
    """The lines that hold some words, ascending; they are looked for when they are asked for.

    Args:
        lines: the text.
        words: the words.
    """

    def __init__(self, lines: Sequence[str], words: str) -> None:
        self._lines = lines
        self._words = words
        self._found: list[int] | None = None

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...
    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        return self._all()[at]

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> list[int]:
        if self._found is None:
            words = self._words
            self._found = [number for number, line in enumerate(self._lines) if words in line]
        return self._found


def _columns(line: str, words: str) -> list[Hit]:
    hits: list[Hit] = []
    at = line.find(words) if words else -1
    while at >= 0:
        hits.append((at, at + len(words)))
        at = line.find(words, at + len(words))
    return hits


def step(lines: Sequence[int], line: int, by: int) -> int | None:
    """The next (`by` 1) or previous (-1) of these lines; round the end to the beginning.

    Args:
        lines: ascending.
        line: where one stands.
        by: which way.
    """
    if not lines:
        return None
    at = bisect_right(lines, line) if by > 0 else bisect_left(lines, line) - 1
    return lines[at % len(lines)]


def place(lines: Sequence[int], line: int) -> str:
    """`3 of 7`: which of these lines one stands on."""
    return f"{bisect_left(lines, line) + 1} of {len(lines)}"


class Trail:
    """From a wait to what it waits for, one after the other, and back."""

    def __init__(self) -> None:
        self._stops: tuple[int, ...] = ()
        self._at = 0

    @property
    def stops(self) -> tuple[int, ...]:
        """The line where it began, then those it leads to."""
        return self._stops

    def next(self, line: int, targets: Sequence[int]) -> int | None:
        """Where to go from a line; None: nowhere.

        Args:
            line: where one stands.
            targets: what belongs to that line, if the trail is to begin here.
        """
        if self._stops and self._stops[self._at] == line:
            self._at = (self._at + 1) % len(self._stops)
            return self._stops[self._at]
        if not targets:
            self._stops = ()
            return None
        self._stops, self._at = (line, *targets), 1
        return self._stops[1]

    @property
    def place(self) -> str:
        """Where one is on it."""
        if self._at == 0:
            return "back where it began"
        return f"{self._at} of {len(self._stops) - 1}"
