"""The content of the kernel page's panes: text, colours and gutter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from ....inspector.explain.code.highlighting import STRING, spans, style_of, within_strings
from ....inspector.explain.registers_view import pressure_bar
from ....inspector.explain.view import HOT, WARM
from ....inspector.model import Finding, KernelReport, RegisterPressure
from ...widgets.code import Cell, Span, Text

if TYPE_CHECKING:
    from ....inspector.explain.code.marks import LineMarks
    from .costs import Costs

SIGNS: Mapping[str, str] = MappingProxyType({"error": "✗", "warning": "▲", "info": "•"})
"""Severity of a finding -> its sign in the gutter, which can be read without colours."""
COUNTERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "vmcnt": ("vm", "memory"),
        "loadcnt": ("ld", "memory"),
        "vscnt": ("vs", "memory"),
        "storecnt": ("st", "memory"),
        "lgkmcnt": ("lg", "lds"),
        "dscnt": ("ds", "lds"),
        "kmcnt": ("km", "scalar"),
        "asynccnt": ("as", "memory"),
        "tensorcnt": ("tn", "memory"),
        "samplecnt": ("sa", "memory"),
        "bvhcnt": ("bv", "memory"),
        "expcnt": ("ex", "other"),
        "xcnt": ("x ", "other"),
    }
)
"""Wait counters with the two letters over their column, and its style."""
_MOST_COUNTERS = 3
_MOST_BARS = 3
WIDTH = 7
"""Columns of the gutter for a measured or emulated share."""
_LEAST_SHARE = 0.05  # %; smaller ones are drawn as a dot
_BAR = 5
"""Columns of the curve of live registers."""
_SPILLS: Mapping[bool, str] = MappingProxyType({True: "↓", False: "↑"})
"""Whether a line stores to a spill slot -> its sign, where no finding has one."""
_INDENT = 8  # of instructions in assembly: LLVM writes a tab
_SHOWN_INDENT = 2


def displayed(kind: str, lines: Sequence[str]) -> Sequence[str]:
    """The lines as a pane shows them: assembly is not indented by eight columns."""
    if kind != "amdgcn":
        return lines
    wide, narrow = "\n" + " " * _INDENT, "\n" + " " * _SHOWN_INDENT
    # As one text: five times as fast as line by line.
    return "\n".join(("", *lines)).replace(wide, narrow)[1:].split("\n") if lines else lines


def plain(kind: str, lines: Sequence[str], folds: Mapping[int, int] | None) -> Text:
    """A text before its kernel's report has come: lines and line numbers."""
    gutter = Gutter(len(lines))
    return Text(lines, _spans(kind, lines, None), gutter, gutter.width, folds)


def marked(
    kind: str,
    lines: Sequence[str],
    folds: Mapping[int, int] | None,
    report: KernelReport,
    marks: LineMarks | None,
    costs: Costs | None = None,
    pressure: RegisterPressure | None = None,
) -> tuple[Text, Gutter]:
    """A text of a reported kernel, with its gutter.

    Args:
        kind: source, ttgir, llir or amdgcn.
        lines: of the text.
        folds: line -> the last of the lines that can be folded away under it.
        report: the kernel's.
        marks: what is known of its lines; None while they are being analysed.
        costs: what was measured or emulated of them; None while that is being worked out.
        pressure: of the kernel's registers, for a curve beside the assembly; None: without one.
    """
    isa_marks = marks if kind == "amdgcn" else None
    gutter: Gutter
    if kind == "amdgcn":
        gutter = CodeGutter(len(lines), report, marks, pressure)
    else:
        gutter = Gutter(len(lines), kind, marks)
    if report.measured_lines or report.emulated is not None:
        from .costs import heading

        gutter.add_shares(heading(report), costs)
    return Text(lines, _spans(kind, lines, isa_marks), gutter, gutter.width, folds), gutter


def _spans(
    kind: str, lines: Sequence[str], marks: LineMarks | None
) -> Callable[[int], Sequence[Span]]:
    if kind == "source":
        within = within_strings(lines)
        return lambda line: spans(kind, lines[line], STRING if line in within else None)
    if marks is None:
        return lambda line: spans(kind, lines[line], None)
    cls = marks.cls
    return lambda line: spans(kind, lines[line], cls(line))


def worst(findings: Sequence[Finding]) -> str | None:
    """The highest severity among findings; None where there are none."""
    for severity in SIGNS:
        if any(finding.severity == severity for finding in findings):
            return severity
    return None


class Gutter:
    """Line numbers, and signs of findings.

    Args:
        lines: how many lines the text has.
        kind: of text.
        marks: what is known of its lines.
    """

    def __init__(self, lines: int, kind: str = "", marks: LineMarks | None = None) -> None:
        self._digits = max(3, len(str(lines)))
        self._kind = kind
        self._marks = marks
        self._share_heading = ""  # of the column of shares; empty if there is none
        self._shares: Mapping[int, float] = {}
        self._cells: Mapping[int, Cell] = {}

    def add_shares(self, heading: str, costs: Costs | None) -> None:
        """Adds the column of measured or emulated shares; it is empty while `costs` is None."""
        self._share_heading = heading
        self._cells = costs.cells.get(self._kind, {}) if costs is not None else {}
        self._shares = costs.shares.get(self._kind, {}) if costs is not None else {}

    @property
    def width(self) -> int:
        """Columns that it takes."""
        return self._digits + 3 + (WIDTH if self._share_heading else 0)

    @property
    def heading(self) -> str:
        """The titles of its columns."""
        line = "line".rjust(self._digits)
        if self._share_heading:
            line = line.ljust(self._digits + 2) + self._share_heading
        return line.ljust(self.width)

    def __call__(self, line: int) -> list[Cell]:
        """The cells left of a line."""
        return [
            (f"{line + 1:>{self._digits}} ", "number"),
            *self._sign(line),
            *self._share(line),
            (" ", "number"),
        ]

    def _share(self, line: int) -> list[Cell]:
        if not self._share_heading:
            return []
        return [self._cells.get(line) or cell(self._shares.get(line))]

    def _sign(self, line: int) -> list[Cell]:
        findings = self._marks.findings(line, self._kind) if self._marks is not None else ()
        severity = worst(findings) if findings else None
        return [(SIGNS[severity], severity) if severity is not None else (" ", "number")]


class CodeGutter(Gutter):
    """The gutter of assembly, with loops, outstanding operations by counter, and classes too.

    Args:
        lines: how many lines the text has.
        report: the kernel.
        marks: what is known of its lines; while it is None, the columns are there but empty.
        pressure: of the kernel's registers; None for no curve.
    """

    def __init__(
        self,
        lines: int,
        report: KernelReport,
        marks: LineMarks | None,
        pressure: RegisterPressure | None = None,
    ) -> None:
        super().__init__(lines, "amdgcn", marks)
        self._pressure = pressure if pressure is not None and pressure.counts else None
        self._live: Mapping[int, tuple[int, int]] = {}
        if self._pressure is not None:
            counted = zip(self._pressure.counts, self._pressure.needs, strict=True)
            self._live = {line - 1: (vgprs, need) for (line, vgprs, _), need in counted}
        waited = {wait.counter for wait in report.waits}
        self._counters = [name for name in COUNTERS if name in waited][:_MOST_COUNTERS]
        self._bars = min(_MOST_BARS, max((loop.depth for loop in report.loops), default=0))
        self._chains = _chains(report)
        loops = [loop for loop in report.loops if loop.lines]
        self._first = {min(first for first, _ in loop.lines) - 1: loop.depth for loop in loops}
        self._last = {max(last for _, last in loop.lines) - 1: loop.depth for loop in loops}

    @property
    def width(self) -> int:
        """Columns that it takes."""
        curve = _BAR + 5 if self._pressure is not None else 0
        return super().width + self._bars + 3 * len(self._counters) + curve + 1

    @property
    def heading(self) -> str:
        """The titles of its columns."""
        names = "".join(f" {COUNTERS[name][0]}" for name in self._counters)
        line = "line".rjust(self._digits)
        return (
            line
            + " " * (self._digits + 2 + self._bars - len(line))
            + names
            + (f" vgpr{'':<{_BAR}}" if self._pressure is not None else "")
            + self._share_heading
            + "  "
        )

    def __call__(self, line: int) -> list[Cell]:
        """The cells left of a line."""
        cells: list[Cell] = [(f"{line + 1:>{self._digits}} ", "number"), *self._sign(line)]
        marks = self._marks
        if marks is None:
            return [*cells, (" " * (self.width - self._digits - 2), "number")]
        cells += self._loops(marks, line)
        cls = marks.cls(line)
        counts = marks.outstanding(line) if cls is not None and self._counters else {}
        for name in self._counters:
            cells.append(_count(name, counts) if name in counts else ("   ", "number"))
        cells += self._curve(line)
        cells += self._share(line)
        cells.append(("▎" if cls is not None else " ", style_of(cls or "")))
        return [*cells, (" ", "number")]

    def _curve(self, line: int) -> list[Cell]:
        """The live VGPRs of a line and the registers that they need, against the budgets."""
        if self._pressure is None:
            return []
        if line not in self._live:
            return [(" " * (_BAR + 5), "number")]
        vgprs, need = self._live[line]
        above = self._pressure.next_level
        style = "warning" if above is not None and need > above[1] else "number"
        return [(f"{vgprs:>4} ", style), (pressure_bar(need, self._pressure, _BAR), "loop")]

    def _sign(self, line: int) -> list[Cell]:
        cells = super()._sign(line)
        slot = self._marks.spill(line) if self._marks is not None else None
        if slot is None or cells[0][0] != " ":
            return cells
        return [(_SPILLS[line + 1 in slot.stores], "warning")]

    def _loops(self, marks: LineMarks, line: int) -> list[Cell]:
        depth = marks.depth(line)
        chain = self._chains.get(marks.loop(line) or "", ())
        cells: list[Cell] = []
        for level in range(1, self._bars + 1):
            if level > depth:
                cells.append((" ", "number"))
                continue
            hot = level <= len(chain) and chain[level - 1]
            bar = "│"
            if self._first.get(line) == level:
                bar = "╭"
            elif self._last.get(line) == level:
                bar = "╰"
            cells.append((bar, "loop-hot" if hot else "loop"))
        return cells


def cell(share: float | None) -> Cell:
    """A line's share in the gutter; the hotter, the stronger its colour."""
    if share is None:
        return " " * WIDTH, "number"
    if share < _LEAST_SHARE:
        return f"{'·':>{WIDTH - 1}} ", "dim"
    return f"{share:>{WIDTH - 1}.1f} ", cell_style(share)


def cell_style(share: float, hot: float = HOT) -> str:
    """The style of a share, in per cent, that is hot from `hot` on and warm from a part of it."""
    share = share * HOT / hot
    if share < _LEAST_SHARE:
        return "dim"
    return "heat" if share >= HOT else "warning" if share >= WARM else "dim"


def _chains(report: KernelReport) -> dict[str, tuple[bool, ...]]:
    """Loop -> whether each of the loops around it, the outermost first, and it itself, is hot."""
    by_id = {loop.id: loop for loop in report.loops}
    chains = {}
    for loop in report.loops:
        chain = [loop.hot]
        parent = by_id.get(loop.parent or "")
        while parent is not None and len(chain) < loop.depth:
            chain.insert(0, parent.hot)
            parent = by_id.get(parent.parent or "")
        chains[loop.id] = tuple(chain)
    return chains


def _count(name: str, counts: Mapping[str, int | None]) -> Cell:
    number = counts[name]
    if number is None:
        return "  -", "dim"
    if number == 0:
        return "  ·", "dim"
    return f"{number:>3}" if number < 100 else " 99", COUNTERS[name][1]
