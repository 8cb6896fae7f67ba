"""Texts broken over the rows that there are."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text


def broken(text: Text, console: Console, width: int, most: int) -> list[Text]:
    """A text over at most so many lines, with an ellipsis in place of what is left out."""
    lines = list(text.wrap(console, max(1, width), no_wrap=False))
    for line in lines:
        line.rstrip()
    if len(lines) > most:
        rest = Text(" ").join(lines[most - 1 :])
        rest.truncate(width, overflow="ellipsis")
        lines[most - 1 :] = [rest]
    return lines
