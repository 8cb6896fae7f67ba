"""File and JSON functions as they were when this process started.

A program may replace `json.dumps` by a faster one, or patch `os` to be asynchronous; its records
have to be written all the same.
"""

from __future__ import annotations

import importlib.util
import json.encoder
import os
from typing import Any

_open, _write, _close = os.open, os.write, os.close
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def _own_encoder() -> Any:
    """The encoder class of a second copy of `json.encoder`, which no program can patch."""
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
    """Writes all of `data`.

    Raises:
        OSError: it cannot be written.
    """
    view = memoryview(data)
    while view:
        view = view[_write(fd, view) :]


def append(path: str, text: str) -> None:
    """Appends to a file, which is opened anew: no descriptor of ours stays open.

    Raises:
        OSError: it cannot be written.
    """
    fd = _open(path, _APPEND, 0o600)
    try:
        write_all(fd, text.encode())
    finally:
        _close(fd)
