"""Groups findings by rule, kernel or file, and lays the groups out as rows of a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ....inspector.compare.diff.results import label_of
from ....inspector.explain import view
from ....inspector.lint.rule import Rule
from ....inspector.model import Finding, Location
from ...session import SEVERITIES, Entry

By = Literal["rule", "kernel", "file"]
BYS: tuple[By, ...] = ("rule", "kernel", "file")
MARKS: Mapping[str, str] = {"error": "✖", "warning": "▲", "info": "●"}
"""Severity -> the mark before a finding, for readers who do not see its colour."""
NO_FILE = "no source line"

_OPENED_FIRST = ("amdgcn", "ttgir", "llir", "source")  # texts that a finding opens in, best first
_MOST_KERNEL, _MOST_PLACE, _MOST_TITLE = 34, 26, 48  # widths of the list's columns, in cells
Rules = Mapping[str, Rule]


class Item(Struct, frozen=True):
    """A finding with its kernel."""

    entry: Entry
    finding: Finding

    @property
    def kernel(self) -> str:
        """Kernel and case."""
        return label_of(self.entry.report)

    def called(self, name: str | None, arch: str | None) -> str:
        """Kernel, case and target without what all kernels share, cut to a column's width.

        Args:
            name: the name that all have.
            arch: the target that all have.
        """
        case = self.entry.case
        suffix = f" {self.entry.tried}" if self.entry.tried else ""
        kernel = case if case and self.entry.report.name == name else f"{self.kernel}{suffix}"
        target = self.entry.report.arch or "-"
        target = "" if target == arch else f" {target}"
        return _cut(kernel, _MOST_KERNEL - len(target)) + target

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Identifies the finding when the list is rebuilt."""
        finding = self.finding
        return (self.entry.key, finding.rule, finding.fingerprint, finding.message)


class Group(Struct, frozen=True):
    """Findings of one rule, kernel or file."""

    name: str
    title: str
    items: tuple[Item, ...]

    @property
    def worst(self) -> str:
        """The severity of its worst finding."""
        return min((item.finding.severity for item in self.items), key=SEVERITIES.index)

    @property
    def tally(self) -> str:
        """How many findings and kernels there are: `2 errors, 1 note in 3 kernels`."""
        kernels = len({item.entry.key for item in self.items})
        where = f" in {view.plural(kernels, 'kernel')}" if kernels > 1 else ""
        return tally(item.finding for item in self.items) + where


class Row(Struct, frozen=True):
    """A line of the list: the heading of a group, or one of its findings."""

    group: Group
    item: Item | None
    text: str
    spans: tuple[tuple[int, int, str], ...]


def tally(findings: Iterable[Finding]) -> str:
    """Findings counted by severity, `1 error, 2 warnings, 5 notes`; zeros are left out."""
    counts = Counter[str](finding.severity for finding in findings)
    parts = [
        view.plural(counts[severity], "note" if severity == "info" else severity)
        for severity in SEVERITIES
        if counts[severity]
    ]
    return ", ".join(parts) or "none"


def fitting(items: Iterable[Item], words: str, least: str, rules: Rules) -> list[Item]:
    """The findings that contain all words of the filter and are severe enough.

    Args:
        items: all findings.
        words: the filter as typed: words separated by blanks, in any letter case.
        least: the lowest severity to show.
        rules: the rules by id, whose names and tags are searched, too.
    """
    needles = words.lower().split()
    worst = SEVERITIES[: SEVERITIES.index(least) + 1]
    severe = [item for item in items if item.finding.severity in worst]
    if not needles:
        return severe
    return [item for item in severe if all(word in _searched(item, rules) for word in needles)]


def _searched(item: Item, rules: Rules) -> str:
    """The lower-case text of a finding that the filter's words are searched in."""
    finding, report = item.finding, item.entry.report
    rule = rules.get(finding.rule)
    severity = "note info" if finding.severity == "info" else finding.severity
    name = rule.text.name if rule is not None else ""
    tags = " ".join(rule.text.tags) if rule is not None else ""
    parts = (finding.rule, name, tags, severity, item.kernel, report.arch or "", report.id)
    return " ".join((*parts, view.finding_place(finding), finding.message)).lower()


def grouped(items: Sequence[Item], by: By, rules: Rules) -> list[Group]:
    """The findings in groups; the worst group comes first, and in each the worst finding."""
    name_of: Callable[[Item], str] = {
        "rule": lambda item: item.finding.rule,
        "kernel": lambda item: item.entry.key,
        "file": file_of,
    }[by]
    items_by_name: dict[str, list[Item]] = {}
    for item in items:
        items_by_name.setdefault(name_of(item), []).append(item)
    groups = [
        Group(name, _title(by, name, members, rules), _sorted(members))
        for name, members in items_by_name.items()
    ]
    return sorted(groups, key=_weight)


def _sorted(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(sorted(items, key=lambda item: SEVERITIES.index(item.finding.severity)))


def _weight(group: Group) -> tuple[object, ...]:
    """The sort key of a group: its worst severity, then its number of findings of each."""
    counts = Counter[str](item.finding.severity for item in group.items)
    negated_counts = (-counts[severity] for severity in SEVERITIES)  # the most come first
    return (SEVERITIES.index(group.worst), *negated_counts, group.name)


def _title(by: By, name: str, items: Sequence[Item], rules: Rules) -> str:
    if by == "rule":
        return f"{name} {rules[name].text.name}" if name in rules else name
    if by == "kernel":
        report = items[0].entry.report
        place = view.place(report.source) or view.file_name(view.path_of(report))
        return "  ".join(part for part in (items[0].kernel, report.arch, place) if part)
    return name


def file_of(item: Item) -> str:
    """The user's file that a finding is about, or `NO_FILE`."""
    place = source_of(item)
    return place[0] if place is not None else NO_FILE


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
            return view.path_of(report), location.line
    return None


def best_location(finding: Finding) -> Location | None:
    """The location to open the kernel's page at, preferably in the machine code."""
    candidates = [
        location
        for location in finding.locations
        if location.line and location.kind in _OPENED_FIRST
    ]
    return min(candidates, key=lambda location: _OPENED_FIRST.index(location.kind), default=None)


# --------------------------------------------------------------------------- rows


def shared_by(entries: Iterable[Entry]) -> tuple[str | None, str | None]:
    """The kernel name and the target that all entries share, which rows need not repeat.

    Each is None if the entries differ in it.
    """
    reports = [entry.report for entry in entries]
    names, archs = {report.name for report in reports}, {report.arch for report in reports}
    return (
        next(iter(names)) if len(names) == 1 else None,
        next(iter(archs)) if len(archs) == 1 else None,
    )


def rows_of(groups: Sequence[Group], by: By, closed: Iterable[str]) -> list[Row]:
    """The rows of the list; a closed group (by name) shows only its heading."""
    shut = set(closed)
    shared = shared_by(item.entry for group in groups for item in group.items)
    items = [item for group in groups if group.name not in shut for item in group.items]
    lead = [_lead(item, by, item.called(*shared)) for item in items]
    widths = [max((len(cells[n]) for cells in lead), default=0) for n in range(2)]
    titles = max((len(group.title) for group in groups), default=0)
    rows: list[Row] = []
    cells = iter(lead)
    for group in groups:
        rows.append(_heading(group, group.name in shut, min(titles, _MOST_TITLE)))
        if group.name not in shut:
            rows += [_row(group, item, next(cells), widths) for item in group.items]
    return rows


def _heading(group: Group, shut: bool, width: int) -> Row:
    mark = MARKS[group.worst]
    start = f"{'▸' if shut else '▾'} {mark} "
    title = f"{group.title:<{width}}"
    text = f"{start}{title}  {group.tally}"
    spans = (
        (0, 1, "dim"),
        (2, 3, group.worst),
        (len(start), len(start) + len(group.title), "label"),
        (len(start) + len(title), len(text), "comment"),
    )
    return Row(group, None, text, spans)


def _lead(item: Item, by: By, called: str) -> tuple[str, str]:
    """The two columns before the message: what the group's heading does not say already."""
    place = _cut(view.finding_place(item.finding), _MOST_PLACE)
    if by == "kernel":
        return item.finding.rule, place
    if by == "file":
        return f"{item.finding.rule} {called}", place.rpartition(":")[2]
    return called, place


def _row(group: Group, item: Item, cells: Sequence[str], widths: Sequence[int]) -> Row:
    finding = item.finding
    mark = MARKS[finding.severity]
    first, place = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    start = f"    {mark} {first}  "
    text = f"{start}{place}  {' '.join(finding.message.split())}"
    spans = (
        (4, 5, finding.severity),
        (6, 6 + len(first), "name"),
        (len(start), len(start) + len(place), "literal"),
    )
    return Row(group, item, text, tuple(span for span in spans if span[0] < span[1]))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
