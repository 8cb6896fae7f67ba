"""Two kernels compared, code and all."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ....inspector.capture.resolving import resolve
from ....inspector.compare.diff.reports import Options, diff_kernels, finished, text_of_artifacts
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
    """What changed, and the code of both side by side."""

    pair: KernelDiff
    code: Aligned


def compared(left: KernelReport, right: KernelReport) -> Compared:
    """Compares two kernels, code and all; takes a while where they are large."""
    tolerances = Tolerances({})
    labels = words.short_labels(left, right)
    pair = diff_kernels(left, right, tolerances, labels)
    report = DiffReport({}, *labels, (pair,))
    pair = finished(report, Options(tolerances, most_isa=None), assembly_of).pairs[0]
    code = aligned(pair, assembly_of, source_reader())
    if code.rows:  # targets that were read have no artifacts: the code is there all the same
        pair = replace(pair, code="seen")
    return Compared(pair, code)


def assembly_of(report: KernelReport) -> str | None:
    """The assembly of a kernel: among its artifacts, or the target itself."""
    text = text_of_artifacts(report)
    if text is not None:
        return text
    try:
        targets = resolve(view.path_of(report))
        if len(targets) == 1 and targets[0].kind == "asm":
            return read_text(targets[0].path)
    except (KinspectError, OSError):
        pass  # it has gone since
    return None
