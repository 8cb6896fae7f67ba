"""What the timing model predicts of a kernel beside what was measured, and where the two part."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ..explain.profile_view import workgroup_count
from ..model import KernelReport, KernelTime, MeasuredLine, SourceLoc, number_of
from ..model.recording import KernelProfile
from ..model.time import StallReason
from .placing.line_measures import Measure, amount, measure_of

MOST_PARTED: Final = 8
"""Lines at which prediction and measurement part that are told."""
_ACTIVE: Final = "measured.counter.GRBM_GUI_ACTIVE"
_FEWEST: Final = 3
"""Instructions that a correlation is taken of at least."""


class PredictedFigure(Struct, frozen=True):
    """A figure of the model, and the measured one."""

    name: str  # `time`, `cycles`, `clock`, `cycles of a wave`
    unit: str  # of both
    predicted: float
    measured: float
    about: str  # what was measured, and what the model's figure is of

    @property
    def ratio(self) -> float | None:
        """Measured over predicted."""
        return self.measured / self.predicted if self.predicted else None


class PartedLine(Struct, frozen=True):
    """A line of the assembly with its part of what the kernel's instructions cost.

    Args:
        predicted, measured: its part, %.
        reason: what the model takes most of the wait to be for; None where it has none there.
    """

    line: int  # of the assembly (1-based)
    mnemonic: str  # empty where nothing was measured there
    source: SourceLoc | None  # the line of the user's Python; None where it is unknown
    predicted: float
    measured: float
    reason: StallReason | None
    reasons: Mapping[str, int]  # why PC samples found it not issued -> number of samples


class Parting(Struct, frozen=True):
    """How the costs of instructions compare."""

    measure: Measure  # what is compared: stall cycles, samples not issued, samples
    instructions: int  # that were seen executed, or that the model has waits at
    pearson: float | None  # correlation of their parts; None where there are too few
    same_percent: float  # of the cost that both put at the same instruction
    lines: tuple[PartedLine, ...]  # where they part most, the largest difference first


class Predicted(Struct, frozen=True):
    """The model's prediction beside a measured kernel."""

    gpu: str  # the product that the model took
    figures: tuple[PredictedFigure, ...]  # of the whole launch
    parting: Parting | None  # None where no instructions were measured
    notes: tuple[str, ...]  # what keeps the two from being the same launch


def predicted(kernel: KernelProfile, report: KernelReport | None) -> Predicted | None:
    """Lays a kernel's predicted time and stalls beside the measured ones.

    Returns:
        None where there is no report, or no time in it.
    """
    if report is None or report.time is None:
        return None
    time, notes = report.time, []
    recorded = workgroup_count(kernel.shape)
    same_launch = recorded is None or recorded == time.workgroups
    if not same_launch:
        notes.append(
            f"the recorded launch has {recorded:,} workgroups, the predicted one"
            f" {time.workgroups:,}: their times are not compared"
        )
    elif kernel.grids > 1:
        notes.append(f"measured over {kernel.grids} different grids, predicted for one")
    figures = tuple(_figures(kernel, report, time)) if same_launch else ()
    return Predicted(time.gpu, figures, parting(report), tuple(notes))


def _figures(
    kernel: KernelProfile, report: KernelReport, time: KernelTime
) -> Iterator[PredictedFigure]:
    if kernel.duration is not None:
        about = f"median of {kernel.duration.count:,} dispatches"
        yield PredictedFigure("time", "us", time.us, kernel.duration.median / 1e3, about)
    if (cycles := number_of(kernel.metrics, _ACTIVE)) is not None:
        about = "GRBM_GUI_ACTIVE of one XCC; of the busiest compute unit"
        yield PredictedFigure("cycles", "cycles", time.cycles, cycles, about)
    if (clock := number_of(kernel.metrics, "measured.clock_mhz")) is not None:
        yield PredictedFigure("clock", "MHz", time.mhz, clock, "in the mean; assumed")
    # From gfx10 on, latencies of instructions overlap.
    if (report.arch or "").startswith("gfx9") and (of_wave := _wave_cycles(report.measured_lines)):
        resident = min(time.resident, time.rounds)
        about = "latency and gaps of a traced wave's instructions; of a resident workgroup"
        own = time.cycles * resident / time.rounds
        yield PredictedFigure("cycles of a wave", "cycles", own, of_wave, about)


def _wave_cycles(lines: Sequence[MeasuredLine]) -> float | None:
    """Cycles of a traced wave in the mean; None without a trace of waves that came to their end."""
    waves = sum(line.hits or 0 for line in lines if line.mnemonic == "s_endpgm")
    cycles = sum((line.latency_cycles or 0) + (line.idle_cycles or 0) for line in lines)
    return cycles / waves if waves else None


def predicted_parts(time: KernelTime, measure: Measure) -> dict[int, float]:
    """Line of the assembly -> its part of what instructions cost by the model, %."""
    if measure == "samples":
        whole = 1 - sum(s.share for s in time.stalls if s.reason in ("launch", "tail"))
        parts = {row.line: row.share for row in time.instructions}
    else:
        whole = time.stalled
        parts = {row.line: row.stalled for row in time.instructions}
    return {line: 100 * part / whole for line, part in parts.items() if part} if whole else {}


def parting(report: KernelReport) -> Parting | None:
    """Compares the parts that instructions have of a kernel's cost.

    Returns:
        None where it has not both.
    """
    measure = measure_of(report.measured_lines)
    if report.time is None or measure is None:
        return None
    lines = {line.line: line for line in report.measured_lines if line.hits or line.samples}
    costs = {line: amount(row, measure) or 0 for line, row in lines.items()}
    total, model = sum(costs.values()), predicted_parts(report.time, measure)
    if not total or not model:
        return None
    reasons = {row.line: row.reason for row in report.time.instructions if row.line in model}
    both = []
    for number in sorted(costs.keys() | model.keys()):
        row = lines.get(number)
        source = row.source.in_user_code if row is not None and row.source is not None else None
        both.append(
            PartedLine(
                line=number,
                mnemonic=row.mnemonic if row is not None else "",
                source=source,
                predicted=model.get(number, 0.0),
                measured=100 * costs.get(number, 0) / total,
                reason=reasons.get(number),
                reasons=row.reasons if row is not None else {},
            )
        )
    apart = sorted(both, key=lambda line: -abs(line.predicted - line.measured))
    return Parting(
        measure=measure,
        instructions=len(both),
        pearson=_pearson(both),
        same_percent=sum(min(line.predicted, line.measured) for line in both),
        lines=tuple(apart[:MOST_PARTED]),
    )


def _pearson(lines: list[PartedLine]) -> float | None:
    if len(lines) < _FEWEST:
        return None
    try:
        return statistics.correlation([x.predicted for x in lines], [x.measured for x in lines])
    except statistics.StatisticsError:  # all the same on one side
        return None
