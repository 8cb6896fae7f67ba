"""Chrome traces as profilers write them: rocprof v1's `results.json`, and PyTorch's profiler.

Nothing in them was recorded.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class OldLaunch:
    """A kernel as rocprof v1's traces have it: a name and times, no more."""

    name: str
    begin: int
    end: int
    device: int = 2
    queue: int = 0


def write_v1_json(path: Path, launches: Sequence[OldLaunch], pid: int = 517) -> Path:
    """rocprof v1's `results.json`: a Chrome trace in which all numbers are text."""

    def event(lane: int, name: str, begin: int, end: int, device: int, queue: int) -> Json:
        return {
            "ph": "X",
            "name": name,
            "pid": str(lane),
            "tid": "1",
            "ts": str(begin // 1000),
            "dur": str((end - begin) // 1000),
            "args": {
                "BeginNs": str(begin),
                "EndNs": str(end),
                "dev-id": str(device),
                "queue-id": str(queue),
                "Name": name,
                "pid": str(pid),
                "tid": str(pid),
                "DurationNs": str(end - begin),
            },
        }

    lanes = {1: "COPY", 2: "CPU HIP API", 6: "GPU0", 7: "GPU1", 8: "GPU2"}
    events: list[Json] = [{}]
    events += [
        {"args": {"name": name}, "ph": "M", "pid": lane, "name": "process_name", "sort_index": lane}
        for lane, name in lanes.items()
    ]
    events.append(event(1, "CopyHostToDevice", 500, 900, 2, 0))
    events.append(event(2, "hipLaunchKernel", 700, 9_900, 0, 0))
    events += [
        event(6 + one.device, one.name, one.begin, one.end, one.device, one.queue)
        for one in launches
    ]
    lines = "\n,".join(json.dumps(item) for item in events)
    path.write_text(f'{{ "traceEvents":[{lines}\n],\n"otherData": {{"Agent3.Name": "gfx90a"}}\n}}')
    return path


# --------------------------------------------------------------------------- PyTorch


@dataclass(frozen=True)
class TorchKernel:
    """A kernel in a PyTorch trace: times as text, µs; the grid as its launch states it."""

    name: str
    ts: str
    dur: str
    grid: tuple[int, int, int] = (512, 1, 1)
    block: tuple[int, int, int] = (256, 1, 1)
    device: int = 0
    stream: int = 3
    launch: str = "hipModuleLaunchKernel"
    more: Mapping[str, Any] = field(default_factory=dict)


def torch_trace(kernels: Sequence[TorchKernel], amd: bool = True) -> str:
    """A trace as `torch.profiler` exports it."""
    device = {
        "id": 0,
        "name": "AMD Instinct MI300X" if amd else "NVIDIA H100 80GB HBM3",
        "totalGlobalMem": 206141652992,
        "computeMajor": 9,
        "computeMinor": 4 if amd else 0,
        "maxThreadsPerBlock": 1024,
        "maxThreadsPerMultiprocessor": 2048,
        "regsPerBlock": 65536,
        "warpSize": 64 if amd else 32,
        "sharedMemPerBlock": 65536,
        "numSms": 304 if amd else 132,
    }
    events = [
        '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 99, "tid": 99, '
        '"ts": 1.5, "dur": 2.25, "args": {"External id": 1, "grid": "none"}}',
        '{"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "ts": 0.0, '
        '"args": {"name": "python"}}',
        '{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 3, '
        '"ts": 5, "dur": 1, "args": {"device": 0, "bytes": 4}}',
    ]
    for index, kernel in enumerate(kernels):
        args = {
            "External id": index,
            "device": kernel.device,
            "stream": kernel.stream,
            "correlation": index,
            "grid": list(kernel.grid),
            "block": list(kernel.block),
            **kernel.more,
        }
        call = {key: args[key] for key in ("correlation", "grid", "block")}
        events.append(
            f'{{"ph": "X", "cat": "cuda_runtime", "name": "{kernel.launch}", "pid": 99, '
            f'"tid": 99, "ts": {kernel.ts}, "dur": 1.0, "args": {json.dumps(call)}}}'
        )
        events.append(
            f'{{"ph": "X", "cat": "kernel", "name": {json.dumps(kernel.name)}, "pid": 0, '
            f'"tid": 3, "ts": {kernel.ts}, "dur": {kernel.dur}, "args": {json.dumps(args)}}}'
        )
    return (
        '{\n  "schemaVersion": 1,\n  "deviceProperties": '
        f"[{json.dumps(device)}],\n"
        '  "record_shapes": 1,\n  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": 1,\n'
        '  "traceEvents": [\n' + ",\n".join(events) + '\n  ],\n  "traceName": "t.json"\n}\n'
    )


def write_torch(path: Path, kernels: Sequence[TorchKernel], amd: bool = True) -> Path:
    """The same as a file; packed where the name ends in `.gz`."""
    text = torch_trace(kernels, amd).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path
