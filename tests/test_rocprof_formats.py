"""Formats beside rocprofv3's: Proton, rocprof-compute's analyses, CSV without a header, summaries.

Proton's tree has the form of one that Triton 3.6 wrote of two kernels on a GPU, with other numbers;
the database that of rocprof-compute's table definitions (schemas 1.3 and 2.0).
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kinspect.inspector.model.recording import Recording, TopKernel, Transfer
from kinspect.inspector.profile import reading
from kinspect.inspector.profile.kernel_profiles import analyse
from profile_bases import write_rocpd
from profile_files import program, write_results


def node(name: str, children: tuple[Any, ...] = (), **metrics: Any) -> dict[str, Any]:
    renamed = {key.replace("time_ns", "time (ns)"): value for key, value in metrics.items()}
    return {
        "frame": {"name": name, "type": "function"},
        "metrics": renamed,
        "children": list(children),
    }


def ran(name: str, count: int, time_ns: int, device: str = "0") -> dict[str, Any]:
    return node(name, count=count, time_ns=time_ns, device_id=device, device_type="HIP")


TREE = [
    node(
        "ROOT",
        (
            ran("fill", 2, 10_304),
            node(
                "steady",
                (
                    ran("add", 5, 11_648),
                    node("__proton_launch_metadata", (ran("counted", 1, 4_064),)),
                    ran("scale", 5, 9_697, "1"),
                ),
            ),
            node("warm", (ran("add", 1, 3_072),)),
        ),
        count=0,
        time_ns=0,
    ),
    {
        "HIP": {
            "0": {"arch": "gfx942", "clock_rate": 2_100_000, "num_sms": 304},
            "1": {"arch": "gfx90a", "clock_rate": 1_700_000, "num_sms": 104},
        }
    },
]
TOPS = {
    TopKernel("fill", 2, 10_304, 5_152.0, agent="device 0"),
    TopKernel("add", 6, 14_720, 14_720 / 6, agent="device 0"),
    TopKernel("scale", 5, 9_697, 1_939.4, agent="device 1"),
}


@pytest.mark.parametrize("form", ["json", "msgpack", "gzip"])
def test_protons_tree(tmp_path: Path, form: str) -> None:
    path = tmp_path / ("x.hatchet_msgpack" if form == "msgpack" else "x.hatchet")
    text = json.dumps(TREE, indent=4).encode()
    if form == "msgpack":
        text = msgspec.msgpack.encode(TREE)
    path.write_bytes(gzip.compress(text) if form == "gzip" else text)
    recording = reading.read(path)
    assert recording.errors == ()
    assert set(recording.summary) == TOPS
    assert [part.format for part in recording.parts] == ["Proton tree"]
    assert {(a.key, a.arch, a.cus, a.clock_mhz) for a in recording.agents} == {
        ("device 0", "gfx942", 304, 2100),
        ("device 1", "gfx90a", 104, 1700),
    }
    found = analyse(recording)
    assert found.total_ns == 34_721
    first = found.kernels[0]
    assert (first.name, first.total_ns, first.shape.agent) == (
        "add", 14_720.0, "device 0",
    )  # fmt: skip


def test_a_frame_whose_children_are_no_list_has_none(tmp_path: Path) -> None:
    frame = {"frame": {"name": "k", "type": "function"}, "metrics": {"count": 1, "time (ns)": 5}}
    tree = [{"frame": {"name": "ROOT"}, "metrics": {}, "children": [frame | {"children": 7}]}, {}]
    (tmp_path / "run.hatchet").write_text(json.dumps(tree))
    assert [k.name for k in reading.read(tmp_path / "run.hatchet").summary] == ["k"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (json.dumps(TREE).encode()[:-40], "damaged or cut off"),
        (b'[{"frame": {"name": "ROOT"}, "children": ' + b"[" * 100_000, "damaged or cut off"),
        (b'[{"children": ' * 3_000 + b"[]" + b"}]" * 3_000, "damaged or cut off"),
        (json.dumps([node("ROOT", (node("k", count=3),))]).encode(), "1 frames have a time or"),
    ],
)
def test_a_damaged_tree(tmp_path: Path, text: bytes, why: str) -> None:
    path = tmp_path / "x.hatchet"
    path.write_bytes(text)
    (error,) = reading.read(path).errors
    assert why in error.message


# --------------------------------------------------------------------------- rocprof-compute


def analysis(path: Path) -> Path:
    about = {"gpu_arch": "gfx942", "gpu_model": "MI300X_A1", "cu_per_gpu": "304", "num_xcd": "8"}
    with sqlite3.connect(path) as base:
        base.executescript(
            "CREATE TABLE compute_metadata (id INTEGER PRIMARY KEY, compute_version VARCHAR, "
            "git_version VARCHAR, schema_version VARCHAR);"
            "CREATE TABLE compute_workload (workload_id INTEGER PRIMARY KEY, name VARCHAR, "
            "sub_name VARCHAR, sys_info_extdata JSON, roofline_bench_extdata JSON, "
            "profiling_config_extdata JSON);"
            "CREATE TABLE compute_kernel (kernel_uuid INTEGER PRIMARY KEY, "
            "workload_id INTEGER NOT NULL, kernel_name VARCHAR);"
            "CREATE TABLE compute_dispatch (dispatch_uuid INTEGER PRIMARY KEY, "
            "kernel_uuid INTEGER NOT NULL, dispatch_id INTEGER, gpu_id INTEGER, "
            "start_timestamp INTEGER, end_timestamp INTEGER);"
            "INSERT INTO compute_metadata VALUES (1, '3.4.0', 'abc', '2.0.0');"
            "INSERT INTO compute_kernel VALUES (7, 1, 'vecCopy(double*, int)');"
            "CREATE VIEW compute_kernel_view AS WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL "
            "SELECT i + 1 FROM c) SELECT i FROM c;"
        )
        text = json.dumps(about)
        base.execute("INSERT INTO compute_workload VALUES (1, 'vcopy', 'A1', ?, 0, 0)", (text,))
        for number in range(3):
            times = (1_000 * number + 5, 1_000 * number + 105 + number)
            base.execute("INSERT INTO compute_dispatch VALUES (?, 7, ?, 2, ?, ?)", (
                number + 1, number, *times,
            ))  # fmt: skip
        base.execute("INSERT INTO compute_dispatch VALUES (9, 8, 9, 2, 1, 2)")
    base.close()
    return path


def test_an_analysis_of_rocprof_compute(tmp_path: Path) -> None:
    recording = reading.read(analysis(tmp_path / "x.db"))
    assert (recording.tool["name"], recording.tool["version"]) == ("rocprof-compute", "3.4.0")
    (kernel,) = analyse(recording).kernels
    assert (kernel.name, kernel.dispatches, kernel.total_ns) == ("vecCopy(double*, int)", 3, 303)
    assert kernel.agent is not None
    assert (kernel.agent.arch, kernel.agent.cus, kernel.agent.xccs) == ("gfx942", 304, 8)
    (error,) = recording.errors
    assert "1 dispatches without a kernel" in error.message


# --------------------------------------------------------------------------- CSV


def csv(folder: Path, name: str, *lines: str) -> Recording:
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return reading.read(folder / name)


@pytest.mark.parametrize(
    "head",
    [
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"',
        '"Name","Calls","DURATION (nsec)","AVERAGE (nsec)","PERCENT (INC)","MIN (nsec)",'
        '"MAX (nsec)","STD_DEV"',
    ],
)
def test_statistics_alone(tmp_path: Path, head: str) -> None:
    row = '"gemm(int, int)",10,1000,1.000000e+02,100.000000,90,120,3.1'
    recording = csv(tmp_path, "123_kernel_stats.csv", head, row)
    assert recording.summary == (TopKernel("gemm(int, int)", 10, 1000, 100.0, 90, 120),)
    assert [(p.name, p.format) for p in recording.parts] == [("123", "kernel statistics")]


# --------------------------------------------------------------------------- copies and fills


def test_copies_and_fills_are_named(tmp_path: Path) -> None:
    """They take time that is in no kernel; each kind is one line."""
    (tmp_path / "1_memory_copy_trace.csv").write_text(
        '"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id",'
        '"Start_Timestamp","End_Timestamp"\n'
        '"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE","Agent 0","Agent 4",1,100,150\n'
        '"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE","Agent 0","Agent 4",2,200,260\n'
        '"MEMORY_COPY","MEMORY_COPY_DEVICE_TO_HOST","Agent 4","Agent 0",3,300,301\n'
    )
    events = [
        {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "ts": 1, "dur": 2.5},
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoD", "ts": 4, "dur": 0.5},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 6, "dur": 1, "args": {}},
    ]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    recording = reading.read(tmp_path)
    assert recording.errors == ()
    assert recording.transfers == (
        Transfer("Memset (Device)", 1, 2_500),
        Transfer("Memcpy DtoD", 1, 500),
        Transfer("host to device", 2, 110),
        Transfer("device to host", 1, 1),
    )
    assert analyse(recording).total_ns == 1_000  # the kernel's alone


@pytest.mark.parametrize("form", ["json", "rocpd"])
def test_copies_of_one_run_in_either_format(tmp_path: Path, form: str) -> None:
    if form == "json":
        path = write_results(tmp_path / "1_results.json", program())
        document = json.loads(path.read_bytes())
        process = document["rocprofiler-sdk-tool"][0]
        cpu, gpu = (next(
            a["id"] for a in process["agents"] if a["type"] == kind
        ) for kind in (1, 2))  # fmt: skip
        process["buffer_records"]["memory_copy"] = [
            {"src_agent_id": cpu, "dst_agent_id": gpu, "start_timestamp": 5, "end_timestamp": 9}
        ]
        path.write_text(json.dumps(document))
    else:
        path = write_rocpd(tmp_path / "1_results.db", program())
        with sqlite3.connect(path) as base:
            uuid = "_0190_00001092"
            base.execute(
                f'CREATE TABLE "rocpd_memory_copy{uuid}" '
                '(id INTEGER PRIMARY KEY, start BIGINT, "end" BIGINT, name_id INTEGER)'
            )
            base.execute(f'INSERT INTO "rocpd_memory_copy{uuid}" VALUES (1, 5, 9, 2)')
            base.execute(
                f'INSERT INTO "rocpd_string{uuid}" (id, string) '
                "VALUES (2, 'MEMORY_COPY_HOST_TO_DEVICE')"
            )
        base.close()
    recording = reading.read(path)
    assert recording.errors == ()
    assert recording.transfers == (Transfer("host to device", 1, 4),)
    assert len(recording.dispatches) == 9
