"""Puts a profile's recording and kernels into words and rows, for text, HTML and terminal views.

`quantities` has the form of the numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ..model import KernelReport, Metric, int_of, number_of
from ..model.recording import (
    Agent,
    CodePlace,
    KernelProfile,
    KernelShape,
    Part,
    Profile,
    Spread,
    ThreadTrace,
)
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


class UnplacedSample(Struct, frozen=True):
    """Samples at one instruction that belongs to no analysed kernel.

    Args:
        instruction: its text or, where that is not recorded, its address.
        share: of all such samples, %.
        reasons: the two most frequent stall reasons, with samples.
    """

    kernel: str
    instruction: str
    comment: str
    count: int
    share: float
    reasons: tuple[tuple[str, int], ...]


class UnplacedStall(Struct, frozen=True):
    """What a traced instruction cost that is on no line of code.

    Args:
        address: in its code object, hexadecimal; "" where it is not recorded.
        cycles: that they stalled at it.
        share: of the kernel's stalls, %.
    """

    kernel: str
    address: str
    instruction: str
    comment: str
    hits: int
    cycles: int
    share: float


def profiler_text(profile: Profile) -> str:
    """The profiler with its version."""
    profiler = profile.recording.tool
    return " ".join(filter(None, (profiler.get("name", ""), profiler.get("version", ""))))


def device_text(device: Agent) -> str:
    """A device in a line: `gfx942 AMD Instinct MI300X, 304 CUs, 8 XCCs, 2100 MHz`."""
    name = " ".join(filter(None, (device.arch, device.product))) or f"agent {device.key}"
    facts = [
        f"{device.cus} CUs" if device.cus else "",
        f"{device.xccs} XCCs" if device.xccs and device.xccs > 1 else "",
        f"{device.clock_mhz} MHz" if device.clock_mhz else "",
    ]
    return ", ".join([name, *filter(None, facts)])


def device_names(profile: Profile) -> dict[str, str]:
    """Key -> name of each device that ran kernels; empty where there was only one."""
    keys = dict.fromkeys(k.shape.agent for k in profile.kernels if k.shape.agent is not None)
    if len(keys) < 2:
        return {}
    by_key = {device.key: device for device in profile.recording.agents}
    archs = {by_key[key].arch for key in keys if key in by_key}
    labels = {}
    for key in keys:
        arch = by_key[key].arch if key in by_key else None
        name = key if key.startswith("device") else f"device {key}"
        labels[key] = f"{name} ({arch})" if arch and len(archs) > 1 else name
    return labels


def gpu_texts(profile: Profile) -> list[str]:
    """The GPUs that ran kernels, equal ones in one line; all GPUs if none of them is recorded."""
    keys = {k.shape.agent for k in profile.kernels}
    gpus = [a for a in profile.recording.agents if a.kind == "gpu"]
    named = [a for a in gpus if a.key in keys] or gpus
    lines: dict[str, int] = {}
    for device in named:
        lines[device_text(device)] = lines.get(device_text(device), 0) + 1
    return [f"{n} × {line}" if n > 1 else line for line, n in lines.items()]


def part_text(recorded: Part) -> str:
    """A pass, trace or file of the recording, with its status unless it is complete."""
    words = [recorded.name or recorded.format]
    if recorded.name and recorded.format:
        words.append(f"({recorded.format})")
    if recorded.counters:
        words.append(f"{view.plural(len(recorded.counters), 'counter')}")
    if recorded.status not in ("complete", "imported"):
        code = f", exit code {recorded.exit_code}" if recorded.exit_code else ""
        words.append(f"{recorded.status}{code}")
    return " ".join(words)


def trace_text(recorded: ThreadTrace) -> str:
    """A thread trace in a line."""
    words = [
        f"of dispatch {recorded.dispatch}" if recorded.dispatch is not None else "",
        recorded.kernel or "",
        f"{len(recorded.waves):,} waves" if recorded.waves else "",
        f"at most {view.plural(recorded.peak_waves_per_cu, 'wave')} in a CU at a time"
        if recorded.peak_waves_per_cu is not None
        else "",
        f"{recorded.clock_mhz:,.0f} MHz" if recorded.clock_mhz is not None else "",
    ]
    return ", ".join(["thread trace", *filter(None, words)])


def unplaced_samples(profile: Profile, limit: int) -> list[UnplacedSample]:
    """The most sampled instructions, up to `limit`, that are in no line of an analysed kernel."""
    placed_shapes = {
        number for kernel in profile.kernels if kernel.lines for number in kernel.shapes
    }
    shapes = profile.recording.shapes
    reasons: dict[tuple[str, str, str], Counter[str]] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    total = 0
    for sample in profile.recording.samples:
        location = sample.place
        if location.shape is not None and location.shape in placed_shapes:
            continue
        total += sample.count
        kernel = shapes[location.shape].name if location.shape is not None else ""
        address = f"address {location.offset:#x}" if location.offset is not None else ""
        key = (kernel, location.text or address, location.comment or "")
        counts[key] += sample.count
        reasons.setdefault(key, Counter()).update(sample.reasons)
    return [
        UnplacedSample(*key, count, 100 * count / total, tuple(reasons[key].most_common(2)))
        for key, count in counts.most_common(limit)
    ]


def unplaced_stalls(profile: Profile, limit: int) -> list[UnplacedStall]:
    """For each kernel with a trace that is on no line, the instructions that stalled most."""
    shapes = profile.recording.shapes
    unplaced = {kernel.name: Counter[CodePlace]() for kernel in profile.kernels if not kernel.lines}
    hits: Counter[CodePlace] = Counter()
    for trace in profile.recording.traces:
        for line in trace.lines:
            shape = line.place.shape
            name = shapes[shape].name if shape is not None else trace.kernel or ""
            if name in unplaced:
                unplaced[name][line.place] += line.stall
                hits[line.place] += line.hits
    return [
        UnplacedStall(
            kernel=name,
            address=f"{place.offset:#x}" if place.offset is not None else "",
            instruction=place.text or "",
            comment=place.comment or "",
            hits=hits[place],
            cycles=cycles,
            share=100 * cycles / stalls.total(),
        )
        for name, stalls in unplaced.items()
        for place, cycles in stalls.most_common(limit)
        if cycles
    ]
