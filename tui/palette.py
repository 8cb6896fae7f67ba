"""The entries of the command palette."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SystemCommand
from textual.screen import Screen

from .page_table import PAGES
from .themes import THEMES

if TYPE_CHECKING:
    from .app import KinspectApp


def palette_commands(app: KinspectApp, screen: Screen[object]) -> Iterator[SystemCommand]:
    """Yields commands for the keys of the page, the other pages, help, export and themes.

    Args:
        app: the application.
        screen: the page.
    """
    for active in screen.active_bindings.values():
        binding = active.binding
        if active.node is not app and active.enabled and len(binding.description) > 1:
            yield SystemCommand(
                binding.description,
                binding.tooltip or f"this page's key {app.get_key_display(binding)}",
                partial(app.run_action, binding.action, active.node),
            )
    for name, spec in PAGES.items():
        if spec.key:
            yield SystemCommand(f"Go to {spec.title}", spec.about, partial(app.action_page, name))
    yield SystemCommand("Help", "What the keys of this page do", app.action_help)
    yield SystemCommand("Export", "The screen or the report, to a file", app.action_export)
    for theme in THEMES:
        yield SystemCommand(
            f"Theme: {theme.name}", "Colours", partial(setattr, app, "theme", theme.name)
        )
    yield SystemCommand("Quit", "Leave kinspect", app.action_leave)
