"""Chrome traces: PyTorch's, made up; rocprof v1's, made up and recorded."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from kinspect.inspector.model.recording import Recording
from kinspect.inspector.profile import reading
from kinspect.inspector.profile.readers import torch_trace
from profile_files import program, write_results
from profile_traces import OldLaunch, TorchKernel, write_torch, write_v1_json


def imported(path: Path) -> Recording:
    return reading.read(path, ("results_json", "torch_trace"))


KERNELS = (
    TorchKernel("Cijk_Ailk_Bljk", "100.125", "12.5", grid=(8, 4, 2), block=(64, 2, 1)),
    TorchKernel("void f<float>(float*, int)", "120", "1.250", stream=4),
)


@pytest.mark.parametrize("name", ["a.pt.trace.json", "a.pt.trace.json.gz", "a"])
def test_kernels_of_pytorch(tmp_path: Path, name: str) -> None:
    recording = imported(write_torch(tmp_path / name, KERNELS))
    assert recording.errors == ()
    table = recording.dispatches
    assert list(zip(table.start, table.end, strict=True)) == [
        (100_125, 112_625),
        (120_000, 121_250),
    ]
    assert list(table.queue) == [3, 4]
    first, second = recording.shapes
    assert (first.name, first.workgroup, first.workgroup_size) == (
        "Cijk_Ailk_Bljk",
        (64, 2, 1),
        128,
    )
    # 8 × 4 × 2 workgroups of 64 × 2 × 1 work-items.
    assert (first.grid, first.grid_size) == ((512, 8, 2), 8192)
    assert (first.agent, first.vgpr, first.lds_bytes, first.process) == (
        "device 0",
        None,
        None,
        None,
    )
    assert second.name == "void f<float>(float*, int)"
    (device,) = recording.agents
    assert (device.key, device.product) == ("device 0", "AMD Instinct MI300X")
    assert (device.cus, device.wave_size, device.lds_bytes) == (304, 64, 65536)
    assert dict(recording.tool) == {"name": "PyTorch profiler"}
    assert recording.notes == (f"{name}: a PyTorch trace states times in µs; rounded to ns",)


def test_grids_of_launches_that_count_work_items(tmp_path: Path) -> None:
    """hipExtModuleLaunchKernel, by which GEMM libraries launch: 2048 work-items are 8 groups."""
    kernels = [
        TorchKernel("gemm", "1", "2", grid=(2048, 3, 1), launch="hipExtModuleLaunchKernel"),
        TorchKernel("triton", "4", "2", grid=(8, 3, 1), launch="hipModuleLaunchKernel"),
    ]
    recording = imported(write_torch(tmp_path / "a.json", kernels))
    assert [shape.grid for shape in recording.shapes] == [(2048, 3, 1), (2048, 3, 1)]


def test_what_only_some_backends_state(tmp_path: Path) -> None:
    some = {"registers per thread": 84, "shared memory": 32768, "est. achieved occupancy %": 43}
    none = {"registers per thread": 0, "shared memory": 0, "est. achieved occupancy %": 0}
    kernels = [TorchKernel("a", "1", "2", more=some), TorchKernel("b", "1", "2", more=none)]
    recording = imported(write_torch(tmp_path / "a.json", kernels, amd=False))
    a, b = recording.shapes
    assert (a.vgpr, a.lds_bytes) == (84, 32768)
    assert (b.vgpr, b.lds_bytes) == (None, 0)
    assert recording.counters == ("est. achieved occupancy %",)
    assert (list(recording.values.dispatch), list(recording.values.value)) == ([0], [43.0])
    assert recording.notes == (
        "a.json: a PyTorch trace states times in µs; whole µs: short kernels are imprecise",
    )


def test_times_since_1970_keep_their_nanoseconds(tmp_path: Path) -> None:
    """1.7e15 µs with three decimals: more digits than a 64-bit float has."""
    kernels = [TorchKernel("a", "1700000000000001.123", "0.001"), TorchKernel("b", "1.7e3", "1e1")]
    table = imported(write_torch(tmp_path / "a.json", kernels)).dispatches
    assert list(table.start) == [1_700_000_000_000_001_123, 1_700_000]
    assert list(table.end) == [1_700_000_000_000_001_124, 1_710_000]


def test_many_events(tmp_path: Path) -> None:
    """More than a batch: kernels among other events, whose arguments are of any form."""
    kernels = [TorchKernel(f"k{index % 3}", f"{index}.5", "0.25") for index in range(6_000)]
    recording = imported(write_torch(tmp_path / "a.json.gz", kernels))
    assert list(recording.dispatches.start) == [index * 1000 + 500 for index in range(6_000)]
    assert [shape.name for shape in recording.shapes] == ["k0", "k1", "k2"]
    assert recording.errors == ()


def test_events_in_any_order_of_keys_and_odd_ones(tmp_path: Path) -> None:
    args = {"device": 1, "grid": [1, 0, 1], "block": "256", "stream": "seven", "shared memory": -1}
    events = [
        {},
        {"name": "a", "args": args, "dur": "2.5", "ts": "1", "cat": "Kernel", "ph": "X"},
        {"ph": "X", "cat": "kernel", "name": None, "ts": 1, "dur": 2, "args": None},
        {"ph": "X", "cat": "kernel", "name": "no times"},
        {"ph": "X", "cat": "kernel", "name": "no time", "ts": "now", "dur": {}},
        {"ph": "X", "cat": "gpu_memcpy", "name": "copy", "ts": 1, "dur": 1},
        {"ph": "B", "cat": "kernel", "name": "begin", "ts": 1},
        {"ph": 7, "cat": []},
        12,
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": events}))
    recording = imported(path)
    a, nameless = recording.shapes
    assert (a.name, a.agent, a.workgroup, a.grid, a.lds_bytes) == (
        "a",
        "device 1",
        None,
        None,
        None,
    )
    assert nameless.name == "None"
    assert list(recording.dispatches.queue) == [-1, -1]
    assert [error.message for error in recording.errors] == [
        "a.json: 2 kernels without times, left out",
        "a.json: 2 events of no known form, left out",
    ]


def test_a_trace_without_kernels(tmp_path: Path) -> None:
    recording = imported(write_torch(tmp_path / "a.json", []))
    assert recording.errors == ()
    assert len(recording.dispatches) == 0
    (note,) = recording.notes
    assert note.startswith("a.json: no kernels in this trace; ")


@pytest.mark.parametrize(
    "text",
    [
        '{"code": [], "version": "1"}',
        "[]",
        '[{"ph": "X"}]',
        '{"traceEvents": 1}',
        "traceEvents",
        "",
    ],
)
def test_other_json_is_not_claimed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "code.json"
    path.write_text(text)
    assert torch_trace.find([path, tmp_path / "gone.json"]) == []


def test_rocprofv3_s_json_is_not_claimed(tmp_path: Path) -> None:
    assert torch_trace.find([write_results(tmp_path / "1_results.json", program())]) == []


def test_rocprof_v1(tmp_path: Path) -> None:
    """Numbers are text there; the lane says that it is a GPU, and the arguments when exactly."""
    launches = [OldLaunch("k", 1_234_567, 1_239_847), OldLaunch("k", 9_000_001, 9_000_007, 0)]
    recording = imported(write_v1_json(tmp_path / "results.json", launches))
    assert recording.errors == ()
    table = recording.dispatches
    lengths = [end - start for start, end in zip(table.start, table.end, strict=True)]
    assert lengths == [5280, 6]
    assert [(s.name, s.agent, s.process) for s in recording.shapes] == [
        ("k", "2", 517),
        ("k", "0", 517),
    ]
    assert dict(recording.tool) == {"name": "rocprof v1"}


def test_a_recording_of_rocprof_v1() -> None:
    """Its own results.stats.csv says: elementwise_kernel, 1 call, 5280 ns in total."""
    named = os.environ.get("KINSPECT_SAMPLES")
    found = sorted(Path(named).rglob("HIP_trace/results.json")) if named else []
    if not found:
        pytest.skip("KINSPECT_SAMPLES names no folder with a recording of rocprof v1")
    recording = imported(found[0])
    (shape,) = recording.shapes
    assert (shape.name, shape.agent, shape.process) == ("elementwise_kernel", "2", 517)
    assert recording.dispatches.end[0] - recording.dispatches.start[0] == 5280
    assert recording.errors == ()
