"""A comparison as a document: the verdict, then what changed for it, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TextIO

from ..compare.diff import diff_view
from ..compare.diff.diff_results import Alone, DiffReport, FigureChange, KernelDiff, label_of
from ..explain import view
from . import markdown, text
from .document import (
    Block,
    Code,
    Column,
    Document,
    Figure,
    Figures,
    Item,
    Items,
    Paragraph,
    Section,
    Span,
    Table,
    Tone,
    table,
    words,
)

_IN_FULL: Final = ("regression", "mixed", "unknown")
_MOST_IN_FULL: Final = 5
_MOST_ROWS: Final = 50
_MOST_ISA_LINES: Final = 40
_MOST_NEUTRAL: Final = 6
_SINGLES: Final = 3
"""From this many pairs on, only the worst are told in full."""
_TONES: Final[Mapping[str, Tone]] = {
    "regression": "bad", "mixed": "bad", "unknown": "warning", "improvement": "good",
}  # fmt: skip


def write_text(
    report: DiffReport,
    stream: TextIO,
    *,
    details: bool = False,
    isa_in_full: bool = False,
    color: bool | None = None,
) -> None:
    """Prints a comparison; `details`: every kernel that changed in full, not the worst alone."""
    most = None if isa_in_full else _MOST_ISA_LINES
    text.show(document(report, details=details, most_isa=most), stream, color)


def write_markdown(report: DiffReport, stream: TextIO, *, details: bool = False) -> None:
    """Writes a comparison for a comment on a pull request: what got worse is folded."""
    markdown.show(document(report, details=details), stream)


def document(
    report: DiffReport, *, details: bool = False, most_isa: int | None = _MOST_ISA_LINES
) -> Document:
    """What a comparison says; at most `most_isa` lines of code that differ of a loop."""
    return tuple(_sections(report, details, most_isa))


def _sections(report: DiffReport, details: bool, most_isa: int | None) -> Iterator[Section]:
    summary = words(diff_view.summary(report), "strong")
    notes = (Paragraph(words(f"note: {note}")) for note in report.notes)
    yield Section(
        (Paragraph(summary), *notes),
        (Span("kinspect diff", "strong"), Span(f"  {report.left} → {report.right}", "strong")),
        is_subject=True,
    )
    changed = [pair for pair in report.pairs if pair.verdict != "same"]
    if changed and len(report.pairs) > 1:
        yield _table(changed, details)
    for side, alone in ((report.left, report.only_left), (report.right, report.only_right)):
        if alone:
            yield _alone(side, alone)
    if report.errors:
        lines = [
            f"{side}: {' '.join(part for part in (error.file, error.kernel) if part)}:"
            f" {error.stage}: {error.message}"
            for side, error in report.errors
        ]
        yield Section(tuple(Paragraph(words(line)) for line in lines), words("failed", "strong"))
    if details or len(report.pairs) < _SINGLES:
        in_full = changed
    else:
        in_full = [pair for pair in changed if pair.verdict in _IN_FULL][:_MOST_IN_FULL]
    for pair in in_full:
        yield from _pair(pair, report, most_isa)
    if len(in_full) < len(changed):
        more = view.plural(len(changed) - len(in_full), "more kernel")
        hint = words(f"{more} changed: --kernel NAME shows one, --details all", "weak")
        yield Section((Paragraph(hint),), is_subject=True)


def _table(pairs: Sequence[KernelDiff], details: bool) -> Section:
    several = diff_view.span_several_files(pairs)
    shown = pairs if details else pairs[:_MOST_ROWS]
    rows = table(
        (
            (Column("file", rank=2), lambda pair: diff_view.file_of(pair) if several else ""),
            (Column("kernel", shrinks=True), lambda pair: label_of(pair.left)),
            (Column("arch", rank=1), diff_view.arch_of),
            (Column("verdict"), diff_view.verdict_text),
            (Column("first to differ", rank=3), diff_view.first_stage),
            (Column("what", shrinks=True), diff_view.reason_in_short),
        ),
        shown,
        lambda pair: _TONES.get(pair.verdict, ""),
    )
    more = len(pairs) - len(shown)
    return Section((rows, *([Paragraph(words(f"and {more} more"))] if more else [])))


def _alone(side: str, alone: Sequence[Alone]) -> Section:
    lines = (Paragraph(words(diff_view.alone_line(one))) for one in alone)
    return Section(tuple(lines), words(f"only in {side}", "strong"))


def _pair(pair: KernelDiff, report: DiffReport, most_isa: int | None) -> Iterator[Section]:
    """A pair: its verdict, what changed, its loops and at most so many lines of code of each."""
    name, *others = diff_view.title_parts(pair)
    verdict = Span(f"  {diff_view.verdict_text(pair)}", _TONES.get(pair.verdict, "strong"))
    title = (Span(name, "strong"), *(Span(f"  {part}") for part in others), verdict)
    blocks: list[Block] = []
    if changes := list(_changes(pair)):
        blocks.append(Items(tuple(changes)))
    if left_out := max(0, len(_quiet(pair)) - _MOST_NEUTRAL):
        blocks.append(Paragraph(words(f"and {left_out} more of no consequence", "weak")))
    facts = (("paired by", pair.matched_by), ("stages", diff_view.stages(pair)))
    if told := tuple(Figure(name, words(fact)) for name, fact in facts if fact):
        blocks.append(Figures(told))
    blocks += [Paragraph(words(f"note: {note}")) for note in pair.remarks]
    yield Section(tuple(blocks), title, is_subject=True, folds=True)
    sides = [Column(diff_view.heading(one), right=True) for one in (report.left, report.right)]
    for loops in pair.loops:
        rows = [
            (row.label, row.left, row.right)
            for row in diff_view.scorecards(loops)
            if row.left != row.right
        ]
        if rows:
            titles = (Column(f"hot loop {diff_view.loop_title(loops)}"), *sides)
            yield Section((Table(titles, tuple(rows)),))
    for difference in pair.isa:
        where = f"loop {difference.loop}" if difference.loop is not None else "the kernel"
        only = f"{difference.only[0]} gone, {difference.only[1]} new, {difference.common} the same"
        lines = tuple(diff_view.isa_lines(difference, most_isa))
        yield Section((Code(lines, "diff"),), words(f"code of {where} by source line: {only}"))


def _quiet(pair: KernelDiff) -> list[FigureChange]:
    return [c for c in pair.changes if c.judgement in ("neutral", "shown") and not c.matters]


def _changes(pair: KernelDiff) -> Iterator[Item]:
    """The changes that matter, then the first `_MOST_NEUTRAL` others."""
    quiet = _quiet(pair)
    told = [change for change in pair.changes if change not in quiet]
    for change in (*told, *(c for c in pair.changes if c in quiet[:_MOST_NEUTRAL])):
        less = ", minor" if change in told and not change.matters else ""
        mark = Span(f"{change.judgement}{less}", _TONES.get(change.judgement, ""))
        yield Item(mark, "", change.why)
