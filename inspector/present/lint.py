"""A lint report as a document: what is wrong, where, and what to do about it; the worst first.

Grouped by kernel; by rule where there are so many kernels that nobody reads them one by one.

Where the expressions of Python sources end.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Final, TextIO

from ..base.documents import python_tree
from ..base.named_files import named_text
from ..base.printable import printable_columns
from ..explain.view import SEVERITY_TEXTS, file_name, plural, show
from ..lint.lint_results import LintReport
from ..lint.ranking import repetitions_last
from ..model import MetricValue
from . import lint_view as view
from . import markdown, text
from .document import (
    Block,
    Figure,
    Figures,
    Item,
    Items,
    Paragraph,
    Section,
    Span,
    Text,
    paragraphs,
    words,
)
from .lint_view import MergedFindings

MOST_BYTES: Final = 60_000
"""Of Markdown: a comment on GitHub may have 65,536 characters; a caller may add some."""
MOST_KERNELS: Final = 24
"""With findings in more kernels than this they are grouped by rule."""
MOST_PLACES: Final = 8
"""Of one rule, when grouped by rule; `details` shows all."""


def write(
    report: LintReport, stream: TextIO, *, details: bool = False, color: bool | None = None
) -> None:
    """Prints the findings, what became of suppressions and baseline, and one line in summary.

    `details`: every rule's explanation, references and figures; known and suppressed findings too.
    """
    parts = _Parts(report, details)
    summary = Section((), words(view.summary(report), "strong"), is_subject=True)
    rules = parts.rules() if details else ()
    text.show((*parts.findings(), *rules, *_remarks(report), summary), stream, color)


def write_markdown(report: LintReport, stream: TextIO, *, most_bytes: int = MOST_BYTES) -> None:
    """Writes the summary first, and what rules mean last, folded; at most so many bytes."""
    parts = _Parts(report)
    title = (Span("kinspect lint"), Span(view.summary(report)))
    summary = Section((), title, is_subject=True)
    document = (summary, *_remarks(report), *parts.findings(), *parts.rules())
    markdown.show(document, stream, most_bytes)


class _Parts:
    """The sections of a report; remembers which fixes were told."""

    def __init__(self, report: LintReport, details: bool = False) -> None:
        self._report = report
        self._details = details
        self._advised: set[tuple[str, str]] = set()
        self._expressions = Expressions()
        states: tuple[view.State, ...] = ("new", "known", "suppressed") if details else ("new",)
        self._groups = view.groups(report, states)

    def findings(self) -> Iterator[Section]:
        """The findings by kernel, or by rule where there are too many kernels."""
        kernels = view.by_kernel(self._groups)
        if len(kernels) > MOST_KERNELS:
            # Groups come sorted by severity and rule already.
            for _, several in groupby(self._groups, lambda g: (g.first.severity, g.first.rule)):
                yield self._rule(list(several))
        else:
            yield from map(self._kernel, kernels)

    def rules(self) -> Iterator[Section]:
        """What the rules of the findings mean."""
        for rule in dict.fromkeys(group.first.rule for group in self._groups):
            about = view.rule_of(self._report, rule)
            if about is not None and (about.explain or about.references):
                see = (Paragraph((Span(each.title, url=each.url),)) for each in about.references)
                title = words(view.title_of(self._report, rule), "strong")
                yield Section((*paragraphs((about.explain,)), *see), title, folds=True)

    def _kernel(self, groups: list[MergedFindings]) -> Section:
        kernels = [occurrence.kernel for group in groups for occurrence in group.occurrences]
        kernel = kernels[0]
        source = kernel.source
        archs = dict.fromkeys(k.arch for k in kernels if k.arch and k.name == kernel.name)
        n = len({k.id for k in kernels if k.name == kernel.name})
        title = (
            Span(kernel.name, "strong"),
            Span(f"  {source.file}:{source.line}" if source else f"  {kernel.file}"),
            Span(f"  {', '.join(archs)}" if archs else "", "weak"),
            Span(f"  {n} specialisations" if n > 1 else "", "weak"),
        )
        ordered = repetitions_last(groups, lambda group: group.first)
        items = tuple(self._finding(group, of_several=n > 1) for group in ordered)
        return Section((Items(items, is_long=True),), title, is_subject=True)

    def _finding(self, group: MergedFindings, *, of_several: bool) -> Item:
        first = group.first
        return Item(
            Span(SEVERITY_TEXTS[first.severity], first.severity),
            _place(group),
            view.message_of(group, of_several=of_several),
            f"{view.title_of(self._report, first.rule)}{_state(group)}",
            (*self._evidence(group), *self._advice(group)),
            tuple(self._marked(group)),
        )

    def _marked(self, group: MergedFindings) -> Iterator[str]:
        """The line of the source, and a mark under the expression, where that is known."""
        place, line = group.place, printable_columns(group.place.text).expandtabs(1)
        column = group.first.column_in(place.file, place.line)
        indent = len(line) - len(line.lstrip())
        if column is None or place.line is None or not indent < column <= len(line):
            return
        width = self._expressions.width(place.file, place.line, column, place.text)
        yield line.strip()
        yield f"{' ' * (column - 1 - indent)}^{'~' * (width - 1)}"

    def _rule(self, groups: list[MergedFindings]) -> Section:
        severity, rule = groups[0].first.severity, groups[0].first.rule
        kernels = len({view.key_of(o.kernel) for group in groups for o in group.occurrences})
        title = (
            Span(f"{SEVERITY_TEXTS[severity]:<9}", severity),
            Span(view.title_of(self._report, rule), "strong"),
            Span(f"  {plural(len(groups), 'place')} in {plural(kernels, 'kernel')}", "weak"),
        )
        shown = groups if self._details else groups[:MOST_PLACES]
        items = (
            Item(
                Span(""),
                _place(group),
                f"{group.kernel.name}: {view.message_of(group)}{_state(group)}",
                below=self._evidence(group),
            )
            for group in shown
        )
        more = plural(len(groups) - len(shown), "more place")
        left = f"and {more} (--details shows all)" if len(groups) > len(shown) else ""
        advice = (span.text for group in groups for span in self._advice(group))
        blocks: tuple[Block, ...] = (Items(tuple(items)), *paragraphs((left, *advice)))
        return Section(blocks, title, is_subject=True)

    def _evidence(self, group: MergedFindings) -> Text:
        evidence = group.first.evidence
        if not self._details or not evidence:
            return ()
        return words(f"({', '.join(f'{k} = {_figure(v)}' for k, v in evidence.items())})", "weak")

    def _advice(self, group: MergedFindings) -> Text:
        """What to do, once for each rule and fix."""
        rule, fix = group.first.rule, group.first.advice
        if not fix or (rule, fix) in self._advised:
            return ()
        self._advised.add((rule, fix))
        return words(f"fix: {fix}", "good")


def _remarks(report: LintReport) -> Iterator[Section]:
    """Errors, unused suppressions, gone entries, notes, and how many findings fail the run."""
    rows = []
    for error in report.errors:
        where = " ".join(part for part in (error.file, error.kernel) if part)
        hint = f"; {error.hint}" if error.hint else ""
        problem = f"{where}: {error.stage}: {error.message}{hint}"
        rows.append(Figure("not linted", words(problem, "error")))
    for unused in report.unused:
        place = f"{unused.file}:{unused.line}  {view.unused(unused)}"
        rows.append(Figure("suppression", words(place, "warning")))
    if report.gone:
        gone = f"{plural(len(report.gone), 'finding')} of {report.baseline} no longer found"
        rows.append(Figure("gone", words(f"{gone} (--update-baseline drops them)")))
    rows += [Figure("note", words(note)) for note in report.notes]
    if report.failing:
        failing = f"{plural(len(report.failing), 'finding')} at or above {report.fail_on}"
        rows.append(Figure("failing", words(failing, "error")))
    if rows:
        yield Section((Figures(tuple(rows)),))


def _place(group: MergedFindings) -> str:
    """`file:line:column` as far as it is known, as editors open it from the current folder."""
    place = group.place
    folder = os.path.join(os.getcwd(), "")
    is_below = place.file.startswith(folder)
    name = place.file[len(folder) :] if is_below else file_name(place.file)
    numbers = (place.line, group.first.column_in(place.file, place.line))
    return ":".join((name, *(str(number) for number in numbers if number)))


def _state(group: MergedFindings) -> str:
    if group.state == "new":
        return ""
    by = group.by
    if by is None:
        return "  (known)"
    return f"  (suppressed: {by if isinstance(by, str) else f'{by.file}:{by.line} {by.reason}'})"


def _figure(value: MetricValue) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {show(v)}" for k, v in value.items()) + "}"
    return show(value)


class Expressions:
    """The expressions of source files, each of which is read once."""

    def __init__(self) -> None:
        self._files: dict[str, dict[tuple[int, int], tuple[int, int]]] = {}

    def width(self, file: str, line: int, column: int, text: str) -> int:
        """Characters of a line that belong to the longest expression or statement at a column.

        Lines and columns count from 1. It is 1 where none begins there, and where `text` is not
        that of the line, as of a source that has changed.
        """
        if not file.endswith(".py"):
            return 1
        if file not in self._files:
            self._files[file] = _ends(named_text(file) or "")
        data = text.encode("utf-8", "replace")
        start = len(text[: column - 1].encode("utf-8", "replace"))
        last_line, end = self._files[file].get((line, start), (line, start + 1))
        code = data[start:] if last_line > line else data[start:end]
        return max(1, len(code.decode("utf-8", "ignore").rstrip()))


def _ends(text: str) -> dict[tuple[int, int], tuple[int, int]]:
    """Line and offset in bytes of each expression and statement -> those of its end."""
    try:
        tree = python_tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    ends: dict[tuple[int, int], tuple[int, int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt):
            start = node.lineno, node.col_offset
            end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset + 1
            ends[start] = max(end, ends.get(start, end))
    return ends
