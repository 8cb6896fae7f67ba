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
from .declared import command, option
from .options import OUTPUT, format_option, write_form

_NAMES = {"vgpr": "VGPRs", "sgpr": "SGPRs", "lds": "LDS"}


@command()
def occupancy(
    arch: str = option("Target, e.g. gfx942 or mi300x.", required=True, metavar="A"),
    vgpr: int = option("Architectural VGPRs per lane.", type=click.IntRange(0), required=True),
    agpr: int = option(type=click.IntRange(0), default=0, show_default=True),
    sgpr: int | None = option("SGPRs per wave.  [not limiting]", type=click.IntRange(0)),
    lds: int = option("Bytes a workgroup.", type=click.IntRange(0), default=0, show_default=True),
    waves: int = option(
        None,
        "--waves-per-workgroup",
        "--waves",
        type=click.IntRange(1),
        default=4,
        show_default=True,
    ),
    wave_size: str | None = option("[the target's usual one]", type=click.Choice(["32", "64"])),
    cu_mode: bool = option("RDNA: workgroups stay within one CU."),
    llvm: str = option(
        "Whose model gives the compiler's figure.",
        type=click.Choice(["22", "triton"]),
        default="22",
        show_default=True,
    ),
    form: str = format_option("text", "json"),
    output: Path | None = OUTPUT,
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
