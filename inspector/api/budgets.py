"""Budgets of tests: limits of kernels' figures, and the message of a test that exceeds them."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.documents import literal
from ..base.errors import KinspectError
from ..explain import view
from ..lint.budget import budget_rule, over_budget
from ..lint.nodes import FUNCTIONS
from ..lint.rule import Pack
from ..model import MetricValue
from ..model.metric import metric_of
from ..pipeline.analysis import catalogue
from .results import Analysis, AnalyzedKernel

_WORST = 3
"""Findings of a kernel over its budget that are shown."""
_COMPARISON = re.compile(r"\s*(?P<sign><=|>=|==|!=|<|>)\s*(?P<value>[^\s<>=!]+)\s*")
_OPPOSITE = {"<=": ">", ">": "<=", ">=": "<", "<": ">=", "==": "!=", "!=": "=="}


def limits_of(budget: Mapping[str, Any]) -> list[Limit]:
    """The limits that a test states.

    Args:
        budget: figure -> the most that is allowed, or a comparison such as `>= 2`.

    Raises:
        KinspectError: there is no such figure, or a limit is neither number nor comparison.
    """
    return [Limit(metric, limit) for metric, limit in budget.items()]


def excesses(analysis: Analysis, limits: Sequence[Limit], saved: Path) -> str:
    """What the kernels of a run exceed, and what could not be judged; "" where the budget is kept.

    Args:
        analysis: the run.
        limits: of its kernels' figures.
        saved: where the run is written if there is something to tell, for a look at the rest.

    Raises:
        KinspectError: it cannot be written there, or a limit is of another kind than its figure.
    """
    paragraphs = [] if len(analysis) else ["there is no kernel to hold against the budget"]
    for kernel in analysis:
        lines = [line for limit in limits if (line := limit.excess(kernel)) is not None]
        if lines:
            paragraphs.append("\n".join(_paragraph(kernel, lines)))
    for error in analysis.errors:
        subject = error.kernel or error.file or analysis.report.target
        paragraphs.append(
            f"{subject} is not held against the budget: {error.stage}: {error.message}"
        )
    if not paragraphs:
        return ""
    analysis.save(saved)
    return "\n".join([*paragraphs, f"more: {shlex.join(['kinspect', 'analyze', str(saved)])}"])


class Limit:
    """A limit of one figure.

    A figure is asked whether it breaks the limit, and whether it breaks the opposite one: of an
    unknown figure, which keeps no limit, neither holds.

    Raises:
        KinspectError: there is no such figure, or the limit is neither number nor comparison.
    """

    def __init__(self, metric: str, limit: Any) -> None:
        sign, value = _parsed(metric, limit)
        self._metric = metric
        self._text = f"{sign} {value}" if isinstance(limit, str) else f"{limit:,}"
        entry = catalogue().find(metric_of(metric)) if isinstance(metric, str) else None
        self._keeps: Callable[[MetricValue], bool] | None = None
        if entry is not None and entry.known == "loop":
            self._keeps = _comparison(metric, limit, sign, value, entry.kind)
            return
        self._rule = _budget_rule(metric, limit, f"{sign} {value}")
        self._opposite_rule = _budget_rule(metric, limit, f"{_OPPOSITE[sign]} {value}")

    def excess(self, kernel: AnalyzedKernel) -> str | None:
        """A line on the figure of a kernel; None where it keeps the limit.

        A figure that only loops have is the main loop's.
        """
        if self._keeps is not None:
            return self._excess_of_main_loop(kernel, self._keeps)
        for finding in over_budget(self._metric, self._rule, kernel.report, None):
            value = view.show(finding.evidence[metric_of(self._metric)])
            return f"{self._metric} is {value}, the limit is {self._text}"
        if over_budget(self._metric, self._opposite_rule, kernel.report, None):
            return None
        return f"{self._metric} is unknown, the limit is {self._text}"

    def _excess_of_main_loop(
        self, kernel: AnalyzedKernel, keeps: Callable[[MetricValue], bool]
    ) -> str | None:
        loop = kernel.main_loop
        if loop is None:
            return f"{self._metric} is a loop's, and the kernel has no hot loop"
        figure = loop.metrics.get(self._metric)
        subject = f"{self._metric} of the main loop, {loop.id},"
        if figure is None or figure.value is None:
            return f"{subject} is unknown, the limit is {self._text}"
        if keeps(figure.value):
            return None
        return f"{subject} is {view.show(figure.value)}, the limit is {self._text}"


def _comparison(
    metric: str, limit: Any, sign: str, value: str, kind: str
) -> Callable[[MetricValue], bool]:
    """Whether a figure of a loop keeps a limit."""
    try:
        bound = literal(value)
    except ValueError:
        bound = None
    is_number = isinstance(bound, (int, float)) and not isinstance(bound, bool)
    if not is_number and (kind == "number" or not isinstance(bound, str)):
        raise KinspectError(
            f"the budget of {metric} is {limit!r}: {value} is not a {kind}",
            'write a number, or a comparison: ">= 2", "!= \'lds\'"',
        )
    compare = FUNCTIONS[sign]
    return lambda figure: bool(compare(figure, bound))


def _budget_rule(metric: str, limit: Any, comparison: str) -> Pack:
    """A rule that finds something where the comparison does not hold."""
    known = catalogue()
    if not isinstance(metric, str) or known.find(metric_of(metric)) is None:
        suggestion = known.suggest(metric) if isinstance(metric, str) else ""
        raise KinspectError(f"no metric {metric!r}{suggestion}", "see kinspect metrics list")
    try:
        return budget_rule(metric, comparison, "this test", known)
    except KinspectError as error:
        raise KinspectError(
            f"the budget of {metric} is {limit!r}: {error.message}",
            'write a number, or a comparison: ">= 2", "!= \'lds\'"',
        ) from None


def _parsed(metric: str, limit: Any) -> tuple[str, str]:
    """The sign and the value of a limit."""
    if isinstance(limit, (int, float)) and not isinstance(limit, bool) and math.isfinite(limit):
        return "<=", repr(limit)
    match = _COMPARISON.fullmatch(limit) if isinstance(limit, str) else None
    if match is None:
        raise KinspectError(
            f"the budget of {metric} is {limit!r}", 'write a number, or a comparison: ">= 2"'
        )
    return match["sign"], match["value"]


def _paragraph(kernel: AnalyzedKernel, lines: list[str]) -> Iterator[str]:
    """The lines on a kernel over its budget, its worst findings among them."""
    source = kernel.source
    place = f"{source.file}:{source.line}: " if source is not None else ""
    yield f"{place}{kernel.label} for {kernel.arch} is not within its budget"
    yield from (f"  {line}" for line in lines)
    for finding in kernel.findings[:_WORST]:
        where = view.finding_place(finding)
        head = " ".join(filter(None, (finding.rule, finding.severity, where)))
        yield f"  {head}: {finding.message}"
    further = len(kernel.findings) - _WORST
    if further > 0:
        yield f"  and {view.plural(further, 'more finding')}"
