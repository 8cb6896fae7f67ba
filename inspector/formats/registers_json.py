"""What kernels' registers hold, as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TextIO

from msgspec import to_builtins

from ..metrics.occupancy import vgpr_levels
from ..model import KernelReport, value_of
from ..report.json_write import live_peak_dict

SCHEMA_VERSION = 1


def write(kernels: Sequence[KernelReport], stream: TextIO) -> None:
    """Writes an object with `kernels`.

    Each has its id, the allocated registers, `peak` (as `live_peak` of reports), `spilled`,
    `untouched` and `dead_writes` (as in reports), `counts` ([line, VGPRs, AGPRs] of each
    instruction) and `levels` (most VGPRs for each occupancy).
    """
    json.dump(
        {
            "schema_version": SCHEMA_VERSION,
            "kernels": [
                {
                    "id": kernel.id,
                    "name": kernel.name,
                    "arch": kernel.arch,
                    "vgpr_count": value_of(kernel.metrics, "vgpr_count"),
                    "agpr_count": value_of(kernel.metrics, "agpr_count"),
                    "peak": live_peak_dict(kernel.live_peak) if kernel.live_peak else None,
                    "spilled": to_builtins(kernel.spilled_values),
                    "untouched": to_builtins(kernel.untouched),
                    "dead_writes": list(kernel.dead_writes),
                    "counts": [list(count) for count in kernel.live_peak.counts]
                    if kernel.live_peak
                    else [],
                    "levels": [
                        {"waves_per_eu": waves, "vgprs": vgprs}
                        for waves, vgprs in vgpr_levels(kernel)
                    ],
                }
                for kernel in kernels
            ],
        },
        stream,
    )
    stream.write("\n")
