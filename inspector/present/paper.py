"""The output of text reports: styled lines, in colour if the terminal or the user wants it.

Colour goes through rich alone, which knows NO_COLOR, FORCE_COLOR, TERM and terminals. Where none is
wanted (a pipe, a file, CI) the lines are plain text and rich is not even imported.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from typing import Protocol, TextIO

from ..base.printable import printable, printable_line
from ..base.streams import no_commands, underneath

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
