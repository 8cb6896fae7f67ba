"""Puts the kernels of a profile into words and rows, for its text, HTML and terminal views.

`recording_view` does so for the recording, `quantities` has the form of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ..model import KernelReport, Metric, int_of, number_of
from ..model.recording import KernelProfile, KernelShape, Profile, Spread
from . import view
from .quantities import UNKNOWN, dimensions, duration, scaled

_COUNTER = "measured.counter."
_SHOWN_ELSEWHERE = ("measured.dispatches", "measured.share_of_time", "measured.duration.")
"""Prefixes of metrics that the views show in the kernels' table or above the rows."""
_UNITS = {"bytes": "B", "bytes/s": "B/s"}
MAX_NOTE_CHARS = 150
"""A metric's note is cut to this many characters."""
_STATIC_COUNTERPARTS: Sequence[tuple[str, str]] = (
    ("measured.occupancy.waves_per_eu", "occupancy.waves_per_eu"),
    ("measured.mfma_busy", "cycles.mfma"),
    ("measured.lds.conflict_percent", "cycles.lds"),
)
"""(measured metric, the static metric that is shown beside it)."""


class MeasuredRow(Struct, frozen=True):
    """A measured figure in words, with the static one beside it and where it comes from."""

    name: str
    value: str
    unit: str
    static: str
    note: str


def share_of_time(kernel: KernelProfile) -> float | None:
    """Returns the kernel's share of the time of all dispatches, %; None if it is unknown."""
    return number_of(kernel.metrics, "measured.share_of_time")


def launch_count(kernel: KernelProfile) -> int:
    """Returns the program's launches of a kernel, without those repeated for passes of counters."""
    launches = int_of(kernel.metrics, "measured.dispatches")
    return launches if launches is not None else kernel.dispatches


def statistic(kernel: KernelProfile, name: str) -> float | None:
    """Returns the kernel's `median`, `mean`, `min` or `max` time, ns; None if it is unknown.

    From its dispatches or, where only the profiler's summary was recorded, from that.
    """
    if kernel.duration is not None:
        field = {"min": "least", "max": "most"}.get(name, name)
        return float(getattr(kernel.duration, field))
    return number_of(kernel.metrics, f"measured.duration.{name}")


def time_range(times: Spread | None) -> str:
    """Returns the range of a kernel's times, from the least to the most."""
    if times is None:
        return UNKNOWN
    if times.count == 1:
        return "once"
    if times.least == times.most:
        return f"{duration(times.least)} each"
    return f"{duration(times.least)} … {duration(times.most)}"


def workgroup_count(shape: KernelShape) -> int | None:
    """Returns the number of workgroups of a dispatch; None if it is unknown."""
    if shape.grid is not None and shape.workgroup is not None:
        count = 1
        for size, group in zip(shape.grid, shape.workgroup, strict=True):
            if group <= 0:
                return None
            count *= -(-size // group)
        return count
    if shape.grid_size is not None and shape.workgroup_size:
        return -(-shape.grid_size // shape.workgroup_size)
    return None


def launch_text(kernel: KernelProfile) -> str:
    """Returns a kernel's launch as recorded: grid, workgroup, registers, LDS, scratch."""
    shape = kernel.shape
    grid = dimensions(shape.grid, shape.grid_size)
    groups = workgroup_count(shape)
    parts = [
        f"grid {grid}" + (f" and {kernel.grids - 1} other" if kernel.grids > 1 else ""),
        f"workgroup {dimensions(shape.workgroup, shape.workgroup_size)}",
        f"{groups:,} workgroup{'s' if groups != 1 else ''}" if groups is not None else "",
        f"VGPR {shape.vgpr}" if shape.vgpr is not None else "",
        f"AccVGPR {shape.accum_vgpr}" if shape.accum_vgpr else "",
        f"SGPR {shape.sgpr}" if shape.sgpr is not None else "",
        f"LDS {view.kib(shape.lds_bytes)}" if shape.lds_bytes is not None else "",
        f"scratch {view.kib(shape.scratch_bytes)}" if shape.scratch_bytes else "",
    ]
    return "  ".join(filter(None, parts))


def dispatch_text(kernel: KernelProfile) -> str:
    """Returns a kernel's dispatches and times: `4 dispatches, 1 warm-up left out: 51 us at …`."""
    if not kernel.dispatches:
        return "no dispatch recorded"
    count, times = launch_count(kernel), kernel.duration
    metric = kernel.metrics.get("measured.dispatches")
    note = metric.note if metric is not None and kernel.passes > 1 else ""
    parts = [f"{count:,} dispatch{'es' if count != 1 else ''}" + (f" ({note})" if note else "")]
    warmups = kernel.warmups
    if count != kernel.dispatches:
        # The warm-ups are those of all counter passes. Only the number of timed dispatches tells
        # how many of them belong to the program's own.
        warmups = min(warmups, count - times.count) if times is not None else 0
    if warmups:
        parts.append(f"{view.plural(warmups, 'warm-up')} left out")
    if times is None:
        mean = statistic(kernel, "mean")
        return ", ".join(parts) + (f": {duration(mean)} at the mean" if mean is not None else "")
    summary = f"{duration(times.median)} at the median"
    if times.count > 1:
        summary += f", {duration(times.least)} to {duration(times.most)}"
    return f"{', '.join(parts)}: {summary}"


def short_note(note: str) -> str:
    """Returns a metric's note cut to `MAX_NOTE_CHARS` characters; JSON has all of it."""
    return note if len(note) <= MAX_NOTE_CHARS else f"{note[: MAX_NOTE_CHARS - 1]}…"


def match_text(kernel: KernelProfile, profile: Profile) -> str:
    """Returns the analysed kernel that a recorded one matches and the reason, or why none does."""
    match = kernel.match
    names = {report.id: kernel_label(report) for report in profile.reports}
    if match.is_decided:
        exact = match.verdict == "exact"
        reason = "the same code object" if exact else "agrees in all that is known"
        return f"{names.get(match.kernels[0], match.kernels[0])} ({reason})"
    if match.verdict == "ambiguous":
        candidates = ", ".join(names.get(kernel_id, kernel_id) for kernel_id in match.kernels[:4])
        omitted = f" and {len(match.kernels) - 4} more" if len(match.kernels) > 4 else ""
        return f"ambiguous, none is chosen: {candidates}{omitted}"
    return "; ".join(match.reasons[:2]) if profile.reports else ""


def kernel_label(report: KernelReport) -> str:
    """Returns a kernel's name with its case, which distinguishes its specialisations."""
    variant = report.variant
    if variant is None:
        return report.name
    case = variant.case or ""
    return f"{report.name} [{case}]" if case else report.name


def report_of(kernel: KernelProfile, profile: Profile) -> KernelReport | None:
    """Returns the analysed kernel of a recorded one; None if the match is not certain or likely."""
    if not kernel.match.is_decided:
        return None
    report_id = kernel.match.kernels[0]
    return next((report for report in profile.reports if report.id == report_id), None)


def measured_rows(
    metrics: Mapping[str, Metric], static: Mapping[str, Metric] | None
) -> Iterator[MeasuredRow]:
    """Yields the measured metrics except plain counters, each with its static counterpart."""
    static_names = dict(_STATIC_COUNTERPARTS)
    for name, metric in metrics.items():
        if metric.origin != "measured" or name.startswith((_COUNTER, *_SHOWN_ELSEWHERE)):
            continue
        value, unit = _with_unit(metric)
        counterpart = static.get(static_names.get(name, "")) if static is not None else None
        static_text = ""
        if counterpart is not None and counterpart.value is not None:
            static_text = f"static: {view.show(counterpart.value)} {counterpart.unit}".rstrip()
        yield MeasuredRow(name.removeprefix("measured."), value, unit, static_text, metric.note)


def _with_unit(metric: Metric) -> tuple[str, str]:
    """Returns a metric's figure as text and its unit, with a prefix (k, M, G, T) if it has one."""
    value = metric.value
    if metric.unit == "ns" and isinstance(value, int | float):
        number, _, unit = duration(value).partition(" ")
        return number, unit
    if metric.unit == "%" and isinstance(value, float):
        return f"{value:.1f}", "%"
    text = scaled(value)
    number, _, letter = text.partition(" ")
    unit = _UNITS.get(metric.unit, metric.unit)
    return number, f"{letter}{unit}" if letter and "/" not in letter else unit


def counter_rows(kernel: KernelProfile) -> Iterator[tuple[str, str, str]]:
    """Yields hardware counters per dispatch: name, mean, and the range where dispatches differ.

    They are in the units of their metrics, such as cycles where quad cycles were recorded.
    """
    for name, counter in kernel.counters.items():
        shown = number_of(kernel.metrics, f"{_COUNTER}{name}")
        times = shown / counter.mean if shown is not None and counter.mean else 1.0
        value_range = ""
        if counter.count > 1 and counter.least != counter.most:
            value_range = f"{scaled(counter.least * times)} … {scaled(counter.most * times)}"
        yield name, scaled(counter.mean * times), value_range


def main_kernels(profile: Profile) -> list[KernelProfile]:
    """Returns the program's own kernels, without those that an autotuner tried."""
    return [k for k in profile.kernels if k.role == "main"]


def autotune_text(profile: Profile) -> str:
    """Returns a sentence on the specialisations that an autotuner tried; "" if there were none."""
    trials = [kernel for kernel in profile.kernels if kernel.role == "autotune"]
    if not trials:
        return ""
    names = {kernel.name for kernel in trials}
    shares = [share_of_time(kernel) for kernel in trials]
    time = ""
    if all(percent is not None for percent in shares):
        time = f", {sum(percent for percent in shares if percent is not None):.1f} % of the time"
    return (
        f"{view.plural(len(trials), 'specialisation')} of {view.plural(len(names), 'kernel')} "
        f"tried and not kept, as an autotuner does{time}"
    )
