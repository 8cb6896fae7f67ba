"""Recorded counters beside what the emulator says that they have to show."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from ...explain.profile_view import scaled
from ...model import KernelReport, number_of
from ...recording import KernelProfile
from .executed import rules

EMULATED = "emulated.counter."
CLOSE = 0.02
"""Relative difference up to which two counts are taken for the same."""


class Compared(Struct, frozen=True):
    """A counter of a dispatch, recorded and emulated.

    Args:
        counter: its name.
        recorded: mean per dispatch, as the profiler wrote it.
        emulated: for a launch of the recorded grid, or of the captured one where none was recorded.
        ratio: recorded over emulated; None where that is 0.
        why: what the difference may come of, for people; empty where there is none, or it is not
            known.
    """

    counter: str
    recorded: float
    emulated: float
    ratio: float | None
    why: str


def compared(kernel: KernelProfile, report: KernelReport | None) -> Iterator[Compared]:
    """The counters that were recorded and emulated, in the order of the recording.

    Args:
        kernel: as measured.
        report: the analysed kernel that it is; None: unknown.
    """
    if report is None:
        return
    scale = _grids(kernel, report)
    for name, spread in kernel.counters.items():
        value = number_of(report.metrics, EMULATED + name)
        if value is None:
            continue
        emulated = value * scale
        ratio = spread.mean / emulated if emulated else None
        same = spread.mean == emulated or (ratio is not None and abs(ratio - 1) <= CLOSE)
        why = "" if same else _why(name, ratio, kernel, report)
        yield Compared(name, spread.mean, emulated, ratio, why)


def rows(
    kernel: KernelProfile, report: KernelReport | None
) -> Iterator[tuple[str, str, str, str, str]]:
    """The same in words: name, recorded mean, emulated, their ratio, why they differ."""
    for both in compared(kernel, report):
        ratio = f"{both.ratio:.3f}" if both.ratio is not None else ""
        yield both.counter, scaled(both.recorded), scaled(both.emulated), ratio, both.why


def _grids(kernel: KernelProfile, report: KernelReport) -> float:
    """Workgroups of the recorded grid over those of the captured one; 1 where one is unknown."""
    captured = report.emulated.grid_workgroups if report.emulated is not None else None
    shape = kernel.shape
    items = math.prod(shape.grid) if shape.grid is not None else shape.grid_size
    group = math.prod(shape.workgroup) if shape.workgroup is not None else shape.workgroup_size
    if not (captured and items and group) or kernel.grids > 1:
        return 1.0
    return items / group / captured


def _why(name: str, ratio: float | None, kernel: KernelProfile, report: KernelReport) -> str:
    agent = kernel.agent
    parts = [("XCC", agent.xccs), ("shader engine", agent.shader_engines)] if agent else []
    for part, count in parts:
        if ratio is not None and count and count > 1 and abs(ratio * count - 1) <= CLOSE:
            return f"as much as one {part} of {count} counts"
    reasons = []
    if kernel.grids > 1:
        reasons.append(f"the mean over {kernel.grids} grids, of which one was captured")
    if name in rules() and rules()[name].differs:
        reasons.append(rules()[name].differs)
    emulated = report.emulated
    if emulated is not None and emulated.workgroups < emulated.grid_workgroups:
        reasons.append(f"{emulated.workgroups} of {emulated.grid_workgroups} workgroups executed")
    if emulated is not None and any("float" not in dtype for dtype in emulated.made_up):
        reasons.append("contents of integer tensors made up")
    return "; ".join(reasons)
