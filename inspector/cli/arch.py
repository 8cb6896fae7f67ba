"""`kinspect arch list|show`: shows the known targets, each figure with its source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from .. import machines
from ..model import Machine
from ..present.document import Column, Columns, Paragraph, Section, Table, table, words
from .declared import argument, command
from .group import ShowingGroup
from .options import OUTPUT, format_option, write_form


@click.group(cls=ShowingGroup)
def arch() -> None:
    """The targets that kinspect knows."""


@command("list", group=arch)
def list_arches(
    form: str = format_option("text", "json"),
    output: Path | None = OUTPUT,
) -> None:
    """Every target with its main limits."""
    targets = [machines.load(name) for name in machines.names()]
    fields = {"arches": [_summary(m) for m in targets]}
    write_form(form, (Section((table(_COLUMNS, targets),)),), fields, output)


@command("show", group=arch)
def show_arch(
    name: str = argument(),
    form: str = format_option("text", "json"),
    output: Path | None = OUTPUT,
) -> None:
    """One target: every figure and where it comes from."""
    machine = machines.load(name)
    figures = {name: getattr(machine, name) for name in machine.__struct_fields__}
    sources = figures.pop("sources")
    rows = [
        (name, _plain(value), sources.get(name, ""))
        for name, value in figures.items()
        if name != "mfma_cycles"
    ]
    sections = [Section((Table(_FIGURES, tuple(rows)),))]
    if machine.mfma_cycles:
        cycles = sorted((name, str(count)) for name, count in machine.mfma_cycles.items())
        source = Paragraph(words(sources.get("mfma_cycles", ""), "weak"))
        sections.append(Section((Table(_CYCLES, tuple(cycles)), source)))
    write_form(form, tuple(sections), {"figures": figures, "sources": sources}, output)


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


_FIGURES = (Column("figure"), Column("value", shrinks=True), Column("source", shrinks=True))
_CYCLES = (Column("matrix instruction"), Column("cycles", right=True))
_COLUMNS: Columns = (
    ("arch", lambda machine: machine.arch),
    (Column("name", shrinks=True), lambda machine: machine.name),
    ("family", lambda machine: machine.family),
    ("wave", lambda machine: _slashed(machine.wave_sizes)),
    (Column("waves/SIMD", right=True), lambda machine: str(machine.max_waves)),
    (Column("VGPRs/SIMD", right=True), lambda machine: _slashed(machine.vgpr_total.values())),
    (Column("granule", right=True), lambda machine: _slashed(machine.vgpr_granule.values())),
    (Column("LDS/workgroup", right=True), lambda machine: f"{machine.lds_max // 1024} KiB"),
    (
        Column("matrix ops", right=True),
        lambda machine: str(len(machine.mfma_cycles)) if machine.mfma_cycles else "",
    ),
)


def _slashed(values: Iterable[object]) -> str:
    return "/".join(map(str, values))
