"""From a recording to what was measured of each kernel, most time first."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ..errors import KinspectError
from ..model import KernelReport, Metric, int_of, number_of
from ..recording import Agent, CodeObject, KernelProfile, KernelShape, Match, Recording, TopKernel
from . import join
from .figures import derived, quirks, readings
from .figures.counters import figure
from .figures.grouping import Group, group
from .figures.peaks import device
from .figures.readings import Readings
from .figures.spreads import spread

_UNMATCHED = Match("none", (), ("not compared with analysed kernels",))
_REPEATED = "rocprof-compute workload"
"""Each part of which is a run of the same program; other parts may be processes of one run."""
_MOST_PERCENT = 101.0
"""Of a share; operands of one pass that begin and end a little apart make up the last one."""
_AGENT = re.compile(r"^(?:agent\s+)?(?=\d)", re.IGNORECASE)


class Analysis(Struct, frozen=True):
    """The kernels of a recording. `total_ns` is of all of them, those left out included."""

    kernels: tuple[KernelProfile, ...]
    total_ns: float | None
    left_out: int = 0  # by `only` and `top`
    names: tuple[str, ...] = ()  # of all of them, most time first


def profile(
    recording: Recording,
    *,
    skip_warmup: int = 1,
    only: str | None = None,
    top: int | None = None,
    arch: str | None = None,
) -> tuple[KernelProfile, ...]:
    """The kernels of `analyse`."""
    analysis = analyse(recording, skip_warmup=skip_warmup, only=only, top=top, arch=arch)
    return analysis.kernels


def analyse(
    recording: Recording,
    *,
    skip_warmup: int = 1,
    only: str | None = None,
    top: int | None = None,
    arch: str | None = None,
) -> Analysis:
    """What was measured of each kernel, in each specialisation.

    Args:
        recording: as it was read.
        skip_warmup: how many first dispatches of a specialisation in each process are left out of
            its figures; at least one always counts.
        only: kernels whose name has this regular expression in it.
        top: so many of them at most.
        arch: the target, where the recording does not say.

    Raises:
        KinspectError: `only` is not a regular expression.
    """
    pattern = _pattern(only)
    groups = group(recording, skip_warmup)
    read = readings.read(recording, groups)
    # Times of a pass with counters and of one without do not add up to a whole.
    traced = any(values.traced and values.total_ns for values in read)
    base = [values.total_ns for values in read if values.traced or not traced]
    total = sum(base)
    kernels = [
        _kernel(
            recording, specialisation, values, total if values.traced or not traced else 0, arch
        )
        for specialisation, values in zip(groups, read, strict=True)
    ]
    times = [values.total_ns for values in read]
    order = sorted(range(len(kernels)), key=lambda k: (-times[k], -kernels[k].dispatches))
    kernels = [kernels[k] for k in order]
    if not kernels:
        kernels = _summarised(recording.summary)
        total = sum(entry.total_ns for entry in recording.summary)
    kernels += _undispatched(recording, kernels)
    named = [
        kernel for kernel in _numbered(kernels) if pattern is None or pattern.search(kernel.name)
    ]
    chosen = tuple(named[:top])
    names = tuple(dict.fromkeys(kernel.name for kernel in kernels))
    return Analysis(chosen, float(total) if total else None, len(kernels) - len(chosen), names)


def joined(
    kernels: Sequence[KernelProfile],
    reports: Sequence[KernelReport],
    code_objects: Sequence[CodeObject] = (),
) -> tuple[tuple[KernelProfile, ...], tuple[KernelReport, ...]]:
    """Says which analysed kernel each measured one is, and adds the measured metrics to it.

    Args:
        kernels: as measured.
        reports: as analysed.
        code_objects: those of the recording.

    Returns:
        The kernels with their match, and the reports with what was measured of each; where several
        measured kernels are one analysed one (two devices), the one that took most time counts.
    """
    hashes = join.hashes(code_objects)
    matched = tuple(
        replace(kernel, match=join.match(kernel, reports, hashes)) for kernel in kernels
    )
    measured: dict[str, list[KernelProfile]] = {}
    for kernel in matched:
        if kernel.match.is_decided:
            measured.setdefault(kernel.match.kernels[0], []).append(kernel)
    return matched, tuple(_measured(report, measured.get(report.id, [])) for report in reports)


def _measured(report: KernelReport, kernels: Sequence[KernelProfile]) -> KernelReport:
    if not kernels:
        return report
    notes = report.notes
    if len(kernels) > 1:
        other_ids = ", ".join(one.id for one in kernels[1:])
        notes = (*notes, f"measured as {kernels[0].id}; {other_ids} may be this kernel as well")
    share = {metric.name: metric for metric in _bound_share(report, kernels[0])}
    return replace(report, metrics={**report.metrics, **kernels[0].metrics, **share}, notes=notes)


def _bound_share(report: KernelReport, kernel: KernelProfile) -> Iterator[Metric]:
    """How near its fastest dispatch came to the least time of the launch that was analysed.

    A dispatch with as many workgroups is taken for the same launch; its sizes may still differ.
    """
    least = number_of(report.metrics, "launch.matrix_us")
    workgroups, shape = int_of(report.metrics, "grid.workgroups"), kernel.shape
    if least is None or kernel.duration is None or not kernel.duration.least:
        return
    if shape.grid is None or shape.workgroup is None or not all(shape.workgroup):
        return
    recorded = math.prod(-(-g // w) for g, w in zip(shape.grid, shape.workgroup, strict=True))
    if recorded != workgroups:
        return
    share = round(100 * least * 1e3 / kernel.duration.least, 1)
    note = f"{least:g} µs of the fastest dispatch's {kernel.duration.least / 1e3:.4g} µs"
    if share > 100:
        note = f"over 100 %, cannot be if the arguments were the captured ones: {note}"
    yield Metric("measured.bound_share", share, "%", "measured", note)


def _kernel(
    recording: Recording, group: Group, values: Readings, total: float, arch: str | None
) -> KernelProfile:
    shape = _representative(recording, group)
    agent = _agent(recording, shape)
    hardware = device(agent, arch)
    derivation = derived.derive(values, hardware)
    duration = spread(values.durations)
    metrics: dict[str, Metric] = {}
    counted = group.dispatches - group.warmups

    def add(name: str, value: float, unit: str, note: str = "") -> None:
        metrics[name] = Metric(name, value, unit, "measured", note)

    add("measured.dispatches", *_launched(recording, group, values))
    if duration is not None:
        note = f"{duration.count:,} dispatches, warm-up left out"
        for name in ("median", "mean", "least", "most"):
            label = {"least": "min", "most": "max"}.get(name, name)
            add(f"measured.duration.{label}", getattr(duration, name), "ns", note)
        add("measured.duration.total", values.total_ns, "ns", _total_note(values))
        if total:
            share = 100 * values.total_ns / total
            note = f"100 · {figure(values.total_ns)} / {figure(total)} ns, warm-up included"
            add("measured.share_of_time", share, "%", note)
    metrics.update(derivation.metrics)
    impossible = [name for name, metric in metrics.items() if is_impossible(metric)]
    for name in impossible:
        doubted = metrics[name]
        metrics[name] = replace(doubted, note=f"over 100 %, cannot be: {doubted.note}")
    return KernelProfile(
        id=shape.name,
        name=shape.name,
        shape=shape,
        agent=agent,
        dispatches=group.dispatches,
        counted=counted,
        warmups=group.warmups,
        role="autotune" if group.tried else "main",
        grids=len(_grids(recording, group)),
        duration=duration,
        counters=values.counters,
        metrics=metrics,
        lines=(),
        match=_UNMATCHED,
        notes=(
            *_notes(group, values, shape, hardware.arch, derivation.notes),
            *_doubts(impossible),
        ),
        shapes=tuple(group.shapes),
        total_ns=values.total_ns if duration is not None else None,
        passes=len(group.parts),
    )


def _total_note(values: Readings) -> str:
    note = "of all its dispatches, warm-up included"
    runs = len(values.replays)
    return f"{note}: the mean of {runs} runs of the program" if runs > 1 else note


def _launched(recording: Recording, group: Group, values: Readings) -> tuple[int, str, str]:
    """How often the program launched it: in the passes that times are of, not once more in each."""
    rows: Counter[int] = Counter()
    for lane in group.lanes:
        rows[lane.part] += len(lane.rows)
    count = max((sum(rows[part] for part in run) for run in values.replays), default=0)
    passes = len(group.parts)
    if passes == 1:
        return count, "count", ""
    if not values.durations and all(recording.parts[n].format == _REPEATED for n in rows):
        count = max(rows.values())
    if count == group.dispatches:
        return count, "count", f"in {passes} passes"
    return count, "count", f"{group.dispatches:,} in all {passes} passes"


def is_impossible(metric: Metric) -> bool:
    """Whether it is a share of over 100 %.

    Caches beyond L2 serve bytes too: of the memory's peak alone more can be reached.
    """
    value = metric.value
    recorded = metric.name.startswith("measured.counter.")
    if metric.unit != "%" or recorded or metric.name == "measured.share.memory":
        return False
    return isinstance(value, int | float) and value > _MOST_PERCENT


def _doubts(impossible: Sequence[str]) -> list[str]:
    if not impossible:
        return []
    names = ", ".join(name.removeprefix("measured.") for name in impossible)
    return [
        f"over 100 %, which cannot be: {names}; its operands do not fit together (counted in "
        "different runs, or the device is not as described): take it as unknown"
    ]


def _notes(
    group: Group, values: Readings, shape: KernelShape, arch: str | None, further: Sequence[str]
) -> list[str]:
    notes = list(group.notes)
    if group.warmups:
        each = max(len(lane.warmups) for lane in group.lanes)
        first_ones = "the first dispatch" if each == 1 else f"the first {each} dispatches"
        whole = " of all passes" if len(group.parts) > 1 else ""
        notes.append(
            f"warm-up: {first_ones} in each process, {group.warmups} left out of the figures{whole}"
        )
    notes += values.notes
    notes += quirks.registers(shape, arch).notes
    _, note = quirks.sgprs(shape, arch)
    if note:
        notes.append(note)
    notes += further
    return notes


def _representative(recording: Recording, group: Group) -> KernelShape:
    """Of the shapes, the one that most is known of."""
    shapes = [recording.shapes[number] for number in group.shapes]
    return min(shapes, key=lambda shape: sum(value is None for value in _fields(shape)))


def _fields(shape: KernelShape) -> tuple[object, ...]:
    return (
        shape.workgroup,
        shape.grid,
        shape.lds_bytes,
        shape.scratch_bytes,
        shape.vgpr,
        shape.accum_vgpr,
        shape.code_object,
    )


def _grids(recording: Recording, group: Group) -> set[object]:
    """Different grids: in three dimensions where all are known so, else by their size."""
    shapes = [recording.shapes[number] for number in group.shapes]
    if all(shape.grid is not None for shape in shapes):
        return {shape.grid for shape in shapes}
    sizes = set()
    for shape in shapes:
        size = shape.grid_size
        if size is None and shape.grid is not None:
            x, y, z = shape.grid
            size = x * y * z
        if size is not None:
            sizes.add(size)
    return set(sizes)


def _agent(recording: Recording, shape: KernelShape) -> Agent | None:
    """The agent that a shape names; the only GPU where it names none."""
    devices = [agent for agent in recording.agents if agent.kind == "gpu"]
    if shape.agent is None:
        return devices[0] if len(devices) == 1 else None
    key = _AGENT.sub("", shape.agent)
    return next((agent for agent in devices if _AGENT.sub("", agent.key) == key), None)


def _summarised(summary: Sequence[TopKernel]) -> list[KernelProfile]:
    """Kernels of a profiler's own summary, where it kept no dispatches."""
    total = sum(entry.total_ns for entry in summary)
    kernels = []
    for entry in sorted(summary, key=lambda entry: -entry.total_ns):
        figures = {
            "measured.dispatches": (entry.calls, "count"),
            "measured.duration.mean": (entry.mean_ns, "ns"),
            "measured.duration.min": (entry.min_ns, "ns"),
            "measured.duration.max": (entry.max_ns, "ns"),
            "measured.duration.total": (entry.total_ns, "ns"),
            "measured.share_of_time": (100 * entry.total_ns / total if total else None, "%"),
        }
        note = "the profiler's own summary, warm-up included"
        metrics = {
            name: Metric(name, value, unit, "measured", note)
            for name, (value, unit) in figures.items()
            if value is not None
        }
        notes = ("only the profiler's summary was recorded, no dispatches: warm-up is in it",)
        bare = _bare(KernelShape(entry.name, entry.agent), entry.calls, metrics, notes)
        kernels.append(replace(bare, total_ns=float(entry.total_ns)))
    return kernels


def _undispatched(recording: Recording, dispatched: Sequence[KernelProfile]) -> list[KernelProfile]:
    """Kernels that only samples or traces speak of."""
    names = {kernel.name for kernel in dispatched}
    shapes: dict[str, KernelShape] = {}
    numbers: dict[str, dict[int, None]] = {}
    places = [sample.place for sample in recording.samples]
    places += [line.place for trace in recording.traces for line in trace.lines]
    for place in places:
        if place.shape is not None:
            shape = recording.shapes[place.shape]
            shapes.setdefault(shape.name, shape)
            numbers.setdefault(shape.name, {})[place.shape] = None
    for trace in recording.traces:
        if trace.kernel is not None:
            shapes.setdefault(trace.kernel, KernelShape(trace.kernel, agent=trace.agent))
    note = "no dispatch of it was recorded, only samples or a thread trace"
    return [
        replace(_bare(shape, 0, {}, (note,)), shapes=tuple(numbers.get(name, ())))
        for name, shape in shapes.items()
        if name not in names
    ]


def _bare(
    shape: KernelShape, dispatches: int, metrics: dict[str, Metric], notes: tuple[str, ...]
) -> KernelProfile:
    return KernelProfile(
        id=shape.name,
        name=shape.name,
        shape=shape,
        agent=None,
        dispatches=dispatches,
        counted=dispatches,
        warmups=0,
        role="main",
        grids=0,
        duration=None,
        counters={},
        metrics=metrics,
        lines=(),
        match=_UNMATCHED,
        notes=notes,
    )


def _numbered(kernels: Sequence[KernelProfile]) -> list[KernelProfile]:
    """With ids: `name#1` is the specialisation of a name that took most time."""
    counts: Counter[str] = Counter()
    numbered = []
    for kernel in kernels:
        counts[kernel.name] += 1
        numbered.append(replace(kernel, id=f"{kernel.name}#{counts[kernel.name]}"))
    return numbered


def _pattern(only: str | None) -> re.Pattern[str] | None:
    if only is None:
        return None
    try:
        return re.compile(only)
    except re.error as error:
        raise KinspectError(
            f"'{only}' is not a regular expression: {error}", "escape its special characters"
        ) from None
