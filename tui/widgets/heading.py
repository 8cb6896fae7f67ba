"""The line at the top of every page: the page, the other pages, the run's progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rich.text import Text
from textual.app import RenderResult

from ..page_table import PAGES
from .styles import PartedWidget

if TYPE_CHECKING:
    from ..pages import Page


class Heading(PartedWidget):
    """Shows the page's title and crumb, the pages' digits and, on the right, the progress."""

    PREFIX = "heading"
    DEFAULT_CSS = """
    Heading {
        dock: top;
        height: 1;
        background: $panel;
        color: $foreground;
    }
    Heading > .heading--here { text-style: bold; }
    Heading > .heading--other { color: $foreground 65%; }
    Heading > .heading--failed { color: $error; text-style: bold; }
    """

    def on_mount(self) -> None:
        """Follows the page, whose crumb changes with what it draws."""
        self._shown = ""
        self._page.drawn_signal.subscribe(self, self._update, immediate=True)

    @property
    def _page(self) -> Page:
        return cast("Page", self.screen)

    def _update(self, page: Page) -> None:
        text = f"{page.crumb()}  {self._progress()}"
        if text != self._shown:
            self._shown = text
            self.refresh()

    def render(self) -> RenderResult:
        """The line, cut to the widget's width."""
        current = self._page.NAME
        width = self.size.width
        current_style, other_style = self.part_style("here"), self.part_style("other")
        title = PAGES[current].title if current in PAGES else "kinspect"
        left = Text(no_wrap=True).append(f" {title}", current_style)
        crumb = self._page.crumb()
        if crumb:
            left.append(f"  {crumb}")
        progress = self._progress()
        pages = Text(no_wrap=True)
        for name, spec in PAGES.items():
            if spec.key:
                pages.append(f"  {spec.key}", other_style)
                pages.append(f" {spec.title}", current_style if name == current else other_style)
        if left.cell_len + pages.cell_len + progress.cell_len + 4 <= width:
            progress = Text.assemble(pages, "  ", progress)
        room = max(0, width - progress.cell_len)
        left.truncate(room, overflow="ellipsis", pad=True)
        return Text.assemble(left, progress)

    def _progress(self) -> Text:
        """The numbers of reported, expected and failed kernels; empty without any."""
        text, session = Text(no_wrap=True), self._page.session
        progress, failed = session.progress, len(session.errors)
        if progress.running and not (progress.done or progress.expected):
            text.append("starting … ")
        elif progress.running:
            total = f"/{progress.expected}" if progress.expected else ""
            text.append(f"{progress.done}{total} … ")
        if failed:
            text.append(f"{failed} failed ", self.part_style("failed"))
        return text
