"""The catalogue of metrics that the timing model gives; their values come with a launch's time."""

from __future__ import annotations

from ..model import MetricSpec

US = "time.us"
SHARE = "time.share"
MEMORY = "time.memory"
SPECS = (
    MetricSpec(US, "us", "estimated", "kernel", "Time of the launch by the timing model"),
    MetricSpec(
        SHARE,
        "%",
        "estimated",
        "loop",
        "Share of the launch's time that goes to the loop's instructions, nested loops left out",
    ),
    MetricSpec(
        MEMORY,
        "%",
        "estimated",
        "loop",
        "Share of the loop's own time in which its waves wait for loads and stores",
    ),
)
