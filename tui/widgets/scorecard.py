"""The card beside the panes of the kernel page: a loop's scorecard and what is known of a line.

It is drawn as the room allows: a column at the side, a strip of three columns, or some lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.events import Resize
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from .styles import part_style


class Fact(Struct, frozen=True):
    """A label, what is to be said under it, and how grave that is (`error`, `dim`, ...)."""

    label: str
    text: str
    style: str = ""


class Block(Struct, frozen=True):
    """Facts under a title."""

    title: str
    facts: tuple[Fact, ...] = ()


class Card(Struct, frozen=True):
    """A loop, or a kernel.

    Attributes:
        title: which.
        where: its lines.
        mix: its instructions by kind.
        more: what else there is to say of it.
    """

    title: str
    where: str
    mix: Block
    more: tuple[Block, ...] = ()


_SIDE_BY_SIDE = 90  # columns from which on blocks stand beside each other
_TALL = 16  # rows from which on they stand below each other
_LABEL = 13  # columns of a label and the blank behind it
_BRIEF = 5  # columns of a figure that can share its row with another


class ScoreCard(Widget):
    """Shows a `Card` and the facts of a line."""

    DEFAULT_CSS = """
    ScoreCard { background: $surface; color: $foreground; padding: 0 1; }
    ScoreCard > .scorecard--title { color: $primary; text-style: bold; }
    ScoreCard > .scorecard--label { color: $foreground 60%; }
    ScoreCard > .scorecard--dim { color: $foreground 60%; }
    ScoreCard > .scorecard--error { color: $error; }
    ScoreCard > .scorecard--warning { color: $warning; }
    ScoreCard > .scorecard--info { color: $primary; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "scorecard--title",
        "scorecard--label",
        "scorecard--dim",
        "scorecard--error",
        "scorecard--warning",
        "scorecard--info",
    }

    def __init__(self, *, id: str | None = None) -> None:  # Textual's name for it
        super().__init__(id=id)
        self._card: Card | None = None
        self._here = Block("This line")
        self._note = ""
        self._rows: list[Text] = []
        self._base: Style | None = None

    def show(self, card: Card | None, line_block: Block, note: str = "") -> None:
        """Shows a card and the facts of a line.

        Args:
            card: None where nothing is known yet.
            line_block: of the line.
            note: stands where there is no card: why.
        """
        self._card, self._here, self._note = card, line_block, note
        self._draw()

    def on_resize(self, event: Resize) -> None:
        """Another size has another shape."""
        self._draw()

    def notify_style_update(self) -> None:
        """The theme has changed."""
        self._base = None
        super().notify_style_update()
        if self.is_attached:
            self._draw()

    def render_line(self, y: int) -> Strip:
        """One row."""
        width, style = self.size.width, self._base
        if style is None:  # Textual works it out anew from all ancestors at every call
            style = self._base = self.rich_style
        if y >= len(self._rows):
            return Strip.blank(width, style)
        pieces = self._rows[y].render(self.app.console)
        return Strip(Segment.apply_style(pieces, style)).adjust_cell_length(width, style)

    def _draw(self) -> None:
        """Works the rows out anew; those that have changed are painted."""
        old_rows, self._rows = self._rows, self._build()
        for number in range(max(len(old_rows), len(self._rows))):
            old = old_rows[number] if number < len(old_rows) else None
            new = self._rows[number] if number < len(self._rows) else None
            if old != new:
                self.refresh(Region(0, number, self.size.width, 1))

    def _build(self) -> list[Text]:
        width, height = self.size
        if not width or not height:
            return []
        if self._card is None:
            return self._wrapped(Text(self._note, self._style("dim")), width)
        if height >= _TALL:
            rows = self._column(self._card, width, height)
        elif width >= _SIDE_BY_SIDE:
            rows = self._columns(self._card, width, height)
        else:
            rows = self._lines(self._card, width, height)
        return rows[:height]

    # ------------------------------------------------------------------ shapes

    def _column(self, card: Card, width: int, height: int) -> list[Text]:
        top = [*self._loop(card, width), *self._facts(card.mix, width)]
        for block in card.more:
            if block.facts:
                top += [Text(), *self._block(block, width)]
        line_rows = self._block(self._here, width)
        # What is said of the line changes with every key: it must not be what is cut off.
        room = max(height - len(line_rows) - 1, height // 2)
        return [*top[:room], Text(), *line_rows]

    def _columns(self, card: Card, width: int, height: int) -> list[Text]:
        each = (width - 4) // 3
        first = [*self._loop(card, each, brief=True), *self._mix(card.mix, each)]
        second = [row for block in card.more if block.facts for row in self._block(block, each)]
        columns = (first, second, self._block(self._here, width - 2 * each - 4))
        rows = []
        for number in range(min(height, max(map(len, columns)))):
            row = Text(no_wrap=True)
            for column in columns[:2]:
                piece = column[number].copy() if number < len(column) else Text()
                piece.truncate(each, overflow="ellipsis", pad=True)
                row.append_text(piece)
                row.append("  ")
            if number < len(columns[2]):
                row.append_text(columns[2][number])
            rows.append(row)
        return rows

    def _lines(self, card: Card, width: int, height: int) -> list[Text]:
        title = Text(no_wrap=True)
        title.append(card.title, self._style("title"))
        title.append(f"  {card.where}")
        mix = Text(no_wrap=True)
        for fact in _telling(card.mix.facts):
            mix.append(f"{fact.label} ", self._style("label"))
            mix.append(f"{_short(fact.text)}  ")
        rows = [title, mix]
        for row in rows:
            row.truncate(width, overflow="ellipsis")
        return [*rows, *self._facts(self._here, width)][: max(1, height)]

    # ------------------------------------------------------------------ pieces

    def _loop(self, card: Card, width: int, brief: bool = False) -> list[Text]:
        rows = [Text(card.title, self._style("title"))]
        parts = [part for part in card.where.split("   ") if part]
        if brief:
            located = [part for part in parts if not part.startswith("?")]
            parts = ["  ".join(located)] if located else []
        for part in parts:
            rows += self._wrapped(Text(part, self._style("dim")), width)
        return rows

    def _mix(self, mix: Block, width: int) -> list[Text]:
        """Short figures two in a row, then the longer ones; zeros are left out."""
        telling = _telling(mix.facts)
        short = [fact for fact in telling if len(fact.text) <= _BRIEF]
        rows = []
        for number in range(0, len(short), 2):
            row = Text(no_wrap=True)
            for fact in short[number : number + 2]:
                row.append(f"{fact.label:<{_LABEL - 1}} ", self._style("label"))
                row.append(f"{fact.text:<{_BRIEF + 1}}")
            rows.append(row)
        longer = tuple(fact for fact in telling if len(fact.text) > _BRIEF)
        return rows + self._facts(Block("", longer), width)

    def _block(self, block: Block, width: int) -> list[Text]:
        return [Text(block.title, self._style("title")), *self._facts(block, width)]

    def _facts(self, block: Block, width: int) -> list[Text]:
        rows: list[Text] = []
        for fact in block.facts:
            style = self._style(fact.style) if fact.style else Style()
            if not fact.label:
                rows += self._wrapped(Text(fact.text, style), width)
                continue
            wide = 1 if len(fact.label) == 1 else max(_LABEL - 1, len(fact.label))
            label = Text(f"{fact.label:<{wide}} ")
            label.stylize(style if fact.style else self._style("label"))
            if wide + 8 > width // 2 and wide >= _LABEL and wide + 1 + len(fact.text) > width:
                rows.append(label)
                label = Text("  ")
            body = self._wrapped(Text(fact.text, style), max(8, width - label.cell_len))
            for number, row in enumerate(body):
                lead = label if number == 0 else Text(" " * label.cell_len)
                rows.append(Text.assemble(lead, row))
        return rows

    def _wrapped(self, text: Text, width: int) -> list[Text]:
        return list(text.wrap(self.app.console, max(1, width)))

    def _style(self, name: str) -> Style:
        return part_style(self, f"scorecard--{name}")


def _telling(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """Those that are not simply zero."""
    return tuple(fact for fact in facts if fact.text != "0")


def _short(figure: str) -> str:
    return figure.replace(", of them ", "/").replace(" reads ", "r ").replace(" writes", "w")
