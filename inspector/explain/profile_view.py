"""Puts a profile into words and rows, for its text, Markdown, HTML and terminal views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ..model import KernelReport, Metric, MetricValue
from ..recording import KernelProfile, KernelShape, Profile, Spread
from . import view

UNKNOWN = "-"
_COUNTER = "measured.counter."
_SHOWN_ELSEWHERE = ("measured.dispatches", "measured.share_of_time", "measured.duration.")
"""Prefixes of metrics that the views show in the kernels' table or above the rows."""
_UNITS = {"bytes": "B", "bytes/s": "B/s"}
MAX_NOTE_CHARS = 150
"""A metric's note is cut to this many characters."""
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
    """The program's launches of a kernel; those repeated for passes of counters do not count."""
    metric = kernel.metrics.get("measured.dispatches")
    value = metric.value if metric is not None else None
    return value if isinstance(value, int) else kernel.dispatches


def total(kernel: KernelProfile) -> float | None:
    """The time of a kernel's dispatches in one run of the program, ns, warm-ups included.

    All views use this function, so that their totals agree.
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
    """The number of workgroups of a dispatch; None if it is unknown."""
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
    """A kernel's launch as recorded: grid, workgroup, registers, LDS, scratch."""
    shape = kernel.shape
    grid = triple(shape.grid, shape.grid_size)
    groups = workgroups(shape)
    words = [
        f"grid {grid}" + (f" and {kernel.grids - 1} other" if kernel.grids > 1 else ""),
        f"workgroup {triple(shape.workgroup, shape.workgroup_size)}",
        f"{groups:,} workgroup{'s' if groups != 1 else ''}" if groups is not None else "",
        f"VGPR {shape.vgpr}" if shape.vgpr is not None else "",
        f"AccVGPR {shape.accum_vgpr}" if shape.accum_vgpr else "",
        f"SGPR {shape.sgpr}" if shape.sgpr is not None else "",
        f"LDS {view.kib(shape.lds_bytes)}" if shape.lds_bytes is not None else "",
        f"scratch {view.kib(shape.scratch_bytes)}" if shape.scratch_bytes else "",
    ]
    return "  ".join(filter(None, words))


def dispatches(kernel: KernelProfile) -> str:
    """A kernel's dispatches and times: `4 dispatches, 1 warm-up left out: 51 us at …`."""
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


def matched(kernel: KernelProfile, profile: Profile) -> str:
    """The analysed kernel that a recorded one matches, with the reason, or why none does."""
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
