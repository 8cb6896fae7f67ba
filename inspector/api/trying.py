"""`kinspect.try_`: the cures of findings, compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..compare.trials.rules import judging_pack
from ..compare.trials.running import Trials, TryRequest
from ..errors import KinspectError
from ..limits import TRY_SECONDS
from ..pipeline.analysis_options import AnalysisOptions
from ..pipeline.collecting import collect
from .jit_kernels import is_jit_kernel
from .results import TrialResult
from .targets import Target, existing, request_of


def try_(
    target: Target,
    *,
    arch: str | Sequence[str] | None = None,
    kernel: str | None = None,
    rules: Sequence[str] = (),
    budget: float = TRY_SECONDS,
    **options: Any,
) -> TrialResult:
    """Compiles the cures of each finding, and tells what came of them.

    >>> kinspect.try_("docs/examples/column_sums.py", arch="gfx942", rules=["KI044"]).cures
    {}

    Here nothing that can be compiled by itself helps: the source has to walk along the rows.

    Args:
        target: a path, as `kinspect try` takes it: cures may change tiles, for which the file is
            captured again.
        arch: gfx names of the targets.
        kernel: the kernels by name.
        rules: only findings of these rules; none: all that speak by default.
        budget: seconds that all trials may take; what is done by then is told.
        options: as for `analyze`.

    Raises:
        KinspectError: the target or a rule is unknown, or nothing could be analysed.
    """
    if is_jit_kernel(target):
        raise KinspectError(
            "a kernel that the program holds is not tried: its tile is chosen at its launch",
            "name the script that launches it; a notebook's cell becomes one by `%%writefile k.py`",
        )
    pack, ids = judging_pack(tuple(rules))
    run = request_of(
        existing(target),
        arch=arch,
        kernel=kernel,
        options=options,
        analysis=AnalysisOptions(rules=pack),
    )
    report = collect(run, partial=False)
    if not report.kernels and report.errors:
        raise KinspectError(report.errors[0].message, report.errors[0].hint)
    trials = Trials(TryRequest(run, pack, ids, budget), report)
    for _ in trials.events(None, None):
        pass
    return TrialResult(trials.result())
