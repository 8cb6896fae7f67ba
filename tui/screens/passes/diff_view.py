"""The diff of a pass, or of several together: its colours and folds, and the view that shows it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message

from ....inspector.compare.passhistory import Event
from ...key_table import bind
from ...widgets.code import Cell, CodeView, Span, Text
from . import dump_reading

_HUNK = re.compile(r"@@ -(\d+),\d+ \+(\d+),\d+ @@")
_CACHE_CHARS = 32 << 20  # of all cached diffs and modules


class DiffView(CodeView):
    """The diff; at its left edge the left key goes back to the list."""

    BINDINGS: ClassVar[list[BindingType]] = [bind("open", "open", "The whole line", show=False)]

    class Left(Message):
        """The focus is to go back to the list."""

    class Opened(Message):
        """A line is to be shown in full."""

        def __init__(self, line: int) -> None:
            super().__init__()
            self.line = line

    def action_open(self) -> None:
        if self.shown.lines:
            self.post_message(self.Opened(self.cursor))

    def action_shift(self, columns: int) -> None:
        if columns < 0 and self.scroll_offset.x == 0:
            self.post_message(self.Left())
        else:
            super().action_shift(columns)


class TextCache(dict[dump_reading.Span, str]):
    """(first, last) -> the diff between two states; if they are equal, that state's module."""

    def add(self, span: dump_reading.Span, text: str) -> None:
        """Adds a text; drops all others if they would be too large together."""
        if sum(map(len, self.values())) + len(text) > _CACHE_CHARS:
            self.clear()
        self[span] = text


def diff_text(diff: str, numbers: bool, marked: Collection[int] = ()) -> Text:
    """A unified diff with colours, in which each hunk can be folded.

    Args:
        diff: the result of `inspector.compile.passes.diff`.
        numbers: whether the gutter shows the lines' numbers in both states.
        marked: lines that the gutter points at, of those that `lines_of_event` returns.
    """
    lines = diff.splitlines()[2:]
    if not lines:
        return plain("nothing changed (debug locations and the names of values aside)")
    numbered, starts = _numbered(lines)
    digits = max(len(number) for pair in numbered for number in pair)
    partners = _partners(lines)
    stops = [*(start - 1 for start in starts[1:]), len(lines) - 1]

    def gutter(line: int) -> Sequence[Cell]:
        old_number, new_number = numbered[line] if line < len(numbered) else ("", "")
        mark = ("▸ " if line in marked else "  ") if marked else ""
        number = f"{old_number:>{digits}} {new_number:>{digits}} " if numbers else ""
        return ((mark, "literal"), (number, "number"))

    return Text(
        lines,
        lambda line: _diff_spans(lines, partners, line),
        gutter if numbers or marked else None,
        (2 * digits + 2 if numbers else 0) + (2 if marked else 0),
        dict(zip(starts, stops, strict=True)),
    )


def whole_line(lines: Sequence[str], line: int) -> str:
    """A diff's line and its partner, which it replaces or is replaced by, in full."""
    partner = _partners(lines).get(line)
    if partner is None:
        return lines[line].strip()
    removed, added = sorted((line, partner))
    before, after = (" ".join(lines[n][1:].split()) for n in (removed, added))
    return f"before\n{before}\n\nafter\n{after}"


def lines_of_event(diff: str, event: Event) -> list[int]:
    """The lines of a pass's diff, from 0, that take or put an operation that is followed."""
    numbered, _ = _numbered(diff.splitlines()[2:])
    before, after = set(map(str, event.lines_before)), set(map(str, event.lines_after))
    return [
        index
        for index, (old, new) in enumerate(numbered)
        if (not new and old in before) or (not old and new in after)
    ]


def hunks_without(text: Text, lines: Collection[int]) -> list[int]:
    """The first lines of a diff's hunks that hold none of these lines; none without lines."""
    hunks = (text.folds or {}).items() if lines else ()
    return [first for first, last in hunks if not any(first <= line <= last for line in lines)]


def _numbered(lines: Sequence[str]) -> tuple[list[tuple[str, str]], list[int]]:
    """The lines' numbers in both states, "" where there is none; and the hunks' first lines."""
    numbered: list[tuple[str, str]] = []
    starts: list[int] = []
    old = new = 0
    for index, line in enumerate(lines):
        hunk = _HUNK.match(line)
        if hunk is not None:
            old, new = int(hunk[1]), int(hunk[2])
            starts.append(index)
            numbered.append(("", ""))
        elif line.startswith("-"):
            numbered.append((str(old), ""))
            old += 1
        elif line.startswith("+"):
            numbered.append(("", str(new)))
            new += 1
        else:
            numbered.append((str(old), str(new)))
            old, new = old + 1, new + 1
    return numbered, starts


def plain(*lines: str) -> Text:
    return Text(list(lines))


def _partners(lines: Sequence[str]) -> Mapping[int, int]:
    """Removed line -> the line added in its place, and back, for runs of equal length."""
    partners: dict[int, int] = {}
    index = 0
    while index < len(lines):
        if not lines[index].startswith("-"):
            index += 1
            continue
        start = index
        while index < len(lines) and lines[index].startswith("-"):
            index += 1
        middle = index
        while index < len(lines) and lines[index].startswith("+"):
            index += 1
        if middle - start == index - middle:
            for n in range(middle - start):
                partners[start + n], partners[middle + n] = middle + n, start + n
    return partners


def _diff_spans(lines: Sequence[str], partners: Mapping[int, int], line: int) -> Sequence[Span]:
    """The colours of a line of a diff: only the part that differs from its partner, if short."""
    if line >= len(lines):
        return ()
    text = lines[line]
    if text.startswith("@@"):
        return [(0, len(text), "label")]
    name = {"+": "added", "-": "removed"}.get(text[:1])
    if name is None:
        return [(0, len(text), "scalar")]
    partner = lines[partners[line]] if line in partners else ""
    shorter = min(len(text), len(partner))
    head = 1
    while head < shorter and text[head] == partner[head]:
        head += 1
    tail = 0
    while tail < shorter - head and text[-1 - tail] == partner[-1 - tail]:
        tail += 1
    # If most of the line is unchanged, only the rest is coloured: lines of layouts are long.
    if 2 * (head + tail) < len(text):
        return [(0, len(text), name)]
    stop = max(head, len(text) - tail)
    return [(0, 1, name), (head, stop, name)]
