"""What was tried on kernels, for coding agents: the lines of `agent`, within the same budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from ..compare.trials.trial_results import KernelTrials, TrialRun
from ..explain import time_view
from ..explain.trials_view import outcome_text, steps_text, told_in_full
from ..model import Change, Finding
from ..present.trials import summary
from .agent import Budget, applied, finding_blocks, remarks, shortened_ids, subject_of, write_lines
from .agent_calls import SHELL, AgentCalls, AgentSubject

_MOST_FOR_ADVISED = 1_500
"""Bytes of the lines on the changes to make."""


def write(run: TrialRun, stream: TextIO, calls: AgentCalls = SHELL) -> None:
    """Writes the kernels with what was tried for their findings, then what failed."""
    short = shortened_ids([trials.kernel for trials in run.kernels])
    lines: list[str] = []
    for trials in run.kernels:
        lines += [*_kernel(trials, short, calls), ""]
    write_lines([*lines, summary(run), *remarks(run.errors, run.notes)], stream)


def _kernel(trials: KernelTrials, short: Mapping[str, str], calls: AgentCalls) -> Iterator[str]:
    """The findings that something was tried for, the changes to make, what cannot be tried."""
    budget = Budget()
    subject = subject_of(trials.kernel, short)
    head = [subject.heading]
    if trials.without_candidates:
        head.append(f"nothing to try {' '.join(trials.without_candidates)}")
    full = list(_advised(trials, subject, {}, calls))
    budget.takes([*head, *full])
    yield from head
    tried = [(f, f.message) for f in trials.kernel.findings if f.trials]
    blocks = list(finding_blocks(tried, subject, short, budget, calls))
    yield from blocks
    yield from _advised(trials, subject, _printed(tried, short, blocks), calls)


def _printed(
    tried: Sequence[tuple[Finding, str]], short: Mapping[str, str], blocks: Sequence[str]
) -> dict[tuple[Change, ...], str]:
    """Changes with all their figures in the lines on findings -> id of the first of these."""
    printed: dict[tuple[Change, ...], str] = {}
    for finding, _ in tried:
        identity = short[finding.fingerprint]
        if any(line.startswith(f"finding {identity} ") for line in blocks):
            for change in told_in_full(finding):
                printed.setdefault(change, identity)
    return printed


def _advised(
    trials: KernelTrials,
    subject: AgentSubject,
    printed: Mapping[tuple[Change, ...], str],
    calls: AgentCalls,
) -> Iterator[str]:
    """The changes to make, the best first: what they cure, their figures, and how to make them."""
    budget = Budget(_MOST_FOR_ADVISED)
    if not trials.tried:
        return
    if not trials.advised:
        yield "no change is faster" if trials.is_timed else "no change removes it"
    for number, row in enumerate(trials.advised):
        cures = f" for {' '.join(row.cures)}" if row.cures else ""
        if row.change in printed:
            figures = f"as tried for {printed[row.change]}"
            if row.trial.time is not None:
                figures = f"{time_view.difference(row.trial.time)}, {figures}"
        else:
            figures = outcome_text(row.trial)
        word = "faster" if row.trial.time is not None else "removes it"
        lines = [
            f"{word} {steps_text(row.change)}{cures}: {figures}",
            f"  apply {applied(row.change, subject)}",
        ]
        if not budget.takes(lines):
            more = calls.trials_in_full(subject)
            left = len(trials.advised) - number
            yield f"{left} more that helped{f': {more}' if more else ''}"
            return
        yield from lines
