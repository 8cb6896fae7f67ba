"""Short names of figures, the same in budgets, the Python interface and the agent format."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

METRICS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "time_us": "time.us",
        "vgprs": "vgpr_count",
        "agprs": "agpr_count",
        "sgprs": "sgpr_count",
        "vgpr_spills": "vgpr_spill_count",
        "sgpr_spills": "sgpr_spill_count",
        "waves_per_simd": "occupancy.waves_per_eu",
        "workgroups_per_cu": "occupancy.workgroups_per_cu",
        "limited_by": "occupancy.limiter",
        "instructions": "instruction_count",
    }
)
"""Short name -> the metric; `lds_bytes`, `scratch_bytes` and `code_bytes` are metrics' names."""


def metric_of(name: str) -> str:
    """The metric that a name means: its own, or that of a short one."""
    return METRICS.get(name, name)
