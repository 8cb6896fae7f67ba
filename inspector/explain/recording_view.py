"""Puts a recording's tool, devices, passes, traces and samples into words."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from ..model.recording import Agent, CodePlace, Part, Profile, ThreadTrace
from . import view


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
