"""The comparison of two profiles as a document and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from ..compare.profiles import KernelChange, MeasuredChange, ProfileDiff
from ..explain import profile_view, quantities, view
from ..model.recording import Profile
from .document import (
    Block,
    Column,
    Columns,
    Document,
    Figure,
    Figures,
    Section,
    Span,
    Text,
    Tone,
    paragraphs,
    table,
    words,
)

SCHEMA_VERSION = 1
MOST_IN_FULL = 5
"""Kernels whose changed figures are listed, unless all details are asked for."""
MOST_UNMATCHED = 8
"""Kernels of one profile alone that are listed."""
_TONES: Mapping[str, Tone] = {
    "slower": "bad", "faster": "good", "unsure": "warning", "unknown": "warning",
}  # fmt: skip
_IN_FULL = ("slower", "faster")


def document(diff: ProfileDiff, *, details: bool = False) -> Document:
    """A line per kernel, most time changed first, then what changed with it."""
    sides = Figures((Figure("left", _run(diff.left)), Figure("right", _run(diff.right))))
    in_full = [change for change in diff.kernels if details or change.state in _IN_FULL]
    sections = [Section((sides,)), Section(tuple(_table(diff.kernels)))]
    for change in in_full if details else in_full[:MOST_IN_FULL]:
        if rows := [*_grid_change(change), *change.launch, *change.metrics]:
            head = (Span(change.name), Span(f"  {change.why}", _TONES.get(change.state, "")))
            sections.append(Section((table(_FIGURES, rows),), head))
    for title, alone in (("only left", diff.only_left), ("only right", diff.only_right)):
        lines = [f"{kernel.name}  {quantities.duration(kernel.total_ns)}" for kernel in alone]
        left = len(lines) - MOST_UNMATCHED
        more = view.plural(left, "more kernel") if left > 0 else ""
        if lines:
            told = paragraphs((*lines[:MOST_UNMATCHED], more))
            sections.append(Section(told, words(title, "strong")))
    if diff.notes:
        sections.append(Section(paragraphs((f"note: {note}" for note in diff.notes), "weak")))
    return tuple(sections)


def _table(changes: Sequence[KernelChange]) -> Iterator[Block]:
    """A line a kernel, why kernels are not judged, and which of them had another grid."""
    if not changes:
        yield from paragraphs(("no kernel is in both profiles",))
        return
    yield table(_CHANGES, changes, lambda change: _TONES.get(change.state, ""))
    reasons = Counter((c.state, c.why) for c in changes if c.state in ("unsure", "unknown"))
    for (state, why), number in reasons.items():
        yield from paragraphs((f"{state}, {view.plural(number, 'kernel')}: {why}",), "weak")
    if regridded := [change for change in changes if change.grids is not None]:
        why = "not (only) the code: more or less work, or blocks of another size"
        count = view.plural(len(regridded), "kernel")
        yield from paragraphs((f"other grid, {count}, marked *: {why}",), "warning")


def _run(profile: Profile) -> Text:
    devices = "; ".join(profile_view.gpu_texts(profile))
    parts = (profile.recording.path, profile_view.profiler_text(profile), devices)
    return words("   ".join(filter(None, parts)), "weak")


def _grid_change(change: KernelChange) -> tuple[MeasuredChange, ...]:
    """The grid among the changes of a launch; empty where it is the same."""
    return (
        (MeasuredChange("grid", "work-items", *change.grids),) if change.grids is not None else ()
    )


def _counts(change: KernelChange) -> str:
    """The numbers of dispatches, where they differ."""
    left, right = change.counts
    return f"{left:,} → {right:,}" if left != right else ""


def measured(change: KernelChange, value: float | None) -> str:
    """A side of its median: a time, or cycles where traces alone are known."""
    return f"{quantities.scaled(value)} cycles" if change.of_traces else quantities.duration(value)


def percent(change: MeasuredChange) -> str:
    """Returns a relative change as text: `+12.3 %`."""
    ratio = change.ratio
    return f"{100 * (ratio - 1):+.1f} %" if ratio is not None else quantities.UNKNOWN


def signed(ns: float | None) -> str:
    """A gain or loss of time with its sign."""
    if ns is None:
        return quantities.UNKNOWN
    return f"{'+' if ns > 0 else '−' if ns < 0 else ''}{quantities.duration(abs(ns))}"


def fields(diff: ProfileDiff) -> dict[str, Any]:
    """The comparison as JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "left": diff.left.recording.path,
        "right": diff.right.recording.path,
        "kernels": [
            {
                "name": change.name,
                "left": change.left.id,
                "right": change.right.id,
                "state": change.state,
                "why": change.why,
                "median": _change(change.median),
                "total_ns": change.total,
                "dispatches": change.counts,
                "launch": [_change(figure) for figure in (*_grid_change(change), *change.launch)],
                "metrics": [_change(figure) for figure in change.metrics],
            }
            for change in diff.kernels
        ],
        "only_left": [kernel.id for kernel in diff.only_left],
        "only_right": [kernel.id for kernel in diff.only_right],
        "notes": diff.notes,
    }


def _change(change: MeasuredChange) -> dict[str, Any]:
    return {**to_builtins(change), "ratio": change.ratio}


_CHANGES: Columns = (
    ("", lambda change: change.state),
    (Column("median", right=True), lambda change: measured(change, change.median.left)),
    ("", lambda change: "→"),
    (Column("", right=True), lambda change: measured(change, change.median.right)),
    (Column("change", right=True), lambda change: percent(change.median)),
    (Column("in all", right=True), lambda change: signed(change.total)),
    # Where these differ, the difference of the total times says little.
    (Column("dispatches", rank=1), _counts),
    ("", lambda change: "*" if change.grids is not None else ""),
    (Column("kernel", shrinks=True), lambda change: change.name),
)
_FIGURES: Columns = (
    ("figure", lambda figure: figure.name),
    (Column("left", right=True), lambda figure: quantities.scaled(figure.left)),
    (Column("right", right=True), lambda figure: quantities.scaled(figure.right)),
    (Column("change", right=True), percent),
    ("", lambda figure: figure.unit),
)
