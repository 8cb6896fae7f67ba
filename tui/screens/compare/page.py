"""Two kernels side by side: the verdict, what changed, the hot loops' scorecards and code."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widgets import ContentSwitcher, Static
from textual.worker import get_current_worker

from ....inspector.model import KernelReport
from ...pages import Page
from ...widgets.heading import Heading
from ...widgets.keys import Keys
from . import words as words
from .align import Aligned, title
from .both import Compared
from .child import compared_away
from .chooser import Chooser
from .views import SideBySide

_LOW = 30
_VIEWS = ("all", "code", "figures")


class ComparePage(Page):
    """Two kernels; without them it asks which.

    Args:
        left: what there was.
        right: what there is.
    """

    NAME = "compare"
    HELP = (
        "Two kernels side by side: A is what there was, B what there is. Above what changed and "
        "the hot loops' scorecards, the worst first; a ! marks what decides the verdict. Below the "
        "hot loops' code by source line: red stands in A alone, green in B alone, ~ stands at "
        "another place. Registers, labels and offsets do not count as differences. Stretches "
        "without a difference are folded."
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
        Binding("c", "choose", "Choose"),
        Binding("x", "swap", "Swap"),
        Binding("right_square_bracket", "difference(1)", "Next", key_display="]"),
        Binding("left_square_bracket", "difference(-1)", "Previous", key_display="["),
        Binding("v", "view", "View"),
        Binding("Z", "fold_all", "Fold or open all", show=False),
        Binding("d", "figures(3)", "Figures down", show=False),
        Binding("u", "figures(-3)", "Figures up", show=False),
        Binding("o", "open", "Open the kernel at this line", show=False),
    ]

    def __init__(self, left: KernelReport | None = None, right: KernelReport | None = None) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-low"), (_LOW, "-high")]
        self._left = left
        self._right = right
        self._compared: Compared | None = None
        self._view = 0

    def compose(self) -> ComposeResult:
        """The chooser, or what it led to."""
        yield Heading()
        with ContentSwitcher(initial="choose"):
            yield Chooser(id="choose")
            with Container(id="result"):
                yield Static(id="verdict")
                with Horizontal(id="figures"):
                    with VerticalScroll(id="changes", classes="pane"):
                        yield Static(id="changed")
                    with VerticalScroll(id="cards", classes="pane"):
                        yield Static(id="scored")
                yield SideBySide(id="code")
        yield Keys()

    def on_mount(self) -> None:
        """Begins with what was given."""
        if self._left is not None and self._right is not None:
            self._begin(self._left, self._right)
        else:
            self._choose()

    def crumb(self) -> str:
        """Which two."""
        if self._left is None or self._right is None or self._choosing:
            return "choose two kernels"
        left, right = words.short_labels(self._left, self._right)
        return f"{left} → {right}"

    def session_changed(self) -> None:
        """More kernels to choose from."""
        self.query_one(Chooser).show(self.session.ordered())
        self.query_one(Heading).refresh()

    @property
    def _choosing(self) -> bool:
        return self.query_one(ContentSwitcher).current == "choose"

    # ------------------------------------------------------------------ comparing

    def _choose(self) -> None:
        self.query_one(ContentSwitcher).current = "choose"
        chooser = self.query_one(Chooser)
        chooser.show(self.session.ordered())
        chooser.begin(self._left, self._right)
        self._retitle()

    def on_chooser_chosen(self, event: Chooser.Chosen) -> None:
        """Compares what was chosen."""
        self._begin(event.left, event.right)

    def _begin(self, left: KernelReport, right: KernelReport) -> None:
        self._left, self._right = left, right
        self._compared = None
        self.query_one(ContentSwitcher).current = "result"
        self._say("comparing …")
        code = self.query_one(SideBySide)
        code.show(Aligned(()), words.short_labels(left, right))
        code.views[0].focus()
        self._retitle()
        work = partial(self._compare, left, right)
        self.run_worker(work, thread=True, exclusive=True, group="compare", exit_on_error=False)

    def _compare(self, left: KernelReport, right: KernelReport) -> None:
        """In a thread."""
        worker = get_current_worker()
        result = compared_away(left, right, lambda: worker.is_cancelled)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._take, result)

    def _take(self, result: Compared | str) -> None:
        if not self.is_attached:
            return  # the page was left meanwhile
        if isinstance(result, str):
            self._say(f"they cannot be compared: {result}")
            return
        self._compared = result
        labels = words.short_labels(result.pair.left, result.pair.right)
        self.query_one(SideBySide).show(result.code, (f"A  {labels[0]}", f"B  {labels[1]}"))
        self._figures()

    def _say(self, text: str) -> None:
        self.query_one("#verdict", Static).update(Content(text))
        for name in ("#changed", "#scored"):
            self.query_one(name, Static).update(Content(""))

    def _figures(self) -> None:
        """Lays out the texts for the width that there is."""
        if self._compared is None:
            return
        pair, code = self._compared.pair, self._compared.code
        code_title = title(pair) if code.rows else ""
        verdict = words.verdict(pair, code=code_title, short=self.size.height < _LOW)
        self.query_one("#verdict", Static).update(verdict)
        for name, pane, text in (
            ("#changed", "#changes", words.changes),
            ("#scored", "#cards", words.scorecards),
        ):
            width = self.query_one(pane).scrollable_content_region.width
            self.query_one(name, Static).update(text(pair, max(width, 20)))

    def on_resize(self, event: Resize) -> None:
        """Texts are laid out anew, once the panes have their sizes."""
        self.call_after_refresh(self._figures)

    def _retitle(self) -> None:
        self.query_one(Heading).refresh()
        self.refresh_bindings()

    # ------------------------------------------------------------------ keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While kernels are chosen, keys of the comparison are not there."""
        of_result = action in ("swap", "difference", "view", "fold_all", "figures", "open")
        return not (of_result and self.is_mounted and self._choosing)

    def action_choose(self) -> None:
        """Chooses other kernels; from there back to the comparison."""
        if not self._choosing:
            self._choose()
        elif self._left is not None and self._right is not None:
            self.query_one(ContentSwitcher).current = "result"
            self.query_one(SideBySide).views[0].focus()
            self._retitle()

    def action_swap(self) -> None:
        """The other way round."""
        if self._left is not None and self._right is not None:
            self._begin(self._right, self._left)

    def action_difference(self, by: int) -> None:
        """Goes to the next difference of the code, or the one before."""
        number = self.query_one(SideBySide).next_difference(by)
        if number is None and self._compared is not None:
            none = not self._compared.code.differences
            message = "the code does not differ" if none else "no further difference this way"
            self.app.notify(message, timeout=2)

    def action_view(self) -> None:
        """Figures and code, the code alone, the figures alone."""
        self._view = (self._view + 1) % len(_VIEWS)
        mode = _VIEWS[self._view]
        self.query_one("#figures").display = mode != "code"
        code = self.query_one(SideBySide)
        code.display = mode != "figures"
        # What is hidden loses the focus: it goes to what is there.
        if not code.display:
            self.query_one("#changes").focus()
        elif not any(view.has_focus for view in code.views):
            code.views[0].focus()
        self.call_after_refresh(self._figures)

    def action_fold_all(self) -> None:
        """Opens every fold, or closes all."""
        self.query_one(SideBySide).fold_all()

    def action_figures(self, lines: int) -> None:
        """Scrolls the changes and the scorecards."""
        for pane in ("#changes", "#cards"):
            self.query_one(pane).scroll_relative(y=lines, animate=False)

    def action_open(self) -> None:
        """Opens the kernel whose code has the focus, at the line of the cursor."""
        if self._compared is None or self._left is None or self._right is None:
            return
        code = self.query_one(SideBySide)
        on_right = code.views[1].has_focus
        report = self._right if on_right else self._left
        line: int | None = None
        if code.cursor < len(self._compared.code.rows):
            row = self._compared.code.rows[code.cursor]
            side = row.right if on_right else row.left
            line = side.line if side is not None else None
        for entry in self.session.entries.values():
            if entry.report is report:
                self.kinspect.open_kernel(entry.key, line=line)
                return
        self.app.notify("that kernel is no longer open", timeout=2)
