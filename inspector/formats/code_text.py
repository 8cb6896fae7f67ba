"""A kernel's code with marks, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TextIO

from msgspec import Struct

from ..explain import view
from ..explain.code.reading import MarkedLine
from ..explain.registers_view import pressure_bar
from ..model import Finding, KernelReport, RegisterPressure
from ..present import text
from ..present.document import Item, Items, Paragraph, Span, words
from ..present.text import Line, Paper, paper_for

SIGNS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"error": ("✗", "bold red"), "warning": ("▲", "yellow"), "info": ("•", "cyan")}
)
"""Severity of a finding -> its sign and style."""
_BAR = 8
"""Characters of the bar of live registers."""
_TAB = 8
"""Columns that LLVM indents instructions by; two are drawn."""


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
    columns = [column for column in _columns(lines, kernel, pressure) if any(column.texts)]
    paper.print(Line(" ".join(column.set(column.title) for column in columns).rstrip(), "dim"))
    for number, line in enumerate(lines):
        printed = Line()
        for column in columns:
            blank = " " if printed.spans else ""
            printed.append(f"{blank}{column.set(column.texts[number])}", column.styles[number])
        code = line.text
        printed.append("  " + (code[_TAB - 2 :] if code.startswith(" " * _TAB) else code))
        paper.print(printed)
    _print_findings(lines, paper)
    if pressure is not None and pressure.budgets:
        budgets = ", ".join(
            f"{view.show(most)} for {view.show(waves)}" for waves, most in pressure.budgets
        )
        legend = f"┊ most registers for an occupancy (waves/SIMD): {budgets}"
        paper.print(Line())
        text.print_block(Paragraph(words(legend, "weak")), paper)


class _Column(Struct):
    """A column left of the code: a text and a style for each line."""

    title: str
    texts: list[str]
    styles: list[str]
    right: bool = False
    width: int = 0

    def __post_init__(self) -> None:
        self.width = max(len(self.title), *map(len, self.texts), 0)

    def set(self, text: str) -> str:
        """A text as wide as the column."""
        return text.rjust(self.width) if self.right else text.ljust(self.width)


def _columns(
    lines: Sequence[MarkedLine], kernel: KernelReport, pressure: RegisterPressure | None
) -> Iterator[_Column]:
    own_file = view.file_name(kernel.source.file) if kernel.source is not None else ""
    hot = {loop.id for loop in kernel.loops if loop.hot}
    has_agprs = any(line.agprs for line in lines)
    dim = ["dim"] * len(lines)

    def count(line: MarkedLine) -> str:
        if line.vgprs is None:
            return ""
        return f"{line.vgprs}+{line.agprs}" if has_agprs else str(line.vgprs)

    def place(line: MarkedLine) -> str:
        if line.source is None:
            return ""
        is_own = view.file_name(line.source.file) == own_file
        return str(line.source.line) if is_own else view.place(line.source)

    yield _Column("line", [str(line.number) for line in lines], dim, right=True)
    if pressure is not None and any(line.vgprs is not None for line in lines):
        title = "VGPR+AGPR" if has_agprs else "VGPRs"
        styles = [_live_style(line, pressure) for line in lines]
        yield _Column(title, [*map(count, lines)], styles, right=True)
        needs = (line.need for line in lines)
        bars = (pressure_bar(n, pressure, _BAR) if n is not None else "" for n in needs)
        yield _Column("", [f"{bar:<{_BAR}}" for bar in bars], dim)
    styles = ["bold" if line.loop in hot else "dim" for line in lines]
    yield _Column("loop", [line.loop or "" for line in lines], styles)
    yield _Column("source", [*map(place, lines)], dim)
    yield _Column("rule", [*map(_rules, lines)], [*map(_rule_style, lines)])


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


def _rule_style(line: MarkedLine) -> str:
    return SIGNS[_ordered(line.findings)[0].severity][1] if line.findings else ""


def _ordered(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: [*SIGNS].index(finding.severity))


def _print_findings(lines: Sequence[MarkedLine], paper: Paper) -> None:
    """Prints each finding once, with the number of lines that it points at."""
    pointers: dict[tuple[str, str], list[Finding]] = {}
    for line in lines:
        for finding in line.findings:
            pointers.setdefault((finding.fingerprint, finding.message), []).append(finding)
    if not pointers:
        return
    paper.print(Line())
    items = []
    for finding in _ordered([same[-1] for same in pointers.values()]):
        mark = Span(f"{SIGNS[finding.severity][0]} {finding.rule}", finding.severity)
        count = view.plural(len(pointers[finding.fingerprint, finding.message]), "line")
        items.append(Item(mark, "", f"{count}: {finding.message}"))
    text.print_block(Items(tuple(items)), paper)
