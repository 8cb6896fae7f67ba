"""The rows of the kernels' table: a tree of kernels, arches and configurations, and failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from ....inspector.explain.view import file_name
from ....inspector.model import ErrorRecord, KernelReport
from ...session import Entry, Session
from .columns import COLUMNS, Value

_UNITS = {"num_warps": "w", "num_stages": "s"}


class Leaf(Struct, frozen=True):
    """One kernel or one failure, with all that rows, filters and sorting ask of it.

    Attributes:
        key: what the page calls it.
        entry: the kernel; None for a failure.
        error: the failure; None for a kernel.
        values: column -> figure.
        before: the kernel in the run before; None: there is none to compare with.
        former: column -> its figure.
        text: what a filter's words are looked for in, in small letters.
        arch: the target.
        case: the configuration in few cells.
        stale: whether the present run has not brought it (yet).
    """

    key: str
    entry: Entry | None
    error: ErrorRecord | None
    values: Mapping[str, Value]
    before: Entry | None
    former: Mapping[str, Value]
    text: str
    arch: str
    case: str
    stale: bool = False

    @property
    def changed(self) -> bool:
        """Whether a figure is another than in the run before."""
        return self.before is not None and self.former != self.values


class Node(Struct):
    """A row: a leaf, or what several have in common.

    Attributes:
        key: what the page calls it.
        label: what it shows in the first column.
        depth: how far it is indented.
        leaf: None for a row that others are folded under.
        children: those others.
        note: said dimly after the label.
        count: how many leaves there are at and below it.
        of: how many there are without the filter.
    """

    key: str
    label: str
    depth: int
    leaf: Leaf | None = None
    children: list[Node] = field(default_factory=list)
    note: str = ""
    count: int = 1
    of: int = 1

    @property
    def has_kernel(self) -> bool:
        """Whether it is not failures alone."""
        if self.leaf is not None:
            return self.leaf.entry is not None
        return any(leaf.entry is not None for leaf in self.leaves())

    def leaves(self) -> Iterable[Leaf]:
        """All leaves at and below it."""
        if self.leaf is not None:
            yield self.leaf
        for child in self.children:
            yield from child.leaves()


class Leaves:
    """Leaves of a session; what is known of a report is worked out once."""

    def __init__(self) -> None:
        self._known: dict[str, Leaf] = {}

    def of(self, session: Session) -> list[Leaf]:
        """The leaves as the session stands: kernels in their order, then failures."""
        leaves = [self._leaf(entry, session) for entry in session.ordered()]
        self._known = {leaf.key: leaf for leaf in leaves}
        leaves += [_failure(f"!{n}", error) for n, error in enumerate(session.errors)]
        return leaves

    def _leaf(self, entry: Entry, session: Session) -> Leaf:
        key = entry.key
        cached, former_entry, stale = (
            self._known.get(key),
            session.before(entry),
            key in session.stale,
        )
        if cached is None or cached.entry is None or cached.entry.report is not entry.report:
            former = figures(former_entry) if former_entry is not None else {}
            arch, case = entry.report.arch or "unknown target", short(entry.case)
            values, text = figures(entry), _text(entry)
            return Leaf(key, entry, None, values, former_entry, former, text, arch, case, stale)
        if cached.before is former_entry and cached.stale == stale and cached.entry is entry:
            return cached
        former = figures(former_entry) if former_entry is not None else {}
        return replace(cached, entry=entry, before=former_entry, former=former, stale=stale)


def _failure(key: str, error: ErrorRecord) -> Leaf:
    name, _, arch = (error.kernel or "").partition(" on ")
    case = name.partition("[")[2].removesuffix("]") or name
    parts = (error.file, error.kernel, error.stage, error.message, "failed")
    text = " ".join(part for part in parts if part).lower()
    return Leaf(key, None, error, {}, None, {}, text, arch or "unknown target", short(case))


def figures(entry: Entry) -> dict[str, Value]:
    """Column -> figure of a kernel."""
    return {name: column.read(entry) for name, column in COLUMNS.items()}


def _text(entry: Entry) -> str:
    report, variant = entry.report, entry.report.variant
    parts = [report.name, entry.path, report.arch or "", entry.case]
    if variant is not None:
        parts.append(variant.qualname or "")
        parts += [f"{k}={v}" for k, v in variant.constexprs.items()]
        parts += [f"{k}={v}" for k, v in variant.options.items()]
    parts += [finding.rule for finding in report.findings]
    return " ".join(parts).lower()


def short(case: str) -> str:
    """A case in few cells: `BM=64 BN=128 8w 2s`; the strip below the table has it in full."""
    words = []
    for part in case.split(", "):
        name, equals, value = part.partition("=")
        words.append(f"{value}{_UNITS[name]}" if equals and name in _UNITS else part)
    return " ".join(words)


# --------------------------------------------------------------------------- the tree


def tree(leaves: Sequence[Leaf]) -> list[Node]:
    """Kernels with their arches and configurations under them, in the order of the leaves."""
    groups: dict[tuple[str, str], list[Leaf]] = {}
    for leaf in leaves:
        if leaf.entry is not None:
            groups.setdefault((_home(leaf.entry), leaf.entry.report.name), []).append(leaf)
    for leaf in leaves:
        if leaf.error is not None:
            groups.setdefault(_place(leaf.error, groups), []).append(leaf)
    names: dict[str, int] = {}
    for _, name in groups:
        names[name] = names.get(name, 0) + 1
    nodes = []
    for (path, name), members in groups.items():
        note = file_name(path) if names[name] > 1 else ""
        if not name:  # failures of a file, at no kernel of it
            nodes += [Node(leaf.key, file_name(path), 0, leaf) for leaf in members]
        elif len(members) == 1:
            leaf = members[0]
            label = f"{name}  {leaf.case}" if leaf.entry is not None and leaf.case else name
            nodes.append(Node(leaf.key, label, 0, leaf, note=note))
        else:
            key = f"{path}::{name}"
            below = _children(key, members)
            nodes.append(Node(key, name, 0, None, below, note, len(members), len(members)))
    return nodes


def _home(entry: Entry) -> str:
    """The file that a kernel is of: compiled for several targets, it lies in several others."""
    source = entry.report.source
    return source.file if source is not None else entry.path


def _place(error: ErrorRecord, groups: Mapping[tuple[str, str], object]) -> tuple[str, str]:
    """The kernel that a failure belongs to: `matmul[case] on gfx942` to `matmul`."""
    name = (error.kernel or "").partition(" on ")[0].partition("[")[0]
    path = error.file or ""
    if (path, name) in groups or not name:
        return path, name
    candidates = [key for key in groups if key[1] == name and file_name(key[0]) == file_name(path)]
    return candidates[0] if candidates else (path, name)


def _children(key: str, members: Sequence[Leaf]) -> list[Node]:
    """What stands under a kernel: configurations, targets, or both one under the other."""
    by_arch: dict[str, list[Leaf]] = {}
    for leaf in members:
        by_arch.setdefault(leaf.arch, []).append(leaf)
    several_files = len({leaf.entry.path for leaf in members if leaf.entry is not None}) > 1

    def node(leaf: Leaf, label: str, depth: int) -> Node:
        note = file_name(leaf.entry.path) if several_files and leaf.entry is not None else ""
        return Node(leaf.key, label, depth, leaf, note=note)

    if len(by_arch) == 1:
        return [node(leaf, leaf.case or "as it is", 1) for leaf in members]
    nodes = []
    for arch, arch_leaves in by_arch.items():
        if len(arch_leaves) == 1:
            nodes.append(node(arch_leaves[0], f"{arch}  {arch_leaves[0].case}".rstrip(), 1))
            continue
        below = [node(leaf, leaf.case or "as it is", 2) for leaf in arch_leaves]
        nodes.append(
            Node(f"{key}@{arch}", arch, 1, None, below, "", len(arch_leaves), len(arch_leaves))
        )
    return nodes


def filtered_nodes(nodes: Iterable[Node], test: Callable[[Leaf], bool]) -> list[Node]:
    """The rows that have a leaf which meets the test, with those leaves alone."""
    filtered = []
    for node in nodes:
        if node.leaf is not None:
            if test(node.leaf):
                filtered.append(node)
            continue
        below = filtered_nodes(node.children, test)
        if below:
            count = sum(child.count for child in below)
            filtered.append(
                Node(node.key, node.label, node.depth, None, below, node.note, count, node.of)
            )
    return filtered


# --------------------------------------------------------------------------- order

Rank = tuple[int, float, str]


def ordered(nodes: Sequence[Node], by: str, reverse: bool) -> list[Node]:
    """Rows sorted by a column, what is worst first; unknown figures last, however sorted.

    A row that others are folded under stands where the first of those would.

    Args:
        nodes: the rows; their children are sorted in place.
        by: a column; "order" for that of the run, "name" for names.
        reverse: the other way round.
    """
    for node in nodes:
        if node.children:
            node.children = ordered(node.children, by, reverse)
    if by == "order":
        return sorted(nodes, key=_run_order, reverse=reverse)
    if by == "name":
        return sorted(nodes, key=lambda node: node.label.lower(), reverse=reverse)
    ranked: list[tuple[Rank, int, Node]] = []
    unknown: list[Node] = []
    down = downwards(by, reverse)
    for number, node in enumerate(nodes):
        rank = _rank(node, by)
        if rank is None:
            unknown.append(node)
        else:
            ranked.append((rank, -number if down else number, node))
    ranked.sort(key=lambda item: item[:2], reverse=down)
    return [node for _, _, node in ranked] + unknown


def downwards(by: str, reverse: bool) -> bool:
    """Whether a column's figures fall from the top to the bottom."""
    if by in ("order", "name"):
        return reverse
    worst_is_most = COLUMNS[by].better < 0
    return worst_is_most != reverse


def _run_order(node: Node) -> tuple[int, int]:
    while node.leaf is None:
        node = node.children[0]
    entry = node.leaf.entry
    return entry.order if entry is not None else (1 << 30, 0)


def _rank(node: Node, by: str) -> Rank | None:
    while node.leaf is None:
        node = node.children[0]
    leaf = node.leaf
    if leaf.error is not None:
        # A failure hurts more than any finding; it has no other figure.
        return (0, 1e18, "") if by == "findings" else None
    value = leaf.values.get(by)
    if isinstance(value, str):
        return (1, 0.0, value)
    return None if value is None else (0, float(value), "")


def flat(nodes: Iterable[Node], is_open: Callable[[Node], bool]) -> list[Node]:
    """The rows in sight: what is folded is left out."""
    rows: list[Node] = []
    for node in nodes:
        rows.append(node)
        if node.children and is_open(node):
            rows += flat(node.children, is_open)
    return rows


# --------------------------------------------------------------------------- the front


def fronts(reports: Iterable[tuple[str, KernelReport]]) -> frozenset[str]:
    """Which tuned configurations no other one of their kernel, case and target beats.

    Args:
        reports: kernels with what the session calls them.
    """
    # Only tuned kernels need them.
    from ....inspector.compare.sweep.figures import figures_of
    from ....inspector.compare.sweep.pareto import front

    groups: dict[tuple[object, ...], list[tuple[str, KernelReport]]] = {}
    for key, report in reports:
        if report.variant is not None and report.variant.tuning:
            groups.setdefault(_compared(report), []).append((key, report))
    stars: set[str] = set()
    for members in groups.values():
        if len(members) > 1:
            best = front([figures_of(report) for _, report in members])
            stars.update(key for (key, _), star in zip(members, best, strict=True) if star)
    return frozenset(stars)


def _compared(report: KernelReport) -> tuple[object, ...]:
    """What configurations of one launch have in common."""
    variant = report.variant
    assert variant is not None
    tuning = variant.tuning or {}
    fixed = {k: repr(v) for k, v in variant.constexprs.items() if k not in tuning}
    path = report.id.partition("::")[0]
    types = tuple(sorted(variant.signature.items()))
    return path, variant.kernel, variant.arch, types, tuple(sorted(fixed.items()))
