"""The stable JSON report with all details, `schema_version` 2; `json_read.py` reads it back.

Compatibility: within a version keys are only added, never renamed, removed or given another
meaning; a reader must ignore keys that it does not know. `report.schema.json` beside this file
describes it. Version 2 is version 1 with the key `details`, false in a report without them
(`json_brief.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TextIO

from msgspec import to_builtins

from ..model import (
    ErrorRecord,
    Finding,
    KernelReport,
    LivePeak,
    LoopReport,
    Metric,
    Report,
    Variant,
    WaitOp,
)
from .json_read import SCHEMA_VERSION, read

__all__ = (
    "SCHEMA_VERSION",
    "error_fields",
    "finding_fields",
    "kernel_dict",
    "metrics_dict",
    "plain",
    "read",
    "to_dict",
    "write",
)


_VARIANT = (
    *("case", "signature", "constexprs", "attrs", "options", "wave_size", "grid", "call_site"),
    *("qualname", "triton_version", "tuning", "launches", "notes", "assumptions", "emulated"),
    *("unspecialised", "values", "generator"),
)
"""What the report has of a variant, in its order: what else there is stands beside it."""


def write(report: Report, stream: TextIO) -> None:
    """Writes the report as one indented JSON document."""
    json.dump(_document(report), stream, indent=1, ensure_ascii=False)
    stream.write("\n")


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
        "errors": [
            {**error_fields(e), **({"output": e.output} if e.output else {})} for e in report.errors
        ],
        "notes": list(report.notes),
    }


def plain(value: Any) -> Any:
    """Converts structs to mappings, sequences and scalars, with the names of the JSON report."""
    return to_builtins(value, enc_hook=dict)


def error_fields(error: ErrorRecord) -> dict[str, Any]:
    """Returns an error as JSON values, the same in all formats."""
    return {
        "file": error.file,
        "kernel": error.kernel,
        "stage": error.stage,
        "message": error.message,
        "hint": error.hint,
    }


def kernel_dict(kernel: KernelReport) -> dict[str, Any]:
    """Returns a kernel as JSON values."""
    return {
        "id": kernel.id,
        "name": kernel.name,
        "arch": kernel.arch,
        "source": plain(kernel.source),
        "variant": variant_fields(kernel.variant),
        "artifacts": {
            kind: {"sha256": a.sha256, "bytes": a.size} for kind, a in kernel.artifacts.items()
        },
        "metrics": metrics_dict(kernel.metrics),
        "loops": [loop_fields(loop) for loop in kernel.loops],
        "main_loop": kernel.main_loop,
        "memory_ops": plain(kernel.memory_ops),
        "waits": [_wait(w) for w in kernel.waits],
        "accesses": plain(kernel.accesses),
        "lds_buffers": plain(kernel.lds_buffers),
        "spills": plain(kernel.spills),
        **({"spilled_values": plain(kernel.spilled_values)} if kernel.spilled_values else {}),
        **({"untouched": plain(kernel.untouched)} if kernel.untouched else {}),
        **({"dead_writes": list(kernel.dead_writes)} if kernel.dead_writes else {}),
        **({"live_peak": live_peak_dict(kernel.live_peak)} if kernel.live_peak is not None else {}),
        # Only a report that was joined with a profiler's recording has them.
        **({"measured_lines": plain(kernel.measured_lines)} if kernel.measured_lines else {}),
        # Only where something was not read or followed.
        **({"unread": plain(kernel.unread)} if kernel.unread else {}),
        "demand": plain(kernel.demand),
        # Only where a few of its workgroups were executed.
        **({"emulated": plain(kernel.emulated)} if kernel.emulated is not None else {}),
        "findings": [finding_fields(f) for f in kernel.findings],
        **({"leads": [finding_fields(f) for f in kernel.leads]} if kernel.leads else {}),
        "notes": list(kernel.notes),
    }


def metrics_dict(metrics: Mapping[str, Metric]) -> dict[str, Any]:
    """Returns `{NAME: {value, unit, origin}}`, with a `note` if there is one."""
    return {
        name: {
            "value": m.value,
            "unit": m.unit,
            "origin": m.origin,
            **({"note": m.note} if m.note else {}),
        }
        for name, m in metrics.items()
    }


def live_peak_dict(peak: LivePeak) -> dict[str, Any]:
    """Returns what the registers hold where most are live, without the counts elsewhere."""
    fields: dict[str, Any] = plain(peak)
    del fields["counts"]
    return fields


def finding_fields(finding: Finding) -> dict[str, Any]:
    """Returns a finding as JSON values, the same in all formats."""
    locations = [
        {"kind": location.kind, "file": location.file, "line": location.line, "text": location.text}
        for location in finding.locations
    ]
    fields: dict[str, Any] = plain(finding) | {"locations": locations}
    del fields["lines"], fields["plural_message"]
    if not finding.doubt:  # only leads have one
        del fields["doubt"]
    if not finding.trials:  # only `--try` has them
        del fields["tried"], fields["fix_is_trials"]
    return fields | {"fingerprint": fields.pop("fingerprint")}


def _wait(wait: WaitOp) -> dict[str, Any]:
    fields: dict[str, Any] = plain(wait)
    return fields | {"source": fields.pop("source")}


def variant_fields(variant: Variant | None) -> dict[str, Any] | None:
    """Returns a specialisation as JSON values."""
    fields = plain(variant)
    return None if fields is None else {name: fields[name] for name in _VARIANT}


def loop_fields(loop: LoopReport) -> dict[str, Any]:
    """Returns a loop as JSON values."""
    return {
        "id": loop.id,
        "depth": loop.depth,
        "parent": loop.parent,
        "header": {"line": loop.header_line, "label": loop.header_label},
        "lines": [list(span) for span in loop.lines],
        "source": plain(loop.source),
        "hot": loop.hot,
        "unroll": loop.unroll,
        **({"irreducible": True} if loop.irreducible else {}),
        "metrics": metrics_dict(loop.metrics),
    }
