"""Draws a row of the kernels' table: the first column, then figures or a failure's message."""

from __future__ import annotations

from collections.abc import Container, Sequence

from ....inspector.explain.view import file_name
from ....inspector.model import ErrorRecord
from ...session import SessionKernel
from ...widgets.bars import Piece
from ...widgets.table_rows import Row
from .columns import Column, cell, span_cell
from .rows import Leaf, Node


def row_of(
    node: Node,
    columns: Sequence[Column],
    bar_cells: int,
    *,
    is_open: bool,
    marked: Container[str],
    stars: Container[str],
) -> Row:
    """The cells of a row.

    Args:
        node: the row.
        columns: of the table, without the first.
        bar_cells: width of a bar.
        is_open: whether the rows under it are visible.
        marked: keys of the kernels that the user marked.
        stars: keys of the kernels on a Pareto front.
    """
    leaf = node.leaf
    if leaf is None:
        name = _group_name(node, is_open, marked, stars)
        is_stale = all(member.stale for member in node.leaves())
        return Row(name, _group_figures(node, columns), faded=is_stale)
    name = _leaf_name(node, leaf, marked, stars)
    if leaf.error is not None:
        return Row(name, message=_message(leaf.error))
    assert leaf.entry is not None
    return Row(name, _figures(leaf, leaf.entry, columns, bar_cells), faded=leaf.stale)


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
    return (mark, ("  " * node.depth, ""), sign, (node.label, style), *_note(node))


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
    if any(leaf.changed for leaf in node.leaves()):
        pieces.append((" ~", "other"))
    return (*pieces, *_note(node))


def _note(node: Node) -> tuple[Piece, ...]:
    return ((f" {node.note}", "dim"),) if node.note else ()


def _figures(
    leaf: Leaf, entry: SessionKernel, columns: Sequence[Column], bar_cells: int
) -> tuple[tuple[Piece, ...], ...]:
    """The cells of a kernel's figures."""
    return tuple(
        cell(
            column,
            entry,
            leaf.values.get(column.name),
            leaf.former.get(column.name),
            bars=bar_cells,
            comparable=leaf.before is not None,
        )
        for column in columns
    )


def _group_figures(node: Node, columns: Sequence[Column]) -> tuple[tuple[Piece, ...], ...]:
    """The cells of a group's best and worst figures."""
    kernels = [(leaf, leaf.entry) for leaf in node.leaves() if leaf.entry is not None]
    entries = [entry for _, entry in kernels]
    return tuple(
        span_cell(column, entries, [leaf.values.get(column.name) for leaf, _ in kernels])
        for column in columns
    )


def _message(error: ErrorRecord) -> tuple[Piece, ...]:
    """A failure in one line, with its file's name in place of the path."""
    message = " ".join(error.message.split())
    if error.file and message.startswith(f"{error.file}:"):
        message = file_name(error.file) + message.removeprefix(error.file)
    return ((f"{error.stage}: ", "error"), (message, ""))
