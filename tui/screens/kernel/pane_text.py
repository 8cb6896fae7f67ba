"""The content of the kernel page's panes: text, colours and gutter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from ....inspector.explain.code.highlighting import STRING, spans, style_of, within_strings
from ....inspector.model import Finding, KernelReport
from ...widgets.code import Cell, Span, Text
from ...widgets.code_rows import drawn
from .line_columns import GutterColumn

if TYPE_CHECKING:
    from ....inspector.explain.code.marks import LineMarks

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
    columns: Sequence[GutterColumn] = (),
) -> tuple[Text, Gutter]:
    isa_marks = marks if kind == "amdgcn" else None
    gutter: Gutter
    if kind == "amdgcn":
        gutter = CodeGutter(len(lines), report, marks, columns)
    else:
        gutter = Gutter(len(lines), kind, marks, columns)
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


def gutter_width(kind: str, lines: int, report: KernelReport) -> int:
    """Cells of the gutter without columns of figures."""
    return (CodeGutter(lines, report, None) if kind == "amdgcn" else Gutter(lines, kind)).width


def code_width(kind: str, text: str) -> int:
    """Cells that a line needs: an instruction without its comment, and no directive at all."""
    if kind == "amdgcn":
        text = text.partition(";")[0].rstrip()
        return 0 if text.lstrip().startswith(".") else len(text)
    return len(drawn(text))


class Gutter:
    """Line numbers, signs of findings, and columns of figures."""

    def __init__(
        self,
        lines: int,
        kind: str = "",
        marks: LineMarks | None = None,
        columns: Sequence[GutterColumn] = (),
    ) -> None:
        self._digits = max(3, len(str(lines)))
        self._kind = kind
        self._marks = marks
        self._columns = columns

    @property
    def width(self) -> int:
        return self._digits + 3 + sum(column.width for column in self._columns)

    @property
    def heading(self) -> str:
        line = "line".rjust(self._digits).ljust(self._digits + 2)
        return (line + "".join(column.heading for column in self._columns)).ljust(self.width)

    def __call__(self, line: int) -> list[Cell]:
        """The cells left of a line."""
        return [
            (f"{line + 1:>{self._digits}} ", "number"),
            *self._sign(line),
            *self._figures(line),
            (" ", "number"),
        ]

    def _figures(self, line: int) -> list[Cell]:
        return [cell for column in self._columns for cell in column.cells(line)]

    def _sign(self, line: int) -> list[Cell]:
        findings = self._marks.findings(line, self._kind) if self._marks is not None else ()
        severity = worst(findings) if findings else None
        return [(SIGNS[severity], severity) if severity is not None else (" ", "number")]


class CodeGutter(Gutter):
    """The gutter of assembly, with loops, outstanding operations by counter, and classes too.

    Args:
        marks: what is known of its lines; while it is None, the columns are there but empty.
    """

    def __init__(
        self,
        lines: int,
        report: KernelReport,
        marks: LineMarks | None,
        columns: Sequence[GutterColumn] = (),
    ) -> None:
        super().__init__(lines, "amdgcn", marks, columns)
        waited = {wait.counter for wait in report.waits}
        self._counters = [name for name in COUNTERS if name in waited][:_MOST_COUNTERS]
        self._bars = min(_MOST_BARS, max((loop.depth for loop in report.loops), default=0))
        self._chains = _chains(report)
        loops = [loop for loop in report.loops if loop.lines]
        self._first = {min(first for first, _ in loop.lines) - 1: loop.depth for loop in loops}
        self._last = {max(last for _, last in loop.lines) - 1: loop.depth for loop in loops}

    @property
    def width(self) -> int:
        return super().width + self._bars + 3 * len(self._counters) + 1 + bool(self._columns)

    @property
    def heading(self) -> str:
        names = "".join(f" {COUNTERS[name][0]}" for name in self._counters)
        line = "line".rjust(self._digits)
        return (
            line
            + " " * (self._digits + 2 + self._bars - len(line))
            + names
            + "".join(column.heading for column in self._columns)
            + ("   " if self._columns else "  ")
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
        if self._columns:
            cells += [*self._figures(line), (" ", "number")]
        cells.append(("▎" if cls is not None else " ", style_of(cls or "")))
        return [*cells, (" ", "number")]

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
