"""Functions as they were when this process started: a program may put others in their places.

Some replace `json.dumps` by a faster one, some patch `os` to be asynchronous, some do worse. What
was seen of a program until then, and after, is still to be written down.
"""

from __future__ import annotations

import importlib.util
import json.encoder
import os
from typing import Any

_open, _write, _close = os.open, os.write, os.close
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def _own_encoder() -> Any:
    """A JSON encoder whose classes nobody else has: a second copy of Python's own module."""
    spec = importlib.util.find_spec("json.encoder")
    if spec is None or spec.loader is None:
        return json.encoder.JSONEncoder
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.JSONEncoder


_JSONEncoder = _own_encoder()
encode_json = _JSONEncoder().encode
encode_compact = _JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def write_all(fd: int, data: bytes) -> None:
    """Writes all of it.

    Raises:
        OSError: it cannot be written.
    """
    view = memoryview(data)
    while view:
        view = view[_write(fd, view) :]


def append(path: str, text: str) -> None:
    """Appends to a file that is opened for this alone: none of ours is open in between.

    Raises:
        OSError: it cannot be written.
    """
    fd = _open(path, _APPEND, 0o600)
    try:
        write_all(fd, text.encode())
    finally:
        _close(fd)
