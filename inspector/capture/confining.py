"""The folder that targets must lie in: the root of a server, or the folder of a recording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from ..base.errors import KinspectError

_FOLDER: ContextVar[Path | None] = ContextVar("folder", default=None)


@contextmanager
def confined(folder: Path) -> Iterator[None]:
    """Within it, `resolving` refuses what lies outside a folder, or is a link that leads out."""
    token = _FOLDER.set(folder.resolve())
    try:
        yield
    finally:
        _FOLDER.reset(token)


def root() -> Path | None:
    """The folder of `confined`; None outside of it."""
    return _FOLDER.get()


def is_confined() -> bool:
    """Whether this is within `confined`."""
    return _FOLDER.get() is not None


def outside(path: Path) -> KinspectError | None:
    """What is wrong with the place of a file; None where it may be read."""
    folder = _FOLDER.get()
    if folder is None or path.resolve().is_relative_to(folder):
        return None
    return KinspectError(
        f"{path}: leads out of {folder}" if path.is_symlink() else f"{path}: is not in {folder}",
        "copy what it leads to into that folder",
    )
