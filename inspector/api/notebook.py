"""Results of the Python interface as a notebook shows them."""

from __future__ import annotations

import html

_TEXT = '<pre style="white-space:pre;overflow-x:auto">{text}</pre>'


def preformatted(text: str) -> str:
    """A text of columns as HTML: lines are not broken, and nothing in it is markup."""
    return _TEXT.format(text=html.escape(text))
