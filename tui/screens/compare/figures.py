"""The figures of the comparison page as text: verdict, changes in groups, hot loops' scorecards."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from textual.content import Content

from ....inspector.compare.diff import diff_view
from ....inspector.compare.diff.results import (
    FigureChange,
    Judgement,
    KernelDiff,
    Verdict,
    label_of,
)
from ....inspector.explain import view
from ....inspector.model import KernelReport
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
_GROUPS = (
    ("regression", f"{WORSE} Worse", "$error"),
    ("unknown", "Not known", "$warning"),
    ("improvement", f"{BETTER} Better", "$success"),
    ("neutral", "Of no consequence", "$foreground 60%"),
    ("shown", "Two targets: shown, not judged", "$foreground 60%"),
)
"""(judgement, heading, colour) of the groups of changes, the worst first."""
_MARKS: Mapping[Judgement, tuple[str, str]] = {
    "regression": (f" {WORSE}", "bold $error"),
    "improvement": (f" {BETTER}", "bold $success"),
}
"""Judgement of a figure -> (its mark, which can be read without colour, and its style)."""
_BRACKETS = "in brackets: per wave and ISA iteration, as executed"
_EXECUTED = "per wave and ISA iteration"
_GAP = 2  # cells between two columns
_LEAST_REASON = 24  # cells that a reason needs to stand beside its figures, not below them


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
    files = [view.file_name(view.path_of(report)) for report in (left, right)]
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
    summary = diff_view.in_short(pair) or "nothing differs that is looked at"
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
        where = view.place(report.source) or view.file_name(view.path_of(report))
        parts = (label_of(report), report.arch or "-", where)
        yield f"{'  '.join(part for part in parts if part not in label)}\n", _DIM


def changes(pair: KernelDiff, width: int) -> Content:
    """The changes in groups, the worst first: figures before → after and the reason."""
    parts: list[Piece] = [(f"{line}\n", "bold") for line in _bases(pair, width)]
    for judgement, heading, colour in _GROUPS:
        group = [change for change in pair.changes if change.judgement == judgement]
        if not group:
            continue
        parts.append((f"{heading} {len(group)}\n", f"bold {colour}"))
        parts += _lines(group, width, colour)
    if not parts:
        parts.append(("no figure differs\n", _DIM))
    return Content.assemble(*parts).rstrip()


def _bases(pair: KernelDiff, width: int) -> Iterator[str]:
    """Lines that say once what the figures of each loop are per."""
    loops: dict[str, list[str]] = {}
    for change in pair.changes:
        if change.basis and change.brief:
            names = loops.setdefault(change.basis, [])
            if change.loop is not None and change.loop not in names:
                names.append(change.loop)
    for basis, names in loops.items():
        head = f"{', '.join(names)}  " if names else ""
        yield from textwrap.wrap(f"{head}{basis}", max(12, width), subsequent_indent="  ")
    if any(pairing.per not in (None, (1, 1)) for pairing in pair.loops):
        yield from textwrap.wrap(_BRACKETS, max(12, width), subsequent_indent="  ")


def _lines(group: Sequence[FigureChange], width: int, colour: str) -> Iterator[Piece]:
    """Figures and reasons of changes, side by side or, where too narrow, one below the other."""
    heads = [_head(change) for change in group]
    widest = min(max(map(len, (head for head, _ in heads))), max(20, width // 2))
    for change, (head, reason) in zip(group, heads, strict=True):
        mark = "!" if change.matters and change.judgement != "neutral" else " "
        yield f"{mark} ", f"bold {colour}"
        room = max(12, width - 2)
        if len(head) <= widest and width - 2 - widest - _GAP >= _LEAST_REASON:
            wrapped = textwrap.wrap(reason, width - 2 - widest - _GAP) or [""]
            yield head.ljust(widest + _GAP), ""
            yield f"{wrapped[0]}\n", _DIM
            for line in wrapped[1:]:
                yield f"{' ' * (2 + widest + _GAP)}{line}\n", _DIM
            continue
        lines = textwrap.wrap(head, room) or [""]
        yield f"{lines[0]}\n", ""
        for line in lines[1:]:
            yield f"  {line}\n", ""
        for line in textwrap.wrap(reason, room - 2):
            yield f"    {line}\n", _DIM


def _head(change: FigureChange) -> tuple[str, str]:
    """A change's figures and reason, in the words of the text report."""
    head, reason = change.brief or change.figures, change.reason
    loop = f" in {change.loop}" if change.loop is not None and change.loop not in head else ""
    if change.name.startswith("findings.") and reason:
        head, reason = f"{change.why}  {_change_text(change)}", ""
    return head.strip() + loop, reason.strip()


def _change_text(change: FigureChange) -> str:
    return f"({view.show(change.left)} → {view.show(change.right)})"


def scorecards(pair: KernelDiff, width: int) -> Content:
    """The hot loops' instruction mix side by side, with the differences highlighted."""
    if not pair.loops:
        return Content.styled("neither side has a hot loop", _DIM)
    labels = short_labels(pair.left, pair.right)
    parts: list[Piece] = []
    for loops in pair.loops:
        rows = [
            (name, _dash(left), _dash(right)) for name, left, right in diff_view.scorecards(loops)
        ]
        title = f"{diff_view.loop_title(loops)}  {_EXECUTED}"
        parts += [(f"{line}\n", "bold $accent") for line in textwrap.wrap(title, width)]
        name_width = min(max(len(name) for name, _, _ in rows), max(12, 2 * width // 5))
        room = max(6, (width - name_width - 3 * _GAP) // 2)
        heads = labels if max(map(len, labels)) <= room else ("A", "B")
        columns = [
            min(room, max(len(head), *(len(row[n]) for row in rows)))
            for n, head in enumerate(heads, 1)
        ]
        parts.append((" " * name_width, ""))
        for head, size in zip(heads, columns, strict=True):
            parts.append((f"{'':{_GAP}}{head:>{size}}", "bold"))
        parts.append(("\n", ""))
        for name, left, right in rows:
            judgement = diff_view.row_judgement(pair, loops, name)
            fitted = _fitted_name(name, name_width)
            parts += _card_row(fitted, (left, right), columns, judgement)
        parts.append(("\n", ""))
    return Content.assemble(*parts).rstrip()


def _card_row(
    name: str, cells: tuple[str, str], columns: Sequence[int], judgement: Judgement
) -> Iterator[Piece]:
    """A row of a scorecard; a cell that is too long wraps within its column."""
    equal = cells[0] == cells[1]
    mark, style = _MARKS.get(judgement, ("", ""))
    yield name, _DIM if equal else "bold"
    wrapped = [textwrap.wrap(cell, size) or [""] for cell, size in zip(cells, columns, strict=True)]
    for number, (left, right) in enumerate(zip_longest(*wrapped, fillvalue="")):
        if number:
            yield " " * len(name), ""
        yield f"{'':{_GAP}}{left:>{columns[0]}}", _DIM if equal else ""
        yield f"{'':{_GAP}}{right:>{columns[1]}}", _DIM if equal else style
        yield f"{mark if not number else ''}\n", style


def _fitted_name(name: str, width: int) -> str:
    """A name cut or padded to `width`; an instruction's is cut at its start, since ends differ."""
    if len(name) <= width:
        return name.ljust(width)
    if name.startswith("  v_"):
        return f"  …{name[3 - width :]}"
    return f"{name[: width - 1]}…"


def _dash(text: str) -> str:
    """A figure with the pages' sign for unknown ones in place of the written formats'."""
    return text.replace(view.UNKNOWN, "-")
