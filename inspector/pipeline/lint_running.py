"""Runs the targets of a lint run, each kernel judged where it is analysed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from ..capture.resolving import resolve, split
from ..capture.targets import kind_of
from ..lint.rule import NO_RULES
from ..model import KernelReport
from .analysis_options import RESIDENT, AnalysisOptions
from .collecting import transformed_reports
from .events import Failed
from .jobs import Request, beside, timing, with_archs
from .lint_plan import LintPlan
from .linting import LintEvent
from .reading import READ, Transformed

_MOST_TARGETS = 1 << 32
"""More than a run has: the offset that sorts a later run's events behind an earlier one's."""
_FEW_RULES = 20
"""More of them read nearly all figures; to know which, each rule has to be compiled whole."""
_ARTIFACTS = frozenset({"amdgcn"})  # what findings point into


def analysis_for(
    plan: LintPlan, *, whole: bool = False, arguments: str | None = None
) -> AnalysisOptions:
    """How much of each kernel a plan needs to know.

    Args:
        plan: it judges each report: the analysis applies its rules where launches are timed, which
            says what cures save.
        whole: whether all metrics are needed: where they are kept, or cures are looked for.
    """
    few = len(plan.rules) <= _FEW_RULES
    asked = plan.asked if few and not whole else None
    options = AnalysisOptions(rules=NO_RULES, values=False, asked=asked)
    if not plan.needs_time:
        return options
    options = replace(options, rules=plan.pack, judges_all=False)
    if asked is not None:
        metrics = tuple(sorted({*asked.metrics, RESIDENT}))
        options = replace(options, asked=replace(asked, metrics=metrics))
    return timing(options, **beside(arguments))


def judged_events(
    request: Request, judge: Callable[[KernelReport], Any], archs: tuple[str, ...] = ()
) -> Iterator[LintEvent]:
    """Yields the events of a run, each report replaced by what `judge` makes of it.

    Args:
        archs: of the settings: what targets are compiled for if the request does not say. Saved
            code has its own arch.
    """
    if request.archs or not archs:
        yield from transformed_reports(request, judge, artifacts=_ARTIFACTS)
        return
    # Each group of adjacent compiled or saved targets, in the order of the command line.
    for number, (compiled, targets) in enumerate(groupby(request.targets, _is_compiled)):
        part = with_archs(replace(request, targets=tuple(targets)), archs if compiled else ())
        for event in transformed_reports(part, judge, artifacts=_ARTIFACTS):
            if isinstance(event, Transformed | Failed):
                index, number_in_target = event.order
                order = (index + number * _MOST_TARGETS, number_in_target)
                event = replace(event, order=order)
            yield event


def _is_compiled(text: str) -> bool:
    """Tells whether a target, or some file of a folder, is compiled; else it is saved code."""
    path, _ = split(text)
    if path.is_dir():
        return any(target.kind not in READ for target in resolve(text))
    kind = kind_of(path) if path.is_file() else None
    return kind is not None and kind not in READ
