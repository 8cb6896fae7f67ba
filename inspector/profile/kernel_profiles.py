"""Makes the profiles of a recording's kernels: their times and metrics, most time first.

Kernels of which no dispatch was recorded: only a summary, samples or thread traces.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..model import Metric
from ..model.recording import (
    Agent,
    KernelMatch,
    KernelProfile,
    KernelShape,
    Recording,
    Spread,
    TopKernel,
)
from .figures import derived, quirks, readings
from .figures.counters import figure
from .figures.grouping import DispatchGroup, group
from .figures.peaks import device
from .figures.readings import Readings, spread

_MOST_PERCENT = 101.0
"""A share above this is impossible. One percent is allowed for counters of one pass that do not
start and stop at the same instant."""
_MOST_MEMORY_PERCENT = 500.0
"""The same for the memory's peak: an Infinity Cache delivers up to about four times as much."""
_AGENT = re.compile(r"^(?:agent\s+)?(?=\d)", re.IGNORECASE)


class RecordedKernels(Struct, frozen=True):
    """The kernels of a recording.

    Args:
        total_ns: GPU time of all kernels, those left out included; None where no times were kept.
    """

    kernels: tuple[KernelProfile, ...]  # those that `only` and `top` leave, most time first
    total_ns: float | None
    left_out: int = 0  # how many kernels `only` and `top` left out
    names: tuple[str, ...] = ()  # the names of all kernels, most time first


def profile(
    recording: Recording,
    *,
    skip_warmup: int = 1,
    only: str | None = None,
    top: int | None = None,
    arch: str | None = None,
) -> tuple[KernelProfile, ...]:
    """Returns the kernels of `analyse`."""
    recorded = analyse(recording, skip_warmup=skip_warmup, only=only, top=top, arch=arch)
    return recorded.kernels


def analyse(
    recording: Recording,
    *,
    skip_warmup: int = 1,
    only: str | None = None,
    top: int | None = None,
    arch: str | None = None,
) -> RecordedKernels:
    """Computes the profile of each specialisation of each kernel.

    `skip_warmup`: how many first dispatches of a specialisation in each process are left out of
    its figures; at least one always counts.
    `only`: a regular expression; kernels whose names it does not match anywhere are left out.
    `top`: how many kernels are kept at most.
    `arch`: the target, where the recording does not name one.

    Raises:
        KinspectError: `only` is not a regular expression.
    """
    pattern = _pattern(only)
    kernels, total_ns = _dispatched(recording, skip_warmup, arch)
    if not kernels:
        kernels = kernels_of_summary(recording.summary)
        total_ns = sum(entry.total_ns for entry in recording.summary)
    kernels += without_dispatches(recording, kernels)
    named = [
        kernel for kernel in _numbered(kernels) if pattern is None or pattern.search(kernel.name)
    ]
    chosen = tuple(named[:top])
    return RecordedKernels(
        kernels=chosen,
        total_ns=float(total_ns) if total_ns else None,
        left_out=len(kernels) - len(chosen),
        names=tuple(dict.fromkeys(kernel.name for kernel in kernels)),
    )


def _dispatched(
    recording: Recording, skip_warmup: int, arch: str | None
) -> tuple[list[KernelProfile], float]:
    """Returns the kernels that were dispatched, most time first, and the time of all, ns."""
    groups = group(recording, skip_warmup)
    readings_of_groups = readings.read(recording, groups)
    # Passes with counters run slower: if there is a trace without counters, its times alone count.
    any_traced = any(values.traced and values.total_ns for values in readings_of_groups)
    total = sum(values.total_ns for values in readings_of_groups if values.traced or not any_traced)
    timed_kernels = [
        (
            values.total_ns,
            _kernel(
                recording,
                specialisation,
                values,
                total_ns=total if values.traced or not any_traced else 0,
                arch=arch,
            ),
        )
        for specialisation, values in zip(groups, readings_of_groups, strict=True)
    ]
    timed_kernels.sort(key=lambda timed: (-timed[0], -timed[1].dispatches))
    return [kernel for _, kernel in timed_kernels], total


def _kernel(
    recording: Recording,
    group: DispatchGroup,
    values: Readings,
    *,
    total_ns: float,
    arch: str | None,
) -> KernelProfile:
    """Returns the profile of a specialisation."""
    shape = _representative(recording, group)
    agent = _agent(recording, shape)
    hardware = device(agent, arch)
    derivation = derived.derive(values, hardware)
    duration = spread(values.durations)
    metrics = {"measured.dispatches": _launches(recording, group, values)}
    if duration is not None:
        metrics |= {metric.name: metric for metric in _times(duration, values, total_ns)}
    metrics |= derivation.metrics
    impossible = [name for name, metric in metrics.items() if is_impossible(metric)]
    return KernelProfile(
        id=shape.name,
        name=shape.name,
        shape=replace(shape, sgpr=quirks.sgprs(shape, hardware.arch)[0]),
        agent=agent,
        dispatches=group.dispatches,
        counted=group.dispatches - group.warmups,
        warmups=group.warmups,
        role="autotune" if group.tried else "main",
        grids=len(_grids(recording, group)),
        duration=duration,
        counters=values.counters,
        metrics={name: _doubted(metric) for name, metric in metrics.items()},
        lines=(),
        match=UNMATCHED,
        notes=(
            *_notes(group, values, shape, hardware.arch, derivation.notes),
            *_impossible_notes(impossible),
        ),
        shapes=tuple(group.shapes),
        total_ns=values.total_ns if duration is not None else None,
        passes=len(group.parts),
    )


def _doubted(metric: Metric) -> Metric:
    """Returns a metric, with a note if it cannot be."""
    if not is_impossible(metric):
        return metric
    return replace(metric, note=f"over 100 %, cannot be: {metric.note}")


def _measured(name: str, value: float, unit: str, note: str) -> Metric:
    return Metric(name=name, value=value, unit=unit, origin="measured", note=note)


def _times(duration: Spread, values: Readings, total_ns: float) -> Iterator[Metric]:
    """Yields the times of a specialisation."""
    note = f"{duration.count:,} dispatches, warm-up left out"
    for statistic, value in (
        ("median", duration.median),
        ("mean", duration.mean),
        ("min", duration.least),
        ("max", duration.most),
    ):
        yield _measured(f"measured.duration.{statistic}", value, "ns", note)
    yield _measured("measured.duration.total", values.total_ns, "ns", _total_note(values))
    if total_ns:
        share = 100 * values.total_ns / total_ns
        note = f"100 · {figure(values.total_ns)} / {figure(total_ns)} ns, warm-up included"
        yield _measured("measured.share_of_time", share, "%", note)


def _total_note(values: Readings) -> str:
    note = "of all its dispatches, warm-up included"
    runs = len(values.replays)
    return f"{note}: the mean of {runs} runs of the program" if runs > 1 else note


def _launches(recording: Recording, group: DispatchGroup, values: Readings) -> Metric:
    """Returns how often a run of the program launched it.

    A program that is run once for each pass of counters launches it in each.
    """
    rows: Counter[int] = Counter()
    for lane in group.lanes:
        rows[lane.part] += len(lane.rows)
    count = max((sum(rows[number] for number in run) for run in values.replays), default=0)
    passes = len(group.parts)
    note = ""
    if passes > 1:
        if not len(values.durations) and all(recording.parts[part].repeats_run for part in rows):
            count = max(rows.values())
        note = f"in {passes} passes"
        if count != group.dispatches:
            note = f"{group.dispatches:,} in all {passes} passes"
    return _measured("measured.dispatches", count, "count", note)


def is_impossible(metric: Metric) -> bool:
    """Tells whether a metric is a share of over 100 %, which cannot be.

    The share of the memory's peak can be, to a point: caches behind L2 serve bytes as well.
    Counters that are percentages are the profiler's own figures, which are not judged.
    """
    value = metric.value
    if metric.unit != "%" or metric.name.startswith("measured.counter."):
        return False
    is_memory = metric.name == "measured.share.memory"
    most = _MOST_MEMORY_PERCENT if is_memory else _MOST_PERCENT
    return isinstance(value, int | float) and value > most


def _impossible_notes(impossible: Sequence[str]) -> list[str]:
    if not impossible:
        return []
    names = ", ".join(name.removeprefix("measured.") for name in impossible)
    return [
        f"over 100 %, which cannot be: {names}; its operands do not fit together (counted in "
        "different runs, or the device is not as described): take it as unknown"
    ]


def _notes(
    group: DispatchGroup,
    values: Readings,
    shape: KernelShape,
    arch: str | None,
    further: Sequence[str],
) -> list[str]:
    """Returns the notes of a specialisation: on warm-up, readings and registers, then `further`."""
    notes = list(group.notes)
    if group.warmups:
        warmups_per_process = max(len(lane.warmups) for lane in group.lanes)
        first_dispatches = (
            "the first dispatch"
            if warmups_per_process == 1
            else f"the first {warmups_per_process} dispatches"
        )
        in_passes = " of all passes" if len(group.parts) > 1 else ""
        notes.append(
            f"warm-up: {first_dispatches} in each process, {group.warmups} left out of the figures"
            f"{in_passes}"
        )
    notes += values.notes
    notes += quirks.registers(shape, arch).notes
    _, note = quirks.sgprs(shape, arch)
    if note:
        notes.append(note)
    notes += further
    return notes


def _representative(recording: Recording, group: DispatchGroup) -> KernelShape:
    """Returns the shape of the group with the fewest unknown fields."""
    shapes = [recording.shapes[number] for number in group.shapes]
    return min(shapes, key=lambda shape: sum(value is None for value in _optional_fields(shape)))


def _optional_fields(shape: KernelShape) -> tuple[object, ...]:
    return (
        shape.workgroup,
        shape.grid,
        shape.lds_bytes,
        shape.scratch_bytes,
        shape.vgpr,
        shape.accum_vgpr,
        shape.code_object,
    )


def _grids(recording: Recording, group: DispatchGroup) -> set[object]:
    """Returns the different grids: in three dimensions if all are known, else by work-items."""
    shapes = [recording.shapes[number] for number in group.shapes]
    if all(shape.grid is not None for shape in shapes):
        return {shape.grid for shape in shapes}
    sizes: set[object] = set()
    for shape in shapes:
        size = shape.grid_size
        if size is None and shape.grid is not None:
            size = math.prod(shape.grid)
        if size is not None:
            sizes.add(size)
    return sizes


def _agent(recording: Recording, shape: KernelShape) -> Agent | None:
    """Returns the agent that a shape names; the only GPU if it names none."""
    devices = [agent for agent in recording.agents if agent.kind == "gpu"]
    if shape.agent is None:
        return devices[0] if len(devices) == 1 else None
    key = _AGENT.sub("", shape.agent)
    return next((agent for agent in devices if _AGENT.sub("", agent.key) == key), None)


def _numbered(kernels: Sequence[KernelProfile]) -> list[KernelProfile]:
    """Gives the kernels ids: `name#1` is the specialisation of that name that took most time."""
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


UNMATCHED = KernelMatch("none", (), ("not compared with analysed kernels",))
"""The match of a kernel before it is compared with analysed ones."""


def kernels_of_summary(summary: Sequence[TopKernel]) -> list[KernelProfile]:
    """Returns the kernels of a profiler's own summary, for a recording without dispatches."""
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
            name: Metric(name=name, value=value, unit=unit, origin="measured", note=note)
            for name, (value, unit) in figures.items()
            if value is not None
        }
        notes = ("only the profiler's summary was recorded, no dispatches: warm-up is in it",)
        kernel = _plain_kernel(KernelShape(entry.name, entry.agent), entry.calls, metrics, notes)
        kernels.append(replace(kernel, total_ns=float(entry.total_ns)))
    return kernels


def without_dispatches(
    recording: Recording, dispatched: Sequence[KernelProfile]
) -> list[KernelProfile]:
    """Returns the kernels of which only samples or thread traces were recorded."""
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
        replace(_plain_kernel(shape, 0, {}, (note,)), shapes=tuple(numbers.get(name, ())))
        for name, shape in shapes.items()
        if name not in names
    ]


def _plain_kernel(
    shape: KernelShape, dispatches: int, metrics: dict[str, Metric], notes: tuple[str, ...]
) -> KernelProfile:
    """Returns a kernel without figures of dispatches."""
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
        match=UNMATCHED,
        notes=notes,
    )
