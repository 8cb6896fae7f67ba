"""Workloads of rocprof-compute: formats of its versions, damage, and a recording."""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from pathlib import Path

import pytest
from kinspect.inspector.model.recording import NONE, Recording
from kinspect.inspector.profile.reading import read

READERS = ("csv_v3", "pc_csv", "compute", "csv_legacy")
NAME = "copy(double*, double*, int) (.kd)"

BASE = (
    "Dispatch_ID,GPU_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,"
    "Accum_VGPR,SGPR,Wave_Size,Kernel_Name"
)
SYSINFO = (
    "workload_name,command,rocm_version,gpu_model,gpu_arch,cu_per_gpu,simd_per_cu,se_per_gpu,"
    "wave_size,max_waves_per_cu,max_sclk,lds_banks_per_cu,hbm_bw,num_xcd"
)
DEVICE = ["w", "./copy -n 4 'a b'", "6.2.0", "MI300X_A1", "gfx942", 304, 4, 32, 64, 32, 2100, 32]


def write(path: Path, header: str, *rows: list[object]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow(header.split(","))
        writer.writerows(rows)


def base(number: int, name: str = NAME) -> list[object]:
    return [number, 2, 1024, 256, 0, 0, 4, 4, 16, 64, name]


def get(path: Path) -> Recording:
    return read(path, names=READERS)


def values(recording: Recording) -> dict[tuple[int, str], float]:
    found: dict[tuple[int, str], float] = defaultdict(float)
    table = recording.values
    for row, counter, value in zip(table.dispatch, table.counter, table.value, strict=True):
        found[row, recording.counters[counter]] += value
    return dict(found)


def test_a_merged_table(tmp_path: Path) -> None:
    """Channels are summed; what pandas marked as a second of its kind is left out."""
    header = (
        f"{BASE},Correlation_ID,SQ_WAVES,TCC_HIT[0],TCC_HIT[1],TCC_HIT[17],TCC_HIT_sum,Wave_Size_1,"
        "Correlation_ID_1,XCC_Index,SQ_WAVES_2,XCC_Index_2,Kernel_ID_1,Start_Timestamp,End_Timestamp"
    )
    counted = [0, 16, 1, 2, 4, 7, 64, 0, 0, 15, 0, 1, "8.1097E+14", "8.1097E+14"]
    write(tmp_path / "pmc_perf.csv", header, [*base(0), *counted], [*base(1), *counted])
    write(tmp_path / "sysinfo.csv", SYSINFO, [*DEVICE, 5324.8, 8])
    (tmp_path / "log.txt").write_text("Omniperf version: 2.0.0\nTarget: MI300X_A1\n")
    found = get(tmp_path)
    assert list(found.dispatches.number) == [0, 1]
    assert list(found.dispatches.start) == [NONE, NONE]
    assert values(found) == {
        (row, name): value
        for row in (0, 1)
        for name, value in (("SQ_WAVES", 16), ("TCC_HIT", 7), ("TCC_HIT_sum", 7))
    }
    (agent,) = found.agents
    assert (agent.key, agent.arch, agent.product) == ("2", "gfx942", "MI300X_A1")
    assert (agent.cus, agent.simds_per_cu, agent.xccs, agent.shader_engines) == (304, 4, 8, 32)
    assert (agent.wave_size, agent.max_waves_per_simd, agent.clock_mhz) == (64, 8, 2100)
    assert agent.memory_bytes_per_s == pytest.approx(5.3248e12)
    assert found.command == ("./copy", "-n", "4", "a b")
    assert found.tool == {"name": "omniperf", "version": "2.0.0"}
    shape = found.shapes[found.dispatches.shape[0]]
    assert (shape.name, shape.agent, shape.grid_size) == ("copy(double*, double*, int)", "2", 1024)
    assert any("rounded" in note and "pmc_perf.csv" in note for note in found.notes)
    assert not found.errors


def test_each_table_is_a_run_and_accumulated_levels_keep_apart(tmp_path: Path) -> None:
    header = BASE + ",PID,Start_Timestamp,End_Timestamp,SQ_ACCUM_PREV_HIRES"
    write(tmp_path / "pmc_perf.csv", BASE + ",SQ_WAVES", [*base(0), 16])
    write(tmp_path / "SQ_LEVEL_WAVES.csv", header, [*base(0), 7, 100, 140, 5])
    write(tmp_path / "SQ_IFETCH_LEVEL.csv", header, [*base(0), 8, 200, 250, 6])
    write(tmp_path / "timestamps.csv", header.rpartition(",")[0], [*base(1), 9, 300, 360])
    write(tmp_path / "pmc_dispatch_info.csv", "Dispatch_ID,Kernel_Name,GPU_ID", [0, NAME, 2])
    write(tmp_path / "sysinfo.csv", SYSINFO, [*DEVICE, "", ""])
    found = get(tmp_path)
    assert [part.name.rpartition("/")[2] for part in found.parts] == [
        "pmc_perf", "SQ_IFETCH_LEVEL", "SQ_LEVEL_WAVES", "timestamps"
    ]  # fmt: skip
    assert list(found.dispatches.part) == [0, 1, 2, 3]
    spans = zip(found.dispatches.start, found.dispatches.end, strict=True)
    assert list(spans) == [(NONE, NONE), (200, 250), (100, 140), (300, 360)]
    assert values(found) == {
        (0, "SQ_WAVES"): 16,
        (1, "SQ_IFETCH_LEVEL_ACCUM"): 6,
        (2, "SQ_LEVEL_WAVES_ACCUM"): 5,
    }
    assert found.agents[0].memory_bytes_per_s is None
    assert found.agents[0].xccs is None


def test_passes_that_were_merged_are_not_read_twice(tmp_path: Path) -> None:
    write(tmp_path / "pmc_perf.csv", BASE + ",SQ_WAVES", [*base(0), 16])
    write(tmp_path / "pmc_perf_0.csv", BASE + ",SQ_WAVES", [*base(0), 16])
    assert len(get(tmp_path).dispatches) == 1
    (tmp_path / "pmc_perf.csv").unlink()
    assert len(get(tmp_path).dispatches) == 1


def test_a_long_table_of_newer_versions(tmp_path: Path) -> None:
    header = (
        "GPU_ID,Dispatch_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,"
        "Arch_VGPR,Accum_VGPR,SGPR,Kernel_Name,Start_Timestamp,End_Timestamp,Kernel_ID,Counter_Name,"
        "Counter_Value"
    )
    rows: list[list[object]] = [
        [2, n, 64, 64, 0, 0, 4, 4, 16, "copy", 100, 130, 12, counter, n * 2.0]
        for n in (1, 2)
        for counter in ("SQ_WAVES", "SQ_INSTS", "TCC_HIT[0]", "TCC_HIT[127]")
    ]
    write(tmp_path / "pmc_perf.csv", header, *rows)
    found = get(tmp_path)
    assert list(found.dispatches.number) == [1, 2]
    assert (found.dispatches.start[1], found.dispatches.end[1]) == (100, 130)
    assert values(found) == {
        (row, name): (row + 1) * times
        for row in (0, 1)
        for name, times in (("SQ_WAVES", 2), ("SQ_INSTS", 2), ("TCC_HIT", 4))
    }
    assert found.shapes[0].kernel_id == 12


def test_tables_of_rocprof_v1_inside(tmp_path: Path) -> None:
    """Times are means over runs, which pandas writes with a fraction."""
    header = (
        "Dispatch_ID,Kernel_Name,GPU_ID,Grid_Size,Workgroup_Size,Arch_VGPR,wave_size,obj,SQ_WAVES,"
        "wave_size_1,obj_1,Start_Timestamp,End_Timestamp"
    )
    name = "copy(int) [clone .kd]"
    row = [0, name, 2, 64, 64, 8, 64, "0x7f", 1, 64, "0x7e", "1410078545959517.5", 1410078545984317]
    write(tmp_path / "pmc_perf.csv", header, row)
    found = get(tmp_path)
    assert found.dispatches.end[0] - found.dispatches.start[0] == 24799
    assert values(found) == {(0, "SQ_WAVES"): 1}
    assert found.shapes[0].name == "copy(int)"
    assert any("means" in note for note in found.notes)


def test_cells_that_are_empty_are_no_values(tmp_path: Path) -> None:
    row = [*base(1), "", ""]
    write(tmp_path / "pmc_perf.csv", BASE + ",A,B[0]", [*base(0), 1, 2], row, [*base(2), 3, "?"])
    found = get(tmp_path)
    assert values(found) == {(0, "A"): 1, (0, "B"): 2}
    assert "1 of 3 rows" in found.errors[0].message


def test_a_workload_cut_short(tmp_path: Path) -> None:
    """No table but an empty one: said, and the device is not lost with it."""
    write(tmp_path / "sysinfo.csv", SYSINFO, [*DEVICE, 5324.8, 8])
    (tmp_path / "pmc_perf.csv").touch()
    write(tmp_path / "timestamps.csv", BASE, base(0))
    found = get(tmp_path)
    assert "pmc_perf.csv: empty file" in found.notes
    assert [part.name.rpartition("/")[2] for part in found.parts] == ["timestamps"]
    assert found.agents[0].cus == 304


def test_an_empty_sysinfo_leaves_the_device_unknown(tmp_path: Path) -> None:
    write(tmp_path / "pmc_perf.csv", BASE + ",SQ_WAVES", [*base(0), 16])
    (tmp_path / "sysinfo.csv").touch()
    found = get(tmp_path)
    assert not found.agents
    assert found.command == ()
    assert len(found.dispatches) == 1


def test_vcopy_on_an_mi300x() -> None:
    """1,048,576 work-items in waves of 64 are 16,384 waves, of six VALU instructions each."""
    named = os.environ.get("KINSPECT_SAMPLES")
    folders = sorted(Path(named).rglob("vcopy/MI300X_A1")) if named else []
    if not folders:
        pytest.skip("KINSPECT_SAMPLES names no folder of recordings")
    found = get(folders[0])
    merged = [row for row, part in enumerate(found.dispatches.part) if part == 0]
    assert len(merged) == 3
    assert {shape.name.partition("(")[0] for shape in found.shapes} == {"vecCopy"}
    counted = values(found)
    for row in merged:
        assert counted[row, "SQ_WAVES"] == 16384
        assert counted[row, "SQ_INSTS_VALU"] == 98304
        assert counted[row, "SQ_INSTS_LDS"] == 0
        assert counted[row, "TCC_HIT"] == counted[row, "TCC_HIT_sum"]  # 128 channels, two sources
        assert found.dispatches.start[row] == NONE
    levels = [row for row, part in enumerate(found.dispatches.part) if part == 5]
    assert [counted[row, "SQ_LEVEL_WAVES_ACCUM"] for row in levels] == [
        155189876, 137095332, 141949588
    ]  # fmt: skip
    (agent,) = found.agents
    assert (agent.arch, agent.cus, agent.simds_per_cu, agent.xccs) == ("gfx942", 304, 4, 8)
    assert (agent.max_waves_per_simd, agent.clock_mhz) == (8, 2100)
    assert agent.memory_bytes_per_s == pytest.approx(5.3248e12)
    assert found.command == ("./tests/vcopy", "-n", "1048576", "-b", "256", "-i", "3")
    assert not found.errors
