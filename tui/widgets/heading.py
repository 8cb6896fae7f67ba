"""The line at the top of every page: where one is, and how far the run is."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import RenderResult
from textual.widget import Widget

from ..page_table import PAGES
from ..pages import Page
from .styles import part_style


class Heading(Widget):
    """Pages by number, the present one marked; its crumb; the run's progress on the right."""

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
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "heading--here",
        "heading--other",
        "heading--failed",
    }

    def on_mount(self) -> None:
        """Progress and crumb change without anyone telling."""
        self.set_interval(0.2, self._tick)
        self._shown = ""

    def _tick(self) -> None:
        page = self.screen
        text = f"{page.crumb() if isinstance(page, Page) else ''}  {self._progress()}"
        if text != self._shown:
            self._shown = text
            self.refresh()

    def render(self) -> RenderResult:
        """The line, cut to the width."""
        page = self.screen
        current = page.NAME if isinstance(page, Page) else ""
        width = self.size.width
        bold, faint = self._style("here"), self._style("other")
        current_spec = PAGES.get(current)
        left = Text(no_wrap=True)
        left.append(f" {current_spec.title if current_spec is not None else 'kinspect'}", bold)
        crumb = page.crumb() if isinstance(page, Page) else ""
        if crumb:
            left.append(f"  {crumb}")
        progress = self._progress()
        pages = Text(no_wrap=True)
        for name, spec in PAGES.items():
            if spec.key:
                pages.append(f"  {spec.key}", faint)
                pages.append(f" {spec.title}", bold if name == current else faint)
        if left.cell_len + pages.cell_len + progress.cell_len + 4 <= width:
            progress = Text.assemble(pages, "  ", progress)
        room = max(0, width - progress.cell_len)
        left.truncate(room, overflow="ellipsis", pad=True)
        return Text.assemble(left, progress)

    def _style(self, name: str) -> Style:
        return part_style(self, f"heading--{name}")

    def _progress(self) -> Text:
        """How far the run is, and what failed."""
        page = self.screen
        text = Text(no_wrap=True)
        if not isinstance(page, Page):
            return text
        progress = page.session.progress
        failed = len(page.session.errors)
        if progress.running and not (progress.done or progress.expected):
            text.append("starting … ")
        elif progress.running:
            most = f"/{progress.expected}" if progress.expected else ""
            text.append(f"{progress.done}{most} … ")
        if failed:
            text.append(f"{failed} failed ", self._style("failed"))
        return text
