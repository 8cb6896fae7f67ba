"""A lint report as Markdown, for a job's summary or a comment on a pull request.

It is never longer than a comment on GitHub may be: what does not fit is counted instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from html import escape
from types import MappingProxyType
from typing import TextIO

from ..base.printable import one_line
from ..explain.view import file_name, plural
from ..lint.results import LintReport
from ..present.markdown import is_reference, link, references_as_code
from . import lint_view
from .lint_view import MergedFindings

MOST_BYTES = 60_000
"""A comment on GitHub may have 65,536 characters; a caller may add some."""
_TABLES_SHARE = 0.65
"""Share of the text that tables may take; explanations have the rest."""
_RESERVE = 600
"""Bytes for the sentences that say what was left out."""
_HTML = MappingProxyType({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"})
"""An `@` would notify a person, even behind a backslash."""
_MARKUP = re.compile(r"[\\`*\[\]|~$#]|(?<!\w)_|_(?!\w)")
_MARKUP_OR_HTML = re.compile(rf"[&<>@]|{_MARKUP.pattern}")


def write(report: LintReport, stream: TextIO, *, most_bytes: int = MOST_BYTES) -> None:
    """Writes the summary, a table for each kernel, and what the rules mean, folded.

    Args:
        report: the result.
        stream: where to.
        most_bytes: limit on the whole text in UTF-8.
    """
    page = _BoundedPage(most_bytes - _RESERVE)
    page.add([f"## kinspect: {_escaped(lint_view.summary(report))}", ""])
    failing = len(report.failing)
    if failing:
        page.add([f"**{plural(failing, 'finding')} at or above {report.fail_on}**", ""])
    problems = _problems(report)
    page.add_while_they_fit(
        ([line] for line in problems),
        len(problems),
        lambda left: [f"- and {left} more"],
        _TABLES_SHARE,
    )
    page.add([""])
    kernels: dict[tuple[str, str], list[MergedFindings]] = {}
    for group in lint_view.groups(report):
        kernels.setdefault((group.kernel.name, group.place.file), []).append(group)
    shown = page.add_while_they_fit(
        (_kernel(report, groups) for groups in kernels.values()),
        len(kernels),
        lambda left: [
            f"*{plural(left, 'more kernel')} with findings not shown: see the whole report.*",
            "",
        ],
        _TABLES_SHARE,
    )
    shown_groups = (group for groups in list(kernels.values())[:shown] for group in groups)
    rules = dict.fromkeys(group.first.rule for group in shown_groups)
    page.add_while_they_fit(
        (_rule(report, rule) for rule in rules),
        len(rules),
        lambda left: [
            f"*{plural(left, 'more rule')} not explained here: see `kinspect rules show`.*"
        ],
    )
    stream.write(page.text())


class _BoundedPage:
    """Lines of text that may take so many bytes in all."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._lines: list[str] = []

    def add(self, lines: list[str], share: float = 1.0) -> bool:
        """Adds lines if all of them fit into this share of the page."""
        size = sum(len(line.encode("utf-8", "backslashreplace")) + 1 for line in lines)
        if self._used + size > self._limit * share:
            return False
        self._used += size
        self._lines += lines
        return True

    def add_while_they_fit(
        self,
        sections: Iterable[list[str]],
        count: int,
        left_out: Callable[[int], list[str]],
        share: float = 1.0,
    ) -> int:
        """Adds sections up to the first that does not fit; returns how many were added."""
        for index, lines in enumerate(sections):
            if not self.add(lines, share):
                self.force(left_out(count - index))
                return index
        return count

    def force(self, lines: list[str]) -> None:
        """Adds a short sentence, for which `_RESERVE` has kept room."""
        self._lines += lines

    def text(self) -> str:
        return "\n".join(self._lines).rstrip() + "\n"


def _kernel(report: LintReport, groups: list[MergedFindings]) -> list[str]:
    """Returns the section of one kernel: a heading and a table of its findings."""
    kernel = groups[0].kernel
    source = kernel.source
    where = f"{source.file}:{source.line}" if source else kernel.file
    lines = [f"### {_escaped(kernel.name)} ({_escaped(file_name(where))})", ""]
    lines += ["| | rule | what | where |", "| --- | --- | --- | --- |"]
    for group in groups:
        message = lint_view.message_of(group, of_several=True)
        rule_text = lint_view.rule_of(report, group.first.rule)
        if rule_text is not None and lint_view.general_fix(rule_text) != rule_text.fix:
            message = f"{message} → {group.first.advice}"  # the fix differs from finding to finding
        place = group.place
        spot = f"{file_name(place.file)}:{place.line}" if place.line else file_name(place.file)
        cells = (
            lint_view.SEVERITY_TEXTS[group.first.severity],
            _escaped(lint_view.title_of(report, group.first.rule)),
            _escaped(message),
            _escaped(spot),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _rule(report: LintReport, rule: str) -> list[str]:
    """Returns the folded explanation of a rule; nothing for rules without a text."""
    rule_text = lint_view.rule_of(report, rule)
    if rule_text is None:
        return []
    title = escape(one_line(lint_view.title_of(report, rule)))  # in HTML there is no Markdown
    title = f"<code>{title}</code>" if is_reference(title) else title
    lines = [f"<details><summary>{title}: why, and what to do</summary>", ""]
    lines += [_escaped(rule_text.explain), ""] if rule_text.explain else []
    fix = "" if lint_view.general_fix(rule_text) != rule_text.fix else _escaped(rule_text.fix)
    lines += [f"**What to do.** {fix}", ""] if fix else []
    lines += [f"- {link(r.title, r.url)}" for r in rule_text.references]
    lines += [""] if rule_text.references else []
    return [*lines, "</details>", ""]


def _problems(report: LintReport) -> list[str]:
    """Returns list items for files not linted, unused suppressions and entries that are gone."""
    lines = []
    for error in report.errors:
        where = " ".join(part for part in (error.file, error.kernel) if part)
        problem = f"{error.stage}: {error.message}"
        problem = f"{problem}; {error.hint}" if error.hint else problem
        lines.append(f"- **not linted** {_escaped(where)}: {_escaped(problem)}")
    for unused in report.unused:
        place = _escaped(f"{unused.file}:{unused.line}")
        lines.append(f"- {place}: {_escaped(lint_view.unused(unused))}")
    if report.gone:
        n = plural(len(report.gone), "finding")
        lines.append(f"- {n} of the baseline {_escaped(report.baseline or '')} no longer found")
    lines += [f"- note: {_escaped(note)}" for note in report.notes]
    return lines


def _escaped(text: str) -> str:
    """Markdown that shows a text as it is, on one line."""
    return references_as_code(one_line(text), _inert)


def _inert(text: str) -> str:
    return _MARKUP_OR_HTML.sub(lambda match: _HTML.get(match[0], f"\\{match[0]}"), text)
