"""`kinspect.diff` and `kinspect.sweep`: two runs, or many configurations, compared."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ..base.errors import KinspectError
from ..capture.sweep_axes import Axis
from ..compare.diff.isa import assembly_of
from ..compare.diff.reports import DiffOptions, NamedReport, diff_reports
from ..compare.diff.tolerances import tolerances_of
from ..compare.sweep.sweeping import MOST_POINTS, SweepRequest, collect, collect_points
from ..compare.sweep.swept_points import SweepPoint
from ..machines.loader import DEFAULT_ARCH
from ..pipeline.analysis_options import AnalysisOptions
from ..pipeline.jobs import BESIDE, request_for, settings_of, timing
from .analysing import analyze
from .jit_kernels import is_jit_kernel, variants_of
from .results import Analysis, Difference, SweepResult
from .targets import Target, archs_of, existing, request_of


def diff(
    before: Target,
    after: Target,
    *,
    labels: tuple[str, str] = ("before", "after"),
    tolerances: Sequence[str] = (),
    **options: Any,
) -> Difference:
    """Compares two runs, kernel by kernel.

    >>> before = kinspect.analyze("docs/examples/column_sums.py", arch="gfx942")
    >>> difference = kinspect.diff(before, "docs/examples/column_sums.py", arch="gfx942")
    >>> difference.regressed, [pair.verdict for pair in difference.pairs]
    (False, ['same'])

    Args:
        before: what there was: a result of `analyze`, or what it takes without arguments.
        after: what there is.
        labels: their names.
        tolerances: how much worse a figure may get, `vgpr_count=5%`.
        options: as for `analyze`, for a side that is no result yet.

    Raises:
        KinspectError: a side could not be analysed.
    """
    left, right = (
        side if isinstance(side, Analysis) else analyze(side, **options) for side in (before, after)
    )
    report = diff_reports(
        NamedReport(labels[0], left.report),
        NamedReport(labels[1], right.report),
        DiffOptions(tolerances_of(tuple(tolerances))),
        assembly_of,
    )
    return Difference(report)


def sweep(
    target: Target,
    *args: Any,
    axes: Mapping[str, Sequence[int | float | bool | str]],
    arch: str | Sequence[str] | None = None,
    kernel: str | None = None,
    most_points: int = MOST_POINTS,
    **options: Any,
) -> SweepResult:
    """Compiles a kernel in many configurations and compares the code.

    >>> result = kinspect.sweep("docs/examples/column_sums.py", axes={"num_warps": [2, 4]})
    >>> [(row["point"]["num_warps"], row["figures"]["vgprs"]) for row in result.rows]
    [(2, 37), (4, 19)]

    Args:
        target: a `@triton.jit` kernel with its arguments, or a path.
        args: of a kernel, the arguments of a launch.
        axes: values of options of the backend and of parameters: `{"num_warps": [4, 8]}`.
        arch: gfx names of the targets.
        kernel: of a file, the kernels by name.
        most_points: a sweep of more points is refused.
        options: as for `analyze`.

    Raises:
        KinspectError: nothing to sweep, an unknown name, or too many points.
    """
    axis_list = tuple(Axis(name, tuple(values)) for name, values in axes.items())
    if is_jit_kernel(target):
        return _of_jit(target, args, axis_list, archs_of(arch), options, most_points)
    run = request_of(
        existing(target),
        arch=arch,
        kernel=kernel,
        options=options,
        analysis=timing(AnalysisOptions(lanes=False, races=False, values=False), **BESIDE),
    )
    return SweepResult(collect(SweepRequest(run, axis_list, most_points=most_points)))


def _of_jit(
    kernel: Any,
    args: Sequence[Any],
    axes: tuple[Axis, ...],
    archs: Sequence[str],
    named: Mapping[str, Any],
    most_points: int,
) -> SweepResult:
    """The sweep of a kernel that the calling program holds."""
    started = time.perf_counter()
    run = request_for((), archs=archs or (DEFAULT_ARCH,), analysis=timing(**BESIDE))
    products = list(itertools.product(*(axis.values for axis in axes)))
    if not axes or len(products) > most_points:
        raise KinspectError(
            f"{len(products)} points per target" if axes else "nothing to sweep",
            f"at most {most_points} are compiled: raise most_points" if axes else "name axes",
        )
    points = []
    for number, values in enumerate(products):
        point_values = dict(zip((axis.name for axis in axes), values, strict=True))
        for index, variant in enumerate(
            variants_of(kernel, args, {**named, **point_values}, run.archs, arguments=True)
        ):
            file = variant.source.file if variant.source is not None else variant.kernel
            points.append(SweepPoint((0, number, index), file, variant, point_values))
    run = replace(run, targets=(points[0].variant.kernel,))
    request = SweepRequest(run, axes, most_points=most_points)
    return SweepResult(collect_points(points, request, settings_of(run), started))
