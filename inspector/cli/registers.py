"""`kinspect registers`: what the registers hold where most of them are live."""

from __future__ import annotations

from pathlib import Path

from ..pipeline.analysis_options import AnalysisOptions
from .collected import check_any, collected
from .declared import command
from .options import COLOR, OUTPUT, format_option, write_form
from .progress import print_problems
from .target_options import ScriptCommand, TargetOptions, targets


@command(cls=ScriptCommand)
def registers(
    form: str = format_option("text", "json"),
    output: Path | None = OUTPUT,
    target: TargetOptions = targets("TARGET...", nargs=-1, point=True),
    color: bool | None = COLOR,
) -> int:
    """Name the values that registers hold where most of them are live.

    For each kernel: the instruction that needs most VGPRs and AGPRs at once; how many each value of
    the source takes there; what is spilled to scratch memory; the registers needed along the code;
    the next step of the occupancy. TARGET is what `kinspect analyze` takes. Names come from a
    kernel's TTGIR; without one, values are named by their lines.
    """
    report = collected(target.request(analysis=AnalysisOptions(races=False)))
    check_any(report)
    from ..present import registers as present

    document, fields = present.document(report.kernels), present.fields(report.kernels)
    write_form(form, document, fields, output, color)
    print_problems(report.errors, report.notes)
    return 2 if report.errors else 0
