"""A kernel's code with marks, as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TextIO

from ..explain.code.reading import MarkedLine
from ..model import KernelReport, RegisterPressure
from ..report.json_write import fields_of

SCHEMA_VERSION = 1


def write(
    lines: Sequence[MarkedLine],
    kernel: KernelReport,
    kind: str,
    pressure: RegisterPressure | None,
    stream: TextIO,
) -> None:
    """Writes an object with the kernel's `id`, `name` and `arch`, the `kind` of text, `lines`.

    A line has its number (`line`), `code`, `source` ({file, line}), `loop`, the live `vgprs` and
    `agprs`, the `registers` of the file that these need, and the ids of `rules` that find fault
    with it; what is unknown is null. `levels` are the most registers for each occupancy.
    """
    json.dump(
        {
            "schema_version": SCHEMA_VERSION,
            **fields_of(kernel, "id", "name", "arch"),
            "kind": kind,
            "levels": [
                {"waves_per_eu": waves, "registers": most}
                for waves, most in (pressure.levels if pressure is not None else ())
            ],
            "lines": [line_fields(line) for line in lines],
        },
        stream,
    )
    stream.write("\n")


def line_fields(line: MarkedLine) -> dict[str, Any]:
    """A line with its marks."""
    source = line.source
    return {
        "line": line.number,
        "code": line.text,
        "source": fields_of(source, "file", "line") if source is not None else None,
        **fields_of(line, "loop", "vgprs", "agprs"),
        "registers": line.need,
        "rules": [finding.rule for finding in line.findings],
    }
