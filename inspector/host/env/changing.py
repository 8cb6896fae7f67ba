"""Changes settings and restores them.

It saves the old value first, reads back what was written, and reports each setting by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from .host import Host
from .ledger import Ledger, Saved
from .settings import SettingChange, command, current, write


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
