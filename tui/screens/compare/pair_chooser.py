"""The list in which the user chooses the two kernels to compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, Static

from ....inspector.compare.diff.diff_results import label_of
from ....inspector.explain import view
from ....inspector.model import KernelReport
from ...key_table import bind
from ...session import SessionKernel
from ...widgets.bars import Piece
from ...widgets.code import cut, word_filter
from ...widgets.filter_line import FilterLine
from ...widgets.table import Table
from .compare_figures import differing

_FIGURES = (
    # heading, metric
    ("VGPRs", "vgpr_count"),
    ("LDS B", "lds_bytes"),
    ("waves/SIMD", "occupancy.waves_per_eu"),
    ("hot instr.", "count.instructions"),
)
_PLACE_WIDTH = 30


class Chooser(Vertical):
    """A list of the session's kernels; enter chooses the left side first, then the right."""

    DEFAULT_CSS = """
    Chooser { height: 1fr; }
    Chooser #prompt { height: auto; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("search", "screen.filter", "Filter"),
        bind("first_of_two", "take('left')", "As A"),
        bind("second_of_two", "take('right')", "As B"),
    ]

    class Chosen(Message):
        """Both sides have been chosen."""

        def __init__(self, left: KernelReport, right: KernelReport) -> None:
            super().__init__()
            self.left = left
            self.right = right

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._entries: Sequence[SessionKernel] = ()
        self._filtered: list[SessionKernel] = []
        self._filter_text = ""
        self._sides: dict[str, KernelReport | None] = {"left": None, "right": None}

    def compose(self) -> ComposeResult:
        yield Static(id="prompt", markup=False)
        yield FilterLine("words: kernel, case, target, file", "#choices", id="filter")
        yield Table(id="choices")

    def begin(self, left: KernelReport | None, right: KernelReport | None) -> None:
        """Marks the chosen kernels and focuses the list."""
        self._sides = {"left": left, "right": right}
        self.show(self._entries)
        self.query_one(Table).focus()

    def show(self, entries: Sequence[SessionKernel]) -> None:
        """Shows the kernels that pass the filter; the cursor stays with its kernel."""
        table = self.query_one(Table)
        current = self._filtered[table.cursor].key if table.cursor < len(self._filtered) else None
        self._entries = entries
        has_words = word_filter(self._filter_text)
        self._filtered = [entry for entry in entries if has_words(_searched(entry))]
        titles = ("     kernel", "target", "where", *(title for title, _ in _FIGURES), "settings")
        cursor = next((n for n, entry in enumerate(self._filtered) if entry.key == current), 0)
        table.show_texts(titles, [self._cells(entry) for entry in self._filtered], cursor=cursor)
        self.query_one("#prompt", Static).update(self._prompt())

    def _prompt(self) -> str:
        if len(self._entries) < 2:
            if not self._entries:
                return "no kernel is open yet"
            return "one kernel alone is open: name a second target, or compile it in another way"
        side = "right (B): what there is now"
        if self._next_side == "left":
            side = "left (A): what there was"
        is_filtered = len(self._filtered) < len(self._entries)
        filtered = (
            f"   {len(self._filtered)} of {len(self._entries)} kernels" if is_filtered else ""
        )
        return f"enter chooses the {side}{filtered}"

    def _cells(self, entry: SessionKernel) -> tuple[tuple[Piece, ...], tuple[str, ...]]:
        """A kernel's row: sides, name, target, place, figures, differences from the left side."""
        report, left = entry.report, self._sides["left"]
        marks = "".join(
            mark for mark, side in (("A", "left"), ("B", "right")) if self._sides[side] is report
        )
        location = view.place(report.source) or view.file_name(view.path_of(report))
        differences = (
            differing(left, report) if left is not None and left.name == report.name else []
        )
        return (
            ((f" {marks:<2}  ", "group"), (label_of(report), "name")),
            (
                report.arch or "-",
                cut(location, _PLACE_WIDTH),
                *(_figure(entry.metric(name)) for _, name in _FIGURES),
                ", ".join(f"{name} {a} → {b}" for name, a, b in differences),
            ),
        )

    def on_table_opened(self, event: Table.Opened) -> None:
        """Chooses the kernel for the next side; a new left side clears the right one."""
        event.stop()
        side = self._next_side
        if side == "left":
            self._sides["right"] = None
        self.action_take(side)

    @property
    def _next_side(self) -> str:
        """The side that enter chooses: the left one first, and again once both are chosen."""
        only_left = self._sides["left"] is not None and self._sides["right"] is None
        return "right" if only_left else "left"

    def action_take(self, side: str) -> None:
        """Chooses the kernel under the cursor for a side, `left` or `right`."""
        line = self.query_one(Table).cursor
        if line >= len(self._filtered):
            return
        self._sides[side] = self._filtered[line].report
        self.show(self._entries)
        left, right = self._sides["left"], self._sides["right"]
        if left is not None and right is not None:
            self.post_message(self.Chosen(left, right))

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._filter_text = event.value.strip()
        self.show(self._entries)


def _searched(entry: SessionKernel) -> str:
    report = entry.report
    return f"{label_of(report)} {report.arch or ''} {report.id} {view.place(report.source)}"


def _figure(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else "-"
