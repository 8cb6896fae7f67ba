"""Occurrences that a view marks: the matches of a search, or a register's uses."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import overload

from msgspec import Struct

from .code import Hit

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
    full of brackets and dots, which users mean as they stand.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        # Lowered as one text, which takes a third of the time that it takes line by line.
        self._lowered: Sequence[str] = "\n".join(lines).lower().split("\n") if lines else ()
        self._nowhere = ""  # words without a match; longer words that begin with them have none

    def find(self, words: str) -> Occurrences:
        """The lines that hold some words; case counts where they have a capital letter."""
        lines = self._lines(words)
        matches = Matches(lines, words)
        return Occurrences(f"“{words}”", matches, lambda line: matches.columns(lines[line]))

    def first(self, words: str, line: int) -> int | None:
        """The first of them from a line on, round the end; the others are not looked for."""
        if self._nowhere and words.startswith(self._nowhere):
            return self._first(regular(words), words, line)
        lines = self._lines(words)
        for number in _round_from(line, len(lines)):
            if words in lines[number]:
                return number
        self._nowhere = words
        return self._first(regular(words), words, line)

    def _first(self, pattern: re.Pattern[str] | None, words: str, line: int) -> int | None:
        if pattern is None:
            return None
        lines = self._lines(words)
        numbers = _round_from(line, len(lines))
        return next((number for number in numbers if pattern.search(lines[number])), None)

    def _lines(self, words: str) -> Sequence[str]:
        return self._lowered if words == words.lower() else self.lines


def regular(words: str) -> re.Pattern[str] | None:
    """Words as a regular expression; None where they are none, or have nothing of one."""
    if _SPECIAL.search(words) is None:
        return None
    try:
        return re.compile(words)
    except (re.error, OverflowError):
        return None


def _round_from(line: int, lines: int) -> Iterator[int]:
    yield from range(line, lines)
    yield from range(min(line, lines))


class Matches(Sequence[int]):
    """The lines that hold some words, ascending; they are looked for at the first use."""

    def __init__(self, lines: Sequence[str], words: str) -> None:
        self._lines = lines
        self._words = words
        self._pattern: re.Pattern[str] | None = None
        self._matching: list[int] | None = None

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())

    def columns(self, line: str) -> list[Hit]:
        """The columns of a line that match."""
        if self._pattern is None and self._words not in line:
            self._all()  # says whether the words are an expression
        if self._pattern is not None:
            return [match.span() for match in self._pattern.finditer(line) if match[0]]
        return _columns(line, self._words)

    def _all(self) -> list[int]:
        if self._matching is None:
            words = self._words
            self._matching = [number for number, line in enumerate(self._lines) if words in line]
            if not self._matching and (pattern := regular(words)) is not None:
                self._pattern = pattern
                search = pattern.search
                self._matching = [n for n, line in enumerate(self._lines) if search(line)]
        return self._matching


def _columns(line: str, words: str) -> list[Hit]:
    hits: list[Hit] = []
    column = line.find(words) if words else -1
    while column >= 0:
        hits.append((column, column + len(words)))
        column = line.find(words, column + len(words))
    return hits


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
        """The first line, and then the lines linked to it."""
        return self._stops

    def is_at(self, line: int) -> bool:
        """Whether the trail has led to a line, from which it goes on."""
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
        """The position on the trail, in words."""
        if self._index == 0:
            return "back where it began"
        return f"{self._index} of {len(self._stops) - 1}"
