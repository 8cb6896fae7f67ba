"""Reads a trace for its replay; the host's `capture/trace.py` checks it more strictly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

READABLE = (1, 2)
"""Versions of traces that can be read."""
NO_COUNTS: Mapping[str, Any] = {
    "compiled": False,
    "launches": None,
    "tuning_launches": 0,
    "at_least": False,
    "grids": [],
    "other_grids": 0,
    "small": [],
}
"""Fields about launches of a specialisation whose launches nobody counted."""


@dataclass
class TraceRecords:
    """The records of a trace.

    `sources`: id -> functions (`source_format.py`).
    `is_complete`: whether the file has its last line.
    """

    processes: list[dict[str, Any]] = field(default_factory=list)
    sources: dict[str, Any] = field(default_factory=dict)
    specializations: list[dict[str, Any]] = field(default_factory=list)
    is_complete: bool = False


def read(path: str) -> TraceRecords | None:
    """The trace in a file, up to a damaged line; None if its version is unknown."""
    trace = TraceRecords()
    with open(path, encoding="utf-8") as stream:
        for number, line in enumerate(stream):
            try:
                record = json.loads(line)
            except ValueError:  # the last line was cut off
                return trace
            if number == 0:
                if record.get("trace", {}).get("schema_version") not in READABLE:
                    return None
            elif "process" in record:
                trace.processes.append(record["process"])
            elif "source" in record:
                trace.sources[record["source"]["id"]] = record["source"]["functions"]
            elif "specialization" in record:
                trace.specializations.append({**NO_COUNTS, **record["specialization"]})
            elif "end" in record:
                trace.is_complete = True
                return trace
    return trace


def add_launches(facts: dict[str, Any], spec: Mapping[str, Any]) -> None:
    """Adds a specialisation's launches to the `count` and `grids` of its key."""
    counts = {tuple(grid): launches for grid, launches in facts["grids"]}
    for grid, launches in spec["grids"]:
        counts[tuple(grid)] = counts.get(tuple(grid), 0) + launches
    facts["count"] += spec["launches"]
    facts["grids"] = [[list(grid), launches] for grid, launches in counts.items()]


def kernel_name(spec: Mapping[str, Any]) -> str:
    """The name of a specialisation's kernel, without its module and classes."""
    return str(spec["kernel"]["qualname"]).rpartition(".")[2]
