"""A profile as JSON: `{schema_version, run, kernels, reports}`; see profile.schema.json."""

from __future__ import annotations

from typing import Any, TextIO

from ..base.streams import dump_json
from ..base.version import VERSION
from ..explain import profile_view
from ..model.recording import KernelProfile, Profile, Recording, Samples
from ..profile.figures.executed import compared
from ..profile.predicted import Predicted, predicted
from ..report.json_write import error_fields, fields_of, kernel_dict, metrics_dict, plain

SCHEMA_VERSION = 1
_TRACE = ("path", "dispatch", "kernel", "clock_mhz", "peak_waves_per_cu")
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
            "parts": [
                {name: value for name, value in plain(part).items() if name not in _DERIVED}
                for part in run.parts
            ],
            **fields_of(run, "agents"),
            "dispatches": len(run.dispatches),
            "counter_values": len(run.values),
            "total_ns": profile.total_ns,
            **fields_of(run, "summary", "transfers"),
            "samples": [_sample(sample, run) for sample in run.samples],
            "traces": [
                {**fields_of(trace, *_TRACE), "waves": len(trace.waves)} for trace in run.traces
            ],
        },
        "notes": [*run.notes, *profile.notes],
        "errors": [error_fields(e) for e in (*run.errors, *profile.errors)],
        "kernels": [_kernel(kernel, profile) for kernel in profile.kernels],
        "static_target": profile.static_target,
        "reports": [kernel_dict(report) for report in profile.reports],
    }


def _sample(sample: Samples, run: Recording) -> dict[str, Any]:
    place = sample.place
    return {
        "kernel": run.shapes[place.shape].name if place.shape is not None else None,
        "code_object": place.code_object,
        "offset": place.offset,
        "instruction": place.text,
        "comment": place.comment,
        **fields_of(sample, "method", "count", "issued", "reasons"),
    }


def _kernel(kernel: KernelProfile, profile: Profile) -> dict[str, Any]:
    report = profile_view.report_of(kernel, profile)
    emulated = [plain(both) for both in compared(kernel, report)]
    beside = predicted(kernel, report)
    return {
        **fields_of(kernel, "id", "name", "role"),
        "launch": plain(kernel.shape),
        "agent": kernel.agent.key if kernel.agent is not None else None,
        **fields_of(kernel, "dispatches", "counted", "warmups", "grids"),
        "duration": _duration(kernel),
        "counters": plain(kernel.counters),
        # Only where the analysed kernel was emulated.
        **({"emulated_counters": emulated} if emulated else {}),
        # Only where the analysed kernel's launch has a time.
        **({"predicted": _predicted(beside)} if beside is not None else {}),
        "metrics": metrics_dict(kernel.metrics),
        "lines": plain(kernel.lines),
        "match": fields_of(kernel.match, "verdict", "kernels", "reasons"),
        "notes": list(kernel.notes),
    }


def _predicted(beside: Predicted) -> dict[str, Any]:
    fields: dict[str, Any] = plain(beside)
    for figure, of_struct in zip(fields["figures"], beside.figures, strict=True):
        figure["ratio"] = of_struct.ratio
    return fields


def _duration(kernel: KernelProfile) -> dict[str, Any] | None:
    """Returns the spread of times without warm-up; `total` includes warm-up."""
    spread, total = plain(kernel.duration), kernel.total_ns
    return spread if spread is None or total is None else {**spread, "total": total}
