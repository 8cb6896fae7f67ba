"""Content-addressed store of compiled artifacts, under the user's cache directory.

An entry is a folder of files with a manifest that states the size and hash of each. An entry is
created by a single rename, so that neither a crash nor two writers of one key leave a partial one.
A file that does not match its hash makes the entry count as missing. Everything in the store can be
computed again: deleting any of it is safe.

Files are written in a staging folder beside the entries. Its owner holds a lock on a file of the
same name, which the kernel releases however the owner ends. So the next run can tell what a killed
run left behind, and removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import platformdirs
from msgspec import Struct

from ..errors import KinspectError
from ..model import Artifact
from ..writing import sha256_of, synced, unwritable

FORMAT = 1
"""Part of every key: raise it when the same inputs come to mean other files."""
MANIFEST = "manifest.json"
STAGING = "staging"
MOST_BYTES = 8 << 30
"""Size limit of the store; a run that added entries deletes the oldest ones beyond it."""
LOCK = ".lock"
STALE_SECONDS = 24 * 3600.0
"""Age at which a staging folder without a usable lock counts as abandoned: on a file system without
locks, or left by a version that took none. No compile runs for a day."""
PUT_ATTEMPTS = 5
CHUNK = 1 << 20
_DIGEST_BYTES = 32


class Entry(Struct, frozen=True):
    """One stored compile: its artifacts by kind, and what was noted when it was put there."""

    key: str
    artifacts: Mapping[str, Artifact]
    facts: Mapping[str, Any]


def artifact_key(
    *,
    ttir: str,
    options: Mapping[str, Any],
    arch: str,
    wave_size: int,
    triton_key: str,
    environment: Mapping[str, str],
    passes: bool,
    stage: str = "ttir",
) -> str:
    """The key of a compile: a hash over everything that its result depends on.

    Args:
        ttir: the compile's input, byte for byte.
        options: compile options; JSON values only.
        arch: gfx name.
        wave_size: lanes per wave.
        triton_key: identity of Triton, its backend and its device libraries.
        environment: the compile-relevant variables.
        passes: whether the pass dump is among the artifacts.
        stage: what `ttir` holds, if not TTIR.

    Raises:
        TypeError: an option that is not a JSON value.
    """
    stated = {
        "format": FORMAT,
        "ttir": hashlib.sha256(ttir.encode()).hexdigest(),
        "options": dict(options),
        "arch": arch,
        "wave_size": wave_size,
        "triton_key": triton_key,
        "environment": dict(environment),
        "passes": passes,
        **({"stage": stage} if stage != "ttir" else {}),
    }
    text = json.dumps(stated, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def default_root() -> Path:
    """`KINSPECT_CACHE_DIR`, or the user's cache directory for kinspect."""
    override = os.environ.get("KINSPECT_CACHE_DIR")
    return Path(override) if override else platformdirs.user_cache_path("kinspect")


class Store:
    """The artifact store below one root folder. Safe to share between threads and processes.

    Args:
        root: the folder; `default_root()` when None. Made when first written to.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = (default_root() if root is None else root).absolute()
        self._entries = self.root / f"artifacts-v{FORMAT}"
        self._staging = self.root / STAGING

    def get(self, key: str) -> Entry | None:
        """The entry, or None where there is none or it is damaged.

        An entry is damaged if a file is missing or does not match its hash; every file is hashed.
        `holds` distinguishes the two cases.
        """
        entry = self._stated(key)
        return entry if entry is not None and _is_whole(entry) else None

    def holds(self, key: str) -> bool:
        """Whether there is an entry, damaged or not."""
        return self._folder(key).is_dir()

    def _stated(self, key: str) -> Entry | None:
        """The entry as its manifest states it, files unread; None without a usable manifest."""
        folder = self._folder(key)
        try:
            manifest = json.loads((folder / MANIFEST).read_bytes())
            artifacts = {
                str(kind): Artifact(str(kind), str(f["sha256"]), int(f["size"]), folder / f["name"])
                for kind, f in manifest["files"].items()
            }
            is_ours = manifest["key"] == key and all(
                a.path.parent == folder for a in artifacts.values()
            )
            facts = dict(manifest["facts"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return Entry(key, artifacts, facts) if is_ours else None

    def verify(self, key: str) -> bool:
        """Whether the entry is there and every file has the content it was stored with."""
        return self.get(key) is not None

    @contextlib.contextmanager
    def stage(self) -> Iterator[Path]:
        """A fresh folder on the store's own filesystem, for `put`; removed if not put.

        Raises:
            KinspectError: the store cannot be written.
        """
        try:
            self._staging.mkdir(parents=True, exist_ok=True)
            lock, name = self._create_lock()
        except OSError as error:
            raise self.unwritable(error) from error
        # The name without the lock's suffix is free: whoever uses it holds the lock.
        folder = Path(name.removesuffix(LOCK))
        try:
            try:
                folder.mkdir(mode=0o700)
            except OSError as error:
                raise self.unwritable(error) from error
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.unlink(name)
            os.close(lock)

    def _create_lock(self) -> tuple[int, str]:
        """Creates a lock file and locks it; returns its descriptor and path."""
        while True:
            lock, name = tempfile.mkstemp(LOCK, f"{os.getpid()}-", self._staging)
            try:
                if _locked(lock) and os.fstat(lock).st_nlink:
                    return lock, name
            except OSError:  # no locks on this file system: `tidy` goes by age
                return lock, name
            os.close(lock)  # another process removed the file before it was locked

    def put(
        self,
        key: str,
        folder: Path,
        files: Mapping[str, str],
        facts: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Moves a folder made by `stage` into the store.

        If another writer was first, their entry is kept: a key always has the same content.

        Args:
            key: see `artifact_key`.
            folder: holds the files. Whatever else lies there is stored too, but not listed.
            files: artifact kind -> file name in `folder`.
            facts: further JSON values to keep with the entry.

        Raises:
            KinspectError: the store cannot be written.
        """
        try:
            return self._put(key, folder, files, facts or {})
        except OSError as error:
            raise self.unwritable(error) from error

    def _put(
        self, key: str, folder: Path, files: Mapping[str, str], facts: Mapping[str, Any]
    ) -> Entry:
        manifest = {
            "key": key,
            "files": {
                kind: {
                    "name": name,
                    "size": (folder / name).stat().st_size,
                    "sha256": sha256_of(folder / name),
                }
                for kind, name in files.items()
            },
            "facts": dict(facts),
        }
        (folder / MANIFEST).write_text(json.dumps(manifest, sort_keys=True), encoding="utf-8")
        # A rename may reach the disk before the files do.
        for name in (*files.values(), MANIFEST):
            _sync(folder / name)
        target = self._folder(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        failure: OSError | None = None
        for attempt in range(PUT_ATTEMPTS):
            try:
                os.rename(folder, target)
                entry = self._stated(key)  # its files were hashed a moment ago
            except OSError as error:  # there already, or it cannot be written
                failure = error
                entry = self.get(key)
            if entry is not None:
                return entry
            if folder.exists():
                self._set_aside(target)
            else:  # another writer who saw a damaged entry is just replacing ours
                time.sleep(0.01 * (attempt + 1))
        raise failure or OSError(f"the entry {target} was removed as it was made")

    def note(self, key: str, name: str, data: bytes) -> None:
        """Stores a small file beside an entry's own, to cache something computed from them.

        It is deleted with the entry, is not listed by `get`, and is replaced atomically. Does
        nothing if there is no entry, or if the file cannot be written.

        Args:
            key: see `artifact_key`.
            name: the file's name; includes whatever the content depends on besides the entry.
            data: the content.
        """
        if not self._folder(key).is_dir():
            return
        with contextlib.suppress(OSError, KinspectError), self.stage() as folder:
            (folder / name).write_bytes(hashlib.sha256(data).digest() + data)
            _sync(folder / name)
            os.replace(folder / name, self._folder(key) / name)

    def noted(self, key: str, name: str) -> bytes | None:
        """The data that `note` stored; None if there are none or they have changed since."""
        try:
            stored = (self._folder(key) / name).read_bytes()
        except OSError:
            return None
        digest, data = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
        return data if hashlib.sha256(data).digest() == digest else None

    def remove(self, key: str) -> None:
        """Removes an entry, if there is one."""
        self._set_aside(self._folder(key))

    def prune(self, max_bytes: int = MOST_BYTES) -> int:
        """Deletes the oldest entries until the rest fits, and abandoned staging folders.

        Returns:
            The number of bytes freed.
        """
        freed = self.tidy()
        entries = []
        for folder in self._entries.glob("*/*"):
            with contextlib.suppress(OSError):
                size = sum(f.stat().st_size for f in folder.iterdir())
                entries.append((folder.stat().st_mtime, size, folder))
        total = sum(size for _, size, _ in entries)
        for _, size, folder in sorted(entries):
            if total <= max_bytes:
                break
            self._set_aside(folder)
            total -= size
            freed += size
        return freed

    def unwritable(self, error: OSError) -> KinspectError:
        """The error to raise where something in the store could not be written."""
        return unwritable(
            f"the cache folder {self.root}",
            error,
            "set KINSPECT_CACHE_DIR to a folder that can be written",
        )

    def refusal(self, folder: Path) -> OSError | None:
        """Why no more can be written to a staged folder, such as a full disk; None if it can.

        Tries to write, since quotas and limits do not show in the file system's free space.
        """
        probe = folder / "probe"
        try:
            with probe.open("wb") as stream:
                stream.write(bytes(CHUNK))
        except OSError as error:
            return error
        finally:
            with contextlib.suppress(OSError):
                probe.unlink()
        return None

    def _folder(self, key: str) -> Path:
        return self._entries / key[:2] / key

    def _set_aside(self, folder: Path) -> None:
        """Removes an entry in one step for its readers, however long the deletion takes."""
        with self.stage() as bin_folder, contextlib.suppress(OSError):
            os.rename(folder, bin_folder / "removed")

    def tidy(self) -> int:
        """Removes what killed runs left in the staging folder.

        Returns:
            The number of bytes freed.
        """
        freed = 0
        for path in sorted(self._staging.glob("*")):
            with contextlib.suppress(OSError):
                if path.suffix == LOCK:
                    freed += _take_over(path)
                elif not path.with_name(path.name + LOCK).exists() and _is_old(path):
                    freed += _remove_folder(path)
        return freed


def _take_over(path: Path) -> int:
    """Removes a lock file and its folder if nobody holds the lock; returns the bytes freed."""
    lock = os.open(path, os.O_RDWR)
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
    """Takes the lock of an open file if it is free.

    Raises:
        OSError: this file system knows no locks.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_old(path: Path) -> bool:
    return time.time() - path.stat().st_mtime > STALE_SECONDS


def _remove_folder(folder: Path) -> int:
    freed = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    shutil.rmtree(folder, ignore_errors=True)
    return freed


def _is_whole(entry: Entry) -> bool:
    try:
        return all(
            a.path.stat().st_size == a.size and sha256_of(a.path) == a.sha256
            for a in entry.artifacts.values()
        )
    except OSError:
        return False


def _sync(path: Path) -> None:
    with path.open("rb") as stream:
        synced(stream)
