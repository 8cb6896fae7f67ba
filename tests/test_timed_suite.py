"""Every launch of the bundled kernels has a time or a reason (`benchmarks/timed_suite.py`)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from kinspect.benchmarks.timed_suite import ARCHS, faults_of, impossible, launches
from kinspect.inspector.bench.suite import catalogue
from kinspect.inspector.model.time import KernelTime, LoopTime, Saving, Stall, TimeLine
from msgspec.structs import replace

SOUND = KernelTime(
    us=10.0,
    low=7.0,
    high=14.0,
    warm_us=9.0,
    cycles=21_000,
    mhz=2100,
    gpu="MI300X",
    workgroups=304,
    rounds=1,
    resident=1,
    limiter="memory latency",
    units={"vector": 0.9, "memory": 0.8},
    stalls=(Stall("memory", 0.6), Stall("vector", 0.4)),
    lines=(TimeLine(None, 3, 0.6, "memory"), TimeLine(None, 4, 0.4, "vector")),
    savings=(Saving("lds", 9.0, 10.0),),
)


@pytest.mark.parametrize(
    "change",
    [
        {"us": math.nan},
        {"us": math.inf, "high": math.inf},
        {"us": 0.0, "low": 0.0},
        {"low": 11.0},
        {"warm_us": -1.0},
        {"units": {"vector": 1.01}},
        {"stalls": (Stall("memory", 0.6), Stall("vector", 0.5))},
        {"savings": (Saving("lds", math.nan, 10.0),)},
    ],
)
def test_a_figure_that_cannot_be_is_a_fault(change: dict[str, Any]) -> None:
    assert not list(impossible(SOUND, ()))
    assert list(impossible(replace(SOUND, **change), ()))


@pytest.mark.parametrize(("share", "faults"), [(0.5, 0), (0.6, 1), (1.2, 2)])
def test_shares_of_loops_sum_to_no_more_than_all(share: float, faults: int) -> None:
    loop = LoopTime(
        loop="L0", source=None, line=1, waves=4, cycles=None, iterations=1, share=share,
        limiter="", stalls=(),
    )  # fmt: skip
    assert len(list(impossible(SOUND, (loop, loop)))) == faults


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", [kernel.name for kernel in catalogue.bundled()])
def test_every_launch_has_a_time_or_a_reason(name: str, arch: str) -> None:
    reports = launches(name, arch, 1000, savings=False)
    assert reports
    assert {
        report.id: list(faults_of(report)) for report in reports if list(faults_of(report))
    } == {}
