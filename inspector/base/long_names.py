"""Names of kernels that are too long to be read: of a library, some thousand characters."""

from __future__ import annotations

import re
from typing import Final

MOST_NAME: Final = 110
"""Characters of a name in what people read: those of a line."""
_WORD: Final = re.compile(r"[\w$~]+(?:::[\w$~]+)*")
_OPENS: Final = "<("
_CLOSES: Final = ">)"


def shortened(name: str, limit: int | None) -> str:
    """Returns a kernel's name cut to `limit` characters; None: not cut.

    The middle is cut: a library's kernels share a prefix, and the arguments at the end differ.
    """
    if limit is None or len(name) <= limit:
        return name
    end = max(0, limit - 1) // 2
    return f"{name[: max(0, limit - 1 - end)]}…{name[len(name) - end :]}"


def with_short_names(text: str, limit: int = MOST_NAME) -> str:
    """A sentence, or a name, in which names of functions are cut that are longer than `limit`.

    A name is a mangled one, or has template arguments; its arguments belong to it.
    """
    if len(text) <= limit:
        return text
    pieces, done, closed = [], 0, _closed(text)
    for word in _WORD.finditer(text):
        if word.start() < done:
            continue
        end = word.end()
        if text[end : end + 1] == "<":
            while end in closed:
                end = closed[end]
        if end - word.start() > limit:
            pieces += [text[done : word.start()], shortened(text[word.start() : end], limit)]
            done = end
    return "".join((*pieces, text[done:]))


def _closed(text: str) -> dict[int, int]:
    """Where each bracket stands that is closed -> behind its other half."""
    open_ones: list[int] = []
    ends: dict[int, int] = {}
    for place, letter in enumerate(text):
        if letter in _OPENS:
            open_ones.append(place)
        elif letter in _CLOSES and open_ones:
            ends[open_ones.pop()] = place + 1
    return ends
