"""Files that an assembly text takes in with `.include`, from its own folder alone.

A text may come from a stranger: nothing outside of the folder that it lies in is read, however the
path is spelled.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Includes = Callable[[str], "str | None"]
"""Gives the text of an included file by the name in the directive, None where it is not read."""

MAX_BYTES = 16 << 20


def nothing(name: str) -> str | None:
    """Includes of a text that lies in no folder: none is read."""
    return None


def beside(path: Path) -> Includes:
    """Reads files in the folder of an assembly file and in folders below that.

    Args:
        path: the assembly file. Where it is no file, nothing is read.
    """
    if not path.is_file():
        return nothing
    folder = path.resolve().parent
    texts: dict[str, str | None] = {}

    def read(name: str) -> str | None:
        if name not in texts:
            texts[name] = _text(folder, name)
        return texts[name]

    return read


def _text(folder: Path, name: str) -> str | None:
    try:
        file = (folder / name).resolve()
        if not file.is_relative_to(folder) or not file.is_file():
            return None
        if file.stat().st_size > MAX_BYTES:
            return None
        return file.read_bytes().decode("utf-8", "replace")
    except (
        OSError,
        ValueError,
        RuntimeError,
    ):  # no such file, a NUL in its name, a circle of links
        return None
