"""A comparison for coding agents: verdicts, and a line for each figure that is better or worse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TextIO

from ..compare.diff import diff_view
from ..compare.diff.diff_results import DiffReport, KernelDiff
from ..explain import view
from .agent import Budget, write_lines
from .agent_calls import SHELL, AgentCalls

_IN_BRACKETS = re.compile(r"\([^()]* → ")
_LEFT_OUT = 60
"""Bytes of the line on what is left out."""


def write(report: DiffReport, stream: TextIO, calls: AgentCalls = SHELL) -> None:
    """Writes the summary, the kernels that changed, worst first, then unpaired ones and errors."""
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
    lines = [
        f"kernel {'  '.join(diff_view.title_parts(pair))}: {diff_view.verdict_text(pair)}",
        *_changes(pair),
        *_loops(pair),
        *(f"  note {note}" for note in pair.remarks),
    ]
    shown, left = Budget().fitting(lines, _LEFT_OUT)
    yield from shown
    if left:
        more = calls.comparison_in_full()
        yield f"  {view.plural(left, 'more line')}{f': {more}' if more else ''}"


def _changes(pair: KernelDiff) -> Iterator[str]:
    """The changes that are told, after what those of each loop are per: that is said once."""
    changes = [c for c in pair.changes if c.matters or c.judgement not in ("neutral", "shown")]
    bases = dict.fromkeys((c.loop, c.basis) for c in changes if c.basis and c.brief)
    for loop, basis in bases:
        own = [c for c in changes if (c.loop, c.basis) == (loop, basis)]
        executed = " and ISA iteration" if loop is not None else ""
        brackets = (
            f"; in brackets per wave{executed}"
            if any(_IN_BRACKETS.search(c.brief) for c in own)
            else ""
        )
        yield f"  figures{_of(loop)} {basis}{brackets}"
    for change in changes:
        minor = "" if change.matters else " minor"
        figures = change.brief if change.basis and change.brief else change.figures
        why = f"{figures}: {change.reason}" if change.reason else figures
        yield f"  {change.judgement}{minor}{_of(change.loop)} {why}"


def _of(loop: str | None) -> str:
    return f" {loop}" if loop is not None else ""


def _loops(pair: KernelDiff) -> Iterator[str]:
    for loops in pair.loops:
        figures = "; ".join(
            f"{row.label.strip()} {row.left} -> {row.right}"
            for row in diff_view.scorecards(loops)
            if row.left != row.right
        )
        if figures:
            yield f"  loop {diff_view.loop_title(loops)}: {figures}"
