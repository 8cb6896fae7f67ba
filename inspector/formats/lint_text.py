"""A lint report for people: what is wrong, where, and what to do about it; the worst first.

Grouped by kernel; by rule where there are so many kernels that nobody reads them one by one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TextIO

from ..base.printable import one_line, printable_columns
from ..explain.expressions import Expressions
from ..explain.view import file_name, plural, show
from ..lint.ranking import repetitions_last
from ..lint.results import CheckedKernel, LintReport
from ..model import MetricValue
from ..present.paper import Line, Paper, paper_for, wrapped
from . import lint_view as view
from .lint_view import MergedFindings

MOST_KERNELS = 24
"""With findings in more kernels than this they are grouped by rule."""
MOST_PLACES = 8
"""Of one rule, when grouped by rule; `details` shows all."""
_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_INDENT = " " * 11
"""Before the sentences below a finding."""
_REMARK_WIDTH = 12
"""Columns of the word that a remark begins with."""


def write(
    report: LintReport, stream: TextIO, *, details: bool = False, color: bool | None = None
) -> None:
    """Writes the findings, what became of suppressions and baseline, and one line in summary.

    Args:
        report: the result.
        stream: where to.
        details: with every rule's explanation, its references and the figures it rests on; known
            and suppressed findings too.
        color: forces colour on or off; None leaves it to the stream.
    """
    paper = paper_for(stream, color)
    page = _LintPage(report, paper, details)
    page.findings()
    page.remarks()
    paper.print(_summary(report))


class _LintPage:
    """One report on one paper; remembers which fixes and explanations were given."""

    def __init__(self, report: LintReport, paper: Paper, details: bool) -> None:
        self._report = report
        self._paper = paper
        self._details = details
        self._advised: set[tuple[str, str]] = set()
        self._expressions = Expressions()

    def findings(self) -> None:
        """Prints the findings by kernel, or by rule where there are too many kernels."""
        states: tuple[view.State, ...] = (
            ("new", "known", "suppressed") if self._details else ("new",)
        )
        listed = view.groups(self._report, states)
        kernels: dict[tuple[str, str], list[MergedFindings]] = {}
        for group in listed:
            kernels.setdefault(_kernel_key(group), []).append(group)
        if len(kernels) > MOST_KERNELS:
            # Groups come sorted by severity and rule already.
            for rule, several in groupby(listed, key=lambda g: (g.first.severity, g.first.rule)):
                self._rule(rule[1], list(several))
        else:
            # Python's sort is stable: kernels that are equally bad stay in the order of the worst.
            for groups in sorted(kernels.values(), key=_badness, reverse=True):
                self._kernel(groups)

    def remarks(self) -> None:
        """Prints errors, unused suppressions, gone entries, notes."""
        lines = []
        for error in self._report.errors:
            where = " ".join(part for part in (error.file, error.kernel) if part)
            message = f"{where}: {error.stage}: {error.message}"
            lines.append(
                ("not linted", "bold red", f"{message}; {error.hint}" if error.hint else message)
            )
        for unused in self._report.unused:
            message = f"{unused.file}:{unused.line}  {view.unused(unused)}"
            lines.append(("suppression", "yellow", message))
        if self._report.gone:
            n = plural(len(self._report.gone), "finding")
            message = (
                f"{n} of {self._report.baseline} no longer found (--update-baseline drops them)"
            )
            lines.append(("gone", "green", message))
        lines += [("note", "cyan", note) for note in self._report.notes]
        for word, style, text in lines:
            line = Line(f"{word:<{_REMARK_WIDTH}}", style)
            line.append(one_line(text))
            self._print(wrapped(line, self._paper.width, " " * _REMARK_WIDTH))
        if lines:
            self._paper.print(Line())

    def _kernel(self, groups: list[MergedFindings]) -> None:
        """Prints the findings of one kernel, or of its specialisations."""
        kernels = [occurrence.kernel for group in groups for occurrence in group.occurrences]
        kernel = kernels[0]
        head = Line(one_line(kernel.name), "bold")
        source = kernel.source
        position = f"{source.file}:{source.line}" if source else kernel.file
        head.append(f"  {one_line(position)}")
        archs = dict.fromkeys(k.arch for k in kernels if k.arch and k.name == kernel.name)
        head.append(f"  {one_line(', '.join(archs))}" if archs else "", "dim")
        n = len({k.id for k in kernels if k.name == kernel.name})
        head.append(f"  {n} specialisations" if n > 1 else "", "dim")
        self._paper.print(head)
        for group in repetitions_last(groups, lambda group: group.first):
            first = group.first
            line = Line(f"  {_place(group)}: ")
            line.append(view.SEVERITY_TEXTS[first.severity], _STYLES[first.severity])
            line.append(f" {view.title_of(self._report, first.rule)}", "bold")
            line.append(f"  ({_state(group)})" if group.state != "new" else "", "dim")
            self._paper.print(line)
            self._print(self._source(group))
            self._sentence(view.message_of(group, of_several=n > 1))
            self._evidence(group)
            self._advice(group)
        self._paper.print(Line())

    def _source(self, group: MergedFindings) -> Iterator[Line]:
        """The line of the source with a mark under the expression; nothing where one is unknown."""
        place, text = group.place, printable_columns(group.place.text).expandtabs(1)
        column = group.first.column_in(place.file, place.line)
        indent = len(text) - len(text.lstrip())
        if column is None or place.line is None or not indent < column <= len(text):
            return
        width = self._expressions.width(place.file, place.line, column, place.text)
        room = self._paper.width - len(_INDENT)
        start = column - 1 - indent
        if start < room:
            yield Line(f"{_INDENT}{text.strip()[:room]}", "dim")
            yield Line(
                f"{_INDENT}{' ' * start}^{'~' * (min(start + width, room) - start - 1)}", "dim"
            )

    def _rule(self, rule: str, groups: list[MergedFindings]) -> None:
        """Prints the findings of one rule in all kernels."""
        severity = groups[0].first.severity
        head = Line(f"{view.SEVERITY_TEXTS[severity]:<9}", _STYLES[severity])
        head.append(view.title_of(self._report, rule), "bold")
        kernels = len({_key_of(o.kernel) for group in groups for o in group.occurrences})
        head.append(f"  {plural(len(groups), 'place')} in {plural(kernels, 'kernel')}", "dim")
        self._paper.print(head)
        for group in groups if self._details else groups[:MOST_PLACES]:
            line = Line(f"  {_place(group)}  ")
            line.append(f"{one_line(group.kernel.name)}: {view.message_of(group)}")
            line.append(f"  ({_state(group)})" if group.state != "new" else "")
            self._print(wrapped(line, self._paper.width, _INDENT))
            self._evidence(group)
        left = len(groups) - MOST_PLACES
        if left > 0 and not self._details:
            self._paper.print(
                Line(f"  and {plural(left, 'more place')} (--details shows all)", "dim")
            )
        for group in groups:
            self._advice(group)
        self._paper.print(Line())

    def _evidence(self, group: MergedFindings) -> None:
        evidence = group.first.evidence
        if self._details and evidence:
            figures = ", ".join(f"{k} = {_figure(v)}" for k, v in evidence.items())
            self._sentence(f"({figures})", "dim")

    def _advice(self, group: MergedFindings) -> None:
        """Prints what to do, once for each rule and fix; with `details` also why."""
        rule, fix = group.first.rule, group.first.advice
        if (rule, fix) in self._advised:
            return
        text = view.rule_of(self._report, rule)
        first = not any(advised_rule == rule for advised_rule, _ in self._advised)
        self._advised.add((rule, fix))
        if self._details and first and text is not None:
            self._sentence(text.explain, "dim")
        if fix:
            self._sentence(f"fix: {fix}", "green")
        if self._details and first and text is not None:
            for reference in text.references:
                self._sentence(f"see {reference.title}: {reference.url}", "dim")

    def _sentence(self, text: str, style: str = "") -> None:
        line = Line(_INDENT + one_line(text), style)
        if text:
            self._print(wrapped(line, self._paper.width, _INDENT))

    def _print(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._paper.print(line)


def _summary(report: LintReport) -> Line:
    failing = len(report.failing)
    if not failing:
        return Line(view.summary(report), "" if report.errors else "bold")
    line = Line(view.summary(report), "bold")
    line.append(f"   {plural(failing, 'finding')} at or above {report.fail_on}", "bold red")
    return line


def _kernel_key(group: MergedFindings) -> tuple[str, str]:
    return _key_of(group.kernel)


def _key_of(kernel: CheckedKernel) -> tuple[str, str]:
    return (kernel.name, kernel.source.file if kernel.source else kernel.file)


def _badness(groups: list[MergedFindings]) -> tuple[int, ...]:
    return tuple(sum(g.first.severity == s for g in groups) for s in _STYLES)


def _place(group: MergedFindings) -> str:
    """`file:line:column` as far as it is known, as editors open it from the current folder."""
    place = group.place
    folder = os.path.join(os.getcwd(), "")
    is_below = place.file.startswith(folder)
    name = place.file[len(folder) :] if is_below else file_name(place.file)
    numbers = (place.line, group.first.column_in(place.file, place.line))
    return ":".join((one_line(name), *(str(number) for number in numbers if number)))


def _state(group: MergedFindings) -> str:
    if group.state == "known":
        return "known"
    by = group.by
    suppressed_by = by if isinstance(by, str) or by is None else f"{by.file}:{by.line} {by.reason}"
    return one_line(f"suppressed: {suppressed_by}")


def _figure(value: MetricValue) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {show(v)}" for k, v in value.items()) + "}"
    return show(value)
