"""The bytes of a code object: the file that the debug agent saved, or the one that a URI names.

A report names its code objects by the URIs of ROCdbgapi: `file://PATH#offset=N&size=N` for a part
of a file, `memory://PID#offset=ADDRESS&size=N` for one that was loaded from memory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from ...base.named_files import file_bytes, is_of_folder, opened, opened_named

_SPECIAL = re.compile(r"[:/#?&=]")
_MOST_BYTES = 1 << 30
"""Bytes of a code object that are read at most."""


class CodeObjectUri(Struct, frozen=True):
    """A parsed URI; `size` 0 means up to the end of the file."""

    protocol: str
    path: str
    offset: int
    size: int


def parse_uri(text: str) -> CodeObjectUri | None:
    """Takes a URI apart; returns None for a text that is no URI."""
    try:
        parts = urlsplit(text.strip())
    except ValueError:
        return None
    if not parts.scheme or "://" not in text:
        return None
    parameters = dict(parse_qsl(parts.fragment or parts.query))
    try:
        offset = int(parameters.get("offset", "0"), 0)
        size = int(parameters.get("size", "0"), 0)
    except ValueError:
        return None
    return CodeObjectUri(parts.scheme, unquote(parts.netloc + parts.path), offset, size)


def saved_name(uri: str) -> str:
    """The file that the agent saves a code object in, without the number that newer ones prefix."""
    return _SPECIAL.sub("_", uri)


def find_saved(uri: str, folders: Iterable[Path]) -> Path | None:
    """Finds a saved code object in the first folder that has it, or in a folder below that."""
    return next((path for folder in folders if (path := _saved_in(uri, folder))), None)


def _saved_in(uri: str, folder: Path) -> Path | None:
    """Finds a saved code object in one folder.

    Older agents name the file after the URI, newer ones prefix the code object's number. If there
    is no such file, the only one of the size that the URI states is taken: Triton's cache holds
    the very bytes that were loaded.
    """
    numbered = re.compile(rf"^(?:\d+_)?{re.escape(saved_name(uri))}$")
    files = sorted(path for path in folder.rglob("*") if is_of_folder(path))
    for path in files:
        if numbered.match(path.name):
            return path
    parsed = parse_uri(uri)
    if parsed is None or not parsed.size:
        return None
    fitting = [path for path in files if path.stat().st_size == parsed.size and _is_elf(path)]
    distinct = {file_bytes(path): path for path in fitting}
    return next(iter(distinct.values())) if len(distinct) == 1 else None


def read_file_uri(uri: str) -> bytes | None:
    """Reads the bytes that a `file://` URI names; returns None if they are not on this machine."""
    parsed = parse_uri(uri)
    if parsed is None or parsed.protocol != "file":
        return None
    try:
        with opened_named(parsed.path, None) as stream:
            present = max(0, os.fstat(stream.fileno()).st_size - parsed.offset)
            stream.seek(parsed.offset)
            data = stream.read(min(parsed.size or present, present, _MOST_BYTES))
    except (OSError, ValueError, OverflowError):
        return None
    return data or None


def _is_elf(path: Path) -> bool:
    with opened(path) as stream:
        return stream.read(4) == b"\x7fELF"
