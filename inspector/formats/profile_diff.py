"""Two profiles compared, as text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, TextIO

from msgspec import to_builtins

from ..compare.profiles import Change, KernelChange, ProfileDiff
from ..explain import profile_view as words
from ..explain import view
from ..explain.table import Column, rows_of
from ..recording import KernelProfile, Profile
from .paper import Line, Paper, paper_for, wrapped

SCHEMA_VERSION = 1
MOST_IN_FULL = 5
MOST_ALONE = 8
MOST_SHORT = 24
"""Of a kernel's name, however narrow the terminal is."""
_STYLES = {"slower": "red", "faster": "green", "unsure": "yellow", "unknown": "yellow"}
_IN_FULL = ("slower", "faster")


def write(
    diff: ProfileDiff, stream: TextIO, *, details: bool = False, color: bool | None = None
) -> None:
    """Prints a line per kernel, most time changed first, then what changed with it."""
    paper = paper_for(stream, color)
    for side, profile in (("left ", diff.left), ("right", diff.right)):
        paper.print(Line(f"{side}  {_run(profile)}", "dim"))
    paper.print(Line())
    if diff.kernels:
        columns = [
            Column("", lambda c: c.state),
            Column("median", lambda c: words.duration(c.median.left), right=True),
            Column("", lambda c: "→"),
            Column("", lambda c: words.duration(c.median.right), right=True),
            Column("change", lambda c: percent(c.median), right=True),
            Column("in all", lambda c: signed(c.total), right=True),
            # Of unlike numbers of dispatches, a difference of all their time says little.
            Column("dispatches", _counts),
            Column("", lambda c: "*" if c.grids is not None else ""),
            Column("kernel", lambda c: words.short_name(c.name, most)),
        ]
        most: int | None = 1
        fixed_width = max(map(len, rows_of(columns, diff.kernels))) - len("kernel")
        most = max(MOST_SHORT, paper.width - fixed_width - 2) if paper.shortens else None
        for index, text in enumerate(rows_of(columns, diff.kernels)):
            style = "bold" if index == 0 else _STYLES.get(diff.kernels[index - 1].state, "")
            paper.print(Line(f"  {text}", style))
    for state in ("unsure", "unknown"):
        for why, number in Counter(c.why for c in diff.kernels if c.state == state).items():
            paper.print(Line(f"  {state}, {view.plural(number, 'kernel')}: {why}", "dim"))
    regridded = [c for c in diff.kernels if c.grids is not None]
    if regridded:
        explanation = "not (only) the code: more or less work, or blocks of another size"
        text = f"  other grid, {view.plural(len(regridded), 'kernel')}, marked *: {explanation}"
        for piece in wrapped(Line(text, "yellow"), paper.width, "    "):
            paper.print(piece)
    listed = [c for c in diff.kernels if details or c.state in _IN_FULL]
    for change in listed if details else listed[:MOST_IN_FULL]:
        _kernel(paper, change)
    _alone(paper, "only left", diff.only_left)
    _alone(paper, "only right", diff.only_right)
    if not diff.kernels:
        paper.print(Line("  no kernel is in both profiles"))
    for note in diff.notes:
        paper.print(Line(f"note: {note}", "dim"))


def _run(profile: Profile) -> str:
    devices = "; ".join(words.agents(profile))
    return "   ".join(filter(None, (profile.recording.path, words.tool(profile), devices)))


def _grid(change: KernelChange) -> tuple[Change, ...]:
    return (Change("grid", "work-items", *change.grids),) if change.grids is not None else ()


def _counts(change: KernelChange) -> str:
    left, right = change.counts
    return f"{left:,} → {right:,}" if left != right else ""


def percent(change: Change) -> str:
    """How much more or less: `+12.3 %`."""
    ratio = change.ratio
    return f"{100 * (ratio - 1):+.1f} %" if ratio is not None else words.UNKNOWN


def signed(ns: float | None) -> str:
    """A gain or loss of time with its sign."""
    if ns is None:
        return words.UNKNOWN
    return f"{'+' if ns > 0 else '−' if ns < 0 else ''}{words.duration(abs(ns))}"


def _kernel(paper: Paper, change: KernelChange) -> None:
    rows = [*_grid(change), *change.launch, *change.metrics]
    if not rows:
        return
    paper.print(Line())
    most = max(MOST_SHORT, paper.width - len(change.why) - 4)
    name = words.short_name(change.name, most if paper.shortens else None)
    paper.print(Line(f"  {name}  {change.why}", _STYLES.get(change.state, "")))
    columns = [
        Column("", lambda c: c.name),
        Column("left", lambda c: words.scaled(c.left), right=True),
        Column("right", lambda c: words.scaled(c.right), right=True),
        Column("change", percent, right=True),
        Column("", lambda c: c.unit),
    ]
    for text in rows_of(columns, rows):
        paper.print(Line(f"    {text}"))


def _alone(paper: Paper, title: str, kernels: tuple[KernelProfile, ...]) -> None:
    if not kernels:
        return
    paper.print(Line())
    for kernel in kernels[:MOST_ALONE]:
        total = words.duration(words.total(kernel))
        most = max(MOST_SHORT, paper.width - len(title) - len(total) - 6)
        name = words.short_name(kernel.name, most if paper.shortens else None)
        paper.print(Line(f"  {title}: {name}  {total}"))
    if len(kernels) > MOST_ALONE:
        paper.print(Line(f"  {title}: {view.plural(len(kernels) - MOST_ALONE, 'more kernel')}"))


def write_json(diff: ProfileDiff, stream: TextIO) -> None:
    """Writes the comparison as one JSON document."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "left": diff.left.recording.path,
        "right": diff.right.recording.path,
        "kernels": [
            {
                "name": c.name,
                "left": c.left.id,
                "right": c.right.id,
                "state": c.state,
                "why": c.why,
                "median": _change(c.median),
                "total_ns": c.total,
                "dispatches": list(c.counts),
                "launch": [_change(figure_change) for figure_change in (*_grid(c), *c.launch)],
                "metrics": [_change(figure_change) for figure_change in c.metrics],
            }
            for c in diff.kernels
        ],
        "only_left": [k.id for k in diff.only_left],
        "only_right": [k.id for k in diff.only_right],
        "notes": list(diff.notes),
    }
    json.dump(document, stream, indent=1, ensure_ascii=False)
    stream.write("\n")


def _change(change: Change) -> dict[str, Any]:
    return {**to_builtins(change), "ratio": change.ratio}
