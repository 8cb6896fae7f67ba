"""Two profiles side by side: which kernels became slower, by how much, and what changed with it.

Times of a GPU scatter. A change of the median counts only where it is larger than both runs'
scatter: the halves of their dispatches (from the least to the median) do not overlap with it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ..model import Metric
from ..recording import KernelProfile, Profile

State = Literal["slower", "faster", "same", "unsure", "unknown"]
THRESHOLD = 0.03
"""Changes of the median below this part are the same: clocks and caches move more than that."""
FEWEST = 3
"""With fewer dispatches on a side their scatter is not known."""


class Change(Struct, frozen=True):
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
    """A kernel of both profiles. `total` is how much time a run gained (+) or saved (-), ns."""

    name: str
    left: KernelProfile
    right: KernelProfile
    state: State
    why: str  # what the verdict rests on
    median: Change
    total: float | None
    counts: tuple[int, int]  # dispatches in one run of the program; passes of counters rerun it
    launch: tuple[Change, ...]  # registers, LDS, workgroup: what the compiler or launch changed
    metrics: tuple[Change, ...]

    @property
    def grids(self) -> tuple[int, int] | None:
        """Work-items of both sides where they differ: other work then, or other blocks."""
        left, right = _items(self.left), _items(self.right)
        if left is None or right is None or left == right:
            return None
        return left, right


class ProfileDiff(Struct, frozen=True):
    """What two profiles have in common and what only one has."""

    left: Profile
    right: Profile
    kernels: tuple[KernelChange, ...]
    only_left: tuple[KernelProfile, ...]
    only_right: tuple[KernelProfile, ...]
    notes: tuple[str, ...]


def compare(left: Profile, right: Profile, threshold: float = THRESHOLD) -> ProfileDiff:
    """Pairs the kernels of two profiles, most time changed first.

    Kernels are paired by name and grid, then by name alone, then by name without arguments, each
    where one is left on each side; specialisations that an autotuner tried and dropped are left
    out.
    """
    ours = [k for k in left.kernels if k.role == "main"]
    theirs = [k for k in right.kernels if k.role == "main"]
    pairs, only_left, only_right = _pairs(ours, theirs)
    changes = [_change(a, b, threshold) for a, b in pairs]
    changes.sort(key=lambda c: -abs(c.total or 0))
    notes = []
    devices = [
        {(a.arch, a.product) for a in p.recording.agents if a.kind == "gpu"} for p in (left, right)
    ]
    if all(devices) and devices[0] != devices[1]:
        notes.append("the runs are of different devices: times compare devices, not code")
    tools = [p.recording.tool.get("version") for p in (left, right)]
    if all(tools) and tools[0] != tools[1]:
        notes.append(f"recorded by different profiler versions: {tools[0]} and {tools[1]}")
    return ProfileDiff(
        left, right, tuple(changes), tuple(only_left), tuple(only_right), tuple(notes)
    )


def _pairs(
    left: Sequence[KernelProfile], right: Sequence[KernelProfile]
) -> tuple[list[tuple[KernelProfile, KernelProfile]], list[KernelProfile], list[KernelProfile]]:
    pairs = []
    a, b = list(left), list(right)
    for key in (_whole, _launched, _name, _base):
        right_by_key: dict[object, list[KernelProfile]] = {}
        for kernel in b:
            right_by_key.setdefault(key(kernel), []).append(kernel)
        left_by_key: dict[object, list[KernelProfile]] = {}
        for kernel in a:
            left_by_key.setdefault(key(kernel), []).append(kernel)
        for group_key, ours in left_by_key.items():
            theirs = right_by_key.get(group_key, [])
            if len(ours) == 1 and len(theirs) == 1:
                pairs.append((ours[0], theirs[0]))
                a.remove(ours[0])
                b.remove(theirs[0])
    return pairs, a, b


def _whole(kernel: KernelProfile) -> object:
    shape = kernel.shape
    group = shape.workgroup_size if shape.workgroup is None else math.prod(shape.workgroup)
    return (shape.name, _items(kernel), group, shape.vgpr, shape.lds_bytes)


def _launched(kernel: KernelProfile) -> object:
    return kernel.shape.name, _items(kernel)


def _items(kernel: KernelProfile) -> int | None:
    """Work-items of its grid: counter files know no more, kernel traces have three dimensions."""
    shape = kernel.shape
    return shape.grid_size if shape.grid is None else math.prod(shape.grid)


def _name(kernel: KernelProfile) -> object:
    return kernel.name.removesuffix(".kd")


def _base(kernel: KernelProfile) -> object:
    """The name without template arguments and parameters."""
    return re.split(r"[<(]", kernel.name.removesuffix(".kd"), maxsplit=1)[0].strip()


def _change(left: KernelProfile, right: KernelProfile, threshold: float) -> KernelChange:
    medians = Change(
        "median",
        "ns",
        left.duration.median if left.duration is not None else None,
        right.duration.median if right.duration is not None else None,
    )
    state, why = _verdict(left, right, threshold)
    total = None
    if left.total_ns is not None and right.total_ns is not None:
        total = right.total_ns - left.total_ns
    return KernelChange(
        right.name,
        left,
        right,
        state,
        why,
        medians,
        total,
        (_launches(left), _launches(right)),
        _launch(left, right),
        _metrics(left.metrics, right.metrics),
    )


def _launches(kernel: KernelProfile) -> int:
    value = _number(kernel.metrics.get("measured.dispatches"))
    return kernel.dispatches if value is None else int(value)


def _verdict(left: KernelProfile, right: KernelProfile, threshold: float) -> tuple[State, str]:
    a, b = left.duration, right.duration
    if a is None or b is None or a.median <= 0:
        return "unknown", "no times were recorded"
    change = b.median / a.median - 1
    if min(a.count, b.count) < FEWEST:
        return "unsure", f"fewer than {FEWEST} dispatches on a side: the scatter is not known"
    if abs(change) < threshold:
        return "same", f"medians differ by less than {100 * threshold:g} %"
    # One side's faster half against the other's median: overlapping scatter proves nothing.
    slow, fast = (b, a) if change > 0 else (a, b)
    if slow.least <= fast.median:
        return "unsure", "the scatter of the two runs overlaps"
    return ("slower" if change > 0 else "faster"), f"{100 * change:+.1f} % at the median"


def _launch(left: KernelProfile, right: KernelProfile) -> tuple[Change, ...]:
    a, b = left.shape, right.shape
    pairs = (
        ("VGPR", "registers", a.vgpr, b.vgpr),
        ("AccVGPR", "registers", a.accum_vgpr, b.accum_vgpr),
        ("LDS", "bytes", a.lds_bytes, b.lds_bytes),
        ("scratch", "bytes", a.scratch_bytes, b.scratch_bytes),
        ("workgroup", "work-items", a.workgroup_size, b.workgroup_size),
    )
    return tuple(Change(name, unit, x, y) for name, unit, x, y in pairs if x != y)


def _metrics(left: Mapping[str, Metric], right: Mapping[str, Metric]) -> tuple[Change, ...]:
    """Measured metrics that differ by a hundredth or more, or that only one side has."""
    changes = []
    for name in dict.fromkeys([*left, *right]):
        if name.startswith("measured.duration.") or name == "measured.share_of_time":
            continue
        a, b = _number(left.get(name)), _number(right.get(name))
        if a == b or (a is not None and b is not None and abs(b - a) < 0.01 * abs(a)):
            continue
        unit = (left.get(name) or right[name]).unit
        changes.append(Change(name.removeprefix("measured."), unit, a, b))
    return tuple(changes)


def _number(metric: Metric | None) -> float | None:
    if metric is None or metric.origin != "measured" or isinstance(metric.value, bool):
        return None
    return metric.value if isinstance(metric.value, int | float) else None
