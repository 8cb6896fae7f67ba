"""The ledger of old values of settings: a file per machine, written before `env set` changes any.

It lies in the user's state folder, under the machine's name, since home folders are shared between
machines. The first value before any change is the one that counts: setting twice keeps it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from ...base.documents import json_value
from ...base.errors import KinspectError
from ...base.writing import reason, replacing_text
from .settings import CODECS, SettingChange, is_known

VERSION = 1
OVERRIDE = "KINSPECT_STATE_DIR"
_CHANGE = ("name", "kind", "target", "before", "after")
"""The fields of an entry that describe its change; `boot` is the other one."""


class Saved(Struct, frozen=True):
    """One setting as it was, what it was set to, and in which boot."""

    change: SettingChange
    boot: str


class Ledger(Struct, frozen=True):
    """The file of one machine."""

    path: Path

    def read(self) -> tuple[Saved, ...]:
        """Reads the ledger, in the order of the changes.

        Raises:
            KinspectError: the file is damaged or was written by a newer kinspect; others could
                have written it; or it names something that kinspect never changes.
        """
        try:
            document = json_value(self._text(), self.path.name)
        except FileNotFoundError:
            return ()
        except KinspectError as error:
            raise self._damaged(error.message) from None
        except (OSError, ValueError) as error:
            raise self._damaged(str(error)) from None
        if not isinstance(document, dict) or document.get("version") != VERSION:
            raise self._damaged("its version is not known here")
        try:
            entries = tuple(
                Saved(SettingChange(**{name: entry[name] for name in _CHANGE}), entry["boot"])
                for entry in document["changes"]
            )
        except (KeyError, TypeError) as error:
            raise self._damaged(f"an entry lacks {error}") from None
        for entry in entries:
            self._check(entry)
        return entries

    def _check(self, entry: Saved) -> None:
        """Checks the types of an entry's fields, and that kinspect changes its target."""
        change = entry.change
        texts = (change.name, change.kind, change.target, entry.boot)
        if not all(isinstance(text, str) for text in texts):
            raise self._damaged("an entry holds what is no text")
        if not isinstance(change.after, str | None):
            raise self._damaged("an entry holds what is no text")
        if change.kind not in (*CODECS, "variable") or not isinstance(change.before, str | None):
            raise self._damaged(f"{change.name} is of no kind that is known here")
        if not is_known(change):
            raise self._refused(f"it names {change.target}, which kinspect never changes")

    def _text(self) -> str:
        """The file's text, if nobody but the user and root can have written it."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise self._refused("it is a link") from None
            raise
        with os.fdopen(handle, encoding="utf-8") as stream:
            file, folder = os.fstat(handle), os.stat(self.path.parent)
            if not {file.st_uid, folder.st_uid} <= {os.getuid(), 0}:
                raise self._refused("it belongs to another user")
            if file.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise self._refused("others can write it")
            if folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
                raise self._refused("others can write its folder")
            return stream.read()

    def write(self, entries: Iterable[Saved]) -> None:
        """Replaces the entries, all or nothing; without entries, no file stays.

        Raises:
            KinspectError: it can't be written.
        """
        saved_changes = list(entries)
        try:
            if not saved_changes:
                self.path.unlink(missing_ok=True)
                return
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replacing_text(self.path, private=True) as stream:
                json.dump(
                    {"version": VERSION, "changes": [_fields(saved) for saved in saved_changes]},
                    stream,
                )
        except OSError as error:
            raise KinspectError(
                f"{self.path}: cannot be written ({reason(error)})",
                f"free space, or set {OVERRIDE} to a folder of yours; nothing was changed",
            ) from None

    def _refused(self, why: str) -> KinspectError:
        return KinspectError(
            f"{self.path}: is not believed: {why}",
            "look at what it says of `before`, put that back by hand and delete the file",
        )

    def _damaged(self, why: str) -> KinspectError:
        return KinspectError(
            f"{self.path}: cannot be read: {why}",
            "look at what it says of `before`, put that back by hand and delete the file",
        )


def ledger(node: str, override: str | None) -> Ledger:
    """The ledger of a machine."""
    name = re.sub(r"[^\w.-]", "_", node) or "machine"
    if override:
        folder = Path(override)
    else:
        import platformdirs

        folder = platformdirs.user_state_path("kinspect")
    return Ledger(folder / f"environment-{name}.json")


def _fields(saved: Saved) -> dict[str, str | None]:
    return {**{name: getattr(saved.change, name) for name in _CHANGE}, "boot": saved.boot}
