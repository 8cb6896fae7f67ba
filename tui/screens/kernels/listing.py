"""The rows of the kernels' table: those of the session, filtered, sorted and folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ....inspector.model import KernelReport
from ...session import Session
from ...state import State
from ...widgets.table_rows import ColumnHead, TableRow
from .columns import COLUMNS, KernelColumn, Value, chosen, fitting
from .filter import FilterError, KernelSets, LeafTest, parse
from .leaves import Leaf, Leaves, figures
from .row_cells import DELTA_CELLS, row_of
from .tree import Node, filtered_nodes, flat, is_descending, ordered, tree

_FIRST_SORT = "findings"
_MAX_UNFOLDED = 40
"""A filter's result of at most this many kernels is shown unfolded."""


class Listing:
    """The visible rows of the table, with its filter, order, folds and marks.

    Attributes:
        roots: the outermost rows of the filtered tree, folded or not.
        leaves: all kernels and failures, whatever the filter.
        tuned: (key, report) of the configurations of autotuned kernels.
        shown: the number of leaves that pass the filter.
        kernels: the number of outermost rows that hold a kernel, not failures alone.
        columns: the table's columns after the first.
        default_columns: names of those that are shown where the user chooses none.
        baseline: column -> the baseline's figure; None without a baseline.
        marked: keys of marked kernels, in the order in which they were marked.
        stars: keys of configurations on a Pareto front.
        filter_error: why the filter cannot be understood; "" if it can.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._leaves = Leaves()
        self._revision = -1  # of the session that the rows show
        self._all_roots: list[Node] = []  # the tree without the filter
        self._sorted_by: tuple[str, bool] | None = None  # (column, reverse) of that tree's order
        self._kernel_count = 0  # outermost rows of that tree that are kernels
        self._open_by_user: dict[str, bool] = {}  # key -> whether the user unfolded or folded it
        self._opens_result = False  # whether the filter leaves few enough rows to unfold them
        self.rows: list[Node] = []
        self.roots: list[Node] = []
        self.leaves: list[Leaf] = []
        self.tuned: list[tuple[str, KernelReport]] = []
        self.shown = 0
        self.kernels = 0
        self.columns: tuple[KernelColumn, ...] = ()
        self.default_columns: tuple[str, ...] = ()
        self.baseline: dict[str, Value] | None = None
        self._known: frozenset[str] = frozenset(COLUMNS)  # columns in which a row has a figure
        self.marked: dict[str, None] = {}
        self.stars: frozenset[str] = frozenset()
        self.filter_text = ""
        self.filter_error = ""

    def update(self, session: Session, width: int, bars: int) -> None:
        """Computes the rows from the session, the filter and the order.

        Args:
            session: the kernels and failures.
            width: of the table, in cells.
            bars: width of a bar, in cells.
        """
        if self._revision != session.revision:
            self._revision = session.revision
            self.leaves = self._leaves.of(session)
            self._known = _known(self.leaves)
            self.baseline = figures(session.baseline) if session.baseline is not None else None
            self.tuned = list(_tuned(self.leaves))
            self._all_roots, self._sorted_by = tree(self.leaves), None
            self._kernel_count = sum(node.has_kernel for node in self._all_roots)
        self.columns = chosen(self._state.columns, width, bars, self._known)
        self.default_columns = fitting(width, bars, self._known)
        column_name, reverse = self.sort, self._state.reverse
        if self._sorted_by != (column_name, reverse):
            self._sorted_by = column_name, reverse
            self._all_roots = ordered(self._all_roots, column_name, reverse)
        test = self._parsed_filter()
        self.roots = (
            _filtered(self._all_roots, test, column_name, reverse) if test else self._all_roots
        )
        self.shown = sum(root.count for root in self.roots)
        self.kernels = sum(root.has_kernel for root in self.roots) if test else self._kernel_count
        self._opens_result = test is not None and self.shown <= _MAX_UNFOLDED
        self.rows = flat(self.roots, self.is_open)

    def _parsed_filter(self) -> LeafTest | None:
        """The filter as a test; None without one, or where `filter_error` says what is wrong."""
        self.filter_error = ""
        if not self.filter_text:
            return None
        try:
            return parse(self.filter_text, KernelSets(frozenset(self.marked), self.stars))
        except FilterError as error:
            self.filter_error = str(error)
            return None

    def find(self, key: str) -> int | None:
        """The index of the visible row with a key; None if there is none."""
        return next((i for i, node in enumerate(self.rows) if node.key == key), None)

    @property
    def sort(self) -> str:
        """The column that the rows are sorted by, or "order" (of the run) or "name"."""
        name = self._state.sort
        return name if name in COLUMNS or name in ("order", "name") else _FIRST_SORT

    @property
    def sort_title(self) -> str:
        """The name of the order, for the status line."""
        if self.sort == "order":
            return "the run's order"
        return "name" if self.sort == "name" else COLUMNS[self.sort].title

    @property
    def sorted_by(self) -> tuple[str, bool]:
        """The column that the rows are sorted by, and whether its figures fall."""
        return self.sort, is_descending(self.sort, self._state.reverse)

    def sort_by(self, name: str) -> None:
        self._state.sort, self._state.reverse = name, False

    def sort_by_next(self) -> None:
        """Sorts by the next of: name, the columns shown, the run's order."""
        names = ["name", *(column.name for column in self.columns), "order"]
        following = names.index(self.sort) + 1 if self.sort in names else 0
        self.sort_by(names[following % len(names)])

    def is_open(self, node: Node) -> bool:
        """Whether the rows under a row are visible.

        Groups that the user folded or unfolded stay so. Others are open if the filter's result is
        short, and at the outermost level if there is only one kernel (failures do not count).
        """
        open_at_first = self._opens_result or (self._kernel_count == 1 and node.depth == 0)
        return self._open_by_user.get(node.key, open_at_first)

    def fold(self, row: int) -> str | None:
        """Folds or unfolds the group that a row heads or belongs to.

        Returns:
            The group's key; None if the row belongs to no group.
        """
        group = self._group_of(row)
        if group is None:
            return None
        self._open_by_user[group.key] = not self.is_open(group)
        return group.key

    def _group_of(self, row: int) -> Node | None:
        """The row itself if it heads a group, else the head of the group that it belongs to."""
        if not self.rows:
            return None
        node = self.rows[row]
        if node.children:
            return node
        above = reversed(self.rows[: row + 1])
        return next((other for other in above if other.depth < node.depth), None)

    def fold_all(self) -> None:
        groups = [node for node in _descendants(self.roots) if node.children]
        unfold = not any(self.is_open(node) for node in groups)
        self._open_by_user.update((node.key, unfold) for node in groups)

    def heads(self, bars: int) -> tuple[ColumnHead, ...]:
        """The titles of the columns; `bars` is the width of a bar in cells."""
        columns = (
            column.head(bars, self._deltas, known=column.name in self._known)
            for column in self.columns
        )
        return (ColumnHead("name", "  kernel", 0), *columns)

    @property
    def _deltas(self) -> int:
        return 1 if self.baseline is None else DELTA_CELLS

    def row(self, number: int, bars: int) -> TableRow:
        """The cells of a visible row; `bars` is the width of a bar in cells."""
        node = self.rows[number]
        return row_of(
            node,
            self.columns,
            bars,
            baseline=self.baseline,
            is_open=self.is_open(node),
            marked=self.marked,
            stars=self.stars,
        )


def _known(leaves: list[Leaf]) -> frozenset[str]:
    """The columns in which a kernel has a figure; all, where there is no kernel yet."""
    kernels = [leaf.values for leaf in leaves if leaf.entry is not None]
    names = (name for values in kernels for name, value in values.items() if value is not None)
    return frozenset(names if kernels else COLUMNS)


def _tuned(leaves: list[Leaf]) -> Iterator[tuple[str, KernelReport]]:
    """Yields (key, report) of the configurations of autotuned kernels."""
    for leaf in leaves:
        variant = leaf.entry.report.variant if leaf.entry is not None else None
        if leaf.entry is not None and variant is not None and variant.tuning:
            yield leaf.key, leaf.entry.report


def _filtered(roots: list[Node], test: LeafTest, column_name: str, reverse: bool) -> list[Node]:
    filtered = filtered_nodes(roots, test)
    # A group stands where its first child does, and the filter may have dropped that child.
    has_groups = any(node.children for node in filtered)
    return ordered(filtered, column_name, reverse) if has_groups else filtered


def _descendants(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        yield from _descendants(node.children)


def on_fronts(reports: Iterable[tuple[str, KernelReport]]) -> frozenset[str]:
    """Keys of tuned configurations on the Pareto front of their kernel, case and target."""
    # Imported here because only tuned kernels need them.
    from ....inspector.compare.sweep.figures import figures_of
    from ....inspector.compare.sweep.pareto import front

    groups: dict[tuple[object, ...], list[tuple[str, KernelReport]]] = {}
    for key, report in reports:
        if report.variant is not None and report.variant.tuning:
            groups.setdefault(_launch_key(report), []).append((key, report))
    stars: set[str] = set()
    for members in groups.values():
        if len(members) > 1:
            best = front([figures_of(report) for _, report in members])
            stars.update(key for (key, _), star in zip(members, best, strict=True) if star)
    return frozenset(stars)


def _launch_key(report: KernelReport) -> tuple[object, ...]:
    """A key that the configurations tried for one launch share: everything but their tuning."""
    variant = report.variant
    assert variant is not None
    tuning = variant.tuning or {}
    fixed = {k: repr(v) for k, v in variant.constexprs.items() if k not in tuning}
    path = report.id.partition("::")[0]
    types = tuple(sorted(variant.signature.items()))
    return path, variant.kernel, variant.arch, types, tuple(sorted(fixed.items()))
