"""Documents as Markdown, for pull requests and notes.

What a kernel's author wrote shows as it is: it becomes no HTML, image, link, mention or command.
`inline`, `code`, `cell`, `address` and `table` write such texts, also for other Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Final, TextIO

from ..base.long_names import with_short_names
from ..base.printable import one_line, printable, printable_line
from ..base.streams import no_commands
from .document import (
    Block,
    Code,
    Document,
    Figures,
    Item,
    Items,
    Listing,
    Paragraph,
    Section,
    Table,
    Text,
    plain,
    words,
)

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"}
_ACTIVE = re.compile(r"[&<>@`]|(?<=\])\(|(?<=!)\[|~(?=~)|\\(?=[!-/:-@\[-`{-~]|$)")
"""What would begin markup, also a backslash that would escape the character behind it."""
_WORD = re.compile(r"[^\s`\\|]+")
_REFERENCE = re.compile(r"://|www\.|@\w|#\d|(?<![^\W_])GH-\d", re.IGNORECASE)
"""What GitHub makes links and mentions of, unless it is code: addresses, people, issues."""
_TICKS = re.compile("`+")
_SPAN = re.compile(r"((?<!`)`(?:[^`\\|]|\\(?!\|)|(?<!\\)\|)+`(?!`))")
"""Code between two backticks that stand alone: runs of several pair otherwise in Markdown. A bar
behind a backslash would end it in a table."""


_RESERVE: Final = 200
"""Bytes for the sentence that says what was left out."""
_STRONG: Final = frozenset(("strong", "warning", "error"))


def show(document: Document, stream: TextIO, most_bytes: int | None = None) -> None:
    """Writes a document; sections that do not fit into so many bytes are counted instead."""
    if most_bytes is not None:
        document = tuple(_fitting(document, most_bytes - _RESERVE))
    stream.write(no_commands(printable("\n".join(lines_of(document)).rstrip())) + "\n")


def _fitting(document: Document, most_bytes: int) -> Iterator[Section]:
    """The sections up to the first that does not fit."""
    for number, section in enumerate(document):
        lines = (printable(line) for line in lines_of((section,)))
        most_bytes -= sum(len(line.encode()) + 1 for line in lines)
        if most_bytes < 0:
            left = f"{len(document) - number:,} more parts not shown: see the whole report."
            yield Section((Paragraph(words(left)),), words("…"), is_subject=True)
            return
        yield section


def lines_of(document: Document) -> Iterator[str]:
    """The lines of a document; an empty one ends each block."""
    is_open = False
    for section in document:
        if is_open and (section.is_subject or section.folds):
            yield from ("</details>", "")
            is_open = False
        if section.folds:
            yield from (f"<details><summary>{_summary(section.title)}</summary>", "")
            is_open = True
        elif section.is_subject:
            yield from (f"## {_text(section.title)}", "")
        elif section.title:
            yield from (_emphasized(section.title), "")
        for block in section.blocks:
            yield from _block(block)
    if is_open:
        yield "</details>"


def _summary(title: Text) -> str:
    """A title in HTML: the name that it begins with is code."""
    first, *others = (escape(printable_line(with_short_names(span.text))) for span in title)
    return f"<code>{first}</code>{''.join(others)}"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Paragraph(text):
            if text:
                yield from (_emphasized(text), "")
        case Figures(rows, is_row):
            if is_row:
                yield from table([row.label for row in rows], [[plain(row.text) for row in rows]])
            for row in () if is_row else rows:
                beside = f"   {plain(row.beside)}" if row.beside else ""
                label = f"**{inline(row.label)}** " if row.label else ""
                yield f"- {label}{inline(plain(row.text) + beside)}"
            yield ""
        case Table(columns, rows, _):
            yield from table([column.title for column in columns], rows)
            yield ""
        case Items(items):
            for item in items:
                yield from _item(item)
            yield ""
        case Code(lines, language):
            yield f"```{language}"
            yield from (line.replace("```", "'''") for line in lines)  # which would end it
            yield from ("```", "")
        case Listing(lines):
            yield from (f"- {inline(line.strip())}" for line in lines)
            yield ""


def _item(item: Item) -> Iterator[str]:
    place = f" {inline(item.place)}" if item.place else ""
    name = f" ({inline(item.name)})" if item.name else ""
    yield f"- **{inline(item.mark.text)}**{place}: {inline(item.text)}{name}"
    yield from (f"  - {_emphasized((span,))}" for span in item.below)


def _text(text: Text) -> str:
    """A title: the name that it begins with is code."""
    first, *others = text
    return " ".join((code(first.text), *(inline(s.text.strip()) for s in others if s.text)))


def _emphasized(text: Text) -> str:
    """A sentence in which strong words are bold."""
    pieces = []
    for span in text:
        words = link(span.text, span.url) if span.url else inline(span.text.strip())
        pieces.append(f"**{words}**" if span.tone in _STRONG and words else words)
    return " ".join(filter(None, pieces))


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yields the lines of a table; cells are sentences, see `inline`."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell(inline(text)) for text in cells) + " |"

    yield line(titles)
    yield "|" + " --- |" * len(titles)
    yield from map(line, rows)


def inline(text: str) -> str:
    """A sentence in which only code between single backticks is markup; references become code."""
    pieces = _SPAN.split(printable_line(with_short_names(text)))
    line = ""
    for n, piece in enumerate(pieces):
        shown = piece if n % 2 else references_as_code(piece, _inert)
        touch = line.endswith("`") and shown.startswith("`")
        line += f" {shown}" if touch else shown
    return line


def code(text: str) -> str:
    """A name as code, whatever it holds."""
    line = printable_line(with_short_names(text))
    runs = _TICKS.findall(line)
    if not runs:
        return f"`{line}`"
    fence = "`" * (max(map(len, runs)) + 1)
    return f"{fence} {line} {fence}"


def cell(text: str) -> str:
    """Escapes text for a cell of a table, which a bar would end, in code too."""
    return text.replace("|", "\\|").replace("\n", " ")


def address(url: str) -> str:
    """An address that does not end the `<...>` it stands in."""
    return one_line(url).replace("<", "%3C").replace(">", "%3E").replace(" ", "%20")


def link(title: str, url: str) -> str:
    """A link in Markdown; another address than of the web stands beside the title as code."""
    if url.startswith(("https://", "http://")):
        return f"[{inline(title)}](<{address(url)}>)"
    return f"{inline(title)} {code(url)}"


def references_as_code(text: str, escape: Callable[[str], str]) -> str:
    """Escaped text, but code of each word that GitHub would make a link or mention of."""
    if _REFERENCE.search(text) is None:
        return escape(text)
    pieces, end = [], 0
    for word in _WORD.finditer(text):
        if _REFERENCE.search(word[0]):
            pieces += [escape(text[end : word.start()]), f"`{word[0]}`"]
            end = word.end()
    return "".join((*pieces, escape(text[end:])))


def _inert(text: str) -> str:
    return _ACTIVE.sub(lambda match: _ENTITIES.get(match[0], f"\\{match[0]}"), text)
