"""The head of the kernel page: the first screen of the kernel's report in a few rows."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from rich.segment import Segment
from rich.text import Text
from textual.events import Resize
from textual.strip import Strip

from ....inspector.explain import loop_view, time_view, trials_view, view
from ....inspector.model import Finding, KernelReport, number_of
from ....inspector.present import document
from ....inspector.present import kernel as present
from ....inspector.present.text import lines_of
from ...widgets.bars import bar
from ...widgets.styles import PartedWidget, broken
from .pane_text import SIGNS

_TEXT = 96  # columns of the first screen in a window
_BARS = 3
_BAR_FROM = 100  # columns of the widget from which on bars stand on the right
_BAR, _NAME, _AMOUNT = 10, 16, 16  # cells of a bar, of its name and of its figure
_LABEL = 7  # cells of a row's label and the blank after it
_MOST_LINES = 2
"""Rows that one text may be broken over."""
_RANKS = {"time": 3, "waves": 7, "uses": 9, "spill": 4, "lines": 10, "busy": 6}
"""Figures of the first screen that the head shows: the lowest first where there is little room."""


class HeadRow(Struct, frozen=True):
    """A row.

    Attributes:
        rank: rows of the highest rank go first where there is little room.
    """

    rank: int
    label: str
    text: document.Text


class Head(Struct, frozen=True):
    """What the head says of a kernel.

    Attributes:
        bars: names, shares from 0 to 1 and figures of the busiest units.
    """

    rows: tuple[HeadRow, ...]
    bars: tuple[tuple[str, float, str], ...]


def head_of(kernel: KernelReport) -> Head:
    """What the head says of a kernel: its time, what that goes to, and the best changes."""
    verdict, changes = list(_verdict(kernel)), list(_changes(kernel))
    if kernel.time is None:  # the worst finding is the verdict
        verdict.insert(0, changes.pop(0))
    return Head((*verdict, *_figures(kernel), *changes), tuple(_bars(kernel)))


def whole_text(kernel: KernelReport) -> str:
    """All of the first screen of a kernel's report."""
    sections = present.first_screen(kernel, whole=True)
    blocks = (block for section in sections for block in section.blocks)
    return "\n".join(line.plain for block in blocks for line in lines_of(block, _TEXT))


def _verdict(kernel: KernelReport) -> Iterator[HeadRow]:
    text = present.verdict(kernel)
    measured = number_of(kernel.metrics, "measured.duration.median")
    if measured is not None:
        text = (*text, document.Span(f"  measured {time_view.amount(measured / 1e3)}", "weak"))
    if text:
        yield HeadRow(0 if kernel.time is not None else 5, "", text)
    for ground in present.grounds(kernel):
        yield HeadRow(5, "", ground)


def _figures(kernel: KernelReport) -> Iterator[HeadRow]:
    for figure in present.why(kernel):
        if figure.label in _RANKS:
            yield HeadRow(_RANKS[figure.label], figure.label, figure.text)


def _changes(kernel: KernelReport) -> Iterator[HeadRow]:
    """The best change, what came of it or how to make it, and the next one.

    Findings for which nothing helps come last.
    """
    findings = sorted(kernel.findings, key=lambda finding: finding.is_refuted)
    if not findings:
        yield HeadRow(1, "", document.words(trials_view.findings_summary(kernel), "weak"))
    for finding, label, rank in zip(findings, ("worst", "next"), (1, 8), strict=False):
        item = present.item(finding, kernel, kernel.findings)
        sign = f"{SIGNS[finding.severity]} {view.saving(finding)}".rstrip()
        mark = document.Span(sign, item.mark.tone)
        place = document.Span(f"  {item.place}  " if item.place else "  ")
        name = document.Span(f"  {item.name}", "weak")
        yield HeadRow(rank, label, (mark, place, document.Span(item.text), name))
        if label == "worst" and item.below:
            yield HeadRow(2, "fix", (item.below[0], *_key(finding, kernel)))


def _key(finding: Finding, kernel: KernelReport) -> document.Text:
    """The key that tries cures, where none was tried and some can be."""
    if finding.trials or kernel.variant is None or not kernel.variant.ttir:
        return ()
    return (document.Span("   T", "strong"), document.Span(" tries its cures", "weak"))


def _bars(kernel: KernelReport) -> Iterator[tuple[str, float, str]]:
    """The busiest units of the launch, else the least cycles of an iteration of the main loop."""
    if kernel.time is not None:
        for name, share in time_view.busiest(kernel.time)[:_BARS]:
            yield name, share, f"{100 * share:.0f} % of peak"
    elif main := loop_view.main_loop(kernel):
        known = loop_view.bounds(main.metrics)[:_BARS]
        for unit, cycles in known:
            amount = f"{cycles:,.0f} cycles in {main.id}"
            yield loop_view.unit_name(unit), cycles / known[0][1], amount


class KernelHead(PartedWidget):
    """Shows what a kernel's time is, why, and what would make it faster."""

    PREFIX = "head"
    DEFAULT_CSS = """
    KernelHead { background: $surface; color: $foreground; padding: 0 1; width: 1fr; }
    KernelHead > .head--label { color: $foreground 60%; }
    KernelHead > .head--strong { text-style: bold; }
    KernelHead > .head--weak { color: $foreground 60%; }
    KernelHead > .head--good { color: $success; }
    KernelHead > .head--bad { color: $error; }
    KernelHead > .head--error { color: $error; text-style: bold; }
    KernelHead > .head--warning { color: $warning; }
    KernelHead > .head--info { color: $primary; }
    KernelHead > .head--bar { color: $primary; }
    KernelHead > .head--track { color: $foreground 30%; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # Textual's id of the widget
        super().__init__(id=id)
        self._head = Head((), ())
        self._lines: list[Text] | None = None

    def show(self, kernel: KernelReport) -> None:
        self._head, self._lines = head_of(kernel), None
        self.refresh()

    def rows_for(self, most: int, width: int) -> int:
        """How many of at most so many rows it fills."""
        return len(self._laid_out(most, width)) if self._head.rows else 0

    def on_resize(self, event: Resize) -> None:
        self._lines = None

    def notify_style_update(self) -> None:
        self._lines = None
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        width, style = self.size.width, self.rich_style
        if self._lines is None:
            self._lines = self._laid_out(self.size.height, width)
        if y >= len(self._lines):
            return Strip.blank(width, style)
        pieces = self._lines[y].render(self.app.console)
        return Strip(Segment.apply_style(pieces, style)).adjust_cell_length(width, style)

    def _laid_out(self, height: int, width: int) -> list[Text]:
        """The rows that there is room for, with bars at the end of those below the first."""
        beside = self._beside() if width >= _BAR_FROM and height > _BARS else []
        rows = [row for row in self._head.rows if not (beside and row.label == "busy")]
        shown = sorted(sorted(rows, key=lambda row: row.rank)[:height], key=rows.index)
        spare = height - len(shown)
        lines: list[Text] = []
        for number, row in enumerate(shown):
            room = width - (len(beside[0]) + 2 if number < len(beside) else 0)
            most = 1 if number < len(beside) else min(_MOST_LINES, 1 + spare)
            parts = self._broken(row, room, most)
            spare -= len(parts) - 1
            lines += parts
        for line, right in zip(lines, beside, strict=False):
            line.truncate(width - len(right) - 2, pad=True)
            line.append_text(Text("  ")).append_text(right)
        return lines

    def _broken(self, row: HeadRow, width: int, most: int) -> list[Text]:
        """A row's text behind its label, over at most so many lines."""
        text = Text()
        for span in row.text:
            text.append(span.text, self.part_style(span.tone))
        indent = _LABEL if row.label else 0
        label = Text(f"{row.label:<{indent}}", self.part_style("label"))
        lines = broken(text, self.app.console, width - indent, most)
        heads = (label, *(Text(" " * indent) for _ in lines[1:]))
        return [Text.assemble(head, line) for head, line in zip(heads, lines, strict=True)]

    def _beside(self) -> list[Text]:
        """What the busiest units take, a bar for each."""
        return [
            Text.assemble(
                (f"{name[:_NAME]:>{_NAME}} ", self.part_style("label")),
                *((text, self.part_style(style)) for text, style in bar(share, _BAR)),
                f" {amount:<{_AMOUNT}}",
            )
            for name, share, amount in self._head.bars
        ]
