"""`kinspect occupancy`: the occupancy of typed figures, and the table of its steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO

import click

from .. import machines
from ..explain.occupancy_view import cut
from ..explain.table import Column, rows_of
from ..metrics.occupancy import Level, Occupancy
from ..metrics.occupancy import metrics as occupancy_metrics
from ..metrics.occupancy import occupancy as occupancy_of
from ..model import Demand, Machine
from ..report.json_write import metrics_dict
from .options import format_option, output_option, result_stream

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
    with result_stream(output) as stream:
        if form == "json":
            metrics = metrics_dict(occupancy_metrics(machine, demand))
            json.dump({"metrics": metrics}, stream, indent=1)
            stream.write("\n")
        else:
            _write(machine, demand, result, stream)


def _write(machine: Machine, demand: Demand, result: Occupancy, stream: TextIO) -> None:
    """Writes the result as text: the figures, the next step, and the levels as a table."""
    size = demand.wave_size or machine.wave_sizes[0]
    agprs = f" + {demand.agprs} AGPRs" if demand.agprs else ""
    stream.write(
        f"{machine.arch}  {demand.vgprs} VGPRs{agprs}  {demand.lds_bytes} B LDS  "
        f"{demand.waves_per_workgroup} waves × {size}\n\n"
    )
    if result.cannot_launch:
        stream.write(f"  cannot launch: {result.cannot_launch}\n")
    else:
        stream.write(
            f"  resident  {result.waves_per_eu} waves/SIMD = {result.workgroups_per_cu}"
            f" workgroup(s)/{result.unit},"
            f" limited by {_NAMES.get(result.limiter or '', result.limiter)}\n"
        )
    stream.write(
        f"  compiler  {result.compiler} waves/SIMD (LLVM {demand.llvm}: no whole workgroups)\n"
    )
    stream.write(
        f"  alone     VGPRs {_or_dash(result.by_vgpr)}   SGPRs {_or_dash(result.by_sgpr)}"
        f"   LDS {_or_dash(result.by_lds)}   workgroups {_or_dash(result.by_workgroups)}"
        "   waves/SIMD\n"
    )
    step = result.next_step
    if step is not None:
        cuts = [(step.resource, step.reduce_by), *step.also]
        remedy = " and ".join(cut(name, by) for name, by in cuts)
        stream.write(f"  next      {remedy} would give {step.gives} waves/SIMD\n")
    if result.note:
        stream.write(f"  note      {result.note}\n")
    if not result.levels:
        return
    stream.write("\n")
    for line in rows_of(_columns(result), result.levels):
        stream.write(f"  {line}\n")


def _columns(result: Occupancy) -> list[Column]:
    def mark(level: Level) -> str:
        return "◀" if level.waves_per_eu == result.waves_per_eu else ""

    return [
        Column("waves/SIMD", lambda level: str(level.waves_per_eu), right=True),
        Column(f"workgroups/{result.unit}", lambda level: _or_dash(level.workgroups), right=True),
        Column("VGPRs ≤", lambda level: str(level.vgprs), right=True),
        Column("SGPRs ≤", lambda level: _or_dash(level.sgprs), right=True),
        Column("LDS B ≤", lambda level: _or_dash(level.lds_bytes), right=True),
        Column("", mark),
    ]


def _or_dash(value: float | None) -> str:
    return "–" if value is None else str(value)
