"""A lint report for coding agents, in the form of `agent`: the same ids, lines and bound.

Findings that are the same in several specialisations of a kernel are told once, with the id of the
first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from ..explain import ids, view
from ..lint.ranking import SEVERITIES
from ..lint.results import CheckedKernel, LintReport
from ..present import lint_view
from ..present.lint_view import MergedFindings
from .agent import MOST_SUMMARISED, Budget, finding_blocks, remarks, severities, write_lines
from .agent_calls import SHELL, AgentCalls, AgentSubject


def write(report: LintReport, stream: TextIO, calls: AgentCalls = SHELL) -> None:
    """Writes a summary, then the kernels with new findings, worst first, then what failed."""
    short = shortened_ids(report.kernels)
    kernels = _by_kernel(report)
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


def shortened_ids(kernels: Sequence[CheckedKernel]) -> dict[str, str]:
    """Keys of the kernels and fingerprints of their findings -> what the report calls them."""
    keys = [ids.kernel_key(kernel.id) for kernel in kernels]
    return ids.shortened([*keys, *(f.fingerprint for k in kernels for f in k.findings)])


def _by_kernel(report: LintReport) -> list[list[MergedFindings]]:
    """The new findings of each kernel, or of its specialisations; the worst kernel first."""
    kernels: dict[tuple[str, str], list[MergedFindings]] = {}
    for group in lint_view.groups(report):
        kernel = group.kernel
        file = kernel.source.file if kernel.source is not None else kernel.file
        kernels.setdefault((kernel.name, file), []).append(group)
    return sorted(kernels.values(), key=_counts, reverse=True)


def _counts(groups: Sequence[MergedFindings]) -> tuple[int, ...]:
    """Findings by severity, errors first."""
    return tuple(sum(g.first.severity == severity for g in groups) for severity in SEVERITIES)


def _summary(
    report: LintReport, kernels: Sequence[Sequence[MergedFindings]], short: Mapping[str, str]
) -> Iterator[str]:
    """The run in a line; of several kernels a line for each of the worst."""
    failing = len(report.failing)
    ending = f"; {failing} at or above {report.fail_on}" if failing else ""
    yield f"summary {lint_view.summary(report)}{ending}"
    if len(report.kernels) == 1:
        return
    for groups in kernels[:MOST_SUMMARISED]:
        subject = _subject(groups[0].kernel, short)
        counts = severities([group.first.severity for group in groups])
        yield f"  {subject.id} {subject.label} {subject.arch or 'unknown target'}: {counts}"
    if len(kernels) > MOST_SUMMARISED:
        yield f"  and {len(kernels) - MOST_SUMMARISED} more"


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


def _subject(kernel: CheckedKernel, short: Mapping[str, str]) -> AgentSubject:
    return AgentSubject(
        id=short[ids.kernel_key(kernel.id)],
        label=f"{kernel.name}[{kernel.case}]" if kernel.case else kernel.name,
        arch=kernel.arch,
        path=kernel.target,
        place=view.place(kernel.source) if kernel.source is not None else "",
    )
