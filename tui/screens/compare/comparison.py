"""Compares two kernels: their figures, and the code of their hot loops.

Aligning thousands of instructions holds the interpreter's lock for tenths of a second, which would
freeze the screen: large kernels are compared in a child process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ....inspector.base.errors import KinspectError
from ....inspector.compare.diff.assembly import assembly_of
from ....inspector.compare.diff.reports import DiffOptions, diff_kernels, finished
from ....inspector.compare.diff.results import DiffReport, KernelDiff
from ....inspector.compare.diff.tolerances import Tolerances
from ....inspector.explain import view
from ....inspector.model import KernelReport
from ....inspector.pipeline.analysis import source_reader
from ...child_process import MessagingChild
from .align import Aligned, aligned
from .figures import short_labels

CHILD_BYTES = 150_000
"""Bytes of assembly of both kernels together from which on a process pays for its start."""


class KernelComparison(Struct, frozen=True):
    """Two kernels compared.

    Attributes:
        code: the code of both hot loops, aligned.
    """

    pair: KernelDiff
    code: Aligned


def comparison_of(left: KernelReport, right: KernelReport) -> KernelComparison:
    """Compares two kernels and aligns their code; takes seconds for large kernels.

    Raises:
        KinspectError: they cannot be compared.
    """
    tolerances = Tolerances({})
    labels = short_labels(left, right)
    pair = diff_kernels(left, right, tolerances, labels)
    report = DiffReport({}, *labels, (pair,))
    pair = finished(report, DiffOptions(tolerances, most_isa=None), assembly_of).pairs[0]
    code = aligned(pair, assembly_of, source_reader())
    if code.rows:  # also of kernels that were read, whose code is not among their artifacts
        pair = replace(pair, code="seen")
    return KernelComparison(pair, code)


def compared_in_child(
    left: KernelReport, right: KernelReport, is_cancelled: Callable[[], bool]
) -> KernelComparison | str:
    """Compares two kernels as `comparison_of` does, large ones in a child process.

    Returns:
        The comparison, or why there is none.
    """
    if sum(map(_size, (left, right))) < CHILD_BYTES:
        return _comparison_or_reason(left, right)
    child = MessagingChild(f"{__name__}:send_comparison", (left, right), "compares")
    try:
        result: KernelComparison = child.run(is_cancelled=is_cancelled)
    except KinspectError as error:
        return str(error)
    return result


def _size(report: KernelReport) -> int:
    """The size in bytes of a kernel's assembly, or of the file that it was read from."""
    artifact = report.artifacts.get("amdgcn")
    path = artifact.path if artifact is not None else Path(view.path_of(report))
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _comparison_or_reason(left: KernelReport, right: KernelReport) -> KernelComparison | str:
    try:
        return comparison_of(left, right)
    except KinspectError as error:
        return str(error)
    except Exception as error:
        # A bug must be seen on the page, not end the UI.
        return f"internal error: {type(error).__name__}: {error}"


def send_comparison(
    kernels: tuple[KernelReport, KernelReport], send: Callable[[str, KernelComparison], None]
) -> None:
    """Compares two kernels, in a child process."""
    send("result", comparison_of(*kernels))
