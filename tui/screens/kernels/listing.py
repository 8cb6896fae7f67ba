"""What the kernels' table lists: the rows of the session, filtered, sorted and folded."""

from __future__ import annotations

from collections.abc import Iterator

from ....inspector.model import KernelReport
from ...session import Session
from ...state import State
from ...widgets.table import Head, Row
from .columns import COLUMNS, Column, chosen
from .filter import FilterError, Sets, Test, parse
from .row_cells import row_of
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
_MAX_UNFOLDED = 40
"""Rows of a filter's result up to which it is shown without folds."""


class Listing:
    """The visible rows of the table, and the filter, order, folds and marks that they follow.

    Args:
        state: what is remembered from session to session: columns and order.

    Attributes:
        rows: the visible rows, from the top.
        tops: the outermost rows of the filtered tree, folded or not.
        leaves: all kernels and failures, whatever the filter.
        tuned: configurations of autotuned kernels, by key.
        shown: how many leaves meet the filter.
        kernels: how many outermost rows are kernels, not failures alone.
        columns: the table's, after the first.
        marked: keys of marked kernels, in the order in which they were marked.
        stars: keys of configurations on a Pareto front.
        text: the filter as it was typed.
        fault: why the filter cannot be understood; empty if it can.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._leaves = Leaves()
        self._revision = -1  # of the session that the rows show
        self._all_tops: list[Node] = []  # the tree without the filter
        self._sorted_by: tuple[str, bool] | None = None  # how that tree is sorted
        self._kernel_count = 0  # outermost rows of that tree that are kernels
        self._open_by_user: dict[str, bool] = {}  # key -> whether the user unfolded or folded it
        self._opens_result = False  # whether the filter leaves few enough rows to unfold them
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
        """Works out the rows from the session, the filter and the order.

        Args:
            session: what the runs have brought so far.
            width: of the table.
            bars: cells of a bar.
        """
        self.columns = chosen(self._state.columns, width, bars)
        if self._revision != session.revision:
            self._revision = session.revision
            self.leaves = self._leaves.of(session)
            self.tuned = list(_tuned(self.leaves))
            self._all_tops, self._sorted_by = tree(self.leaves), None
            self._kernel_count = sum(node.has_kernel for node in self._all_tops)
        by, reverse = self.sort, self._state.reverse
        if self._sorted_by != (by, reverse):
            self._sorted_by = by, reverse
            self._all_tops = ordered(self._all_tops, by, reverse)
        test = self._parsed_filter()
        self.tops = _filtered(self._all_tops, test, by, reverse) if test else self._all_tops
        self.shown = sum(top.count for top in self.tops)
        self.kernels = sum(top.has_kernel for top in self.tops) if test else self._kernel_count
        self._opens_result = test is not None and self.shown <= _MAX_UNFOLDED
        self.rows = flat(self.tops, self.is_open)

    def _parsed_filter(self) -> Test | None:
        """The filter as a test; None without one, or where `fault` says what is wrong with it."""
        self.fault = ""
        if not self.text:
            return None
        try:
            return parse(self.text, Sets(frozenset(self.marked), self.stars))
        except FilterError as error:
            self.fault = str(error)
            return None

    def find(self, key: str) -> int | None:
        """The number of the visible row with a key; None where there is none."""
        return next((i for i, node in enumerate(self.rows) if node.key == key), None)

    # ------------------------------------------------------------------ order

    @property
    def sort(self) -> str:
        """The column that the rows are sorted by, or "order" (of the run) or "name"."""
        name = self._state.sort
        return name if name in COLUMNS or name in ("order", "name") else FIRST_SORT

    @property
    def sort_title(self) -> str:
        """What the rows are sorted by, in words."""
        if self.sort == "order":
            return "the run's order"
        return "name" if self.sort == "name" else COLUMNS[self.sort].title

    @property
    def sorted_by(self) -> tuple[str, bool]:
        """The column that the rows are sorted by, and whether its figures fall."""
        return self.sort, downwards(self.sort, self._state.reverse)

    def sort_by(self, name: str) -> None:
        """Sorts by a column."""
        self._state.sort, self._state.reverse = name, False

    def sort_by_next(self) -> None:
        """Sorts by the next of: name, the columns shown, the run's order."""
        names = ["name", *(column.name for column in self.columns), "order"]
        following = names.index(self.sort) + 1 if self.sort in names else 0
        self.sort_by(names[following % len(names)])

    # ------------------------------------------------------------------ folds

    def is_open(self, node: Node) -> bool:
        """Whether the rows under a row are visible.

        What the user folded or unfolded stays so. Other rows are open in a short filter result,
        which would be hidden else, and at the top if there is only one kernel (failures beside it
        do not count).
        """
        open_at_first = self._opens_result or (self._kernel_count == 1 and node.depth == 0)
        return self._open_by_user.get(node.key, open_at_first)

    def fold(self, row: int) -> str | None:
        """Folds or unfolds a row; for one that nothing is under, the row that it is under.

        Returns:
            The key of what was folded or unfolded; None where there is nothing to fold.
        """
        group = self._group_of(row)
        if group is None:
            return None
        self._open_by_user[group.key] = not self.is_open(group)
        return group.key

    def _group_of(self, row: int) -> Node | None:
        """The row itself if others are under it, else the row that it is under."""
        if not self.rows:
            return None
        node = self.rows[row]
        if node.children:
            return node
        above = reversed(self.rows[: row + 1])
        return next((other for other in above if other.depth < node.depth), None)

    def fold_all(self) -> None:
        """Unfolds everything, or folds everything if anything is unfolded."""
        groups = [node for node in _descendants(self.tops) if node.children]
        unfold = not any(self.is_open(node) for node in groups)
        self._open_by_user.update((node.key, unfold) for node in groups)

    # ------------------------------------------------------------------ drawing

    def heads(self, bars: int) -> tuple[Head, ...]:
        """The titles of the columns, with bars of so many cells."""
        return (Head("name", "  kernel", 0), *(column.head(bars) for column in self.columns))

    def row(self, number: int, bars: int) -> Row:
        """The cells of a visible row, with bars of so many cells."""
        node = self.rows[number]
        return row_of(
            node,
            self.columns,
            bars,
            is_open=self.is_open(node),
            marked=self.marked,
            stars=self.stars,
        )


def _tuned(leaves: list[Leaf]) -> Iterator[tuple[str, KernelReport]]:
    """Configurations of autotuned kernels, by key."""
    for leaf in leaves:
        variant = leaf.entry.report.variant if leaf.entry is not None else None
        if leaf.entry is not None and variant is not None and variant.tuning:
            yield leaf.key, leaf.entry.report


def _filtered(tops: list[Node], test: Test, by: str, reverse: bool) -> list[Node]:
    """The rows that meet a test, in order."""
    filtered = filtered_nodes(tops, test)
    # A group stands where its first child does, and the filter may have dropped that child.
    has_groups = any(node.children for node in filtered)
    return ordered(filtered, by, reverse) if has_groups else filtered


def _descendants(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        yield from _descendants(node.children)
