"""`kinspect layout`: draws how tensors lie in registers and buffers in LDS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import click

from .. import machines
from ..errors import KinspectError
from ..explain import layout_values
from ..explain.layout_values import LayoutDrawing, drawing_of
from ..model import KernelReport, TtgirModule
from ..pipeline.analysis_options import AnalysisOptions
from .options import format_option, output_option, result_stream
from .target_options import ScriptCommand, TargetOptions, point_option, target_options

_MOST_NAMED = 8


@click.command(cls=ScriptCommand)
@click.argument("targets", metavar="TARGET", callback=lambda ctx, parameter, name: (name,))
@click.argument("selection", metavar="[%VALUE|#LAYOUT|LINE]", required=False)
@format_option("text", "json", "svg", "html")
@output_option
@click.option(
    "--case",
    metavar="TEXT",
    help="Of several specialisations of a kernel the one whose label (as `analyze` prints it) is or"
    " contains this.",
)
@click.option("--color/--no-color", default=None, help="Colour or none.  [as the terminal has it]")
@target_options
@point_option
def layout(
    target: TargetOptions,
    selection: str | None,
    form: str,
    output: Path | None,
    case: str | None,
    color: bool | None,
) -> None:
    """Draw layouts: which lane holds an element of a tensor, in which LDS bank an element lies.

    TARGET is one that `kinspect analyze` takes and that has a TTGIR: a .py script, .ttir, .ttgir,
    a .kinspect file. Without a second argument the values with a layout are listed (as HTML: all
    are drawn). It names what to draw: a value of the TTGIR (%a_13), a layout (#blocked1), or the
    values of a line of the source (14, gemm.py:14); of a .ttgir file a line is one of that file.
    """
    ttgir_lines = Path(target.targets[0]).suffix == ".ttgir"
    kernel = _only(target, case)
    values = layout_values.values_of(_module(kernel))
    if not values:
        raise KinspectError(f"{kernel.id}: no value of its TTGIR has a layout", "")
    title = f"{kernel.name}  {kernel.arch or ''}".rstrip()
    if selection is None and form == "svg":
        raise KinspectError(
            "--format svg draws one value", "name one; without --format svg they are listed"
        )
    chosen = values
    if selection is not None:
        chosen = layout_values.selected(values, selection, ttgir_lines=ttgir_lines)
    with result_stream(output, log=form == "text") as stream:
        if selection is None and form == "text":
            from ..formats import layout_text

            layout_text.write_list(values, title, stream, ttgir_lines=ttgir_lines, color=color)
            return
        banks = machines.load(kernel.arch).lds_banks if kernel.arch is not None else None
        pictures = [drawing_of(group, banks) for group in layout_values.drawn_alike(chosen)]
        _write(pictures, title, form, stream, color)


def _write(
    pictures: list[LayoutDrawing], title: str, form: str, stream: TextIO, color: bool | None
) -> None:
    """Draws the pictures; the renderer of the format alone is imported."""
    if form == "json":
        from ..formats import layout_json

        layout_json.write(pictures, title, stream)
    elif form == "svg":
        from ..formats import layout_svg

        layout_svg.write(pictures, stream)
    elif form == "html":
        from ..formats import layout_svg

        layout_svg.write_page(pictures, title, stream)
    else:
        from ..formats import layout_text

        layout_text.write(pictures, stream, color=color)


def _label(kernel: KernelReport) -> str:
    """Returns `kernel[case]@arch`."""
    case = _case(kernel)
    return f"{kernel.name}[{case}]@{kernel.arch}" if case else f"{kernel.name}@{kernel.arch}"


def _case(kernel: KernelReport) -> str | None:
    return kernel.variant.case if kernel.variant is not None else None


def _listed(kernels: Sequence[KernelReport]) -> str:
    """The first kernels by their labels."""
    names = ", ".join(map(_label, kernels[:_MOST_NAMED]))
    return f"{names}, …" if len(kernels) > _MOST_NAMED else names


def _of_case(kernels: Sequence[KernelReport], case: str) -> list[KernelReport]:
    """The kernels whose label is `case`, else those whose label contains it."""
    labelled = [kernel for kernel in kernels if case in (_case(kernel) or "")]
    return [kernel for kernel in labelled if _case(kernel) == case] or labelled


def _only(target: TargetOptions, case: str | None) -> KernelReport:
    """Analyses the target and returns its only kernel, or the only one of that case.

    Raises:
        KinspectError: there is none, or more than one.
    """
    from ..pipeline.collecting import collect

    name = target.targets[0]
    report = collect(target.request(analysis=AnalysisOptions(lanes=False)))
    kernels = [kernel for kernel in report.kernels if "ttgir" in kernel.artifacts]
    of_case = kernels if case is None else _of_case(kernels, case)
    if len(of_case) == 1:
        return of_case[0]
    if of_case:
        raise KinspectError(
            f"{name}: it has {len(of_case)} kernels",
            f"choose one with --kernel, --arch or --case: {_listed(of_case)}",
        )
    if kernels:
        raise KinspectError(f"{name}: it has no case {case}", f"there are: {_listed(kernels)}")
    if report.errors:
        raise KinspectError(f"{name}: {report.errors[0].message}", report.errors[0].hint)
    raise KinspectError(
        f"{name}: there is no TTGIR in it",
        "pass a script, a .ttir or .ttgir file, or a .kinspect file of `analyze --save`",
    )


def _module(kernel: KernelReport) -> TtgirModule:
    from ..pipeline.inputs import read_text
    from ..ttgir.parser import parse_ttgir

    return parse_ttgir(read_text(kernel.artifacts["ttgir"].path), kernel.name)
