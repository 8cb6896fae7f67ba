"""What was tried on kernels, for coding agents: the lines of `agent`, within the same budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TextIO

from ..compare.trials.results import KernelTrials, TrialRow, TrialRun
from ..explain.trials_view import outcome_text
from . import try_text
from .agent import (
    AgentSubject,
    Budget,
    applied,
    finding_blocks,
    remarks,
    shortened_ids,
    subject_of,
    write_lines,
)
from .agent_calls import SHELL, AgentCalls

_MOST_FOR_FRONT = 1_500
"""Bytes of the lines on the Pareto front."""


def write(run: TrialRun, stream: TextIO, calls: AgentCalls = SHELL) -> None:
    """Writes the kernels with what was tried for their findings, then what failed.

    Args:
        run: the trials of all kernels.
        stream: where to.
        calls: names the next steps.
    """
    short = shortened_ids([trials.kernel for trials in run.kernels])
    lines: list[str] = []
    for trials in run.kernels:
        lines += [*_kernel(trials, short, calls), ""]
    write_lines([*lines, try_text.summary(run), *remarks(run.errors, run.notes)], stream)


def _kernel(trials: KernelTrials, short: Mapping[str, str], calls: AgentCalls) -> Iterator[str]:
    """The findings that something was tried for, what is on the front, what cannot be tried."""
    budget = Budget()
    subject = subject_of(trials.kernel, short)
    head = [subject.heading]
    if trials.without_candidates:
        head.append(f"nothing to try {' '.join(trials.without_candidates)}")
    front = list(_front(trials, subject, calls))
    budget.takes([*head, *front])
    yield from head
    tried = [(f, f.message) for f in trials.kernel.findings if f.trials]
    yield from finding_blocks(tried, subject, short, budget, calls)
    yield from front


def _front(trials: KernelTrials, subject: AgentSubject, calls: AgentCalls) -> Iterator[str]:
    """The changes that no other beats: what they cure, their figures, and how to make them.

    One change that cures findings of one rule alone stands with these findings.
    """
    budget = Budget(_MOST_FOR_FRONT)
    rows = [row for row in trials.rows if row.change and row.trial.front and _is_more(row)]
    for number, row in enumerate(rows):
        cures = f" cures {' '.join(row.cures)}" if row.cures else ""
        lines = [
            f"front{cures}: {outcome_text(row.trial)}",
            f"  apply {applied(row.change, subject)}",
        ]
        if not budget.takes(lines):
            more = calls.in_full(subject.command("try"))
            yield f"{len(rows) - number} more on the front{f': {more}' if more else ''}"
            return
        yield from lines


def _is_more(row: TrialRow) -> bool:
    return len(row.change) > 1 or len(row.cures) != 1
