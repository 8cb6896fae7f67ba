"""Content-addressed store of compiled artifacts, under the user's cache directory.

An entry is a folder of files with a manifest that states the size and hash of each. An entry is
created by a single rename, so that neither a crash nor two writers of one key leave a partial one.
A file that does not match its hash makes the entry count as missing. Everything in the store can be
computed again: deleting any of it is safe.

Files are written in a staging folder beside the entries; see `staging.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..base.errors import KinspectError
from ..base.named_files import own_cache
from ..base.staging import STAGING, StagingFolders
from ..base.writing import sha256_of, synced, unwritable
from ..model import Artifact

FORMAT = 2
"""Part of every key: raise it when the same inputs come to mean other files."""
MANIFEST = "manifest.json"
MOST_BYTES = 8 << 30
"""Size limit of the store; a run that added entries deletes the oldest ones beyond it."""
PUT_ATTEMPTS = 5
CHUNK = 1 << 20
_DIGEST_BYTES = 32


class StoreEntry(Struct, frozen=True):
    """A stored compile: its artifacts by kind, and the facts that `put` was given."""

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
    late_start: Mapping[str, Any] | None = None,
) -> str:
    """Returns the key of a compile: a hash over everything that its result depends on.

    `triton_key`: identity of Triton, its backend and its device libraries.
    `passes`: whether the pass dump is among the artifacts.
    `stage`: what `ttir` holds, if not TTIR.

    Raises:
        TypeError: an option that is not a JSON value.
    """
    inputs = {
        "format": FORMAT,
        "ttir": hashlib.sha256(ttir.encode()).hexdigest(),
        "options": dict(options),
        "arch": arch,
        "wave_size": wave_size,
        "triton_key": triton_key,
        "environment": dict(environment),
        "passes": passes,
        **({"stage": stage} if stage != "ttir" else {}),
        **({"late_start": late_start} if late_start is not None else {}),
    }
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Store:
    """The artifact store below one root folder. Safe to share between threads and processes.

    `root`: the folder; `own_cache()` when None. Made when first written to.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = (own_cache() if root is None else root).absolute()
        self._entries = self.root / f"artifacts-v{FORMAT}"
        self._staging = StagingFolders(self.root / STAGING)

    def get(self, key: str) -> StoreEntry | None:
        """Returns an entry; None if there is none or it is damaged.

        An entry is damaged if a file is missing or does not match its hash; every file is hashed.
        `holds` distinguishes the two cases.
        """
        entry = self._read_manifest(key)
        return entry if entry is not None and _is_undamaged(entry) else None

    def holds(self, key: str) -> bool:
        """Tells whether there is an entry, damaged or not."""
        return self._folder(key).is_dir()

    def _read_manifest(self, key: str) -> StoreEntry | None:
        folder = self._folder(key)
        try:
            manifest = unsealed((folder / MANIFEST).read_bytes())
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
        return StoreEntry(key, artifacts, facts) if is_ours else None

    @contextlib.contextmanager
    def stage(self) -> Iterator[Path]:
        """Yields a new folder on the store's own file system, for `put`; removed if not put.

        Raises:
            KinspectError: the store cannot be written.
        """
        with contextlib.ExitStack() as stack:
            try:
                folder = stack.enter_context(self._staging.folder())
            except OSError as error:
                raise self.unwritable(error) from error
            yield folder

    def tidy(self) -> int:
        """Removes what killed runs have left in the staging folder; returns the bytes freed."""
        return self._staging.tidy()

    def put(
        self,
        key: str,
        folder: Path,
        files: Mapping[str, str],
        facts: Mapping[str, Any] | None = None,
    ) -> StoreEntry:
        """Moves a folder made by `stage` into the store.

        If another writer was first, their entry is kept: a key always has the same content.

        `folder`: holds the files. Whatever else lies there is stored too, but not listed.
        `files`: artifact kind -> file name in `folder`.

        Raises:
            KinspectError: the store cannot be written.
        """
        try:
            return self._move_in(key, folder, files, facts or {})
        except OSError as error:
            raise self.unwritable(error) from error

    def _move_in(
        self, key: str, folder: Path, files: Mapping[str, str], facts: Mapping[str, Any]
    ) -> StoreEntry:
        """Writes the manifest and renames the folder; a damaged entry in the way is removed."""
        _write_manifest(key, folder, files, facts)
        # A rename may reach the disk before the files do.
        for name in (*files.values(), MANIFEST):
            _sync(folder / name)
        target = self._folder(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        failure: OSError | None = None
        for attempt in range(PUT_ATTEMPTS):
            try:
                os.rename(folder, target)
                entry = self._read_manifest(key)  # its files were hashed a moment ago
            except OSError as error:  # there already, or it cannot be written
                failure = error
                entry = self.get(key)
            if entry is not None:
                return entry
            if folder.exists():
                self._delete(target)
            else:  # another writer who saw a damaged entry is just replacing ours
                time.sleep(0.01 * (attempt + 1))
        raise failure or OSError(f"the entry {target} was removed as it was made")

    def note(self, key: str, name: str, data: bytes) -> None:
        """Stores a small file beside an entry's own, to cache something computed from them.

        It is deleted with the entry, is not listed by `get`, and is replaced atomically. Does
        nothing if there is no entry, or if the file cannot be written.

        `name`: the file's name; includes whatever the content depends on besides the entry.
        """
        if not self._folder(key).is_dir():
            return
        with contextlib.suppress(OSError, KinspectError), self.stage() as folder:
            (folder / name).write_bytes(hashlib.sha256(data).digest() + data)
            _sync(folder / name)
            os.replace(folder / name, self._folder(key) / name)

    def noted(self, key: str, name: str) -> bytes | None:
        """Returns the data that `note` has stored; None if there are none or they are damaged."""
        try:
            stored = (self._folder(key) / name).read_bytes()
        except OSError:
            return None
        digest, data = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
        return data if hashlib.sha256(data).digest() == digest else None

    def remove(self, key: str) -> None:
        """Removes an entry, if there is one."""
        self._delete(self._folder(key))

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
            self._delete(folder)
            total -= size
            freed += size
        return freed

    def unwritable(self, error: OSError) -> KinspectError:
        """Returns the error to raise if something in the store cannot be written."""
        return unwritable(
            f"the cache folder {self.root}",
            error,
            "set KINSPECT_CACHE_DIR to a folder that can be written",
        )

    def refusal(self, folder: Path) -> OSError | None:
        """Returns why a staged folder cannot be written any more, such as a full disk; else None.

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

    def _delete(self, folder: Path) -> None:
        with self.stage() as bin_folder, contextlib.suppress(OSError):
            os.rename(folder, bin_folder / "removed")


def _write_manifest(
    key: str, folder: Path, files: Mapping[str, str], facts: Mapping[str, Any]
) -> None:
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
    (folder / MANIFEST).write_text(sealed(manifest), encoding="utf-8")


def sealed(value: Mapping[str, Any]) -> str:
    """An object as JSON with its own hash, which `unsealed` checks."""
    return json.dumps({**value, "sha256": _digest(value)}, sort_keys=True)


def unsealed(text: bytes) -> dict[str, Any]:
    """The object that `sealed` wrote.

    Raises:
        ValueError: it was changed.
    """
    try:
        value: dict[str, Any] = json.loads(text)
        if value.pop("sha256") == _digest(value):
            return value
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError):
        pass
    raise ValueError("it was changed")


def _digest(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _is_undamaged(entry: StoreEntry) -> bool:
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
