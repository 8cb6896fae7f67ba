"""The stable JSON report with all details, `schema_version` 2; `json_read.py` reads it back.

It is the model's values, as msgspec encodes them, but for what `UNWRITTEN` names.

Compatibility: within a version keys are only added, never renamed, removed or given another
meaning; a reader must ignore keys that it does not know. `report.schema.json` beside this file
describes it. Version 2 is version 1 with the key `details`, false in a report without them
(`json_brief.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TextIO

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ..base.streams import dump_json
from ..model import (
    Artifact,
    ErrorRecord,
    Finding,
    KernelReport,
    LivePeak,
    LoopReport,
    Metric,
    Report,
    Variant,
)

SCHEMA_VERSION = 2
UNWRITTEN: Final[Mapping[type[Struct], tuple[str, ...]]] = MappingProxyType(
    {
        Artifact: ("kind", "path"),
        ErrorRecord: ("unsupported_ir",),
        Finding: ("anchor", "lines", "plural_message"),
        KernelReport: ("saved_in",),
        LivePeak: ("counts",),
        Metric: ("name",),
        Variant: ("kernel", "arch", "ttir", "stage", "source", "passed", "environment"),
    }
)
"""Fields that no report has: what the key above a value says, and what only a run needs."""


def write(report: Report, stream: TextIO) -> None:
    """Writes the report as one indented JSON document."""
    dump_json(_document(report), stream)


def to_dict(report: Report) -> dict[str, Any]:
    """Returns the report as JSON values."""
    document: dict[str, Any] = _with_lists(_document(report))
    return document


def _with_lists(value: Any) -> Any:
    """Converts tuples to lists, as JSON does: msgspec leaves them as they are."""
    if isinstance(value, dict):
        return {key: _with_lists(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_lists(item) for item in value]
    return value


def _document(report: Report) -> dict[str, Any]:
    kernels = [kernel_dict(k) for k in report.kernels]
    return {**heading(report, details=True), "kernels": kernels}


def heading(report: Report, *, details: bool) -> dict[str, Any]:
    """Returns a report without its kernels as JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "details": details,
        "tool": dict(report.tool),
        "target": report.target,
        "errors": [_written(error) for error in report.errors],
        "notes": list(report.notes),
    }


def plain(value: Any) -> Any:
    """Converts structs to mappings, sequences and scalars, with the names of the JSON report."""
    return to_builtins(value, enc_hook=dict)


def fields_of(value: object, *names: str) -> dict[str, Any]:
    """Attributes of a value as JSON values."""
    return {name: plain(getattr(value, name)) for name in names}


def _written(value: Struct) -> dict[str, Any]:
    fields: dict[str, Any] = plain(value)
    for name in UNWRITTEN[type(value)]:
        fields.pop(name, None)
    return fields


def error_fields(error: ErrorRecord) -> dict[str, Any]:
    """Returns an error as JSON values, the same in all formats."""
    return _written(replace(error, output=""))


def kernel_dict(kernel: KernelReport) -> dict[str, Any]:
    """Returns a kernel as JSON values."""
    bare = replace(
        kernel,
        variant=None,
        artifacts={},
        metrics={},
        loops=(),
        findings=(),
        leads=kernel.leads[:1],
        saved_in=None,
    )
    fields: dict[str, Any] = plain(bare)
    fields["variant"] = variant_fields(kernel.variant)
    fields["artifacts"] = {
        kind: {"sha256": artifact.sha256, "bytes": artifact.size}
        for kind, artifact in kernel.artifacts.items()
    }
    fields["metrics"] = metrics_dict(kernel.metrics)
    fields["loops"] = [loop_fields(loop) for loop in kernel.loops]
    fields["findings"] = [finding_fields(finding) for finding in kernel.findings]
    if kernel.leads:
        fields["leads"] = [finding_fields(finding) for finding in kernel.leads]
    if kernel.live_peak is not None:
        fields["live_peak"] = live_peak_dict(kernel.live_peak)
    return fields


def metrics_dict(metrics: Mapping[str, Metric]) -> dict[str, Any]:
    """Returns `{NAME: {value, unit, origin}}`, with a `note` if there is one."""
    fields: dict[str, Any] = plain(metrics)
    for metric in fields.values():
        del metric["name"]
    return fields


def live_peak_dict(peak: LivePeak) -> dict[str, Any]:
    """Returns what the registers hold where most are live, without the counts elsewhere."""
    return _written(peak)


def finding_fields(finding: Finding) -> dict[str, Any]:
    """Returns a finding as JSON values, the same in all formats."""
    fields = _written(finding)
    if not finding.trials:  # only `--try` has them
        del fields["fix_is_trials"]
    return fields


def variant_fields(variant: Variant | None) -> dict[str, Any] | None:
    """Returns a specialisation as JSON values."""
    # What a launch passed may be large.
    return None if variant is None else _written(replace(variant, passed=None))


def loop_fields(loop: LoopReport) -> dict[str, Any]:
    """Returns a loop as JSON values."""
    fields: dict[str, Any] = plain(replace(loop, metrics={}))
    fields["metrics"] = metrics_dict(loop.metrics)
    return fields
