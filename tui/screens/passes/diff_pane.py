"""The pane beside the list of passes: the diff of one or several, or the module before one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.timer import Timer
from textual.widgets import Static

from ....inspector.base.errors import KinspectError
from ...widgets.code import Text
from ...widgets.find import FindLine
from .diff_view import DiffView, TextCache, diff_text, hunks_without, lines_of_event, plain
from .dump_reading import CHILD_BYTES, PassText, Span
from .pass_timeline import NO_RESULT, Timeline, diff_title

_NUMBERED_COLUMNS = 72  # a diff at least this wide has line numbers
_PAUSE_S = 0.06  # seconds that the cursor must rest before a diff is computed
_LONG_PAUSE_S = 0.3  # the same for big dumps, whose diffs are computed in a process of their own


class DiffPane(Vertical):
    """A title, the diff or the module, and the line of its search.

    Args:
        compute: called with the states whose text is needed; `take` gets the result.
    """

    def __init__(self, compute: Callable[[Span], None], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._compute = compute
        self._timeline: Timeline | None = None
        self._index = 0
        self._mark: int | None = None
        self._shows_module = False
        self._texts = TextCache()
        self._drawn: object = None  # identifies the text that is shown
        self._pause_timer: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield DiffView()
        yield FindLine(lambda: (self.query_one(DiffView),), id="find")

    def clear(self) -> None:
        """Shows nothing, and forgets the texts."""
        self._timeline, self._drawn = None, None
        self._texts.clear()
        self.query_one("#title", Static).update("", layout=False)
        self.query_one(DiffView).show(plain(), 0)

    def show(self, timeline: Timeline, index: int, mark: int | None, *, module: bool) -> None:
        """Shows a text; computes it first if it is not cached."""
        self._timeline, self._index, self._mark, self._shows_module = timeline, index, mark, module
        title = diff_title(timeline, index, mark, module=module)
        span = self._span
        if span is None:
            self._draw(title, "last", lambda: plain(*NO_RESULT))
        elif span in self._texts:
            text = self._texts[span]
            if module:
                self._draw(title, span, lambda: plain(*text.splitlines()))
            else:
                numbers = self.query_one(DiffView).size.width >= _NUMBERED_COLUMNS
                event = timeline.events.get(index) if mark is None else None
                marked = lines_of_event(text, event) if event is not None else []
                draw = partial(diff_text, text, numbers, marked)
                self._draw(title, (span, numbers, event is not None), draw, marked)
        elif not module and mark is None and timeline.passes[index].changed is False:
            self._draw(title, "same", lambda: diff_text("", False))
        elif self._draw(title, ("wait", span), lambda: plain("working it out …")):
            self._compute_after_pause(timeline)

    def take(self, span: Span, result: PassText | KinspectError) -> None:
        """Takes a text that was computed, or why there is none; shows it where it is looked at."""
        if isinstance(result, KinspectError):
            if span == self._span and self._timeline is not None:
                reason, module = result, self._shows_module
                title = diff_title(self._timeline, self._index, self._mark, module=module)
                self._draw(title, ("error", span), lambda: plain(reason.message, reason.hint))
            return
        self._texts.add(span, result.text)
        if span == self._span and self._timeline is not None:
            self.show(self._timeline, self._index, self._mark, module=self._shows_module)

    @property
    def _span(self) -> Span | None:
        """The states whose text is shown; None for the last pass, whose result is not known."""
        if self._timeline is None:
            return None
        if self._shows_module:
            return self._index, self._index
        return self._timeline.span(self._index, self._mark)

    def _compute_after_pause(self, timeline: Timeline) -> None:
        """Computes the text once the cursor rests: no diff of a pass that it only goes by."""
        if self._pause_timer is not None:
            self._pause_timer.stop()
        is_large = sum(compiler_pass.size for compiler_pass in timeline.passes) >= CHILD_BYTES
        pause = _LONG_PAUSE_S if is_large else _PAUSE_S
        self._pause_timer = self.set_timer(pause, self._compute_text)

    def _compute_text(self) -> None:
        """Computes the text of the pass under the cursor, which may have moved meanwhile."""
        span = self._span
        if span is not None and span not in self._texts:
            self._compute(span)

    def _draw(
        self, title: str, content_key: object, text: Callable[[], Text], marked: Sequence[int] = ()
    ) -> bool:
        """Shows a text unless it is already shown, so that its cursor stays."""
        self.query_one("#title", Static).update(title, layout=False)
        if self._drawn == content_key:
            return False
        self._drawn = content_key
        shown = text()
        folded = hunks_without(shown, marked)
        self.query_one(DiffView).show(shown, marked[0] if marked else 0, folded=folded)
        self.query_one(FindLine).mark()
        return True
