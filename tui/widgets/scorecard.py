"""The card beside the panes of the kernel page: a loop's scorecard and the facts of a line.

Its shape follows its size: a column at the side, a strip of three columns, or a few lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.events import Resize
from textual.geometry import Region
from textual.strip import Strip

from .styles import PartedWidget


class CardFact(Struct, frozen=True):
    """A labelled text.

    Attributes:
        label: what the text is about; "" for none.
        style: `error`, `warning`, `info`, `dim` or "" for none.
        brief: whether it goes before the others, in a row, in a card of a few lines.
    """

    label: str
    text: str
    style: str = ""
    brief: bool = False


class CardBlock(Struct, frozen=True):
    """Facts under a title."""

    title: str
    facts: tuple[CardFact, ...] = ()


class Card(Struct, frozen=True):
    """The figures of a loop, or of a kernel without loops.

    Attributes:
        about: the parts of the loop's title: its lines, unroll factor and depth.
        known_about: those of them that say something known, for where there is little room.
    """

    title: str
    about: tuple[str, ...]
    known_about: tuple[str, ...]
    mix: CardBlock
    blocks: tuple[CardBlock, ...] = ()

    def plain(self, line_block: CardBlock) -> str:
        """All of the card and of the facts of a line as text, a row for each fact."""
        rows = [line_block.title, *_plain_rows(line_block), ""]
        rows += ["  ".join((self.title, *self.about)), *_plain_rows(self.mix)]
        for block in self.blocks:
            if block.facts:
                rows += ["", block.title, *_plain_rows(block)]
        return "\n".join(rows)


_SIDE_BY_SIDE = 90  # columns of the widget from which on blocks are put side by side
_TALL = 16  # rows of the widget from which on blocks are stacked where it is narrower
_LABEL = 13  # columns of a label and the blank after it
_SHORT_FIGURE = 5  # columns of a figure that can share its row with another


class ScoreCard(PartedWidget):
    """Shows a `Card` and the facts of a line."""

    PREFIX = "scorecard"
    DEFAULT_CSS = """
    ScoreCard { background: $surface; color: $foreground; padding: 0 1; }
    ScoreCard > .scorecard--title { color: $primary; text-style: bold; }
    ScoreCard > .scorecard--label { color: $foreground 60%; }
    ScoreCard > .scorecard--dim { color: $foreground 60%; }
    ScoreCard > .scorecard--error { color: $error; }
    ScoreCard > .scorecard--warning { color: $warning; }
    ScoreCard > .scorecard--info { color: $primary; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # Textual's id of the widget
        super().__init__(id=id)
        self._card: Card | None = None
        self._line_block = CardBlock("This line")
        self._note = ""
        self._rows: list[Text] = []
        self._base: Style | None = None

    def show(self, card: Card | None, line_block: CardBlock, note: str = "") -> None:
        self._card, self._line_block, self._note = card, line_block, note
        self._draw()

    def on_resize(self, event: Resize) -> None:
        self._draw()

    def notify_style_update(self) -> None:
        """Has the card laid out anew before it is drawn: its colours may have changed."""
        self._base = None
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        width, style = self.size.width, self._base
        if style is None:  # cached, since Textual computes it from all ancestors at every call
            style = self._base = self.rich_style
            self._rows = self._build()
        if y >= len(self._rows):
            return Strip.blank(width, style)
        pieces = self._rows[y].render(self.app.console)
        return Strip(Segment.apply_style(pieces, style)).adjust_cell_length(width, style)

    def _draw(self) -> None:
        """Lays out the rows, and redraws those that have changed."""
        old_rows, self._rows = self._rows, self._build()
        for number in range(max(len(old_rows), len(self._rows))):
            old = old_rows[number] if number < len(old_rows) else None
            new = self._rows[number] if number < len(self._rows) else None
            if old != new:
                self.refresh(Region(0, number, self.size.width, 1))

    def _build(self) -> list[Text]:
        """The rows of the card in the shape that suits the widget's size."""
        width, height = self.size
        if not width or not height:
            return []
        if self._card is None:
            return self._wrapped(Text(self._note, self.part_style("dim")), width)
        if width >= _SIDE_BY_SIDE:
            rows = self._columns(self._card, width, height)
        elif height >= _TALL:
            rows = self._column(self._card, width, height)
        else:
            rows = self._lines(self._card, width, height)
        return self._cut(rows, height)

    def _cut(self, rows: list[Text], height: int) -> list[Text]:
        """As many rows as there is room for; the last one tells how many are left out."""
        if len(rows) <= height:
            return rows
        shown = rows[: max(0, height - 1)]
        more = f"… {len(rows) - len(shown)} more: Enter"
        return [*shown, Text(more, self.part_style("dim"))]

    def _column(self, card: Card, width: int, height: int) -> list[Text]:
        card_rows = [*self._loop(card, width), *self._facts(card.mix, width)]
        for block in card.blocks:
            if block.facts:
                card_rows += [Text(), *self._block(block, width)]
        line_rows = self._block(self._line_block, width)
        # The facts of the line change with every key, so that they must stay visible.
        room = max(height - len(line_rows) - 1, height // 2)
        return [*self._cut(card_rows, room), Text(), *line_rows]

    def _columns(self, card: Card, width: int, height: int) -> list[Text]:
        """Three columns: the loop with its mix, further facts, the line."""
        column_width = (width - 4) // 3
        first_column = [
            *self._loop(card, column_width, compact=True),
            *self._mix(card.mix, column_width),
        ]
        second_column = [
            row for block in card.blocks if block.facts for row in self._block(block, column_width)
        ]
        line_column = self._block(self._line_block, width - 2 * column_width - 4)
        columns = [self._cut(rows, height) for rows in (first_column, second_column, line_column)]
        rows = []
        for number in range(min(height, max(map(len, columns)))):
            row = Text(no_wrap=True)
            for column in columns[:2]:
                piece = column[number].copy() if number < len(column) else Text()
                piece.truncate(column_width, overflow="ellipsis", pad=True)
                row.append_text(piece)
                row.append("  ")
            if number < len(columns[2]):
                row.append_text(columns[2][number])
            rows.append(row)
        return rows

    def _lines(self, card: Card, width: int, height: int) -> list[Text]:
        """A line for the loop, the facts of the line and, where there is room, the loop's mix."""
        title = Text(no_wrap=True)
        title.append(card.title, self.part_style("title"))
        title.append(f"  {'   '.join(card.about)}")
        mix = Text(no_wrap=True)
        for fact in _nonzero(card.mix.facts):
            mix.append(f"{fact.label} ", self.part_style("label"))
            mix.append(f"{_short(fact.text)}  ")
        rows, facts = [title], self._line_block.facts
        for fact in filter(lambda fact: fact.brief, facts):
            row = Text(f"{fact.label:<{_LABEL - 1}} ", self.part_style("label"), no_wrap=True)
            rows.append(row.append(fact.text, self.part_style(fact.style)))
        for row in (*rows, mix):
            row.truncate(width, overflow="ellipsis")
        for fact in filter(lambda fact: not fact.brief, facts):
            rows += self._facts(CardBlock("", (fact,)), width, flowing=True)
        if len(rows) < height:
            return [*rows, *[Text()] * (height - len(rows) - 1), mix]
        if len(rows) > height:
            rows[height - 1].truncate(width - 2)
            rows[height - 1].append(" …", self.part_style("dim"))
        return rows[:height]

    def _loop(self, card: Card, width: int, compact: bool = False) -> list[Text]:
        rows = [Text(card.title, self.part_style("title"))]
        about = card.about
        if compact:
            about = ("  ".join(card.known_about),) if card.known_about else ()
        for part in about:
            rows += self._wrapped(Text(part, self.part_style("dim")), width)
        return rows

    def _mix(self, mix: CardBlock, width: int) -> list[Text]:
        """The instructions by kind: short figures two in a row, then longer ones; no zeros."""
        nonzero = _nonzero(mix.facts)
        short = [fact for fact in nonzero if len(fact.text) <= _SHORT_FIGURE]
        rows = []
        for number in range(0, len(short), 2):
            row = Text(no_wrap=True)
            for fact in short[number : number + 2]:
                row.append(f"{fact.label:<{_LABEL - 1}} ", self.part_style("label"))
                row.append(f"{fact.text:<{_SHORT_FIGURE + 1}}")
            rows.append(row)
        longer = tuple(fact for fact in nonzero if len(fact.text) > _SHORT_FIGURE)
        return rows + self._facts(CardBlock("", longer), width)

    def _block(self, block: CardBlock, width: int) -> list[Text]:
        return [Text(block.title, self.part_style("title")), *self._facts(block, width)]

    def _facts(self, block: CardBlock, width: int, *, flowing: bool = False) -> list[Text]:
        """Each label with its text beside it, wrapped; a long label is put above the text."""
        rows: list[Text] = []
        for fact in block.facts:
            style = self.part_style(fact.style)
            if not fact.label:
                rows += self._wrapped(Text(fact.text, style), width)
                continue
            is_sign = len(fact.label) == 1 and not fact.label.isalnum()
            wide = 1 if is_sign else max(_LABEL - 1, len(fact.label))
            label = Text(f"{fact.label:<{wide}} ")
            label.stylize(style if fact.style else self.part_style("label"))
            if flowing and wide + 1 + len(fact.text) > width:
                first, *others = self._wrapped(Text(f"{fact.label} {fact.text}", style), width - 2)
                rows += [first, *(Text.assemble("  ", row) for row in others)]
                continue
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


def _plain_rows(block: CardBlock) -> list[str]:
    """A block's facts as lines with the texts aligned where the labels are short."""
    return [
        f"  {fact.label:<{_LABEL - 1}} {fact.text}" if fact.label else f"  {fact.text}"
        for fact in block.facts
    ]


def _nonzero(facts: Sequence[CardFact]) -> tuple[CardFact, ...]:
    """The facts whose text is not just `0`."""
    return tuple(fact for fact in facts if fact.text != "0")


def _short(figure: str) -> str:
    """A figure of the mix abbreviated, for the card of a few lines."""
    return figure.replace(", of them ", "/").replace(" reads ", "r ").replace(" writes", "w")
