"""The page that compares two kernels: verdict, changes, the hot loops' scorecards and code.

The two kernels are chosen in a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.events import Resize
from textual.message import Message
from textual.widgets import ContentSwitcher, Input, Static
from textual.worker import get_current_worker

from ....inspector.base.long_names import shortened
from ....inspector.compare.diff.diff_results import label_of
from ....inspector.explain import view
from ....inspector.model import KernelReport
from ...key_table import bind
from ...pages import Page
from ...session import SessionKernel
from ...widgets.bars import BETTER, WORSE, Piece
from ...widgets.code import word_filter
from ...widgets.document_text import content
from ...widgets.filter_line import FilterLine
from ...widgets.find import FindLine
from ...widgets.table import Table
from .compare_figures import changes, differing, scorecards, short_labels, verdict
from .comparison import Aligned, KernelComparison, compared_in_child, instruction_tally
from .side_by_side import SideBySide

_LOW_SCREEN = 30
_OF_RESULT = frozenset(
    {"swap", "match", "search", "difference", "view", "fold_all", "figures", "open"}
)
_VIEWS = ("all", "code", "figures")


class ComparePage(Page):
    """Compares two kernels; without them the page starts with the chooser."""

    NAME = "compare"
    LEGEND = (
        ("A B", "what there was, what there is"),
        (f"{BETTER} {WORSE}", "better, worse; by time where both times are known"),
        ("!", "it decides the verdict"),
        ("- +", "only A has the instruction, only B has it"),
        ("~", "both have it, at another place"),
        ("per …", "what one figure counts; registers and labels do not count as differences"),
    )
    DEFAULT_CSS = """
    ComparePage ContentSwitcher { height: 1fr; }
    ComparePage #result { height: 1fr; layout: vertical; }
    ComparePage #verdict { height: auto; max-height: 8; padding: 0 1; }
    ComparePage #figures { height: 2fr; border-top: solid $panel; }
    ComparePage #code { height: 3fr; }
    ComparePage .pane {
        height: 100%; padding: 0 1; scrollbar-size: 1 1; scrollbar-gutter: stable;
    }
    ComparePage #changes { width: 1fr; }
    ComparePage #cards { width: 1fr; border-left: solid $panel; }
    ComparePage.-wide #changes { width: 3fr; }
    ComparePage.-wide #cards { width: 2fr; }
    ComparePage.-low #verdict { max-height: 4; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("compare", "choose", "Choose"),
        bind("swap", "swap", "Swap"),
        bind("next", "match(1)", "Next"),
        bind("previous", "match(-1)", "Previous", show=False),
        bind("next_part", "difference(1)", "Next difference", show=False),
        bind("previous_part", "difference(-1)", "Previous difference", show=False),
        bind("search", "search", "Search"),
        bind("view", "view", "View"),
        bind("fold_all", "fold_all", "Fold or open all", show=False),
        bind("beside_down", "figures(3)", "Figures down", show=False),
        bind("beside_up", "figures(-3)", "Figures up", show=False),
        bind("code", "open", "Open the kernel at this line", show=False),
    ]

    def __init__(self, left: KernelReport | None = None, right: KernelReport | None = None) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-low"), (_LOW_SCREEN, "-high")]
        self._left = left
        self._right = right
        self._comparison: KernelComparison | None = None
        self._view = 0

    def content(self) -> ComposeResult:
        with ContentSwitcher(initial="choose"):
            yield Chooser(id="choose")
            with Container(id="result"):
                yield Static(id="verdict", markup=False)
                with Horizontal(id="figures"):
                    with VerticalScroll(id="changes", classes="pane"):
                        yield Static(id="changed", markup=False)
                    with VerticalScroll(id="cards", classes="pane"):
                        yield Static(id="scored", markup=False)
                yield SideBySide(id="code")
                yield FindLine(lambda: self.query_one(SideBySide).views, id="find")

    def on_mount(self) -> None:
        """Compares the page's kernels, or else those compared last; or shows the chooser."""
        if self._left is None and self.kinspect.compared is not None:
            self._left, self._right = self.kinspect.compared
        if self._left is not None and self._right is not None:
            self._start_comparison(self._left, self._right)
        else:
            self._show_chooser()

    def crumb(self) -> str:
        if self._left is None or self._right is None or self._choosing:
            return "choose two kernels"
        left, right = short_labels(self._left, self._right)
        return f"{left} → {right}"

    def session_changed(self) -> None:
        self.query_one(Chooser).show(self.session.ordered())

    @property
    def _choosing(self) -> bool:
        return self.query_one(ContentSwitcher).current == "choose"

    def _show_chooser(self) -> None:
        self.query_one(ContentSwitcher).current = "choose"
        chooser = self.query_one(Chooser)
        chooser.show(self.session.ordered())
        chooser.begin(self._left, self._right)
        self.refresh_bindings()

    def on_chooser_chosen(self, event: Chooser.Chosen) -> None:
        self._start_comparison(event.left, event.right)

    def _start_comparison(self, left: KernelReport, right: KernelReport) -> None:
        self._left, self._right = self.kinspect.compared = left, right
        self._comparison = None
        self.query_one(ContentSwitcher).current = "result"
        self._show_message("comparing …")
        code = self.query_one(SideBySide)
        code.show(Aligned(()), short_labels(left, right))
        code.views[0].focus()
        self.refresh_bindings()
        read = partial(_compared, left, right)
        self.in_thread("compare", read, self._show_result, self.kinspect.notify_error)

    def _show_result(self, result: KernelComparison | str) -> None:
        if isinstance(result, str):
            self._show_message(f"they cannot be compared: {result}")
            return
        self._comparison = result
        labels = short_labels(result.pair.left, result.pair.right)
        self.query_one(SideBySide).show(result.code, (f"A  {labels[0]}", f"B  {labels[1]}"))
        self._lay_out_figures()

    def _show_message(self, text: str) -> None:
        self.query_one("#verdict", Static).update(text)
        for name in ("#changed", "#scored"):
            self.query_one(name, Static).update("")

    def _lay_out_figures(self) -> None:
        """Lays out verdict, changes and scorecards for the panes' widths."""
        if self._comparison is None:
            return
        pair, code = self._comparison.pair, self._comparison.code
        tally = instruction_tally(pair) if code.rows else ""
        head = verdict(pair, code=tally, short=self.size.height < _LOW_SCREEN)
        self.query_one("#verdict", Static).update(head)
        for name, pane, text in (
            ("#changed", "#changes", changes),
            ("#scored", "#cards", scorecards),
        ):
            width = self.query_one(pane).scrollable_content_region.width
            self.query_one(name, Static).update(content(text(pair), width))

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._lay_out_figures)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        of_result = action in _OF_RESULT
        return not (of_result and self.is_mounted and self._choosing)

    def action_choose(self) -> None:
        """Shows the chooser; in the chooser, returns to the comparison."""
        if not self._choosing:
            self._show_chooser()
        elif self._left is not None and self._right is not None:
            self.query_one(ContentSwitcher).current = "result"
            self.query_one(SideBySide).views[0].focus()
            self.refresh_bindings()

    def action_swap(self) -> None:
        if self._left is not None and self._right is not None:
            self._start_comparison(self._right, self._left)

    def action_search(self) -> None:
        """Asks for words to look for in both kernels' code."""
        if self.query_one(SideBySide).display:
            self.query_one(FindLine).ask()

    def action_match(self, direction: int) -> None:
        """Goes to the next match of the search, without one to the next difference."""
        self.query_one(FindLine).step_or(direction, self.action_difference)

    def close_top(self) -> bool:
        """Drops the search or filter; else goes back from the chooser to the comparison."""
        if super().close_top():
            return True
        chose = self._choosing and self._left is not None and self._right is not None
        if chose:
            self.action_choose()
        return chose

    def action_difference(self, direction: int) -> None:
        """Goes to the next (1) or previous (-1) difference of the code."""
        number = self.query_one(SideBySide).next_difference(direction)
        if number is None and self._comparison is not None:
            none = not self._comparison.code.differences
            message = "the code does not differ" if none else "no further difference this way"
            self.app.notify(message, timeout=2)

    def action_view(self) -> None:
        """Shows the next of: figures and code, only code, only figures."""
        self._view = (self._view + 1) % len(_VIEWS)
        mode = _VIEWS[self._view]
        self.query_one("#figures").display = mode != "code"
        code = self.query_one(SideBySide)
        code.display = mode != "figures"
        # A widget that is hidden must not keep the focus.
        if not code.display:
            self.query_one("#changes").focus()
        elif not any(view.has_focus for view in code.views):
            code.views[0].focus()
        self.call_after_refresh(self._lay_out_figures)

    def action_fold_all(self) -> None:
        self.query_one(SideBySide).fold_all()

    def action_figures(self, lines: int) -> None:
        for pane in ("#changes", "#cards"):
            self.query_one(pane).scroll_relative(y=lines, animate=False)

    def action_open(self) -> None:
        """Opens the kernel whose code has the focus, at the line of the cursor."""
        if self._comparison is None or self._left is None or self._right is None:
            return
        code = self.query_one(SideBySide)
        on_right = code.views[1].has_focus
        report = self._right if on_right else self._left
        line: int | None = None
        if code.cursor < len(self._comparison.code.rows):
            row = self._comparison.code.rows[code.cursor]
            cell = row.right if on_right else row.left
            line = cell.line if cell is not None else None
        for entry in self.session.entries.values():
            if entry.report is report:
                self.kinspect.open_kernel(entry.key, line=line)
                return
        self.app.notify("that kernel is no longer open", timeout=2)


def _compared(left: KernelReport, right: KernelReport) -> KernelComparison | str:
    """The comparison, or why there is none; in a worker's thread, until that is cancelled."""
    worker = get_current_worker()
    return compared_in_child(left, right, lambda: worker.is_cancelled)


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
        location = view.place(report.source) or view.file_name(report.file)
        differences = (
            differing(left, report) if left is not None and left.name == report.name else []
        )
        return (
            ((f" {marks:<2}  ", "group"), (label_of(report), "name")),
            (
                report.arch or "-",
                shortened(location, _PLACE_WIDTH),
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
