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
from .settings import Change, command, current, put


class Outcome(str, Enum):
    """What became of a change."""

    DONE = "done"
    POSSIBLE = "can be put back"
    ALREADY = "already so"
    SHELL = "for the shell"
    REFUSED = "refused"
    DRIFTED = "changed by someone else"
    GONE = "not there any more"


class Step(Struct, frozen=True):
    """A change and what became of it. `next_step` says why it was not, and what to do."""

    change: Change
    outcome: Outcome
    next_step: str = ""

    @property
    def failed(self) -> bool:
        return self.outcome in (Outcome.REFUSED, Outcome.DRIFTED)


def apply(
    host: Host, ledger: Ledger, changes: Sequence[Change], *, by_shell: bool = False
) -> list[Step]:
    """Makes changes; what was there before is on disk first.

    Where a file of a setting is refused, the setting's other files are left alone.

    Args:
        host: the machine.
        ledger: where the machine's old values are kept.
        changes: from `settings.plan`.
        by_shell: a shell is about to set the variables: they are kept too. No program can change
            its shell's.

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
            steps.append(Step(change, Outcome.SHELL, command(change, change.after)))
        elif change.name in refused:
            steps.append(Step(change, Outcome.REFUSED, "left alone: the step before it failed"))
        else:
            steps.append(_put(host, change, change.after))
        if steps[-1].failed:
            refused.add(change.name)
    undone = {
        step.change.target
        for step in steps
        if step.failed
        and step.change.target not in saved_earlier
        and current(host, step.change) == step.change.before
    }
    if undone:
        ledger.write(saved for target, saved in saved_by_target.items() if target not in undone)
    return steps


def planned_reset(host: Host, entries: Iterable[Saved]) -> list[Step]:
    """What putting back would do, the last change first; nothing is changed.

    A setting that can be put back is `POSSIBLE`.
    """
    return [_look(host, saved) for saved in reversed(list(entries))]


def reset(host: Host, ledger: Ledger, force: bool = False) -> list[Step]:
    """Puts back what was there before; what can't be put back stays in the ledger.

    Args:
        host: the machine.
        ledger: where the machine's old values are kept.
        force: also where someone changed the setting since.

    Raises:
        KinspectError: the ledger can't be read or written.
    """
    entries = ledger.read()
    steps: list[Step] = []
    left = {saved.change.target: saved for saved in entries}
    for saved in reversed(entries):
        step = _look(host, saved)
        change = saved.change
        if step.outcome is Outcome.POSSIBLE or (step.outcome is Outcome.DRIFTED and force):
            step = _put(host, change, change.before)
        steps.append(step)
        # A variable stays until a shell has put it back.
        if not step.failed and step.outcome is not Outcome.SHELL:
            del left[change.target]
    ledger.write(saved for saved in entries if saved.change.target in left)
    return steps


def _look(host: Host, saved: Saved) -> Step:
    """What is to be done about one setting."""
    change = saved.change
    current_value = current(host, change)
    rebooted = bool(saved.boot) and host.boot != saved.boot
    if change.is_variable:
        if current_value == change.before:
            return Step(change, Outcome.ALREADY)
        return Step(change, Outcome.SHELL, command(change, change.before))
    if current_value is None:
        return Step(change, Outcome.GONE, "the file is gone: another kernel, or no such GPU now")
    if current_value == change.before:
        return Step(change, Outcome.ALREADY, "by a restart of the machine" if rebooted else "")
    if current_value != change.after:
        since = "a restart" if rebooted else "`env set`"
        return Step(
            change,
            Outcome.DRIFTED,
            f"it is {current_value} since {since}, neither {change.before} nor {change.after};"
            f" --force puts {change.before} back",
        )
    return Step(change, Outcome.POSSIBLE)


def _put(host: Host, change: Change, value: str | None) -> Step:
    if current(host, change) == value:
        return Step(change, Outcome.ALREADY)
    by_hand = command(change, value)
    try:
        put(host, change.kind, change.target, value or "")
    except OSError as error:
        return Step(change, Outcome.REFUSED, f"{error.strerror or error}; as root: {by_hand}")
    current_value = current(host, change)
    if current_value != value:
        return Step(
            change,
            Outcome.REFUSED,
            f"it was written, and reads {current_value} all the same; {by_hand}",
        )
    return Step(change, Outcome.DONE)
