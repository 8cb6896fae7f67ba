"""What a profile says in words and rows, shared by its text, Markdown, HTML and terminal views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ..model import KernelReport, Metric, MetricValue
from ..recording import Agent, KernelProfile, KernelShape, Part, Profile, Spread, ThreadTrace
from . import view

UNKNOWN = "-"
_COUNTER = "measured.counter."
_ELSEWHERE = ("measured.dispatches", "measured.share_of_time", "measured.duration.")
"""What stands in the table and above the rows already."""
_UNITS = {"bytes": "B", "bytes/s": "B/s"}
MOST_NOTE = 150
_TIMES = (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0))
_SCALES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
_BESIDE: Sequence[tuple[str, str]] = (
    ("measured.occupancy.waves_per_eu", "occupancy.waves_per_eu"),
    ("measured.mfma_busy", "cycles.mfma"),
    ("measured.lds.conflict_percent", "cycles.lds"),
)
"""A measured metric and the static one that it stands beside."""


class Row(Struct, frozen=True):
    """A measured figure in words, with the static one beside it and where it comes from."""

    name: str
    value: str
    unit: str
    static: str
    note: str


class Sampled(Struct, frozen=True):
    """Samples at one instruction of no analysed kernel. `share` is of all such samples, %."""

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
    """Three digits that say something, none after a hundred."""
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def spread(found: Spread | None) -> str:
    """Least to most of a time."""
    if found is None:
        return UNKNOWN
    if found.count == 1:
        return "once"
    if found.least == found.most:
        return f"{duration(found.least)} each"
    return f"{duration(found.least)} … {duration(found.most)}"


def share(kernel: KernelProfile, profile: Profile) -> float | None:
    """The kernel's part of the time of all dispatches, %."""
    metric = kernel.metrics.get("measured.share_of_time")
    value = metric.value if metric is not None else None
    return float(value) if isinstance(value, int | float) else None


def launches(kernel: KernelProfile) -> int:
    """How often the program launched it; each pass of counters launches it once more."""
    metric = kernel.metrics.get("measured.dispatches")
    value = metric.value if metric is not None else None
    return value if isinstance(value, int) else kernel.dispatches


def total(kernel: KernelProfile) -> float | None:
    """The time of all its dispatches in one run of the program, ns, warm-up included.

    Every view and file has its totals from here.
    """
    return kernel.total_ns


def timed(kernel: KernelProfile, name: str) -> float | None:
    """Its `median`, `mean`, `min` or `max` time, ns; from a profiler's summary as well."""
    if kernel.duration is not None:
        label = {"min": "least", "max": "most"}.get(name, name)
        return float(getattr(kernel.duration, label))
    metric = kernel.metrics.get(f"measured.duration.{name}")
    value = metric.value if metric is not None else None
    return float(value) if isinstance(value, int | float) else None


def short_name(name: str, most: int | None) -> str:
    """A kernel's name in so many characters, cut in its middle; None: whole.

    Names of one library begin alike, and end in the arguments that tell them apart.
    """
    if most is None or len(name) <= most:
        return name
    end = (most - 1) // 2
    return f"{name[: most - 1 - end]}…{name[len(name) - end :]}"


def tool(profile: Profile) -> str:
    """The profiler with its version."""
    found = profile.recording.tool
    return " ".join(filter(None, (found.get("name", ""), found.get("version", ""))))


def agent(found: Agent) -> str:
    """A device in a line: `gfx942 AMD Instinct MI300X, 304 CUs, 8 XCCs, 2100 MHz`."""
    name = " ".join(filter(None, (found.arch, found.product))) or f"agent {found.key}"
    facts = [
        f"{found.cus} CUs" if found.cus else "",
        f"{found.xccs} XCCs" if found.xccs and found.xccs > 1 else "",
        f"{found.clock_mhz} MHz" if found.clock_mhz else "",
    ]
    return ", ".join([name, *filter(None, facts)])


def devices(profile: Profile) -> dict[str, str]:
    """What to call each device that ran kernels, by its key, where they were several."""
    used = dict.fromkeys(k.shape.agent for k in profile.kernels if k.shape.agent is not None)
    if len(used) < 2:
        return {}
    known = {one.key: one for one in profile.recording.agents}
    archs = {known[key].arch for key in used if key in known}
    found = {}
    for key in used:
        arch = known[key].arch if key in known else None
        name = key if key.startswith("device") else f"device {key}"
        found[key] = f"{name} ({arch})" if arch and len(archs) > 1 else name
    return found


def agents(profile: Profile) -> list[str]:
    """The devices that ran something; all GPUs where that is not known. Equal ones once."""
    used = {k.shape.agent for k in profile.kernels}
    gpus = [a for a in profile.recording.agents if a.kind == "gpu"]
    named = [a for a in gpus if a.key in used] or gpus
    lines: dict[str, int] = {}
    for one in named:
        lines[agent(one)] = lines.get(agent(one), 0) + 1
    return [f"{n} × {line}" if n > 1 else line for line, n in lines.items()]


def part(one: Part) -> str:
    """A pass, trace or file of the recording, with what became of it."""
    words = [one.name or one.format]
    if one.name and one.format:
        words.append(f"({one.format})")
    if one.counters:
        words.append(f"{view.plural(len(one.counters), 'counter')}")
    if one.status not in ("complete", "imported"):
        code = f", exit code {one.exit_code}" if one.exit_code else ""
        words.append(f"{one.status}{code}")
    return " ".join(words)


def triple(size: tuple[int, int, int] | None, whole: int | None) -> str:
    """A grid or workgroup without trailing ones: `1024×1024`."""
    if size is None:
        return f"{whole:,}" if whole is not None else UNKNOWN
    kept = list(size)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "×".join(f"{n:,}" for n in kept)


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
    doubted = any("SGPR" in note for note in kernel.notes)  # a constant, says the note
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
    """How often it ran, and how long that took: `4 dispatches, 1 warm-up left out: 51 us, …`."""
    if not kernel.dispatches:
        return "no dispatch recorded"
    count, found = launches(kernel), kernel.duration
    metric = kernel.metrics.get("measured.dispatches")
    apart = metric.note if metric is not None and kernel.passes > 1 else ""
    words = [f"{count:,} dispatch{'es' if count != 1 else ''}" + (f" ({apart})" if apart else "")]
    warm = kernel.warmups
    if count != kernel.dispatches:  # how many of all warm-ups these are, only times tell
        warm = min(warm, count - found.count) if found is not None else 0
    if warm:
        words.append(f"{view.plural(warm, 'warm-up')} left out")
    if found is None:
        mean = timed(kernel, "mean")
        return ", ".join(words) + (f": {duration(mean)} at the mean" if mean is not None else "")
    times = f"{duration(found.median)} at the median"
    if found.count > 1:
        times += f", {duration(found.least)} to {duration(found.most)}"
    return f"{', '.join(words)}: {times}"


def short(note: str) -> str:
    """A formula that fits a line or two; JSON has it whole."""
    return note if len(note) <= MOST_NOTE else f"{note[: MOST_NOTE - 1]}…"


def trace(found: ThreadTrace) -> str:
    """A thread trace in a line."""
    words = [
        f"of dispatch {found.dispatch}" if found.dispatch is not None else "",
        found.kernel or "",
        f"{len(found.waves):,} waves" if found.waves else "",
        f"at most {view.plural(found.peak_waves_per_cu, 'wave')} in a CU at a time"
        if found.peak_waves_per_cu is not None
        else "",
        f"{found.clock_mhz:,.0f} MHz" if found.clock_mhz is not None else "",
    ]
    return ", ".join(["thread trace", *filter(None, words)])


def sampled(profile: Profile, most: int) -> list[Sampled]:
    """Samples that stand on no line of an analysed kernel, by instruction, most first."""
    landed = {number for kernel in profile.kernels if kernel.lines for number in kernel.shapes}
    shapes = profile.recording.shapes
    found: dict[tuple[str, str, str], Counter[str]] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    total = 0
    for one in profile.recording.samples:
        place = one.place
        if place.shape is not None and place.shape in landed:
            continue
        total += one.count
        kernel = shapes[place.shape].name if place.shape is not None else ""
        where = place.text or (f"address {place.offset:#x}" if place.offset is not None else "")
        key = (kernel, where, place.comment or "")
        counts[key] += one.count
        found.setdefault(key, Counter()).update(one.reasons)
    return [
        Sampled(*key, count, 100 * count / total, tuple(found[key].most_common(2)))
        for key, count in counts.most_common(most)
    ]


def matched(kernel: KernelProfile, profile: Profile) -> str:
    """Which analysed kernel it is, or why none is named."""
    match = kernel.match
    names = {report.id: label(report) for report in profile.reports}
    if match.verdict in ("exact", "likely"):
        how = "the same code object" if match.verdict == "exact" else "agrees in all that is known"
        return f"{names.get(match.kernels[0], match.kernels[0])} ({how})"
    if match.verdict == "ambiguous":
        found = ", ".join(names.get(one, one) for one in match.kernels[:4])
        more = f" and {len(match.kernels) - 4} more" if len(match.kernels) > 4 else ""
        return f"ambiguous, none is chosen: {found}{more}"
    return "; ".join(match.reasons[:2]) if profile.reports else ""


def label(report: KernelReport) -> str:
    """A kernel by name, with what tells it from its other specialisations."""
    variant = report.variant
    if variant is None:
        return report.name
    case = variant.case or ""
    return f"{report.name} [{case}]" if case else report.name


def report_of(kernel: KernelProfile, profile: Profile) -> KernelReport | None:
    """The analysed kernel, where the match is certain or likely."""
    if kernel.match.verdict not in ("exact", "likely"):
        return None
    wanted = kernel.match.kernels[0]
    return next((report for report in profile.reports if report.id == wanted), None)


def rows(metrics: Mapping[str, Metric], static: Mapping[str, Metric] | None) -> Iterator[Row]:
    """Measured metrics that are not plain counters, each with its static counterpart."""
    beside = dict(_BESIDE)
    for name, metric in metrics.items():
        if metric.origin != "measured" or name.startswith((_COUNTER, *_ELSEWHERE)):
            continue
        value, unit = _with_unit(metric)
        other = static.get(beside[name]) if static is not None and name in beside else None
        said = ""
        if other is not None and other.value is not None:
            said = f"static: {view.show(other.value)} {other.unit}".rstrip()
        yield Row(name.removeprefix("measured."), value, unit, said, metric.note)


def _with_unit(metric: Metric) -> tuple[str, str]:
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
    """Counters per dispatch: name, mean, least to most where they differ."""
    for name, found in kernel.counters.items():
        both = ""
        if found.count > 1 and found.least != found.most:
            both = f"{scaled(found.least)} … {scaled(found.most)}"
        yield name, scaled(found.mean), both


def main_kernels(profile: Profile) -> list[KernelProfile]:
    """Those that the program ran for its own sake, not to choose a configuration."""
    return [k for k in profile.kernels if k.role == "main"]


def autotuned(profile: Profile) -> str:
    """How much an autotuner tried, in a sentence; empty if nothing."""
    tried = [k for k in profile.kernels if k.role == "autotune"]
    if not tried:
        return ""
    names = {k.name for k in tried}
    parts = [share(k, profile) for k in tried]
    time = ""
    if all(one is not None for one in parts):
        time = f", {sum(one for one in parts if one is not None):.1f} % of the time"
    return (
        f"{view.plural(len(tried), 'specialisation')} of {view.plural(len(names), 'kernel')} "
        f"tried and not kept, as an autotuner does{time}"
    )
