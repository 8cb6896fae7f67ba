"""Corrects misleading figures of devices and profilers, each with a note.

A recording is kept as it is; these functions say what its figures mean.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ...machines.target_names import base_arch
from ...model.recording import NONE, Dispatches, KernelShape
from .counters import table

Rows = NDArray[np.int64]
_UNUSABLE_NS = 1_000_000
"""Times that are all multiples of a millisecond were rounded by a spreadsheet, not by a clock."""
_LEAST_TIMES = 16
"""So many rounded times at least tell a coarse clock from chance."""


class Registers(Struct, frozen=True):
    """Registers per lane that a recorded shape may mean.

    `vgpr` is what was recorded as VGPRs; `accum` as AGPRs, None where that means nothing. `exact`
    is False where it may be half of the truth.
    """

    vgpr: int | None
    accum: int | None
    is_offset: bool  # vgpr is where AGPRs start: architectural VGPRs rounded up
    exact: bool = True
    notes: tuple[str, ...] = ()


class TimeResolution(Struct, frozen=True):
    """The steps in which a part's times advance; `usable` is False if they are too coarse."""

    usable: bool = True
    note: str = ""


def registers(shape: KernelShape, arch: str | None) -> Registers:
    """Returns the registers per lane that a shape's recorded counts mean on a target."""
    base = base_arch(arch) if arch else ""
    entry = next((e for e in table("quirks.yaml")["registers"] if base in e["architectures"]), None)
    if entry is None or shape.vgpr is None:
        return Registers(shape.vgpr, shape.accum_vgpr, is_offset=False)
    if entry.get("halved") and not shape.accum_vgpr:
        note = (
            f"VGPR_Count {shape.vgpr} may be half of what is allocated and Accum_VGPR_Count is "
            f"always 0 on {base} before mid-2026: the code object knows better"
        )
        return Registers(shape.vgpr, None, is_offset=True, exact=False, notes=(note,))
    note = (
        f"VGPR_Count {shape.vgpr} on {base} is where AGPRs start: architectural VGPRs rounded up; "
        "Accum_VGPR_Count includes padding"
    )
    return Registers(shape.vgpr, shape.accum_vgpr, is_offset=True, notes=(note,))


def sgprs(shape: KernelShape, arch: str | None) -> tuple[int | None, str]:
    """Returns the SGPRs per wave, None if the recorded number is a constant; and a note."""
    entry = table("quirks.yaml")["sgpr_constant"]
    base = base_arch(arch) if arch else ""
    if shape.sgpr == entry["value"] and base.startswith(tuple(entry["architectures"])):
        return None, f"SGPR_Count is always {entry['value']} on {base}: unknown"
    return shape.sgpr, ""


def per_xcc(
    value: float, xccs: int | None, duration_ns: float | None, clock_mhz: float | None
) -> tuple[float, str]:
    """Returns the clocks of one XCC from a count that profilers sum over XCCs, and a note.

    If the time is known, a value that is no more than one XCC's clocks in it is taken for the
    maximum over XCCs, as rocprofiler-sdk's own formulas use it.
    """
    if xccs is None or xccs < 2:
        return value, ""
    if duration_ns and clock_mhz:
        clocks = duration_ns * clock_mhz / 1000
        if value <= 1.2 * clocks and value / xccs < clocks / 4:
            return value, "GRBM_GUI_ACTIVE is taken for the maximum over XCCs, by the time it fits"
    return value / xccs, f"GRBM_GUI_ACTIVE is summed over XCCs: ÷ {xccs}"


def time_resolution(dispatches: Dispatches, rows: Rows) -> TimeResolution:
    """Determines the resolution of the times of some dispatches."""
    times = np.concatenate(
        [np.asarray(column)[rows] for column in (dispatches.start, dispatches.end)]
    )
    times = times[times != NONE]
    step = int(np.gcd.reduce(times)) if len(times) else 1
    if step >= _UNUSABLE_NS:
        note = f"times are rounded to {step} ns: durations are unknown"
        return TimeResolution(usable=False, note=note)
    if step < 2 or len(times) < _LEAST_TIMES:
        return TimeResolution()
    return TimeResolution(note=f"times are multiples of {step} ns: so fine is a duration")


def durations(dispatches: Dispatches, rows: Rows) -> Rows:
    """Returns the durations in ns of the rows that have a beginning and a later end."""
    start, end = (np.asarray(column)[rows] for column in (dispatches.start, dispatches.end))
    lengths: Rows = (end - start)[(start != NONE) & (end > start)]
    return lengths
