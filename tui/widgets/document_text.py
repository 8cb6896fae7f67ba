"""Documents, as reports print them, in the colours of the theme."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from textual.content import Content

from ...inspector.present.document import Section, plain
from ...inspector.present.paper import wrapped
from ...inspector.present.text import lines_of

DIM = "$foreground 60%"
_STYLES: Mapping[str, str] = {
    "": "",
    "bold": "bold",
    "dim": DIM,
    "green": "$success",
    "bold red": "bold $error",
    "yellow": "$warning",
    "cyan": "$primary",
}
"""Style of a report's line -> the theme's."""
_INDENT = " " * 6
"""Before what a row of a table goes on with."""
_LEAST = 24
"""Cells that lines take where there is less room."""


def content(document: Iterable[Section], width: int) -> Content:
    """A document in so many cells; sections without blocks are left out."""
    return Content.assemble(*_pieces(document, max(_LEAST, width))).rstrip()


def _pieces(document: Iterable[Section], width: int) -> Iterator[str | tuple[str, str]]:
    told = [section for section in document if section.blocks]
    for number, section in enumerate(told):
        if number:
            yield "\n"
        if section.title:
            yield f"{plain(section.title)}\n", "bold $primary"
        for block in section.blocks:
            # Nothing is cut: a row that is too long goes on below.
            for whole in lines_of(block, width, fits=False):
                for line in wrapped(whole, width, _INDENT):
                    yield from ((text, _STYLES[style]) for text, style in line.spans)
                    yield "\n"
