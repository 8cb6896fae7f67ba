"""A profile's dispatches as a trace that Perfetto and chrome://tracing open.

The form is Chrome's Trace Event Format (JSON, "X" complete events, microseconds): one process per
device and pass, one track per queue. Passes run the program one after the other, minutes apart, and
imported recordings may be days apart: those that do not overlap in time begin at 0 each. Nothing is
kept in memory: ten million dispatches stream out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO

from ..explain import profile_view, quantities
from ..model.recording import NONE, Dispatches, KernelProfile, KernelShape, Profile, Recording

_BATCH = 4096


def write(profile: Profile, stream: TextIO) -> int:
    """Writes the timeline.

    Returns:
        How many dispatches are in it; those without times are left out.
    """
    dispatch_count = 0
    stream.write('{"displayTimeUnit":"ns","otherData":')
    stream.write(
        json.dumps(
            {"recording": profile.recording.path, "profiler": profile_view.profiler_text(profile)}
        )
    )
    stream.write(',"traceEvents":[\n')
    first = True
    batch: list[str] = []
    for event, counts in _events(profile):
        dispatch_count += counts
        batch.append(event)
        if len(batch) >= _BATCH:
            stream.write(("" if first else ",\n") + ",\n".join(batch))
            first = False
            batch.clear()
    if batch:
        stream.write(("" if first else ",\n") + ",\n".join(batch))
    stream.write("\n]}\n")
    return dispatch_count


def is_drawn(run: Recording) -> Iterator[bool]:
    """Yields for each dispatch whether a timeline has it."""
    for start, end in zip(run.dispatches.start, run.dispatches.end, strict=True):
        yield NONE not in (start, end) and end >= start


def _events(profile: Profile) -> Iterator[tuple[str, bool]]:
    run = profile.recording
    table = run.dispatches
    origins = _origins(table)
    kernels_by_shape = _kernels_by_shape(profile)
    bodies = [_body(shape, kernels_by_shape.get(_key(shape))) for shape in run.shapes]
    names = {agent.key: profile_view.device_text(agent) for agent in run.agents}
    processes: dict[tuple[int, str | None], int] = {}
    tracks: set[tuple[int, int]] = set()
    columns = (table.shape, table.number, table.start, table.end, table.queue, table.part)
    for shape, number, start, end, queue, part in zip(*columns, strict=True):
        if start == NONE or end == NONE or end < start:
            continue
        agent = run.shapes[shape].agent
        process = processes.get((part, agent))
        if process is None:
            process = processes[part, agent] = len(processes) + 1
            device = names.get(agent or "", f"agent {agent}" if agent is not None else "device")
            pass_name = run.parts[part].name if part < len(run.parts) else ""
            yield _meta("process_name", process, 0, " · ".join(filter(None, (device, pass_name))))
        track = max(queue, 0)
        if (process, track) not in tracks:
            tracks.add((process, track))
            yield _meta("thread_name", process, track, f"queue {track}")
        # Microseconds with three decimals are the nanoseconds that were recorded.
        yield (
            f'{{"ph":"X","pid":{process},"tid":{track},"ts":{_us(start - origins[part])},'
            f'"dur":{_us(end - start)},{bodies[shape]},"dispatch":{number}}}}}',
            True,
        )


def _origins(table: Dispatches) -> dict[int, int]:
    """Returns the begin of each part's timeline, in ns: parts that overlap in time share one."""
    spans: dict[int, tuple[int, int]] = {}
    for part, start, end in zip(table.part, table.start, table.end, strict=True):
        if start == NONE or end == NONE or end < start:
            continue
        first, last = spans.get(part, (start, end))
        if start <= first or end >= last:
            spans[part] = (min(start, first), max(end, last))
    origins: dict[int, int] = {}
    origin = until = NONE
    for part, (start, end) in sorted(spans.items(), key=lambda item: item[1]):
        if origin == NONE or start > until:
            origin = until = start
        origins[part] = origin
        until = max(until, end)
    return origins


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def _meta(event_name: str, process: int, track: int, name: str) -> tuple[str, bool]:
    return (
        json.dumps(
            {"ph": "M", "name": event_name, "pid": process, "tid": track, "args": {"name": name}}
        ),
        False,
    )


def _body(shape: KernelShape, kernel: KernelProfile | None) -> str:
    """Name, category and arguments of an event, the last brace left open."""
    args: dict[str, Any] = {
        "grid": quantities.dimensions(shape.grid, shape.grid_size),
        "workgroup": quantities.dimensions(shape.workgroup, shape.workgroup_size),
        "VGPR": shape.vgpr,
        "LDS bytes": shape.lds_bytes,
        "scratch bytes": shape.scratch_bytes,
    }
    if kernel is not None:
        args["kernel"] = kernel.id
        args |= {name: m.value for name, m in kernel.metrics.items() if m.origin == "measured"}
    role = kernel.role if kernel is not None else "main"
    known_args = {name: value for name, value in args.items() if value is not None}
    return f'"name":{json.dumps(shape.name)},"cat":"{role}","args":{json.dumps(known_args)[:-1]}'


def _key(shape: KernelShape) -> tuple[object, ...]:
    """A key that distinguishes the specialisations of a profile, without process and grid."""
    return (
        shape.name,
        shape.agent,
        shape.workgroup_size,
        shape.workgroup,
        shape.lds_bytes,
        shape.scratch_bytes,
        shape.vgpr,
        shape.accum_vgpr,
    )


def _kernels_by_shape(profile: Profile) -> dict[tuple[object, ...], KernelProfile]:
    """Specialisations by shape; those that shapes cannot tell apart are in no event."""
    by_shape: dict[tuple[object, ...], list[KernelProfile]] = {}
    for kernel in profile.kernels:
        by_shape.setdefault(_key(kernel.shape), []).append(kernel)
    return {key: kernels[0] for key, kernels in by_shape.items() if len(kernels) == 1}
