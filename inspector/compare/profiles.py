"""Two profiles side by side: which kernels became slower, by how much, and what changed with it.

GPU times scatter. A change of the median counts only where it is larger than the scatter: where the
fastest dispatch of the slower side took longer than the median of the faster side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ..model import Metric, number_of
from ..model.recording import KernelProfile, Profile
from ..profile.join import name_parts
from ..profile.trace_metrics import SPAN

State = Literal["slower", "faster", "same", "unsure", "unknown"]
THRESHOLD = 0.03
"""A change of the median below this fraction counts as none: clocks and caches vary as much."""
FEWEST = 3
"""With fewer dispatches on a side, its scatter is not known."""
SPAN_THRESHOLD = 0.1
"""A smaller change of the span of traced dispatches counts as none: how much it scatters is not
known. It is in cycles, so that clocks are no part of it."""


class MeasuredChange(Struct, frozen=True):
    """A figure on both sides. `ratio` is right over left; None where it is not defined."""

    name: str
    unit: str
    left: float | None
    right: float | None

    @property
    def ratio(self) -> float | None:
        if self.left is None or self.right is None or self.left == 0:
            return None
        return self.right / self.left


class KernelChange(Struct, frozen=True):
    """A kernel of both profiles.

    Args:
        median: of the times; where a side has none, the spans of traced dispatches.
        of_traces: whether it is these spans, in cycles.
        total: how much time a run of the program gained (+) or saved (-), ns; None if unknown.
        counts: dispatches in one run of the program on each side; passes of counters rerun it.
    """

    name: str
    left: KernelProfile
    right: KernelProfile
    state: State
    why: str
    median: MeasuredChange
    of_traces: bool
    total: float | None
    counts: tuple[int, int]
    launch: tuple[MeasuredChange, ...]
    metrics: tuple[MeasuredChange, ...]

    @property
    def grids(self) -> tuple[int, int] | None:
        """Work-items of both grids where they differ: the work or the block size changed."""
        left, right = _items(self.left), _items(self.right)
        if left is None or right is None or left == right:
            return None
        return left, right


class ProfileDiff(Struct, frozen=True):
    """The comparison of two profiles: kernels of both, and of only one."""

    left: Profile
    right: Profile
    kernels: tuple[KernelChange, ...]
    only_left: tuple[KernelProfile, ...]
    only_right: tuple[KernelProfile, ...]
    notes: tuple[str, ...]


def compare(left: Profile, right: Profile, threshold: float = THRESHOLD) -> ProfileDiff:
    """Pairs the kernels of two profiles, most time changed first.

    Kernels are paired by name and the whole launch, then by name and grid, by name alone, and by
    name without arguments; each time only where exactly one kernel is left on each side.
    Specialisations that an autotuner tried and dropped are left out.

    Args:
        threshold: smallest change of a median that counts, as a fraction.
    """
    left_kernels = [k for k in left.kernels if k.role == "main"]
    right_kernels = [k for k in right.kernels if k.role == "main"]
    pairs, only_left, only_right = _pairs(left_kernels, right_kernels)
    changes = [_change(before, after, threshold) for before, after in pairs]
    changes.sort(key=lambda change: -abs(change.total or 0))
    return ProfileDiff(
        left=left,
        right=right,
        kernels=tuple(changes),
        only_left=tuple(only_left),
        only_right=tuple(only_right),
        notes=tuple(_notes(left, right)),
    )


def _notes(left: Profile, right: Profile) -> Iterator[str]:
    """Yields notes on devices and profilers that differ, so that times mean something else."""
    devices = [
        {(agent.arch, agent.product) for agent in side.recording.agents if agent.kind == "gpu"}
        for side in (left, right)
    ]
    if all(devices) and devices[0] != devices[1]:
        yield "the runs are of different devices: times compare devices, not code"
    tools = [side.recording.tool.get("version") for side in (left, right)]
    if all(tools) and tools[0] != tools[1]:
        yield f"recorded by different profiler versions: {tools[0]} and {tools[1]}"


def _pairs(
    left: Sequence[KernelProfile], right: Sequence[KernelProfile]
) -> tuple[list[tuple[KernelProfile, KernelProfile]], list[KernelProfile], list[KernelProfile]]:
    """Pairs of kernels, and those of each side that have no counterpart."""
    pairs = []
    left_unpaired, right_unpaired = list(left), list(right)
    for key in (_whole_launch, _name_and_grid, _name, _base_name):
        left_groups, right_groups = _grouped(left_unpaired, key), _grouped(right_unpaired, key)
        for group_key, left_group in left_groups.items():
            right_group = right_groups.get(group_key, [])
            if len(left_group) == 1 and len(right_group) == 1:
                pairs.append((left_group[0], right_group[0]))
                left_unpaired.remove(left_group[0])
                right_unpaired.remove(right_group[0])
    return pairs, left_unpaired, right_unpaired


def _grouped(
    kernels: Iterable[KernelProfile], key: Callable[[KernelProfile], object]
) -> dict[object, list[KernelProfile]]:
    groups: dict[object, list[KernelProfile]] = {}
    for kernel in kernels:
        groups.setdefault(key(kernel), []).append(kernel)
    return groups


def _whole_launch(kernel: KernelProfile) -> object:
    shape = kernel.shape
    group = shape.workgroup_size if shape.workgroup is None else math.prod(shape.workgroup)
    return (shape.name, _items(kernel), group, shape.vgpr, shape.lds_bytes)


def _name_and_grid(kernel: KernelProfile) -> object:
    return kernel.shape.name, _items(kernel)


def _items(kernel: KernelProfile) -> int | None:
    """Work-items of its grid; counter files give their number, kernel traces three dimensions."""
    shape = kernel.shape
    return shape.grid_size if shape.grid is None else math.prod(shape.grid)


def _name(kernel: KernelProfile) -> object:
    return kernel.name.removesuffix(".kd")


def _base_name(kernel: KernelProfile) -> object:
    """The name without template arguments and parameters."""
    return name_parts(kernel.name)[0]


def _change(left: KernelProfile, right: KernelProfile, threshold: float) -> KernelChange:
    """Compares the times and metrics of one kernel in two profiles."""
    spans = MeasuredChange("span", "cycles", *(number_of(k.metrics, SPAN) for k in (left, right)))
    if (left.duration is not None and right.duration is not None) or spans.ratio is None:
        medians = MeasuredChange(
            "median",
            "ns",
            left.duration.median if left.duration is not None else None,
            right.duration.median if right.duration is not None else None,
        )
        state, why = _verdict(left, right, threshold)
    else:
        medians = spans
        state, why = _traced_verdict(spans.ratio - 1)
    total = None
    if left.total_ns is not None and right.total_ns is not None:
        total = right.total_ns - left.total_ns
    return KernelChange(
        name=right.name,
        left=left,
        right=right,
        state=state,
        why=why,
        median=medians,
        of_traces=medians is spans,
        total=total,
        counts=(_launches(left), _launches(right)),
        launch=_launch(left, right),
        metrics=_metrics(left.metrics, right.metrics),
    )


def _launches(kernel: KernelProfile) -> int:
    value = _number(kernel.metrics.get("measured.dispatches"))
    return kernel.dispatches if value is None else int(value)


def _verdict(left: KernelProfile, right: KernelProfile, threshold: float) -> tuple[State, str]:
    """Returns whether a kernel became faster or slower at the median, and why."""
    before, after = left.duration, right.duration
    if before is None or after is None or before.median <= 0:
        return "unknown", "no times were recorded"
    change = after.median / before.median - 1
    if min(before.count, after.count) < FEWEST:
        return "unsure", f"fewer than {FEWEST} dispatches on a side: the scatter is not known"
    if abs(change) < threshold:
        return "same", f"medians differ by less than {100 * threshold:g} %"
    # One side's faster half against the other's median: overlapping scatter proves nothing.
    slow, fast = (after, before) if change > 0 else (before, after)
    if slow.least <= fast.median:
        return "unsure", "the scatter of the two runs overlaps"
    return ("slower" if change > 0 else "faster"), f"{100 * change:+.1f} % at the median"


def _traced_verdict(change: float) -> tuple[State, str]:
    """Returns whether the dispatches that were traced became faster or slower, and why."""
    if abs(change) < THRESHOLD:
        return "same", f"spans of the traces differ by less than {100 * THRESHOLD:g} %"
    if abs(change) < SPAN_THRESHOLD:
        return "unsure", (
            f"spans of the traces differ by less than {100 * SPAN_THRESHOLD:g} %, and how much they"
            " scatter is not known"
        )
    return ("slower" if change > 0 else "faster"), f"{100 * change:+.1f} % of the trace's cycles"


def _launch(left: KernelProfile, right: KernelProfile) -> tuple[MeasuredChange, ...]:
    left_shape, right_shape = left.shape, right.shape
    pairs = (
        ("VGPR", "registers", left_shape.vgpr, right_shape.vgpr),
        ("AccVGPR", "registers", left_shape.accum_vgpr, right_shape.accum_vgpr),
        ("LDS", "bytes", left_shape.lds_bytes, right_shape.lds_bytes),
        ("scratch", "bytes", left_shape.scratch_bytes, right_shape.scratch_bytes),
        ("workgroup", "work-items", left_shape.workgroup_size, right_shape.workgroup_size),
    )
    return tuple(
        MeasuredChange(name, unit, before, after)
        for name, unit, before, after in pairs
        if before != after
    )


def _metrics(left: Mapping[str, Metric], right: Mapping[str, Metric]) -> tuple[MeasuredChange, ...]:
    """Measured metrics that differ by 1 % or more, or that only one side has."""
    changes = []
    for name in dict.fromkeys([*left, *right]):
        if name.startswith("measured.duration.") or name in (SPAN, "measured.share_of_time"):
            continue
        before, after = _number(left.get(name)), _number(right.get(name))
        if before == after or (
            before is not None and after is not None and abs(after - before) < 0.01 * abs(before)
        ):
            continue
        unit = (left.get(name) or right[name]).unit
        changes.append(MeasuredChange(name.removeprefix("measured."), unit, before, after))
    return tuple(changes)


def _number(metric: Metric | None) -> float | None:
    if metric is None or metric.origin != "measured" or isinstance(metric.value, bool):
        return None
    return metric.value if isinstance(metric.value, int | float) else None
