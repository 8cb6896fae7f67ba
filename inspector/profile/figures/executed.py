"""Compares the counters of a dispatch that were recorded with those of the emulated launch."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from ...explain.quantities import scaled
from ...model import KernelReport, has_integers, number_of
from ...model.recording import KernelProfile
from .executed_counters import definitions

EMULATED = "emulated.counter."
CLOSE = 0.02
"""Relative difference up to which two counts are considered equal."""


class ComparedCounter(Struct, frozen=True):
    """A counter of a dispatch, recorded and emulated.

    Args:
        emulated: value for a launch of the recorded grid; of the captured grid where none was
            recorded.
        why: possible reasons for the difference, in words; empty where the values agree or no
            reason is known.
    """

    counter: str  # its name
    recorded: float  # mean per dispatch, as the profiler wrote it
    emulated: float
    ratio: float | None  # recorded over emulated; None where the latter is 0
    why: str


def compared(kernel: KernelProfile, report: KernelReport | None) -> Iterator[ComparedCounter]:
    """The counters that were recorded and emulated, in the order of the recording.

    `report`: the report of the analysed kernel that it matches; None if unknown.
    """
    if report is None:
        return
    scale = _grid_ratio(kernel, report)
    for name, spread in kernel.counters.items():
        value = number_of(report.metrics, EMULATED + name)
        if value is None:
            continue
        emulated = value * scale
        ratio = spread.mean / emulated if emulated else None
        agrees = spread.mean == emulated or (ratio is not None and abs(ratio - 1) <= CLOSE)
        why = "" if agrees else _why(name, ratio, kernel, report)
        yield ComparedCounter(
            counter=name, recorded=spread.mean, emulated=emulated, ratio=ratio, why=why
        )


def rows(
    kernel: KernelProfile, report: KernelReport | None
) -> Iterator[tuple[str, str, str, str, str]]:
    """Yields `compared` as texts: name, recorded mean, emulated value, ratio, why they differ."""
    for row in compared(kernel, report):
        ratio = f"{row.ratio:.3f}" if row.ratio is not None else ""
        yield row.counter, scaled(row.recorded), scaled(row.emulated), ratio, row.why


def _grid_ratio(kernel: KernelProfile, report: KernelReport) -> float:
    """Returns the recorded grid's workgroups over those of the captured one; 1 if unknown."""
    captured = report.emulated.grid_workgroups if report.emulated is not None else None
    shape = kernel.shape
    items = math.prod(shape.grid) if shape.grid is not None else shape.grid_size
    group = math.prod(shape.workgroup) if shape.workgroup is not None else shape.workgroup_size
    if not (captured and items and group) or kernel.grids > 1:
        return 1.0
    return items / group / captured


def _why(name: str, ratio: float | None, kernel: KernelProfile, report: KernelReport) -> str:
    """Returns the possible reasons for which a recorded and an emulated counter differ."""
    agent = kernel.agent
    units = [("XCC", agent.xccs), ("shader engine", agent.shader_engines)] if agent else []
    for unit, count in units:
        if ratio is not None and count and count > 1 and abs(ratio * count - 1) <= CLOSE:
            return f"as much as one {unit} of {count} counts"
    reasons = []
    if kernel.grids > 1:
        reasons.append(f"the mean over {kernel.grids} grids, of which one was captured")
    definition = definitions().get(name)
    if definition is not None and definition.differs:
        reasons.append(definition.differs)
    emulated = report.emulated
    if emulated is not None and emulated.workgroups < emulated.grid_workgroups:
        reasons.append(f"{emulated.workgroups} of {emulated.grid_workgroups} workgroups executed")
    if emulated is not None and has_integers(emulated.made_up):
        reasons.append("contents of integer tensors made up")
    return "; ".join(reasons)
