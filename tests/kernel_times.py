"""A predicted time, written out by hand."""

from __future__ import annotations

from typing import Any

from kinspect.inspector.model import KernelTime


def kernel_time(**figures: Any) -> KernelTime:
    """The time of 2,048 workgroups, two of eight at a time on each compute unit."""
    fields: dict[str, Any] = {
        "us": 41.0, "low": 29.5, "high": 57.4, "warm_us": None, "cycles": 82_000.0, "mhz": 2000.0,
        "gpu": "MI300X", "workgroups": 2048, "rounds": 8, "resident": 2,
        "limiter": "memory latency", "units": {}, "stalls": (), "lines": (),
    }  # fmt: skip
    return KernelTime(**{**fields, **figures})
