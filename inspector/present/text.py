"""The output of text reports: styled lines as wide as the paper and no wider, in colour if the
terminal or the user wants it.

Colour goes through rich alone, which knows NO_COLOR, FORCE_COLOR, TERM and terminals. Where none is
wanted (a pipe, a file, CI) the lines are plain text and rich is not even imported.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from typing import Final, Protocol, TextIO

from ..base.long_names import shortened, with_short_names
from ..base.printable import printable, printable_line
from ..base.streams import no_commands, underneath
from .document import (
    Block,
    Code,
    Document,
    Figures,
    Items,
    Listing,
    Paragraph,
    Section,
    Span,
    Table,
    Text,
    Tone,
    plain,
)

_STYLES: Final[dict[Tone, str]] = {
    "": "",
    "strong": "bold",
    "weak": "dim",
    "good": "green",
    "bad": "bold red",
    "error": "bold red",
    "warning": "yellow",
    "info": "cyan",
}
_BAR: Final = 20
_MARGIN: Final = "  "
_LONG_INDENT: Final = 11
_READABLE: Final = 20
"""Characters that a column keeps while others can be left out."""
_LEAST: Final = 6
"""Characters that a column keeps."""


def show(document: Document, stream: TextIO, color: bool | None = None) -> None:
    """Prints a document; `color` None: where the stream is a terminal that has colours."""
    write(document, paper_for(stream, color))


def write(document: Document, paper: Paper) -> None:
    """Prints a document; an empty line stands between its sections."""
    for line in _lines(document, paper.width, fits=paper.shortens):
        paper.print(line)


def plain_lines(document: Document) -> Iterator[str]:
    """The lines of a document as a file has them."""
    return (line.plain for line in _lines(document, WIDTH, fits=False))


def _lines(document: Document, width: int, *, fits: bool) -> Iterator[Line]:
    for number, section in enumerate(document):
        if number:
            yield Line()
        yield from _section(section, width, fits=fits)


def lines_of(block: Block, width: int, *, fits: bool = True) -> Iterator[Line]:
    """The lines of a block; `fits`: tables leave out and cut what is too wide, not so in a file."""
    match block:
        case Paragraph(text):
            yield from _wrapped(text, width, _MARGIN, _MARGIN * 2)
        case Figures(_, is_row):
            yield from _row(block, width) if is_row else _figures(block, width)
        case Table():
            yield from _table(block, width, fits=fits)
        case Items(_, is_long):
            yield from (_long_items if is_long else _items)(block, width)
        case Code(lines):
            yield from (Line(f"{_MARGIN * 2}{line}") for line in lines)
        case Listing(lines):
            for line in lines:
                margin = _MARGIN + " " * (len(line) - len(line.lstrip()))
                yield from _wrapped((Span(line.lstrip()),), width, margin, f"{margin}    ")


def _section(section: Section, width: int, *, fits: bool) -> Iterator[Line]:
    if section.title:
        margin = "" if section.is_subject else _MARGIN
        yield from _wrapped(section.title, width if fits else sys.maxsize, margin, _MARGIN * 2)
    for block in section.blocks:
        yield from lines_of(block, width, fits=fits)


def _wrapped(text: Text, width: int, head: str | Line, indent: str) -> Iterator[Line]:
    """A text behind what its first line begins with; nothing where it is empty."""
    line = Line(head) if isinstance(head, str) else head
    for span in text:
        text_of = with_short_names(span.text)
        line.append(f"{text_of}: {span.url}" if span.url else text_of, _STYLES[span.tone])
    if any(span.text for span in text):
        yield from wrapped(line, width, indent)


def _figures(figures: Figures, width: int) -> Iterator[Line]:
    label = max((len(row.label) for row in figures.rows), default=0)
    with_bars = [len(plain(row.text)) for row in figures.rows if row.share is not None]
    figure = max(with_bars, default=0)
    for row in figures.rows:
        text = row.text
        if row.share is not None:
            filled = min(_BAR, max(1 if row.share else 0, round(_BAR * row.share)))
            text = (
                *text,
                Span(f"{'':{figure - len(plain(text))}}  "),
                Span("▇" * filled, row.tone),
                Span("▁" * (_BAR - filled), "weak"),
            )
        if row.beside:
            text = (*text, Span("   "), *row.beside)
        head = f"{_MARGIN}{row.label:<{label}}  "
        yield from _wrapped(text, width, head, " " * len(head))


def _row(figures: Figures, width: int) -> Iterator[Line]:
    """Figures side by side; none is broken over two lines."""
    margin = _MARGIN * 2
    line = Line(margin)
    for row in figures.rows:
        cell = f"{row.label} {plain(row.text)}"
        if len(line.plain) + len(cell) > width and line.plain.strip():
            yield line
            line = Line(margin)
        line.append(cell, _STYLES[row.text[0].tone] if row.text else "")
        line.append("   ")
    yield line


def _items(block: Items, width: int) -> Iterator[Line]:
    mark = max(len(item.mark.text) for item in block.items)
    place = max(len(item.place) for item in block.items)
    indent = " " * (len(_MARGIN) + mark + 2 + (place + 2 if place else 0))
    for item in block.items:
        head = Line(f"{_MARGIN}{item.mark.text:>{mark}}  ", _STYLES[item.mark.tone])
        head.append(f"{item.place:<{place}}  " if place else "")
        name = Span(f"  {item.name}" if item.name else "", "weak")
        yield from _wrapped((Span(item.text), name), width, head, indent)
        for span in item.below:
            yield from _wrapped((span,), width, f"{indent}→ ", f"{indent}  ")


def _long_items(block: Items, width: int) -> Iterator[Line]:
    indent = " " * _LONG_INDENT
    for item in block.items:
        head = Line(f"{_MARGIN}{item.place}: ")
        head.append(item.mark.text, _STYLES[item.mark.tone])
        head.append(f" {item.name}", "bold")
        yield head
        yield from (Line(f"{indent}{line}"[:width], "dim") for line in item.code)
        for span in (Span(item.text), *item.below):
            yield from _wrapped((span,), width, indent, indent)


def _table(table: Table, width: int, *, fits: bool) -> Iterator[Line]:
    """The heading and a line a row; cells that may be cut are, where the width does not do."""
    shown = list(range(len(table.columns)))
    rows = [tuple(map(with_short_names, row)) for row in table.rows]
    widths = [
        max(len(column.title), *(len(row[n]) for row in rows), 0)
        for n, column in enumerate(table.columns)
    ]

    def total() -> int:
        return len(_MARGIN) + sum(widths[n] for n in shown) + 2 * (len(shown) - 1)

    if fits:
        shrinking = [n for n in shown if table.columns[n].shrinks]
        room = {n: widths[n] - min(widths[n], _READABLE) for n in shrinking}
        while total() - sum(room[n] for n in shrinking if n in shown) > width:
            last = max(shown, key=lambda n: (table.columns[n].rank, n))
            if not table.columns[last].rank:
                break
            shown.remove(last)
        while total() > width:
            longest = max(
                (n for n in shrinking if n in shown and widths[n] > _LEAST),
                key=lambda n: widths[n],
                default=None,
            )
            if longest is None:
                break
            widths[longest] -= 1
    titles = [column.title for column in table.columns]
    for number, row in enumerate((titles, *rows)):
        if not any(row):
            continue
        cells = (_cell(row[n], widths[n], right=table.columns[n].right) for n in shown)
        tone: Tone = table.tones[number - 1] if number and table.tones else ""
        style = _STYLES[tone] if number else "bold"
        yield Line(_MARGIN + "  ".join(cells).rstrip(), style)


def _cell(text: str, width: int, *, right: bool) -> str:
    """A text in the middle of which characters are left out where it is too long."""
    text = shortened(text, width)
    return text.rjust(width) if right else text.ljust(width)


def print_block(block: Block, paper: Paper) -> None:
    """Prints a block alone."""
    for line in lines_of(block, paper.width, fits=paper.shortens):
        paper.print(line)


WIDTH = 110
"""Lines are no longer than this even on a wider terminal."""
_TOKENS = re.compile(r"\s+|\S+")
_SPACE = re.compile(r"\s")


class Line:
    """A line of text in spans of one style each; styles are rich's ("bold red")."""

    __slots__ = ("spans",)

    def __init__(self, text: str = "", style: str = "") -> None:
        self.spans: list[tuple[str, str]] = [(text, style)] if text else []

    def append(self, text: str, style: str = "") -> None:
        """Adds a span at the end."""
        if text and self.spans and self.spans[-1][1] == style:
            self.spans[-1] = (self.spans[-1][0] + text, style)
        elif text:
            self.spans.append((text, style))

    @property
    def plain(self) -> str:
        return "".join(text for text, _ in self.spans)


class Paper(Protocol):
    """Something that lines are printed on."""

    width: int
    shortens: bool  # whether names are cut to fit: only where a person looks at it

    def print(self, line: Line) -> None:
        """Prints one line."""
        ...


class PlainPaper:
    """A stream without colour."""

    def __init__(self, stream: TextIO) -> None:
        self.shortens = stream.isatty()
        self.width = min(shutil.get_terminal_size().columns, WIDTH) if self.shortens else WIDTH
        self._stream = stream

    def print(self, line: Line) -> None:
        """Prints one line."""
        self._stream.write(printable_line(line.plain.rstrip()) + "\n")


class RichPaper:
    """A terminal, or what is to be treated like one."""

    def __init__(self, stream: TextIO, force: bool) -> None:
        from rich.console import Console

        # Colours go past what cleans the stream, so the text is cleaned here.
        self._console = Console(
            file=underneath(stream), highlight=False, soft_wrap=True, force_terminal=force or None
        )
        self.width = min(self._console.width, WIDTH)
        self.shortens = self._console.is_terminal and stream.isatty()

    def print(self, line: Line) -> None:
        """Prints one line."""
        from rich.text import Text

        spans = [(printable(text), style) for text, style in line.spans]
        plain = "".join(text for text, _ in spans)
        clean = no_commands(plain)
        text = Text.assemble(*spans) if clean == plain else Text(clean)
        text.rstrip()
        self._console.print(text)


def paper_for(stream: TextIO, color: bool | None = None) -> Paper:
    """Paper on `stream`; `color` forces colour on or off, None leaves it to the stream."""
    if color or (color is None and (stream.isatty() or os.environ.get("FORCE_COLOR"))):
        return RichPaper(stream, force=bool(color))
    return PlainPaper(stream)


def wrapped(line: Line, width: int, indent: str) -> Iterator[Line]:
    """A sentence over as many lines as it takes, continued under `indent`; styles stay on words."""
    part, used = Line(), 0
    gap: list[tuple[str, str]] = []
    word: list[tuple[str, str]] = []
    is_empty = True
    for content, style in (*line.spans, (" ", "")):
        for token in _TOKENS.findall(content):
            if not token.isspace():
                word.append((token, style))
                continue
            if word:
                length = sum(len(text) for text, _ in (*gap, *word))
                if not is_empty and used + length > width:
                    yield part
                    part, gap = Line(indent), []
                for piece in (*gap, *word):
                    part.append(*piece)
                used, is_empty, gap, word = len(part.plain), False, [], []
            gap.append((_SPACE.sub(" ", token.expandtabs()), style))
    if not is_empty:
        yield part
