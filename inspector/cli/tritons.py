"""`kinspect analyze --triton A --triton B`: compiles kernels by several Tritons and compares."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..base.errors import KinspectError
from ..compare.tritons import BuildsReport, compare_builds
from ..pipeline.jobs import Request
from .options import write_form
from .progress import counting, print_error, problem

FORMATS = ("text", "json")


def compare_tritons(
    request: Request, tritons: Sequence[str], form: str, output: Path | None
) -> int:
    """Compares, prints and returns the exit status: 2 if something could not be compared.

    Raises:
        KinspectError: see `tritons.compare_builds`; or there is no such format of it.
    """
    if form not in FORMATS:
        raise KinspectError(
            f"--format {form} does not exist for a comparison of Tritons",
            f"use {' or '.join(FORMATS)}",
        )
    with counting() as progress:
        report = compare_builds(request, tritons, progress)
    from ..formats import tritons as formats

    write_form(form, formats.document(report), formats.fields(report), output)
    return _status(report)


def _status(report: BuildsReport) -> int:
    for error in report.errors:
        print_error(problem(error), error.hint)
    failed = any(kernel.comparison is None for kernel in report.kernels)
    return 2 if report.errors or failed else 0
