"""The page of all findings, in groups, each with its evidence and remedy."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from ....inspector.explain.view import NOTHING_FOUND, plural, spills_in_hot_loops
from ...editor import open_editor
from ...key_table import bind
from ...pages import Page
from ...session import SessionKernel
from ...widgets.code import CodeView, RowList, Text
from ...widgets.filter_line import FilterLine
from . import finding_details
from .finding_groups import (
    GROUPINGS,
    LEAD,
    LEVELS,
    MARKS,
    FindingGroup,
    FindingRow,
    Grouping,
    Item,
    Rules,
    best_location,
    filtered,
    grouped,
    rows_of,
    shared_by,
    source_of,
    tally,
)

_ROWS_WITHOUT_DETAIL = 10  # of the terminal; with fewer the list takes them all
_LEVEL_FILTERS = {
    "warning": "warnings and errors",
    "error": "errors alone",
    LEAD: "with what saves little",
}


class FindingsPage(Page):
    """The findings of every kernel that is open."""

    NAME = "findings"
    LEGEND = (
        (MARKS["error"], "an error: wrong results, or it cannot be launched"),
        (MARKS["warning"], "a warning: the change saves 10 % of the launch or more"),
        (MARKS["info"], "a note: it saves 3 % or more"),
        (MARKS[LEAD], "a fact: it would save less than 3 %"),
        ("▸ ▾", "a group, folded or open"),
    )
    DEFAULT_CSS = """
    FindingsPage #tally { height: 1; padding: 0 1; color: $foreground 70%; }
    FindingsPage #body { height: 1fr; layout: vertical; }
    FindingsPage.-wide #body { layout: horizontal; }
    FindingsPage #listed { height: 1fr; width: 100%; }
    FindingsPage.-wide #listed { width: 3fr; height: 100%; }
    FindingsPage #about { height: 45%; border-top: solid $panel; padding: 0 1; }
    FindingsPage.-low #about { display: none; }
    FindingsPage.-wide #about {
        width: 2fr; height: 100%; border-top: none; border-left: solid $panel;
    }
    FindingsPage #about { scrollbar-size: 1 1; scrollbar-gutter: stable; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("search", "filter", "Filter"),
        bind("view", "by", "Group by"),
        bind("only", "severity", "Severity"),
        bind("try", "try", "Try cures"),
        bind("edit", "edit", "Edit"),
        bind("baseline", "baseline", "Baseline", show=False),
        bind("next", "next(1)", "Next"),
        bind("previous", "next(-1)", "Previous", show=False),
        bind("fold_all", "fold_all", "Fold or open all groups", show=False),
        bind("beside_down", "about(3)", "Explanation down", show=False),
        bind("beside_up", "about(-3)", "Explanation up", show=False),
        bind("copy", "copy", "Copy the finding", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-low"), (_ROWS_WITHOUT_DETAIL, "-high")]
        self._grouping: Grouping = "rule"
        self._min_severity = "info"
        self._filter_text = ""
        self._folded: dict[Grouping, set[str]] = {grouping: set() for grouping in GROUPINGS}
        self._groups: list[FindingGroup] = []
        self._rows: list[FindingRow] = []
        self._rules: Rules = {}

    def content(self) -> ComposeResult:
        yield Static(id="tally", markup=False)
        yield FilterLine("words: rule, kernel, target, file, message", "RowList", id="filter")
        with Container(id="body"):
            with Container(id="listed"):
                yield RowList(id="list")
            with VerticalScroll(id="about", can_focus=True):
                yield Static(id="explanation", markup=False)

    def on_mount(self) -> None:
        self.query_one(RowList).focus()
        self.in_thread("rules", finding_details.rules, self._take_rules, self.kinspect.notify_error)

    def crumb(self) -> str:
        return f"by {self._grouping}"

    def session_changed(self) -> None:
        self._show()

    def _take_rules(self, rules: Rules) -> None:
        self._rules = rules
        self._show()

    def _show(self) -> None:
        """Rebuilds the list; the cursor stays with its finding, else near its line."""
        former_row = self._row
        told = self.session.findings(leads=self._min_severity == LEAD)
        all_items = [Item(entry, finding) for entry, finding in told]
        items = filtered(all_items, self._filter_text, self._min_severity, self._rules)
        self._groups = grouped(items, self._grouping, self._rules)
        self._rows = rows_of(self._groups, self._grouping, self._folded[self._grouping])
        self.query_one("#tally", Static).update(self._tally_text(all_items, items))
        lines = [row.text for row in self._rows]
        rows = self._rows
        view = self.query_one(RowList)
        view.show(Text(lines, lambda line: rows[line].spans), self._cursor_after(former_row))
        self._explain()

    def _cursor_after(self, former: FindingRow | None) -> int:
        if former is None:
            return 0
        for line, row in enumerate(self._rows):
            if former.item is not None and row.item is not None and row.item.key == former.item.key:
                return line
        for line, row in enumerate(self._rows):
            if row.item is None and row.group.name == former.group.name:
                return line
        return min(self.query_one(RowList).cursor, max(0, len(self._rows) - 1))

    def _tally_text(self, all_items: list[Item], items: list[Item]) -> str:
        """The line above the list: numbers of findings and kernels, and the filters."""
        if not all_items:
            return self._why_empty()
        parts = [tally(item.finding for item in all_items)]
        if len(items) < len(all_items):
            parts = [f"{len(items)} of {len(all_items)} findings"]
        kernels = len({item.entry.key for item in items})
        parts.append(f"{kernels} of {len(self.session.entries)} kernels have some")
        if len(self.session.entries) > 1:
            name, arch = shared_by(item.entry for item in items)
            parts += [text for text in (name, arch) if text]
        if self._min_severity != "info":
            parts.append(_LEVEL_FILTERS[self._min_severity])
        if self._filter_text:
            parts.append(f"filter: {self._filter_text}")
        return "  ·  ".join(parts)

    def _why_empty(self) -> str:
        if self.session.progress.running:
            return "no findings so far"
        if not self.session.entries:
            return "no kernel is open"
        if any(entry.report.unread for entry in self.session.entries.values()):
            return "no finding in what was read"
        spilling = sum(bool(spills_in_hot_loops(e.report)) for e in self.session.entries.values())
        if spilling:
            return f"no finding, but {plural(spilling, 'kernel')} with spills in a hot loop"
        leads = sum(len(entry.report.leads) for entry in self.session.entries.values())
        if leads:
            return (
                f"no finding, {plural(leads, 'fact')} that would save little: Severity shows them"
            )
        if any(entry.report.time is None for entry in self.session.entries.values()):
            return "no finding; of some kernels no time is known"
        return NOTHING_FOUND

    @property
    def _row(self) -> FindingRow | None:
        line = self.query_one(RowList).cursor
        return self._rows[line] if line < len(self._rows) else None

    def _explain(self) -> None:
        row = self._row
        content = Content("")
        if row is not None and row.item is not None:
            content = finding_details.of_item(row.item, self._rules.get(row.item.finding.rule))
        elif row is not None:
            rule = self._rules.get(row.group.name) if self._grouping == "rule" else None
            content = finding_details.of_group(row.group, rule)
        self.query_one("#explanation", Static).update(content)
        self.query_one("#about").scroll_home(animate=False)

    def on_code_view_moved(self, event: CodeView.Moved) -> None:
        self._explain()

    def on_row_list_folded(self, event: RowList.Folded) -> None:
        if event.line < len(self._rows):
            self._fold({self._rows[event.line].group.name})

    def _fold(self, names: set[str]) -> None:
        closed = self._folded[self._grouping]
        closed ^= names
        self._show()

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        """Opens the kernel at the finding; on a heading, folds or unfolds the group."""
        if event.line >= len(self._rows):
            return
        item = self._rows[event.line].item
        if item is None:
            self.on_row_list_folded(RowList.Folded(event.rows, event.line))
            return
        location = best_location(item.finding)
        if location is None:
            self.kinspect.open_kernel(item.entry.key)
        else:
            self.kinspect.open_kernel(item.entry.key, line=location.line, text=location.kind)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter_text = event.value.strip()
        self._show()

    @property
    def kernel_at_hand(self) -> SessionKernel | None:
        return self._row.item.entry if self._row is not None and self._row.item else None

    def action_by(self) -> None:
        self._grouping = GROUPINGS[(GROUPINGS.index(self._grouping) + 1) % len(GROUPINGS)]
        self._show()

    def action_severity(self) -> None:
        """Shows the next of: all findings, warnings and errors, errors only, all facts."""
        self._min_severity = LEVELS[LEVELS.index(self._min_severity) - 1]
        self._show()

    def action_next(self, direction: int) -> None:
        """Goes to the next (1) or previous (-1) finding; stays at the last."""
        view = self.query_one(RowList)
        line = view.cursor + direction
        while 0 <= line < len(self._rows):
            if self._rows[line].item is not None:
                view.move_to(line)
                return
            line += direction

    def action_fold_all(self) -> None:
        names = {group.name for group in self._groups}
        closed = self._folded[self._grouping]
        self._fold(names if names <= closed else names - closed)

    def action_about(self, lines: int) -> None:
        self.query_one("#about").scroll_relative(y=lines, animate=False)

    def action_edit(self) -> None:
        row = self._row
        if row is None:
            return
        location = source_of(row.item if row.item is not None else row.group.items[0])
        if location is None:
            self.app.notify("no source line is known of this finding", severity="warning")
        else:
            open_editor(self.app, *location)

    def action_try(self) -> None:
        """Tries the cures of the finding, or of a group's findings of its first kernel."""
        from ..trials import try_cures

        row = self._row
        if row is not None:
            item = row.item if row.item is not None else row.group.items[0]
            try_cures(self.kinspect, item.entry, (item.finding,))

    def action_copy(self) -> None:
        row = self._row
        if row is None or row.item is None:
            return
        finding = row.item.finding
        location = source_of(row.item)
        prefix = f"{location[0]}:{location[1]}: " if location is not None else ""
        self.app.copy_to_clipboard(f"{prefix}{finding.severity} {finding.rule} {finding.message}")
        self.app.notify("copied", timeout=1)
