"""CSV of rocprof, of rocprofv2 and of PC sampling; recordings made elsewhere."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from csv_files import (
    COUNTED,
    NAME,
    REASON,
    STATS,
    STOCHASTIC,
    TRACE,
    TRAP,
    V1,
    counted,
    get,
    names,
    samples,
    traced,
    values,
    write,
)

# ------------------------------------------------------------------------------- rocprof, v1, v2


def test_rocprof_with_counters(tmp_path: Path) -> None:
    row = [
        0, "k(int) [clone .kd]", 2, 0, 0, 33, 33, 1024, 256, 512, 16, 28, 4, 32, 64, "0x0",
        "0x7f0d61a43240", 16, 2.5, 90, 100, 140, 150, 40,
    ]  # fmt: skip
    write(tmp_path / "results.csv", V1, [row])
    write(tmp_path / "results.stats.csv", STATS[:5], [["k(int)", 1, 40, 40, 100.0]])
    write(tmp_path / "results.hip_stats.csv", STATS[:5], [["hipMalloc", 1, 40, 40, 100.0]])
    found = get(tmp_path)
    shape = found.shapes[found.dispatches.shape[0]]
    assert (shape.name, shape.agent, shape.process) == ("k(int)", "2", 33)
    assert (shape.grid_size, shape.workgroup_size, shape.wave_size) == (1024, 256, 64)
    assert (shape.lds_bytes, shape.scratch_bytes) == (512, 16)
    assert (shape.vgpr, shape.accum_vgpr, shape.sgpr) == (28, 4, 32)
    assert (found.dispatches.start[0], found.dispatches.end[0]) == (100, 140)
    assert values(found) == {(0, "SQ_WAVES"): 16, (0, "FetchSize"): 2.5}
    assert not found.summary
    assert found.tool["name"] == "rocprof"


def test_rocprof_statistics_alone(tmp_path: Path) -> None:
    write(tmp_path / "results.stats.csv", STATS[:5], [["k(int)", 2, 80, 40, 100.0]])
    write(tmp_path / "results.hip_stats.csv", STATS[:5], [["hipMalloc", 1, 40, 40, 100.0]])
    (top,) = get(tmp_path).summary
    assert (top.name, top.calls, top.total_ns, top.min_ns) == ("k(int)", 2, 80, None)


def test_rocprofv2_has_a_row_for_each_xcc(tmp_path: Path) -> None:
    header = names(
        "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,"
        "Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,SGPR,Wave_Size,Kernel_Name,Start_Timestamp,"
        "End_Timestamp,Correlation_ID,XCC_Index,GRBM_GUI_ACTIVE,Where"
    )
    rows: list[list[object]] = [
        [n, 2, 1, 9, 9, 64, 64, 0, 0, 4, 4, 16, 64, "k", 10, 20, 0, xcc, 100 + xcc, "here"]
        for n in (1, 2)
        for xcc in range(2)
    ]
    write(tmp_path / "pmc_1.csv", header, rows)
    found = get(tmp_path)
    assert list(found.dispatches.number) == [1, 2]
    assert values(found) == {(0, "GRBM_GUI_ACTIVE"): 201, (1, "GRBM_GUI_ACTIVE"): 201}
    assert any("Where" in note for note in found.notes)


_WIDE = names(
    "Dispatch_ID,GPU_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,"
    "Accum_VGPR,SGPR,Wave_Size,Kernel_Name,SQ_WAVES,Start_Timestamp,End_Timestamp"
)


def _two_kernels(form: str, path: Path) -> None:
    """Writes five dispatches of `first` and `second`, in turn, as a profiler's version does."""
    rows: list[list[object]] = []
    for n in range(5):
        kernel, vgpr = (("first", 12), ("second", 40))[n % 2]
        begin, end = 1000 + 100 * n, 1010 + 100 * n
        if form == "v1":
            times = (begin - 5, begin, end, end + 5, end - begin)
            launch = (n, kernel, 2, 0, n, 33, 33, 64, 64, 0, 0, vgpr, 4, 32, 64, "0x0", "0x7f0")
            rows.append([*launch, 1, 2.5, *times])
        elif form == "trace":
            rows.append(traced(n, begin, 10 + n % 2, kernel))
        elif form == "counters":
            row = counted(n, "SQ_WAVES", 1, begin, 10 + n % 2)
            rows.append([kernel if cell == NAME else cell for cell in row])
        else:
            rows.append([n, 2, 64, 64, 0, 0, vgpr, 4, 32, 64, kernel, 1, begin, end])
    name, header = {
        "v1": ("results.csv", V1),
        "v2": ("pmc_1.csv", _WIDE),
        "workload": ("pmc_perf.csv", _WIDE),
        "trace": ("1_kernel_trace.csv", TRACE),
        "counters": ("1_counter_collection.csv", COUNTED),
    }[form]
    write(path / name, header, rows, "all" if form == "v2" else "text")


@pytest.mark.parametrize("form", ["v1", "v2", "workload", "trace", "counters"])
def test_each_row_has_the_kernel_that_it_names(tmp_path: Path, form: str) -> None:
    _two_kernels(form, tmp_path)
    found = get(tmp_path)
    assert not found.errors
    dispatched = [found.shapes[number].name for number in found.dispatches.shape]
    assert dispatched == ["first", "second", "first", "second", "first"]


# ---------------------------------------------------------------------------------- PC sampling


def test_stochastic_samples(tmp_path: Path) -> None:
    def row(mask: object, dispatch: int, text: str, issued: int, why: str) -> list[object]:
        return [5, mask, dispatch, text, "a.py:7", 1, issued, "TYPE_VALU", REASON + why, 4]

    rows = [
        row(0xFFFF, 1, "v_add v0, v1", 1, "OTHER_WAIT"),
        row("0xff", 1, "v_add v0, v1", 0, "WAITCNT"),
        row(0xFF, 1, "v_add v0, v1", 0, "WAITCNT"),
        row(0xFF, 1, "v_add v0, v1", 0, "ALU_DEPENDENCY"),
        row(1, 2, "s_endpgm", 0, "NO_INSTRUCTION_AVAILABLE"),
    ]
    write(tmp_path / "77_pc_sampling_stochastic.csv", STOCHASTIC.split(","), rows)
    write(tmp_path / "77_kernel_trace.csv", TRACE, [traced(1), traced(2, name="other")])
    found = get(tmp_path)
    first, second = found.samples
    assert first.place.text == "v_add v0, v1"
    assert first.place.comment == "a.py:7"
    assert first.place.process == 77
    assert first.place.offset is None
    assert found.shapes[first.place.shape or 0].name == NAME
    assert (first.method, first.count, first.issued) == ("stochastic", 4, 1)
    assert first.reasons == {"waitcnt": 2, "alu_dependency": 1}
    assert first.lanes == (16 + 8 + 8 + 8) / 4
    assert second.place.shape is not None
    assert found.shapes[second.place.shape].name == "other"
    assert not found.notes


def test_host_trap_samples_cannot_tell_what_was_issued(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [5, 2**64 - 1, 1, "s_endpgm", "", 1],
        [6, 0xF, 1, "s_endpgm", "", 1],
    ]
    write(tmp_path / "77_pc_sampling_host_trap.csv", TRAP.split(","), rows)
    (sample,) = (found := get(tmp_path)).samples
    assert (sample.method, sample.count, sample.issued) == ("host_trap", 2, None)
    assert (sample.lanes, sample.reasons) == (34.0, {})
    assert (sample.place.shape, sample.place.comment) == (None, None)
    assert any("no kernel trace" in note for note in found.notes)


def test_samples_of_two_processes_keep_their_kernels(tmp_path: Path) -> None:
    for process in (1, 2):
        write(tmp_path / f"{process}_kernel_trace.csv", TRACE, [traced(1, name=f"k{process}")])
        row: list[object] = [5, 1, 1, "s_endpgm", "", 1]
        write(tmp_path / f"{process}_pc_sampling_host_trap.csv", TRAP.split(","), [row])
    found = get(tmp_path)
    assert [found.shapes[one.place.shape or 0].name for one in found.samples] == ["k1", "k2"]


def test_a_damaged_mask_costs_its_samples_alone(tmp_path: Path) -> None:
    rows: list[list[object]] = [[5, "zz", 1, "a", "", 1], [6, 1, 1, "b", "", 1]]
    write(tmp_path / "77_pc_sampling_host_trap.csv", TRAP.split(","), rows)
    found = get(tmp_path)
    assert [one.place.text for one in found.samples] == ["b"]
    assert "1 of 2 rows" in found.errors[0].message


# ----------------------------------------------------------------------------------- recordings


def test_the_sdk_s_documentation() -> None:
    """16,384 waves a kernel; the ids of trace and counters are those of two processes."""
    found = get(samples("rocprofv3_csv") / "sdk-1.0.0-docs")
    assert [part.name for part in found.parts] == [
        "sdk-1.0.0-docs", "kernel_names", "kernel_trace_truncated"
    ]  # fmt: skip
    durations = [e - s for s, e in zip(found.dispatches.start, found.dispatches.end, strict=True)]
    # kernel_trace.csv, by hand: 1550151853042437 - 1550151853029637 and so on.
    assert durations[:4] == [12800, 11200, 11160, 8240]
    assert set(found.values.value) == {16384.0}
    assert found.counters == ("SQ_WAVES",)
    assert not found.errors
    with (samples("rocprofv3_csv") / "sdk-1.0.0-docs/kernel_names.csv").open(newline="") as file:
        named = list(csv.DictReader(file))
    # The trace's nine rows and the counters' four; every row of the others.
    assert Counter(found.dispatches.part) == {0: 13, 1: len(named), 2: 4}


@pytest.mark.parametrize("name", ["decode", "prefill"])
def test_recordings_of_gfx1151(name: str) -> None:
    """Every field is quoted. Compared with the csv module, row by row."""
    folder = samples("gfx1151-llamacpp")
    path = folder / f"{name}_kernel_trace.csv"
    found = get(path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(found.dispatches) == len(rows) > 50
    for at, row in enumerate(rows):
        shape = found.shapes[found.dispatches.shape[at]]
        assert shape.name == row["Kernel_Name"]
        assert str(shape.grid and shape.grid[0]) == row["Grid_Size_X"]
        assert str(shape.vgpr) == row["VGPR_Count"]
        assert str(found.dispatches.start[at]) == row["Start_Timestamp"]
        assert str(found.dispatches.end[at]) == row["End_Timestamp"]
        assert str(found.dispatches.number[at]) == row["Dispatch_Id"]
    assert not found.errors


@pytest.mark.parametrize("name", ["decode_stall", "decode_fetch", "prefill_stall", "prefill_fetch"])
def test_counters_of_gfx1151(name: str) -> None:
    path = samples("gfx1151-llamacpp") / f"{name}_counter_collection.csv"
    found = get(path)
    expected: dict[tuple[str, str], float] = defaultdict(float)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            expected[row["Dispatch_Id"], row["Counter_Name"]] += float(row["Counter_Value"])
    numbers = found.dispatches.number
    assert {(str(numbers[row]), name): v for (row, name), v in values(found).items()} == expected
    assert len(set(numbers)) == len(numbers)
    assert not found.errors


def test_devices_of_an_mi350x_machine() -> None:
    """Two CPUs, eight GPUs: 256 CUs of 4 SIMDs on 8 XCCs, 160 KiB of LDS, 2200 MHz."""
    found = get(samples("big_out_agent_info.csv"))
    gpus = [one for one in found.agents if one.kind == "gpu"]
    assert (len(found.agents), len(gpus)) == (10, 8)
    for gpu in gpus:
        assert (gpu.arch, gpu.cus, gpu.simds_per_cu, gpu.xccs) == ("gfx950", 256, 4, 8)
        assert (gpu.lds_bytes, gpu.clock_mhz, gpu.wave_size) == (160 * 1024, 2200, 64)


def test_recordings_of_rocprof() -> None:
    found = get(samples("legacy"))
    assert len(found.dispatches) == 1
    assert found.dispatches.end[0] - found.dispatches.start[0] == 7840  # its DurationNs
    shape = found.shapes[0]
    assert (shape.name, shape.vgpr, shape.accum_vgpr) == ("elementwise_kernel", 28, 4)
    assert sorted(top.total_ns for top in found.summary) == [5280, 10400]


@pytest.mark.parametrize(
    "name", ["pc_sampling_host_trap", "pc_sampling_host_trap_debug", "pc_sampling_stochastic_debug"]
)
def test_recorded_samples(name: str) -> None:
    path = samples(f"{name}.csv")
    found = get(path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = Counter((row["Instruction"], row["Instruction_Comment"]) for row in rows)
    counts = {(one.place.text, one.place.comment or ""): one.count for one in found.samples}
    assert counts == expected
    if "stochastic" in name:
        waits = sum(one.reasons.get("waitcnt", 0) for one in found.samples)
        stalled = [row for row in rows if row["Wave_Issued_Instruction"] == "0"]
        assert waits == sum(row["Stall_Reason"].endswith("WAITCNT") for row in stalled) > 0
        assert sum(one.issued or 0 for one in found.samples) == len(rows) - len(stalled)
