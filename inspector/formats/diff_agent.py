"""A comparison for coding agents: verdicts, and a line for each figure that is better or worse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from ..compare.diff import diff_view
from ..compare.diff.results import DiffReport, KernelDiff
from ..explain import view
from .agent import Budget, write_lines
from .agent_calls import SHELL, AgentCalls

_LEFT_OUT = 60
"""Bytes of the line on what is left out."""


def write(report: DiffReport, stream: TextIO, calls: AgentCalls = SHELL) -> None:
    """Writes the summary, the kernels that changed, worst first, then unpaired ones and errors.

    Args:
        report: the comparison.
        stream: where to.
        calls: names the next steps.
    """
    lines = [f"diff {diff_view.summary(report)}"]
    changed = [pair for pair in report.pairs if pair.verdict != "same"]
    for pair in changed:
        lines += _pair(pair, calls)
    for side, alone in ((report.left, report.only_left), (report.right, report.only_right)):
        lines += [f"only in {side}: {diff_view.alone_line(unpaired)}" for unpaired in alone]
    for side, error in report.errors:
        subject = error.kernel or error.file or ""
        lines.append(f"failed {side} {subject}: {error.stage}: {error.message}; {error.hint}")
    write_lines([*lines, *(f"note {note}" for note in report.notes)], stream)


def _pair(pair: KernelDiff, calls: AgentCalls) -> Iterator[str]:
    """A pair within a kernel's share of bytes: what matters first, then each hot loop's figures."""
    budget = Budget()
    budget.left -= _LEFT_OUT
    lines = [
        f"kernel {diff_view.title(pair)}: {diff_view.VERDICT_WORDS[pair.verdict]}",
        *_changes(pair),
        *_loops(pair),
        *(f"  note {note}" for note in pair.remarks),
    ]
    for number, line in enumerate(lines):
        if not budget.takes([line]):
            more = calls.in_full("")
            yield f"  {view.plural(len(lines) - number, 'more line')}{f': {more}' if more else ''}"
            return
        yield line


def _changes(pair: KernelDiff) -> Iterator[str]:
    for change in pair.changes:
        if change.matters or change.judgement not in ("neutral", "shown"):
            minor = "" if change.matters else " minor"
            where = f" {change.loop}" if change.loop is not None else ""
            yield f"  {change.judgement}{minor}{where} {change.why}"


def _loops(pair: KernelDiff) -> Iterator[str]:
    for loops in pair.loops:
        differing = [row for row in diff_view.scorecards(loops) if row[1] != row[2]]
        figures = "; ".join(f"{name.strip()} {left} -> {right}" for name, left, right in differing)
        if figures:
            yield f"  loop {diff_view.loop_title(loops)}: {figures}"
