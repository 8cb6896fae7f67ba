"""URIs of loaded code objects, and the files they were saved in.

`file:///path#offset=N&size=N` is a part of a file, `memory://PID#offset=0xN&size=N` of a process
that is gone by now. Sources: AMD_DBGAPI_CODE_OBJECT_INFO_URI_NAME in amd-dbgapi.h; for the names of
saved files, rocr-debug-agent's code_object.cpp.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

_URI = re.compile(r"^(?P<protocol>[a-zA-Z]+)://(?P<path>[^#?]*)(?:[#?](?P<parameters>.*))?$")
_SPECIAL = re.compile(r"[:/#?&=]")
_MOST = 1 << 30
"""Bytes of a code object that are read at most."""


@dataclass(frozen=True, slots=True)
class Uri:
    """A parsed URI; `size` 0 stands for the rest of the file."""

    protocol: str
    path: str
    offset: int
    size: int


def parse_uri(text: str) -> Uri | None:
    """Takes a URI apart; None where it is none."""
    found = _URI.match(text.strip())
    if found is None:
        return None
    parameters = dict(
        part.split("=", 1) for part in (found["parameters"] or "").split("&") if "=" in part
    )
    try:
        offset = int(parameters.get("offset", "0"), 0)
        size = int(parameters.get("size", "0"), 0)
    except ValueError:
        return None
    return Uri(found["protocol"].lower(), unquote(found["path"]), offset, size)


def saved_name(uri: str) -> str:
    """The file that the agent saves a code object in, without the number that newer ones prefix."""
    return _SPECIAL.sub("_", uri)


def find_saved(uri: str, folder: Path) -> Path | None:
    """The saved code object in a folder or those in it.

    Older agents name the file after the URI, newer ones put the code object's number before that.
    Where neither is there, a file of the size that the URI states, if there is one alone: Triton's
    cache holds the very bytes that were loaded.
    """
    name = saved_name(uri)
    numbered = re.compile(rf"^(?:\d+_)?{re.escape(name)}$")
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    for path in files:
        if numbered.match(path.name):
            return path
    parsed = parse_uri(uri)
    if parsed is None or not parsed.size:
        return None
    fitting = [p for p in files if p.stat().st_size == parsed.size and _is_elf(p)]
    distinct = {p.read_bytes(): p for p in fitting}
    return next(iter(distinct.values())) if len(distinct) == 1 else None


def read_file_uri(uri: str) -> bytes | None:
    """The bytes that a `file://` URI names; None where they are not to be had here."""
    parsed = parse_uri(uri)
    if parsed is None or parsed.protocol != "file":
        return None
    try:
        with Path(parsed.path).open("rb") as stream:
            stream.seek(parsed.offset)
            data = stream.read(min(parsed.size, _MOST) if parsed.size else _MOST)
    except OSError:
        return None
    return data or None


def _is_elf(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) == b"\x7fELF"
