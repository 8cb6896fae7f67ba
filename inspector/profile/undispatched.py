"""Kernels of which no dispatch was recorded: only a summary, samples or thread traces."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ..model import Metric
from ..model.recording import KernelMatch, KernelProfile, KernelShape, Recording, TopKernel

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
