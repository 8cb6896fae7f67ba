"""The tree of the kernels' table: the session's kernels and failures with their figures, targets
and configurations folded under kernels; its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from ....inspector.explain.view import file_name
from ....inspector.model import ErrorRecord
from ...session import Session, SessionKernel
from .kernel_columns import COLUMNS, Value

_UNITS = {"num_warps": "w", "num_stages": "s"}
"""Settings whose value is followed by a letter in place of their name."""


class Leaf(Struct, frozen=True):
    """One kernel or one failure, with everything that rows, filters and sorting need.

    Attributes:
        entry: the kernel; None for a failure.
        error: the failure; None for a kernel.
        values: column -> figure.
        before: the kernel in the previous run; None if there is none to compare with.
        former: column -> figure in the previous run.
        text: the lower-case text that a filter's words are searched in.
        stale: whether it stems from the previous run and the present one has not replaced it yet.
        left_over: whether the present run has ended without replacing it.
        removed: the name of its file if that was removed; "" otherwise.
    """

    key: str
    entry: SessionKernel | None
    error: ErrorRecord | None
    values: Mapping[str, Value]
    before: SessionKernel | None
    former: Mapping[str, Value]
    text: str
    arch: str
    case: str
    stale: bool = False
    left_over: bool = False
    removed: str = ""

    @property
    def changed(self) -> bool:
        """Whether a figure differs from the previous run's."""
        return self.before is not None and self.former != self.values


class Leaves:
    """Makes the leaves of a session, and reuses those whose report has not changed."""

    def __init__(self) -> None:
        self._cache: dict[str, Leaf] = {}

    def of(self, session: Session) -> list[Leaf]:
        """The leaves of a session: kernels in the order of the targets, then failures."""
        leaves = [self._leaf(entry, session) for entry in session.ordered()]
        self._cache = {leaf.key: leaf for leaf in leaves}
        leaves += [_failure(f"!{n}", error) for n, error in enumerate(session.errors)]
        return leaves

    def _leaf(self, entry: SessionKernel, session: Session) -> Leaf:
        """The leaf of a kernel: the cached one, updated where the session has changed around it."""
        key = entry.key
        cached = self._cache.get(key)
        former_entry, stale = session.before(entry), key in session.stale
        left_over, removed_file = session.left_over(key), session.removed_file(entry)
        removed = removed_file.name if removed_file is not None else ""
        if cached is None or cached.entry is None or cached.entry.report is not entry.report:
            return Leaf(
                key=key,
                entry=entry,
                error=None,
                values=figures(entry),
                before=former_entry,
                former=figures(former_entry) if former_entry is not None else {},
                text=_searched(entry),
                arch=entry.report.arch or "unknown target",
                case=short_case(entry.case),
                stale=stale,
                left_over=left_over,
                removed=removed,
            )
        age = (stale, left_over, removed)
        same_age = (cached.stale, cached.left_over, cached.removed) == age
        if cached.before is former_entry and same_age and cached.entry is entry:
            return cached
        former = figures(former_entry) if former_entry is not None else {}
        return replace(
            cached,
            entry=entry,
            before=former_entry,
            former=former,
            stale=stale,
            left_over=left_over,
            removed=removed,
        )


def _failure(key: str, error: ErrorRecord) -> Leaf:
    """The leaf of a failure, whose kernel reads `name[case] on arch`."""
    name, _, arch = (error.kernel or "").partition(" on ")
    case = name.partition("[")[2].removesuffix("]") or name
    parts = (error.file, error.kernel, error.stage, error.message, "failed")
    text = " ".join(part for part in parts if part).lower()
    return Leaf(
        key=key,
        entry=None,
        error=error,
        values={},
        before=None,
        former={},
        text=text,
        arch=arch or "unknown target",
        case=short_case(case),
    )


def figures(entry: SessionKernel) -> dict[str, Value]:
    """Column -> a kernel's figure in it."""
    return {name: column.read(entry) for name, column in COLUMNS.items()}


def _searched(entry: SessionKernel) -> str:
    """The lower-case text that filters search: names, configuration, rules of findings."""
    report, variant = entry.report, entry.report.variant
    parts = [report.name, entry.path, report.arch or "", entry.case]
    if variant is not None:
        parts.append(variant.qualname or "")
        parts += [f"{k}={v}" for k, v in variant.constexprs.items()]
        parts += [f"{k}={v}" for k, v in variant.options.items()]
    parts += [finding.rule for finding in report.findings]
    return " ".join(parts).lower()


def short_case(case: str) -> str:
    """An abbreviated case, `BM=64 BN=128 8w 2s`; the strip below the table shows it in full."""
    parts = []
    for part in case.split(", "):
        name, equals, value = part.partition("=")
        parts.append(f"{value}{_UNITS[name]}" if equals and name in _UNITS else part)
    return " ".join(parts)


_Rank = tuple[int, float, str]


class Node(Struct):
    """A row: a leaf, or the head of a group that can be folded.

    Attributes:
        leaf: None for the head of a group.
        note: a dimmed remark after the label.
        count: the number of leaves that pass the filter, the row itself included.
        total: the number of leaves without the filter.
    """

    key: str
    label: str
    depth: int
    leaf: Leaf | None = None
    children: list[Node] = field(default_factory=list)
    note: str = ""
    count: int = 1
    total: int = 1

    @property
    def has_kernel(self) -> bool:
        if self.leaf is not None:
            return self.leaf.entry is not None
        return any(leaf.entry is not None for leaf in self.leaves())

    def leaves(self) -> Iterable[Leaf]:
        """Yields the row's own leaf, or those of the rows below it."""
        if self.leaf is not None:
            yield self.leaf
        for child in self.children:
            yield from child.leaves()


def tree(leaves: Sequence[Leaf]) -> list[Node]:
    """The rows of kernels, with targets and configurations below them, in the leaves' order."""
    groups: dict[tuple[str, str], list[Leaf]] = {}
    for leaf in leaves:
        if leaf.entry is not None:
            groups.setdefault((_source_file(leaf.entry), leaf.entry.report.name), []).append(leaf)
    for leaf in leaves:
        if leaf.error is not None:
            groups.setdefault(_group_key(leaf.error, groups), []).append(leaf)
    names: dict[str, int] = {}
    for _, name in groups:
        names[name] = names.get(name, 0) + 1
    nodes = []
    for (path, name), members in groups.items():
        note = file_name(path) if names[name] > 1 else ""
        if not name:  # failures of a whole file, not of one of its kernels
            nodes += [Node(leaf.key, file_name(path), 0, leaf) for leaf in members]
        elif len(members) == 1:
            leaf = members[0]
            label = f"{name}  {leaf.case}" if leaf.entry is not None and leaf.case else name
            nodes.append(Node(leaf.key, label, 0, leaf, note=note))
        else:
            key = f"{path}::{name}"
            nodes.append(_group(key, name, 0, children=_children(key, members), note=note))
    return nodes


def _group(key: str, label: str, depth: int, *, children: list[Node], note: str = "") -> Node:
    """The head of a group of rows, all of whose leaves are visible."""
    count = sum(child.count for child in children)
    return Node(key, label, depth, children=children, note=note, count=count, total=count)


def _source_file(entry: SessionKernel) -> str:
    """The file of a kernel's source, which its artifacts for several targets share."""
    source = entry.report.source
    return source.file if source is not None else entry.path


def _group_key(error: ErrorRecord, groups: Mapping[tuple[str, str], object]) -> tuple[str, str]:
    """(file, kernel) of a failure: one at `matmul[case] on gfx942` belongs to `matmul`."""
    name = (error.kernel or "").partition(" on ")[0].partition("[")[0]
    path = error.file or ""
    if (path, name) in groups or not name:
        return path, name
    candidates = [key for key in groups if key[1] == name and file_name(key[0]) == file_name(path)]
    return candidates[0] if candidates else (path, name)


def _children(key: str, members: Sequence[Leaf]) -> list[Node]:
    """The rows below a kernel: configurations, targets, or targets with configurations below."""
    by_arch: dict[str, list[Leaf]] = {}
    for leaf in members:
        by_arch.setdefault(leaf.arch, []).append(leaf)
    several_files = len({leaf.entry.path for leaf in members if leaf.entry is not None}) > 1

    def node(leaf: Leaf, label: str, depth: int) -> Node:
        note = file_name(leaf.entry.path) if several_files and leaf.entry is not None else ""
        return Node(leaf.key, label, depth, leaf, note=note if note != label else "")

    unnamed = [leaf for leaf in members if leaf.entry is not None and not leaf.case]
    settings = dict.fromkeys(name for leaf in unnamed for name in _settings(leaf))
    differing = [name for name in settings if len({_setting(leaf, name) for leaf in unnamed}) > 1]
    has_recompiled = any(leaf.entry is not None and leaf.entry.tried for leaf in members)

    def label_of(leaf: Leaf) -> str:
        """The case; without one the settings that tell the members apart, or the file."""
        if leaf.case or leaf.entry is None:
            return leaf.case or "unnamed case"
        if has_recompiled:
            return "as launched"
        own = short_case(", ".join(f"{name}={_setting(leaf, name)}" for name in differing))
        return own or (file_name(leaf.entry.path) if several_files else "unnamed case")

    if len(by_arch) == 1:
        return [node(leaf, label_of(leaf), 1) for leaf in members]
    nodes = []
    for arch, arch_leaves in by_arch.items():
        if len(arch_leaves) == 1:
            nodes.append(node(arch_leaves[0], f"{arch}  {arch_leaves[0].case}".rstrip(), 1))
            continue
        below = [node(leaf, label_of(leaf), 2) for leaf in arch_leaves]
        nodes.append(_group(f"{key}@{arch}", arch, 1, children=below))
    return nodes


def _settings(leaf: Leaf) -> dict[str, object]:
    """The types of arguments, constexprs and options that a kernel was compiled with."""
    variant = leaf.entry.report.variant if leaf.entry is not None else None
    if variant is None:
        return {}
    return {**variant.signature, **variant.constexprs, **variant.options}


def _setting(leaf: Leaf, name: str) -> str:
    return str(_settings(leaf).get(name, "-"))


def filtered_nodes(nodes: Iterable[Node], test: Callable[[Leaf], bool]) -> list[Node]:
    """The rows with at least one leaf that passes the test, without their other leaves."""
    filtered = []
    for node in nodes:
        if node.leaf is not None:
            if test(node.leaf):
                filtered.append(node)
            continue
        below = filtered_nodes(node.children, test)
        if below:
            count = sum(child.count for child in below)
            filtered.append(replace(node, children=below, count=count))
    return filtered


def ordered(nodes: Sequence[Node], column_name: str, reverse: bool) -> list[Node]:
    """Rows sorted by a column, the worst first; unknown figures come last in either direction.

    The head of a group is placed where the first row of the group belongs.
    """
    for node in nodes:
        if node.children:
            node.children = ordered(node.children, column_name, reverse)
    if column_name == "order":
        return sorted(nodes, key=_run_order, reverse=reverse)
    if column_name == "name":
        return sorted(nodes, key=lambda node: node.label.lower(), reverse=reverse)
    ranked: list[tuple[_Rank, int, Node]] = []
    unknown: list[Node] = []
    descending = is_descending(column_name, reverse)
    for number, node in enumerate(nodes):
        rank = _rank(node, column_name)
        if rank is None:
            unknown.append(node)
        else:
            # The number keeps rows of equal rank in their order in either direction.
            ranked.append((rank, -number if descending else number, node))
    ranked.sort(key=lambda item: item[:2], reverse=descending)
    return [node for _, _, node in ranked] + unknown


def is_descending(column_name: str, reverse: bool) -> bool:
    """Whether a column's figures fall from the top to the bottom."""
    if column_name in ("order", "name"):
        return reverse
    worst_is_most = COLUMNS[column_name].better < 0
    return worst_is_most != reverse


def _run_order(node: Node) -> tuple[int, int]:
    while node.leaf is None:
        node = node.children[0]
    entry = node.leaf.entry
    return entry.order if entry is not None else (1 << 30, 0)


def _rank(node: Node, column_name: str) -> _Rank | None:
    """The sort key of a row's figure, that of its first leaf; None where it is unknown."""
    while node.leaf is None:
        node = node.children[0]
    leaf = node.leaf
    if leaf.error is not None:
        # A failure is worse than any finding, and has no figure in other columns.
        return (0, 1e18, "") if column_name == "findings" else None
    value = leaf.values.get(column_name)
    if isinstance(value, str):
        return (1, 0.0, value)
    return None if value is None else (0, float(value), "")


def flat(nodes: Iterable[Node], is_open: Callable[[Node], bool]) -> list[Node]:
    """The visible rows: those that are folded away are left out."""
    rows: list[Node] = []
    for node in nodes:
        rows.append(node)
        if node.children and is_open(node):
            rows += flat(node.children, is_open)
    return rows
