"""The findings of a lint report in groups, and the words for them that its renderers share.

A library has a kernel in dozens of specialisations, a template in as many instantiations, and a
function may be inlined into every kernel: most findings are the same in all of them. Findings of
one rule at one place whose messages differ only in numbers and widths are one group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from ..base.printable import one_line
from ..explain.view import plural, severities
from ..lint.lint_results import CheckedKernel, LintReport, Suppression
from ..lint.ranking import SEVERITIES, Place, Severity, place_in_order
from ..lint.rule import RuleText
from ..model import Finding

State = Literal["new", "known", "suppressed"]

_CONFIDENCE = ("certain", "likely", "possible")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_WIDTH = re.compile(r"\b((?:global|buffer|flat|scratch|ds)_[a-z]+)_\w+")
"""A memory instruction and what follows its operation: type and width."""
_FIELD = re.compile(r"\{[^{}]*\}")


class ShownPlace(Struct, frozen=True):
    """The line of a file that a finding points to.

    Args:
        line: from 1; None where only the file is known.
        complete: whether that is the whole line, not a part of it.
    """

    file: str
    line: int | None
    text: str = ""
    complete: bool = False


class Occurrence(Struct, frozen=True):
    """A finding and the kernel it is of."""

    kernel: CheckedKernel
    finding: Finding


class MergedFindings(Struct, frozen=True):
    """Findings of one rule at one place, whose messages differ only in numbers and widths.

    Those at one line of the source may be of several kernels, others are of one.

    Args:
        by: the comment or setting that suppresses them; None where none does.
    """

    state: State
    place: ShownPlace
    occurrences: tuple[Occurrence, ...]
    by: Suppression | str | None = None

    @property
    def first(self) -> Finding:
        return self.occurrences[0].finding

    @property
    def kernel(self) -> CheckedKernel:
        return self.occurrences[0].kernel


_Key = tuple[State, ShownPlace, Suppression | str | None, tuple[str, Severity, str], str]


def groups(report: LintReport, states: Sequence[State] = ("new",)) -> list[MergedFindings]:
    """The findings in these states, merged, the worst first."""
    by_key: dict[_Key, list[Occurrence]] = {}
    for kernel in report.kernels:
        for state, finding, by in _findings(kernel):
            if state in states:
                place = place_of(kernel, finding)
                # A line of the source is the place of findings of several kernels.
                name = "" if place.complete else kernel.name
                message = (finding.rule, finding.severity, _words_of(finding))
                key = (state, place, by, message, name)
                by_key.setdefault(key, []).append(Occurrence(kernel, finding))
    merged = [
        MergedFindings(state, place, tuple(occurrences), by)
        for (state, place, by, _, _), occurrences in by_key.items()
    ]
    # A rule's groups of one severity stay together: the largest saving ranks them all.
    order: dict[tuple[str, Severity], Place] = {}
    for group in merged:
        finding = group.first
        key_of_rule = finding.rule, finding.severity
        in_order = place_in_order(finding.severity, finding.saves_percent)
        order[key_of_rule] = min(order.get(key_of_rule, in_order), in_order)
    return sorted(
        merged, key=lambda group: _rank(group, order[group.first.rule, group.first.severity])
    )


def by_kernel(merged: Iterable[MergedFindings]) -> list[list[MergedFindings]]:
    """The findings of each kernel, or of its specialisations; the worst kernel first."""
    kernels: dict[tuple[str, str], list[MergedFindings]] = {}
    for group in merged:
        kernels.setdefault(key_of(group.kernel), []).append(group)
    # Python's sort is stable: kernels that are equally bad stay in the order of the worst.
    return sorted(kernels.values(), key=_badness, reverse=True)


def key_of(kernel: CheckedKernel) -> tuple[str, str]:
    """What the specialisations of a kernel have in common."""
    return kernel.name, kernel.source.file if kernel.source is not None else kernel.file


def _badness(merged: Sequence[MergedFindings]) -> tuple[int, ...]:
    return tuple(sum(group.first.severity == s for group in merged) for s in SEVERITIES)


def _words_of(finding: Finding) -> str:
    """A message without its numbers and the widths of instructions."""
    return _NUMBER.sub("#", _WIDTH.sub(r"\1", finding.plural_message or finding.message))


def _findings(kernel: CheckedKernel) -> Iterator[tuple[State, Finding, Suppression | str | None]]:
    for finding in kernel.findings:
        yield "new", finding, None
    for finding in kernel.known:
        yield "known", finding, None
    for suppressed in kernel.suppressed:
        yield "suppressed", suppressed.finding, suppressed.by


def _rank(group: MergedFindings, place: Place) -> tuple[object, ...]:
    first = group.first
    return (
        *place,
        _CONFIDENCE.index(first.confidence),
        first.rule,
        group.place.file,
        group.place.line or 0,
        group.kernel.name,
    )


def place_of(kernel: CheckedKernel, finding: Finding) -> ShownPlace:
    """Returns the best of `places`."""
    return places(kernel, finding)[0]


def places(kernel: CheckedKernel, finding: Finding) -> list[ShownPlace]:
    """Returns the places of a finding, source before assembly and lines before files."""
    source_places = [
        ShownPlace(location.file, location.line, location.text, True)
        for location in finding.locations
        if location.kind == "source" and location.file and location.line
    ][:1]
    if kernel.source is not None:
        source_places.append(ShownPlace(kernel.source.file, kernel.source.line))
    return [*source_places, *assembly_of(kernel, finding)[:1], ShownPlace(kernel.file, None)]


def assembly_of(kernel: CheckedKernel, finding: Finding) -> tuple[ShownPlace, ...]:
    """The places in the assembly, if a user could open it."""
    if kernel.artifact is None:
        return ()
    return tuple(
        ShownPlace(kernel.artifact, location.line, location.text)
        for location in finding.locations
        if location.kind == "amdgcn" and location.line
    )


def name_of(kernel: CheckedKernel) -> str:
    """A kernel's specialisation in words: `matmul gfx942 small`."""
    return " ".join(part for part in (kernel.name, kernel.arch, kernel.case) if part)


def other_occurrences(group: MergedFindings) -> str:
    """The occurrences of a group but its first, in words; empty if there are none."""
    occurrences = group.occurrences
    if len(occurrences) == 1:
        return ""
    same_message = len({occurrence.finding.message for occurrence in occurrences}) == 1
    figures = "" if same_message else ", with other figures"
    kernel_names = len({occurrence.kernel.name for occurrence in occurrences})
    if kernel_names > 1:
        return f"and in {plural(kernel_names - 1, 'more kernel')}{figures}"
    if len({occurrence.kernel.id for occurrence in occurrences}) == 1:
        return f"and {plural(len(occurrences) - 1, 'more loop')} of it{figures}"
    if len({occurrence.kernel.case for occurrence in occurrences}) == 1:
        archs = list(dict.fromkeys(occurrence.kernel.arch or "?" for occurrence in occurrences))
        if len(archs) == len(occurrences):
            return f"{'also' if same_message else 'similar'} on {', '.join(archs[1:])}"
    others = plural(len(occurrences) - 1, "more specialisation")
    return f"and {others}{figures}"


def message_of(group: MergedFindings, of_several: bool = False) -> str:
    """The message of a group's first finding, and the other occurrences in brackets.

    `of_several`: the reader cannot see which specialisation of a kernel it is.
    """
    kernel = group.kernel
    specialisation = (
        " ".join(part for part in (kernel.arch, kernel.case) if part) if of_several else ""
    )
    qualifiers = ", ".join(part for part in (specialisation, other_occurrences(group)) if part)
    return one_line(f"{group.first.message} ({qualifiers})" if qualifiers else group.first.message)


def rule_of(report: LintReport, rule: str) -> RuleText | None:
    """The text of a rule, by its id; None where the report does not hold it."""
    definition = report.rules.get(rule)
    return definition.text if definition is not None else None


def title_of(report: LintReport, rule: str) -> str:
    """`KI001 spills-in-hot-loop`."""
    text = rule_of(report, rule)
    return one_line(f"{rule} {text.name}" if text is not None else rule)


def summary(report: LintReport) -> str:
    """The run in one line."""
    graded = severities(f.severity for kernel in report.kernels for f in kernel.findings)
    line = f"{graded} in {plural(len(report.kernels), 'kernel')}"
    known_count = sum(len(k.known) for k in report.kernels)
    suppressed = sum(len(k.suppressed) for k in report.kernels)
    extras = [f"{known_count} known"] if known_count else []
    extras += [f"{suppressed} suppressed"] if suppressed else []
    extras += (
        [f"{plural(len(report.errors), 'target')} could not be linted"] if report.errors else []
    )
    return f"{line}; {', '.join(extras)}" if extras else line


def comment(suppression: Suppression) -> str:
    """A suppression as a user writes it: `kinspect: ignore[KI001]`."""
    word = "ignore-file" if suppression.scope == "file" else "ignore"
    rules = f"[{', '.join(suppression.rules)}]" if suppression.rules else ""
    return f"kinspect: {word}{rules}"


def unused(suppression: Suppression) -> str:
    """The message on a suppression that left nothing out."""
    reason = suppression.note or "it leaves nothing out"
    return f"unused {comment(suppression)}: {reason}"


def general_fix(text: RuleText) -> str:
    """A rule's fix without figures, where there is no finding to take them from."""
    return _FIELD.sub("…", text.fix)
