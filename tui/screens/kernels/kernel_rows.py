"""The rows of the kernels' table: those of the session, sorted, folded and filtered by terms.

Terms are typed after `/`, and a row must match all of them:

attn gfx942          words of the name, file, target, configuration or a rule
sev:error            it has a finding of that severity
vgpr>128 occ<=2      a figure of a column, a constexpr, an option or a metric
lds>32K              K and M are suffixes for 1024 and 1024²
arch:gfx95 name:fwd  a word of that part alone (arch, name, file, case, rule)
is:failed            failed, marked, front, changed
-softmax             rows that do not match the term
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from ....inspector.model import KernelReport
from ...preferences import State
from ...session import SEVERITIES, Session
from ...widgets.table import ColumnHead, TableRow
from .kernel_columns import ALIASES, COLUMNS, KernelColumn, Value, chosen, fitting
from .kernel_tree import (
    Leaf,
    Leaves,
    Node,
    figures,
    filtered_nodes,
    flat,
    is_descending,
    ordered,
    tree,
)
from .row_cells import DELTA_CELLS, row_of

LeafTest = Callable[[Leaf], bool]
_WORDS = re.compile(r'(?:[^\s"]|"[^"]*")+')
_CONDITION = re.compile(r"([A-Za-z_][\w.]*)(>=|<=|!=|==|>|<|=)(.*)")
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}
_SIZES = {"k": 1024, "m": 1024 * 1024}
_FAILED = ("failed", "error", "errors")
PARTS = ("arch", "name", "file", "case", "rule", "sev", "is")


class FilterError(ValueError):
    """A filter cannot be understood; the message says why."""


class KernelSets(Struct, frozen=True):
    """Kernels that `is:marked` and `is:front` select, by key."""

    marked: frozenset[str] = frozenset()
    front: frozenset[str] = frozenset()


def parse(text: str, sets: KernelSets) -> LeafTest:
    """Parses a filter into a test of rows.

    Raises:
        FilterError: a term cannot be understood.
    """
    tests = [_term(term, sets) for term in _WORDS.findall(text)]
    return lambda leaf: all(test(leaf) for test in tests)


def _term(term: str, sets: KernelSets) -> LeafTest:
    """The test of one term: negated, quoted, `part:text`, a condition, or a word."""
    if term[:1] in "-!" and len(term) > 1:
        negated = _term(term[1:], sets)
        return lambda leaf: not negated(leaf)
    if term[:1] == '"':  # quoted terms are searched as they are
        quoted = term.replace('"', "").lower()
        return lambda leaf: quoted in leaf.text
    part, colon, text = term.replace('"', "").partition(":")
    if colon and part in PARTS and not part.startswith("is"):
        return _part(part, text.lower())
    if colon and part == "is":
        return _state(text.lower(), sets)
    match = _CONDITION.fullmatch(term)
    if match is not None:
        return _condition(*match.groups(), term=term)
    lowered = term.lower()
    return lambda leaf: lowered in leaf.text


def _part(part: str, text: str) -> LeafTest:
    if part == "sev":
        names = [name for name in SEVERITIES if name.startswith(text)]
        if text and not names:
            raise FilterError(f"sev:{text}: there is {', '.join(SEVERITIES)}")
        return lambda leaf: leaf.entry is not None and any(map(leaf.entry.count, names))
    return lambda leaf: text in _of_part(leaf, part).lower()


def _of_part(leaf: Leaf, part: str) -> str:
    """The text of a row that `part:` searches."""
    entry, error = leaf.entry, leaf.error
    if entry is None:
        assert error is not None
        return (error.file or "") if part == "file" else (error.kernel or "")
    if part == "arch":
        return entry.report.arch or ""
    if part == "name":
        return entry.report.name
    if part == "file":
        return entry.path
    if part == "case":
        return entry.case
    return " ".join(finding.rule for finding in entry.report.findings)


def _state(state: str, sets: KernelSets) -> LeafTest:
    """The test of `is:STATE`; a state that is still being typed matches every row."""
    if state in _FAILED:
        return lambda leaf: leaf.error is not None
    if state == "marked":
        return lambda leaf: leaf.key in sets.marked
    if state == "front":
        return lambda leaf: leaf.key in sets.front
    if state == "changed":
        return lambda leaf: leaf.changed
    states = ("failed", "marked", "front", "changed")
    if any(name.startswith(state) for name in states):
        return lambda leaf: True
    raise FilterError(f"is:{state}: there is {', '.join(states)}")


def _condition(name: str, sign: str, typed: str, *, term: str) -> LeafTest:
    """The test of a condition on a figure, constexpr, option or metric."""
    column = ALIASES.get(name.lower(), name.lower())
    compare = _COMPARE[sign]
    if typed == "":
        return lambda leaf: True
    limit = _number(typed)
    if column == "findings":
        return lambda leaf: (
            leaf.entry is not None
            and limit is not None
            and compare(len(leaf.entry.report.findings), limit)
        )
    if column in COLUMNS:
        if limit is None and sign not in ("=", "==", "!="):
            raise FilterError(f"{term}: {typed} is not a number")
        return lambda leaf: _holds(compare, leaf.values.get(column), limit, typed)
    lowered = term.lower()

    def test(leaf: Leaf) -> bool:
        exists, value = _setting(leaf, name)
        if not exists:  # no such name: `a=b` may still be part of a text
            return sign == "=" and lowered in leaf.text
        return _holds(compare, value, limit, typed)

    return test


def _setting(leaf: Leaf, name: str) -> tuple[bool, object]:
    """Whether a kernel has a constexpr, option or metric of a name, and its value."""
    if leaf.entry is None:
        return False, None
    variant = leaf.entry.report.variant
    if variant is not None:
        for settings in (variant.constexprs, variant.options):
            if name in settings:
                return True, settings[name]
    value = leaf.entry.metric(name)
    return value is not None, value


def _holds(
    compare: Callable[[Any, Any], bool], value: object, limit: float | None, typed: str
) -> bool:
    """Whether a comparison holds: of numbers, else of texts for equality; False for unknowns."""
    if value is None:
        return False
    if limit is not None and isinstance(value, int | float) and not isinstance(value, bool):
        return compare(value, limit)
    if compare in (operator.eq, operator.ne):
        return compare(str(value).lower(), typed.lower())
    return False


def _number(text: str) -> float | None:
    factor = _SIZES.get(text[-1:].lower(), 1)
    try:
        return float(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        return None


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
    from ....inspector.compare.sweep.swept_points import front

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
    path = report.file
    types = tuple(sorted(variant.signature.items()))
    return path, variant.kernel, variant.arch, types, tuple(sorted(fixed.items()))
