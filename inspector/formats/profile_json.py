"""A profile as JSON: `{schema_version, run, kernels, reports}`; see profile.schema.json."""

from __future__ import annotations

from typing import Any, TextIO

from msgspec import to_builtins

from ..base.streams import dump_json
from ..base.version import VERSION
from ..explain import profile_view
from ..model.recording import KernelProfile, Part, Profile, Recording, Samples, Spread
from ..profile.figures.counter_comparison import compared
from ..profile.predicted import Predicted, predicted
from ..report import json_write as json_v1

SCHEMA_VERSION = 1
_DERIVED = frozenset(("profiler", "repeats_run"))
"""Fields of a part that follow from its format; the schema has none of them."""


def write(profile: Profile, stream: TextIO) -> None:
    """Writes the profile as one indented JSON document."""
    dump_json(to_dict(profile), stream)


def to_dict(profile: Profile) -> dict[str, Any]:
    """Returns the profile as JSON values, with the number of dispatches but not the dispatches."""
    run = profile.recording
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "kinspect", "version": VERSION},
        "run": {
            "path": run.path,
            "profiler": dict(run.tool),
            "command": list(run.command),
            "parts": [_part(part) for part in run.parts],
            "agents": [to_builtins(agent) for agent in run.agents],
            "dispatches": len(run.dispatches),
            "counter_values": len(run.values),
            "total_ns": profile.total_ns,
            "summary": [to_builtins(top) for top in run.summary],
            "transfers": [to_builtins(transfer) for transfer in run.transfers],
            "samples": [_sample(sample, run) for sample in run.samples],
            "traces": [
                {
                    "path": trace.path,
                    "dispatch": trace.dispatch,
                    "kernel": trace.kernel,
                    "clock_mhz": trace.clock_mhz,
                    "peak_waves_per_cu": trace.peak_waves_per_cu,
                    "waves": len(trace.waves),
                }
                for trace in run.traces
            ],
        },
        "notes": [*run.notes, *profile.notes],
        "errors": [json_v1.error_fields(e) for e in (*run.errors, *profile.errors)],
        "kernels": [_kernel(kernel, profile) for kernel in profile.kernels],
        "static_target": profile.static_target,
        "reports": [json_v1.kernel_dict(report) for report in profile.reports],
    }


def _part(part: Part) -> dict[str, Any]:
    """Returns a part as JSON values: its format names the profiler as well."""
    fields: dict[str, Any] = to_builtins(part)
    return {name: value for name, value in fields.items() if name not in _DERIVED}


def _sample(sample: Samples, run: Recording) -> dict[str, Any]:
    """Returns the samples of a place as JSON values."""
    place = sample.place
    return {
        "kernel": run.shapes[place.shape].name if place.shape is not None else None,
        "code_object": place.code_object,
        "offset": place.offset,
        "instruction": place.text,
        "comment": place.comment,
        "method": sample.method,
        "count": sample.count,
        "issued": sample.issued,
        "reasons": dict(sample.reasons),
    }


def _kernel(kernel: KernelProfile, profile: Profile) -> dict[str, Any]:
    """Returns a measured kernel as JSON values."""
    report = profile_view.report_of(kernel, profile)
    emulated = [to_builtins(both) for both in compared(kernel, report)]
    beside = predicted(kernel, report)
    return {
        "id": kernel.id,
        "name": kernel.name,
        "role": kernel.role,
        "launch": to_builtins(kernel.shape),
        "agent": kernel.agent.key if kernel.agent is not None else None,
        "dispatches": kernel.dispatches,
        "counted": kernel.counted,
        "warmups": kernel.warmups,
        "grids": kernel.grids,
        "duration": _duration(kernel),
        "counters": {name: _spread(spread) for name, spread in kernel.counters.items()},
        # Only where the analysed kernel was emulated.
        **({"emulated_counters": emulated} if emulated else {}),
        # Only where the analysed kernel's launch has a time.
        **({"predicted": _predicted(beside)} if beside is not None else {}),
        "metrics": json_v1.metrics_dict(kernel.metrics),
        "lines": json_v1.plain(kernel.lines),
        "match": {
            "verdict": kernel.match.verdict,
            "kernels": list(kernel.match.kernels),
            "reasons": list(kernel.match.reasons),
        },
        "notes": list(kernel.notes),
    }


def _predicted(beside: Predicted) -> dict[str, Any]:
    """Returns the model's figures beside the measured ones as JSON values."""
    fields: dict[str, Any] = to_builtins(beside)
    for figure, of_struct in zip(fields["figures"], beside.figures, strict=True):
        figure["ratio"] = of_struct.ratio
    return fields


def _duration(kernel: KernelProfile) -> dict[str, Any] | None:
    """Returns the spread of times without warm-up; `total` includes warm-up."""
    spread, total = _spread(kernel.duration), kernel.total_ns
    return spread if spread is None or total is None else {**spread, "total": total}


def _spread(spread: Spread | None) -> dict[str, Any] | None:
    return to_builtins(spread) if spread is not None else None
