"""What was tried on kernels, as JSON; `try.schema.json` beside this file describes it."""

from __future__ import annotations

from typing import Any, TextIO

from ..base.streams import dump_json
from ..compare.trials.trial_results import KernelTrials, TrialRow, TrialRun
from ..explain import view
from ..model import Finding
from ..report.json_write import error_fields, fields_of, finding_fields, plain

SCHEMA_VERSION = 1
_TIME = {"column": "time_us", "aim": "fewer", "per": None}


def write(run: TrialRun, stream: TextIO) -> None:
    """Writes the run as one indented JSON document."""
    dump_json(to_dict(run), stream)


def to_dict(run: TrialRun) -> dict[str, Any]:
    """Returns the run as JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        **fields_of(run, "tool", "targets", "budget", "out_of_budget"),
        "seconds": round(run.seconds, 3),
        "kernels": [_kernel(trials) for trials in run.kernels],
        "untried": list(run.untried),
        "errors": [error_fields(error) for error in run.errors],
        "notes": list(run.notes),
    }


def _kernel(trials: KernelTrials) -> dict[str, Any]:
    kernel = trials.kernel
    variant = kernel.variant
    return {
        "id": kernel.id,
        "name": kernel.name,
        "case": variant.case if variant is not None else None,
        "arch": kernel.arch,
        "constexprs": plain(variant.constexprs) if variant is not None else {},
        "options": plain(variant.options) if variant is not None else {},
        "metrics": dict(trials.metrics),
        "objectives": [_TIME] if trials.is_timed else [],
        "call_site": plain(variant.call_site) if variant is not None else None,
        "findings": [_finding(finding) for finding in kernel.findings],
        "tried": [_row(row) for row in trials.rows],
        "without_candidates": list(trials.without_candidates),
        "missing": trials.missing,
        "main_loop": view.main_loop_place(kernel),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    """Returns a finding as JSON values, each of its trials with whether it is a cure."""
    fields = {"tried": [], **finding_fields(finding)}
    fields["tried"] = [
        {**trial_fields, "helped": trial.helped}
        for trial_fields, trial in zip(fields["tried"], finding.trials, strict=True)
    ]
    return fields


def _row(row: TrialRow) -> dict[str, Any]:
    """Returns a change as JSON values: what is so whatever it was tried for."""
    fields: dict[str, Any] = plain(row.trial)
    del fields["gone"]
    return {
        **fields,
        "cures": list(row.cures),
        "from_store": row.from_store,
        "seconds": round(row.seconds, 6),
        "host": row.host,
    }
