"""The catalogue of metrics that the timing model gives; their values come with a launch's time."""

from __future__ import annotations

from .entries import of_kernels, of_loops

US = "time.us"
SHARE = "time.share"
MEMORY = "time.memory"
TIME_SPECS = (
    *of_kernels(
        {
            US: "us | Time of the launch by the timing model",
        },
        "estimated",
    ),
    *of_loops(
        {
            SHARE: "% | Share of the launch's time that goes to the loop's instructions, nested "
            "loops left out",
            MEMORY: "% | Share of the loop's own time in which its waves wait for loads and stores",
        },
        "estimated",
    ),
)
