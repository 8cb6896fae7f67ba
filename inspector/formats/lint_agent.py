"""A lint report for coding agents, in the form of `agent`: the same ids, lines and bound.

Findings that are the same in several specialisations of a kernel are told once, with the id of the
first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from ..explain import items, view
from ..lint.lint_results import CheckedKernel, LintReport
from ..present import lint_view
from ..present.lint_view import MergedFindings
from .agent import Budget, finding_blocks, remarks, shortened_ids, summary_lines, write_lines
from .agent_calls import SHELL, AgentCalls, AgentSubject


def write(report: LintReport, stream: TextIO, calls: AgentCalls = SHELL) -> None:
    """Writes a summary, then the kernels with new findings, worst first, then what failed."""
    short = shortened_ids(report.kernels)
    kernels = lint_view.by_kernel(lint_view.groups(report))
    lines = [*_summary(report, kernels, short), ""]
    for groups in kernels:
        lines += [*_kernel(groups, short, calls), ""]
    lines += [
        f"suppression {unused.file}:{unused.line} {lint_view.unused(unused)}"
        for unused in report.unused
    ]
    if report.gone:
        lines.append(
            f"gone {view.plural(len(report.gone), 'finding')} of {report.baseline} no longer there:"
            " --update-baseline drops them"
        )
    write_lines([*lines, *remarks(report.errors, report.notes)], stream)


def _summary(
    report: LintReport, kernels: Sequence[Sequence[MergedFindings]], short: Mapping[str, str]
) -> Iterator[str]:
    """The run in a line; of several kernels a line for each of the worst."""
    failing = len(report.failing)
    ending = f"; {failing} at or above {report.fail_on}" if failing else ""
    yield f"summary {lint_view.summary(report)}{ending}"
    if len(report.kernels) > 1:
        yield from summary_lines(
            (_subject(groups[0].kernel, short), [group.first.severity for group in groups])
            for groups in kernels
        )


def _kernel(
    groups: Sequence[MergedFindings], short: Mapping[str, str], calls: AgentCalls
) -> Iterator[str]:
    """The lines of a kernel, within its share of tokens."""
    # A kernel's specialisations have places of their own: commands name that of the worst finding.
    subject = _subject(groups[0].kernel, short)
    variants = len({occurrence.kernel.id for group in groups for occurrence in group.occurrences})
    several = f" and {variants - 1} more specialisations" if variants > 1 else ""
    budget = Budget()
    head = [f"{subject.heading}{several}", f"more {calls.report(subject)}"]
    budget.takes(head)
    yield from head
    findings = [(g.first, lint_view.message_of(g, of_several=variants > 1)) for g in groups]
    to_try = frozenset[str]().union(*(group.kernel.to_try for group in groups))
    yield from finding_blocks(findings, subject, short, budget, calls, to_try)
    if subject.is_compiled:
        yield f"try {calls.try_cures(subject)}"


def _subject(kernel: CheckedKernel, short: Mapping[str, str]) -> AgentSubject:
    return AgentSubject(
        id=short[items.kernel_key(kernel.id)],
        label=f"{kernel.name}[{kernel.case}]" if kernel.case else kernel.name,
        arch=kernel.arch,
        path=kernel.target,
        place=view.place(kernel.source) if kernel.source is not None else "",
    )
