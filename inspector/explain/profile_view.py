"""Puts a profile into words and rows, for its text, Markdown, HTML and terminal views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ..model import KernelReport, Metric, MetricValue
from ..recording import Agent, KernelProfile, KernelShape, Part, Profile, Spread, ThreadTrace
from . import view

UNKNOWN = "-"
_COUNTER = "measured.counter."
_SHOWN_ELSEWHERE = ("measured.dispatches", "measured.share_of_time", "measured.duration.")
"""Prefixes of metrics that the views show in the kernels' table or above the rows."""
_UNITS = {"bytes": "B", "bytes/s": "B/s"}
MAX_NOTE_CHARS = 150
"""Characters of a metric's note that are shown."""
_TIMES = (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0))
_SCALES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
_STATIC_COUNTERPARTS: Sequence[tuple[str, str]] = (
    ("measured.occupancy.waves_per_eu", "occupancy.waves_per_eu"),
    ("measured.mfma_busy", "cycles.mfma"),
    ("measured.lds.conflict_percent", "cycles.lds"),
)
"""(measured metric, the static metric that is shown beside it)."""


class Row(Struct, frozen=True):
    """A measured figure in words, with the static one beside it and where it comes from."""

    name: str
    value: str
    unit: str
    static: str
    note: str


class Sampled(Struct, frozen=True):
    """Samples at one instruction that belongs to no analysed kernel.

    Args:
        kernel: its recorded name.
        instruction: its text or, where that is not recorded, its address.
        comment: what the profiler notes beside it, mostly the source line.
        count: samples.
        share: of all such samples, %.
        reasons: the two most frequent stall reasons, with samples.
    """

    kernel: str
    instruction: str
    comment: str
    count: int
    share: float
    reasons: tuple[tuple[str, int], ...]


def duration(ns: float | None) -> str:
    """A time with a fitting unit: `12.3 us`."""
    if ns is None:
        return UNKNOWN
    for unit, size in _TIMES:
        if abs(ns) >= size:
            return f"{_digits(ns / size)} {unit}"
    return f"{ns:g} ns"


def scaled(number: MetricValue) -> str:
    """A figure as people read it: exact below a million, then with M, G or T."""
    if number is None:
        return UNKNOWN
    if not isinstance(number, int | float) or isinstance(number, bool):
        return view.show(number)
    if abs(number) < 1e6:
        if float(number).is_integer():
            return f"{int(number):,}"
        return _digits(number)
    for letter, size in _SCALES:
        if abs(number) >= size:
            return f"{_digits(number / size)} {letter}"
    return _digits(number)


def _digits(number: float) -> str:
    """Three significant digits; whole numbers from 100 on."""
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def spread(times: Spread | None) -> str:
    """The range of a kernel's times."""
    if times is None:
        return UNKNOWN
    if times.count == 1:
        return "once"
    if times.least == times.most:
        return f"{duration(times.least)} each"
    return f"{duration(times.least)} … {duration(times.most)}"


def share(kernel: KernelProfile, profile: Profile) -> float | None:
    """The kernel's share of the time of all dispatches, %."""
    metric = kernel.metrics.get("measured.share_of_time")
    value = metric.value if metric is not None else None
    return float(value) if isinstance(value, int | float) else None


def launches(kernel: KernelProfile) -> int:
    """How often the program launched it; each pass of counters launches it once more."""
    metric = kernel.metrics.get("measured.dispatches")
    value = metric.value if metric is not None else None
    return value if isinstance(value, int) else kernel.dispatches


def total(kernel: KernelProfile) -> float | None:
    """The time of all its dispatches in one run of the program, ns, warm-ups included.

    Every view takes its totals from here, so that they agree.
    """
    return kernel.total_ns


def timed(kernel: KernelProfile, name: str) -> float | None:
    """The kernel's `median`, `mean`, `min` or `max` time, ns.

    From its dispatches or, where only the profiler's summary was recorded, from that.
    """
    if kernel.duration is not None:
        field = {"min": "least", "max": "most"}.get(name, name)
        return float(getattr(kernel.duration, field))
    metric = kernel.metrics.get(f"measured.duration.{name}")
    value = metric.value if metric is not None else None
    return float(value) if isinstance(value, int | float) else None


def short_name(name: str, limit: int | None) -> str:
    """A kernel's name cut to `most` characters (None: not cut).

    The middle is cut: a library's kernels share a prefix, and the arguments at the end differ.
    """
    if limit is None or len(name) <= limit:
        return name
    end = (limit - 1) // 2
    return f"{name[: limit - 1 - end]}…{name[len(name) - end :]}"


def tool(profile: Profile) -> str:
    """The profiler with its version."""
    profiler = profile.recording.tool
    return " ".join(filter(None, (profiler.get("name", ""), profiler.get("version", ""))))


def agent(device: Agent) -> str:
    """A device in a line: `gfx942 AMD Instinct MI300X, 304 CUs, 8 XCCs, 2100 MHz`."""
    name = " ".join(filter(None, (device.arch, device.product))) or f"agent {device.key}"
    facts = [
        f"{device.cus} CUs" if device.cus else "",
        f"{device.xccs} XCCs" if device.xccs and device.xccs > 1 else "",
        f"{device.clock_mhz} MHz" if device.clock_mhz else "",
    ]
    return ", ".join([name, *filter(None, facts)])


def devices(profile: Profile) -> dict[str, str]:
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


def agents(profile: Profile) -> list[str]:
    """The GPUs that ran kernels, equal ones in one line; all GPUs if none of them is recorded."""
    keys = {k.shape.agent for k in profile.kernels}
    gpus = [a for a in profile.recording.agents if a.kind == "gpu"]
    named = [a for a in gpus if a.key in keys] or gpus
    lines: dict[str, int] = {}
    for device in named:
        lines[agent(device)] = lines.get(agent(device), 0) + 1
    return [f"{n} × {line}" if n > 1 else line for line, n in lines.items()]


def part(recorded: Part) -> str:
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


def triple(size: tuple[int, int, int] | None, product: int | None) -> str:
    """A grid or workgroup size without trailing ones: `1024×1024`.

    Args:
        size: along x, y and z; None if unknown.
        product: the number of work-items, shown where `size` is unknown.
    """
    if size is None:
        return f"{product:,}" if product is not None else UNKNOWN
    sizes = list(size)
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return "×".join(f"{n:,}" for n in sizes)


def workgroups(shape: KernelShape) -> int | None:
    """How many workgroups a dispatch has."""
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


def launch(kernel: KernelProfile) -> str:
    """How it was launched, as recorded: grid, workgroup, registers, LDS, scratch."""
    shape = kernel.shape
    grid = triple(shape.grid, shape.grid_size)
    groups = workgroups(shape)
    # The note says that the recorded SGPR count is a constant, not the kernel's.
    doubted = any("SGPR" in note for note in kernel.notes)
    words = [
        f"grid {grid}" + (f" and {kernel.grids - 1} other" if kernel.grids > 1 else ""),
        f"workgroup {triple(shape.workgroup, shape.workgroup_size)}",
        f"{groups:,} workgroup{'s' if groups != 1 else ''}" if groups is not None else "",
        f"VGPR {shape.vgpr}" if shape.vgpr is not None else "",
        f"AccVGPR {shape.accum_vgpr}" if shape.accum_vgpr else "",
        f"SGPR {shape.sgpr}" if shape.sgpr is not None and not doubted else "",
        f"LDS {view.kib(shape.lds_bytes)}" if shape.lds_bytes is not None else "",
        f"scratch {view.kib(shape.scratch_bytes)}" if shape.scratch_bytes else "",
    ]
    return "  ".join(filter(None, words))


def dispatches(kernel: KernelProfile) -> str:
    """How often it ran and for how long: `4 dispatches, 1 warm-up left out: 51 us at …`."""
    if not kernel.dispatches:
        return "no dispatch recorded"
    count, times = launches(kernel), kernel.duration
    metric = kernel.metrics.get("measured.dispatches")
    note = metric.note if metric is not None and kernel.passes > 1 else ""
    words = [f"{count:,} dispatch{'es' if count != 1 else ''}" + (f" ({note})" if note else "")]
    warmups = kernel.warmups
    if count != kernel.dispatches:
        # The warm-ups are those of all counter passes. Only the number of timed dispatches tells
        # how many of them belong to the program's own.
        warmups = min(warmups, count - times.count) if times is not None else 0
    if warmups:
        words.append(f"{view.plural(warmups, 'warm-up')} left out")
    if times is None:
        mean = timed(kernel, "mean")
        return ", ".join(words) + (f": {duration(mean)} at the mean" if mean is not None else "")
    summary = f"{duration(times.median)} at the median"
    if times.count > 1:
        summary += f", {duration(times.least)} to {duration(times.most)}"
    return f"{', '.join(words)}: {summary}"


def short(note: str) -> str:
    """A metric's note cut to `MAX_NOTE_CHARS` characters; JSON has all of it."""
    return note if len(note) <= MAX_NOTE_CHARS else f"{note[: MAX_NOTE_CHARS - 1]}…"


def trace(recorded: ThreadTrace) -> str:
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


def sampled(profile: Profile, limit: int) -> list[Sampled]:
    """The `most` most sampled instructions that belong to no line of an analysed kernel."""
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
        Sampled(*key, count, 100 * count / total, tuple(reasons[key].most_common(2)))
        for key, count in counts.most_common(limit)
    ]


def matched(kernel: KernelProfile, profile: Profile) -> str:
    """Which analysed kernel a recorded one is, and how surely, or why none is named."""
    match = kernel.match
    names = {report.id: label(report) for report in profile.reports}
    if match.is_decided:
        exact = match.verdict == "exact"
        reason = "the same code object" if exact else "agrees in all that is known"
        return f"{names.get(match.kernels[0], match.kernels[0])} ({reason})"
    if match.verdict == "ambiguous":
        candidates = ", ".join(names.get(kernel_id, kernel_id) for kernel_id in match.kernels[:4])
        omitted = f" and {len(match.kernels) - 4} more" if len(match.kernels) > 4 else ""
        return f"ambiguous, none is chosen: {candidates}{omitted}"
    return "; ".join(match.reasons[:2]) if profile.reports else ""


def label(report: KernelReport) -> str:
    """A kernel's name with its case, which distinguishes its specialisations."""
    variant = report.variant
    if variant is None:
        return report.name
    case = variant.case or ""
    return f"{report.name} [{case}]" if case else report.name


def report_of(kernel: KernelProfile, profile: Profile) -> KernelReport | None:
    """The analysed kernel, where the match is certain or likely."""
    if not kernel.match.is_decided:
        return None
    report_id = kernel.match.kernels[0]
    return next((report for report in profile.reports if report.id == report_id), None)


def rows(metrics: Mapping[str, Metric], static: Mapping[str, Metric] | None) -> Iterator[Row]:
    """The measured metrics except plain counters, each with its static counterpart."""
    static_names = dict(_STATIC_COUNTERPARTS)
    for name, metric in metrics.items():
        if metric.origin != "measured" or name.startswith((_COUNTER, *_SHOWN_ELSEWHERE)):
            continue
        value, unit = _with_unit(metric)
        counterpart = static.get(static_names.get(name, "")) if static is not None else None
        static_text = ""
        if counterpart is not None and counterpart.value is not None:
            static_text = f"static: {view.show(counterpart.value)} {counterpart.unit}".rstrip()
        yield Row(name.removeprefix("measured."), value, unit, static_text, metric.note)


def _with_unit(metric: Metric) -> tuple[str, str]:
    """A metric's figure as text and its unit, with a prefix (k, M, G, T) where it has one."""
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


def counters(kernel: KernelProfile) -> Iterator[tuple[str, str, str]]:
    """Hardware counters per dispatch: name, mean, and the range where dispatches differ."""
    for name, counter in kernel.counters.items():
        value_range = ""
        if counter.count > 1 and counter.least != counter.most:
            value_range = f"{scaled(counter.least)} … {scaled(counter.most)}"
        yield name, scaled(counter.mean), value_range


def main_kernels(profile: Profile) -> list[KernelProfile]:
    """The program's own kernels, without those that an autotuner tried."""
    return [k for k in profile.kernels if k.role == "main"]


def autotuned(profile: Profile) -> str:
    """A sentence on the specialisations that an autotuner tried; "" if there were none."""
    trials = [kernel for kernel in profile.kernels if kernel.role == "autotune"]
    if not trials:
        return ""
    names = {kernel.name for kernel in trials}
    shares = [share(kernel, profile) for kernel in trials]
    time = ""
    if all(percent is not None for percent in shares):
        time = f", {sum(percent for percent in shares if percent is not None):.1f} % of the time"
    return (
        f"{view.plural(len(trials), 'specialisation')} of {view.plural(len(names), 'kernel')} "
        f"tried and not kept, as an autotuner does{time}"
    )
