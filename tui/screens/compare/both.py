"""Compares two kernels: their figures, and the code of their hot loops."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ....inspector.capture.resolving import resolve
from ....inspector.compare.diff.reports import (
    DiffOptions,
    diff_kernels,
    finished,
    text_of_artifacts,
)
from ....inspector.compare.diff.results import DiffReport, KernelDiff
from ....inspector.compare.diff.tolerances import Tolerances
from ....inspector.errors import KinspectError
from ....inspector.explain import view
from ....inspector.model import KernelReport
from ....inspector.pipeline.analysis import source_reader
from ....inspector.pipeline.jobs import read_text
from . import words
from .align import Aligned, aligned


class Compared(Struct, frozen=True):
    """The result of a comparison.

    Attributes:
        pair: the changes.
        code: the code of both hot loops, aligned.
    """

    pair: KernelDiff
    code: Aligned


def compared(left: KernelReport, right: KernelReport) -> Compared:
    """Compares two kernels and aligns their code; takes seconds for large kernels."""
    tolerances = Tolerances({})
    labels = words.short_labels(left, right)
    pair = diff_kernels(left, right, tolerances, labels)
    report = DiffReport({}, *labels, (pair,))
    pair = finished(report, DiffOptions(tolerances, most_isa=None), assembly_of).pairs[0]
    code = aligned(pair, assembly_of, source_reader())
    if code.rows:  # also of kernels that were read, whose code is not among their artifacts
        pair = replace(pair, code="seen")
    return Compared(pair, code)


def assembly_of(report: KernelReport) -> str | None:
    """The assembly of a kernel, from its artifacts or from the target; None if it has gone."""
    text = text_of_artifacts(report)
    if text is not None:
        return text
    try:
        targets = resolve(view.path_of(report))
        if len(targets) == 1 and targets[0].kind == "asm":
            return read_text(targets[0].path)
    except (KinspectError, OSError):
        pass  # the file has gone since
    return None
