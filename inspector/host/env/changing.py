"""Changes settings and restores them.

It saves the old value first, reads back what was written, and reports each setting by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from .host import Host
from .ledger import Ledger, Saved
from .settings import Change, command, current, write


class ChangeOutcome(str, Enum):
    """The outcome of a change."""

    DONE = "done"
    POSSIBLE = "can be put back"
    ALREADY = "already so"
    SHELL = "for the shell"
    REFUSED = "refused"
    DRIFTED = "changed by someone else"
    GONE = "not there any more"


class Step(Struct, frozen=True):
    """A change and its outcome; `next_step` says why it was not made, and what to do."""

    change: Change
    outcome: ChangeOutcome
    next_step: str = ""

    @property
    def failed(self) -> bool:
        return self.outcome in (ChangeOutcome.REFUSED, ChangeOutcome.DRIFTED)


def apply(
    host: Host, ledger: Ledger, changes: Sequence[Change], *, by_shell: bool = False
) -> list[Step]:
    """Makes changes, after the old values have been written to disk.

    If a file of a setting is refused, the setting's other files are left alone.

    Args:
        host: the machine.
        ledger: where the machine's old values are kept.
        changes: from `settings.plan`.
        by_shell: a shell is about to set the variables, which no program can do for it: their
            old values are written too.

    Raises:
        KinspectError: the ledger can't be read or written; nothing is changed then.
    """
    saved_by_target = {saved.change.target: saved for saved in ledger.read()}
    saved_earlier = set(saved_by_target)
    for change in changes:
        if change.is_variable and not by_shell:
            continue
        earlier = saved_by_target.get(change.target)
        saved_by_target[change.target] = (
            Saved(change, host.boot)
            if earlier is None
            else Saved(replace(earlier.change, after=change.after), host.boot)
        )
    ledger.write(saved_by_target.values())
    steps: list[Step] = []
    refused: set[str] = set()
    for change in changes:
        if change.is_variable:
            steps.append(Step(change, ChangeOutcome.SHELL, command(change, change.after)))
        elif change.name in refused:
            steps.append(
                Step(change, ChangeOutcome.REFUSED, "left alone: the step before it failed")
            )
        else:
            steps.append(_write(host, change, change.after))
        if steps[-1].failed:
            refused.add(change.name)
    unchanged = {
        step.change.target
        for step in steps
        if step.failed
        and step.change.target not in saved_earlier
        and current(host, step.change) == step.change.before
    }
    if unchanged:
        ledger.write(saved for target, saved in saved_by_target.items() if target not in unchanged)
    return steps


def planned_reset(host: Host, entries: Iterable[Saved]) -> list[Step]:
    """Returns what `reset` would do, the last change first; changes nothing.

    A setting that can be put back is `POSSIBLE`.
    """
    return [_planned(host, saved) for saved in reversed(list(entries))]


def reset(host: Host, ledger: Ledger, force: bool = False) -> list[Step]:
    """Puts back the old values; those that can't be put back stay in the ledger.

    Args:
        host: the machine.
        ledger: where the machine's old values are kept.
        force: also where someone changed the setting since.

    Raises:
        KinspectError: the ledger can't be read or written.
    """
    entries = ledger.read()
    steps: list[Step] = []
    remaining = {saved.change.target: saved for saved in entries}
    for saved in reversed(entries):
        step = _planned(host, saved)
        change = saved.change
        if step.outcome is ChangeOutcome.POSSIBLE or (
            step.outcome is ChangeOutcome.DRIFTED and force
        ):
            step = _write(host, change, change.before)
        steps.append(step)
        # A variable stays until a shell has put it back.
        if not step.failed and step.outcome is not ChangeOutcome.SHELL:
            del remaining[change.target]
    ledger.write(saved for saved in entries if saved.change.target in remaining)
    return steps


def _planned(host: Host, saved: Saved) -> Step:
    """Returns what is to be done to put a setting back."""
    change = saved.change
    current_value = current(host, change)
    rebooted = bool(saved.boot) and host.boot != saved.boot
    if change.is_variable:
        if current_value == change.before:
            return Step(change, ChangeOutcome.ALREADY)
        return Step(change, ChangeOutcome.SHELL, command(change, change.before))
    if current_value is None:
        return Step(
            change, ChangeOutcome.GONE, "the file is gone: another kernel, or no such GPU now"
        )
    if current_value == change.before:
        return Step(
            change, ChangeOutcome.ALREADY, "by a restart of the machine" if rebooted else ""
        )
    if current_value != change.after:
        since = "a restart" if rebooted else "`env set`"
        return Step(
            change,
            ChangeOutcome.DRIFTED,
            f"it is {current_value} since {since}, neither {change.before} nor {change.after};"
            f" --force puts {change.before} back",
        )
    return Step(change, ChangeOutcome.POSSIBLE)


def _write(host: Host, change: Change, value: str | None) -> Step:
    """Writes a value, and reads it back: the kernel may refuse it silently."""
    if current(host, change) == value:
        return Step(change, ChangeOutcome.ALREADY)
    by_hand = command(change, value)
    try:
        write(host, change.kind, change.target, value or "")
    except OSError as error:
        return Step(change, ChangeOutcome.REFUSED, f"{error.strerror or error}; as root: {by_hand}")
    current_value = current(host, change)
    if current_value != value:
        return Step(
            change,
            ChangeOutcome.REFUSED,
            f"it was written, and reads {current_value} all the same; {by_hand}",
        )
    return Step(change, ChangeOutcome.DONE)
