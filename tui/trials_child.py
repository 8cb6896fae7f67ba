"""Tries the cures of a kernel's findings in a child process.

It sends ("planned", number of changes), ("rows", what was tried so far), ("variant", (changes, what
was compiled for them)) as they come, and at last ("findings", the kernel's with what was tried).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..inspector.base.errors import KinspectError
from ..inspector.compare.trials.planning import judging_pack
from ..inspector.compare.trials.trial_results import TrialRow
from ..inspector.compare.trials.trial_run import TrialDone, Trials, TrialsPlanned, TryRequest
from ..inspector.model import Change, KernelReport, Report
from ..inspector.pipeline.jobs import Request

Work = tuple[KernelReport, frozenset[str], Request]
"""The kernel, the rules whose findings are tried, the run of the kernel."""


def try_changes(work: Work, send: Callable[[str, Any], None]) -> None:
    """Tries the changes of a kernel's findings; an interrupt ends it."""
    kernel, rules, request = work
    pack, _ = judging_pack(sorted(rules))
    trials = Trials(TryRequest(request, pack, rules), Report("", {}, (kernel,), ()))
    sent: set[tuple[Change, ...]] = set()
    for event in trials.events():
        if isinstance(event, TrialsPlanned):
            send("planned", event.changes)
        elif isinstance(event, TrialDone):
            for _, changes, variant in trials.variants():
                if changes not in sent:
                    sent.add(changes)
                    send("variant", (changes, variant))
            send("rows", _rows(trials))
    result = trials.result()
    if result.errors:
        error = result.errors[0]
        raise KinspectError(error.message, error.hint)
    if result.untried:
        raise KinspectError(
            "it was compiled already, so that no change can be tried",
            "open the .py file that launches it, or its .ttir",
        )
    if not any(len(tried.rows) > 1 for tried in result.kernels):
        raise KinspectError("no change is known that could cure it", "r compiles it with your own")
    send("rows", _rows(trials))
    send("findings", tuple(found for tried in result.kernels for found in tried.kernel.findings))


def _rows(trials: Trials) -> tuple[TrialRow, ...]:
    return tuple(row for kernel in trials.result().kernels for row in kernel.rows)
