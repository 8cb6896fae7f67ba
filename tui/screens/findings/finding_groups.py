"""Groups findings by rule, kernel or file, and lays the groups out as rows of a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ....inspector.base.long_names import shortened
from ....inspector.compare.diff.diff_results import label_of
from ....inspector.explain import view
from ....inspector.lint.ranking import rank
from ....inspector.lint.rule import Rule
from ....inspector.model import Finding, Location
from ...session import SEVERITIES, SessionKernel
from ...widgets.code import word_filter

Grouping = Literal["rule", "kernel", "file"]
GROUPINGS: tuple[Grouping, ...] = ("rule", "kernel", "file")
LEAD = "fact"
LEVELS: tuple[str, ...] = (*SEVERITIES, LEAD)
"""What a finding is told as, from the most to the least severe."""
MARKS: Mapping[str, str] = {"error": "✖", "warning": "▲", "info": "●", LEAD: "○"}
"""Level -> the mark before a finding, for readers who do not see its colour."""
_NO_FILE = "no source line"

_OPENED_FIRST = ("amdgcn", "ttgir", "llir", "source")  # texts that a finding opens in, best first
_KERNEL_WIDTH, _PLACE_WIDTH, _TITLE_WIDTH = 34, 26, 48  # widths of the list's columns, in cells
Rules = Mapping[str, Rule]


class Item(Struct, frozen=True):
    """A finding with its kernel."""

    entry: SessionKernel
    finding: Finding

    @property
    def level(self) -> str:
        """Its severity, or `LEAD`."""
        return level_of(self.finding)

    @property
    def kernel(self) -> str:
        """The kernel's name and case."""
        return label_of(self.entry.report)

    def short_name(self, name: str | None, arch: str | None) -> str:
        """Kernel, case and target, less what all kernels share, cut to the column's width.

        Args:
            name: the name that all kernels have; None if they differ.
            arch: the target that all kernels have; None if they differ.
        """
        case = self.entry.case
        suffix = f" {self.entry.tried}" if self.entry.tried else ""
        kernel = case if case and self.entry.report.name == name else f"{self.kernel}{suffix}"
        target = self.entry.report.arch or "-"
        target = "" if target == arch else f" {target}"
        return shortened(kernel, _KERNEL_WIDTH - len(target)) + target

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Identifies the finding when the list is rebuilt."""
        finding = self.finding
        return (self.entry.key, finding.rule, finding.fingerprint, finding.message)


class FindingGroup(Struct, frozen=True):
    """Findings of one rule, kernel or file."""

    name: str
    title: str
    items: tuple[Item, ...]

    @property
    def worst(self) -> str:
        return min((item.level for item in self.items), key=LEVELS.index)

    @property
    def tally(self) -> str:
        """The numbers of findings and kernels: `2 errors, 1 note in 3 kernels`."""
        kernels = len({item.entry.key for item in self.items})
        where = f" in {view.plural(kernels, 'kernel')}" if kernels > 1 else ""
        return tally(item.finding for item in self.items) + where


class FindingRow(Struct, frozen=True):
    """A line of the list: the heading of a group, or one of its findings."""

    group: FindingGroup
    item: Item | None
    text: str
    spans: tuple[tuple[int, int, str], ...]


def level_of(finding: Finding) -> str:
    """The severity of a finding; `LEAD` for a lead."""
    return LEAD if finding.doubt else finding.severity


def tally(findings: Iterable[Finding]) -> str:
    """Findings counted by level, `1 error, 2 warnings, 5 notes`; zeros are left out."""
    counts = Counter(map(level_of, findings))
    parts = [
        view.plural(counts[level], "note" if level == "info" else level)
        for level in LEVELS
        if counts[level]
    ]
    return ", ".join(parts) or "none"


def filtered(items: Iterable[Item], words: str, min_severity: str, rules: Rules) -> list[Item]:
    """The findings that contain all words of the filter and are severe enough."""
    worst = LEVELS[: LEVELS.index(min_severity) + 1]
    severe = [item for item in items if item.level in worst]
    if not words.strip():
        return severe
    has_words = word_filter(words)
    return [item for item in severe if has_words(_searched(item, rules))]


def _searched(item: Item, rules: Rules) -> str:
    """The text of a finding that the filter's words are searched in."""
    finding, report = item.finding, item.entry.report
    rule = rules.get(finding.rule)
    severity = "note info" if item.level == "info" else item.level
    name = rule.text.name if rule is not None else ""
    tags = " ".join(rule.text.tags) if rule is not None else ""
    parts = (finding.rule, name, tags, severity, item.kernel, report.arch or "", report.id)
    return " ".join((*parts, view.finding_place(finding), finding.message))


def grouped(items: Sequence[Item], grouping: Grouping, rules: Rules) -> list[FindingGroup]:
    """The findings in groups; the worst group comes first, and in each the worst finding."""
    name_of: Callable[[Item], str] = {
        "rule": lambda item: item.finding.rule,
        "kernel": lambda item: item.entry.key,
        "file": file_of,
    }[grouping]
    items_by_name: dict[str, list[Item]] = {}
    for item in items:
        items_by_name.setdefault(name_of(item), []).append(item)
    groups = [
        FindingGroup(name, _title(grouping, name, members, rules), _sorted(members))
        for name, members in items_by_name.items()
    ]
    return sorted(groups, key=_weight)


def _sorted(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(sorted(items, key=lambda item: (item.level == LEAD, rank(item.finding))))


def _weight(group: FindingGroup) -> tuple[object, ...]:
    """The sort key of a group: its worst level, then its number of findings of each."""
    counts = Counter(item.level for item in group.items)
    negated_counts = (-counts[level] for level in LEVELS)  # the most come first
    return (LEVELS.index(group.worst), *negated_counts, group.name)


def _title(grouping: Grouping, name: str, items: Sequence[Item], rules: Rules) -> str:
    if grouping == "rule":
        return f"{name} {rules[name].text.name}" if name in rules else name
    if grouping == "kernel":
        report = items[0].entry.report
        location = view.place(report.source) or view.file_name(report.file)
        return "  ".join(part for part in (items[0].kernel, report.arch, location) if part)
    return name


def file_of(item: Item) -> str:
    """The user's file that a finding is about, or `_NO_FILE`."""
    location = source_of(item)
    return location[0] if location is not None else _NO_FILE


def source_of(item: Item) -> tuple[str, int] | None:
    """File and line to open in an editor; None if there is none.

    The finding's source line, or else the kernel's, or else the line of an assembly file that was
    analysed as such.
    """
    report = item.entry.report
    for location in item.finding.locations:
        if location.kind == "source" and location.file and location.line:
            return location.file, location.line
    if report.source is not None:
        return report.source.file, report.source.line
    for location in item.finding.locations:
        if location.kind == "amdgcn" and location.line and report.variant is None:
            return report.file, location.line
    return None


def best_location(finding: Finding) -> Location | None:
    """The location to open the kernel's page at, preferably in the machine code."""
    candidates = [
        location
        for location in finding.locations
        if location.line and location.kind in _OPENED_FIRST
    ]
    return min(candidates, key=lambda location: _OPENED_FIRST.index(location.kind), default=None)


def shared_by(entries: Iterable[SessionKernel]) -> tuple[str | None, str | None]:
    """The kernel name and the target that all entries share, which rows need not repeat.

    Each is None if the entries differ in it.
    """
    reports = [entry.report for entry in entries]
    names, archs = {report.name for report in reports}, {report.arch for report in reports}
    return (
        next(iter(names)) if len(names) == 1 else None,
        next(iter(archs)) if len(archs) == 1 else None,
    )


def rows_of(
    groups: Sequence[FindingGroup], grouping: Grouping, closed: Iterable[str]
) -> list[FindingRow]:
    """The rows of the list; a closed group (by name) shows only its heading."""
    closed_names = set(closed)
    shared = shared_by(item.entry for group in groups for item in group.items)
    items = [item for group in groups if group.name not in closed_names for item in group.items]
    columns = _told_apart(
        items, [_columns(item, grouping, item.short_name(*shared)) for item in items]
    )
    widths = [max((len(cells[n]) for cells in columns), default=0) for n in range(2)]
    titles = max((len(group.title) for group in groups), default=0)
    rows: list[FindingRow] = []
    cells = iter(columns)
    for group in groups:
        rows.append(_heading(group, group.name in closed_names, min(titles, _TITLE_WIDTH)))
        if group.name not in closed_names:
            rows += [_row(group, item, next(cells), widths) for item in group.items]
    return rows


def _style(level: str) -> str:
    return "dim" if level == LEAD else level


def _heading(group: FindingGroup, is_closed: bool, width: int) -> FindingRow:
    mark = MARKS[group.worst]
    start = f"{'▸' if is_closed else '▾'} {mark} "
    title = f"{group.title:<{width}}"
    text = f"{start}{title}  {group.tally}"
    spans = (
        (0, 1, "dim"),
        (2, 3, _style(group.worst)),
        (len(start), len(start) + len(group.title), "label"),
        (len(start) + len(title), len(text), "comment"),
    )
    return FindingRow(group, None, text, spans)


def _columns(item: Item, grouping: Grouping, short_name: str) -> tuple[str, str]:
    """The two columns before the message, less what the group's heading says already."""
    location = shortened(view.finding_place(item.finding), _PLACE_WIDTH)
    if grouping == "kernel":
        return item.finding.rule, location
    if grouping == "file":
        return f"{item.finding.rule} {short_name}", location.rpartition(":")[2]
    return short_name, location


def _told_apart(items: Sequence[Item], columns: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The rows' columns, with the loop behind the place in rows that would look the same."""
    looks = [
        (cells, item.finding.rule, item.finding.message)
        for cells, item in zip(columns, items, strict=True)
    ]
    counts = Counter(looks)
    return [
        (name, f"{location} {_loop_of(item)}".rstrip()) if counts[look] > 1 else (name, location)
        for item, look, (name, location) in zip(items, looks, columns, strict=True)
    ]


def _loop_of(item: Item) -> str:
    """The innermost loop in which a finding's first line of the assembly is; "" for none."""
    located = item.finding.locations
    line = next((at.line for at in located if at.kind == "amdgcn" and at.line), None)
    around = [
        loop
        for loop in item.entry.report.loops
        if line is not None and any(first <= line <= last for first, last in loop.lines)
    ]
    return max(around, key=lambda loop: loop.depth).id if around else ""


def _row(
    group: FindingGroup, item: Item, cells: Sequence[str], widths: Sequence[int]
) -> FindingRow:
    finding = item.finding
    mark = MARKS[item.level]
    first, location = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    start = f"    {mark} {first}  "
    text = f"{start}{location}  {' '.join(finding.message.split())}"
    spans = (
        (4, 5, _style(item.level)),
        (6, 6 + len(first), "name"),
        (len(start), len(start) + len(location), "literal"),
    )
    return FindingRow(group, item, text, tuple(span for span in spans if span[0] < span[1]))
