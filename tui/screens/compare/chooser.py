"""Chooses the two kernels that are compared, among those of the session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, Static

from ....inspector.compare.diff.results import label_of
from ....inspector.explain import view
from ....inspector.model import KernelReport
from ...session import Entry
from ...widgets.code import Text
from ...widgets.filtering import FilterLine, RowList
from .words import differing

_FIGURES = (
    # heading, metric
    ("VGPRs", "vgpr_count"),
    ("LDS B", "lds_bytes"),
    ("waves/EU", "occupancy.waves_per_eu"),
    ("hot instr.", "count.instructions"),
)
_MOST_KERNEL, _MOST_WHERE = 44, 30


class Chooser(Vertical):
    """A list of kernels; enter takes the left side first, then the right."""

    DEFAULT_CSS = """
    Chooser { height: 1fr; }
    Chooser #asked { height: auto; padding: 0 1; }
    Chooser #titles { height: 1; color: $foreground 60%; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("a", "take('left')", "As A"),
        Binding("b", "take('right')", "As B"),
    ]

    class Chosen(Message):
        """Both sides are there."""

        def __init__(self, left: KernelReport, right: KernelReport) -> None:
            super().__init__()
            self.left = left
            self.right = right

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._every: Sequence[Entry] = ()
        self._kept: list[Entry] = []
        self._words = ""
        self._sides: dict[str, KernelReport | None] = {"left": None, "right": None}

    def compose(self) -> ComposeResult:
        """What is asked, the filter, the list."""
        yield Static(id="asked", markup=False)
        yield FilterLine("words: kernel, case, target, file", id="choose-filter")
        yield Static(id="titles", markup=False)
        yield RowList(id="choices")

    def begin(self, left: KernelReport | None, right: KernelReport | None) -> None:
        """Marks what is chosen already and takes the keys."""
        self._sides = {"left": left, "right": right}
        self.show(self._every)
        self.query_one(RowList).focus()

    def show(self, entries: Sequence[Entry]) -> None:
        """Shows the session's kernels; the cursor stays with its kernel."""
        rows = self.query_one(RowList)
        current_key = self._kept[rows.cursor].key if rows.cursor < len(self._kept) else None
        self._every = entries
        words = self._words.lower().split()
        self._kept = [e for e in entries if all(word in _searched(e) for word in words)]
        cells = [self._cells(entry) for entry in self._kept]
        titles = ("", "kernel", "target", "where", *(title for title, _ in _FIGURES), "")
        widths = [
            max(len(titles[n]), *(len(row[n]) for row in cells), 0) if cells else len(titles[n])
            for n in range(len(titles))
        ]
        widths[0] = 2  # A, B or both
        self.query_one("#titles", Static).update(_line(titles, widths))
        lines = [_line(row, widths) for row in cells]
        at = next((n for n, entry in enumerate(self._kept) if entry.key == current_key), 0)
        start = widths[0] + 2
        spans = ((0, widths[0], "label"), (start, start + widths[1], "name"))
        rows.show(Text(lines, lambda line: spans), at)
        self.query_one("#asked", Static).update(self._prompt())

    def _prompt(self) -> str:
        if len(self._every) < 2:
            if not self._every:
                return "no kernel is open yet"
            return "one kernel alone is open: name a second target, or compile it in another way"
        side = "right (B): what there is now"
        if self._sides["left"] is None or self._sides["right"] is not None:
            side = "left (A): what there was"
        few = len(self._kept) < len(self._every)
        filtered = f"   {len(self._kept)} of {len(self._every)} kernels" if few else ""
        return f"enter chooses the {side}{filtered}"

    def _cells(self, entry: Entry) -> tuple[str, ...]:
        report = entry.report
        marks = "".join(
            mark for mark, side in (("A", "left"), ("B", "right")) if self._sides[side] is report
        )
        where = view.place(report.source) or view.file_name(view.path_of(report))
        figures = [_figure(entry.metric(name)) for _, name in _FIGURES]
        left = self._sides["left"]
        apart = differing(left, report) if left is not None and left.name == report.name else []
        settings = ", ".join(f"{name} {a} → {b}" for name, a, b in apart)
        kernel = label_of(report)
        return (
            marks,
            _cut(kernel, _MOST_KERNEL),
            report.arch or "-",
            _cut(where, _MOST_WHERE),
            *figures,
            settings,
        )

    # ------------------------------------------------------------------ choosing

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        """The left side first, then the right."""
        event.stop()
        first = self._sides["left"] is None or self._sides["right"] is not None
        if first:
            self._sides["right"] = None
        self.action_take("left" if first else "right")

    def action_take(self, side: str) -> None:
        """Takes the kernel under the cursor for a side."""
        line = self.query_one(RowList).cursor
        if line >= len(self._kept):
            return
        self._sides[side] = self._kept[line].report
        self.show(self._every)
        left, right = self._sides["left"], self._sides["right"]
        if left is not None and right is not None:
            self.post_message(self.Chosen(left, right))

    def action_filter(self) -> None:
        """Asks for words."""
        self.query_one(FilterLine).ask()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filters while it is typed."""
        event.stop()
        self._words = event.value.strip()
        self.show(self._every)

    def on_filter_line_left(self, event: FilterLine.Left) -> None:
        """Back to the list."""
        event.stop()
        self.query_one(RowList).focus()


def _searched(entry: Entry) -> str:
    report = entry.report
    return f"{label_of(report)} {report.arch or ''} {report.id} {view.place(report.source)}".lower()


def _figure(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else "-"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Texts to the left, figures to the right."""
    padded = [
        cell.rjust(width) if 4 <= n < 4 + len(_FIGURES) else cell.ljust(width)
        for n, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
