"""The JSON report without details: at most `MOST_BYTES` a kernel, for programs that want figures.

It has what most readers want: figures, loops, findings. What it lacks, and what did not fit, is in
the report with details (`json_write.py`); `report_brief.schema.json` beside this file describes it.
It is not read back: rules and views would take what is left out for what is not there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TextIO

from msgspec import Struct
from msgspec.structs import replace

from ..model import Finding, KernelReport, KernelTime, LoopReport, Metric, Report
from .json_write import finding_fields, heading, loop_fields, plain, variant_fields

FIELDS = (
    *("id", "name", "arch", "source", "metrics", "loops", "main_loop", "findings", "leads"),
    *("fastest", "notes", "unread", "time", "no_time"),
)
"""A kernel's keys, beside parts of its `variant` and what is `left_out`."""
OPTIONAL_FIELDS = frozenset(("leads", "fastest", "unread", "time", "no_time", "left_out"))
"""Those of them that are not there where they are empty."""
COUNTS = ("loops", "metrics_of_loops", "findings", "leads", "notes")
"""Of what `left_out` says how many are missing."""
LEFT_OUT_OF: Mapping[type[Struct], tuple[str, ...]] = MappingProxyType(
    {Metric: ("note", "positions"), KernelTime: ("instructions",)}
)
"""Fields of the model that are never written here."""
MOST_BYTES = 20_000
"""Of a kernel, in UTF-8, as it is written."""
_MOST_OF_VARIANT = 3_000
_MOST_OF_NOTES = 1_500
_MOST_OF_LOOPS = 4_000
"""Bytes of the list of loops, without their metrics."""
_MOST_OF_FINDINGS = 7_000
_MOST_OF_LEADS = 2_000
_DETAILS_OF_VARIANT = ("attrs", "unspecialised", "values", "notes", "generator", "wave_size")
_PLAIN_ORIGINS = ("compiler", "derived")
_STRUCTURED = frozenset(("occupancy.next_step", "matrix.instructions"))
"""Metrics whose values are mappings that are not evidence of rules alone."""
_MOST_UNREAD = 10
_MOST_TIME_LINES = 5
_MOST_OF_LEFT_OUT = 300
"""Bytes of the counts of what is left out."""
_KEY = len(',"metrics":')


def write(report: Report, stream: TextIO) -> None:
    """Writes the report as one JSON document, a kernel in each line."""
    document = heading(report, details=False)
    stream.write(f"{_text(document)[:-1]},\n")
    stream.write('"kernels":[')
    for number, kernel in enumerate(report.kernels):
        stream.write(",\n" if number else "\n")
        stream.write(_text(kernel_dict(kernel)))
    stream.write("\n]}\n")


def to_dict(report: Report) -> dict[str, Any]:
    """Returns the report as JSON values."""
    document: dict[str, Any] = json.loads(
        _text(
            {
                **heading(report, details=False),
                "kernels": [kernel_dict(kernel) for kernel in report.kernels],
            }
        )
    )
    return document


def kernel_dict(kernel: KernelReport) -> dict[str, Any]:
    """Returns what fits of a kernel, in the order in which it matters; `left_out` counts the rest.

    Metrics have no note, an origin only where it is not `compiler` or `derived`, and are not
    there at all where they are a count (a name with a dot) of 0 or the evidence of a rule.
    """
    variant, of_variant = _variant(kernel)
    ordered = _by_weight(kernel)
    fields = {
        "id": kernel.id,
        "name": kernel.name,
        "arch": kernel.arch,
        "source": plain(kernel.source),
        "variant": variant,
        "metrics": _metrics(kernel.metrics),
        "loops": [],
        "main_loop": kernel.main_loop,
        "findings": [],
        "notes": [],
        "unread": plain(kernel.unread[:_MOST_UNREAD]),
    }
    if kernel.no_time:
        fields["no_time"] = kernel.no_time
    if kernel.fastest is not None:
        fields["fastest"] = plain(kernel.fastest)
    if kernel.time is not None:
        time = plain(replace(kernel.time, lines=kernel.time.lines[:_MOST_TIME_LINES]))
        left_out_of = LEFT_OUT_OF[KernelTime]
        fields["time"] = {name: time[name] for name in time if name not in left_out_of}
    left = MOST_BYTES - _size(fields) - _MOST_OF_LEFT_OUT
    loops = _fitting(map(_loop, ordered), min(left // 2, _MOST_OF_LOOPS))
    left -= _size(loops)
    notes = _fitting(kernel.notes, min(left // 2, _MOST_OF_NOTES))
    left -= _size(notes)
    findings = _fitting(map(_finding, kernel.findings), min(left, _MOST_OF_FINDINGS))
    left -= _size(findings)
    leads = _fitting(map(_finding, kernel.leads), min(left, _MOST_OF_LEADS))
    left -= _size(leads)
    with_metrics = _with_metrics(loops, ordered, left)
    counts = (
        len(kernel.loops) - len(loops),
        sum("metrics" not in loop for loop in with_metrics),
        len(kernel.findings) - len(findings),
        len(kernel.leads) - len(leads),
        len(kernel.notes) - len(notes),
    )
    left_out = {"variant": of_variant, **dict(zip(COUNTS, counts, strict=True))}
    fields |= {"loops": with_metrics, "findings": findings, "notes": notes, "leads": leads}
    fields["left_out"] = {name: value for name, value in left_out.items() if value}
    return {name: fields[name] for name in fields if fields[name] or name not in OPTIONAL_FIELDS}


def _with_metrics(
    loops: Sequence[dict[str, Any]], ordered: Sequence[LoopReport], left: int
) -> list[dict[str, Any]]:
    """The loops, the first with their metrics, as long as so many bytes are left."""
    metrics = _fitting((_metrics(loop.metrics) for loop in ordered), left, per_value=_KEY)
    return [
        {**loop, "metrics": metrics[number]} if number < len(metrics) else loop
        for number, loop in enumerate(loops)
    ]


def _by_weight(kernel: KernelReport) -> list[LoopReport]:
    """The loops: the main one, other hot ones, the rest."""
    return sorted(kernel.loops, key=lambda loop: (loop.id != kernel.main_loop, not loop.hot))


def _loop(loop: LoopReport) -> dict[str, Any]:
    fields = loop_fields(replace(loop, metrics={}))
    del fields["metrics"]
    # A loop's positions are one for each of its lines: the first and the last tell which it is.
    fields["source"] = fields["source"][:1] + fields["source"][1:][-1:]
    return fields


def _finding(finding: Finding) -> dict[str, Any]:
    """A finding with its first place in the source and in the assembly."""
    fields = finding_fields(finding)
    first: dict[str, Any] = {}
    for place in fields["locations"]:
        first.setdefault(place["kind"], place)
    return fields | {"locations": list(first.values())}


def _variant(kernel: KernelReport) -> tuple[dict[str, Any] | None, list[str]]:
    """The specialisation, and the names of its largest parts where they are left out."""
    fields = variant_fields(kernel.variant)
    if fields is None:
        return None, []
    fields = {name: value for name, value in fields.items() if name not in _DETAILS_OF_VARIANT}
    names: list[str] = []
    while _size(fields) > _MOST_OF_VARIANT:
        largest = max(fields, key=lambda name: _size(fields[name]))
        del fields[largest]
        names.append(largest)
    return fields, names


def _metrics(metrics: Mapping[str, Metric]) -> dict[str, Any]:
    return {
        name: {
            "value": metric.value,
            "unit": metric.unit,
            **({"origin": metric.origin} if metric.origin not in _PLAIN_ORIGINS else {}),
        }
        for name, metric in metrics.items()
        if not (isinstance(metric.value, Mapping) and name not in _STRUCTURED)
        and not (metric.value == 0 and "." in name)
    }


def _fitting(values: Iterable[Any], most: int, per_value: int = 1) -> list[Any]:
    """The first values, as many as fit into so many bytes with `per_value` more for each."""
    fitting: list[Any] = []
    for value in values:
        most -= _size(value) + per_value
        if most < 0:
            break
        fitting.append(value)
    return fitting


def _size(value: Any) -> int:
    return len(_text(value).encode("utf-8", "backslashreplace"))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
