"""Draws a row of the kernels' table: the first column, then figures or a failure's message."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from ....inspector.explain.view import file_name
from ....inspector.model import ErrorRecord
from ...session import SessionKernel
from ...widgets.bars import BETTER, WORSE, Piece, bar
from ...widgets.table import TableRow
from .kernel_columns import UNKNOWN, KernelColumn, Value
from .kernel_tree import Leaf, Node

DELTA_CELLS = 8
"""Cells of what differs from the baseline, with its mark."""
_OLD, _REMOVED = "old", "removed"
"""Before the label of a kernel that the last run should have replaced, or whose file is gone."""


def row_of(
    node: Node,
    columns: Sequence[KernelColumn],
    bar_cells: int,
    *,
    baseline: Mapping[str, Value] | None,
    is_open: bool,
    marked: Container[str],
    stars: Container[str],
) -> TableRow:
    """The cells of a row."""
    leaf = node.leaf
    if leaf is None:
        name = _group_name(node, is_open, marked, stars)
        is_stale = all(member.stale or member.removed for member in node.leaves())
        deltas = 1 if baseline is None else DELTA_CELLS
        return TableRow(name, _group_figures(node, columns, deltas), faded=is_stale)
    name = _leaf_name(node, leaf, marked, stars)
    if leaf.error is not None:
        return TableRow(name, message=_message(leaf.error))
    assert leaf.entry is not None
    cells = _figures(leaf, leaf.entry, columns, bar_cells, baseline)
    return TableRow(name, cells, faded=leaf.stale or bool(leaf.removed))


def _leaf_name(
    node: Node, leaf: Leaf, marked: Container[str], stars: Container[str]
) -> tuple[Piece, ...]:
    """Mark, sign and label of a kernel or a failure."""
    mark = ("●", "mark") if node.key in marked else (" ", "")
    sign = ("  ", "")
    if leaf.error is not None:
        sign = ("✗ ", "error")
    elif leaf.key in stars:
        sign = ("★ ", "star")
    style = "name" if node.depth == 0 else ""
    if leaf.entry is not None and leaf.entry.tried:
        style = "mark"
    age = ("", "")
    if leaf.removed or leaf.left_over:
        age = (f"{_REMOVED if leaf.removed else _OLD} ", "other")
    return (mark, ("  " * node.depth, ""), sign, age, (node.label, style), *_note(node))


def _group_name(
    node: Node, is_open: bool, marked: Container[str], stars: Container[str]
) -> tuple[Piece, ...]:
    """Mark, fold sign, label and counts of the head of a group.

    A folded group's head shows whether any of its kernels is marked and how many have a star.
    """
    hidden_keys = [] if is_open else [leaf.key for leaf in node.leaves()]
    mark = (" ", "")
    if node.key in marked:
        mark = ("●", "mark")
    elif any(key in marked for key in hidden_keys):
        mark = ("○", "mark")
    sign = ("▾ " if is_open else "▸ ", "group")
    count = f"{node.count}" if node.count == node.total else f"{node.count} of {node.total}"
    pieces = [mark, ("  " * node.depth, ""), sign, (node.label, "group"), (f" ({count})", "dim")]
    star_count = sum(key in stars for key in hidden_keys)
    if star_count:
        pieces.append((f" ★{star_count}", "star"))
    removed = sum(bool(leaf.removed) for leaf in node.leaves())
    old = sum(leaf.left_over and not leaf.removed for leaf in node.leaves())
    pieces += [(f" {n} {age}", "other") for n, age in ((removed, _REMOVED), (old, _OLD)) if n]
    if any(leaf.changed for leaf in node.leaves()):
        pieces.append((" ~", "other"))
    return (*pieces, *_note(node))


def _note(node: Node) -> tuple[Piece, ...]:
    return ((f" {node.note}", "dim"),) if node.note else ()


def _figures(
    leaf: Leaf,
    entry: SessionKernel,
    columns: Sequence[KernelColumn],
    bar_cells: int,
    baseline: Mapping[str, Value] | None,
) -> tuple[tuple[Piece, ...], ...]:
    """The cells of a kernel's figures, with what differs from the baseline or the run before."""
    cells = []
    for column in columns:
        value = leaf.values.get(column.name)
        change = (" ", "")
        if baseline is not None and column.has_numbers:
            change = _delta(column, value, baseline.get(column.name))
        elif baseline is None and leaf.before is not None:
            change = change_mark(column, value, leaf.former.get(column.name))
        cells.append(_cell(column, entry, value, bar_cells, change))
    return tuple(cells)


def _group_figures(
    node: Node, columns: Sequence[KernelColumn], deltas: int
) -> tuple[tuple[Piece, ...], ...]:
    """The cells of a group's best and worst figures."""
    kernels = [(leaf, leaf.entry) for leaf in node.leaves() if leaf.entry is not None]
    entries = [entry for _, entry in kernels]
    return tuple(
        (
            *_span_cell(column, entries, [leaf.values.get(column.name) for leaf, _ in kernels]),
            (" " * (deltas if column.has_numbers else 1), ""),
        )
        for column in columns
    )


def _cell(
    column: KernelColumn, entry: SessionKernel, value: Value, bars: int, change: Piece
) -> tuple[Piece, ...]:
    if column.draw is not None:
        return (*column.draw(entry), change)
    if isinstance(value, str):
        return ((value, column.style(value)), change)
    if value is None:
        return ((UNKNOWN, "dim"), change)
    text, style = column.form(value), column.style(value)
    if column.bar_maximum is None:
        return ((text, style), change)
    maximum = column.bar_maximum(entry)
    share = value / maximum if maximum else None
    of_maximum = f"/{maximum:g}" if column.shows_maximum and maximum else ""
    figure = f"{text}{of_maximum}".rjust(column.width)
    return (*bar(share, bars, style or "bar"), (figure, style), change)


def _span_cell(
    column: KernelColumn, entries: Sequence[SessionKernel], values: Sequence[Value]
) -> tuple[Piece, ...]:
    """A cell of a folded row: the best and the worst figure of its kernels."""
    present = [value for value in values if value is not None]
    if not present:
        return ((UNKNOWN, "dim"),)
    if column.draw is not None:
        worst = max(entries, key=lambda entry: _as_number(column.read(entry)))
        return column.draw(worst)
    texts = [value for value in present if isinstance(value, str)]
    if texts:
        distinct = dict.fromkeys(texts)
        text = texts[0] if len(distinct) == 1 else f"{len(distinct)} kinds"
        return ((text, "dim"),)
    numbers = [value for value in present if not isinstance(value, str)]
    low, high = min(numbers), max(numbers)
    best_figure, worst_figure = (high, low) if column.better > 0 else (low, high)
    form = column.range_form or column.form
    first, last = form(best_figure), form(worst_figure)
    style = column.style(worst_figure)
    return ((first if first == last else f"{first}–{last}", style),)


def change_mark(column: KernelColumn, value: Value, former: Value) -> Piece:
    """The mark of a figure that changed: better, worse, or `~` where neither can be said."""
    if value == former:
        return (" ", "")
    comparable = isinstance(value, int | float) and isinstance(former, int | float)
    if not comparable or column.better == 0:
        return ("~", "other")
    assert isinstance(value, int | float)
    assert isinstance(former, int | float)
    is_better = (value > former) == (column.better > 0)
    return (BETTER, "better") if is_better else (WORSE, "worse")


def _delta(column: KernelColumn, value: Value, baseline: Value) -> Piece:
    """What a figure has more or less than the baseline's, with the mark of the change."""
    if not isinstance(value, int | float) or not isinstance(baseline, int | float):
        return (" " * DELTA_CELLS, "")
    if value == baseline:
        return ("=  ".rjust(DELTA_CELLS), "dim")
    mark, style = change_mark(column, value, baseline)
    sign = "+" if value > baseline else "−"
    return (f"{sign}{column.form(abs(value - baseline))} {mark}".rjust(DELTA_CELLS), style)


def _as_number(value: Value) -> float:
    """A figure by which kernels are ranked; unknown ones are the least."""
    return value if isinstance(value, int | float) else 0


def _message(error: ErrorRecord) -> tuple[Piece, ...]:
    """A failure in one line, with its file's name in place of the path."""
    message = " ".join(error.message.split())
    if error.file and message.startswith(f"{error.file}:"):
        message = file_name(error.file) + message.removeprefix(error.file)
    return ((f"{error.stage}: ", "error"), (message, ""))
