"""The files that an assembly text names in `.include`.

The text may be hostile: only files in its own folder and in folders below that are read, however
the path in the directive is spelled.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Includes = Callable[[str], "str | None"]
"""Name in the directive -> text of the file; None where it is not read."""

MAX_BYTES = 16 << 20


def no_includes(name: str) -> str | None:
    """Reads no file: the includes of a text that lies in no folder."""
    return None


def includes_beside(path: Path) -> Includes:
    """The includes of an assembly file: files in its folder and in folders below, each read once.

    Args:
        path: the assembly file; where there is none, nothing is read.
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
    """The text of a file below a folder; None where it lies elsewhere or cannot be read."""
    try:
        file = (folder / name).resolve()
        if not file.is_relative_to(folder) or not file.is_file():
            return None
        if file.stat().st_size > MAX_BYTES:
            return None
        return file.read_bytes().decode("utf-8", "replace")
    except (OSError, ValueError, RuntimeError):
        # Removed meanwhile, a name with a NUL in it, or a circle of links.
        return None
