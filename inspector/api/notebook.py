"""Results of the Python interface as texts, and as a notebook shows them."""

from __future__ import annotations

import html
import io
from collections.abc import Callable
from typing import TextIO

_TEXT = '<pre style="white-space:pre;overflow-x:auto">{text}</pre>'


def text_of(write: Callable[[TextIO], object]) -> str:
    """What a function writes to a stream."""
    stream = io.StringIO()
    write(stream)
    return stream.getvalue()


class Shown:
    """A result whose text, in columns, a notebook shows: no line is broken, nothing is markup."""

    def _repr_html_(self) -> str:
        return _TEXT.format(text=html.escape(str(self)))
