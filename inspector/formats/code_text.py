"""A kernel's code with marks, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TextIO

from ..explain import view
from ..explain.code.marked_lines import MarkedLine
from ..explain.registers_view import pressure_bar
from ..model import Finding, KernelReport, RegisterPressure
from ..present import text
from ..present.document import Item, Items, Paragraph, Span, words
from ..present.paper import Line, Paper, paper_for

SIGNS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"error": ("✗", "bold red"), "warning": ("▲", "yellow"), "info": ("•", "cyan")}
)
"""Severity of a finding -> its sign and style."""
_BAR = 8
"""Characters of the bar of live registers."""
_INDENT = 8
"""Of instructions in assembly: LLVM writes a tab."""


def write(
    lines: Sequence[MarkedLine],
    kernel: KernelReport,
    title: str,
    pressure: RegisterPressure | None,
    stream: TextIO,
    *,
    color: bool | None = None,
) -> None:
    """Writes the lines under a heading, and the findings that point at some of them."""
    paper = paper_for(stream, color)
    heading = Line(kernel.name, style="bold")
    heading.append(f"  {kernel.arch or 'unknown target'}  {title}")
    paper.print(heading)
    columns = _Columns(lines, kernel, pressure)
    paper.print(Line(columns.heading, "dim"))
    for line in lines:
        paper.print(columns.line(line))
    _findings(paper, lines)
    if pressure is not None and pressure.budgets:
        budgets = ", ".join(
            f"{view.show(most)} for {view.show(waves)}" for waves, most in pressure.budgets
        )
        told = f"┊ most registers for an occupancy (waves/SIMD): {budgets}"
        paper.print(Line())
        text.print_block(Paragraph(words(told, "weak")), paper)


class _Columns:
    """What stands left of the code."""

    def __init__(
        self, lines: Sequence[MarkedLine], kernel: KernelReport, pressure: RegisterPressure | None
    ) -> None:
        self._pressure = pressure if any(line.vgprs is not None for line in lines) else None
        self._own_file = view.file_name(kernel.source.file) if kernel.source is not None else ""
        self._hot = {loop.id for loop in kernel.loops if loop.hot}
        self._digits = max((len(str(line.number)) for line in lines), default=1)
        self._has_agprs = any(line.agprs for line in lines)
        self._live = max((len(self._counts(line)) for line in lines), default=0)
        self._live = max(self._live, len(self._live_heading)) if self._pressure else 0
        self._loop = max((len(line.loop or "") for line in lines), default=0)
        self._source = max((len(self._place(line)) for line in lines), default=0)
        self._rules = max((len(_rules(line)) for line in lines), default=0)

    @property
    def _live_heading(self) -> str:
        return "VGPR+AGPR" if self._has_agprs else "VGPRs"

    @property
    def heading(self) -> str:
        """The columns' titles."""
        live = f" {self._live_heading:>{self._live}} {'':<{_BAR}}" if self._pressure else ""
        loop = f" {'loop':<{max(self._loop, 4)}}" if self._loop else ""
        source = f" {'source':<{max(self._source, 6)}}" if self._source else ""
        rules = f" {'rule':<{max(self._rules, 4)}}" if self._rules else ""
        return f"{'line':>{max(self._digits, 4)}}{live}{loop}{source}{rules}".rstrip()

    def line(self, line: MarkedLine) -> Line:
        """A line of the listing."""
        printed = Line(f"{line.number:>{max(self._digits, 4)}}", "dim")
        if self._pressure is not None:
            printed.append(
                f" {self._counts(line):>{self._live}} ", _live_style(line, self._pressure)
            )
            bar = pressure_bar(line.need, self._pressure, _BAR) if line.need is not None else ""
            printed.append(f"{bar:<{_BAR}}", "dim")
        if self._loop:
            style = "bold" if line.loop in self._hot else "dim"
            printed.append(f" {line.loop or '':<{max(self._loop, 4)}}", style)
        if self._source:
            printed.append(f" {self._place(line):<{max(self._source, 6)}}", "dim")
        if self._rules:
            printed.append(f" {_rules(line):<{max(self._rules, 4)}}", _style(line.findings))
        text = line.text
        blanks = len(text) - len(text.lstrip(" "))
        printed.append("  " + (text[_INDENT - 2 :] if blanks >= _INDENT else text))
        return printed

    def _counts(self, line: MarkedLine) -> str:
        if line.vgprs is None:
            return ""
        return f"{line.vgprs}+{line.agprs}" if self._has_agprs else str(line.vgprs)

    def _place(self, line: MarkedLine) -> str:
        if line.source is None:
            return ""
        file = view.file_name(line.source.file)
        return str(line.source.line) if file == self._own_file else f"{file}:{line.source.line}"


def _live_style(line: MarkedLine, pressure: RegisterPressure) -> str:
    """Yellow where no more than is live there keeps the occupancy below the next one."""
    above = pressure.next_level
    is_over = above is not None and line.need is not None and line.need > above[1]
    return "yellow" if is_over else ""


def _rules(line: MarkedLine) -> str:
    """`▲ KI001`; of several findings the first, and how many more."""
    if not line.findings:
        return ""
    ordered = _ordered(line.findings)
    more = f" +{len(ordered) - 1}" if len(ordered) > 1 else ""
    return f"{SIGNS[ordered[0].severity][0]} {ordered[0].rule}{more}"


def _style(findings: Sequence[Finding]) -> str:
    return SIGNS[_ordered(findings)[0].severity][1] if findings else ""


def _ordered(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: [*SIGNS].index(finding.severity))


def _findings(paper: Paper, lines: Sequence[MarkedLine]) -> None:
    counts: dict[str, int] = {}
    by_fingerprint: dict[str, Finding] = {}
    for line in lines:
        for finding in line.findings:
            key = f"{finding.fingerprint} {finding.message}"
            counts[key] = counts.get(key, 0) + 1
            by_fingerprint[key] = finding
    if not counts:
        return
    paper.print(Line())
    items = []
    for finding in _ordered(list(by_fingerprint.values())):
        mark = Span(f"{SIGNS[finding.severity][0]} {finding.rule}", finding.severity)
        count = view.plural(counts[f"{finding.fingerprint} {finding.message}"], "line")
        items.append(Item(mark, "", f"{count}: {finding.message}"))
    text.print_block(Items(tuple(items)), paper)
