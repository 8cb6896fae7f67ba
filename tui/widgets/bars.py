"""Bars of text, which show a share in cells that can be read without colour."""

from __future__ import annotations

_LEVELS = "▁▂▃▄▅▆▇"
BETTER, WORSE = "✓", "✗"
"""Marks of a figure that changed, so that nobody needs the colour."""
FULL, EMPTY = _LEVELS[-1], _LEVELS[0]

Piece = tuple[str, str]
"""A text and the name of its style."""


def bar(share: float | None, width: int, style: str = "bar") -> tuple[Piece, ...]:
    """A bar for a share; a fraction of a cell is shown by the height of its block.

    Args:
        share: from 0 to 1; None, if it is unknown, gives blanks.
        width: of the bar, in cells.
        style: of the filled part.
    """
    if share is None or width < 1:
        return ((" " * max(0, width), ""),)
    cells = max(0.0, min(1.0, share)) * width
    full = int(cells + 1e-9)
    part = cells - full
    text = FULL * full
    if part > 1e-6 and full < width:
        text += _LEVELS[max(1, min(len(_LEVELS) - 2, round(part * (len(_LEVELS) - 1))))]
    return tuple(
        piece for piece in ((text, style), (EMPTY * (width - len(text)), "track")) if piece[0]
    )
