"""A comparison as Markdown, for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TextIO

from ..base.printable import printable, printable_line
from ..base.streams import no_commands
from ..compare.diff import diff_view
from ..compare.diff.results import DiffReport, KernelDiff, label_of
from ..present.markdown import cell, code, inline, table

MOST_ROWS = 50
MOST_IN_FULL = 10
MOST_ISA_LINES = 40
IN_FULL = ("regression", "mixed", "unknown")
_MARKS = {"regression": "❌", "mixed": "⚠️", "unknown": "❓", "improvement": "✅"}


def write(report: DiffReport, stream: TextIO, *, details: bool = False) -> None:
    """Writes a summary, a table of what changed, and what got worse in folded sections."""
    for line in _lines(report, details):
        stream.write(no_commands(printable(line)) + "\n")


def _lines(report: DiffReport, details: bool) -> Iterator[str]:
    """Yields the page: summary, changed kernels, unpaired ones, errors, then kernels in full."""
    yield f"### kinspect diff: {_cell(report.left)} → {_cell(report.right)}"
    yield ""
    yield inline(diff_view.summary(report))
    for note in report.notes:
        yield f"- note: {_cell(note)}"
    changed = [p for p in report.pairs if p.verdict != "same"]
    if changed:
        yield ""
        yield from table(
            ("file", "kernel", "arch", "verdict", "first to differ", "what"),
            (_row(pair) for pair in changed[: None if details else MOST_ROWS]),
        )
        if len(changed) > MOST_ROWS and not details:
            yield f"and {len(changed) - MOST_ROWS} more"
    for side, alone in ((report.left, report.only_left), (report.right, report.only_right)):
        if alone:
            yield ""
            yield f"Only in {_cell(side)}:"
            yield from (f"- {_cell(diff_view.alone_line(unpaired))}" for unpaired in alone)
    if report.errors:
        yield ""
        yield "Failed:"
        for side, error in report.errors:
            where = " ".join(part for part in (error.file, error.kernel) if part)
            yield f"- {_cell(f'{side}: {where}: {error.stage}: {error.message}')}"
    in_full = changed if details else [p for p in changed if p.verdict in IN_FULL][:MOST_IN_FULL]
    for pair in in_full:
        yield ""
        yield from _pair(pair, report)


def _row(pair: KernelDiff) -> Sequence[str]:
    verdict = f"{_MARKS.get(pair.verdict, '')} {diff_view.VERDICT_WORDS[pair.verdict]}".strip()
    return (
        diff_view.file_of(pair),
        code(label_of(pair.left)),
        diff_view.arch_of(pair),
        verdict,
        diff_view.first_stage(pair),
        diff_view.in_short(pair),
    )


def _pair(pair: KernelDiff, report: DiffReport) -> Iterator[str]:
    """Yields a pair of kernels as a block that folds out: changes, loops and code."""
    name = escape(printable_line(label_of(pair.left)))
    yield f"<details><summary><code>{name}</code> {diff_view.VERDICT_WORDS[pair.verdict]}</summary>"
    yield ""
    if pair.matched_by:
        yield f"Paired by {inline(pair.matched_by)}."
        yield ""
    stages = diff_view.stages(pair)
    if stages:
        yield f"Stages: {_cell(stages)}."
        yield ""
    yield from (f"- note: {_cell(note)}" for note in pair.remarks)
    for change in pair.changes:
        if change.matters or change.judgement not in ("neutral", "shown"):
            less = "" if change.matters else " (minor)"
            yield f"- **{change.judgement}**{less} {_cell(change.why)}"
    for loops in pair.loops:
        yield ""
        rows = [row for row in diff_view.scorecards(loops) if row[1] != row[2]]
        if rows:
            sides = diff_view.heading(report.left), diff_view.heading(report.right)
            titles = (f"hot loop {diff_view.loop_title(loops)}", *sides)
            yield from table(titles, rows)
    for difference in pair.isa:
        yield ""
        yield "```diff"
        for text in diff_view.isa_lines(difference, MOST_ISA_LINES):
            text = text.replace("```", "'''")  # which would end the block
            yield text.removeprefix("    ") if text.startswith("    ") else f"  {text}"
        yield "```"
    yield ""
    yield "</details>"


def _cell(text: str) -> str:
    return cell(inline(text))
