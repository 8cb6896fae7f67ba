"""Writes the comparison of two profiles as text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, TextIO

from msgspec import to_builtins

from ..compare.profiles import KernelChange, MeasuredChange, ProfileDiff
from ..explain import quantities, recording_view, view
from ..explain.table import Column, rows_of
from ..model.recording import KernelProfile, Profile
from ..present.paper import Line, Paper, paper_for, print_wrapped

SCHEMA_VERSION = 1
MAX_IN_FULL = 5
"""Kernels whose changed figures are listed, unless all details are asked for."""
MAX_UNMATCHED = 8
"""Kernels of one profile alone that are listed."""
MIN_NAME_WIDTH = 24
"""Columns of a kernel's name, however narrow the terminal is."""
_STYLES = {"slower": "red", "faster": "green", "unsure": "yellow", "unknown": "yellow"}
_STATES_IN_FULL = ("slower", "faster")


def write(
    diff: ProfileDiff, stream: TextIO, *, details: bool = False, color: bool | None = None
) -> None:
    """Prints a line per kernel, most time changed first, then what changed with it."""
    paper = paper_for(stream, color)
    for side, profile in (("left ", diff.left), ("right", diff.right)):
        paper.print(Line(f"{side}  {_run(profile)}", "dim"))
    paper.print(Line())
    if diff.kernels:
        _write_table(paper, diff.kernels)
        _write_remarks(paper, diff.kernels)
    in_full = [
        kernel_change
        for kernel_change in diff.kernels
        if details or kernel_change.state in _STATES_IN_FULL
    ]
    for change in in_full if details else in_full[:MAX_IN_FULL]:
        _write_figures(paper, change)
    _write_unmatched(paper, "only left", diff.only_left)
    _write_unmatched(paper, "only right", diff.only_right)
    if not diff.kernels:
        paper.print(Line("  no kernel is in both profiles"))
    for note in diff.notes:
        paper.print(Line(f"note: {note}", "dim"))


def _write_table(paper: Paper, changes: Sequence[KernelChange]) -> None:
    """A line per kernel; names are shortened to what the other columns leave of the width."""
    columns = [
        Column("", lambda change: change.state),
        Column("median", lambda change: measured(change, change.median.left), right=True),
        Column("", lambda change: "→"),
        Column("", lambda change: measured(change, change.median.right), right=True),
        Column("change", lambda change: percent(change.median), right=True),
        Column("in all", lambda change: signed(change.total), right=True),
        # Where these differ, the difference of the total times says little.
        Column("dispatches", _counts),
        Column("", lambda change: "*" if change.grids is not None else ""),
    ]
    name_width = None
    if paper.shortens:
        without_names = rows_of([*columns, Column("kernel", lambda change: "…")], changes)
        other_width = max(map(len, without_names)) - len("kernel")
        name_width = max(MIN_NAME_WIDTH, paper.width - other_width - 2)
    columns.append(Column("kernel", lambda change: quantities.shortened(change.name, name_width)))
    for index, text in enumerate(rows_of(columns, changes)):
        style = "bold" if index == 0 else _STYLES.get(changes[index - 1].state, "")
        paper.print(Line(f"  {text}", style))


def _write_remarks(paper: Paper, changes: Sequence[KernelChange]) -> None:
    """Why kernels are not judged, and which of them had another grid."""
    for state in ("unsure", "unknown"):
        for why, number in Counter(
            change.why for change in changes if change.state == state
        ).items():
            paper.print(Line(f"  {state}, {view.plural(number, 'kernel')}: {why}", "dim"))
    regridded = [change for change in changes if change.grids is not None]
    if regridded:
        explanation = "not (only) the code: more or less work, or blocks of another size"
        text = f"  other grid, {view.plural(len(regridded), 'kernel')}, marked *: {explanation}"
        print_wrapped(paper, Line(text, "yellow"), "    ")


def _run(profile: Profile) -> str:
    """A profile's path, profiler and devices."""
    devices = "; ".join(recording_view.gpu_texts(profile))
    return "   ".join(
        filter(None, (profile.recording.path, recording_view.profiler_text(profile), devices))
    )


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


def _write_figures(paper: Paper, change: KernelChange) -> None:
    """The figures of a kernel that changed."""
    rows = [*_grid_change(change), *change.launch, *change.metrics]
    if not rows:
        return
    paper.print(Line())
    name_width = max(MIN_NAME_WIDTH, paper.width - len(change.why) - 4)
    name = quantities.shortened(change.name, name_width if paper.shortens else None)
    paper.print(Line(f"  {name}  {change.why}", _STYLES.get(change.state, "")))
    columns = [
        Column("", lambda figure: figure.name),
        Column("left", lambda figure: quantities.scaled(figure.left), right=True),
        Column("right", lambda figure: quantities.scaled(figure.right), right=True),
        Column("change", percent, right=True),
        Column("", lambda figure: figure.unit),
    ]
    for text in rows_of(columns, rows):
        paper.print(Line(f"    {text}"))


def _write_unmatched(paper: Paper, title: str, kernels: Sequence[KernelProfile]) -> None:
    """The kernels that one of the profiles alone has."""
    if not kernels:
        return
    paper.print(Line())
    for kernel in kernels[:MAX_UNMATCHED]:
        total = quantities.duration(kernel.total_ns)
        name_width = max(MIN_NAME_WIDTH, paper.width - len(title) - len(total) - 6)
        name = quantities.shortened(kernel.name, name_width if paper.shortens else None)
        paper.print(Line(f"  {title}: {name}  {total}"))
    if len(kernels) > MAX_UNMATCHED:
        unlisted = len(kernels) - MAX_UNMATCHED
        paper.print(Line(f"  {title}: {view.plural(unlisted, 'more kernel')}"))


def write_json(diff: ProfileDiff, stream: TextIO) -> None:
    """Writes the comparison as one JSON document."""
    document: dict[str, Any] = {
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
                "dispatches": list(change.counts),
                "launch": [_change(figure) for figure in (*_grid_change(change), *change.launch)],
                "metrics": [_change(figure) for figure in change.metrics],
            }
            for change in diff.kernels
        ],
        "only_left": [kernel.id for kernel in diff.only_left],
        "only_right": [kernel.id for kernel in diff.only_right],
        "notes": list(diff.notes),
    }
    json.dump(document, stream, indent=1, ensure_ascii=False)
    stream.write("\n")


def _change(change: MeasuredChange) -> dict[str, Any]:
    return {**to_builtins(change), "ratio": change.ratio}
