"""`kinspect layout`: draws how tensors lie in registers and buffers in LDS."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from .. import machines
from ..base.errors import KinspectError
from ..explain import layout_values
from ..explain.layout_values import LayoutDrawing, drawing_of
from ..explain.lds_map import map_lines
from ..model import KernelReport, TtgirModule
from ..pipeline.analysis_options import AnalysisOptions
from .collected import CASE_HELP, only_kernel
from .declared import argument, command, option
from .options import OUTPUT, format_option, result_stream
from .target_options import ScriptCommand, TargetOptions, targets


@command(cls=ScriptCommand)
def layout(
    selection: str | None = argument("[%VALUE|#LAYOUT|LINE]", required=False),
    form: str = format_option("text", "json", "svg", "html"),
    output: Path | None = OUTPUT,
    case: str | None = option(CASE_HELP, metavar="TEXT"),
    color: bool | None = option(
        "Colour or none.  [as the terminal has it]", "--color/--no-color", default=None
    ),
    target: TargetOptions = targets("TARGET", point=True),
) -> None:
    """Draw layouts: which lane holds an element of a tensor, in which LDS bank an element lies.

    TARGET is what `kinspect analyze` takes, if it has a TTGIR: a .py script, .ttir, .ttgir or
    .kinspect file. The second argument names what to draw: a value of the TTGIR (%a_13), a layout
    (#blocked1), or the values of a source line (14, gemm.py:14). For a .ttgir file it is a line of
    that file. Without it the values with a layout are listed (as HTML: drawn), with the map of LDS:
    which buffer has which bytes, and when.
    """
    ttgir_lines = Path(target.targets[0]).suffix == ".ttgir"
    kernel = only_kernel(
        target,
        case,
        AnalysisOptions(lanes=False),
        is_shown=lambda kernel: "ttgir" in kernel.artifacts,
        nothing=(
            "there is no TTGIR in it",
            "pass a script, a .ttir or .ttgir file, or a .kinspect file of `analyze --save`",
        ),
    )
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

            layout_text.write_list(
                values,
                title,
                stream,
                ttgir_lines=ttgir_lines,
                color=color,
                lds_map=map_lines(kernel),
            )
            return
        banks = machines.load(kernel.arch).lds_banks if kernel.arch is not None else None
        pictures = [
            drawing_of(group, banks) for group in layout_values.alike(chosen, in_pictures=True)
        ]
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


def _module(kernel: KernelReport) -> TtgirModule:
    from ..pipeline.inputs import read_text
    from ..ttgir.parser import parse_ttgir

    return parse_ttgir(read_text(kernel.artifacts["ttgir"].path), kernel.name)
