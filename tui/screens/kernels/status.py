"""The status line above the kernels' table."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from ....inspector.capture.targets import SUFFIXES
from ....inspector.explain.view import plural
from ...session import Session
from ...widgets.bars import bar
from ...widgets.styles import PartedWidget
from .listing import Listing

_MAX_BAR_CELLS = 20
_COMPILED = frozenset({"script", "inductor", "ttir", "trace"})
"""Kinds of targets that are compiled; others are read."""


class Status(PartedWidget):
    """Shows the progress of the run, the number of rows, the filter and the order."""

    PREFIX = "status"
    DEFAULT_CSS = """
    Status { height: 1; padding: 0 1; color: $foreground 70%; }
    Status > .status--bar { color: $primary; }
    Status > .status--track { color: $foreground 25%; }
    Status > .status--bad { color: $error; text-style: bold; }
    Status > .status--filter { color: $accent; }
    Status > .status--mark { color: $secondary; }
    """

    def __init__(self, session: Session, listing: Listing, *, watching: bool) -> None:
        super().__init__()
        self._session = session
        self._listing = listing
        self._watching = watching

    def render(self) -> Text:
        width = self.content_size.width
        right = self._right()
        left = self._run(width) if self._session.progress.running else self._counts()
        left.truncate(max(0, width - right.cell_len - 1), overflow="ellipsis", pad=True)
        line = Text.assemble(left, " ", right)
        line.truncate(width, overflow="ellipsis")
        return line

    def _run(self, width: int) -> Text:
        """The left half during a run: its progress."""
        progress, stage = self._session.progress, first_stage(self._session)
        line = Text(no_wrap=True)
        if progress.expected:
            share = min(1.0, progress.done / progress.expected)
            for cells, name in bar(share, min(_MAX_BAR_CELLS, max(4, width // 8))):
                line.append(cells, self.part_style(name))
            line.append(" ")
        reported = max(0, progress.done - len(self._session.errors))
        if self._session.total_known:
            line.append(f"{reported:,} of {progress.expected:,} done")
        else:
            so_far = max(progress.expected, progress.compiled, reported)
            line.append(f"{stage} … {so_far:,} so far · {reported:,} done")
        if progress.compiled:
            line.append(f" · compiled {progress.compiled:,}")
        self._add_failed(line)
        return line

    def _counts(self) -> Text:
        """The left half after a run: the numbers of kernels, configurations and failures."""
        line, listing = Text(no_wrap=True), self._listing
        total = len(listing.leaves)
        variants = total - len(self._session.errors)
        if listing.filter_text:
            line.append(f"{listing.shown:,} of {total:,}")
        else:
            line.append(plural(listing.kernels, "kernel"))
            if variants > listing.kernels:
                line.append(f" · {plural(variants, 'specialisation')}")
        self._add_failed(line)
        removed = sum(bool(leaf.removed) for leaf in listing.leaves)
        if removed:
            line.append(f" · {removed:,} of a removed file", self.part_style("mark"))
        if old := sum(leaf.left_over and not leaf.removed for leaf in listing.leaves):
            line.append(f" · {old:,} old, of a run before", self.part_style("mark"))
        if self._session.progress.interrupted:
            line.append(" · interrupted")
        if self._watching:
            line.append(f" · run {self._session.runs}, watching for saves")
        return line

    def _add_failed(self, line: Text) -> None:
        if failures := len(self._session.errors):
            line.append(" · ")
            line.append(f"{failures:,} failed", self.part_style("bad"))

    def _right(self) -> Text:
        line, listing = Text(no_wrap=True), self._listing
        if listing.filter_error:
            line.append(f"{listing.filter_error}  ", self.part_style("bad"))
        elif listing.filter_text:
            line.append(f"/{listing.filter_text}  ", self.part_style("filter"))
        if marked := sum(key in self._session.entries for key in listing.marked):
            line.append(f"{marked} marked  ", self.part_style("mark"))
        line.append(f"by {listing.sort_title}")
        return line


def first_stage(session: Session) -> str:
    """What a run does with its targets at first: "reading" or "capturing"."""
    request = session.request
    names = [text.partition("::")[0] for text in request.targets] if request else []
    kinds = {SUFFIXES.get(Path(name).suffix, "script") for name in names}
    return "reading" if names and not kinds & _COMPILED else "capturing"
