"""`kinspect.lint`: rules asked of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..compare.trials.planning import to_try_of
from ..lint import settings
from ..lint.lint_results import FailOn
from ..pipeline.events import Failed
from ..pipeline.jobs import request_for
from ..pipeline.lint_judge import Judge
from ..pipeline.lint_plan import LintOptions, make_plan
from ..pipeline.linting import LintEvent, analysis_for, judged_events
from ..pipeline.linting import lint as judged
from ..pipeline.reading import Transformed
from .analysing import analysis_of, refuse_nothing
from .results import LintResult
from .targets import Target, is_path, request_of


def lint(
    target: Target,
    *args: Any,
    arch: str | Sequence[str] | None = None,
    kernel: str | None = None,
    rules: Sequence[str] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    fail_on: FailOn | None = None,
    config: str | Path | None = None,
    **options: Any,
) -> LintResult:
    """Asks rules of kernels.

    >>> result = kinspect.lint("docs/examples/column_sums.py", select=["KI044"], fail_on="warning")
    >>> result.failing, result.findings[0].saves_percent
    (True, 50.8)

    Args:
        target: what `analyze` takes, or its result, which is not compiled again.
        args: of a kernel, the arguments of a launch.
        arch: gfx names of the targets.
        kernel: of a file, the kernels by name.
        rules: packs by name, or YAML files; none: the recommended pack.
        select: only these rules: ids, names, prefixes, tags.
        ignore: not these.
        fail_on: the least severity that makes `LintResult.failing` true; None: errors.
        config: a `pyproject.toml` whose `[tool.kinspect]` holds; None for no settings.
        options: as for `analyze`.

    Raises:
        KinspectError: nothing could be judged, or a rule or pack is unknown.
    """
    loaded = settings.load(Path(config)) if config is not None else settings.Settings()
    plan = make_plan(
        LintOptions(tuple(rules), tuple(select), tuple(ignore), fail_on),
        loaded,
    )
    wanted, judge = analysis_for(plan, whole=True), Judge(plan, to_try_of)
    if is_path(target) and not args:
        request = request_of(target, arch=arch, kernel=kernel, options=options, analysis=wanted)
        report, _ = judged(judged_events(request, judge, loaded.arch), request, plan)
        refuse_nothing(report.target, report.kernels, report.errors)
        return LintResult(report)
    reports = analysis_of(
        target, args, arch=arch, kernel=kernel, grid=None, options=options, analysis_options=wanted
    ).report
    events: list[LintEvent] = [
        Transformed((0, number), judge(kernel_report))
        for number, kernel_report in enumerate(reports.kernels)
    ]
    events += [Failed((1, number), error) for number, error in enumerate(reports.errors)]
    request = request_for((reports.target,), kernel=kernel)
    return LintResult(judged(events, request, plan)[0])
