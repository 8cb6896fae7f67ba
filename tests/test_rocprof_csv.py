"""CSV of rocprofv3: forms of all versions, joins, devices."""

from __future__ import annotations

from pathlib import Path

import pytest
from csv_files import (
    AGENTS,
    COUNTED,
    NAME,
    STATS,
    TRACE,
    agent_row,
    counted,
    get,
    names,
    traced,
    values,
    write,
)
from kinspect.inspector.model.recording import NONE, Part
from kinspect.inspector.profile.builder import RecordingBuilder
from kinspect.inspector.profile.readers import csv_v3

# ------------------------------------------------------------------------------------ rocprofv3


@pytest.mark.parametrize("quote", ["text", "all"])
def test_a_kernel_trace_and_counters_of_one_process_are_the_same_dispatches(
    tmp_path: Path, quote: str
) -> None:
    write(tmp_path / "host/77_kernel_trace.csv", TRACE, [traced(2), traced(1)], quote)
    rows = [counted(n, name, n * 10) for n in (1, 2) for name in ("SQ_WAVES", "TCC_HIT_sum")]
    write(tmp_path / "host/77_counter_collection.csv", COUNTED, rows, quote)
    found = get(tmp_path)
    assert list(found.dispatches.number) == [2, 1]
    assert list(found.dispatches.start) == [1_002_000, 1_001_000]
    assert list(found.dispatches.end) == [1_002_300, 1_001_300]
    assert list(found.dispatches.queue) == [1, 1]
    assert values(found) == {
        (0, "SQ_WAVES"): 20, (0, "TCC_HIT_sum"): 20, (1, "SQ_WAVES"): 10, (1, "TCC_HIT_sum"): 10
    }  # fmt: skip
    shape = found.shapes[found.dispatches.shape[0]]
    assert (shape.name, shape.agent, shape.process, shape.kernel_id) == (NAME, "4", 77, 10)
    assert (shape.workgroup, shape.workgroup_size) == ((64, 2, 1), 128)
    assert (shape.grid, shape.grid_size) == ((640, 4, 1), 2560)
    assert (shape.lds_bytes, shape.scratch_bytes) == (512, 16)
    assert (shape.vgpr, shape.accum_vgpr, shape.sgpr) == (24, 8, 48)
    assert [part.format for part in found.parts] == ["rocprofv3 CSV"]
    assert not found.errors
    assert not found.notes


def test_a_trace_without_a_process_in_its_name_takes_the_counters(tmp_path: Path) -> None:
    write(tmp_path / "run_kernel_trace.csv", TRACE, [traced(1)])
    write(tmp_path / "run_counter_collection.csv", COUNTED, [counted(1, "SQ_WAVES", 4)])
    found = get(tmp_path)
    assert len(found.dispatches) == 1
    assert found.shapes[found.dispatches.shape[0]].process == 77


@pytest.mark.parametrize("change", ["kernel", "time"])
def test_counters_of_another_process_are_not_put_on_the_trace(tmp_path: Path, change: str) -> None:
    write(tmp_path / "kernel_trace.csv", TRACE, [traced(1), traced(2)])
    other = {"kernel": {"kernel": 11}, "time": {"start": 9_000_000}}[change]
    write(tmp_path / "counter_collection.csv", COUNTED, [counted(1, "SQ_WAVES", 4, **other)])
    found = get(tmp_path)
    assert list(found.dispatches.number) == [1, 2, 1]
    assert values(found) == {(2, "SQ_WAVES"): 4}
    assert any("kept apart" in note for note in found.notes)


def test_passes_are_parts(tmp_path: Path) -> None:
    for number, counter in ((1, "SQ_WAVES"), (2, "TCC_HIT_sum")):
        folder = tmp_path / f"pass_{number}/host"
        write(folder / "77_counter_collection.csv", COUNTED, [counted(1, counter, number)])
    found = get(tmp_path)
    assert [part.name for part in found.parts] == ["pass_1/host/77", "pass_2/host/77"]
    assert list(found.dispatches.part) == [0, 1]
    assert values(found) == {(0, "SQ_WAVES"): 1, (1, "TCC_HIT_sum"): 2}


def test_processes_of_one_file_are_told_apart(tmp_path: Path) -> None:
    rows = [counted(1, "SQ_WAVES", 1, process=7), counted(1, "SQ_WAVES", 2, process=8)]
    write(tmp_path / "x.csv", COUNTED, rows)
    found = get(tmp_path)
    assert [found.shapes[shape].process for shape in found.dispatches.shape] == [7, 8]
    assert values(found) == {(0, "SQ_WAVES"): 1, (1, "SQ_WAVES"): 2}


def test_rows_of_one_counter_and_dispatch_add_up_wherever_they_stand(tmp_path: Path) -> None:
    order = (1, 2, 1, 2, 1)
    write(tmp_path / "x.csv", COUNTED, [counted(n, "TCC_HIT", 5.5) for n in order])
    found = get(tmp_path)
    assert len(found.dispatches) == 2
    assert values(found) == {(0, "TCC_HIT"): 16.5, (1, "TCC_HIT"): 11.0}


def test_the_first_columns_of_rocm_6_2(tmp_path: Path) -> None:
    """No dispatch id, no registers, the agent as a number; counters without times or kernel id."""
    header = names(
        "Kind,Agent_Id,Queue_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,"
        "End_Timestamp,Private_Segment_Size,Group_Segment_Size,Workgroup_Size_X,Workgroup_Size_Y,"
        "Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z"
    )
    row = ["KERNEL_DISPATCH", 1, 2, 16, NAME, 9, 100, 150, 32, 1024, 64, 1, 1, 1024, 8, 1]
    write(tmp_path / "5_kernel_trace.csv", header, [row])
    counters = names(
        "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Name,"
        "Workgroup_Size,LDS_Block_Size,Scratch_Size,VGPR_Count,SGPR_Count,Counter_Name,Counter_Value"
    )
    row = [4, 4, 1, 1, 6, 6, 1048576, NAME, 64, 0, 0, 12, 16, "SQ_WAVES", 16384]
    write(tmp_path / "6_counter_collection.csv", counters, [row])
    found = get(tmp_path)
    trace, counted_ = (found.shapes[shape] for shape in found.dispatches.shape)
    assert list(found.dispatches.number) == [NONE, 4]
    assert list(found.dispatches.start) == [100, NONE]
    assert list(found.dispatches.end) == [150, NONE]
    assert (trace.scratch_bytes, trace.lds_bytes, trace.vgpr) == (32, 1024, None)
    assert (trace.agent, trace.grid_size) == ("1", 8192)
    assert (counted_.vgpr, counted_.accum_vgpr, counted_.kernel_id) == (12, None, None)


def test_rocpd_convert_puts_a_guid_in_front(tmp_path: Path) -> None:
    guid = "0000ddb5-8903-7903-b269-cd8d3745bb8a"
    write(tmp_path / "out_kernel_trace.csv", ["Guid", *TRACE], [[guid, *traced(1)]])
    found = get(tmp_path)
    assert list(found.dispatches.number) == [1]
    assert not found.notes


def test_columns_that_nobody_knows_are_left_out_and_named(tmp_path: Path) -> None:
    write(tmp_path / "77_kernel_trace.csv", [*TRACE, "My_Note"], [[*traced(1), "x, y"]])
    found = get(tmp_path)
    assert len(found.dispatches) == 1
    assert any("My_Note" in note for note in found.notes)


def test_traces_of_calls_are_known_and_not_read(tmp_path: Path) -> None:
    header = "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp"
    write(tmp_path / "7_hip_trace.csv", header.split(","), [["HIP", "hipMalloc", 7, 7, 1, 2, 3]])
    header = "Kind,Direction,Source_Agent_Id,Destination_Agent_Id,Start_Timestamp,End_Timestamp"
    write(tmp_path / "7_memory_copy_trace.csv", header.split(","), [["M", "D", "A", "B", 1, 2]])
    found = get(tmp_path)
    assert not found.parts
    assert set(found.notes) == {"hip_trace: API trace, not read"}  # copies are read


def test_statistics_are_read_where_there_are_no_dispatches(tmp_path: Path) -> None:
    row: list[object] = [NAME, 4, 4000, 1000.5, 100.0, 900, 1100, 5.0]
    write(tmp_path / "7_kernel_stats.csv", STATS, [row])
    write(tmp_path / "7_hip_api_stats.csv", STATS, [["hipMalloc", 1, 1, 1.0, 1.0, 1, 1, 0.0]])
    (top,) = get(tmp_path).summary
    assert (top.name, top.calls, top.total_ns, top.mean_ns) == (NAME, 4, 4000, 1000.5)
    assert (top.min_ns, top.max_ns) == (900, 1100)
    write(tmp_path / "7_kernel_trace.csv", TRACE, [traced(1)])
    assert not get(tmp_path).summary


@pytest.mark.parametrize(
    ("version", "arch"),
    [(90500, "gfx950"), (90402, "gfx942"), (90010, "gfx90a"), (110501, "gfx1151")],
)
def test_devices(tmp_path: Path, version: int, arch: str) -> None:
    write(
        tmp_path / "7_agent_info.csv",
        AGENTS,
        [agent_row(0, 0, "CPU"), agent_row(1, 1, "GPU", version)],
    )
    cpu, gpu = get(tmp_path).agents
    assert (cpu.key, cpu.kind, cpu.arch) == ("0", "cpu", None)
    assert (gpu.key, gpu.kind, gpu.arch, gpu.product) == ("1", "gpu", arch, "AMD Instinct")
    assert (gpu.cus, gpu.simds_per_cu, gpu.xccs, gpu.shader_engines) == (304, 4, 8, 32)
    assert (gpu.wave_size, gpu.max_waves_per_simd, gpu.clock_mhz) == (64, 8, 2100)
    assert gpu.lds_bytes == 65536
    assert gpu.memory_bytes_per_s is None


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("Agent 1", "4"),  # relative: the logical node id, the default
        ("Agent 5", "5"),  # absolute: no logical node has this id
        ("GPU 1", "5"),  # relative to the type
        ("4", "4"),  # the node id, before ROCm 7
        ("GPU 9", "GPU 9"),  # none such
    ],
)
def test_which_device_a_dispatch_means(tmp_path: Path, written: str, key: str) -> None:
    """Nodes 1 to 3 are masked: logical ids are 0, 1 and 2."""
    devices = [agent_row(0, 0, "CPU"), agent_row(4, 1, "GPU"), agent_row(5, 2, "GPU")]
    write(tmp_path / "7_agent_info.csv", AGENTS, devices)
    row = traced(1)
    row[1] = written
    write(tmp_path / "7_kernel_trace.csv", TRACE, [row])
    found = get(tmp_path)
    assert found.shapes[found.dispatches.shape[0]].agent == key


def test_an_index_that_may_be_meant_in_two_ways_is_said(tmp_path: Path) -> None:
    devices = [agent_row(0, 3, "GPU"), agent_row(1, 0, "GPU"), agent_row(2, 1, "GPU")]
    write(tmp_path / "7_agent_info.csv", AGENTS, devices)
    row = traced(1)
    row[1] = "Agent 1"
    write(tmp_path / "7_kernel_trace.csv", TRACE, [row])
    found = get(tmp_path)
    assert found.shapes[0].agent == "2"
    assert any("Agent 1 is taken as a relative index" in note for note in found.notes)


@pytest.mark.parametrize("twin", ["7_results.json", "7_results.db"])
def test_what_another_format_told_already_is_not_added_again(tmp_path: Path, twin: str) -> None:
    builder = RecordingBuilder(tmp_path)
    builder.begin(Part("7", str(tmp_path / twin), "rocprofv3 JSON"))
    write(tmp_path / "7_kernel_trace.csv", TRACE, [traced(1)])
    write(tmp_path / "8_kernel_trace.csv", TRACE, [traced(1)])
    for group in csv_v3.find(sorted(tmp_path.iterdir())):
        csv_v3.read(group, builder)
    found = builder.finish()
    assert [found.shapes[shape].process for shape in found.dispatches.shape] == [8]
    assert any(twin in note for note in found.notes)
