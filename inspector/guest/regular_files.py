"""Reads files whose names come from data: traces, Inductor's caches.

The host's `named_files.py` does so for it; the guest imports nothing of the host's.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence

MOST_BYTES = 64 << 20
SHOWN = frozenset((".venv", ".triton", ".cache", ".tox", ".nox"))
"""Hidden folders that hold sources and what compilers wrote, beside tokens and the like."""
SOURCES = frozenset((
    ".py", ".pyi", ".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hip", ".hpp", ".inc", ".S",
    ".s", ".amdgcn", ".best_config", ".hsaco", ".ll", ".llir", ".mlir", ".ttgir", ".ttir",
))  # fmt: skip
PACKAGES = frozenset(("site-packages", "dist-packages"))
_allowed: list[str] | None = None


def confine(folders: Sequence[str] | None) -> None:
    """Lets `read_named` read below these folders alone; None: everywhere."""
    global _allowed
    _allowed = None if folders is None else [os.path.realpath(folder) for folder in folders]


def read_named(path: str, most: int = MOST_BYTES) -> bytes:
    """The contents of a file that a trace names; see `confine`.

    Raises:
        OSError: as `read`; or it lies elsewhere.
    """
    place = os.path.realpath(path)
    if not is_allowed(place):
        raise PermissionError(errno.EACCES, "outside the checkouts of the targets", path)
    return read(place, most, follow=False)


def is_allowed(path: str) -> bool:
    """Whether data may name a file; see `confine`."""
    place = os.path.realpath(path)
    return _allowed is None or any(_shows(folder, place) for folder in _allowed)


def _shows(folder: str, place: str) -> bool:
    """Whether a file lies in a folder, and is not hidden there."""
    if os.path.commonpath((place, folder)) != folder:
        return False
    parts = os.path.relpath(place, folder).split(os.sep)
    hidden = {part for part in parts if part.startswith(".")}
    return not hidden or (hidden <= SHOWN and os.path.splitext(place)[1] in SOURCES)


def read(path: str, most: int = MOST_BYTES, *, follow: bool = True) -> bytes:
    """The contents of a regular file; never waits.

    `most`: bytes that it may have.

    Raises:
        OSError: it cannot be read, is none, or is larger.
    """
    _check(os.stat(path), path, most)  # opening a device may do something
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    descriptor = os.open(path, flags | (0 if follow else os.O_NOFOLLOW))
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        _check(status, path, most)
        return stream.read(status.st_size)


def _check(status: os.stat_result, path: str, most: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    if status.st_size > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB", path)
