"""What stands around the kernels' table: the status line above it, and the details of the row under
the cursor below.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from ....inspector.capture.targets import SUFFIXES
from ....inspector.explain import occupancy_view, trials_view, view
from ....inspector.explain.view import plural
from ....inspector.model import ErrorRecord, Finding, KernelReport
from ...session import Session, SessionKernel
from ...widgets.bars import bar
from ...widgets.styles import PartedWidget, broken
from .kernel_columns import COLUMNS, UNKNOWN, KernelColumn, Value
from .kernel_rows import Listing
from .kernel_tree import Leaf, Node, figures
from .row_cells import change_mark

_LABELS = {"error": "error", "warning": "warn ", "info": "note "}
_MAX_FINDINGS = 16


class Detail(PartedWidget):
    """A strip that shows a kernel's findings, a group's summary or a failure's message."""

    PREFIX = "detail"
    DEFAULT_CSS = """
    Detail { height: 6; padding: 0 1; background: $surface; border-top: solid $panel; }
    Detail > .detail--error { color: $error; text-style: bold; }
    Detail > .detail--warning { color: $warning; text-style: bold; }
    Detail > .detail--info { color: $primary; }
    Detail > .detail--dim { color: $foreground 60%; }
    Detail > .detail--name { color: $foreground; text-style: bold; }
    Detail > .detail--star { color: $accent; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._node: Node | None = None
        self._stars: frozenset[str] = frozenset()
        self._baseline: SessionKernel | None = None

    def show(
        self, node: Node | None, stars: frozenset[str], baseline: SessionKernel | None
    ) -> None:
        self._node, self._stars, self._baseline = node, stars, baseline
        self.refresh()

    def render(self) -> Text:
        """The lines of the row that fit; a long one goes on below where there is room."""
        width, height = self.content_size
        lines = self._lines()[: max(1, height)] if self._node else []
        spare = height - len(lines)
        rows: list[Text] = []
        for line in reversed(lines):  # findings, which stand last, are worth most
            parts = broken(line, self.app.console, width, 1 + max(0, spare))
            spare -= len(parts) - 1
            rows[:0] = parts
        return Text("\n", no_wrap=True).join(rows)

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
        if leaf.removed:
            title.append(("warning", f"  {leaf.removed} was removed: last figures"))
        elif leaf.stale:
            title.append(("dim", "  of the run before"))
        occupancy = "   ".join(occupancy_view.occupancy_lines(report))
        lines = [
            self._text(*title),
            self._changes(leaf),
            self._text(("dim", view.configuration(report))),
            Text(occupancy),
            *self._findings(report),
        ]
        return [line for line in lines if line.plain]

    def _changes(self, leaf: Leaf) -> Text:
        """The figures that differ from the baseline's, or else from the previous run's."""
        title, former = "changed: ", leaf.former if leaf.before is not None else leaf.values
        if self._baseline is not None:
            title, former = f"± {self._baseline.label}: ", figures(self._baseline)
        changes = []
        for name, column in COLUMNS.items():
            value, before = leaf.values[name], former.get(name)
            if value != before and name != "findings":
                mark, _ = change_mark(column, value, before)
                figure = f"{_figure(column, before)} → {_figure(column, value)}"
                changes.append(f"{column.title} {figure} {mark}")
        if leaf.values["findings"] != former.get("findings"):
            changes.append("findings")
        return self._text(("name", title), ("", ", ".join(changes))) if changes else Text()

    def _findings(self, report: KernelReport) -> list[Text]:
        if not report.findings:
            return [self._text(("dim", trials_view.findings_summary(report)))]
        return [self._finding(finding) for finding in report.findings[:_MAX_FINDINGS]]

    def _finding(self, finding: Finding) -> Text:
        location = view.finding_place(finding)
        kind: tuple[str, str] = (finding.severity, _LABELS[finding.severity])
        message = " ".join(finding.message.split())
        return self._text(
            kind,
            ("dim", f" {finding.rule}  {view.saving(finding)} "),
            ("dim", f"{location}  " if location else ""),
            ("", message),
        )

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
            from ....inspector.compare.sweep.swept_points import objectives_of

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
            line.append(text, self.part_style(name))
        return line


def _figure(column: KernelColumn, value: Value) -> str:
    if value is None or isinstance(value, str):
        return value or UNKNOWN
    return column.form(value)


_MAX_BAR_CELLS = 20
_COMPILED = frozenset({"script", "inductor", "ttir", "trace"})
"""Kinds of targets that are compiled; others are read."""


class Status(PartedWidget):
    """Shows the progress of the run, the number of rows, the filter and the order."""

    PREFIX = "status"
    DEFAULT_CSS = """
    Status { height: 1; padding: 0 1; color: $foreground 70%; }
    Status > .status--bar { color: $primary; }
    Status > .status--track { color: $foreground 25%; }
    Status > .status--bad { color: $error; text-style: bold; }
    Status > .status--filter { color: $accent; }
    Status > .status--mark { color: $secondary; }
    """

    def __init__(self, session: Session, listing: Listing, *, watching: bool) -> None:
        super().__init__()
        self._session = session
        self._listing = listing
        self._watching = watching

    def render(self) -> Text:
        width = self.content_size.width
        right = self._right()
        left = self._run(width) if self._session.progress.running else self._counts()
        left.truncate(max(0, width - right.cell_len - 1), overflow="ellipsis", pad=True)
        line = Text.assemble(left, " ", right)
        line.truncate(width, overflow="ellipsis")
        return line

    def _run(self, width: int) -> Text:
        """The left half during a run: its progress."""
        progress, stage = self._session.progress, first_stage(self._session)
        line = Text(no_wrap=True)
        if progress.expected:
            share = min(1.0, progress.done / progress.expected)
            for cells, name in bar(share, min(_MAX_BAR_CELLS, max(4, width // 8))):
                line.append(cells, self.part_style(name))
            line.append(" ")
        reported = max(0, progress.done - len(self._session.errors))
        if self._session.total_known:
            line.append(f"{reported:,} of {progress.expected:,} done")
        else:
            so_far = max(progress.expected, progress.compiled, reported)
            line.append(f"{stage} … {so_far:,} so far · {reported:,} done")
        if progress.compiled:
            line.append(f" · compiled {progress.compiled:,}")
        self._add_failed(line)
        return line

    def _counts(self) -> Text:
        """The left half after a run: the numbers of kernels, configurations and failures."""
        line, listing = Text(no_wrap=True), self._listing
        total = len(listing.leaves)
        variants = total - len(self._session.errors)
        if listing.filter_text:
            line.append(f"{listing.shown:,} of {total:,}")
        else:
            line.append(plural(listing.kernels, "kernel"))
            if variants > listing.kernels:
                line.append(f" · {plural(variants, 'specialisation')}")
        self._add_failed(line)
        removed = sum(bool(leaf.removed) for leaf in listing.leaves)
        if removed:
            line.append(f" · {removed:,} of a removed file", self.part_style("mark"))
        if old := sum(leaf.left_over and not leaf.removed for leaf in listing.leaves):
            line.append(f" · {old:,} old, of a run before", self.part_style("mark"))
        if self._session.progress.interrupted:
            line.append(" · interrupted")
        if self._watching:
            line.append(f" · run {self._session.runs}, watching for saves")
        return line

    def _add_failed(self, line: Text) -> None:
        if failures := len(self._session.errors):
            line.append(" · ")
            line.append(f"{failures:,} failed", self.part_style("bad"))

    def _right(self) -> Text:
        line, listing = Text(no_wrap=True), self._listing
        if listing.filter_error:
            line.append(f"{listing.filter_error}  ", self.part_style("bad"))
        elif listing.filter_text:
            line.append(f"/{listing.filter_text}  ", self.part_style("filter"))
        if marked := sum(key in self._session.entries for key in listing.marked):
            line.append(f"{marked} marked  ", self.part_style("mark"))
        line.append(f"by {listing.sort_title}")
        return line


def first_stage(session: Session) -> str:
    """What a run does with its targets at first: "reading" or "capturing"."""
    request = session.request
    names = [text.partition("::")[0] for text in request.targets] if request else []
    kinds = {SUFFIXES.get(Path(name).suffix, "script") for name in names}
    return "reading" if names and not kinds & _COMPILED else "capturing"
