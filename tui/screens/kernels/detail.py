"""The details of the row under the cursor, below the kernels' table, and a failure in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from ....inspector.explain import occupancy_view, view
from ....inspector.model import ErrorRecord, Finding, KernelReport
from ...session import SEVERITIES, SessionKernel
from ...widgets.styles import part_style
from .columns import COLUMNS, UNKNOWN, KernelColumn, Value
from .leaves import Leaf
from .tree import Node

_LABELS = {"error": "error", "warning": "warn ", "info": "note "}
_MAX_FINDINGS = 16


class Detail(Widget):
    """A strip that shows a kernel's findings, a group's summary or a failure's message."""

    DEFAULT_CSS = """
    Detail { height: 6; padding: 0 1; background: $surface; border-top: solid $panel; }
    Detail > .detail--error { color: $error; text-style: bold; }
    Detail > .detail--warning { color: $warning; text-style: bold; }
    Detail > .detail--info { color: $primary; }
    Detail > .detail--dim { color: $foreground 60%; }
    Detail > .detail--name { color: $foreground; text-style: bold; }
    Detail > .detail--star { color: $accent; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "detail--error",
        "detail--warning",
        "detail--info",
        "detail--dim",
        "detail--name",
        "detail--star",
    }

    def __init__(self) -> None:
        super().__init__()
        self._node: Node | None = None
        self._stars: frozenset[str] = frozenset()

    def show(self, node: Node | None, stars: frozenset[str]) -> None:
        """Shows the details of a row.

        Args:
            node: the row; None: the strip is empty.
            stars: keys of the kernels on a Pareto front.
        """
        self._node, self._stars = node, stars
        self.refresh()

    def render(self) -> Text:
        """The lines of the row that fit, each cut to the widget's width."""
        lines = self._lines()[: max(1, self.content_size.height)] if self._node else []
        width = self.content_size.width
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return Text("\n", no_wrap=True).join(lines)

    def _lines(self) -> list[Text]:
        node = self._node
        assert node is not None
        if node.leaf is None:
            return self._of_group(node, list(node.leaves()))
        if node.leaf.error is not None:
            return self._of_failure(node.leaf.error)
        assert node.leaf.entry is not None
        return self._of_kernel(node.leaf.entry, node.leaf)

    def _of_failure(self, error: ErrorRecord) -> list[Text]:
        where = " ".join(part for part in (error.file, error.kernel) if part)
        lines = [
            self._text(("error", f"failed to {error.stage}  "), ("dim", where)),
            *(Text(line) for line in error.message.splitlines()),
        ]
        if error.hint:
            lines.append(self._text(("dim", f"→ {error.hint}")))
        return lines

    def _of_kernel(self, entry: SessionKernel, leaf: Leaf) -> list[Text]:
        """A kernel's name and place, changed figures, configuration, occupancy and findings."""
        report = entry.report
        title = [("name", report.name), ("dim", f"  {report.arch or 'unknown target'}")]
        if entry.case:
            title.append(("", f"  {entry.case}"))
        location = view.place(report.source)
        if location:
            title.append(("dim", f"  {location}"))
        if leaf.key in self._stars:
            title.append(("star", "  ★ no other configuration beats it in the code's figures"))
        if leaf.stale:
            title.append(("dim", "  of the run before"))
        occupancy = "   ".join(occupancy_view.occupancy_lines(report))
        lines = [
            self._text(*title),
            *([self._changes(leaf)] if leaf.changed else []),
            self._text(("dim", view.configuration(report))),
            Text(occupancy),
            *self._findings(report),
        ]
        return [line for line in lines if line.plain]

    def _changes(self, leaf: Leaf) -> Text:
        """The figures that differ from the previous run's."""
        changes = []
        for name, column in COLUMNS.items():
            value, former = leaf.values[name], leaf.former.get(name)
            if value != former and name != "findings":
                changes.append(
                    f"{column.title} {_figure(column, former)} → {_figure(column, value)}"
                )
        if leaf.values["findings"] != leaf.former.get("findings"):
            changes.append("findings")
        return self._text(("name", "changed: "), ("", ", ".join(changes)))

    def _findings(self, report: KernelReport) -> list[Text]:
        if not report.findings:
            return [self._text(("dim", view.findings_summary(report)))]
        ranked = sorted(report.findings, key=lambda f: SEVERITIES.index(f.severity))
        return [self._finding(finding) for finding in ranked[:_MAX_FINDINGS]]

    def _finding(self, finding: Finding) -> Text:
        location = view.finding_place(finding)
        line = self._text(
            (finding.severity, _LABELS[finding.severity]), ("dim", f" {finding.rule}  ")
        )
        room = self.content_size.width - line.cell_len - len(location) - 2
        message = Text(" ".join(finding.message.split()))
        message.truncate(max(10, room), overflow="ellipsis", pad=bool(location))
        line.append_text(message)
        if location:
            line.append_text(self._text(("dim", f"  {location}")))
        return line

    def _of_group(self, node: Node, leaves: Sequence[Leaf]) -> list[Text]:
        """A group's counts, its Pareto front, and the findings of its worst kernel."""
        entries = [leaf.entry for leaf in leaves if leaf.entry is not None]
        failures = len(leaves) - len(entries)
        archs = ", ".join(dict.fromkeys(entry.report.arch or "?" for entry in entries))
        title = [("name", node.label)]
        title.append(("dim", f"  {view.plural(len(entries), 'specialisation')}"))
        title.append(("dim", f" for {archs}" if archs else ""))
        if failures:
            title.append(("error", f"  {failures} failed"))
        lines = [self._text(*title)]
        stars = [starred for starred in entries if starred.key in self._stars]
        if stars:
            from ....inspector.compare.sweep.figures import figures_of
            from ....inspector.compare.sweep.pareto import objectives_of

            objectives = objectives_of([figures_of(starred.report) for starred in stars])
            objective_names = ", ".join(objective.text for objective in objectives)
            lines.append(
                self._text(
                    ("star", f"★ {len(stars)} on the Pareto front"), ("dim", f": {objective_names}")
                )
            )
        if entries:
            worst = view.worst_first([entry.report for entry in entries])[0]
            entry = next(entry for entry in entries if entry.report is worst)
            configuration = entry.case or entry.report.arch or ""
            lines.append(self._text(("dim", "most findings: "), ("", configuration)))
            lines += self._findings(worst)
        return lines

    def _text(self, *pieces: tuple[str, str]) -> Text:
        line = Text(no_wrap=True)
        for name, text in pieces:
            style = part_style(self, f"detail--{name}") if name else ""
            line.append(text, style)
        return line


def _figure(column: KernelColumn, value: Value) -> str:
    if value is None or isinstance(value, str):
        return value or UNKNOWN
    return column.form(value)


class FailureScreen(ModalScreen[None]):
    """A failure in full, with the end of the user's code's output."""

    DEFAULT_CSS = """
    FailureScreen { align: center middle; background: $background 60%; }
    FailureScreen > VerticalScroll {
        width: 90%; height: auto; max-height: 90%; padding: 0 1;
        background: $surface; border: round $error; border-title-color: $error;
        border-subtitle-color: $foreground 60%;
    }
    FailureScreen .hint { color: $accent; margin-top: 1; }
    FailureScreen .head { color: $foreground 60%; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "Close", show=False),
        Binding("j", "scroll(1)", "Down", show=False),
        Binding("k", "scroll(-1)", "Up", show=False),
        Binding("ctrl+d", "scroll(10)", "Page down", show=False),
        Binding("ctrl+u", "scroll(-10)", "Page up", show=False),
        Binding("y", "copy", "Copy", show=False),
    ]

    def __init__(self, error: ErrorRecord) -> None:
        super().__init__()
        self._error = error

    def compose(self) -> ComposeResult:
        """The message, the hint and the output."""
        error = self._error
        with VerticalScroll() as scroll:
            scroll.border_title = f"failed to {error.stage}"
            scroll.border_subtitle = "y copies  esc closes"
            where = "  ".join(part for part in (error.kernel, error.file) if part)
            yield Static(where, markup=False, classes="where")
            yield Static(error.message, markup=False, classes="message")
            if error.hint:
                yield Static(f"→ {error.hint}", markup=False, classes="hint")
            if error.output:
                yield Static("what it printed:", classes="head")
                yield Static(error.output.rstrip(), markup=False, classes="output")

    def action_scroll(self, lines: int) -> None:
        """Scrolls the text."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_copy(self) -> None:
        """Copies the failure with its hint and output."""
        error = self._error
        parts = (error.file, error.kernel, f"{error.stage}: {error.message}", error.hint)
        self.app.copy_to_clipboard("\n".join(part for part in (*parts, error.output) if part))
        self.notify("copied", timeout=2)
