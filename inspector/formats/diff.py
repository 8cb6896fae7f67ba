"""A comparison for people at a terminal: a line per kernel that changed, the worst in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from ..compare.diff import diff_view
from ..compare.diff.results import Alone, DiffReport, KernelDiff, label_of
from ..explain import view
from ..explain.table import Column, rows_of
from ..present.paper import Line, Paper, paper_for, print_table, print_wrapped

IN_FULL = ("regression", "mixed", "unknown")
MOST_IN_FULL = 5
MOST_ISA_LINES = 40
MOST_NEUTRAL = 6
_STYLES = {"regression": "red", "mixed": "red", "unknown": "yellow", "improvement": "green"}
_LAST = 3
"""From this many pairs on, kernels that are the same have no line of their own."""


def write(
    report: DiffReport,
    stream: TextIO,
    *,
    details: bool = False,
    isa_in_full: bool = False,
    color: bool | None = None,
) -> None:
    """Prints the comparison.

    Args:
        report: the comparison.
        stream: where to.
        details: every kernel that changed in full, not the worst alone.
        isa_in_full: all lines of the code that differ.
        color: force colour on or off.
    """
    paper = paper_for(stream, color)
    paper.print(Line(f"{report.left} → {report.right}", "bold"))
    paper.print(Line(diff_view.summary(report)))
    for note in report.notes:
        print_wrapped(paper, Line(f"note: {note}"), "  ")
    changed = [p for p in report.pairs if p.verdict != "same"]
    if changed and len(report.pairs) > 1:
        paper.print(Line())
        _table(paper, changed)
    for side, alone in ((report.left, report.only_left), (report.right, report.only_right)):
        _alone(paper, side, alone)
    if details or len(report.pairs) < _LAST:
        in_full = changed
    else:
        in_full = [p for p in changed if p.verdict in IN_FULL][:MOST_IN_FULL]
    for pair in in_full:
        paper.print(Line())
        _pair(paper, pair, report, None if isa_in_full else MOST_ISA_LINES)
    if len(in_full) < len(changed):
        paper.print(Line())
        remaining = view.plural(len(changed) - len(in_full), "more kernel")
        paper.print(Line(f"{remaining} changed: --kernel NAME shows one, --details all", "dim"))


def _table(paper: Paper, pairs: Sequence[KernelDiff]) -> None:
    """Prints a line per pair."""
    several = diff_view.files_of(pairs)
    columns = [
        Column("file", lambda pair: diff_view.file_of(pair) if several else ""),
        Column("kernel", lambda pair: label_of(pair.left)),
        Column("arch", diff_view.arch_of),
        Column("verdict", lambda pair: diff_view.VERDICT_WORDS[pair.verdict]),
        Column("first to differ", diff_view.first_stage),
        Column("what", diff_view.in_short),
    ]
    for index, text in enumerate(rows_of(columns, pairs)):
        style = _STYLES.get(pairs[index - 1].verdict, "") if index else "bold"
        paper.print(Line(text, style))


def _alone(paper: Paper, side: str, alone: Sequence[Alone]) -> None:
    if not alone:
        return
    paper.print(Line())
    paper.print(Line(f"only in {side}", "bold"))
    for unpaired in alone:
        print_wrapped(paper, Line(f"  {diff_view.alone_line(unpaired)}"), "    ")


def _pair(paper: Paper, pair: KernelDiff, report: DiffReport, most_lines: int | None) -> None:
    """Prints a pair in full: stages, changes, loops, and at most so many lines of code a region."""
    line = Line(diff_view.title(pair), "bold")
    line.append(f"  {diff_view.VERDICT_WORDS[pair.verdict]}", _STYLES.get(pair.verdict, ""))
    paper.print(line)
    if pair.matched_by:
        paper.print(Line(f"  paired by {pair.matched_by}", "dim"))
    stages = diff_view.stages(pair)
    if stages:
        print_wrapped(paper, Line(f"  {stages}"), "    ")
    for note in pair.remarks:
        print_wrapped(paper, Line(f"  note: {note}"), "    ")
    paper.print(Line())
    _changes(paper, pair)
    _loops(paper, pair, report)
    for difference in pair.isa:
        paper.print(Line())
        where = f"loop {difference.loop}" if difference.loop is not None else "the kernel"
        only = f"{difference.only[0]} gone, {difference.only[1]} new, {difference.common} the same"
        paper.print(Line(f"  code of {where} by source line: {only}"))
        for text in diff_view.isa_lines(difference, most_lines):
            paper.print(Line(f"    {text}"))


def _changes(paper: Paper, pair: KernelDiff) -> None:
    """Prints the changes that matter, then the first `MOST_NEUTRAL` others."""
    quiet = [c for c in pair.changes if c.judgement in ("neutral", "shown") and not c.matters]
    for change in pair.changes:
        if change in quiet:
            continue
        less = "" if change.matters else ", minor"
        line = Line(f"  {change.judgement + less:<20} ", _STYLES.get(change.judgement, ""))
        line.append(change.why)
        print_wrapped(paper, line, " " * 23)
    for change in quiet[:MOST_NEUTRAL]:
        print_wrapped(paper, Line(f"  {change.judgement:<20} {change.why}"), " " * 23)
    if len(quiet) > MOST_NEUTRAL:
        paper.print(Line(f"  and {len(quiet) - MOST_NEUTRAL} more of no consequence", "dim"))


def _loops(paper: Paper, pair: KernelDiff, report: DiffReport) -> None:
    for loops in pair.loops:
        rows = diff_view.scorecards(loops)
        paper.print(Line())
        columns = [
            Column(f"hot loop {diff_view.loop_title(loops)}", lambda row: f"  {row[0]}"),
            Column(diff_view.heading(report.left), lambda row: row[1], right=True),
            Column(diff_view.heading(report.right), lambda row: row[2], right=True),
            Column("", lambda row: "" if row[1] == row[2] else "*"),
        ]
        print_table(paper, rows_of(columns, rows))
