"""What the kernels' table lists: rows of the session, filtered, sorted and folded, and cells."""

from __future__ import annotations

from ....inspector.explain.view import file_name
from ....inspector.model import KernelReport
from ...session import Entry, Session
from ...state import State
from ...widgets.bars import Piece
from ...widgets.table import Head, Row
from .columns import COLUMNS, Column, cell, chosen, span_cell
from .filter import FilterError, Sets, Test, parse
from .rows import (
    Leaf,
    Leaves,
    Node,
    downwards,
    filtered_nodes,
    flat,
    ordered,
    tree,
)

FIRST_SORT = "findings"
_FEW = 40


class Listing:
    """The rows in sight and why.

    Args:
        state: the columns and the order that are kept.

    Attributes:
        rows: those in sight, from the top.
        tops: the outermost of them, folded or not.
        leaves: all kernels and failures, whatever the filter.
        tuned: the configurations of autotuned kernels, as `fronts` takes them.
        shown: how many of those meet the filter.
        kernels: how many rows at the top are kernels, not failures alone.
        columns: of the table.
        marked: keys of marked kernels, in the order in which they were marked.
        stars: keys of configurations on a Pareto front.
        text: the filter as it was typed.
        fault: why the filter means nothing; empty: it does.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._known = Leaves()
        self._folds: dict[str, bool] = {}  # key -> whether open, where the user said so
        self._kernels = 0  # at the top, without the filter
        self._one = False  # whether there is one kernel alone
        self._found = False  # whether the filter leaves few rows
        self._revision = -1
        self._whole: list[Node] = []  # the tree without the filter
        self._order: tuple[str, bool] | None = None  # how that is sorted
        self.rows: list[Node] = []
        self.tops: list[Node] = []
        self.leaves: list[Leaf] = []
        self.tuned: list[tuple[str, KernelReport]] = []
        self.shown = 0
        self.kernels = 0
        self.columns: tuple[Column, ...] = ()
        self.marked: dict[str, None] = {}
        self.stars: frozenset[str] = frozenset()
        self.text = ""
        self.fault = ""

    # ------------------------------------------------------------------ which rows

    def update(self, session: Session, width: int, bars: int) -> None:
        """Works out the rows as the session stands.

        Args:
            session: it.
            width: of the table.
            bars: cells of a bar.
        """
        self.columns = chosen(self._state.columns, width, bars)
        if self._revision != session.revision:
            self._revision = session.revision
            self.leaves = self._known.of(session)
            self.tuned = self._tuned()
            self._whole, self._order = tree(self.leaves), None
            self._kernels = sum(node.has_kernel for node in self._whole)
            # Failures beside it do not fold the one kernel that there is.
            self._one = self._kernels == 1
        by, reverse = order = self.sort, self._state.reverse
        if self._order != order:
            self._order = order
            self._whole = ordered(self._whole, by, reverse)
        test = self._test()
        # What is left keeps its order, but a fold may have lost what it stood there for.
        self.tops = _filtered(self._whole, test, by, reverse) if test else self._whole
        self.shown = sum(top.count for top in self.tops)
        # What was looked for is not hidden in a fold, unless it is too much to see at once.
        self._found = test is not None and self.shown <= _FEW
        self.rows = flat(self.tops, self.is_open)
        self.kernels = sum(top.has_kernel for top in self.tops) if test else self._kernels

    def _test(self) -> Test | None:
        self.fault = ""
        if not self.text:
            return None
        try:
            return parse(self.text, Sets(frozenset(self.marked), self.stars))
        except FilterError as error:
            self.fault = str(error)
            return None

    def find(self, key: str) -> int | None:
        """Where a row stands."""
        return next((i for i, node in enumerate(self.rows) if node.key == key), None)

    def _tuned(self) -> list[tuple[str, KernelReport]]:
        tuned = []
        for leaf in self.leaves:
            variant = leaf.entry.report.variant if leaf.entry is not None else None
            if leaf.entry is not None and variant is not None and variant.tuning:
                tuned.append((leaf.key, leaf.entry.report))
        return tuned

    # ------------------------------------------------------------------ order

    @property
    def sort(self) -> str:
        """The column by which it is sorted, or "order" or "name"."""
        name = self._state.sort
        return name if name in COLUMNS or name in ("order", "name") else FIRST_SORT

    @property
    def sort_title(self) -> str:
        """The same in words."""
        if self.sort == "order":
            return "the run's order"
        return "name" if self.sort == "name" else COLUMNS[self.sort].title

    @property
    def sorted_by(self) -> tuple[str, bool]:
        """The same as the table wants it: the column, and whether it falls."""
        return self.sort, downwards(self.sort, self._state.reverse)

    def sort_by(self, name: str) -> None:
        """Sorts by a column."""
        self._state.sort, self._state.reverse = name, False

    def sort_by_next(self) -> None:
        """Sorts by the next of: name, the columns shown, the run's order."""
        names = ["name", *(column.name for column in self.columns), "order"]
        at = names.index(self.sort) + 1 if self.sort in names else 0
        self.sort_by(names[at % len(names)])

    # ------------------------------------------------------------------ folds

    def is_open(self, node: Node) -> bool:
        """Whether what belongs to a row is in sight; a kernel that is alone is open at first."""
        return self._folds.get(node.key, self._found or (self._one and node.depth == 0))

    def fold(self, at: int) -> str | None:
        """Folds or unfolds a row, or the fold that it stands in.

        Returns:
            The key of what was folded; None where nothing can be.
        """
        if not self.rows:
            return None
        depth = self.rows[at].depth
        if not self.rows[at].children:
            above = (i for i in range(at, -1, -1) if self.rows[i].depth < depth)
            at = next(above, -1)
        if at < 0:
            return None
        node = self.rows[at]
        self._folds[node.key] = not self.is_open(node)
        return node.key

    def fold_all(self) -> None:
        """Unfolds everything, or folds it if something is unfolded."""
        groups = [node for node in _every(self.tops) if node.children]
        unfold = not any(self.is_open(node) for node in groups)
        self._folds.update((node.key, unfold) for node in groups)

    # ------------------------------------------------------------------ drawing

    def heads(self, bars: int) -> tuple[Head, ...]:
        """The titles.

        Args:
            bars: cells of a bar.
        """
        return (Head("name", "  kernel", 0), *(column.head(bars) for column in self.columns))

    def row(self, at: int, bars: int) -> Row:
        """A row's cells."""
        node = self.rows[at]
        first = self._first(node)
        leaf = node.leaf
        if leaf is None:
            stale = all(leaf.stale for leaf in node.leaves())
            return Row(first, self._span(node), faded=stale)
        if leaf.error is not None:
            error = leaf.error
            message = " ".join(error.message.split())
            if error.file and message.startswith(f"{error.file}:"):
                message = file_name(error.file) + message.removeprefix(error.file)
            return Row(first, rest=((f"{error.stage}: ", "error"), (message, "")))
        assert leaf.entry is not None
        return Row(first, self._cells(leaf.entry, leaf, bars), faded=leaf.stale)

    def _cells(self, entry: Entry, leaf: Leaf, bars: int) -> tuple[tuple[Piece, ...], ...]:
        comparable, former = leaf.before is not None, leaf.former
        return tuple(
            cell(
                column,
                entry,
                leaf.values.get(column.name),
                former.get(column.name),
                bars=bars,
                comparable=comparable,
            )
            for column in self.columns
        )

    def _span(self, node: Node) -> tuple[tuple[Piece, ...], ...]:
        members = [(leaf.entry, leaf) for leaf in node.leaves() if leaf.entry is not None]
        entries = [entry for entry, _ in members]
        return tuple(
            span_cell(column, entries, [leaf.values.get(column.name) for _, leaf in members])
            for column in self.columns
        )

    def _first(self, node: Node) -> tuple[Piece, ...]:
        leaf = node.leaf
        closed = leaf is None and not self.is_open(node)
        within = [member.key for member in node.leaves()] if closed else []
        mark: Piece = (" ", "")
        if node.key in self.marked:
            mark = ("●", "mark")
        elif any(key in self.marked for key in within):
            mark = ("○", "mark")
        style = "group" if leaf is None else "name" if node.depth == 0 else ""
        if leaf is None:
            sign: Piece = ("▾ " if self.is_open(node) else "▸ ", "group")
        elif leaf.error is not None:
            sign = ("✗ ", "error")
        else:
            sign = ("★ ", "star") if leaf.key in self.stars else ("  ", "")
        if leaf is not None and leaf.entry is not None and leaf.entry.tried:
            style = "mark"
        pieces = [mark, ("  " * node.depth, ""), sign, (node.label, style)]
        if leaf is None:
            n, total = node.count, node.of
            pieces.append((f" ({n})" if n == total else f" ({n} of {total})", "dim"))
            stars = sum(key in self.stars for key in within)
            if stars:
                pieces.append((f" ★{stars}", "star"))
            if any(member.changed for member in node.leaves()):
                pieces.append((" ~", "other"))
        if node.note:
            pieces.append((f" {node.note}", "dim"))
        return tuple(pieces)


def _filtered(nodes: list[Node], test: Test, by: str, reverse: bool) -> list[Node]:
    """The rows that meet a test, in order."""
    filtered = filtered_nodes(nodes, test)
    # Without folds all stand as they stood.
    return ordered(filtered, by, reverse) if any(node.children for node in filtered) else filtered


def _every(nodes: list[Node]) -> list[Node]:
    return [descendant for node in nodes for descendant in (node, *_every(node.children))]
