"""The figures of the comparison page as text: verdict, changes in groups, hot loops' scorecards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from textual.content import Content

from ....inspector.compare.diff import diff_view
from ....inspector.compare.diff.diff_results import (
    FigureChange,
    Judgement,
    KernelDiff,
    Verdict,
    label_of,
)
from ....inspector.explain import view
from ....inspector.model import KernelReport
from ....inspector.present.document import (
    Column,
    Item,
    Items,
    Paragraph,
    Section,
    Span,
    Table,
    Tone,
    paragraphs,
    words,
)
from ...widgets.bars import BETTER, WORSE, Piece

_DIM = "$foreground 60%"
_COLOURS: Mapping[Verdict, str] = {
    "regression": "$error",
    "mixed": "$warning",
    "unknown": "$warning",
    "improvement": "$success",
    "neutral": "$primary",
    "same": "$foreground",
}
_GROUPS: tuple[tuple[str, str, Tone], ...] = (
    ("regression", f"{WORSE} Worse", "bad"),
    ("unknown", "Not known", "warning"),
    ("improvement", f"{BETTER} Better", "good"),
    ("neutral", "Of no consequence", "weak"),
    ("shown", "Two targets: shown, not judged", "weak"),
)
"""Judgement, heading and tone of the groups of changes, the worst first."""
_MARKS: Mapping[Judgement, tuple[str, Tone]] = {
    "regression": (WORSE, "bad"),
    "improvement": (BETTER, "good"),
}
"""Judgement of a figure -> its mark, which can be read without colour, and its tone."""
_BRACKETS = "in brackets: per wave and ISA iteration, as executed"
_EXECUTED = "per wave and ISA iteration"


def short_labels(left: KernelReport, right: KernelReport) -> tuple[str, str]:
    """Headings for the two columns: names, targets, a setting or files, whichever differ."""
    names = [label_of(report) for report in (left, right)]
    archs = [report.arch or "-" for report in (left, right)]
    if names[0] != names[1]:
        if archs[0] != archs[1]:
            return f"{names[0]} {archs[0]}", f"{names[1]} {archs[1]}"
        return names[0], names[1]
    if archs[0] != archs[1]:
        return archs[0], archs[1]
    differences = differing(left, right)
    if differences:
        name, *values = differences[0]
        return f"{name}={values[0]}", f"{name}={values[1]}"
    files = [view.file_name(report.file) for report in (left, right)]
    return (files[0], files[1]) if files[0] != files[1] else ("left", "right")


def differing(left: KernelReport, right: KernelReport) -> list[tuple[str, str, str]]:
    """Constexprs and options that differ: name, left, right; `-` where a side has none."""
    settings = [_configuration(report) for report in (left, right)]
    names = dict.fromkeys((*settings[0], *settings[1]))
    return [
        (name, settings[0].get(name, "-"), settings[1].get(name, "-"))
        for name in names
        if settings[0].get(name) != settings[1].get(name)
    ]


def _configuration(report: KernelReport) -> dict[str, str]:
    if report.variant is None:
        return {}
    settings = {**report.variant.constexprs, **report.variant.options}
    return {name: str(value) for name, value in settings.items()}


def verdict(pair: KernelDiff, *, code: str = "", short: bool = False) -> Content:
    """The head of the page: the verdict with its reason, changed settings, stages and notes."""
    summary = diff_view.reason_in_short(pair) or "nothing differs that is looked at"
    changed = ", ".join(f"{n} {a} → {b}" for n, a, b in differing(pair.left, pair.right))
    settings = [(f"{changed}\n", "$accent")] if changed else []
    word = f" {diff_view.VERDICT_WORDS[pair.verdict]} "
    parts: list[Piece] = [(word, f"bold reverse {_COLOURS[pair.verdict]}"), ("  ", "")]
    if short:
        parts += [*settings, (f"{summary}\n", "")]
    else:
        parts += [(f"{summary}\n", ""), *_sides(pair), *settings]
    stages = diff_view.stages(pair)
    if stages:
        parts.append((f"{stages}\n", ""))
    if code:
        parts.append((f"hot code by source line: {code}\n", ""))
    parts += [(f"{note}\n", _DIM) for note in pair.remarks]
    return Content.assemble(*parts).rstrip()


def _sides(pair: KernelDiff) -> Iterator[Piece]:
    """A line for each of the two kernels: its name, target and place."""
    labels = short_labels(pair.left, pair.right)
    for mark, report, label in zip("AB", (pair.left, pair.right), labels, strict=True):
        yield f"{mark} ", "bold"
        yield f"{label}  ", "bold"
        where = view.place(report.source) or view.file_name(report.file)
        parts = (label_of(report), report.arch or "-", where)
        yield f"{'  '.join(part for part in parts if part not in label)}\n", _DIM


def changes(pair: KernelDiff) -> Iterator[Section]:
    """The changes in groups, the worst first: figures before → after and the reason."""
    blocks: list[Paragraph | Items] = [*paragraphs(_bases(pair), "strong")]
    for judgement, heading, tone in _GROUPS:
        if group := [change for change in pair.changes if change.judgement == judgement]:
            blocks.append(Paragraph((Span(f"{heading} {len(group)}", tone),)))
            blocks.append(Items(tuple(_item(change, tone) for change in group)))
    yield Section(tuple(blocks) or paragraphs(("no figure differs",), "weak"))


def _bases(pair: KernelDiff) -> Iterator[str]:
    loops: dict[str, dict[str, None]] = {}
    for change in pair.changes:
        if change.basis and change.brief:
            names = loops.setdefault(change.basis, {})
            if change.loop is not None:
                names[change.loop] = None
    for basis, names in loops.items():
        yield f"{', '.join(names)}  {basis}" if names else basis
    if any(pairing.basis.divisors not in (None, (1, 1)) for pairing in pair.loops):
        yield _BRACKETS


def _item(change: FigureChange, tone: Tone) -> Item:
    """A change's figures and reason, in the words of the text report."""
    head, reason = change.brief or change.figures, change.reason
    loop = f" in {change.loop}" if change.loop is not None and change.loop not in head else ""
    if change.name.startswith("findings.") and reason:
        head = f"{change.why}  ({view.show(change.left)} → {view.show(change.right)})"
        reason = ""
    mark = "!" if change.matters and change.judgement != "neutral" else " "
    return Item(Span(mark, tone), "", head.strip() + loop, reason.strip())


def scorecards(pair: KernelDiff) -> Iterator[Section]:
    """The hot loops' instruction mix side by side, with the differences highlighted."""
    if not pair.loops:
        yield Section(paragraphs(("neither side has a hot loop",), "weak"))
    sides = (
        Column(label, right=True, shrinks=True) for label in short_labels(pair.left, pair.right)
    )
    columns = (Column("", shrinks=True), *sides, Column(""))
    for loops in pair.loops:
        rows: list[tuple[str, ...]] = []
        tones: list[Tone] = []
        for row in diff_view.scorecards(loops):
            mark, tone = _MARKS.get(diff_view.row_judgement(pair, loops, row), ("", ""))
            rows.append((row.label, _dash(row.left), _dash(row.right), mark))
            tones.append("weak" if row.left == row.right else tone)
        title = f"{diff_view.loop_title(loops)}  {_EXECUTED}"
        yield Section((Table(columns, tuple(rows), tuple(tones)),), words(title))


def _dash(text: str) -> str:
    """A figure with the pages' sign for unknown ones in place of the written formats'."""
    return text.replace(view.UNKNOWN, "-")
