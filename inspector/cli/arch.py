"""`kinspect arch list|show`: shows the known targets, each figure with its source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from .. import machines
from ..explain.table import Column, rows_of
from ..model import Machine
from .group import ShowingGroup
from .options import format_option, output_option, result_stream


@click.group(cls=ShowingGroup)
def arch() -> None:
    """The targets that kinspect knows."""


@arch.command("list")
@format_option("text", "json")
@output_option
def list_arches(form: str, output: Path | None) -> None:
    """Every target with its main limits."""
    targets = [machines.load(name) for name in machines.names()]
    with result_stream(output) as stream:
        if form == "json":
            json.dump({"arches": [_summary(m) for m in targets]}, stream, indent=1)
            stream.write("\n")
            return
        for line in rows_of(_COLUMNS, targets):
            stream.write(line + "\n")


@arch.command("show")
@click.argument("name")
@format_option("text", "json")
@output_option
def show_arch(name: str, form: str, output: Path | None) -> None:
    """One target: every figure and where it comes from."""
    machine = machines.load(name)
    figures = {name: getattr(machine, name) for name in machine.__struct_fields__}
    sources = figures.pop("sources")
    with result_stream(output) as stream:
        if form == "json":
            json.dump(
                {"figures": figures, "sources": dict(sources)}, stream, indent=1, default=list
            )
            stream.write("\n")
            return
        for key, value in figures.items():
            if key == "mfma_cycles":
                continue
            stream.write(f"{key:<24} {_plain(value):<28} {sources.get(key, '')}".rstrip() + "\n")
        if machine.mfma_cycles:
            stream.write(f"\nmatrix instructions, cycles   {sources.get('mfma_cycles', '')}\n")
            for mnemonic, cycles in sorted(machine.mfma_cycles.items()):
                stream.write(f"  {mnemonic:<44} {cycles:>4}\n")


def _summary(machine: Machine) -> dict[str, object]:
    return {
        "arch": machine.arch,
        "name": machine.name,
        "family": machine.family,
        "wave_sizes": list(machine.wave_sizes),
        "max_waves_per_eu": machine.max_waves,
        "vgpr_total": {str(k): v for k, v in machine.vgpr_total.items()},
        "vgpr_granule": {str(k): v for k, v in machine.vgpr_granule.items()},
        "lds_max_bytes": machine.lds_max,
    }


def _plain(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {_plain(v)}" for k, v in value.items())
    if isinstance(value, tuple | list):
        return ", ".join(_plain(v) for v in value)
    return str(value)


_COLUMNS = [
    Column("arch", lambda machine: machine.arch),
    Column("name", lambda machine: machine.name),
    Column("family", lambda machine: machine.family),
    Column("wave", lambda machine: "/".join(map(str, machine.wave_sizes))),
    Column("waves/EU", lambda machine: str(machine.max_waves), right=True),
    Column(
        "VGPRs/SIMD",
        lambda machine: "/".join(str(v) for v in machine.vgpr_total.values()),
        right=True,
    ),
    Column(
        "granule",
        lambda machine: "/".join(str(v) for v in machine.vgpr_granule.values()),
        right=True,
    ),
    Column("LDS/workgroup", lambda machine: f"{machine.lds_max // 1024} KiB", right=True),
    Column(
        "matrix ops",
        lambda machine: str(len(machine.mfma_cycles)) if machine.mfma_cycles else "",
        right=True,
    ),
]
