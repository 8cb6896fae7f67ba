"""The files that an assembly text names in `.include`.

The text may be hostile: only files in its own folder and in folders below that are read, however
the path in the directive is spelled.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ...base.named_files import named_text

Includes = Callable[[str], "str | None"]
"""Name in the directive -> text of the file; None where it is not read."""

MAX_BYTES = 16 << 20


def no_includes(name: str) -> str | None:
    """Reads no file: the includes of a text that lies in no folder."""
    return None


def includes_beside(path: Path) -> Includes:
    """The includes of an assembly file: files in its folder and in folders below, each read once.

    `path`: the assembly file; where there is none, nothing is read.
    """
    if not path.is_file():
        return no_includes
    folder = path.resolve().parent
    texts: dict[str, str | None] = {}

    def read_include(name: str) -> str | None:
        if name not in texts:
            texts[name] = _text_below(folder, name)
        return texts[name]

    return read_include


def _text_below(folder: Path, name: str) -> str | None:
    """The text of a file below a folder; None where it lies elsewhere or may not be read."""
    try:
        place = Path(os.path.realpath(folder / name))  # pathlib's own raises for a circle of links
    except (OSError, ValueError):
        return None
    return named_text(place, MAX_BYTES) if place.is_relative_to(folder) else None
