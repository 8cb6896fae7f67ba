"""Changes settings and restores them, by a ledger of their old values.

Each old value is saved before its setting changes; what was written is read back, and each setting
is reported by itself.

The ledger is a file per machine. It lies in the user's state folder, under the machine's name,
since home folders are shared between machines. The first value before any change is the one that
counts: setting twice keeps it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ...base.documents import json_value
from ...base.errors import KinspectError
from ...base.writing import reason, replacing_text
from .host import Host
from .settings import CODECS, SettingChange, command, current, is_known, write


class ChangeOutcome(str, Enum):
    """The outcome of a change."""

    DONE = "done"
    POSSIBLE = "can be put back"
    ALREADY = "already so"
    SHELL = "for the shell"
    REFUSED = "refused"
    DRIFTED = "changed by someone else"
    GONE = "not there any more"


class ChangeResult(Struct, frozen=True):
    """A change and its outcome; `next_step` says why it was not made, and what to do."""

    change: SettingChange
    outcome: ChangeOutcome
    next_step: str = ""

    @property
    def failed(self) -> bool:
        return self.outcome in (ChangeOutcome.REFUSED, ChangeOutcome.DRIFTED)


def apply(
    host: Host, ledger: Ledger, changes: Sequence[SettingChange], *, by_shell: bool = False
) -> list[ChangeResult]:
    """Makes changes, after the old values have been written to disk.

    If a file of a setting is refused, the setting's other files are left alone.

    `ledger`: where the machine's old values are kept.
    `changes`: from `settings.plan`.
    `by_shell`: a shell is about to set the variables, which no program can do for it: their
    old values are written too.

    Raises:
        KinspectError: the ledger can't be read or written; nothing is changed then.
    """
    earlier = {saved.change.target: saved for saved in ledger.read()}
    entries = dict(earlier)
    for change in changes:
        if by_shell or not change.is_variable:
            entries[change.target] = _entry(host, change, earlier.get(change.target))
    ledger.write(entries.values())
    results = list(_made(host, changes))
    unchanged = {
        result.change.target
        for result in results
        if result.failed
        and result.change.target not in earlier
        and current(host, result.change) == result.change.before
    }
    if unchanged:
        ledger.write(entry for target, entry in entries.items() if target not in unchanged)
    return results


def _made(host: Host, changes: Iterable[SettingChange]) -> Iterator[ChangeResult]:
    """Makes changes one after the other; after a failure, no other of the same setting."""
    failed: set[str] = set()
    for change in changes:
        if change.is_variable:
            by_hand = command(change, change.after)
            result = ChangeResult(change, ChangeOutcome.SHELL, by_hand)
        elif change.name in failed:
            reason = "left alone: the step before it failed"
            result = ChangeResult(change, ChangeOutcome.REFUSED, reason)
        else:
            result = _write(host, change, change.after)
        if result.failed:
            failed.add(change.name)
        yield result


def _entry(host: Host, change: SettingChange, earlier: Saved | None) -> Saved:
    """Returns a change's entry in the ledger; the value before the first change is the old one."""
    if earlier is not None:
        change = replace(earlier.change, after=change.after)
    return Saved(change, host.boot)


def planned_reset(host: Host, entries: Iterable[Saved]) -> list[ChangeResult]:
    """Returns what `reset` would do, the last change first; changes nothing.

    A setting that can be put back is `POSSIBLE`.
    """
    return [_planned(host, saved) for saved in reversed(list(entries))]


def reset(host: Host, ledger: Ledger, force: bool = False) -> list[ChangeResult]:
    """Puts back the old values; those that can't be put back stay in the ledger.

    `ledger`: where the machine's old values are kept.
    `force`: also where someone changed the setting since.

    Raises:
        KinspectError: the ledger can't be read or written.
    """
    entries = ledger.read()
    results: list[ChangeResult] = []
    remaining = {saved.change.target: saved for saved in entries}
    for saved in reversed(entries):
        result = _planned(host, saved)
        change = saved.change
        if result.outcome is ChangeOutcome.POSSIBLE or (
            result.outcome is ChangeOutcome.DRIFTED and force
        ):
            result = _write(host, change, change.before)
        results.append(result)
        # A variable stays until a shell has put it back.
        if not result.failed and result.outcome is not ChangeOutcome.SHELL:
            del remaining[change.target]
    ledger.write(saved for saved in entries if saved.change.target in remaining)
    return results


def _planned(host: Host, saved: Saved) -> ChangeResult:
    """Returns what is to be done to put a setting back."""
    change = saved.change
    current_value = current(host, change)
    rebooted = bool(saved.boot) and host.boot != saved.boot
    if change.is_variable:
        if current_value == change.before:
            return ChangeResult(change, ChangeOutcome.ALREADY)
        return ChangeResult(change, ChangeOutcome.SHELL, command(change, change.before))
    if current_value is None:
        return ChangeResult(
            change, ChangeOutcome.GONE, "the file is gone: another kernel, or no such GPU now"
        )
    if current_value == change.before:
        return ChangeResult(
            change, ChangeOutcome.ALREADY, "by a restart of the machine" if rebooted else ""
        )
    if current_value != change.after:
        since = "a restart" if rebooted else "`env set`"
        return ChangeResult(
            change,
            ChangeOutcome.DRIFTED,
            f"it is {current_value} since {since}, neither {change.before} nor {change.after};"
            f" --force puts {change.before} back",
        )
    return ChangeResult(change, ChangeOutcome.POSSIBLE)


def _write(host: Host, change: SettingChange, value: str | None) -> ChangeResult:
    """Writes a value, and reads it back: the kernel may refuse it silently."""
    if current(host, change) == value:
        return ChangeResult(change, ChangeOutcome.ALREADY)
    by_hand = command(change, value)
    try:
        write(host, change.kind, change.target, value or "")
    except OSError as error:
        return ChangeResult(
            change, ChangeOutcome.REFUSED, f"{error.strerror or error}; as root: {by_hand}"
        )
    current_value = current(host, change)
    if current_value != value:
        return ChangeResult(
            change,
            ChangeOutcome.REFUSED,
            f"it was written, and reads {current_value} all the same; {by_hand}",
        )
    return ChangeResult(change, ChangeOutcome.DONE)


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
