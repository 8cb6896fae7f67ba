"""Texts in Markdown that show as they are: no HTML, no image or link, nobody called, no command."""

from __future__ import annotations

import re

from ..printable import printable_line

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"}
_ACTIVE = re.compile(r"[&<>@]|(?<=\])\(|(?<=!)\[")
_TICKS = re.compile("`+")


def inline(text: str) -> str:
    """A sentence in which only code between backticks is markup."""
    pieces = printable_line(text).split("`")
    if len(pieces) % 2 == 0:  # one of them has no other
        return _inert("\\`".join(pieces))
    return "`".join(piece if n % 2 else _inert(piece) for n, piece in enumerate(pieces))


def code(text: str) -> str:
    """A name as code, whatever it holds."""
    line = printable_line(text)
    runs = _TICKS.findall(line)
    if not runs:
        return f"`{line}`"
    fence = "`" * (max(map(len, runs)) + 1)
    return f"{fence} {line} {fence}"


def cell(text: str) -> str:
    """The same for a cell of a table, which a bar would end: in code too."""
    return text.replace("|", "\\|").replace("\n", " ")


def _inert(text: str) -> str:
    return _ACTIVE.sub(lambda match: _ENTITIES.get(match[0], f"\\{match[0]}"), text)
