"""What the figures of a kernel show to be far from the least, whether or not a rule speaks of it.

Rules hold back where they cannot name a remedy, or where sizes decide that are not known. Without a
finding, this keeps a kernel from being called right that is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ..model import KernelReport, LoopReport, Metric, MetricValue, int_of, value_of

_FEW_WAVES: Final = 0.25
"""Share of the waves that a SIMD has room for, at and below which occupancy is named."""
_TIMES: Final = 2
"""How often a unit takes the least of cycles, lines or instructions that would do."""
_INSTRUCTIONS_OF: Final = {"vector": "count.valu", "issue": "count.instructions"}
"""Units whose work is instructions -> the metric of how many an iteration has."""
_LONG_FORMS: Final = {
    "integer_division": "integer divisions",
    "exp_log": "exponentials and logarithms of full range",
    "power": "powers of full range",
    "square_root": "exact square roots",
}
"""Metrics of what takes many instructions where few would do, of the worst loop -> its name."""


def unexplained(kernel: KernelReport) -> str | None:
    """One sentence's worth of what is far from the least; None where nothing is."""
    shown = [*_in_loops(kernel), *_occupancy(kernel)]
    return "; ".join(shown[:2]) or None


def _in_loops(kernel: KernelReport) -> Iterator[str]:
    """Lines and cycles of conflicts that limit hot loops, the main loop's first."""
    hot = [loop for loop in kernel.loops if loop.hot]
    for loop in sorted(hot, key=lambda loop: loop.id != kernel.main_loop):
        longest = _mapping(loop.metrics, "bound.longest")
        lines = _pair(_mapping(loop.metrics, "cache.waste"), "known", "known_ideal")
        if longest.get("unit") == "l1" and lines and lines[0] >= _TIMES * lines[1]:
            most, least = (f"{number:,.0f}" for number in lines)
            yield f"{loop.id} is limited by {most} cache lines an iteration where {least} would do"
        cycles = _pair(_mapping(loop.metrics, "lds.conflicts"), "known_cycles", "known")
        if longest.get("unit") == "lds" and cycles and _TIMES * cycles[1] >= cycles[0]:
            most, lost = (f"{number:,.0f}" for number in cycles)
            yield f"{loop.id} is limited by the LDS: {lost} of {most} cycles are bank conflicts"
        counted = _INSTRUCTIONS_OF.get(str(longest.get("unit")))
        if counted is not None:
            yield from _long_forms(kernel, loop, int_of(loop.metrics, counted))


def _long_forms(kernel: KernelReport, loop: LoopReport, most: int | None) -> Iterator[str]:
    """The operations that take half of the instructions by which a loop is limited, or more."""
    if not most:
        return
    avoidable = {"exact divisions": int_of(loop.metrics, "division.instructions")}
    for name, operations in _LONG_FORMS.items():
        of_worst = _mapping(kernel.metrics, name)
        # The metric names no loop: the count of vector instructions tells which it is.
        in_loop = of_worst.get("in_loop") is True
        if in_loop and of_worst.get("valu") == int_of(loop.metrics, "count.valu"):
            saved = of_worst.get("saved")
            avoidable[operations] = saved if isinstance(saved, int) else None
    for operations, instructions in avoidable.items():
        if instructions is not None and _TIMES * instructions >= most:
            yield (
                f"{loop.id} is limited by its instructions: {instructions:,} of {most:,} are "
                f"those of {operations}"
            )


def _occupancy(kernel: KernelReport) -> Iterator[str]:
    """Few waves by registers or LDS, where no matrix unit does the work."""
    metrics = kernel.metrics
    waves, most = (
        int_of(metrics, f"occupancy.{name}") for name in ("waves_per_eu", "by_workgroups")
    )
    limiter = value_of(metrics, "occupancy.limiter")
    names = {"vgpr": "registers leave", "lds": "LDS leaves"}
    if waves is None or most is None or limiter not in names or waves > _FEW_WAVES * most:
        return
    if int_of(metrics, "count.mfma") or int_of(metrics, "count.wmma"):
        return
    yield f"{names[str(limiter)]} {waves} of {most} waves on a SIMD"


def _mapping(metrics: Mapping[str, Metric], name: str) -> Mapping[str, MetricValue]:
    value = value_of(metrics, name)
    return value if isinstance(value, Mapping) else {}


def _pair(value: Mapping[str, MetricValue], first: str, second: str) -> tuple[float, float] | None:
    """Two figures of a mapping; None where one is unknown or the first is 0."""
    figures = value.get(first), value.get(second)
    if not isinstance(figures[0], int | float) or not isinstance(figures[1], int | float):
        return None
    return (figures[0], figures[1]) if figures[0] else None
