"""`kinspect metrics list`: lists the metrics of the catalogue."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..explain.table import Column, rows_of
from ..lint.catalogue import ENGINE_VALUES
from ..metrics.catalogue import specs
from ..model import MetricSpec
from .options import format_option, output_option, result_stream


@click.group()
def metrics() -> None:
    """The metrics that a report may hold."""


@metrics.command("list")
@format_option("text", "json")
@output_option
def list_metrics(form: str, output: Path | None) -> None:
    """Every metric: name, unit, origin, scope and meaning.

    A `*` stands for a mnemonic class (count.mfma) or a wait counter (waits.vmcnt). What only rules
    can name of a loop, an access or a wait (op.*, access.*, wait.*) stands at the end.
    """
    catalogue = (*specs(), *ENGINE_VALUES)
    with result_stream(output) as stream:
        if form == "json":
            entries = [
                {
                    "name": s.name,
                    "unit": s.unit,
                    "origin": s.origin,
                    "scope": s.scope,
                    "description": s.description,
                }
                for s in catalogue
            ]
            json.dump({"metrics": entries}, stream, indent=1)
            stream.write("\n")
            return
        for line in rows_of(_COLUMNS, catalogue):
            stream.write(line + "\n")


def _text(field: str) -> Column:
    def read(spec: MetricSpec) -> str:
        return str(getattr(spec, field))

    return Column(field, read)


_COLUMNS = [_text(name) for name in ("name", "unit", "origin", "scope", "description")]
