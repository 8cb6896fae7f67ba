"""Temporary folders, which a later run removes if their owner was killed.

The owner of a folder holds a lock on a file of the same name, which the kernel releases however the
owner ends. A folder whose lock is free is abandoned.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

STAGING = "staging"
"""Name of the folder in a store."""
SCRATCH = "kinspect-"
"""Prefix of the names in the system's temporary folder."""
LOCK = ".lock"
STALE_SECONDS = 24 * 3600.0
"""Age at which a folder counts as abandoned on a file system without locks: no compile runs for a
day."""
_OWN_LOCK = re.compile(r"\d+-\w{8}\.lock")
"""The lock of a folder, after the prefix: the process id, and what `mkstemp` makes."""


@contextlib.contextmanager
def scratch_folder(root: str | None = None) -> Iterator[Path]:
    """Yields a new folder in a temporary folder, and removes it at the end.

    Args:
        root: the temporary folder; None: the system's, or what TMPDIR names.

    Raises:
        OSError: it cannot be made.
    """
    with _scratch_folders(root or tempfile.gettempdir()).folder() as folder:
        yield folder


@functools.cache
def _scratch_folders(root: str) -> StagingFolders:
    """Those of this process; its first use removes what killed ones left a day ago."""
    folders = StagingFolders(Path(root), SCRATCH)
    folders.tidy(STALE_SECONDS)
    return folders


class StagingFolders:
    """The temporary folders below one folder, which is made when it is first needed.

    Args:
        prefix: of their names. Others may write to `root`, too: a folder whose name does not have
            the form of ours, or that has no lock, is theirs.
    """

    def __init__(self, root: Path, prefix: str = "") -> None:
        self._root = root
        self._prefix = prefix

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """Yields a new folder, and removes it at the end if it was not moved away.

        Raises:
            OSError: it cannot be made.
        """
        self._root.mkdir(parents=True, exist_ok=True)
        lock, name = self._create_lock()
        # The name without the lock's suffix is free: only the holder of the lock uses it.
        folder = Path(name.removesuffix(LOCK))
        try:
            folder.mkdir(mode=0o700)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.unlink(name)
            os.close(lock)

    def _create_lock(self) -> tuple[int, str]:
        """Creates a lock file and locks it; returns its descriptor and path."""
        while True:
            lock, name = tempfile.mkstemp(LOCK, f"{self._prefix}{os.getpid()}-", self._root)
            try:
                if _locked(lock) and os.fstat(lock).st_nlink:
                    return lock, name
            except OSError:  # no locks on this file system: `tidy` goes by age
                return lock, name
            os.close(lock)  # another process removed the file before it was locked

    def tidy(self, age: float = 0.0) -> int:
        """Removes the folders that killed runs of this user have left.

        Args:
            age: seconds; younger ones stay.

        Returns:
            The number of bytes freed.
        """
        freed = 0
        for path in sorted(self._root.glob(f"{self._prefix}*")):
            if _OWN_LOCK.fullmatch(path.name.removeprefix(self._prefix)) is None:
                continue
            with contextlib.suppress(OSError):
                facts = path.lstat()
                if facts.st_uid != os.getuid() or time.time() - facts.st_mtime < age:
                    continue
                if stat.S_ISREG(facts.st_mode):
                    freed += _take_over(path)
        return freed


def _take_over(path: Path) -> int:
    """Removes a lock file and its folder if nobody holds the lock; returns the bytes freed."""
    lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        try:
            free = _locked(lock)
        except OSError:
            free = _is_old(path)
        if not free:
            return 0
        # The lock is removed last, so that the next run finds what could not be removed now.
        freed = _remove_folder(path.with_suffix(""))
        if not path.with_suffix("").exists():
            path.unlink()
        return freed
    finally:
        os.close(lock)


def _locked(lock: int) -> bool:
    """Takes the lock of an open file if it is free."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_old(path: Path) -> bool:
    return time.time() - path.lstat().st_mtime > STALE_SECONDS


def _remove_folder(folder: Path) -> int:
    """Removes a folder, not what a link of its name leads to; returns the bytes freed."""
    if folder.is_symlink() or not folder.is_dir():
        return 0
    freed = sum(f.lstat().st_size for f in folder.rglob("*") if f.is_file())
    shutil.rmtree(folder, ignore_errors=True)
    return freed
