"""A document: sections of figures, tables, lists and sentences, without colour, width or markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct

Tone = Literal["", "strong", "weak", "good", "bad", "error", "warning", "info"]
"""How words are meant: `strong` is read first, `weak` last; `error` to `info` are severities."""


class Span(Struct, frozen=True):
    """Words of one tone; with an `url` they are what is read there."""

    text: str
    tone: Tone = ""
    url: str = ""


Text = tuple[Span, ...]


def words(text: str, tone: Tone = "") -> Text:
    """A text of one span."""
    return (Span(text, tone),)


def plain(text: Text) -> str:
    """The words without their tones."""
    return "".join(span.text for span in text)


class Paragraph(Struct, frozen=True):
    """A sentence or a few."""

    text: Text


def paragraphs(lines: Iterable[str], tone: Tone = "") -> tuple[Paragraph, ...]:
    """A paragraph for each line that is not empty."""
    return tuple(Paragraph(words(line, tone)) for line in lines if line)


class Figure(Struct, frozen=True):
    """A figure, or several that belong together.

    Args:
        share: of what there is, 0 to 1: drawn as a bar; None without one.
        beside: what follows the bar.
    """

    label: str
    text: Text
    share: float | None = None
    beside: Text = ()
    tone: Tone = ""


class Figures(Struct, frozen=True):
    """Figures, one below the other.

    Args:
        is_row: they are short and stand side by side.
    """

    rows: tuple[Figure, ...]
    is_row: bool = False


class Column(Struct, frozen=True):
    """A column of a table.

    Args:
        rank: where the table is too wide, columns of the highest rank are left out first; those of
            rank 0 stay.
        shrinks: its texts may be cut where the table is too wide.
    """

    title: str
    right: bool = False
    rank: int = 0
    shrinks: bool = False


class Table(Struct, frozen=True):
    """A table.

    Args:
        tones: of each row; empty where all are alike.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    tones: tuple[Tone, ...] = ()


Columns = Sequence[tuple[Column | str, Callable[[Any], str]]]
"""Columns, or the titles of plain ones, with the text of each for an item."""


def table(
    columns: Columns, items: Iterable[Any], tone: Callable[[Any], Tone] | None = None
) -> Table:
    """A table with a row for each item, without columns that are empty in all rows."""
    told = list(items)
    rows = [[text(item) for _, text in columns] for item in told]
    filled = [n for n in range(len(columns)) if any(row[n] for row in rows)]
    return Table(
        tuple(Column(title) if isinstance(title := columns[n][0], str) else title for n in filled),
        tuple(tuple(row[n] for n in filled) for row in rows),
        tuple(map(tone, told)) if tone is not None else (),
    )


class Item(Struct, frozen=True):
    """A finding, or another thing to do.

    Args:
        mark: what it is worth: a saving or a severity.
        name: what others call it: the id of a rule.
        below: what to do about it, and what came of that.
    """

    mark: Span
    place: str
    text: str
    name: str = ""
    below: Text = ()
    code: tuple[str, ...] = ()


class Items(Struct, frozen=True):
    """A list, in the order in which it is worth reading.

    Args:
        is_long: place, mark and name have a line of their own.
    """

    items: tuple[Item, ...]
    is_long: bool = False


class Listing(Struct, frozen=True):
    """Lines that keep their own indentation."""

    lines: tuple[str, ...]


class Code(Struct, frozen=True):
    """Lines of code, which are not broken."""

    lines: tuple[str, ...]
    language: str = ""


Block = Paragraph | Figures | Table | Items | Listing | Code


class Section(Struct, frozen=True):
    """Blocks under a title.

    Args:
        title: its heading; empty where it goes on with the subject of the one before.
        is_subject: its title names what the sections behind it are about.
        folds: where a form can fold what is read last, this is folded, up to the next subject.
    """

    blocks: tuple[Block, ...]
    title: Text = ()
    is_subject: bool = False
    folds: bool = False


Document = tuple[Section, ...]
