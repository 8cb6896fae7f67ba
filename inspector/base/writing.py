"""Files written whole or not at all, under names that nobody can have prepared."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from .errors import KinspectError

_PIECE = 1 << 20
"""Bytes that are hashed at a time."""
_LONGEST = 200
"""Characters of a name that its temporary file begins with: names end at 255 bytes."""
_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is larger than a limit (ulimit -f) or its file system allows",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "the folder is read-only for this user",
    errno.EPERM: "the folder is read-only for this user",
}
_in_progress: set[Path] = set()
"""The temporary files of `replacing` that are being written now."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
OUTER_REASONS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""Codes that only a write can fail with, whatever was being done."""


def reason(error: OSError) -> str:
    """Why nothing could be written, in words."""
    text = error.strerror or str(error) or type(error).__name__
    explanation = _REASONS.get(error.errno or 0)
    return f"{explanation}: {text}" if explanation else text


def unwritable(path: Path | str, error: OSError, elsewhere: str) -> KinspectError:
    """The error to raise where `path` could not be written."""
    hint = f"free space, or {elsewhere}" if error.errno in _FULL else elsewhere
    return KinspectError(f"{path}: cannot be written ({reason(error)})", hint)


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when it is complete and on the disk.

    It is made in the same folder under a name that was not there, so that no link is followed; its
    mode is that of the file it replaces, else what the umask leaves. A link at `path` is itself
    replaced.

    Raises:
        OSError: it cannot be written; nothing is left then, and what was there before stays.
    """
    temporary, handle = _temporary(path, 0o600 if private else 0o666)
    _in_progress.add(temporary)
    try:
        with os.fdopen(handle, "wb") as stream:
            with suppress(OSError):
                if not private and path.is_file() and not path.is_symlink():
                    os.fchmod(stream.fileno(), path.stat().st_mode & 0o777)
            yield stream
            stream.flush()
            synced(stream)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    finally:
        _in_progress.discard(temporary)


def abandon() -> bool:
    """Removes the temporary files of all `replacing` in progress, before the process is ended.

    Their threads cannot complete the files any more: there is nothing left to put in place.
    """
    abandoned = tuple(_in_progress)
    for temporary in abandoned:
        with suppress(OSError):
            temporary.unlink()
    return bool(abandoned)


@contextmanager
def replacing_text(path: Path, *, private: bool = False) -> Iterator[TextIO]:
    """As `replacing`, for UTF-8 text; surrogates, as of a file's name, are spelled out.

    Raises:
        OSError: it cannot be written.
    """
    with replacing(path, private=private) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", newline="")
        try:
            yield text
            text.flush()
        finally:
            with suppress(OSError, ValueError):  # after an error there is nothing to save
                text.detach()


def synced(stream: BinaryIO | TextIO) -> None:
    """Flushes a file's content to the disk, if its file system can.

    Raises:
        OSError: the disk is full, or fails.
    """
    try:
        os.fsync(stream.fileno())
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _temporary(path: Path, mode: int) -> tuple[Path, int]:
    while True:
        name = path.with_name(f".{path.name[:_LONGEST]}.{os.urandom(8).hex()}")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(FileExistsError):
            return name, os.open(name, flags, mode)


def sha256_of(path: Path) -> str:
    """Computes the sha256 of a file's content, in pieces.

    Raises:
        OSError: it cannot be read.
    """
    import hashlib  # OpenSSL's: 6 ms that commands without digests need not pay

    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
