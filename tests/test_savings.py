"""What rules say that a cure saves at most, against kernels that were compiled with and without it.

A cure may save less than its rule says, never more: not of what the slowest unit of the machine
takes, nor, where a rule is about all that waves do, of their instructions.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kinspect.inspector.lint.engine import evaluate
from kinspect.inspector.lint.schema import Pack
from kinspect.inspector.metrics.bounds import UNITS
from kinspect.inspector.model import KernelReport, LoopReport, Metric
from test_rule_fixtures import RULES, Fixture, _reports

PAIRS = (
    ("KI042", "dots.py", "gfx942", "block_small", "block_of_one_wave"),
    ("KI043", "dots.py", "gfx942", "turned", "turned_one_stage"),
    ("KI049", "rows.py", "gfx942", "two_waves_too_many", "two_waves"),
    ("KI063", "exponentials.py", "gfx942", "sum_of_exponentials", "flushed"),
    ("KI063", "exponentials.py", "gfx1100", "sum_of_exponentials", "flushed"),
    ("KI088", "hip_trips_gfx942.s", None, "adds_in_turn", "adds_at_once"),
    ("KI100", "unpacked.py", "gfx942", "rounded", "cut"),
    ("KI105", "hip_trips_gfx942.s", None, "planes_in_turn", "planes_at_once"),
)
"""A rule, a file of fixtures, a target, a kernel with its finding and the same kernel cured."""
ALL_THAT_WAVES_DO = ("KI042", "KI049", "KI063", "KI088", "KI105")
OF_ONE_WAVE = ("issue", "latency")
"""Units that are one wave's own: its instructions are counted, its chain of results stays."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "file", "arch", "before", "after"), PAIRS, ids=lambda part: str(part)
)
def test_a_cure_saves_no_more_than_its_rule_says(
    rule: str, file: str, arch: str | None, before: str, after: str
) -> None:
    pytest.importorskip("triton")
    path = Fixture.of(file).file
    reports = {
        kernel.variant.case if kernel.variant is not None else kernel.name: kernel
        for kernel in _reports(path, arch, (before, after))
    }
    (finding, *_) = evaluate(Pack("one", "", (RULES[rule],), "test"), reports[before])
    if finding.saves_percent is None:
        assert not reports[before].loops, "without loops, what a workgroup does once counts as well"
        return
    costs = {name: dict(_costs(reports[name])) for name in (before, after)}
    assert costs[before].keys() == costs[after].keys()
    for cost, cycles in costs[before].items():
        if cost == "instructions" and rule not in ALL_THAT_WAVES_DO:
            continue
        saved = 100 - 100 * costs[after][cost] / cycles
        assert saved <= finding.saves_percent + 0.5, cost


def _costs(kernel: KernelReport) -> Iterator[tuple[str, float]]:
    """Yields what the waves of a workgroup need for the hot loop, or without one in all."""
    waves = _number(kernel.metrics["waves_per_workgroup"])
    loops = [loop for loop in kernel.loops if loop.hot]
    metrics = _main(loops).metrics if loops else kernel.metrics
    instructions = _number(
        metrics["count.instructions"] if loops else kernel.metrics["instruction_count"]
    )
    yield "instructions", waves * instructions
    longest = metrics["bound.longest"].value
    assert isinstance(longest, dict)
    slowest = max(
        cycles
        for unit, cycles in longest.items()
        if unit in UNITS and unit not in OF_ONE_WAVE and isinstance(cycles, int | float)
    )
    yield "slowest unit", slowest / _number(kernel.metrics["occupancy.workgroups_per_cu"])


def _main(loops: list[LoopReport]) -> LoopReport:
    return max(loops, key=lambda loop: _number(loop.metrics["count.instructions"]))


def _number(metric: Metric) -> float:
    assert isinstance(metric.value, int | float)
    return metric.value
