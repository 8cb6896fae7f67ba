"""`kinspect occupancy`: the occupancy of typed figures, and the table of its steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from .. import machines
from ..explain.occupancy_view import cut
from ..metrics.occupancy import Occupancy
from ..metrics.occupancy import metrics as occupancy_metrics
from ..metrics.occupancy import occupancy as occupancy_of
from ..model import Demand, Machine
from ..present.document import (
    Column,
    Columns,
    Document,
    Figure,
    Figures,
    Section,
    Span,
    table,
    words,
)
from ..report.json_write import metrics_dict
from .options import format_option, output_option, write_form

_NAMES = {"vgpr": "VGPRs", "sgpr": "SGPRs", "lds": "LDS"}


@click.command()
@click.option("--arch", required=True, metavar="A", help="Target, e.g. gfx942 or mi300x.")
@click.option("--vgpr", type=click.IntRange(0), required=True, help="Architectural VGPRs per lane.")
@click.option("--agpr", type=click.IntRange(0), default=0, show_default=True)
@click.option("--sgpr", type=click.IntRange(0), help="SGPRs per wave.  [not limiting]")
@click.option(
    "--lds", type=click.IntRange(0), default=0, show_default=True, help="Bytes a workgroup."
)
@click.option(
    "--waves-per-workgroup",
    "--waves",
    "waves",
    type=click.IntRange(1),
    default=4,
    show_default=True,
)
@click.option("--wave-size", type=click.Choice(["32", "64"]), help="[the target's usual one]")
@click.option("--cu-mode", is_flag=True, help="RDNA: workgroups stay within one CU.")
@click.option(
    "--llvm",
    type=click.Choice(["22", "triton"]),
    default="22",
    show_default=True,
    help="Whose model gives the compiler's figure.",
)
@format_option("text", "json")
@output_option
def occupancy(
    arch: str,
    vgpr: int,
    agpr: int,
    sgpr: int | None,
    lds: int,
    waves: int,
    wave_size: str | None,
    cu_mode: bool,
    llvm: str,
    form: str,
    output: Path | None,
) -> None:
    """Occupancy of typed figures: what LLVM would print, what is resident, and the next steps.

    LDS that is typed counts as known to the compiler.
    """
    machine = machines.load(arch)
    size = int(wave_size) if wave_size else None
    demand = Demand(
        vgprs=vgpr,
        agprs=agpr,
        sgprs=sgpr,
        lds_bytes=lds,
        waves_per_workgroup=waves,
        wave_size=size,
        cu_mode=cu_mode,
        llvm=llvm,
    )
    result = occupancy_of(machine, demand)
    metrics = metrics_dict(occupancy_metrics(machine, demand))
    write_form(form, _document(machine, demand, result), {"metrics": metrics}, output)


def _document(machine: Machine, demand: Demand, result: Occupancy) -> Document:
    """The figures, the next step, and the levels as a table."""
    agprs = f" + {demand.agprs} AGPRs" if demand.agprs else ""
    size = demand.wave_size or machine.wave_sizes[0]
    asked = (
        f"  {demand.vgprs} VGPRs{agprs}  {demand.lds_bytes} B LDS  "
        f"{demand.waves_per_workgroup} waves × {size}"
    )
    figures = Figures(tuple(Figure(name, words(text)) for name, text in _figures(demand, result)))
    title = (Span(machine.arch, "strong"), Span(asked))
    levels = (Section((table(_columns(result), result.levels),)),) if result.levels else ()
    return (Section((figures,), title, is_subject=True), *levels)


def _figures(demand: Demand, result: Occupancy) -> Iterator[tuple[str, str]]:
    if result.cannot_launch:
        yield "cannot launch", result.cannot_launch
    else:
        limiter = _NAMES.get(result.limiter or "", result.limiter)
        workgroups = f"{result.workgroups_per_cu} workgroup(s)/{result.unit}"
        yield "resident", f"{result.waves_per_eu} waves/SIMD = {workgroups}, limited by {limiter}"
    yield "compiler", f"{result.compiler} waves/SIMD (LLVM {demand.llvm}: no whole workgroups)"
    alone = (
        ("VGPRs", result.by_vgpr),
        ("SGPRs", result.by_sgpr),
        ("LDS", result.by_lds),
        ("workgroups", result.by_workgroups),
    )
    yield "alone", "   ".join(f"{name} {_or_dash(most)}" for name, most in alone) + "   waves/SIMD"
    if (step := result.next_step) is not None:
        cuts = [(step.resource, step.reduce_by), *step.also]
        remedy = " and ".join(cut(name, by) for name, by in cuts)
        yield "next", f"{remedy} would give {step.gives} waves/SIMD"
    if result.note:
        yield "note", result.note


def _columns(result: Occupancy) -> Columns:
    return (
        (Column("waves/SIMD", right=True), lambda level: str(level.waves_per_eu)),
        (Column(f"workgroups/{result.unit}", right=True), lambda level: _or_dash(level.workgroups)),
        (Column("VGPRs ≤", right=True), lambda level: str(level.vgprs)),
        (Column("SGPRs ≤", right=True), lambda level: _or_dash(level.sgprs)),
        (Column("LDS B ≤", right=True), lambda level: _or_dash(level.lds_bytes)),
        ("", lambda level: "◀" if level.waves_per_eu == result.waves_per_eu else ""),
    )


def _or_dash(value: float | None) -> str:
    return "–" if value is None else str(value)
